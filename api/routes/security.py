"""Routes of the brokers' listeners and of the ACLs."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service
from zabka.api.views import security
from zabka.api.views.security_models import Acls, ListenerView

router = APIRouter(prefix="/api/v1", tags=["security"])


@router.get("/listeners", summary="The listeners of the brokers", responses=responses())
async def get_listeners(service: Service) -> list[ListenerView]:
    """Return the listeners of the running brokers: address, protocol, SASL mechanisms, and certificate."""
    return security.listeners(service.views.broker_statuses())


@router.get("/acls", summary="The authorizer and the ACLs", responses=responses(401, 403, 503))
async def get_acls(service: Service) -> Acls:
    """Return the authorizer's class, its super users, and the ACLs that a broker knows.

    `authorizer` is null if no broker has one. When not on loopback, the call needs the token.
    """
    statuses = service.views.broker_statuses()
    if not statuses:
        raise Problem(503, "no broker reports its authorizer: none is running, or no host agent responds")
    return security.acls(statuses, await service.admin.acls() if security.has_authorizer(statuses) else ())

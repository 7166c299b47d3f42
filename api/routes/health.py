"""Routes for monitoring systems: liveness and readiness."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service
from zabka.api.views.models import Health, Ready

router = APIRouter(tags=["health"])

FRESH_MS = 100
"""Maximum time to wait for a node's current status. After that, the node's last status is used."""


@router.get("/healthz", summary="Liveness of this service", responses=responses())
async def healthz() -> Health:
    """Return 200 as long as the service responds."""
    return Health(status="ok")


@router.get("/readyz", summary="Readiness of the cluster", responses=responses(503))
async def readyz(service: Service) -> Ready:
    """Return 200 if there are a quorum and a controller and all running brokers are registered; otherwise 503."""
    fresh = await service.ensemble.read()
    missing = service.views.missing(fresh)
    if missing:
        # The statuses can be half a second old, so fetch new ones before returning 503.
        await service.agents.refresh(FRESH_MS)
        missing = service.views.missing(fresh)
    if missing:
        raise Problem(503, "; ".join(missing), missing=missing)
    return Ready(
        status="ready",
        quorum=True,
        controller=fresh.reading.controller.broker_id,
        brokers=sorted(fresh.reading.brokers),
    )

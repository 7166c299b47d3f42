"""Routes for machines: health and readiness."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service
from zabka.api.views.models import Health, Ready

router = APIRouter(tags=["health"])

FRESH_MS = 100
"""Maximum time that a node may take to report its status before its last status is used."""


@router.get("/healthz", summary="Liveness of this service", responses=responses())
async def healthz() -> Health:
    """Return 200 as long as the service responds."""
    return Health(status="ok")


@router.get("/readyz", summary="Readiness of the cluster", responses=responses(503))
async def readyz(service: Service) -> Ready:
    """Return 200 if there is a quorum and a controller and every running broker is registered; otherwise 503."""
    fresh = await service.ensemble.read()
    missing = service.views.missing(fresh)
    if missing:
        # Do not return 503 because of a status that is half a second old.
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

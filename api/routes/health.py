"""Routes for machines: health and readiness."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service
from zabka.api.views.models import Health, Ready

router = APIRouter(tags=["health"])

FRESH_MS = 100
"""So long a node may take to say how it is, before its last word counts."""


@router.get("/healthz", summary="This service runs", responses=responses())
async def healthz() -> Health:
    """200 for as long as the service answers at all."""
    return Health(status="ok")


@router.get("/readyz", summary="The cluster serves", responses=responses(503))
async def readyz(service: Service) -> Ready:
    """200 when a quorum serves, there is a controller and every running broker is registered; else 503."""
    fresh = await service.ensemble.read()
    missing = service.views.missing(fresh)
    if missing:
        # Nobody is refused for what a node said half a second ago.
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

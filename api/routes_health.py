"""Routes for machines: health, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api import metrics
from api.models import Health, Ready
from api.problems import Problem, responses
from api.services import Service

router = APIRouter(tags=["health"])


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
        raise Problem(503, "; ".join(missing), missing=missing)
    return Ready(
        status="ready",
        quorum=True,
        controller=fresh.reading.controller.broker_id,
        brokers=sorted(fresh.reading.brokers),
    )


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={**responses(), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(service: Service) -> Response:
    """The cluster under Kafka's and ZooKeeper's exporters' metric names."""
    fresh = await service.ensemble.read()
    views = service.views
    text = metrics.render(views.peers(), views.brokers(fresh), views.topics(fresh), service.collector)
    return Response(text, media_type=metrics.MEDIA_TYPE)

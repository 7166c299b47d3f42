"""The metrics route, which needs the dashboard's packages."""

from __future__ import annotations

from fastapi import APIRouter, Response

from zabka.api import metrics
from zabka.api.http.problems import responses
from zabka.api.services import Service

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={**responses(), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(service: Service) -> Response:
    """Return the cluster's metrics under the names of Kafka's and ZooKeeper's exporters."""
    fresh = await service.ensemble.read()
    views = service.views
    text = metrics.render(views.peers(), views.brokers(fresh), views.topics(fresh), service.collector, fresh)
    return Response(text, media_type=metrics.MEDIA_TYPE)

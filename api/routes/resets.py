"""Routes of resets of the live cluster."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from zabka.api.http.problems import responses
from zabka.api.scenarios.reset_models import NewReset, Reset
from zabka.api.services import Service

router = APIRouter(prefix="/api/v1/resets", tags=["cluster"])
_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"headers": {"Location": {"description": "Location of its state", "schema": {"type": "string"}}}}
}


@router.post(
    "",
    summary="Reset the cluster",
    status_code=202,
    responses={**responses(401, 403, 409, 422, 503), **_ACCEPTED},
)
async def reset_cluster(service: Service, response: Response, requested: NewReset | None = None) -> Reset:
    """Bring the cluster to a known state: no faults, all nodes running, no topics and no groups.

    In order: stop scripts and workloads, remove all faults, start or resume all nodes, and wait for the controller and
    all brokers. Then delete all topics except internal ones and `keep_topics`, and all groups except `keep_groups`;
    then elect preferred leaders. Settings, users, quotas, other znodes, the journal and stored runs stay as they are.
    """
    reset = service.resets.request(requested or NewReset())
    response.headers["location"] = f"/api/v1/resets/{reset.id}"
    return reset


@router.get("/{id}", summary="The state of a reset", responses=responses(404, 422))
async def get_reset(id: str, service: Service) -> Reset:
    """Return a reset with the state of each step. It ends at the first step that fails."""
    return service.resets.get(id)

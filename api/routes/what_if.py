"""Routes of what-if questions about the live cluster, and of courses: how likely a loss was in a stored run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Response

from zabka.api.http.problems import Problem, responses
from zabka.api.routes.faults import fault_views
from zabka.api.routes.runs import RunId
from zabka.api.scenarios.course_models import NewOutcomeCourse, OutcomeCourse
from zabka.api.scenarios.forecast_models import NewWhatIf, WhatIf
from zabka.api.scenarios.forecasts import live_state
from zabka.api.scenarios.runs import origin_of
from zabka.api.services import Service, Services
from zabka.api.views import admin_words
from zabka.simulation.mirror.live_state import ENSEMBLE_KEYS

router = APIRouter(prefix="/api/v1", tags=["what-if"])

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"headers": {"Location": {"description": "Location of its answer", "schema": {"type": "string"}}}}
}


@router.post(
    "/what-if",
    summary="Ask what would happen if a node died now",
    status_code=202,
    responses={**responses(401, 403, 404, 409, 422, 503), **_ACCEPTED},
)
async def post_what_if(requested: NewWhatIf, service: Service, response: Response) -> WhatIf:
    """Read the live state, and run futures of it in a simulated world in which the node dies.

    The cluster itself is not changed. The answer at `Location` grows with each future. No future begins after
    `budget_s` seconds, and the answer is complete when the last one has ended, at most 10 s later.
    """
    fresh = await service.ensemble.read()
    cluster = service.views.cluster(fresh, service.workloads.all(), await fault_views(service))
    broker, ensemble = await asyncio.gather(
        _broker_settings(service, cluster.controller.broker_id),
        admin_words.settings(service.settings.zookeeper_connect, ENSEMBLE_KEYS, service.ensemble_tls),
    )
    asked = service.forecasts.request(requested, live_state(cluster, ensemble, broker), cluster.seq)
    response.headers["Location"] = f"/api/v1/what-if/{asked.id}"
    return asked


async def _broker_settings(service: Services, broker_id: int) -> dict[str, str]:
    with suppress(Problem):
        return await service.admin.broker_settings(broker_id)
    return {}


@router.get("/what-if/{id}", summary="The answer to a what-if question", responses=responses(404, 422))
async def get_what_if(id: str, service: Service) -> WhatIf:
    """Return the distribution over the futures that have ended so far."""
    return service.forecasts.get(id)


@router.post(
    "/runs/{id}/outcome-course",
    summary="Play how likely a loss was over the time of a run",
    status_code=202,
    responses={**responses(401, 403, 404, 409, 422), **_ACCEPTED},
)
async def post_course(
    id: RunId, service: Service, response: Response, requested: NewOutcomeCourse | None = None
) -> OutcomeCourse:
    """Play futures from moments of a stored run of a seed, as `zabka what-if --every` does, in its own processes.

    Each future draws other random numbers from its moment on. Those of a fork have its changes up to their moment, and
    no later one. The plot at `Location` grows with each moment. The moments end before the first loss of the run. One
    course is played at a time.
    """
    run = service.runs.get(id)
    origin_of(run)
    state = await service.runs.rewind(id).state(None)
    end_us = min([run.last_us, *(loss.at_us for loss in state.losses)])
    response.headers["Location"] = f"/api/v1/runs/{id}/outcome-course"
    return service.courses.request(run, end_us, requested or NewOutcomeCourse())


@router.get(
    "/runs/{id}/outcome-course",
    summary="The course of a run",
    response_model=OutcomeCourse,
    responses={**responses(404, 422), 204: {"description": "No course of the run was requested"}},
)
async def get_course(id: RunId, service: Service) -> OutcomeCourse | Response:
    """Return the points that have been played so far."""
    service.runs.get(id)
    return service.courses.find(id) or Response(status_code=204)


@router.delete("/runs/{id}/outcome-course", summary="Stop a course", responses=responses(401, 403, 404, 409, 422))
async def stop_course(id: RunId, service: Service) -> OutcomeCourse:
    """End the processes that play the course; its points so far stay available. 409 if it has ended."""
    return await service.courses.stop(id)

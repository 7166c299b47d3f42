"""Routes of the outage library. A scenario runs in a simulated world, or on this cluster if requested."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from zabka.api.http.problems import Problem, responses
from zabka.api.scenarios.models import NewFork, NewScenarioRun, NewSeedRun, Scenario, ScenarioRun
from zabka.api.services import Service, Services
from zabka.journal.reader import decode_line

router = APIRouter(prefix="/api/v1", tags=["scenarios"])


@router.get("/scenarios", summary="The outage library", responses=responses(503))
async def get_scenarios(service: Service) -> list[Scenario]:
    """Return the outages of Kafka and ZooKeeper that the library reproduces; zabka must pass every scenario."""
    return [*(await service.scenarios.library()).values()]


_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"headers": {"Location": {"description": "Location of its run", "schema": {"type": "string"}}}}
}


@router.post(
    "/scenarios/{name}/runs",
    summary="Run a scenario",
    status_code=202,
    responses={**responses(401, 403, 404, 409, 422, 503), **_ACCEPTED},
)
async def run_scenario(
    name: str, service: Service, response: Response, requested: NewScenarioRun | None = None
) -> ScenarioRun:
    """Run a scenario in the simulated world, as `zabka scenarios run NAME --simulated` does, in its own process.

    Runs are executed one at a time. With `live`, the scenario runs on this cluster, as `zabka scenarios run NAME --on
    URL` does.
    """
    run = await service.scenarios.request(name, requested or NewScenarioRun())
    response.headers["location"] = f"/api/v1/scenario-runs/{run.id}"
    return run


@router.post(
    "/seeds/{seed}/runs",
    summary="Run a seed and store it",
    status_code=202,
    responses={**responses(401, 403, 409, 422), **_ACCEPTED},
)
async def run_seed(
    seed: Annotated[int, Path(ge=0, lt=1 << 63)],
    service: Service,
    response: Response,
    requested: NewSeedRun | None = None,
) -> ScenarioRun:
    """Run a seed in the simulated world, as `zabka replay --seed N` does, in its own process.

    Seeds and scenarios share one queue. After the run has ended, `kept` contains the id of the stored run.
    """
    run = service.scenarios.request_seed(seed, requested or NewSeedRun())
    response.headers["location"] = f"/api/v1/scenario-runs/{run.id}"
    return run


@router.post(
    "/runs/{id}/forks",
    summary="Fork a stored run of a seed",
    status_code=202,
    responses={**responses(401, 403, 404, 409, 422), **_ACCEPTED},
)
async def fork_run(id: str, service: Service, response: Response, requested: NewFork) -> ScenarioRun:
    """Play the run's seed again with a change from a moment on, as `zabka what-if --seed N` does, in its own process.

    The fork has the same history up to the moment, byte for byte. It is stored as `kept.bug`, with this run as its
    pair.
    """
    at_us = None if requested.at is None else _moment_us(service, id, requested.at)
    run = service.scenarios.request_fork(service.runs.get(id), at_us, requested)
    response.headers["location"] = f"/api/v1/scenario-runs/{run.id}"
    return run


def _moment_us(service: Services, run: str, seq: int) -> int:
    """Return the time in the simulated world just after an event.  Raises Problem 404."""
    found = service.runs.rewind(run).history.read(seq, 1)
    if not found or found[0].seq != seq:
        raise Problem(404, f"{run} has no event {seq}")
    return decode_line(found[0].json).mono_us + 1


@router.get("/scenario-runs/{id}", summary="The state of a scenario run", responses=responses(404, 422))
async def get_scenario_run(id: str, service: Service) -> ScenarioRun:
    """Return a run's state and, once the run has ended, its verdict and the story of what happened."""
    return service.scenarios.get(id)

"""Routes of the outage library. A scenario runs in a simulated world, or on this cluster if requested."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from zabka.api.http.problems import Problem, responses
from zabka.api.routes.runs import RunId
from zabka.api.scenarios.file_models import NewFileRun, RecordedScript
from zabka.api.scenarios.models import NewFork, NewScenarioRun, NewSeedRun, Scenario, ScenarioRun
from zabka.api.scenarios.recorded_script import recorded_script
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
    URL` does; 409 while a reset of the cluster runs.
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
    pair. The run can be a fork: the new fork has its changes, and this one, which must not lie before them.
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


@router.post(
    "/scenario-runs",
    summary="Run a scenario file",
    status_code=202,
    responses={**responses(401, 403, 409, 413, 422), **_ACCEPTED},
)
async def run_file(service: Service, response: Response, requested: NewFileRun) -> ScenarioRun:
    """Run a scenario from its file, on this cluster or in the simulated world, as `zabka scenarios run FILE` does.

    The file is a scenario of a whole cluster. Its first step of the type `At` starts its clock. If a step is not valid,
    or not possible on this cluster, the run ends with `error`. On this cluster, `begun` contains the steps so far.
    Afterwards the script's faults end, the nodes that it stopped start, and its own topics are deleted. 409 for a run
    on this cluster while a reset runs.
    """
    run = service.scenarios.request_file(requested)
    response.headers["location"] = f"/api/v1/scenario-runs/{run.id}"
    return run


@router.get("/scenario-runs", summary="The scenario runs that have not ended", responses=responses(422))
async def get_scenario_runs(
    service: Service, live: Annotated[bool, Query(description="Only runs on this cluster")] = False
) -> list[ScenarioRun]:
    """Return the queued and running runs of scenarios and seeds, in the order of their requests."""
    return service.scenarios.live_runs() if live else service.scenarios.unfinished_runs()


@router.delete(
    "/scenario-runs/{id}", summary="Stop a scenario run", status_code=202, responses=responses(401, 403, 404, 409, 422)
)
async def stop_run(id: str, service: Service) -> ScenarioRun:
    """Stop a queued or running run. A run on this cluster restores the cluster, then ends; 409 if it has ended."""
    return await service.scenarios.stop(id)


@router.get(
    "/runs/{id}/script",
    summary="The faults of a run as a scenario file",
    responses=responses(404, 409, 410, 422),
    response_model_exclude_unset=True,
)
async def get_script(
    id: RunId,
    service: Service,
    from_us: Annotated[int, Query(alias="from", ge=0, le=2**63, description="In microseconds, like `wall_us`")],
    to_us: Annotated[int, Query(alias="to", ge=0, le=2**63, description="In microseconds")],
    name: Annotated[str, Query(pattern=r"^[a-z0-9][a-z0-9.-]{0,99}$", description="Name of the scenario")] = "recorded",
    topics: Annotated[bool, Query(description="Create the cluster's topics first")] = True,
) -> RecordedScript:
    """Return the faults that were injected by hand between two times as a scenario file.

    Recorded are link faults and actions on processes, of the live cluster or of an uploaded journal. Faults of other
    scenarios are not.
    """
    about = service.runs.get(id)
    if about.kind in ("scenario", "seed"):
        raise Problem(409, f"{id} is a run of a simulated world: {about.replay or 'its seed'} repeats its faults")
    return await recorded_script(service, id, from_us, to_us, name, with_topics=topics)


@router.get("/scenario-runs/{id}", summary="The state of a scenario run", responses=responses(404, 422))
async def get_scenario_run(id: str, service: Service) -> ScenarioRun:
    """Return a run's state and, once the run has ended, its verdict and the story of what happened."""
    return service.scenarios.get(id)

"""Routes of the time machine: the list of runs, and the state, events and spans of a run at any time."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from zabka.api.collector import event_models as events
from zabka.api.http.problems import Problem, responses
from zabka.api.runs.divergences import divergence
from zabka.api.runs.incident_list import incidents_of
from zabka.api.runs.lanes import encoded
from zabka.api.runs.pages import EventFilter, first_after, last_until
from zabka.api.runs.run_models import Divergence, IncidentView, Run, SpansView, StateAt, WhyStep
from zabka.api.services import Service

router = APIRouter(prefix="/api/v1", tags=["runs"])
UPLOADS = "/api/v1/runs"
"""Path that accepts larger request bodies than all other paths."""

RunId = Annotated[str, Path(description="`live`, or the id of a stored run", examples=["live"])]
Types = Annotated[str, Query(max_length=2000, description="Comma-separated, such as `controller_elected,isr_changed`")]
_ETAG = {"ETag": {"description": "Identifies this response for If-None-Match", "schema": {"type": "string"}}}
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Not modified (If-None-Match)"}}


def lasting(request: Request, body: bytes) -> Response:
    """Return a cacheable response whose ETag is a hash of the body, so that an unchanged body is not sent again."""
    name = f'W/"{sha256(body).hexdigest()[:24]}"'
    headers = {"etag": name, "cache-control": "private, no-cache"}
    known = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    if name in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@router.get("/runs", summary="Every run", responses=responses())
async def get_runs(service: Service) -> list[Run]:
    """Return the run of the live cluster, then the stored runs, newest first."""
    return service.runs.all()


@router.post(
    "/runs",
    summary="Upload a journal",
    status_code=201,
    responses={
        **responses(401, 403, 413, 422, 503),
        201: {"headers": {"Location": {"description": "Where the run is", "schema": {"type": "string"}}}},
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "description": "JSON Lines, one event per line"},
                    "example": '{"schema":1,"node":"peer-1","node_seq":1,"wall_us":1700000000000000,"mono_us":0,'
                    '"type":"epoch_accepted","accepted_epoch":1}\n',
                }
            },
        }
    },
)
async def post_run(
    service: Service,
    request: Request,
    response: Response,
    name: Annotated[str, Query(min_length=1, max_length=200, description="Name of the run")] = "upload",
) -> Run:
    """Store an uploaded journal as a run.

    The body is one node's files, several nodes' files concatenated, or the output of `zabka replay --out`. If a line is
    not an event of this version's schema, the whole upload is rejected; `errors` lists such lines. If the lines are not
    merged yet, they are ordered by the nodes' clocks.
    """
    run = await service.runs.uploads.keep_history(await request.body(), name)
    response.headers["location"] = f"{UPLOADS}/{run.id}"
    return run


@router.get("/runs/{id}", summary="One run", responses=responses(404, 422))
async def get_run(id: RunId, service: Service) -> Run:
    """Return one run's description."""
    return service.runs.get(id)


@router.delete(
    "/runs/{id}",
    summary="Delete a stored run",
    status_code=204,
    response_class=Response,
    responses=responses(401, 403, 404, 409, 422),
)
async def delete_run(id: RunId, service: Service) -> Response:
    """Delete a stored run and its files."""
    service.runs.delete(id)
    return Response(status_code=204)


@router.get(
    "/runs/{id}/state",
    summary="The state at any moment",
    response_model=StateAt,
    responses={**responses(404, 410, 422), **_UNCHANGED, 200: {"headers": _ETAG}},
)
async def get_state(
    id: RunId,
    service: Service,
    request: Request,
    at: Annotated[
        int | None, Query(ge=0, le=2**63, description="The state after this event; default: after the last")
    ] = None,
) -> Response:
    """Return the state after the run's events up to `at`. Return 410 if some of these events are no longer stored."""
    state = await service.runs.rewind(id).state(at)
    return lasting(request, msgspec.json.encode({"seq": state.seq, "at_us": state.at_us, "state": state}))


@router.get(
    "/runs/{id}/journal",
    summary="Some of a run's events",
    response_class=Response,
    responses={
        **responses(404, 410, 422),
        **_UNCHANGED,
        200: {
            **events.ARRAY,
            "headers": {
                **_ETAG,
                "X-Looked-Through": {
                    "description": "The number up to which, or with `until` alone back to which, events were looked "
                    "through: there the next page begins",
                    "schema": {"type": "integer"},
                },
            },
        },
    },
)
async def get_run_journal(
    id: RunId,
    service: Service,
    request: Request,
    after: Annotated[int | None, Query(ge=0, le=2**63, description="The first events after this number")] = None,
    until: Annotated[
        int | None, Query(ge=0, le=2**63, description="Up to this number; without `after`, the last events up to it")
    ] = None,
    types: Types = "",
    not_types: Types = "",
    limit: Annotated[int, Query(ge=1, le=events.LIMIT_MAX)] = events.LIMIT_DEFAULT,
) -> Response:
    """Return up to `limit` events of the requested types, in order, each with its number."""
    history = service.runs.rewind(id).history
    requested = EventFilter(frozenset(types.split(",")) if types else None, frozenset(not_types.split(",")))
    if until is not None and after is None:
        page = await last_until(history, until, requested, limit)
    else:
        page = await first_after(history, after or 0, until, requested, limit)
    answer = lasting(request, events.array(page.events))
    answer.headers["x-looked-through"] = str(page.through)
    return answer


@router.get(
    "/runs/{id}/spans",
    summary="Spans of time by state",
    response_model=SpansView,
    responses={**responses(404, 410, 422), **_UNCHANGED, 200: {"headers": _ETAG}},
)
async def get_spans(
    id: RunId,
    service: Service,
    request: Request,
    from_us: Annotated[
        int | None, Query(alias="from", ge=0, le=2**63, description="In microseconds, like `wall_us`")
    ] = None,
    to_us: Annotated[int | None, Query(alias="to", ge=0, le=2**63, description="In microseconds")] = None,
    bins: Annotated[
        int | None,
        Query(ge=1, le=100_000, description="Number of parts: the spans of a row within one part are merged"),
    ] = None,
    lanes: Annotated[
        str,
        Query(
            max_length=20_000,
            description="Only these lanes, names or kinds, comma-separated: `controller,isr:orders-0`",
        ),
    ] = "",
) -> Response:
    """Return controller terms, beliefs, ISRs, peers, processes and faults as spans between two times.

    Without limits, return the spans of the whole run. A span is the longest sequence of events during which a value of
    the folded state stays the same.
    """
    if from_us is not None and to_us is not None and to_us < from_us:
        raise Problem(422, f"to ({to_us}) is before from ({from_us})")
    lasted = await service.runs.rewind(id).spans(from_us, to_us)
    requested = [each for each in lanes.split(",") if each]
    # Encoding hundreds of thousands of spans takes seconds, so it runs in a thread.
    return lasting(request, await asyncio.to_thread(encoded, lasted, requested, bins))


@router.get(
    "/runs/{id}/why",
    summary="Why something happened",
    response_model=list[WhyStep],
    responses={**responses(404, 410, 422), **_UNCHANGED, 200: {"headers": _ETAG}},
)
async def get_why(
    id: RunId,
    service: Service,
    request: Request,
    seq: Annotated[int, Query(ge=1, le=2**63, description="The event to explain")],
) -> Response:
    """Return an event's chain of causes, effect first, back to the fault, request, timer or start that caused it.

    The causes are taken from the references in the events and never guessed.
    """
    return lasting(request, msgspec.json.encode(await service.runs.whys(id).why(seq)))


@router.get(
    "/runs/{id}/incidents",
    summary="The incidents of a run",
    response_model=list[IncidentView],
    responses={**responses(404, 422), **_UNCHANGED, 200: {"headers": _ETAG}},
)
async def get_incidents(id: RunId, service: Service, request: Request) -> Response:
    """Return the incidents among the last events of a run, as `zabka pipeline show incidents` reports them."""
    return lasting(request, msgspec.json.encode(await incidents_of(service.runs.rewind(id).history)))


@router.get(
    "/runs/{id}/divergence",
    summary="The first difference of two runs",
    response_model=Divergence,
    responses={**responses(404, 422), **_UNCHANGED, 200: {"headers": _ETAG}},
)
async def get_divergence(
    id: RunId,
    service: Service,
    request: Request,
    other: Annotated[str, Query(alias="from", max_length=100, description="The other run; `b` in the response")],
) -> Response:
    """Return the first event that occurs in only one of the two runs and that leads to another outcome.

    For very long runs, and for runs with the same outcome, return the first event that differs.
    """
    return lasting(request, msgspec.json.encode(await divergence(service.runs, id, other)))

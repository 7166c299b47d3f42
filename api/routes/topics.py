"""Routes of topics, their configuration, leader elections and workloads. All use Kafka's protocol."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Response
from pydantic import BeforeValidator

from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service, Services
from zabka.api.views.ensemble_view import Reading
from zabka.api.views.models import ElectionResult, NewElection, NewTopic, NewWorkload, Text, Topic, Workload, as_texts
from zabka.journal.events import TopicPartition

router = APIRouter(prefix="/api/v1")

SETTLE_S = 5.0
FRESH_MS = 200
_SETTLE_POLL_S = 0.05
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def _check_name(name: str) -> None:
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise Problem(422, f"{name!r} is not a topic name: letters, digits, '.', '_' and '-', at most 249")


async def _quorum(service: Services) -> None:
    """Reject changes while there is no quorum.

    Otherwise the controller would queue a request and execute it after the client has given up.
    """
    if not await service.ensemble.serving():
        raise Problem(503, "no quorum: nothing can be changed now")


async def _settled(service: Services, done: Callable[[Reading], bool]) -> bool:
    """Read the ensemble until `done` returns True for a reading. Return False on timeout."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        fresh = await service.ensemble.read(at_most_old_s=0)
        if not fresh.stale and done(fresh.reading):
            return True
        await asyncio.sleep(_SETTLE_POLL_S)
    return False


@router.get("/topics", tags=["topics"], summary="The topics", responses=responses())
async def get_topics(service: Service) -> list[Topic]:
    """Return every topic with its partitions."""
    return service.views.topics(await service.ensemble.read())


@router.post(
    "/topics",
    tags=["topics"],
    summary="Create a topic",
    status_code=201,
    responses=responses(401, 403, 409, 422, 503),
)
async def create_topic(topic: NewTopic, service: Service) -> Topic:
    """Create a topic from counts of partitions and replicas or from an assignment. Return once it is initialized."""
    _check_name(topic.name)
    await _quorum(service)
    await service.admin.create_topic(topic)

    def made(reading: Reading) -> bool:
        found = reading.topics.get(topic.name)
        return found is not None and all(p.partition_epoch >= 0 for p in found.partitions.values())

    await _settled(service, made)
    await service.agents.refresh(FRESH_MS)
    return service.views.topic(topic.name, await service.ensemble.read())


@router.get("/topics/{topic}", tags=["topics"], summary="One topic", responses=responses(404, 422, 503))
async def get_topic(topic: str, service: Service) -> Topic:
    """Return one topic with its partitions."""
    return service.views.topic(topic, await service.ensemble.read())


@router.delete(
    "/topics/{topic}",
    tags=["topics"],
    summary="Delete a topic",
    status_code=204,
    response_class=Response,
    responses={
        202: {"description": "Marked for deletion; it is deleted once every broker with a replica is back"},
        **responses(401, 403, 404, 409, 422, 503),
    },
)
async def delete_topic(topic: str, service: Service) -> Response:
    """Delete a topic. Return 204 once it is deleted, or 202 while a broker with a replica is down."""
    _check_name(topic)
    await _quorum(service)
    await service.admin.delete_topic(topic)
    gone = await _settled(service, lambda reading: topic not in reading.topics)
    return Response(status_code=204 if gone else 202)


@router.patch(
    "/topics/{topic}/config",
    tags=["topics"],
    summary="Change a topic's configuration",
    responses=responses(401, 403, 404, 422, 503),
)
async def patch_topic_config(
    topic: str,
    changes: Annotated[
        dict[Text, Text | bool | int | float | None],
        BeforeValidator(as_texts),
        Body(examples=[{"unclean.leader.election.enable": "true"}]),
    ],
    service: Service,
) -> Topic:
    """Set a topic's configuration overrides; null removes an override.

    An unknown key or an invalid value causes all changes to be rejected.
    """
    _check_name(topic)
    requested: dict[str, Any] = changes
    await _quorum(service)

    def made(reading: Reading) -> bool:
        found = reading.topics.get(topic)
        return found is not None and all(found.config.get(k) == v for k, v in requested.items())

    if requested:
        await service.admin.alter_topic_config(topic, requested)
        await _settled(service, made)
    return service.views.topic(topic, await service.ensemble.read())


@router.post(
    "/elections",
    tags=["topics"],
    summary="Trigger leader elections",
    responses=responses(401, 403, 422, 503),
)
async def hold_elections(election: NewElection, service: Service) -> list[ElectionResult]:
    """Run a leader election for each partition and return one result per partition.

    PREFERRED elects the first replica; UNCLEAN elects a replica outside the ISR if no replica of the ISR is alive.
    """
    partitions = None
    if election.partitions is not None:
        partitions = [TopicPartition(p.topic, p.partition) for p in election.partitions]
    await _quorum(service)
    return await service.admin.elect(election.type, partitions)


@router.get("/workloads", tags=["workloads"], summary="The workloads", responses=responses())
async def get_workloads(service: Service) -> list[Workload]:
    """Return the producers and consumers that the API process runs."""
    return service.workloads.all()


@router.post(
    "/workloads",
    tags=["workloads"],
    summary="Start a workload",
    status_code=201,
    responses=responses(401, 403, 404, 422, 503),
)
async def create_workload(workload: NewWorkload, service: Service) -> Workload:
    """Start a workload.

    The kinds are a group consumer, a transactional producer, a read-process-write loop, and a producer that also reads
    its records back to count acknowledged and lost ones.
    """
    _check_name(workload.topic)
    if workload.output is not None:
        _check_name(workload.output)
    return await service.workloads.create(workload)


@router.get("/workloads/{id}", tags=["workloads"], summary="One workload", responses=responses(404, 422))
async def get_workload(id: str, service: Service) -> Workload:
    """Return one workload and its counts."""
    return service.workloads.get(id)


@router.delete(
    "/workloads/{id}", tags=["workloads"], summary="Stop a workload", responses=responses(401, 403, 404, 422)
)
async def delete_workload(id: str, service: Service) -> Workload:
    """Stop a workload and return its last report."""
    return await service.workloads.delete(id)

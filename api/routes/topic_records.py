"""Routes of the sizes of topics, and of the records of a partition."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service
from zabka.api.views.records import RECORDS_MAX, records_view
from zabka.api.views.topic_models import Records, TopicSizes
from zabka.journal.events import TopicPartition

router = APIRouter(prefix="/api/v1", tags=["topics"])

INT64_MAX = (1 << 63) - 1


@router.get("/topic-sizes", summary="Sizes and rates of the topics", responses=responses())
async def get_topic_sizes(service: Service) -> TopicSizes:
    """Return the records and bytes of every partition with their rates, and the ongoing reassignments.

    The brokers are asked when this route is called, at most once per second. The rates compare this reading with the
    oldest one of the last ten seconds.
    """
    return await service.topic_sizes.all()


@router.get(
    "/topics/{topic}/{partition}/records",
    summary="Records of a partition",
    responses=responses(401, 404, 416, 422, 503),
)
async def get_records(
    topic: str,
    partition: Annotated[int, Path(ge=0, le=(1 << 31) - 1)],
    service: Service,
    from_offset: Annotated[
        int | None, Query(alias="from", ge=0, le=INT64_MAX, description="Default: the last records")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=RECORDS_MAX)] = 20,
) -> Records:
    """Return records of a partition, with keys, headers, and the outcome of their transactions.

    A response contains at most 1 MiB of data, and 10 KiB of each key and value. When not on loopback, the call needs
    the token.
    """
    found = service.views.topic(topic, await service.ensemble.read())
    if all(row.partition != partition for row in found.partitions):
        last = len(found.partitions) - 1
        raise Problem(404, f"there is no partition {topic}-{partition}; partitions are 0 to {last}")
    name = TopicPartition(topic, partition)
    return records_view(name, await service.admin.records(name, from_offset, limit))

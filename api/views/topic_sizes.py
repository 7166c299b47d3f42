"""Sizes and rates of topics, as the brokers return them over Kafka's protocol."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from zabka.api.views.models import SilentBroker
from zabka.api.views.topic_models import PartitionSizeView, Reassignment, TopicSize, TopicSizes
from zabka.journal.events import TopicPartition
from zabka.kafka.client.reassignment_client import Ongoing
from zabka.kafka.client.topic_reading import PartitionSize, TopicReading

ReadTopics = Callable[[], Awaitable[TopicReading]]
N = TypeVar("N", int, float)

CACHE_S = 1.0
RATE_S = 10.0
"""Maximum age of the earlier reading that a rate is computed from."""


class _Taken(NamedTuple):
    """A reading, and the time before it."""

    reading: TopicReading
    at_s: float


class TopicSizesView:
    """The sizes of all topics. Requests within CACHE_S, and concurrent requests, share one reading."""

    def __init__(self, read: ReadTopics, now_s: Callable[[], float] = time.monotonic) -> None:
        self._read_topics = read
        self._now_s = now_s
        self._taken: deque[_Taken] = deque()
        self._under_way: asyncio.Task[None] | None = None

    async def all(self) -> TopicSizes:
        """Return the size and rate of every topic."""
        if not self._taken or self._now_s() - self._taken[-1].at_s >= CACHE_S:
            if self._under_way is None:
                self._under_way = asyncio.create_task(self._look())
                self._under_way.add_done_callback(self._looked)
            await asyncio.shield(self._under_way)
        return _sizes(self._taken[0], self._taken[-1])

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._under_way = None

    async def _look(self) -> None:
        began_s = self._now_s()
        self._taken.append(_Taken(await self._read_topics(), began_s))
        while len(self._taken) > 1 and self._taken[0].at_s < began_s - RATE_S:
            self._taken.popleft()


def _sizes(before: _Taken, now: _Taken) -> TopicSizes:
    reading, passed_s = now.reading, now.at_s - before.at_s
    topics: dict[str, list[PartitionSizeView]] = {}
    for name, size in reading.partitions.items():
        earlier = before.reading.partitions.get(name) if passed_s > 0 else None
        topics.setdefault(name.topic, []).append(_partition(name, size, earlier, passed_s))
    ongoing = reading.ongoing
    return TopicSizes(
        topics=[_topic(name, rows) for name, rows in topics.items()],
        reassignments=None
        if ongoing is None
        else [_reassignment(name, each, reading.partitions.get(name)) for name, each in ongoing.items()],
        silent_brokers=[SilentBroker(broker_id=id, reason=reason) for id, reason in sorted(reading.silent.items())],
        problem=reading.problem or None,
    )


def _partition(
    name: TopicPartition, size: PartitionSize, earlier: PartitionSize | None, passed_s: float
) -> PartitionSizeView:
    first, end, log = size.first_offset, size.end_offset, size.sizes_bytes.get(size.leader)
    moved = earlier is None or earlier.leader != size.leader
    return PartitionSizeView(
        partition=name.partition,
        leader=size.leader,
        first_offset=first,
        end_offset=end,
        records=None if first is None or end is None else end - first,
        records_per_s=None if earlier is None else _rate(earlier.end_offset, end, passed_s),
        bytes=log,
        bytes_per_s=None if moved or earlier is None else _rate(earlier.sizes_bytes.get(size.leader), log, passed_s),
        replica_bytes={str(broker): size_bytes for broker, size_bytes in sorted(size.sizes_bytes.items())},
    )


def _rate(before: int | None, now: int | None, passed_s: float) -> float | None:
    """Return the increase per second, or None if a value is unknown or has become smaller."""
    if before is None or now is None or now < before:
        return None
    return round((now - before) / passed_s, 1)


def _topic(name: str, rows: list[PartitionSizeView]) -> TopicSize:
    return TopicSize(
        name=name,
        records=_sum(row.records for row in rows),
        records_per_s=_sum(row.records_per_s for row in rows),
        bytes=_sum(row.bytes for row in rows),
        bytes_per_s=_sum(row.bytes_per_s for row in rows),
        stored_bytes=sum(sum(row.replica_bytes.values()) for row in rows),
        partitions=rows,
    )


def _sum(values: Iterable[N | None]) -> N | None:
    """Return the sum, or None if a value is unknown."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


def _reassignment(name: TopicPartition, ongoing: Ongoing, size: PartitionSize | None) -> Reassignment:
    sizes = {} if size is None else size.sizes_bytes
    whole = None if size is None else sizes.get(size.leader)

    def copied(broker: int) -> float | None:
        if whole is None or broker not in sizes:
            return None
        return 1.0 if whole == 0 else round(min(1.0, sizes[broker] / whole), 3)

    return Reassignment(
        topic=name.topic,
        partition=name.partition,
        replicas=list(ongoing.replicas),
        adding=list(ongoing.adding),
        removing=list(ongoing.removing),
        copied={str(broker): copied(broker) for broker in ongoing.adding},
    )

"""Injected bugs of a broker.

They affect the state of groups, or are visible only in the broker's own log or exit code.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from tests.simulation.injecting import broken
from zabka.broker_sim.broker import Broker
from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.configs.replica_config import PartitionConfig, ReplicaConfig
from zabka.broker_sim.groups.log import GroupLog
from zabka.broker_sim.groups.offsets import StoredOffset
from zabka.broker_sim.groups.records import OffsetKey
from zabka.broker_sim.groups.store import GroupStore
from zabka.broker_sim.handlers.offsets import OffsetHandlers
from zabka.broker_sim.logs import log_manager
from zabka.broker_sim.ports import ProducedPartition
from zabka.broker_sim.request_context import RequestContext
from zabka.kafka.ports import KafkaMessage

COMMITS, STARTS = 20, 5


@contextmanager
def a_commit_of_offsets_fails_by_a_mistake() -> Iterator[None]:
    """Injected bug: one in COMMITS offset commits fails with an internal error.

    The client is disconnected and retries.
    """
    offset_commit, numbers = OffsetHandlers.offset_commit, count(1)

    async def mistaken(self: OffsetHandlers, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        if next(numbers) % COMMITS == 0:
            raise KeyError("orders")
        return await offset_commit(self, request, context)

    with broken(OffsetHandlers, offset_commit=mistaken):
        yield


@contextmanager
def a_broker_uses_a_descriptor_that_it_has_closed() -> Iterator[None]:
    """Injected bug: in one of STARTS starts, a broker uses a file descriptor that it has closed.

    The broker exits, and its supervisor starts it again.
    """
    start, numbers = Broker.start, count(1)

    async def mistaken(self: Broker, advertised: Sequence[Listener] | None = None) -> None:
        if next(numbers) % STARTS == 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        await start(self, advertised)

    with broken(Broker, start=mistaken):
        yield


@contextmanager
def commits_of_offsets_do_not_wait() -> Iterator[None]:
    """Injected bug: the coordinator replies to an offset commit as soon as its own log contains it.

    Kafka behaves like this with offsets.commit.required.acks=1.
    """

    def append(
        self: GroupStore, group_id: str, records: list[tuple[bytes, bytes | None]]
    ) -> Awaitable[list[ProducedPartition]]:
        return self._replicas.produce([(self._partition_of(group_id), self._batch(records))], 1, 0)

    with broken(GroupStore, _append=append):
        yield


@contextmanager
def the_first_commit_counts() -> Iterator[None]:
    """Injected bug: a coordinator that loads its log uses the first committed offset of a partition, not the last."""
    take_offset = GroupLog._take_offset

    def first(self: GroupLog, key: OffsetKey, stored: StoredOffset | None) -> None:
        if key.topic_partition not in self._offsets.get(key.group_id, {}):
            take_offset(self, key, stored)

    with broken(GroupLog, _take_offset=first):
        yield


@contextmanager
def a_topics_minimum_is_not_read() -> Iterator[None]:
    """Injected bug: brokers use their own min.insync.replicas even if a topic overrides it."""
    partition_config = log_manager.partition_config

    def deaf(config: ReplicaConfig, overrides: Mapping[str, str]) -> PartitionConfig:
        return replace(partition_config(config, overrides), min_insync_replicas=config.min_insync_replicas)

    with broken(log_manager, partition_config=deaf):
        yield

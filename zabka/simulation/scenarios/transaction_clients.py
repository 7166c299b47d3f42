"""Transactional clients of a script: producers, each on its own machine, and read_committed reads."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from zabka.ensemble.ports import Runtime
from zabka.journal.checkers.kafka_analysis import KafkaHistory, Sent
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client import Isolation
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.transactional_producer import TransactionalProducer
from zabka.kafka.ports import ChannelBroken
from zabka.kafka.record_batch import Record
from zabka.simulation.scenarios.kafka_clients import OK, PATIENCE_MS, UNAVAILABLE


class CommittedRead(NamedTuple):
    """Values that a read_committed consumer received, the offset at which it stopped, and the high watermark."""

    values: tuple[str, ...]
    end: int
    high_watermark: int


async def read_committed(admin: AdminClient, partition: TopicPartition) -> CommittedRead:
    """Read a partition from offset 0 with isolation.level=read_committed, up to the last stable offset."""
    values: list[str] = []
    position = 0
    while True:
        fetched = await admin.fetch(
            partition, position, max_wait_ms=1, timeout_ms=PATIENCE_MS, isolation=Isolation.READ_COMMITTED
        )
        values += [(record.value or b"").decode() for record in fetched.records]
        if fetched.next_offset == position:
            return CommittedRead(tuple(values), position, fetched.high_watermark)
        position = fetched.next_offset


class ScriptedProducer:
    """A producer with a transactional id. Its records have the values `NAME:1`, `NAME:2` and so on."""

    def __init__(
        self, name: str, admin: AdminClient, runtime: Runtime, transactional_id: str, history: KafkaHistory
    ) -> None:
        self._name = name
        self._history = history
        self._runtime = runtime
        self._producer = TransactionalProducer(admin, runtime, transactional_id)
        self._sent = 0

    async def start(self) -> str:
        """Send InitProducerId to get a producer id and epoch. Return `ok`, an error's name, or `unavailable`."""
        return await _outcome(self._producer.begin())

    async def send(self, partition: TopicPartition) -> str:
        """Send the next record in the transaction. Return `ok`, an error's name, or `unavailable`."""
        self._sent += 1
        value, now = f"{self._name}:{self._sent}", self._runtime.now()
        # Store the record as unacknowledged: it is acknowledged only when the transaction is committed.
        self._history.sent.append(Sent(self._name, str(partition), value, now.mono_ms * 1000, now.mono_ms * 1000, None))
        return await _outcome(self._producer.send(partition, [Record(None, value.encode(), now.wall_ms)]))

    async def end(self, *, commit: bool) -> str:
        """Commit or abort the transaction. Return `ok`, an error's name, or `unavailable`."""
        return await _outcome(self._producer.end(commit=commit))


async def _outcome(work: Awaitable[object]) -> str:
    try:
        await work
    except KafkaRequestFailed as refused:
        return refused.error.name
    except (KafkaUnavailable, ChannelBroken):
        return UNAVAILABLE
    return OK

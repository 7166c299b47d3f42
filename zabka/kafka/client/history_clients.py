"""A producer and a consumer that record what they observe, for `zabka.journal.checkers.kafka_analysis` to check.

They are pure coroutines over a `KafkaClient`, so simulated and real clusters are checked with the same kind of history.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.checkers.kafka_analysis import ACKS_ALL, KafkaHistory, Polled, Read, Sent
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.record_batch import Record

PAUSE_MS = 100
POLL_MS = 250
RETRY_MS = 200
CREATE_TIMEOUT_MS = 5_000
PRODUCE_TIMEOUT_MS = 4_000
FETCH_TIMEOUT_MS = 2_000
EARLIEST = -2

_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


class TopicPlan(NamedTuple):
    """A topic that the clients create and write to. `configs` are its config overrides."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


async def create_topic(client: AdminClient, runtime: Runtime, topic: TopicPlan) -> None:
    """Create a topic unless it exists. Retry until the controller replies."""
    while True:
        try:
            await client.create_topic(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                configs=topic.configs,
                timeout_ms=CREATE_TIMEOUT_MS,
            )
            return
        except KafkaRequestFailed as refused:
            if refused.error is ErrorCode.topic_already_exists:
                return
        except KafkaUnavailable:
            pass
        await runtime.sleep(RETRY_MS)


class HistoryProducer:
    """Creates the topic, then sends records one by one to its partitions in turn, as an idempotent producer.

    Each value is sent once. If a send fails, the value may be in the log nevertheless.
    """

    def __init__(
        self, client: AdminClient, runtime: Runtime, topic: TopicPlan, history: KafkaHistory, pause_ms: int = PAUSE_MS,
        acks: int = ACKS_ALL,
    ) -> None:  # fmt: skip
        self.acknowledged = 0
        self.done = False
        self._client = client
        self._runtime = runtime
        self._topic = topic
        self._history = history
        self._pause_ms = pause_ms
        self._acks = acks
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._sent = 0

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Run until `stopping` returns True; then set `done`."""
        await create_topic(self._client, self._runtime, self._topic)
        while not stopping():
            await self._send()
            await self._runtime.sleep(self._pause_ms)
        self.done = True

    async def _send(self) -> None:
        if self._identity is None:
            with suppress(*_FAILURES):
                self._identity = await self._client.init_producer_id(timeout_ms=PRODUCE_TIMEOUT_MS)
                self._sequences.clear()
            if self._identity is None:
                return
        name = TopicPartition(self._topic.name, self._sent % self._topic.partitions)
        self._sent += 1
        value = f"{self._topic.name}:{self._sent}"
        identity, sequence = self._identity, self._sequences.get(name, 0)
        began_us = self._now_us()
        offset = None
        try:
            offset = await self._client.produce(
                name,
                [Record(key=None, value=value.encode(), timestamp_ms=self._runtime.now().wall_ms)],
                acks=self._acks,
                timeout_ms=PRODUCE_TIMEOUT_MS,
                producer=(*identity, sequence),
            )
        except _FAILURES:
            # The record may be in the log, so its sequence number must not be used for another record.
            self._identity = None
        if offset is not None:
            self._sequences[name] = sequence + 1
            self.acknowledged += 1
        self._history.sent.append(
            Sent(str(identity), str(name), value, began_us, self._now_us(), offset, acks=self._acks)
        )

    def _now_us(self) -> int:
        return self._runtime.now().mono_ms * 1000


class HistoryConsumer:
    """Reads every partition of the topic, each from the last position to the end of its log."""

    def __init__(
        self,
        client: AdminClient,
        runtime: Runtime,
        topic: TopicPlan,
        history: KafkaHistory,
        is_final: Callable[[], bool],
        is_end: Callable[[TopicPartition, int], bool],
    ) -> None:
        """Create a consumer that stops when it has read every partition to its end.

        `is_final` returns whether the last record was sent. `is_end` returns whether a partition has no records at or
        after an offset.
        """
        self.done = False
        self._client = client
        self._runtime = runtime
        self._history = history
        self._is_final = is_final
        self._is_end = is_end
        self._positions = {TopicPartition(topic.name, number): 0 for number in range(topic.partitions)}
        self._assignments = dict.fromkeys(self._positions, 1)

    async def run(self) -> None:
        """Run until every partition was read to its end; then set `done`."""
        ended: dict[TopicPartition, None] = {}
        while len(ended) < len(self._positions):
            await self._runtime.sleep(POLL_MS)
            for name in self._positions:
                if name not in ended and await self._poll(name):
                    ended[name] = None
        self.done = True

    async def _poll(self, name: TopicPartition) -> bool:
        """Read the next records of a partition; return whether it was read to its end."""
        final = self._is_final()
        position = self._positions[name]
        began_us = self._runtime.now().mono_ms * 1000
        try:
            fetched = await self._client.fetch(name, position, max_wait_ms=1, timeout_ms=FETCH_TIMEOUT_MS)
        except KafkaRequestFailed as refused:
            if refused.error is ErrorCode.offset_out_of_range:
                await self._begin_again(name)
            return False
        except KafkaUnavailable:
            return False
        self._history.reads.append(Read(str(name), began_us, fetched.high_watermark))
        if fetched.records:
            records = tuple((record.offset, (record.value or b"").decode()) for record in fetched.records)
            self._history.polled.append(Polled("consumer", self._assignments[name], str(name), records))
            position = self._positions[name] = fetched.records[-1].offset + 1
        if final and position >= fetched.high_watermark and self._is_end(name, position):
            self._history.ends[str(name)] = position
            return True
        return False

    async def _begin_again(self, name: TopicPartition) -> None:
        """Continue at the first offset of the partition (auto.offset.reset=earliest)."""
        with suppress(*_FAILURES):
            self._positions[name] = await self._client.list_offset(name, EARLIEST, timeout_ms=FETCH_TIMEOUT_MS)
            self._assignments[name] += 1

"""A loop that reads a topic and writes to another, exactly once: it commits offsets in its transactions (KIP-447).

An input record is processed again only after an abort, which discards both the output records and the offsets. The
group coordinator rejects offsets of an old generation, so a member that has lost its partitions cannot commit them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, Isolation, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.consumer_status import lag_of
from zabka.kafka.client.group_client import GroupMember, GroupSettings
from zabka.kafka.client.transactional_producer import TransactionalProducer
from zabka.kafka.record_batch import Record

RETRY_MS = 200
POLL_PERIOD_MS = 100
"""Pause after a poll that returned no records."""
RECORDS_MAX = 20
"""Maximum number of records of one input partition in one transaction."""
EARLIEST = -2

_FAILURES = (KafkaRequestFailed, KafkaUnavailable)

Process = Callable[[TopicPartition, Record], tuple[TopicPartition, Record]]
"""Function that returns the output record for an input record, and the partition to which it is written."""


class TransactionCounts(NamedTuple):
    """Number of transactions by result. The result is unknown if no coordinator replied to a commit."""

    committed: int = 0
    aborted: int = 0
    unknown: int = 0


class ReadProcessWrite:
    """One member of a consumer group that processes its partitions of the input topics."""

    def __init__(
        self,
        client: KafkaClient,
        runtime: Runtime,
        settings: GroupSettings,
        producer: TransactionalProducer,
        process: Process,
        poll_period_ms: int = POLL_PERIOD_MS,
    ) -> None:
        self.counts = TransactionCounts()
        self.processed = 0
        """Number of input records in committed transactions."""
        self.last_error: str | None = None
        self._client = client
        self._runtime = runtime
        self._member = GroupMember(client, settings)
        self._producer = producer
        self._process = process
        self._poll_period_ms = poll_period_ms
        self._heartbeat_ms = 0
        self._has_begun = False
        self._assigned: tuple[TopicPartition, ...] = ()
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    @property
    def lag(self) -> int:
        """Number of records below the high watermarks of this member's partitions that it has not read yet."""
        return lag_of(self._positions, self._ends)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions that the group assigned to this member."""
        return self._assigned if self._member.joined else ()

    def position(self, name: TopicPartition) -> int:
        """Return the position in an assigned partition; -1 if it is unknown."""
        return self._positions.get(name, -1) if name in self.partitions else -1

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Process records until `stopping` returns True; then leave the group."""
        while not stopping():
            try:
                pause_ms = 0 if await self._turn() else self._poll_period_ms
            except _FAILURES as failure:
                self.last_error = str(failure)
                self._positions.clear()
                # Send a heartbeat now: the error may be caused by an old generation, and a heartbeat reveals that.
                self._heartbeat_ms = 0
                pause_ms = RETRY_MS
            await self._runtime.sleep(pause_ms)
        with suppress(*_FAILURES):
            await self._member.leave()

    async def _turn(self) -> bool:
        """Process the next records in one transaction; return False if there are none."""
        if not self._has_begun:
            await self._producer.begin()
            self._has_begun = True
        await self._take_part()
        found = [(name, *await self._poll(name)) for name in self._assigned]
        offsets = {name: end for name, _, end in found if end > self._positions[name]}
        if any(records for _, records, _ in found):
            await self._transact(offsets, self._outputs((name, records) for name, records, _ in found))
            self.processed += sum(len(records) for _, records, _ in found)
        self._positions.update(offsets)
        return bool(offsets)

    async def _take_part(self) -> None:
        """Join the group, or send a heartbeat if one is due. After a join, find the positions from which to
        continue.
        """
        member, now_ms = self._member, self._runtime.now().mono_ms
        if not member.joined or member.misses_topics:
            self._positions.clear()
            self._assigned = await member.join()
        elif now_ms >= self._heartbeat_ms:
            await member.heartbeat()
        else:
            return
        self._heartbeat_ms = now_ms + member.settings.session_timeout_ms // 5

    async def _poll(self, name: TopicPartition) -> tuple[Sequence[Record], int]:
        """Return committed records from the current position on, and the position after these records."""
        position = self._positions.get(name, -1)
        if position < 0:
            position = (await self._member.committed([name]))[name]
        if position < 0:
            position = await self._client.list_offset(name, EARLIEST, timeout_ms=ATTEMPT_MS_MAX)
        self._positions[name] = position
        try:
            fetched = await self._client.fetch(
                name, position, max_wait_ms=0, timeout_ms=ATTEMPT_MS_MAX, isolation=Isolation.READ_COMMITTED
            )
        except KafkaRequestFailed as refused:
            if refused.error is not ErrorCode.offset_out_of_range:
                raise
            # The log was truncated, or its oldest records were deleted, so start at the earliest offset.
            self._positions[name] = await self._client.list_offset(name, EARLIEST, timeout_ms=ATTEMPT_MS_MAX)
            return (), position
        self._ends[name] = fetched.high_watermark
        records = fetched.records[:RECORDS_MAX]
        is_whole = len(records) == len(fetched.records)
        return records, fetched.next_offset if is_whole else records[-1].offset + 1

    def _outputs(
        self, found: Iterator[tuple[TopicPartition, Sequence[Record]]]
    ) -> Mapping[TopicPartition, Sequence[Record]]:
        outputs: dict[TopicPartition, list[Record]] = {}
        for name, records in found:
            for record in records:
                target, output = self._process(name, record)
                outputs.setdefault(target, []).append(output)
        return outputs

    async def _transact(
        self, offsets: Mapping[TopicPartition, int], outputs: Mapping[TopicPartition, Sequence[Record]]
    ) -> None:
        producer, counts = self._producer, self.counts
        self._has_begun = False
        try:
            for target, records in outputs.items():
                await producer.send(target, records)
            await producer.send_offsets(self._member.metadata, offsets)
        except _FAILURES:
            self.counts = counts._replace(aborted=counts.aborted + 1)
            await producer.end(commit=False)
            raise
        try:
            await producer.end(commit=True)
        except _FAILURES:
            self.counts = counts._replace(unknown=counts.unknown + 1)
            raise
        self.counts = counts._replace(committed=counts.committed + 1)
        self._has_begun = True

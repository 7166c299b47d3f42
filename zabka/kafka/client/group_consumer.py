"""A minimal group consumer: it joins, reads its partitions, commits, and rejoins when the group changes.

It commits its positions before its partitions are revoked, so a rebalance without faults repeats no record.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime, Task
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.consumer_protocol import NO_GENERATION, BadConsumerProtocol
from zabka.kafka.client.consumer_status import ConsumerStatus, TakeRecords, lag_of
from zabka.kafka.client.group_client import GroupMember, GroupSettings
from zabka.kafka.record_batch import BatchUnreadable

POLL_PERIOD_MS = 100
"""Interval between two fetches from a partition that has no new records."""
COMMIT_PERIOD_MS = 1_000
RETRY_MS = 200
METADATA_AGE_MS = 300_000
"""Interval at which the group's leader checks whether its topics have new partitions (metadata.max.age.ms)."""
LATEST, EARLIEST = -1, -2

_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


class GroupConsumer:
    """One member of a consumer group.

    Call `start()`, then `await stop()` to commit and leave, or `close()` to stop without either.

    The member reads a partition from the beginning if the partition has no committed offset, or if the record at the
    committed offset was deleted.
    """

    def __init__(
        self,
        client: KafkaClient,
        runtime: Runtime,
        settings: GroupSettings,
        take: TakeRecords,
        *,
        poll_period_ms: int = POLL_PERIOD_MS,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._member = GroupMember(client, settings)
        self._take = take
        self._poll_period_ms = poll_period_ms
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._readers: list[Task] = []
        self._assignment = 0
        self._task: Task | None = None
        self._stopping = False
        self._last_error: str | None = None

    # ---- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group and begin to read."""
        assert self._task is None, "started twice"
        self._task = self._runtime.spawn(self._run(), f"consumer of {self._member.settings.group_id}")

    async def stop(self) -> None:
        """Stop reading, commit the positions and leave the group. Errors of the coordinator are ignored."""
        self.close()
        with suppress(*_FAILURES):
            await self._commit()
        with suppress(*_FAILURES):
            await self._member.leave()

    def close(self) -> None:
        """Stop immediately, as a crash would."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
        self._stop_reading()

    def status(self) -> ConsumerStatus:
        """Return the current status."""
        lag = lag_of(self._positions, self._ends)
        generation_id = self._member.generation_id if self._member.joined else NO_GENERATION
        return ConsumerStatus(tuple(self._positions), lag, self._last_error, self._assignment, generation_id)

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._take_part()
            except _FAILURES as failure:
                self._last_error = str(failure)
                if isinstance(failure, KafkaRequestFailed) and failure.error is ErrorCode.fenced_instance_id:
                    # Another member with the same instance id has replaced this one.
                    return
            except BadConsumerProtocol as failure:
                self._last_error = f"another member speaks otherwise: {failure}"
            await self._runtime.sleep(RETRY_MS)

    # ---- one generation ---------------------------------------------------------------------------------------

    async def _take_part(self) -> None:
        """Join the group, and read until the member must rejoin."""
        assignment = await self._member.join()
        committed = await self._offsets(assignment)
        self._positions.clear()
        self._ends.clear()
        self._committed = dict(committed)
        self._assignment += 1
        for topic_partition in assignment:
            self._positions[topic_partition] = committed[topic_partition]
            work = self._read(topic_partition)
            self._readers.append(self._runtime.spawn(work, f"read {topic_partition}"))
        try:
            await self._stay()
        finally:
            self._stop_reading()
        with suppress(*_FAILURES):
            await self._commit()

    async def _offsets(self, assignment: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the positions from which to continue reading.

        Retry while the coordinator is loading its log, or while a transactional commit is in progress.
        """
        while assignment:
            try:
                return await self._member.committed(assignment)
            except KafkaUnavailable as failure:
                self._last_error = str(failure)
            except KafkaRequestFailed as failure:
                if not self._member.joined and failure.error is not ErrorCode.unstable_offset_commit:
                    raise
                self._last_error = str(failure)
            await self._runtime.sleep(RETRY_MS)
        return {}

    async def _stay(self) -> None:
        """Send heartbeats and commit offsets until the coordinator requires a rejoin."""
        period_ms = max(RETRY_MS, self._member.settings.session_timeout_ms // 5)
        now_ms = self._runtime.now().mono_ms
        heartbeat_ms, commit_ms = now_ms + period_ms, now_ms + COMMIT_PERIOD_MS
        metadata_ms = now_ms + METADATA_AGE_MS
        while self._member.joined:
            await self._runtime.sleep(max(1, min(heartbeat_ms, commit_ms) - self._runtime.now().mono_ms))
            now_ms = self._runtime.now().mono_ms
            try:
                if now_ms >= commit_ms:
                    commit_ms = now_ms + COMMIT_PERIOD_MS
                    await self._commit()
                if now_ms >= heartbeat_ms:
                    heartbeat_ms = now_ms + period_ms
                    await self._member.heartbeat()
                    if self._member.misses_topics or now_ms >= metadata_ms:
                        metadata_ms = now_ms + METADATA_AGE_MS
                        self._member.joined = not await self._member.topics_grew()
            except _FAILURES as failure:
                # Retry: the next coordinator decides whether this consumer is still a member.
                self._last_error = str(failure)
                heartbeat_ms = now_ms + RETRY_MS

    async def _commit(self) -> None:
        offsets = {tp: at for tp, at in self._positions.items() if at >= 0 and self._committed.get(tp) != at}
        if offsets:
            await self._member.commit(offsets)
            self._committed.update(offsets)

    def _stop_reading(self) -> None:
        for reader in self._readers:
            reader.cancel()
        self._readers.clear()

    # ---- reading ----------------------------------------------------------------------------------------------

    async def _read(self, topic_partition: TopicPartition) -> None:
        while True:
            try:
                found_more = await self._read_once(topic_partition)
            except _FAILURES as failure:
                self._last_error = f"{topic_partition}: {failure}"
                found_more = False
            except BatchUnreadable as failure:
                self._last_error = f"{topic_partition}: {failure}"
                return
            if not found_more:
                await self._runtime.sleep(self._poll_period_ms)

    async def _read_once(self, topic_partition: TopicPartition) -> bool:
        position = self._positions[topic_partition]
        if position < 0:
            position = await self._client.list_offset(topic_partition, EARLIEST, timeout_ms=ATTEMPT_MS_MAX)
            self._positions[topic_partition] = position
        try:
            fetched = await self._client.fetch(topic_partition, position, max_wait_ms=0, timeout_ms=ATTEMPT_MS_MAX)
        except KafkaRequestFailed as failure:
            if failure.error is ErrorCode.offset_out_of_range:
                self._positions[topic_partition] = await self._reset(topic_partition, position)
                self._assignment += 1
            raise
        self._ends[topic_partition] = fetched.high_watermark
        if fetched.next_offset == position:
            return False
        if fetched.records:
            self._take(topic_partition, fetched.records)
        self._positions[topic_partition] = fetched.next_offset
        return True

    async def _reset(self, topic_partition: TopicPartition, position: int) -> int:
        """Return a new position for a partition whose log does not contain the old position.

        The new position is the log's beginning, or its end if the log was truncated.
        """
        start = await self._client.list_offset(topic_partition, EARLIEST, timeout_ms=ATTEMPT_MS_MAX)
        if position < start:
            return start
        return await self._client.list_offset(topic_partition, LATEST, timeout_ms=ATTEMPT_MS_MAX)

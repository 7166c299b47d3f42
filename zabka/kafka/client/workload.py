"""A workload: a producer, and a consumer that verifies the acknowledged records (pure, over a `KafkaClient`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from zabka.ensemble.ports import Future, Runtime, Task
from zabka.journal.events import LostSpan, TopicPartition, WorkloadProgressed
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.ledger import PartitionLedger
from zabka.kafka.client.waiting import WaitingTime
from zabka.kafka.ports import Emit
from zabka.kafka.record_batch import BatchUnreadable, Record

TICK_MS = 50
"""Batching interval: records that are due within one tick are sent in one batch per partition."""
PENDING_MAX = 1_000
"""Maximum number of records that wait for one partition.

While so many records wait, no further records are produced for this partition.
"""
BATCH_RECORDS_MAX = 500
PRODUCE_TIMEOUT_MS = 10_000
"""Time after which a batch without a reply counts as failed."""
VERIFY_PERIOD_MS = 500
PROGRESS_PERIOD_MS = 1_000

_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


class WorkloadStatus(NamedTuple):
    """Status of a workload.

    `sent` is the number of records sent to the cluster, `failed` the number of those whose send failed (they may be in
    the log nevertheless), `lost` the number of acknowledged records that are not in the current leaders' logs.
    `verified` is True if all acknowledged records were read.
    """

    sent: int
    acknowledged: int
    failed: int
    lost: int
    verified: bool
    last_error: str | None


class Workload:
    """Produces `records_per_s` records to the partitions of a topic in turn, and verifies them.

    `acks` is -1 (all), 1 or 0; with 0 no record is acknowledged. `start()` begins, `await stop()` stops producing and
    waits for records in flight, `await verify()` reads all acknowledged records, `close()` stops everything.
    """

    def __init__(
        self,
        client: KafkaClient,
        runtime: Runtime,
        emit: Emit,
        workload_id: str,
        topic: str,
        *,
        acks: int = -1,
        records_per_s: float = 50,
        record_bytes: int = 64,
    ) -> None:
        assert acks in (-1, 0, 1), "checked by the caller"
        self.workload_id = workload_id
        self.topic = topic
        self.acks = acks
        self.records_per_s = records_per_s
        self._client = client
        self._runtime = runtime
        self._emit = emit
        self._prefix = f"{workload_id}:".encode()
        self._filler = b"." * max(0, record_bytes - len(self._prefix) - 12)
        self._partitions: dict[int, _Partition] = {}
        self._ledgers: dict[int, PartitionLedger] = {}
        self._tasks: list[Task] = []
        self._producing = False
        self._next_number = 0
        self._turn = 0
        self._last_error: str | None = None
        self._waiting = WaitingTime()
        self._started_ms: int | None = None
        self._ended_ms: int | None = None
        self._seen_ms = 0
        """Clock time in milliseconds that one of this client's tasks last read.

        Only the client's own tasks can read the clock, so other code uses this value.
        """
        self._reported: WorkloadProgressed | None = None
        self.sent = self.acknowledged = self.failed = 0

    # ---- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start producing and verifying."""
        assert not self._tasks, "started twice"
        self._producing = True
        for name, work in (
            ("produce", self._generate()),
            ("verify", self._verify_always()),
            ("tell", self._report_progress()),
        ):
            self._tasks.append(self._runtime.spawn(work, f"workload {self.workload_id}: {name}"))

    async def stop(self) -> None:
        """Stop producing, and return when every record is acknowledged or has failed."""
        self._producing = False
        for partition in self._partitions.values():
            await partition.idle(self._runtime)
        if self._ended_ms is None:
            self._ended_ms = self._now_ms()

    def close(self) -> None:
        """Stop everything immediately."""
        self._producing = False
        if self._ended_ms is None:
            self._ended_ms = self._seen_ms
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._reported != (progress := self._progress()):
            self._emit(progress)

    def status(self) -> WorkloadStatus:
        """Return the current status."""
        return WorkloadStatus(
            self.sent,
            self.acknowledged,
            self.failed,
            sum(ledger.lost for ledger in self._ledgers.values()),
            not any(ledger.unverified for ledger in self._ledgers.values()),
            self._last_error,
        )

    async def _report_progress(self) -> None:
        while True:
            self._report_once()
            await self._runtime.sleep(PROGRESS_PERIOD_MS)

    def _report_once(self) -> None:
        self._now_ms()
        progress = self._progress()
        if self._reported is None or replace(progress, running_ms=self._reported.running_ms) != self._reported:
            self._reported = progress
            self._emit(progress)

    def _progress(self) -> WorkloadProgressed:
        now_ms = self._seen_ms if self._ended_ms is None else self._ended_ms
        return WorkloadProgressed(
            self.workload_id,
            self.topic,
            *self.status()[:4],
            acks="all" if self.acks < 0 else str(self.acks),
            missing=[LostSpan(number, *span) for number, ledger in self._ledgers.items() for span in ledger.missing],
            running_ms=0 if self._started_ms is None else now_ms - self._started_ms,
            waited_ms=self._waiting.total_ms(now_ms),
        )

    def _now_ms(self) -> int:
        self._seen_ms = self._runtime.now().mono_ms
        return self._seen_ms

    # ---- producing --------------------------------------------------------------------------------------------

    async def _generate(self) -> None:
        due = 0.0
        self._started_ms = before_ms = self._now_ms()
        while self._producing:
            await self._runtime.sleep(TICK_MS)
            now_ms = self._now_ms()
            # After a pause of this process, send the records that it should have sent meanwhile, but at most those of
            # one second.
            due += min(now_ms - before_ms, 1_000) * self.records_per_s / 1000
            before_ms = now_ms
            count, due = int(due), due - int(due)
            if count and self._producing:
                await self._find_partitions()
                self._hand_out(count)

    async def _find_partitions(self) -> None:
        known = None if self._client.cluster is None else self._client.cluster.topics.get(self.topic)
        if known is None or not known.partitions:
            self._waiting.begin(None, self._now_ms())
            await self._client.refresh()
            known = None if self._client.cluster is None else self._client.cluster.topics.get(self.topic)
        if known is not None and known.partitions:
            self._waiting.end(None, self._now_ms(), acknowledged=True)
        for row in known.partitions if known is not None else ():
            if row.partition not in self._partitions:
                partition = self._partitions[row.partition] = _Partition(TopicPartition(self.topic, row.partition))
                self._ledgers[row.partition] = PartitionLedger()
                work = self._produce(partition)
                self._tasks.append(self._runtime.spawn(work, f"workload {self.workload_id}: {partition.name}"))

    def _hand_out(self, count: int) -> None:
        partitions = list(self._partitions.values())
        for _ in range(count if partitions else 0):
            self._turn += 1
            partition = partitions[self._turn % len(partitions)]
            if len(partition.pending) < PENDING_MAX:
                partition.put(self._next_number)
                self._next_number += 1

    async def _produce(self, partition: _Partition) -> None:
        while True:
            numbers = await partition.take_batch(self._runtime)
            self.sent += len(numbers)
            now_ms = self._runtime.now().wall_ms
            records = [Record(None, self._value(number), now_ms) for number in numbers]
            self._waiting.begin(partition.name, self._now_ms())
            offset: int | None = None
            try:
                offset = await self._client.produce(
                    partition.name, records, acks=self.acks, timeout_ms=PRODUCE_TIMEOUT_MS
                )
            except _FAILURES as failure:
                self.failed += len(numbers)
                self._last_error = str(failure)
            else:
                if offset >= 0:
                    self.acknowledged += len(numbers)
                    self._ledgers[partition.name.partition].acknowledge(offset, numbers)
            self._waiting.end(partition.name, self._now_ms(), acknowledged=offset is not None)
            partition.done()

    def _value(self, number: int) -> bytes:
        return b"%b%d %b" % (self._prefix, number, self._filler)

    def _number(self, record: Record) -> int:
        """Return the number of a record of this workload, -1 for a record of another producer."""
        value = record.value or b""
        if not value.startswith(self._prefix):
            return -1
        digits = value[len(self._prefix) :].split(b" ", 1)[0]
        return int(digits) if digits.isdigit() else -1

    # ---- verifying --------------------------------------------------------------------------------------------

    async def verify(self) -> WorkloadStatus:
        """Read all acknowledged records, and return the status. Raises KafkaUnavailable, KafkaRequestFailed."""
        await self._client.refresh()
        for number in list(self._ledgers):
            await self._verify_partition(number)
        return self.status()

    async def _verify_always(self) -> None:
        while True:
            await self._runtime.sleep(VERIFY_PERIOD_MS)
            await self._client.refresh()
            for number in list(self._ledgers):
                try:
                    await self._verify_partition(number)
                except _FAILURES as failure:
                    self._last_error = str(failure)

    async def _verify_partition(self, number: int) -> None:
        ledger = self._ledgers[number]
        name = TopicPartition(self.topic, number)
        info = self._client.partition(name)
        if info is None or info.leader < 0:
            return
        if info.leader_epoch != ledger.leader_epoch:
            parting = 0
            if ledger.leader_epoch >= 0:
                epoch, end = await self._client.end_offset_for_epoch(
                    name, ledger.leader_epoch, timeout_ms=VERIFY_PERIOD_MS
                )
                # If the broker returns another epoch, the logs of the two leaders may diverge at any offset, so use
                # offset 0.
                parting = end if epoch == ledger.leader_epoch else 0
            ledger.leader_changed(info.leader_epoch, parting)
        if ledger.unverified or ledger.lost:
            await self._read_back(name, ledger)
            highest = ledger.highest
            _, end = await self._client.end_offset_for_epoch(name, info.leader_epoch, timeout_ms=VERIFY_PERIOD_MS)
            if end >= 0:
                ledger.log_ends(end, highest)

    async def _read_back(self, name: TopicPartition, ledger: PartitionLedger) -> None:
        while True:
            begun = ledger.position
            try:
                fetched = await self._client.fetch(name, begun, max_wait_ms=0, timeout_ms=VERIFY_PERIOD_MS)
            except KafkaRequestFailed as failure:
                if failure.error is not ErrorCode.offset_out_of_range:
                    raise
                start = await self._client.list_offset(name, -2, timeout_ms=VERIFY_PERIOD_MS)
                if start > begun:
                    ledger.log_starts(start)
                    continue
                return
            except BatchUnreadable as unreadable:
                self._last_error = f"{name}: {unreadable}"
                return
            if not fetched.records:
                return
            ledger.read_back(self._numbered(fetched.records), fetched.records[-1].offset + 1, begun)

    def _numbered(self, records: Sequence[Record]) -> list[tuple[int, int]]:
        return [(record.offset, self._number(record)) for record in records]


class _Partition:
    """Records that wait for one partition, and whether a batch for it is in flight."""

    __slots__ = ("_busy", "_waiting", "_wake", "name", "pending")

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.pending: list[int] = []
        self._busy = False
        self._wake: Future[None] | None = None
        self._waiting: list[Future[None]] = []

    def put(self, number: int) -> None:
        self.pending.append(number)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def take_batch(self, runtime: Runtime) -> list[int]:
        while not self.pending:
            self._wake = runtime.future()
            await self._wake
            self._wake = None
        self._busy = True
        taken, self.pending = self.pending[:BATCH_RECORDS_MAX], self.pending[BATCH_RECORDS_MAX:]
        return taken

    def done(self) -> None:
        self._busy = False
        if not self.pending:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    async def idle(self, runtime: Runtime) -> None:
        if self._busy or self.pending:
            waiter: Future[None] = runtime.future()
            self._waiting.append(waiter)
            await waiter

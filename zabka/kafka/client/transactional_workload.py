"""Workloads with transactions: a producer, and a read-process-write loop. Both count their transactions by result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import NamedTuple

from zabka.ensemble.ports import Runtime, Task
from zabka.journal.events import ConsumerProgressed, Event, TopicPartition, WorkloadProgressed
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.client.read_process_write import ReadProcessWrite, TransactionCounts
from zabka.kafka.client.transactional_producer import TransactionalProducer
from zabka.kafka.ports import Emit
from zabka.kafka.record_batch import Record

TRANSACTION_MS = 200
"""Minimum time between the starts of two transactions of a producer."""
PROGRESS_PERIOD_MS = 1_000
RETRY_MS = 200

_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


class TransactionalStatus(NamedTuple):
    """Status of a transactional workload. `records` is the number of records in committed transactions.

    The result of a transaction is unknown if the commit was not acknowledged: it may be committed or aborted.
    """

    committed: int
    aborted: int
    unknown: int
    records: int
    last_error: str | None


class _Workload(ABC):
    """Base class of the transactional workloads.

    `start()` starts the workload. `await stop()` stops it after the open transaction has ended. `close()` stops it
    immediately; the coordinator then aborts the open transaction when it times out.
    """

    def __init__(self, runtime: Runtime, emit: Emit, workload_id: str, topic: str, transactional_id: str) -> None:
        self.workload_id = workload_id
        self.topic = topic
        self.transactional_id = transactional_id
        self._runtime = runtime
        self._emit = emit
        self._tasks: list[Task] = []
        self._stopping = False
        self._stopped = runtime.future()
        self._reported: Event | None = None

    def start(self) -> None:
        """Start the workload."""
        assert not self._tasks, "started twice"
        for name, work in (("work", self._work()), ("report", self._report())):
            self._tasks.append(self._runtime.spawn(work, f"workload {self.workload_id}: {name}"))

    async def stop(self) -> None:
        """Stop after the open transaction has ended."""
        self._stopping = True
        await self._stopped

    def close(self) -> None:
        """Stop everything immediately. The coordinator aborts the open transaction when it times out."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._report_once()

    async def _work(self) -> None:
        await self._run()
        self._stopped.set_result(None)

    async def _report(self) -> None:
        while True:
            self._report_once()
            await self._runtime.sleep(PROGRESS_PERIOD_MS)

    def _report_once(self) -> None:
        event = self._progress()
        if event != self._reported:
            self._reported = event
            self._emit(event)

    @abstractmethod
    def status(self) -> TransactionalStatus:
        """Return the current status."""

    @abstractmethod
    def _run(self) -> Awaitable[None]: ...

    @abstractmethod
    def _progress(self) -> Event: ...


class TransactionalWorkload(_Workload):
    """Writes `records_per_s` records to the partitions of a topic in turn, in one transaction after another.

    Every `abort_every`-th transaction is aborted. If it is 0, no transaction is aborted.
    """

    def __init__(
        self,
        client: KafkaClient,
        runtime: Runtime,
        emit: Emit,
        workload_id: str,
        topic: str,
        transactional_id: str,
        *,
        records_per_s: float = 50,
        abort_every: int = 0,
    ) -> None:
        super().__init__(runtime, emit, workload_id, topic, transactional_id)
        self.records_per_s = records_per_s
        self._client = client
        self._abort_every = abort_every
        self._producer = TransactionalProducer(client, runtime, transactional_id)
        self._counts = TransactionCounts()
        self._sent = self._committed_records = self._failed_records = 0
        self._turn = 0
        self._last_error: str | None = None

    def status(self) -> TransactionalStatus:
        """Return the current status."""
        return TransactionalStatus(*self._counts, self._committed_records, self._last_error)

    @property
    def sent(self) -> int:
        """Number of records sent in all transactions."""
        return self._sent

    @property
    def failed(self) -> int:
        """Number of records in transactions that failed with an error."""
        return self._failed_records

    def _progress(self) -> Event:
        return WorkloadProgressed(
            self.workload_id, self.topic, self._sent, self._committed_records, self._failed_records, 0, acks="all"
        )

    async def _run(self) -> None:
        has_begun, due = False, 0.0
        before_ms = self._runtime.now().mono_ms
        while not self._stopping:
            await self._runtime.sleep(TRANSACTION_MS)
            now_ms = self._runtime.now().mono_ms
            due += min(now_ms - before_ms, 1_000) * self.records_per_s / 1000
            before_ms, count, due = now_ms, int(due), due - int(due)
            try:
                if not has_begun:
                    await self._producer.begin()
                has_begun = False
                await self._transact(count)
                has_begun = True
            except _FAILURES as failure:
                self._last_error = str(failure)
                await self._runtime.sleep(RETRY_MS)

    async def _transact(self, count: int) -> None:
        counts, before = self._counts, self._sent
        commits = not self._abort_every or (sum(counts) + 1) % self._abort_every != 0
        is_ending, shares = False, await self._shares(count)
        try:
            for partition, records in shares.items():
                self._sent += len(records)
                await self._producer.send(partition, records)
            is_ending = commits
            await self._producer.end(commit=commits)
        except _FAILURES:
            unknown, aborted = counts.unknown + is_ending, counts.aborted + (not is_ending)
            self._counts = counts._replace(unknown=unknown, aborted=aborted)
            self._failed_records += self._sent - before
            if not is_ending:
                await self._producer.end(commit=False)
            raise
        if self._sent > before:
            committed, aborted = counts.committed + commits, counts.aborted + (not commits)
            self._counts = counts._replace(committed=committed, aborted=aborted)
            self._committed_records += (self._sent - before) * commits

    async def _shares(self, count: int) -> dict[TopicPartition, list[Record]]:
        rows = _partitions(self._client, self.topic)
        if not rows:
            await self._client.refresh()
            rows = _partitions(self._client, self.topic)
        shares: dict[TopicPartition, list[Record]] = {}
        for _ in range(count if rows else 0):
            self._turn += 1
            value = f"{self.workload_id}:{self._turn}".encode()
            record = Record(None, value, self._runtime.now().wall_ms)
            shares.setdefault(rows[self._turn % len(rows)], []).append(record)
        return shares


class ReadProcessWriteWorkload(_Workload):
    """Copies the committed records of one topic to another topic, exactly once, as a member of a group.

    The output partition is the number of the input partition modulo the number of output partitions.
    """

    def __init__(
        self,
        client: KafkaClient,
        runtime: Runtime,
        emit: Emit,
        workload_id: str,
        topic: str,
        transactional_id: str,
        *,
        output: str,
        group_id: str,
    ) -> None:
        super().__init__(runtime, emit, workload_id, topic, transactional_id)
        self.group_id = group_id
        self.output = output
        self._client = client
        producer = TransactionalProducer(client, runtime, transactional_id)
        settings = GroupSettings(group_id, (topic,))
        self._loop = ReadProcessWrite(client, runtime, settings, producer, self._copy)

    def status(self) -> TransactionalStatus:
        """Return the current status."""
        return TransactionalStatus(*self._loop.counts, self._loop.processed, self._loop.last_error)

    @property
    def lag(self) -> int:
        """Number of records below the high watermarks of this member's partitions that it has not read yet."""
        return self._loop.lag

    @property
    def partitions(self) -> list[int]:
        """Partitions of the input topic that are assigned to this member."""
        return sorted(each.partition for each in self._loop.partitions)

    def _copy(self, partition: TopicPartition, record: Record) -> tuple[TopicPartition, Record]:
        targets = _partitions(self._client, self.output) or [TopicPartition(self.output, 0)]
        target = targets[partition.partition % len(targets)]
        return target, Record(record.key, record.value, record.timestamp_ms, headers=record.headers)

    def _run(self) -> Awaitable[None]:
        return self._loop.run(lambda: self._stopping)

    def _progress(self) -> Event:
        return ConsumerProgressed(
            workload_id=self.workload_id,
            topic=self.topic,
            group_id=self.group_id,
            consumed=self._loop.processed,
            duplicates=0,
            out_of_order=0,
            lag=self.lag,
            partitions=self.partitions,
        )


def _partitions(client: KafkaClient, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic from the client's metadata."""
    known = None if client.cluster is None else client.cluster.topics.get(topic)
    return [] if known is None else [TopicPartition(topic, row.partition) for row in known.partitions]

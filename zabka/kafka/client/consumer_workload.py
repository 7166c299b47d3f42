"""A workload that consumes a topic as a member of a consumer group, and counts the records.

The consumer is either a current one, with a group coordinator, or an old one that uses ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from zabka.ensemble.ports import Runtime, Task
from zabka.journal.events import ConsumerProgressed, TopicPartition
from zabka.kafka.client.consumer_status import ConsumerStatus, TakeRecords
from zabka.kafka.ports import Emit
from zabka.kafka.record_batch import Record

PROGRESS_PERIOD_MS = 1_000


class GroupProgress:
    """Read positions of a group, over all of its members in this process. They distinguish new from repeated
    records.
    """

    def __init__(self) -> None:
        self._next: dict[TopicPartition, int] = {}

    def record_read(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Record that a member read the record at `offset`. Return whether the record is new to the group."""
        if offset < self._next.get(topic_partition, 0):
            return False
        self._next[topic_partition] = offset + 1
        return True


class ConsumerCounts(NamedTuple):
    """Counts of a consumer's records.

    `duplicates` are records that the group had already read: after a rebalance caused by a fault, the group reads again
    from its last commit. `out_of_order` are records that arrived after a later record of the same assignment.
    """

    consumed: int
    duplicates: int
    out_of_order: int
    lag: int
    """Number of records below the high watermarks of the consumer's partitions that the consumer has not read yet."""
    partitions: tuple[int, ...]
    last_error: str | None


class Reader(Protocol):
    """Interface of a workload's consumer (`group_consumer.GroupConsumer`, `zookeeper_consumer.ZookeeperConsumer`)."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...
    def close(self) -> None: ...
    def status(self) -> ConsumerStatus: ...


class ConsumerWorkload:
    """Consumes a topic as a member of a consumer group.

    `start()` begins, `await stop()` commits and leaves the group, `close()` stops without either. `make_reader` creates
    the consumer; its argument is the function that processes records.
    """

    def __init__(
        self,
        runtime: Runtime,
        emit: Emit,
        workload_id: str,
        topic: str,
        group_id: str,
        progress: GroupProgress,
        make_reader: Callable[[TakeRecords], Reader],
    ) -> None:
        self.workload_id = workload_id
        self.topic = topic
        self.group_id = group_id
        self._runtime = runtime
        self._emit = emit
        self._progress = progress
        self._reader = make_reader(self._take)
        self._consumed = self._duplicates = self._out_of_order = 0
        self._last: dict[TopicPartition, int] = {}
        self._assignment = 0
        self._reporting: Task | None = None
        self._reported: ConsumerProgressed | None = None

    def start(self) -> None:
        """Join the group and begin to read."""
        assert self._reporting is None, "started twice"
        self._reader.start()
        self._reporting = self._runtime.spawn(self._report_progress(), f"workload {self.workload_id}: tell")

    async def stop(self) -> None:
        """Stop reading; commit and leave the group."""
        await self._reader.stop()

    def close(self) -> None:
        """Stop everything immediately, without a commit and without leaving the group."""
        self._reader.close()
        if self._reporting is not None:
            self._reporting.cancel()
        self._report_once()

    def counts(self) -> ConsumerCounts:
        """Return the current counts."""
        status = self._reader.status()
        partitions = tuple(sorted(topic_partition.partition for topic_partition in status.partitions))
        return ConsumerCounts(
            self._consumed, self._duplicates, self._out_of_order, status.lag, partitions, status.last_error
        )

    def _take(self, topic_partition: TopicPartition, records: Sequence[Record]) -> None:
        assignment = self._reader.status().assignment
        if assignment != self._assignment:
            self._assignment = assignment
            self._last.clear()
        last = self._last.get(topic_partition, -1)
        for record in records:
            if record.offset <= last:
                self._out_of_order += 1
            last = max(last, record.offset)
            if self._progress.record_read(topic_partition, record.offset):
                self._consumed += 1
            else:
                self._duplicates += 1
        self._last[topic_partition] = last

    async def _report_progress(self) -> None:
        while True:
            self._report_once()
            await self._runtime.sleep(PROGRESS_PERIOD_MS)

    def _report_once(self) -> None:
        counts = self.counts()
        event = ConsumerProgressed(
            workload_id=self.workload_id,
            topic=self.topic,
            group_id=self.group_id,
            consumed=counts.consumed,
            duplicates=counts.duplicates,
            out_of_order=counts.out_of_order,
            lag=counts.lag,
            partitions=list(counts.partitions),
        )
        if event != self._reported:
            self._reported = event
            self._emit(event)

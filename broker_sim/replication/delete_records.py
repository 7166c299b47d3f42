"""DeleteRecords: a log's start moves up, on the leader first, and then on every live replica (KIP-107, KAFKA-4586)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.ports import Deleted
from zabka.broker_sim.replication.partition import Partition
from zabka.journal.events import TopicPartition

TO_HIGH_WATERMARK = -1
"""The offset that stands for everything that is committed."""


class DeletionRow:
    """One partition of a deletion."""

    __slots__ = ("absence", "deleted", "offset", "partition")

    def __init__(self, partition: Partition | None, offset: int, absence: ErrorCode) -> None:
        """`absence` is what to answer where there is no partition."""
        self.partition = partition
        self.absence = absence
        self.offset = offset
        self.deleted: Deleted | None = None
        """None: it waits for its replicas."""

    def move_log_start(self) -> None:
        """Move the leader's start.

        Errors: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE above the high watermark, POLICY_VIOLATION where the topic
        is compacted and nothing else, KAFKA_STORAGE_ERROR where the disk fails or has failed.
        """
        partition = self.partition
        if partition is None or not partition.is_leader:
            self.deleted = Deleted(self.absence if partition is None else ErrorCode.not_leader_or_follower)
            return
        log = partition.log
        if partition.settings.compacts and not partition.settings.deletes:
            self.deleted = Deleted(ErrorCode.policy_violation)
            return
        if self.offset == TO_HIGH_WATERMARK:
            self.offset = log.high_watermark
        if not 0 <= self.offset <= log.high_watermark:
            self.deleted = Deleted(ErrorCode.offset_out_of_range)
            return
        try:
            log.advance_start(self.offset)
        except LogDirFailed:
            # The start counts on the disk or not at all; the other partitions of the request go on.
            self.deleted = Deleted(ErrorCode.kafka_storage_error)

    def decide(self) -> bool:
        """Is it known what to answer?"""
        if self.deleted is None and self.partition is not None:
            if not self.partition.is_leader:
                self.deleted = Deleted(ErrorCode.not_leader_or_follower)
            elif self.partition.low_watermark >= self.offset:
                self.deleted = Deleted(ErrorCode.none, self.partition.low_watermark)
        return self.deleted is not None


class DelayedDeletion:
    """A deletion that waits until the live replicas have followed (`Delayed` in `zabka.broker_sim.replication`)."""

    __slots__ = ("_answer", "_waiting", "rows")

    def __init__(
        self,
        rows: Mapping[TopicPartition, DeletionRow],
        answer: Callable[[Mapping[TopicPartition, Deleted]], None],
    ) -> None:
        self.rows = rows
        self._answer = answer
        self._waiting = {topic_partition: row for topic_partition, row in rows.items() if not row.decide()}

    def waits_for(self) -> list[TopicPartition]:
        """The partitions whose replicas have not followed; none where it can be answered."""
        return list(self._waiting)

    def is_ready_after(self, key: TopicPartition) -> bool:
        """Have all replicas followed, now that something happened to that one of the partitions?"""
        row = self._waiting.get(key)
        if row is not None and row.decide():
            del self._waiting[key]
        return not self._waiting

    def finish(self, touched: Collection[TopicPartition]) -> None:
        """Answer; what still waits has timed out, unless a replica that it waited for is alive no more."""
        late = Deleted(ErrorCode.request_timed_out)
        for row in self._waiting.values():
            row.decide()
        self._answer({topic_partition: row.deleted or late for topic_partition, row in self.rows.items()})

"""DeleteRecords: advance the log start on the leader, then on every live replica (KIP-107, KAFKA-4586)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.ports import Deleted
from zabka.broker_sim.replication.partition import Partition
from zabka.journal.cause import request_cause
from zabka.journal.events import TopicPartition

TO_HIGH_WATERMARK = -1
"""Offset in a request that means the high watermark."""


class DeletionRow:
    """The deletion of records in one partition."""

    __slots__ = ("absence", "deleted", "offset", "partition")

    def __init__(self, partition: Partition | None, offset: int, absence: ErrorCode) -> None:
        """`absence` is the error to return if the partition is None."""
        self.partition = partition
        self.absence = absence
        self.offset = offset
        self.deleted: Deleted | None = None
        """The result; None while the deletion waits for its replicas."""

    def move_log_start(self) -> None:
        """Advance the leader's log start.

        Errors: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE if the offset is above the high watermark, POLICY_VIOLATION
        if cleanup.policy is compact without delete, KAFKA_STORAGE_ERROR if the log directory has failed.
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
        stable = partition.stable_offset_if_held_back()
        try:
            log.advance_start(self.offset)
        except LogDirFailed:
            # The new log start is valid only once it is on disk. A failure does not affect other partitions of the
            # request.
            self.deleted = Deleted(ErrorCode.kafka_storage_error)
            return
        if stable is not None:
            partition.journal_stable_offset(stable, request_cause("DeleteRecords"))

    def decide(self) -> bool:
        """Determine the result if possible. Return whether it is known."""
        if self.deleted is None and self.partition is not None:
            if not self.partition.is_leader:
                self.deleted = Deleted(ErrorCode.not_leader_or_follower)
            elif self.partition.low_watermark >= self.offset:
                self.deleted = Deleted(ErrorCode.none, self.partition.low_watermark)
        return self.deleted is not None


class DelayedDeletion:
    """A DeleteRecords request that waits until all live replicas have advanced their log start.

    It is a `Delayed` operation in the purgatory.
    """

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
        """Return the partitions with a replica that has not advanced its log start.

        If the list is empty, the response can be sent.
        """
        return list(self._waiting)

    def is_ready_after(self, key: TopicPartition) -> bool:
        """Return whether all replicas have advanced their log start. Called after an event of partition `key`."""
        row = self._waiting.get(key)
        if row is not None and row.decide():
            del self._waiting[key]
        return not self._waiting

    def finish(self, touched: Collection[TopicPartition]) -> None:
        """Send the response.

        A partition that still waits for a live replica gets the error REQUEST_TIMED_OUT.
        """
        late = Deleted(ErrorCode.request_timed_out)
        for row in self._waiting.values():
            row.decide()
        self._answer({topic_partition: row.deleted or late for topic_partition, row in self.rows.items()})

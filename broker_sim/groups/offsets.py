"""The committed and pending offsets of one group (part of Kafka's GroupMetadata)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from zabka.broker_sim.groups.records import OffsetAndMetadata
from zabka.journal.events import TopicPartition

NOT_STORED = -1


class StoredOffset(NamedTuple):
    """A committed offset, and the log offset of its record's batch (NOT_STORED if not known yet)."""

    record_offset: int
    committed: OffsetAndMetadata


BaseTimestamp = Callable[[OffsetAndMetadata], int]
"""Function that returns when an offset's retention begins, in wall-clock milliseconds."""


class GroupOffsets:
    """Committed offsets of one group, keyed by partition.

    A commit is pending from its append until the ISR has replicated it. A commit in a transaction is pending until the
    transaction's marker is written.
    """

    __slots__ = ("_pending", "_stored", "_transactional")

    def __init__(
        self,
        stored: Mapping[TopicPartition, StoredOffset] | None = None,
        transactional: Mapping[int, Mapping[TopicPartition, StoredOffset]] | None = None,
    ) -> None:
        self._stored: dict[TopicPartition, StoredOffset] = dict(stored or {})
        self._pending: dict[TopicPartition, list[OffsetAndMetadata]] = {}
        """All pending commits of each partition, because a later commit may fail while an earlier one still waits.

        Kafka remembers only the last one, and therefore forgets an earlier commit that succeeds.
        """
        self._transactional = {producer_id: dict(offsets) for producer_id, offsets in (transactional or {}).items()}
        """The commits of open transactions, keyed by producer id."""

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a committed nor a pending offset."""
        return not self._stored and not self._pending and not self._transactional

    def partitions(self) -> list[TopicPartition]:
        """The partitions with a committed offset."""
        return list(self._stored)

    def get(self, topic_partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return a partition's committed offset, or None."""
        stored = self._stored.get(topic_partition)
        return None if stored is None else stored.committed

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        """Return whether a commit for the partition is pending."""
        return topic_partition in self._pending or any(
            topic_partition in offsets for offsets in self._transactional.values()
        )

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that a commit is pending, because it is being appended."""
        for topic_partition, offset in offsets.items():
            self._pending.setdefault(topic_partition, []).append(offset)

    def complete(self, topic_partition: TopicPartition, stored: StoredOffset) -> None:
        """Make a commit visible, because the ISR has replicated it.

        Ignore it if a newer record of the partition is already known, or if the partition was deleted since the append.
        """
        if not self._settle(topic_partition, stored.committed):
            return
        known = self._stored.get(topic_partition)
        if known is None or known.record_offset < stored.record_offset:
            self._stored[topic_partition] = stored

    def fail(self, topic_partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        """Remove a pending commit that failed. As far as this broker knows, it was not stored."""
        self._settle(topic_partition, offset)

    def _settle(self, topic_partition: TopicPartition, offset: OffsetAndMetadata) -> bool:
        """Remove a pending commit. Return whether there was one."""
        under_way = self._pending.get(topic_partition, [])
        if offset not in under_way:
            return False
        under_way.remove(offset)
        if not under_way:
            del self._pending[topic_partition]
        return True

    # ---- transactions ------------------------------------------------------------------------------------------

    @property
    def producers(self) -> list[int]:
        """The producers whose transactions have pending commits in this group."""
        return list(self._transactional)

    def prepare_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that a transaction's commit is being appended and therefore pending (prepareTxnOffsetCommit)."""
        pending = self._transactional.setdefault(producer_id, {})
        for topic_partition, offset in offsets.items():
            pending[topic_partition] = StoredOffset(NOT_STORED, offset)

    def stored_in_transaction(self, producer_id: int, topic_partition: TopicPartition, stored: StoredOffset) -> None:
        """Record that the ISR has replicated a commit of a transaction (onTxnOffsetCommitAppend)."""
        pending = self._transactional.get(producer_id, {})
        known = pending.get(topic_partition)
        if known is not None and known.committed == stored.committed:
            pending[topic_partition] = stored

    def fail_in_transaction(self, producer_id: int, topic_partition: TopicPartition) -> None:
        """Remove a transaction's commit that could not be stored (failPendingTxnOffsetCommit)."""
        pending = self._transactional.get(producer_id)
        if pending is not None:
            pending.pop(topic_partition, None)
            if not pending:
                del self._transactional[producer_id]

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Make a transaction's commits visible, or drop them if it was aborted (completePendingTxnOffsetCommit)."""
        for topic_partition, stored in self._transactional.pop(producer_id, {}).items():
            known = self._stored.get(topic_partition)
            if (
                is_commit
                and stored.record_offset != NOT_STORED
                and (known is None or known.record_offset < stored.record_offset)
            ):
                self._stored[topic_partition] = stored

    # ---- removal -----------------------------------------------------------------------------------------------

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove these partitions. Return those partitions that have a record of a committed or pending offset in the
        log.

        The caller writes tombstones for the returned partitions. Kafka writes none for a pending offset, so that the
        group's next coordinator loads the removed offset from the log.
        """
        removed = []
        for topic_partition in partitions:
            under_way = self._pending.pop(topic_partition, None)
            for producer_id in self.producers:
                self.fail_in_transaction(producer_id, topic_partition)
            stored = self._stored.pop(topic_partition, None)
            if under_way is not None or stored is not None:
                removed.append(topic_partition)
        return removed

    def remove_deleted(self, deleted: Mapping[TopicPartition, None]) -> list[TopicPartition]:
        """Remove the offsets that this group has for deleted partitions. Return what `remove` returns for them.

        Iterates over the smaller of the two sets: a topic may have thousands of partitions, while each of thousands of
        groups has an offset for one or two of them.
        """
        if len(deleted) <= len(self._stored) + len(self._pending):
            return self.remove(deleted)
        return self.remove([each for each in self._all() if each in deleted])

    def _all(self) -> dict[TopicPartition, None]:
        in_transactions = (each for offsets in self._transactional.values() for each in offsets)
        return dict.fromkeys((*self._stored, *self._pending, *in_transactions))

    def remove_all(self) -> list[TopicPartition]:
        """Remove the offsets of all partitions. Return the same list as `remove`."""
        return self.remove(self._all())

    def remove_expired(
        self, now_ms: int, retention_ms: int, base_timestamp: BaseTimestamp, subscribed: Sequence[str]
    ) -> list[TopicPartition]:
        """Remove offsets past their retention, except those of subscribed topics and those with a pending commit.

        Return the result of `remove` for the partitions of these offsets.
        """
        kept = frozenset(subscribed)
        expired = [
            topic_partition
            for topic_partition, (_, committed) in self._stored.items()
            if topic_partition.topic not in kept
            and topic_partition not in self._pending
            and (
                now_ms - base_timestamp(committed) >= retention_ms
                if committed.expire_timestamp_ms is None
                else now_ms >= committed.expire_timestamp_ms
            )
        ]
        for topic_partition in expired:
            del self._stored[topic_partition]
        return expired

"""The offsets that one group has committed, and those on their way to the log (part of Kafka's GroupMetadata)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from zabka.broker_sim.groups.records import OffsetAndMetadata
from zabka.journal.events import TopicPartition


class StoredOffset(NamedTuple):
    """A committed offset, and the log offset of the batch that holds its record."""

    record_offset: int
    committed: OffsetAndMetadata


BaseTimestamp = Callable[[OffsetAndMetadata], int]
"""From when on an offset's retention counts, in wall-clock milliseconds."""


class GroupOffsets:
    """Committed offsets by partition.  A commit is pending from its append until the ISR has it."""

    __slots__ = ("_pending", "_stored")

    def __init__(self, stored: Mapping[TopicPartition, StoredOffset] | None = None) -> None:
        self._stored: dict[TopicPartition, StoredOffset] = dict(stored or {})
        self._pending: dict[TopicPartition, list[OffsetAndMetadata]] = {}
        """Of each partition every commit that is under way: one may fail at once that came after one that waits still.
        Kafka remembers the last alone, and forgets with it one that goes well."""

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def is_empty(self) -> bool:
        """Neither committed nor pending."""
        return not self._stored and not self._pending

    def partitions(self) -> list[TopicPartition]:
        """Partitions with a committed offset."""
        return list(self._stored)

    def get(self, topic_partition: TopicPartition) -> OffsetAndMetadata | None:
        """What was committed last."""
        stored = self._stored.get(topic_partition)
        return None if stored is None else stored.committed

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        """Is a commit for it on its way?"""
        return topic_partition in self._pending

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These are appended now."""
        for topic_partition, offset in offsets.items():
            self._pending.setdefault(topic_partition, []).append(offset)

    def complete(self, topic_partition: TopicPartition, stored: StoredOffset) -> None:
        """The ISR has it.  One whose record lies before the newest known is dropped, and so is one whose partition was
        deleted meanwhile."""
        if not self._settle(topic_partition, stored.committed):
            return
        known = self._stored.get(topic_partition)
        if known is None or known.record_offset < stored.record_offset:
            self._stored[topic_partition] = stored

    def fail(self, topic_partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        """It was not stored, as far as this broker knows."""
        self._settle(topic_partition, offset)

    def _settle(self, topic_partition: TopicPartition, offset: OffsetAndMetadata) -> bool:
        """That commit is under way no more; was it?"""
        under_way = self._pending.get(topic_partition, [])
        if offset not in under_way:
            return False
        under_way.remove(offset)
        if not under_way:
            del self._pending[topic_partition]
        return True

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget these; those of which the log holds an offset, be it committed or under way still.

        Kafka writes no tombstone for the latter, and its next coordinator finds them again.
        """
        removed = []
        for topic_partition in partitions:
            under_way = self._pending.pop(topic_partition, None)
            stored = self._stored.pop(topic_partition, None)
            if under_way is not None or stored is not None:
                removed.append(topic_partition)
        return removed

    def remove_deleted(self, deleted: Mapping[TopicPartition, None]) -> list[TopicPartition]:
        """Forget those of a deletion's partitions that it has; as `remove`.  A topic may have thousands of them, and
        each of thousands of groups an offset or two."""
        if len(deleted) <= len(self._stored) + len(self._pending):
            return self.remove(deleted)
        return self.remove([each for each in dict.fromkeys((*self._stored, *self._pending)) if each in deleted])

    def remove_all(self) -> list[TopicPartition]:
        """Forget everything; as `remove`."""
        return self.remove([*self._stored, *self._pending])

    def remove_expired(
        self, now_ms: int, retention_ms: int, base_timestamp: BaseTimestamp, subscribed: Sequence[str]
    ) -> list[TopicPartition]:
        """Forget those past their retention, except of topics still subscribed to and where a commit is pending."""
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

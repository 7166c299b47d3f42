"""Reading groups and offsets back out of a partition of `__consumer_offsets` (GroupMetadataManager's loading)."""

from __future__ import annotations

from collections.abc import Callable

from broker_sim.groups.metadata import Group, group_from_stored
from broker_sim.groups.offsets import GroupOffsets, StoredOffset
from broker_sim.groups.records import (
    GroupKey,
    OffsetKey,
    StoredGroup,
    UnreadableRecord,
    read_group,
    read_key,
    read_offset,
)
from broker_sim.logs.partition_log import PartitionLog
from ensemble.ports import Runtime
from journal.events import TopicPartition
from kafka_protocol.record_batch import BatchUnreadable, Record, decode_batch, split_batches

_CONTROL_BIT = 0x20


class GroupLog:
    """What the records read so far say; the newest record of a key counts."""

    def __init__(self) -> None:
        self.unreadable = 0
        """Records that were passed over: damaged, or of a kind that newer brokers write."""
        self._groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, StoredOffset]] = {}

    def take(self, data: bytes) -> int | None:
        """Take in whole batches as they stand in the log; the offset after them, None where there are none."""
        next_offset = None
        position = 0
        for header in split_batches(data, checked=False) or ():
            if not header.attributes & _CONTROL_BIT:
                try:
                    records = decode_batch(data, position, header)
                except BatchUnreadable:
                    self.unreadable += 1
                else:
                    for record in records:
                        self._take_record(record, records[0].offset)
            position += header.size
            next_offset = header.next_offset
        return next_offset

    def _take_record(self, record: Record, batch_offset: int) -> None:
        try:
            key = read_key(record.key or b"")
            if isinstance(key, OffsetKey):
                self._take_offset(key, record.value, batch_offset)
            elif isinstance(key, GroupKey):
                if record.value is None:
                    self._groups.pop(key.group_id, None)
                else:
                    self._groups[key.group_id] = read_group(record.value)
            else:
                self.unreadable += 1
        except UnreadableRecord:
            self.unreadable += 1

    def _take_offset(self, key: OffsetKey, value: bytes | None, batch_offset: int) -> None:
        of_group = self._offsets.setdefault(key.group_id, {})
        if value is None:
            of_group.pop(key.topic_partition, None)
        else:
            of_group[key.topic_partition] = StoredOffset(batch_offset, read_offset(value))

    def groups(self, now_ms: int) -> list[Group]:
        """Every group that is left, with its offsets; one that only stores offsets has no record of its own."""
        found = [group_from_stored(group_id, stored, now_ms) for group_id, stored in self._groups.items()]
        found += [
            Group(group_id, now_ms)
            for group_id, offsets in self._offsets.items()
            if offsets and group_id not in self._groups
        ]
        for group in found:
            group.offsets = GroupOffsets(self._offsets.get(group.group_id))
        return found


async def read_group_log(
    log: PartitionLog, buffer_bytes: int, runtime: Runtime, goes_on: Callable[[], bool]
) -> GroupLog | None:
    """Read a partition to its end, a buffer at a time; None where `goes_on` says in between that it is no use."""
    read = GroupLog()
    offset = log.start_offset
    while offset < log.end_offset:
        next_offset = read.take(log.read(offset, buffer_bytes, log.end_offset, True))
        if next_offset is None:
            break
        offset = next_offset
        # Others are served between two buffers.
        await runtime.sleep(0)
        if not goes_on():
            return None
    return read

"""Loads groups and offsets from a partition of `__consumer_offsets` (the loading part of GroupMetadataManager)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from zabka.broker_sim.groups.metadata import Group, group_from_stored
from zabka.broker_sim.groups.offsets import GroupOffsets, StoredOffset
from zabka.broker_sim.groups.records import (
    GroupKey,
    OffsetKey,
    StoredGroup,
    read_group,
    read_key,
    read_offset,
)
from zabka.broker_sim.record_reader import UnreadableRecord
from zabka.broker_sim.replication.progress import HostedLog
from zabka.broker_sim.slices import SLICE_RECORDS, in_slices
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.end_transaction_marker import read_marker
from zabka.kafka.record_batch import (
    CONTROL,
    MAGIC,
    BatchHeader,
    BatchUnreadable,
    Record,
    header_is_sane,
    is_transactional,
    iter_batch,
    read_header,
)


class GroupLog:
    """Groups and offsets, built from the records read so far. The newest record of each key wins."""

    def __init__(self) -> None:
        self.unreadable = 0
        """Number of skipped records, which are damaged or of a kind that only newer brokers write."""
        self._groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, StoredOffset]] = {}
        self._pending: dict[int, dict[OffsetKey, StoredOffset | None]] = {}
        """The commits of open transactions, keyed by producer id; None for a removed offset."""

    def load_batches(self, data: bytes) -> Generator[None, None, int | None]:
        """Load complete batches of the log. Yield each time that a fixed number of records has been read.

        Other tasks can run while the generator is suspended. Returns the offset after the batches, or None if there are
        none.
        """
        next_offset = None
        seen = 0
        for position, header in _batches(data):
            records: list[Record] = []
            if header.attributes & CONTROL:
                marker = read_marker(data, position, header)
                if marker is not None:
                    self._end_transaction(header.producer_id, marker.is_commit)
            else:
                try:
                    for record in iter_batch(data, position, header):
                        records.append(record)
                        seen += 1
                        if not seen % SLICE_RECORDS:
                            yield
                except BatchUnreadable:
                    # Ignore the whole batch, because it is unknown which of its records are undamaged.
                    self.unreadable += 1
                    records.clear()
            for record in records:
                self._take_record(record, records[0].offset, header.producer_id if is_transactional(header) else None)
                seen += 1
                if not seen % SLICE_RECORDS:
                    yield
            next_offset = header.next_offset
        return next_offset

    def _end_transaction(self, producer_id: int, is_commit: bool) -> None:
        for (group_id, topic_partition), stored in self._pending.pop(producer_id, {}).items():
            of_group = self._offsets.setdefault(group_id, {})
            known = of_group.get(topic_partition)
            if is_commit and stored is not None and (known is None or known.record_offset < stored.record_offset):
                of_group[topic_partition] = stored

    def _take_record(self, record: Record, batch_offset: int, producer_id: int | None) -> None:
        try:
            key = read_key(record.key or b"")
            if isinstance(key, OffsetKey):
                stored = None if record.value is None else StoredOffset(batch_offset, read_offset(record.value))
                if producer_id is None:
                    self._take_offset(key, stored)
                else:
                    self._pending.setdefault(producer_id, {})[key] = stored
            elif isinstance(key, GroupKey):
                if record.value is None:
                    self._groups.pop(key.group_id, None)
                else:
                    self._groups[key.group_id] = read_group(record.value)
            else:
                self.unreadable += 1
        except UnreadableRecord:
            self.unreadable += 1

    def _take_offset(self, key: OffsetKey, stored: StoredOffset | None) -> None:
        of_group = self._offsets.setdefault(key.group_id, {})
        if stored is None:
            of_group.pop(key.topic_partition, None)
        else:
            of_group[key.topic_partition] = stored

    def groups(self, now_ms: int) -> Iterator[Group]:
        """Yield every loaded group with its offsets. A group without members that only stores offsets has no metadata
        record.
        """
        pending: dict[str, dict[int, dict[TopicPartition, StoredOffset]]] = {}
        for producer_id, commits in self._pending.items():
            for (group_id, topic_partition), stored in commits.items():
                if stored is not None:
                    pending.setdefault(group_id, {}).setdefault(producer_id, {})[topic_partition] = stored
        for group_id, stored_group in self._groups.items():
            group = group_from_stored(group_id, stored_group, now_ms)
            group.offsets = GroupOffsets(self._offsets.get(group_id), pending.get(group_id))
            yield group
        for group_id in dict.fromkeys((*self._offsets, *pending)):
            offsets, in_transactions = self._offsets.get(group_id), pending.get(group_id)
            if (offsets or in_transactions) and group_id not in self._groups:
                group = Group(group_id, now_ms)
                group.offsets = GroupOffsets(offsets, in_transactions)
                yield group


def _batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the complete batches at the beginning of `data` with their positions. Stop at the first damaged batch."""
    position = 0
    while (header := read_header(data, position)) is not None:
        if header.magic != MAGIC or not header_is_sane(header) or position + header.size > len(data):
            return
        yield position, header
        position += header.size


async def read_group_log(
    replica: HostedLog, buffer_bytes: int, runtime: Runtime, goes_on: Callable[[], bool]
) -> GroupLog | None:
    """Read a partition to its end, one buffer at a time. Return None once `goes_on` returns False.

    `goes_on` is called between two buffers. At such a point, the replica's log may also have been closed and replaced
    by the copy in another log directory.
    """
    read = GroupLog()
    offset = replica.log.start_offset
    while offset < replica.log.end_offset:
        data = replica.log.read(offset, buffer_bytes, replica.log.end_offset, True)
        next_offset = await in_slices(read.load_batches(data), runtime, pause_ms=0)
        if next_offset is None:
            break
        offset = next_offset
        # Let other tasks run between two buffers.
        await runtime.sleep(0)
        if not goes_on():
            return None
    return read

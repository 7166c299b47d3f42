"""A replica's log: segment files, leader epochs, producers and the high watermark (Kafka's UnifiedLog)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from broker_sim import checkpoints
from broker_sim.epoch_cache import EpochCache
from broker_sim.ports import LogDirectory
from broker_sim.producer_state import ProducerStates
from broker_sim.record_batch import BatchHeader, BatchUnreadable, decode_batch, patch_batches
from broker_sim.segment import Damage, Segment, base_offset_of, file_name
from journal.events import TopicPartition


class LogDamage(NamedTuple):
    """Damage that was found and cut off when a log was opened."""

    file: str
    position: int
    reason: str


class PartitionLog:
    """The records of one replica, from `start_offset` to before `end_offset`.

    Writes reach the operating system at once and the disk when a segment is full and at a clean stop, as with Kafka's
    defaults: a power loss may take the end of the log, which replication gives back.
    """

    __slots__ = (
        "_directory",
        "_index_interval_bytes",
        "_segments",
        "_starts",
        "damage",
        "epochs",
        "high_watermark",
        "name",
        "producers",
        "segment_bytes",
        "topic_partition",
    )

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        *,
        segment_bytes: int,
        index_interval_bytes: int = 4_096,
        stopped_cleanly: bool = False,
    ) -> None:
        """Open or create the log; `stopped_cleanly` spares the check of every batch's CRC."""
        self.topic_partition = topic_partition
        self.name = str(topic_partition)
        self.segment_bytes = segment_bytes
        self.high_watermark = 0
        self.producers = ProducerStates()
        self.damage: list[LogDamage] = []
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        directory.create_partition(self.name)
        saved = checkpoints.read_leader_epochs(directory, self.name)
        self.epochs = EpochCache(saved or [], self._save_epochs)
        self._open(check=not stopped_cleanly)

    def _save_epochs(self, entries: list[tuple[int, int]]) -> None:
        checkpoints.write_leader_epochs(self._directory, self.name, entries)

    def _open(self, check: bool) -> None:
        written: list[tuple[int, int]] = []

        def see(header: BatchHeader) -> None:
            self.producers.update(header)
            if header.leader_epoch >= 0 and (not written or header.leader_epoch > written[-1][0]):
                written.append((header.leader_epoch, header.base_offset))

        bases = [base_offset_of(file) for file in self._directory.list_files(self.name)]
        rest = sorted(base for base in bases if base is not None)
        while rest:
            base = rest.pop(0)
            segment = self._add_segment(base)
            # All but the last segment were flushed when they were full.
            damage: Damage | None = segment.recover(check and not rest, see)
            if damage is not None:
                self.damage.append(LogDamage(segment.name, damage.position, damage.reason))
            if rest and rest[0] != segment.end_offset:
                self.damage.append(LogDamage(file_name(rest[0]), 0, "records before this segment are missing"))
                for later in rest:
                    self._directory.remove(self.name, file_name(later))
                break
        if not self._segments:
            self._add_segment(0)
        self.epochs.truncate_from_end(self.end_offset)
        for epoch, offset in written:
            if epoch > self.epochs.latest:
                self.epochs.assign(epoch, offset)

    def _add_segment(self, base_offset: int) -> Segment:
        file = self._directory.open(self.name, file_name(base_offset))
        segment = Segment(base_offset, file, self._index_interval_bytes)
        self._segments.append(segment)
        self._starts.append(base_offset)
        return segment

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._starts[0]

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets (LEO)."""
        return self._segments[-1].end_offset

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    # ---- append ------------------------------------------------------------------------------------------------

    def append_as_leader(self, data: bytes, headers: Sequence[BatchHeader], leader_epoch: int) -> list[BatchHeader]:
        """Give checked batches their offsets and write them; returns their headers as stored."""
        stored, patched = patch_batches(data, headers, self.end_offset, leader_epoch)
        self._append(stored, patched)
        return patched

    def append_as_follower(self, data: bytes, headers: Sequence[BatchHeader]) -> bool:
        """Write batches as the leader stores them.  False where they do not continue this log: nothing is written."""
        if headers[0].base_offset != self.end_offset:
            return False
        end = headers[0].base_offset
        size = 0
        for header in headers:
            if header.base_offset != end:
                return False
            end = header.next_offset
            size += header.size
        self._append(data if len(data) == size else data[:size], headers)
        for header in headers:
            if header.leader_epoch > self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
        return True

    def _append(self, data: bytes, headers: Sequence[BatchHeader]) -> None:
        active = self._segments[-1]
        if active.size and active.size + len(data) > self.segment_bytes:
            active.file.flush()
            active = self._add_segment(active.end_offset)
        active.append(data, headers)
        for header in headers:
            self.producers.update(header)

    # ---- read --------------------------------------------------------------------------------------------------

    def _segment_of(self, offset: int) -> Segment:
        return self._segments[max(0, bisect_right(self._starts, offset) - 1)]

    def read(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> bytes:
        """Whole batches from the one that holds `offset`, before the offset `up_to`, of one segment.

        Where not even the first fits into `max_bytes` it is returned if `at_least_one` (KIP-74), else nothing.
        `offset` must lie within the log.
        """
        if offset >= up_to or offset >= self.end_offset:
            return b""
        segment = self._segment_of(offset)
        found = segment.locate(offset)
        if found is None:
            return b""
        start, header = found
        end = segment.size if up_to >= segment.end_offset else segment.position_of(up_to)
        if end - start > max_bytes:
            end = segment.whole_batches(start, max_bytes)
            if end == start and at_least_one:
                end = start + header.size
        return segment.file.read(start, end - start) if end > start else b""

    def bytes_between(self, offset: int, up_to: int) -> int:
        """How many bytes a read from `offset` up to `up_to` has at most."""
        if offset >= up_to:
            return 0
        first, last = self._segment_of(offset), self._segment_of(up_to)
        if first is last:
            return first.position_of(up_to) - first.position_of(offset)
        between = [s.size for s in self._segments if first.base_offset < s.base_offset < last.base_offset]
        return first.size - first.position_of(offset) + sum(between) + last.position_of(up_to)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record that is not older than `timestamp_ms`; None where all are.

        In a batch whose compression is not supported here the batch's own bounds stand for its records'.
        """
        for segment in self._segments:
            if segment.max_timestamp < timestamp_ms:
                continue
            for position, header in segment.headers():
                if header.max_timestamp >= timestamp_ms:
                    return _first_not_older(segment, position, header, timestamp_ms)
        return None

    def latest_timestamp(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the first of the records with the highest timestamp; None for an empty log."""
        highest = max(segment.max_timestamp for segment in self._segments)
        return self.offset_for_timestamp(highest) if self.end_offset > self.start_offset else None

    # ---- truncate ----------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Drop everything from `offset` on (with the whole batch that holds it); returns the new end offset."""
        if offset < self.start_offset:
            self.truncate_fully_and_start_at(offset)
            return offset
        if offset < self.end_offset:
            while len(self._segments) > 1 and self._starts[-1] >= offset:
                self._drop_segment()
            self._segments[-1].truncate_to(offset)
            self.high_watermark = min(self.high_watermark, self.end_offset)
            if not self.producers.truncate(self.end_offset):
                self._rebuild_producers()
        self.epochs.truncate_from_end(min(offset, self.end_offset))
        return self.end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records; the log is empty and begins at `offset`."""
        while self._segments:
            self._drop_segment()
        self._add_segment(offset)
        self.epochs.clear()
        self.producers.clear()
        self.high_watermark = offset

    def _drop_segment(self) -> None:
        segment = self._segments.pop()
        self._starts.pop()
        segment.file.close()
        self._directory.remove(self.name, segment.name)

    def _rebuild_producers(self) -> None:
        self.producers.clear()
        for segment in self._segments:
            for _, header in segment.headers():
                self.producers.update(header)

    # ---- end of life -------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Everything that was appended survives a power loss from now on."""
        self._segments[-1].file.flush()

    def close(self) -> None:
        """Close the files; flush first where the end of the log matters."""
        for segment in self._segments:
            segment.file.close()

    def delete(self) -> None:
        """Close and remove everything."""
        self.close()
        self._directory.delete_partition(self.name)


def _first_not_older(segment: Segment, position: int, header: BatchHeader, timestamp_ms: int) -> tuple[int, int]:
    data = segment.file.read(position, header.size)
    try:
        records = decode_batch(data, 0, header)
    except BatchUnreadable:
        return header.max_timestamp, header.base_offset
    for record in records:
        if record.timestamp_ms >= timestamp_ms:
            return record.timestamp_ms, record.offset
    return header.max_timestamp, header.base_offset

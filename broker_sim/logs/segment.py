"""One segment file of a log, with a sparse index in memory (Kafka's LogSegment, OffsetIndex, TimeIndex)."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from zabka.broker_sim.logs.epoch_cache import UNDEFINED_EPOCH
from zabka.broker_sim.ports import LogFile
from zabka.kafka.record_batch import HEADER_SIZE, MAGIC, BatchHeader, checksum_holds, header_is_sane, read_header

SUFFIX = ".log"
_SCAN_BYTES = 1 << 20


def file_name(base_offset: int) -> str:
    """Return a segment's file name: its base offset in 20 digits, as in Kafka."""
    return f"{base_offset:020d}{SUFFIX}"


def base_offset_of(name: str) -> int | None:
    """Return the base offset in a segment's file name, or None for another file."""
    digits = name.removesuffix(SUFFIX)
    return int(digits) if name == digits + SUFFIX and len(digits) == 20 and digits.isdigit() else None


class Damage(NamedTuple):
    """Damage that was found when a segment was opened. The segment was truncated at `position`."""

    position: int
    reason: str


class Segment:
    """One segment: the batches from `base_offset` to before `end_offset`."""

    __slots__ = (
        "_index_interval_bytes",
        "_indexed_at",
        "_last",
        "_newest",
        "_offsets",
        "_positions",
        "_still_at",
        "base_offset",
        "cut_count",
        "end_offset",
        "file",
        "first_timestamp",
        "max_timestamp",
        "name",
        "records_end",
        "size",
    )

    def __init__(self, base_offset: int, file: LogFile, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.records_end = base_offset
        """The offset after the segment's last batch.

        After a truncation within a gap it is lower than `end_offset`. The file itself does not show such a truncation.
        """
        self.name = file_name(base_offset)
        self.file = file
        self.size = 0
        self.cut_count = 0
        """Number of truncations of the segment."""
        self.max_timestamp = -1
        self.first_timestamp = -1
        """The timestamp of the first batch; -1 for an empty segment."""
        self._index_interval_bytes = index_interval_bytes
        self._indexed_at = 0
        self._last: tuple[int, BatchHeader] | None = None
        """File position and header of the last appended batch; None after a truncation."""
        self._offsets = array("q")
        self._positions = array("q")
        self._newest = array("q")
        """For each index entry, the highest timestamp of the batches before it; -1 for the first entry."""
        self._still_at: tuple[int, int] | None = None
        """The segment's size, and the time at which the segment was first seen with that size."""

    def _note(self, position: int, header: BatchHeader) -> None:
        """Add a batch, which begins at `position`, to the index."""
        if not self._offsets or position - self._indexed_at >= self._index_interval_bytes:
            self._offsets.append(header.base_offset)
            self._positions.append(position)
            self._newest.append(self.max_timestamp)
            self._indexed_at = position
        if not position:
            self.first_timestamp = header.max_timestamp
        self._last = position, header
        self.size = position + header.size
        self.end_offset = self.records_end = header.next_offset
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp

    def newest_ms(self, wall_ms: int) -> int:
        """Return the timestamp of the segment's newest record.

        If the records have no timestamps, return the time of the first call in this process since the last append.
        Kafka uses the modification time of the file (LogSegment.largestTimestamp).
        """
        if self.max_timestamp >= 0:
            return self.max_timestamp
        if self._still_at is None or self._still_at[0] != self.size:
            self._still_at = self.size, wall_ms
        return self._still_at[1]

    def append(self, data: bytes, headers: Sequence[BatchHeader]) -> None:
        """Append whole batches, whose headers are `headers`."""
        position = self.file.append(data)
        assert position == self.size, "somebody else writes to this segment"
        for header in headers:
            self._note(position, header)
            position += header.size

    def recover(
        self, check: bool, see: Callable[[BatchHeader, int], None], epoch: int = UNDEFINED_EPOCH
    ) -> Damage | None:
        """Read the segment when the log is opened: build the index and truncate the file at the first damage.

        Calls `see` with every header and its position. With `check`, the CRC of every batch is computed. A batch whose
        leader epoch is lower than that of the previous batch, or than `epoch`, then counts as damage: epochs never
        decrease in a log (LeaderEpochFileCache), so a lower one means that a power loss has restored truncated records
        before they were overwritten. `check` is needed if the broker did not shut down cleanly.
        """
        file_size = self.file.size()
        position = 0
        chunk, chunk_at = b"", 0
        reason = ""
        while position < file_size:
            if position + HEADER_SIZE > chunk_at + len(chunk):
                chunk, chunk_at = self.file.read(position, _SCAN_BYTES), position
            header = read_header(chunk, position - chunk_at)
            # Because compaction leaves gaps, a batch may begin later than where the previous one ends, but never
            # earlier.
            if header is None:
                reason = "a batch's header is cut off"
            elif header.magic != MAGIC or not header_is_sane(header) or header.base_offset < self.end_offset:
                reason = "a batch's header makes no sense"
            elif position + header.size > file_size:
                reason = "a batch is cut off"
            if reason or header is None:
                break
            if check:
                if position + header.size > chunk_at + len(chunk):
                    chunk, chunk_at = self.file.read(position, max(_SCAN_BYTES, header.size)), position
                if not checksum_holds(chunk, position - chunk_at, header):
                    reason = "a batch's checksum is wrong"
                    break
                if UNDEFINED_EPOCH < header.leader_epoch < epoch:
                    reason = "a batch is of an earlier leader epoch than the one before"
                    break
                epoch = max(epoch, header.leader_epoch)
            self._note(position, header)
            see(header, position)
            position += header.size
        if not reason:
            return None
        self.file.truncate(position)
        return Damage(position, reason)

    def headers(self, position: int = 0, chunk_bytes: int = _SCAN_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (file position, header) of every batch, beginning with the one at `position`."""
        chunk, chunk_at = b"", position
        while position < self.size:
            if position + HEADER_SIZE > chunk_at + len(chunk):
                chunk, chunk_at = self.file.read(position, min(chunk_bytes, self.size - position)), position
            header = read_header(chunk, position - chunk_at)
            assert header is not None, "the log was checked when it was opened"
            yield position, header
            position += header.size

    def headers_since(self, timestamp_ms: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the same as `headers`, but skip most batches that are before `offset` or older than `timestamp_ms`."""
        at = max(bisect_left(self._newest, timestamp_ms), bisect_right(self._offsets, offset)) - 1
        return self.headers(self._positions[at] if at >= 0 else 0, self._index_interval_bytes + HEADER_SIZE)

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the batch that contains `offset`, or else of the first batch after it.

        Return None if `offset` is at or after the end.
        """
        if offset >= self.end_offset:
            return None
        if self._last is not None and offset >= self._last[1].base_offset:
            # Fast path for a fetcher that is caught up: it reads the last batch.
            return self._last
        at = bisect_right(self._offsets, offset) - 1
        start = self._positions[at] if at >= 0 else 0
        for position, header in self.headers(start, self._index_interval_bytes + HEADER_SIZE):
            if header.next_offset > offset:
                return position, header
        return None

    def position_of(self, offset: int) -> int:
        """Return the file position of the batch that contains `offset`.

        Return the segment's size if `offset` is at or after the end.
        """
        found = self.locate(offset)
        return self.size if found is None else found[0]

    def whole_batches(self, start: int, max_bytes: int) -> int:
        """Return the end position of the last batch that fits into `max_bytes` from `start`; `start` if none fits."""
        limit = start + max_bytes
        at = bisect_right(self._positions, limit) - 1
        end = max(start, self._positions[at]) if at >= 0 else start
        for position, header in self.headers(end, self._index_interval_bytes + HEADER_SIZE):
            if position + header.size > limit:
                return position
            end = position + header.size
        return end

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that contains `offset` and everything after it.

        If `offset` is in a gap from compaction, the segment ends within that gap.
        """
        found = self.locate(offset)
        if found is None:
            # There is no batch at or after `offset`. An earlier truncation within this gap ended the log at a higher
            # offset.
            self.end_offset = min(self.end_offset, offset)
            return
        position, header = found
        self.file.truncate(position)
        self._last = self._still_at = None
        self.cut_count += 1
        self.size = position
        self.end_offset = min(offset, header.base_offset)
        while self._positions and self._positions[-1] >= position:
            self._positions.pop()
            self._offsets.pop()
            self._newest.pop()
        self._indexed_at = self._positions[-1] if self._positions else 0
        self.max_timestamp = self._newest[-1] if self._newest else -1
        self.records_end = self.base_offset
        for _, header in self.headers(self._indexed_at):
            self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
            self.records_end = header.next_offset

"""Scans the records of a batch as bytes, without an object per record (DefaultRecordBatch's iterators).

A scan proceeds piece by piece while the batch is decompressed, and pauses after a given number of records: 60 kB of
gzip may contain millions of records, and other clients must not wait for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from zabka.kafka.compression import CompressionError, Data, ExpandsTooFar
from zabka.kafka.record_batch import CODEC_MASK, LOG_APPEND_TIME, BatchHeader
from zabka.kafka.record_refusals import RecordErrors, RecordsRefused, invalid, too_large, unexpected
from zabka.kafka.record_rules import NO_TIMESTAMP, Append, as_long

_PIECE_COSTS = 50
"""Cost of decompressing a piece, as the number of records that could be scanned in that time."""
_INT_MASK, _LONG_MASK = 2**32 - 1, 2**64 - 1
_INT_BYTES, _LONG_BYTES = 5, 10


def read_varint(data: Data, at: int) -> tuple[int, int]:
    """Return a varint that fits into a Java int, before zigzag decoding, and the position after it.

    Raises IndexError if the data ends within the varint, RecordsRefused if it has more than five bytes or 32 bits.
    """
    value = shift = 0
    for _ in range(_INT_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value <= _INT_MASK:
            return value, at
        shift += 7
    raise invalid("Found invalid record structure")


def read_varlong(data: Data, at: int) -> tuple[int, int]:
    """Decode a varint of up to ten bytes, and return its value and the position after it.

    `read_varint` does the same for up to five bytes.
    """
    value = shift = 0
    for _ in range(_LONG_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value <= _LONG_MASK:
            return value, at
        shift += 7
    raise invalid("Found invalid record structure")


def signed(raw: int) -> int:
    """Decode a zigzag-encoded number."""
    return (raw >> 1) ^ -(raw & 1)


class RecordWalk:
    """Scan of one batch. `pieces` are the decompressed parts of the batch."""

    __slots__ = (
        "_append",
        "_at",
        "_checks_each",
        "_data",
        "_end_of_record",
        "_errors",
        "_first_delta",
        "_goes_back",
        "_header",
        "_headers_left",
        "_index",
        "_needed",
        "_newest",
        "_pieces",
        "_waiting",
        "_waiting_bytes",
        "is_sequential",
    )

    def __init__(self, header: BatchHeader, pieces: Iterator[Data], append: Append) -> None:
        self._header = header
        self._pieces = pieces
        self._append = append
        is_stamped = bool(header.attributes & LOG_APPEND_TIME)
        self._checks_each = append.checks_times or is_stamped
        self._errors = RecordErrors()
        self._index = 0
        self._newest: int | None = None
        """Highest delta of a record's timestamp from the batch's base timestamp."""
        self._first_delta = 0
        self._goes_back = False
        self.is_sequential = True
        """Whether the records' offsets are consecutive, starting with the batch's base offset."""
        self._data: Data = b""
        self._at = 0
        self._needed = 1
        """Number of bytes needed to decode the record at `_at`.

        Until its length field has been decoded, this is the number of bytes needed for that field.
        """
        self._waiting: list[Data] = []
        self._waiting_bytes = 0
        self._headers_left = 0
        self._end_of_record = 0

    @property
    def max_timestamp(self) -> int:
        """Highest timestamp of the records, -1 if no record has one."""
        header = self._header
        if header.attributes & LOG_APPEND_TIME:
            return max(NO_TIMESTAMP, header.max_timestamp)
        newest = NO_TIMESTAMP if self._newest is None else as_long(header.base_timestamp + self._newest)
        return max(NO_TIMESTAMP, newest)

    @property
    def may_be_copied(self) -> bool:
        """Whether a batch built from the records would contain the same bytes, so that they can be copied."""
        header = self._header
        return (
            self.is_sequential
            and self._first_delta == 0
            and not self._goes_back
            and header.base_timestamp >= NO_TIMESTAMP
            and not header.attributes & LOG_APPEND_TIME
        )

    def step(self, records_max: int) -> bool:
        """Scan up to `records_max` more records; return whether the scan is complete. Raises RecordsRefused."""
        left = records_max
        count = self._header.record_count
        while left > 0:
            if self._headers_left:
                left -= self._skip_headers(left)
            elif self._index == count:
                if self._at != len(self._data) or self._waiting_bytes:
                    raise invalid("Incorrect declared batch size, records still remaining in file")
                if not self._pull():
                    self._errors.check()
                    return True
                left -= _PIECE_COSTS
            else:
                before = self._index
                self._run(left)
                left -= self._index - before
                if left > 0 and self._index < count and not self._headers_left:
                    if not self._pull():
                        raise invalid("Incorrect declared batch size, premature EOF reached")
                    left -= _PIECE_COSTS
        return False

    def _pull(self) -> bool:
        """Read the next decompressed piece; return False if there is none."""
        try:
            piece = next(self._pieces, None)
        except ExpandsTooFar as wrong:
            raise too_large(str(wrong)) from None
        except CompressionError as wrong:
            raise unexpected(f"Failed to decompress record stream: {wrong}") from None
        if piece is None:
            return False
        if piece:
            self._waiting.append(piece)
            self._waiting_bytes += len(piece)
            rest = len(self._data) - self._at
            if rest + self._waiting_bytes >= self._needed:
                # Join all pieces of a record at once, which is faster than appending each piece.
                parts = self._waiting if not rest else [memoryview(self._data)[self._at :], *self._waiting]
                self._data = parts[0] if len(parts) == 1 else b"".join(parts)
                self._at = self._waiting_bytes = 0
                self._waiting = []
        return True

    def _run(self, most: int) -> None:
        """Scan the complete records in the buffer, at most `most` of them."""
        try:
            self._go_through(most)
        except IndexError:
            raise invalid("Found invalid record structure") from None

    def _go_through(self, most: int) -> None:
        # Function calls are expensive in this loop, so the common path is in one function.
        data, at, index = self._data, self._at, self._index
        stop, seen_time, delta = len(data), -1, 0
        last = min(self._header.record_count, index + most)
        asks_for_key, checks_each = self._append.rules.compacts, self._checks_each
        try:
            while index < last:
                start = at
                if at >= stop:
                    self._needed = 1
                    break
                size = data[at]
                at += 1
                if size > 0x7F:
                    size, at = self._long_size(data, start, stop)
                end = at + (size >> 1)
                if end > stop and not size & 1:
                    at, self._needed = start, end - start
                    break
                raw = data[at + 1]
                at += 2
                if raw > 0x7F:
                    more = data[at]
                    if more < 0x80:
                        raw += (more << 7) - 0x80
                        at += 1
                    else:
                        raw, at = read_varlong(data, at - 1)
                if raw != seen_time:
                    seen_time, delta = raw, self._note_time((raw >> 1) ^ -(raw & 1))
                raw_offset = data[at]
                at += 1
                if raw_offset > 0x7F:
                    more = data[at]
                    if more < 0x80:
                        raw_offset += (more << 7) - 0x80
                        at += 1
                    else:
                        raw_offset, at = read_varint(data, at - 1)
                if raw_offset != index << 1:
                    self.is_sequential = False
                key_size = data[at]
                at += 1
                if key_size > 0x7F:
                    more = data[at]
                    if more < 0x80:
                        key_size += (more << 7) - 0x80
                        at += 1
                    else:
                        key_size, at = read_varint(data, at - 1)
                if not key_size & 1:
                    at += key_size >> 1
                value_size = data[at]
                at += 1
                if value_size > 0x7F:
                    more = data[at]
                    if more < 0x80:
                        value_size += (more << 7) - 0x80
                        at += 1
                    else:
                        value_size, at = read_varint(data, at - 1)
                if not value_size & 1:
                    at += value_size >> 1
                if checks_each or (asks_for_key and key_size & 1):
                    self._check(index, raw_offset, delta, key_size, value_size)
                index += 1
                if data[at]:
                    at = self._begin_headers(data, at, end)
                    break
                at += 1
                if at != end:
                    raise invalid("Invalid record size: its fields end elsewhere")
        finally:
            self._at, self._index = at, index

    def _note_time(self, delta: int) -> int:
        if self._newest is None:
            self._newest = self._first_delta = delta
        elif delta > self._newest:
            self._newest = delta
        elif delta < 0:
            self._goes_back = True
        return delta

    def _long_size(self, data: Data, at: int, stop: int) -> tuple[int, int]:
        """Decode a length of several bytes. If bytes are missing, return a length that ends after the buffer."""
        more = data[at + 1] if at + 1 < stop else 0x80
        if more < 0x80:
            return data[at] + (more << 7) - 0x80, at + 2
        if stop - at < _INT_BYTES and data[stop - 1] > 0x7F:
            return stop - at + 1 << 1, at
        try:
            return read_varint(data, at)
        except RecordsRefused:
            if self._header.attributes & CODEC_MASK:
                raise
            # Kafka handles this error only in compressed batches. For an uncompressed batch it returns
            # UNKNOWN_SERVER_ERROR.
            raise unexpected("Varint is too long") from None

    def _check(self, index: int, raw_offset: int, delta: int, key_size: int, value_size: int) -> None:
        header = self._header
        offset = header.base_offset + signed(raw_offset)
        timestamp_ms = as_long(header.base_timestamp + delta)
        shown = None
        if header.attributes & LOG_APPEND_TIME:
            timestamp_ms = header.max_timestamp
            key, value = signed(key_size), signed(value_size)
            kind = "PartialDefaultRecord"
            codec = header.attributes & CODEC_MASK
            if not codec or self._append.rules.codec not in (None, codec):
                # With these codecs Kafka has read the whole record when it finds the error, so its error message
                # describes the record differently.
                kind, key, value = "DefaultRecord", max(key, 0), max(value, 0)
            shown = f"{kind}(offset={offset}, timestamp={timestamp_ms}, key={key} bytes, value={value} bytes)"
        self._append.check_record(self._errors, index, offset, timestamp_ms, not key_size & 1, shown)

    # ---- headers ----------------------------------------------------------------------------------------------

    def _begin_headers(self, data: Data, at: int, end: int) -> int:
        count, at = read_varint(data, at)
        if count & 1 or count >> 1 > end - at:
            raise invalid(f"Found invalid number of record headers {signed(count)}")
        self._headers_left, self._end_of_record = count >> 1, end
        if not self._headers_left and at != end:
            raise invalid("Invalid record size: its fields end elsewhere")
        return at

    def _skip_headers(self, most: int) -> int:
        """Skip up to `most` headers of the record scanned last; return the number of skipped headers."""
        data, at = self._data, self._at
        count = min(most, self._headers_left)
        try:
            for _ in range(count):
                size, at = read_varint(data, at)
                if size & 1:
                    raise invalid(f"Invalid negative header key size {signed(size)}")
                size, at = read_varint(data, at + (size >> 1))
                if not size & 1:
                    at += size >> 1
        except IndexError:
            raise invalid("Found invalid record structure") from None
        self._at = at
        self._headers_left -= count
        if not self._headers_left and at != self._end_of_record:
            raise invalid("Invalid record size: its fields end elsewhere")
        return count

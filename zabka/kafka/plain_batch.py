"""Fast check of the batches that most producers send: single, uncompressed, with few records and no headers.

Any other batch is left to `record_validation`, which finds out whether it is invalid and why.
"""

from __future__ import annotations

from crc32c import crc32c

from zabka.kafka.compression import Data
from zabka.kafka.record_batch import (
    CHECKED_FROM,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
)

PLAIN_RECORDS_MAX = 2_000
"""Maximum number of records in a plain batch. Larger batches are validated in slices."""


def plain_batch(data: Data, max_message_bytes: int) -> BatchHeader | None:
    """Return the header of a valid plain batch that can be appended unchanged, or None if it needs the full check.

    Call this function only for topics whose config has no rules for keys and timestamps and keeps the producer's codec
    (`TopicRules.asks_nothing`).
    """
    size = len(data)
    if not HEADER_SIZE <= size <= max_message_bytes:
        return None
    header = BatchHeader._make(HEADER.unpack_from(data))
    count = header.record_count
    if (
        header.length != size - SIZE_OVERHEAD
        or header.magic != MAGIC
        or header.base_offset
        or header.attributes & ~TRANSACTIONAL
        or not 0 < count <= PLAIN_RECORDS_MAX
        or header.last_offset_delta != count - 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or header.max_timestamp < -1
    ):
        return None
    whole = bytes(data)
    if crc32c(memoryview(whole)[CHECKED_FROM:]) != header.crc:
        return None
    newest = _newest_of(whole, HEADER_SIZE, count)
    if newest is None or header.base_timestamp + newest != header.max_timestamp:
        return None
    return header


_ALIKE_MIN = 12
"""Minimum number of remaining records at which they are all checked together (`_alike`)."""
_EVEN, _ODD = bytes(range(0, 256, 2)), bytes(range(1, 256, 2))
_LAST, _MORE = bytes(range(0x80)), bytes(range(0x80, 0x100))
"""The bytes that end a varint, and the bytes after which a varint continues."""
_UP_TO = [bytes(range(top + 1)) for top in range(0x100)]


def _newest_of(data: bytes, at: int, count: int) -> int | None:
    """Return the highest timestamp delta of the records, or None if they do not end exactly at the end of the data.

    Also return None if a length or delta has more than two bytes or is not in its shortest form.
    """
    newest = -1
    stride, left, tries_at = 0, count, count
    try:
        while left:
            start = at
            size = data[at]
            if size < 0x80:
                end = at + 1 + (size >> 1)
                at += 2
            elif data[at + 1] < 0x80:
                end = at + 2 + ((size & 0x7F | data[at + 1] << 7) >> 1)
                at += 3
            else:
                return None
            raw = data[at]
            if raw > 0x7F:
                at += 1
                if data[at] > 0x7F:
                    return None
                raw = raw & 0x7F | data[at] << 7
            if raw > newest and not raw & 1:
                newest = raw
            # Skip the offset delta, because its value does not matter without compression.
            if data[at + 1] < 0x80:
                at += 2
            elif data[at + 2] < 0x80:
                at += 3
            else:
                return None
            size = data[at]
            if size > 0x7F:
                at += 1
                if data[at] > 0x7F:
                    return None
                size = size & 0x7F | data[at] << 7
            at += 1 if size & 1 else 1 + (size >> 1)
            # Without headers, the value must fill the rest of the record, so check its length.
            size = data[at]
            if size < 0x80:
                if end - at - 2 != (0 if size & 1 else size >> 1):
                    return None
            elif end - at - 3 << 1 != size & 0x7F | data[at + 1] << 7:
                return None
            at = end
            if data[at - 1]:
                return None
            left -= 1
            if at - start == stride and _ALIKE_MIN <= left <= tries_at:
                tries_at = left - 2 * _ALIKE_MIN
                run, latest = _alike(data, start, end, left)
                newest = max(newest, latest)
                at += run * stride
                left -= run
            stride = end - start
    except IndexError:
        return None
    # If all timestamp deltas are negative (newest < 0), use the full check. Such batches are rare.
    return newest >> 1 if at == len(data) and newest >= 0 else None


def _places(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return the positions of a record's timestamp delta, offset delta, key length and value length.

    Each of these fields has one or two bytes.
    """
    time_at = at + (2 if data[at] < 0x80 else 3)
    offset_at = time_at + (1 if data[time_at] < 0x80 else 2)
    key_at = offset_at + (1 if data[offset_at] < 0x80 else 2)
    size, at = data[key_at], key_at + 1
    if size > 0x7F:
        size, at = size & 0x7F | data[at] << 7, at + 1
    return time_at, offset_at, key_at, at if size & 1 else at + (size >> 1)


def _alike(data: bytes, start: int, end: int, most: int) -> tuple[int, int]:
    """Return how many of the next records have equal lengths at equal positions, and their highest timestamp delta.

    The delta is before zigzag decoding. For speed, each position is compared in all records at once, instead of record
    by record.
    """
    time_at, offset_at, key_at, value_at = _places(data, start)
    stride = end - start
    run = min(most, len(data) // stride)
    same = [*range(start, time_at - 1), end - 1]
    for at in (key_at, value_at):
        same += [at, at + 1] if data[at] > 0x7F else [at]
    for at in same:
        column = data[at + stride : at + stride + run * stride : stride]
        if len(column) < run or column != data[at : at + 1] * run:
            run = len(column) - len(column.lstrip(data[at : at + 1]))
            if not run:
                return 0, -1
    for first, after in ((time_at, offset_at), (offset_at, key_at)):
        column = data[after - 1 + stride : after - 1 + stride + run * stride : stride]
        if not column.isascii():
            run = len(column) - len(column.lstrip(_LAST))
        if after - first > 1:
            column = data[first + stride : first + stride + run * stride : stride]
            if column.translate(None, _MORE):
                run = len(column) - len(column.lstrip(_MORE))
    if not run:
        return 0, -1
    low = data[time_at + stride : time_at + stride + run * stride : stride]
    if time_at + 1 == offset_at:
        return run, _highest(low.translate(None, _ODD))
    if low.translate(None, _EVEN):
        # A timestamp delta is negative. Return 0, so that the records are checked one by one.
        return 0, -1
    high = data[time_at + 1 + stride : time_at + 1 + stride + run * stride : stride]
    top = _highest(high)
    return run, (top << 7) + _highest(_neighbours(low, high, top)) - 0x80


def _highest(column: bytes) -> int:
    """Return the highest byte, -1 if there are none. It is usually the last byte, because timestamps increase."""
    if not column:
        return -1
    return max(column) if column.translate(None, _UP_TO[column[-1]]) else column[-1]


def _neighbours(low: bytes, high: bytes, top: int) -> bytes:
    """Return those bytes of `low` that are at the positions at which `high` has the byte `top`."""
    first = high.index(top)
    if high.count(top) == len(high) - first:
        return low[first:]
    return bytes(one for one, other in zip(low, high, strict=True) if other == top)

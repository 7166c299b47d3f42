"""The short way of the batches that most producers send: alone, uncompressed, of few records without headers.

Whatever is odd about a batch is left to `record_validation`, which finds out whether it is wrong and says how.
"""

from __future__ import annotations

from crc32c import crc32c

from kafka_protocol.compression import Data
from kafka_protocol.record_batch import CHECKED_FROM, HEADER, HEADER_SIZE, MAGIC, SIZE_OVERHEAD, BatchHeader

PLAIN_RECORDS_MAX = 2_000
"""More are looked over in slices."""


def plain_batch(data: Data, max_message_bytes: int) -> BatchHeader | None:
    """The header of a sound and plain batch, that can be appended as it is; None where it takes a closer look.

    For topics that ask nothing of keys and times and keep the producer's codec (`TopicRules.asks_nothing`).
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
        or header.attributes
        or not 0 < count <= PLAIN_RECORDS_MAX
        or header.last_offset_delta != count - 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or header.max_timestamp < -1
    ):
        return None
    checked = bytes(data[CHECKED_FROM:])
    if crc32c(checked) != header.crc:
        return None
    newest = _newest_of(checked, HEADER_SIZE - CHECKED_FROM, count)
    if newest is None or header.base_timestamp + newest != header.max_timestamp:
        return None
    return header


_ALIKE_MIN = 12
"""So many records must be left to look at all of them at once."""
_EVEN, _ODD = bytes(range(0, 256, 2)), bytes(range(1, 256, 2))
_LAST, _MORE = bytes(range(0x80)), bytes(range(0x80, 0x100))
"""The bytes that end a varint, and those that do not."""


def _newest_of(data: bytes, at: int, count: int) -> int | None:
    """The highest difference of the records' times to the batch's, if they end where the data do; None for anything
    but lengths and differences of one or two bytes."""
    newest = -1
    left, tries_at = count, count
    try:
        while left:
            start = at
            size = data[at]
            at += 1
            if size > 0x7F:
                size += (data[at] << 7) - 0x80
                at += 1
                if size > 0x3FFF:
                    return None
            end = at + (size >> 1)
            time_at = at + 1
            raw = data[time_at]
            at += 2
            if raw > 0x7F:
                raw += (data[at] << 7) - 0x80
                at += 1
                if raw > 0x3FFF:
                    return None
            if not raw & 1 and raw >> 1 > newest:
                newest = raw >> 1
            # The offset's difference: its value does not matter where nothing is compressed.
            offset_at = at
            if data[at] > 0x7F:
                at += 1
                if data[at] > 0x7F:
                    return None
            key_at = at = at + 1
            size = data[at]
            at += 1
            if size > 0x7F:
                size += (data[at] << 7) - 0x80
                at += 1
                if size > 0x3FFF:
                    return None
            if not size & 1:
                at += size >> 1
            value_at = at
            size = data[at]
            at += 1
            if size > 0x7F:
                size += (data[at] << 7) - 0x80
                at += 1
                if size > 0x3FFF:
                    return None
            if not size & 1:
                at += size >> 1
            if data[at] or at + 1 != end:
                return None
            at = end
            left -= 1
            if left >= _ALIKE_MIN and left <= tries_at:
                tries_at = left - 2 * _ALIKE_MIN
                run, latest = _alike(data, start, end, (time_at, offset_at, key_at, value_at), left)
                newest = max(newest, latest)
                at += run * (end - start)
                left -= run
    except IndexError:
        return None
    # Times that all go back are rare enough for a closer look.
    return newest if at == len(data) and newest >= 0 else None


def _alike(data: bytes, start: int, end: int, places: tuple[int, int, int, int], most: int) -> tuple[int, int]:
    """(how many records after the one from `start` to `end` have its lengths in the same places, the highest time in
    them); nothing is done record by record, for every place is looked at through all of them."""
    time_at, offset_at, key_at, value_at = places
    stride = end - start
    run = min(most, len(data) // stride)
    same = [*range(start, time_at - 1), end - 1]
    for at in (key_at, value_at):
        same += [at, at + 1] if data[at] > 0x7F else [at]
    for at in same:
        column = data[at + stride : at + stride + run * stride : stride]
        run = len(column) - len(column.lstrip(data[at : at + 1]))
        if not run:
            return 0, -1
    for first, behind in ((time_at, offset_at), (offset_at, key_at)):
        for at in range(first, behind):
            column = data[at + stride : at + stride + run * stride : stride]
            run = len(column) - len(column.lstrip(_LAST if at == behind - 1 else _MORE))
    low = data[time_at + stride : time_at + stride + run * stride : stride]
    if time_at + 1 == offset_at:
        return run, max(low.translate(None, _ODD), default=-2) >> 1
    if low.translate(None, _EVEN):
        # Some go back; one looks at each.
        return 0, -1
    high = data[time_at + 1 + stride : time_at + 1 + stride + run * stride : stride]
    latest, rest = max(zip(high, low, strict=True), default=(0, 0x7E))
    return run, (latest << 7) + rest - 0x80 >> 1

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


def _newest_of(data: bytes, at: int, count: int) -> int | None:
    """The highest difference of the records' times to the batch's, if they end where the data do; None for anything
    but lengths and differences of one or two bytes."""
    newest = -1
    seen = -1
    try:
        for _ in range(count):
            size = data[at]
            at += 1
            if size > 0x7F:
                size += (data[at] << 7) - 0x80
                at += 1
                if size > 0x3FFF:
                    return None
            end = at + (size >> 1)
            delta = data[at + 1]
            at += 2
            if delta > 0x7F:
                delta += (data[at] << 7) - 0x80
                at += 1
                if delta > 0x3FFF:
                    return None
            if delta != seen:
                seen = delta
                if not delta & 1 and delta >> 1 > newest:
                    newest = delta >> 1
            # The offset's difference: its value does not matter where nothing is compressed.
            if data[at] > 0x7F:
                at += 1
                if data[at] > 0x7F:
                    return None
            size = data[at + 1]
            at += 2
            if size > 0x7F:
                size += (data[at] << 7) - 0x80
                at += 1
                if size > 0x3FFF:
                    return None
            if not size & 1:
                at += size >> 1
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
    except IndexError:
        return None
    # Times that all go back are rare enough for a closer look.
    return newest if at == len(data) and newest >= 0 else None

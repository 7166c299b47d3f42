"""What a topic's configuration makes of the batches that producers send it (Kafka's LogValidator)."""

from __future__ import annotations

from collections.abc import Sequence

from crc32c import crc32c

from kafka_protocol.record_batch import (
    CHECKED_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    BatchUnreadable,
    decode_batch,
)


def has_record_without_key(data: bytes | memoryview, headers: Sequence[BatchHeader]) -> bool:
    """Is there a record that compaction could do nothing with?  What cannot be decoded here is let through."""
    position = 0
    for header in headers:
        try:
            if any(record.key is None for record in decode_batch(bytes(data), position, header)):
                return True
        except BatchUnreadable:
            pass
        position += header.size
    return False


def stamp(data: bytes | memoryview, headers: Sequence[BatchHeader], wall_ms: int) -> tuple[bytes, list[BatchHeader]]:
    """The batches with the time of their append in place of their records' own (message.timestamp.type)."""
    stamped: list[BatchHeader] = []
    pieces: list[bytes] = []
    position = 0
    for header in headers:
        body = bytes(data[position + HEADER_SIZE : position + header.size])
        changed = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=wall_ms)
        checked = (HEADER.pack(*changed) + body)[CHECKED_FROM:]
        changed = changed._replace(crc=int(crc32c(checked)))
        stamped.append(changed)
        pieces += [HEADER.pack(*changed), body]
        position += header.size
    return b"".join(pieces), stamped

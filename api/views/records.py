"""The records of a partition as JSON: bounded, as text and hexadecimal."""

from __future__ import annotations

from zabka.api.views.topic_models import RecordBytes, RecordHeader, Records, RecordView
from zabka.journal.events import TopicPartition
from zabka.kafka.client.record_reading import RecordSeen, RecordsSeen

RECORDS_MAX = 100
SHOWN_BYTES_MAX = 10_240
RESPONSE_BYTES_MAX = 1 << 20
"""Maximum number of bytes of keys, values and headers in a response."""
HEADERS_MAX = 100


def records_view(partition: TopicPartition, seen: RecordsSeen) -> Records:
    """Return the records as JSON: the first ones, until RESPONSE_BYTES_MAX bytes of data are shown."""
    rows: list[RecordView] = []
    left = RESPONSE_BYTES_MAX
    next_offset = seen.next_offset
    for each in seen.records:
        size = _shown_size(each)
        if rows and size > left:
            next_offset = each.record.offset
            break
        left -= size
        rows.append(_record(each))
    return Records(
        topic=partition.topic,
        partition=partition.partition,
        first_offset=seen.first_offset,
        last_stable_offset=seen.last_stable_offset,
        high_watermark=seen.high_watermark,
        next_offset=next_offset,
        records=rows,
    )


def _shown_size(seen: RecordSeen) -> int:
    record = seen.record
    parts = [record.key, record.value, *(value for _, value in record.headers[:HEADERS_MAX])]
    names = sum(len(name) for name, _ in record.headers[:HEADERS_MAX])
    return names + sum(min(SHOWN_BYTES_MAX, len(part or b"")) for part in parts)


def _record(seen: RecordSeen) -> RecordView:
    record = seen.record
    return RecordView(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
        timestamp_type="append" if seen.is_append_time else "create",
        leader_epoch=seen.leader_epoch,
        key=_bytes(record.key),
        value=_bytes(record.value),
        headers=[RecordHeader(key=key, value=_bytes(value)) for key, value in record.headers[:HEADERS_MAX]],
        producer_id=seen.producer_id,
        transaction=seen.transaction,
        marker=seen.marker,
    )


def _bytes(data: bytes | None) -> RecordBytes | None:
    if data is None:
        return None
    shown = data[:SHOWN_BYTES_MAX]
    truncated = len(shown) < len(data)
    return RecordBytes(size=len(data), text=_text(shown, truncated), hex=shown.hex(), truncated=truncated)


def _text(data: bytes, truncated: bool) -> str | None:
    """Return the data as text, or None if it is not UTF-8. The last character of truncated data can be incomplete."""
    for missing in range(4 if truncated else 1):
        try:
            return data[: len(data) - missing].decode()
        except UnicodeDecodeError:
            continue
    return None

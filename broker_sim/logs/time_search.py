"""The search for a time within a batch (LogSegment.findOffsetByTimestamp)."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.slices import SLICE_RECORDS
from kafka_protocol.record_batch import BatchHeader, BatchUnreadable, iter_batch


def first_not_older(
    data: bytes, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> Generator[None, None, tuple[int, int] | None]:
    """(timestamp, offset) of a batch's first record that is not older, from `start_offset` on; None for none."""
    try:
        for number, record in enumerate(iter_batch(data, 0, header), 1):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return record.timestamp_ms, record.offset
            if not number % SLICE_RECORDS:
                yield
    except BatchUnreadable:
        return header.max_timestamp, max(header.base_offset, start_offset)
    return None

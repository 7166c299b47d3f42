"""The search of a log for a time (ListOffsets; LogSegment.findOffsetByTimestamp)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.segment import Segment
from zabka.broker_sim.slices import SLICE_RECORDS, Slices
from zabka.kafka.record_batch import BatchHeader, BatchUnreadable, iter_batch

Found = tuple[int, int] | None
"""(timestamp, offset); None for none."""


def offset_for_timestamp(log: PartitionLog, timestamp_ms: int) -> Generator[None, None, Found]:
    """Find (timestamp, offset) of the first record that is not older than `timestamp_ms`; None where all are.
    Pauses within large batches and among many that do not have it, though their segment, or their own header, says that
    it may.

    In a batch that cannot be read the batch's own bounds stand for its records'.
    """
    slices = Slices()
    for segment in list(log.segments):
        if log.is_closed:
            return None
        if segment.max_timestamp < timestamp_ms:
            continue
        is_other = partial(has_changed, log, segment, segment.cut_count)
        if is_other():
            # It went while there was a pause in one before it.
            return (yield from offset_for_timestamp(log, timestamp_ms))
        for position, header in segment.headers_since(timestamp_ms, log.start_offset):
            # What lies below the start was deleted, and is only not gone yet.
            if header.max_timestamp < timestamp_ms or header.last_offset < log.start_offset:
                is_time = slices.is_full_of_headers()
            else:
                data = segment.file.read(position, header.size)
                found = yield from _first_not_older(data, header, timestamp_ms, log.start_offset)
                if found is not None:
                    return found
                is_time = slices.is_full(header.record_count % SLICE_RECORDS)
            if is_time:
                yield
            if is_other():
                return (yield from offset_for_timestamp(log, timestamp_ms))
    return None


def has_changed(log: PartitionLog, segment: Segment, cut_count: int) -> bool:
    """Did a segment go, or lose its end, while there was a pause?  Its file may be closed then, and what was read of it
    be there no more."""
    return log.is_closed or not log.has(segment) or segment.cut_count != cut_count


def _first_not_older(
    data: bytes, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> Generator[None, None, Found]:
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

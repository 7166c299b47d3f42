"""Search for an offset by timestamp (ListOffsets; LogSegment.findOffsetByTimestamp)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.segment import Segment
from zabka.broker_sim.slices import SLICE_RECORDS, Slices
from zabka.kafka.record_batch import BatchHeader, BatchUnreadable, iter_batch

Found = tuple[int, int] | None
"""(timestamp, offset) of a record, or None if none was found."""


def offset_for_timestamp(log: PartitionLog, timestamp_ms: int) -> Generator[None, None, Found]:
    """Return (timestamp, offset) of the first record that is not older than `timestamp_ms`, or None.

    So that other tasks can run, it yields within large batches, and after many batches that have no such record
    although their segment or header suggests one. For a batch that cannot be read, the bounds in its header are used
    instead of its records' timestamps.
    """
    slices = Slices()
    for segment in list(log.segments):
        if log.is_closed:
            return None
        if segment.max_timestamp < timestamp_ms:
            continue
        is_other = partial(has_changed, log, segment, segment.cut_count)
        if is_other():
            # This segment was removed or truncated while the search paused in an earlier segment, so search again.
            return (yield from offset_for_timestamp(log, timestamp_ms))
        for position, header in segment.headers_since(timestamp_ms, log.start_offset):
            # Skip records below the log start: they are deleted, although their bytes are still in the file.
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
    """Return whether a segment was removed or truncated while the search yielded to other tasks.

    In that case, its file may be closed, and the part that was read may no longer exist.
    """
    return log.is_closed or not log.has(segment) or segment.cut_count != cut_count


def _first_not_older(
    data: bytes, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> Generator[None, None, Found]:
    """Return (timestamp, offset) of the first record in a batch that is not older than `timestamp_ms`, or None.

    Only records from `start_offset` on are considered.
    """
    try:
        for number, record in enumerate(iter_batch(data, 0, header), 1):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return record.timestamp_ms, record.offset
            if not number % SLICE_RECORDS:
                yield
    except BatchUnreadable:
        return header.max_timestamp, max(header.base_offset, start_offset)
    return None

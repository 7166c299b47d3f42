"""Search for the record with the highest timestamp of a log (ListOffsets' MAX_TIMESTAMP, KIP-734)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.time_search import Found, has_changed, offset_for_timestamp
from zabka.broker_sim.slices import SLICE_RECORDS, Slices
from zabka.kafka.record_batch import BatchHeader, BatchUnreadable, iter_batch


def newest_record(log: PartitionLog) -> Generator[None, None, Found]:
    """Return (timestamp, offset) of the first record with the highest timestamp, or None for an empty log.

    Usually the batch headers are enough. But the newest record may have been compacted away, or be deleted but still in
    the file. In these cases, all other batches are searched, whereas Kafka returns a deleted record or none.
    """
    if log.is_closed or log.end_offset <= log.start_offset:
        return None
    found = yield from offset_for_timestamp(log, max(segment.max_timestamp for segment in log.segments))
    if found is None and not log.is_closed:
        found = yield from _of_what_is_left(log)
    return found


def _of_what_is_left(log: PartitionLog) -> Generator[None, None, Found]:
    newest: Found = None
    slices = Slices()
    for segment in list(log.segments):
        is_other = partial(has_changed, log, segment, segment.cut_count)
        if is_other():
            return (yield from newest_record(log))
        if newest is not None and segment.max_timestamp <= newest[0]:
            continue
        for position, header in segment.headers(segment.position_of(log.start_offset)):
            if newest is not None and header.max_timestamp <= newest[0]:
                is_time = slices.is_full_of_headers()
            else:
                data = segment.file.read(position, header.size)
                newest = yield from _newer(data, header, newest, log.start_offset)
                is_time = slices.is_full(header.record_count % SLICE_RECORDS)
            if is_time:
                yield
            if is_other():
                return (yield from newest_record(log))
    return newest


def _newer(data: bytes, header: BatchHeader, than: Found, start_offset: int) -> Generator[None, None, Found]:
    """Return a batch's first record with the highest timestamp, if it is newer than `than`; otherwise `than`.

    Only records from `start_offset` on are considered.
    """
    newest = than
    try:
        for number, record in enumerate(iter_batch(data, 0, header), 1):
            if record.offset >= start_offset and (newest is None or record.timestamp_ms > newest[0]):
                newest = record.timestamp_ms, record.offset
            if not number % SLICE_RECORDS:
                yield
    except BatchUnreadable:
        return header.max_timestamp, max(header.base_offset, start_offset)
    return newest

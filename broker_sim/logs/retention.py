"""Retention by time, by size, and below the log start (Kafka's UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from zabka.broker_sim.logs.partition_log import PartitionLog

UNLIMITED = -1
"""Value of retention.ms and retention.bytes that disables them."""


def drop_below_start(log: PartitionLog) -> int:
    """Drop the segments that are completely below the log start. Return their number."""
    ends = [segment.base_offset for segment in log.segments[1:]]
    count = sum(1 for end in ends if end <= log.start_offset)
    return _drop(log, count)


def drop_older(log: PartitionLog, retention_ms: int, wall_ms: int) -> int:
    """Drop leading segments whose newest record is older than `retention_ms`. Return the number of segments.

    A segment that compaction has emptied is dropped together with the next one.
    """
    if retention_ms == UNLIMITED:
        return 0
    count = 0
    # Compute all ages first: the age of every segment without timestamps is measured from this call.
    ages_ms = [wall_ms - segment.newest_ms(wall_ms) for segment in log.segments]
    for number, segment in enumerate(log.segments[: _droppable(log)], 1):
        if not segment.size:
            continue
        if ages_ms[number - 1] <= retention_ms:
            break
        count = number
    return _drop(log, count)


def drop_beyond(log: PartitionLog, retention_bytes: int) -> int:
    """Drop leading segments as long as the remaining log is at least `retention_bytes` large."""
    if retention_bytes == UNLIMITED:
        return 0
    excess = log.size_bytes - retention_bytes
    count = 0
    for segment in log.segments[: _droppable(log)]:
        excess -= segment.size
        if excess < 0:
            break
        count += 1
    return _drop(log, count)


def _droppable(log: PartitionLog) -> int:
    """Return how many leading segments have only committed records. An empty last segment is not counted."""
    segments = log.segments
    ends = [segment.base_offset for segment in segments[1:]] + [log.end_offset]
    count = 0
    for segment, end in zip(segments, ends, strict=True):
        is_empty_last = segment is segments[-1] and not segment.size
        if end > log.high_watermark or is_empty_last:
            break
        count += 1
    return count


def _drop(log: PartitionLog, count: int) -> int:
    if count:
        log.drop_first_segments(count)
    return count

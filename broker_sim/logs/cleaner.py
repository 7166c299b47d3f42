"""Compaction: of each key the latest record stays (Kafka's LogCleaner).

Each segment is cleaned into a file of its own that then takes its place.  Batches keep their offsets, so that a
compacted log has gaps; only whole committed segments that are no longer written to are touched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from broker_sim.configs.replica_config import CompactionSettings
from broker_sim.logs.partition_log import PartitionLog
from broker_sim.logs.segment import Segment
from broker_sim.slices import SLICE_RECORDS, in_slices
from ensemble.ports import Runtime
from kafka_protocol.record_batch import BatchHeader, BatchUnreadable, Record, filter_batch, is_control, iter_batch


class _Section(NamedTuple):
    """The segments that compaction may touch, and how many of them it has been through before."""

    segments: Sequence[Segment]
    clean_count: int

    @property
    def dirty(self) -> Sequence[Segment]:
        """Those it has not been through."""
        return self.segments[self.clean_count :]

    @property
    def dirty_ratio(self) -> float:
        """The part of the bytes that it has not been through."""
        total = sum(segment.size for segment in self.segments)
        return sum(segment.size for segment in self.dirty) / total if total else 0.0


def _section(log: PartitionLog, settings: CompactionSettings, wall_ms: int) -> _Section:
    cleanable: list[Segment] = []
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > log.high_watermark:
            break
        if settings.lag_min_ms > 0 and wall_ms - segment.max_timestamp < settings.lag_min_ms:
            break
        cleanable.append(segment)
    clean = sum(1 for segment in cleanable if segment.end_offset <= log.first_dirty_offset)
    return _Section(cleanable, clean)


def is_filthy(log: PartitionLog, settings: CompactionSettings, wall_ms: int) -> bool:
    """Is it time to compact this log?"""
    section = _section(log, settings, wall_ms)
    if not section.dirty:
        return False
    oldest = min(segment.first_timestamp for segment in section.dirty)
    is_due = oldest >= 0 and wall_ms - oldest > settings.lag_max_ms
    return is_due or section.dirty_ratio > settings.dirty_ratio_min


async def compact(log: PartitionLog, settings: CompactionSettings, runtime: Runtime) -> None:
    """Compact the log once, with a pause after each segment, so that requests are served meanwhile."""
    wall_ms = runtime.now().wall_ms
    section = _section(log, settings, wall_ms)
    latest: dict[bytes, int] = {}
    for segment in section.dirty:
        if log.is_closed:
            return
        await in_slices(_note_keys(log, segment, latest), runtime)
        await runtime.sleep(0)
    last_batches = log.producers.last_offsets()
    dirty_from = log.first_dirty_offset
    for segment in section.segments:
        if _is_gone(log, segment):
            return
        # A tombstone stays at least until its segment has been compacted once, and then for its time.
        tombstones_until_ms = -1 if segment.end_offset > dirty_from else wall_ms - settings.tombstone_ms
        await in_slices(_clean(log, segment, latest, tombstones_until_ms, last_batches), runtime)
        await runtime.sleep(0)
    log.drop_empty_segments()
    if section.segments and section.segments[-1].end_offset <= log.end_offset:
        log.first_dirty_offset = section.segments[-1].end_offset


def _is_gone(log: PartitionLog, segment: Segment) -> bool:
    """Was retention, a truncation or the topic's deletion faster?"""
    return log.is_closed or segment not in log.segments


def _note_keys(log: PartitionLog, segment: Segment, latest: dict[bytes, int]) -> Generator[None, None, None]:
    for position, header in segment.headers():
        if is_control(header):
            continue
        try:
            for number, record in enumerate(iter_batch(segment.file.read(position, header.size), 0, header), 1):
                if record.key is not None:
                    latest[record.key] = record.offset
                if not number % SLICE_RECORDS:
                    yield
                    if _is_gone(log, segment):
                        return
        except BatchUnreadable:
            continue


def _clean(
    log: PartitionLog,
    segment: Segment,
    latest: dict[bytes, int],
    tombstones_until_ms: int,
    last_batches: frozenset[int],
) -> Generator[None, None, None]:
    def stays(record: Record) -> bool:
        if record.key is None:
            return False
        if record.value is None and record.timestamp_ms < tombstones_until_ms:
            return False
        return record.offset >= latest.get(record.key, -1)

    cleaned = log.begin_cleaned(segment)
    changed = False
    for position, header in segment.headers():
        data = segment.file.read(position, header.size)
        filtered = yield from _filtered(data, header, stays)
        if _is_gone(log, segment):
            cleaned.close()
            return
        if filtered is None:
            cleaned.append(data)
            continue
        changed = True
        rest, rest_header = filtered
        if rest_header.record_count or header.last_offset in last_batches:
            # A producer's last batch stays, though it be empty, so that its sequence numbers are still known.
            cleaned.append(rest)
    if changed:
        log.replace_segment(segment, cleaned)
    else:
        cleaned.close()
        log.drop_cleaned(segment)


def _filtered(
    data: bytes, header: BatchHeader, stays: Callable[[Record], bool]
) -> Generator[None, None, tuple[bytes, BatchHeader] | None]:
    """The batch without what does not stay; None where all stays, or where it is not for compaction to read."""
    if is_control(header):
        return None
    try:
        return (yield from filter_batch(data, header, stays, SLICE_RECORDS))
    except BatchUnreadable:
        return None

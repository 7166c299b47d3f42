"""Kafka's TimeIndex, with which a segment finds records by timestamp."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker_sim.logs.small_log import a_log, append, run_compaction
from tests.kafka.produced import headers_of
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.newest_record import newest_record
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.segment import Segment
from zabka.broker_sim.logs.time_search import offset_for_timestamp
from zabka.broker_sim.slices import SLICE_RECORDS
from zabka.kafka.record_batch import Record, build_batch, empty_batch

TIMES = st.lists(st.integers(0, 20), min_size=1, max_size=60)


def log_of(times: list[int], segment_bytes: int = 1 << 20) -> PartitionLog:
    """Return a log with one single-record batch for each timestamp. About every third batch has an index entry."""
    log = a_log(segment_bytes, index_interval_bytes=200)
    add(log, times)
    return log


def add(log: PartitionLog, times: list[int]) -> None:
    for at_ms in times:
        data = build_batch([Record(None, b"v", at_ms)])
        log.append_as_leader(data, headers_of(data), 0)


def found(log: PartitionLog, timestamp_ms: int) -> tuple[int, int] | None:
    return outcome(offset_for_timestamp(log, timestamp_ms))


def outcome(search: Generator[None, None, tuple[int, int] | None]) -> tuple[int, int] | None:
    try:
        while True:
            next(search)
    except StopIteration as ended:
        result: tuple[int, int] | None = ended.value
        return result


def first_not_older(times: list[int], timestamp_ms: int, start: int = 0) -> tuple[int, int] | None:
    return next(((at, n) for n, at in enumerate(times) if n >= start and at >= timestamp_ms), None)


@given(TIMES, st.integers(0, 60), st.integers(0, 60), TIMES, st.sampled_from([300, 1 << 20]))
def test_timestamp_search_is_exact_after_truncation_and_deletion(
    times: list[int], end: int, start: int, more: list[int], segment_bytes: int
) -> None:
    log = log_of(times, segment_bytes)
    log.truncate_to(end)
    add(log, more)
    left = [*times[:end], *more]
    log.advance_start(min(start, log.end_offset))
    for timestamp_ms in range(22):
        assert found(log, timestamp_ms) == first_not_older(left, timestamp_ms, log.start_offset)
    kept = range(log.start_offset, log.end_offset)
    # Records before the log start offset are still in the segments, but the search must not find them.
    assert outcome(newest_record(log)) == max(
        ((left[n], n) for n in kept), key=lambda it: (it[0], -it[1]), default=None
    )
    newest = [segment.max_timestamp for segment in log.segments]
    starts = [segment.base_offset for segment in log.segments]
    ends = [*starts[1:], log.end_offset]
    assert newest == [max(left[a:b], default=-1) for a, b in zip(starts, ends, strict=True)]


@pytest.mark.parametrize(("timestamp_ms", "offset", "first"), [(2, 0, 1_000), (1, 1_500, 1_500), (0, 0, 0)])
def test_timestamp_lookup_starts_shortly_before_its_target(timestamp_ms: int, offset: int, first: int) -> None:
    (segment,) = log_of([1] * 1_000 + [2] * 1_000).segments
    _, header = next(segment.headers_since(timestamp_ms, offset))
    assert first - 5 < header.base_offset <= first


def test_lookup_and_compaction_do_not_scan_the_segment_list() -> None:
    """Neither a search by timestamp nor a compaction scans the list of segments.

    With twenty thousand segments, the scan of a search blocked a broker for 1.6 s, and a compaction took 14 s instead
    of 2 s.
    """
    asked: list[object] = []

    class Segments(list[Segment]):
        def __contains__(self, segment: object) -> bool:
            asked.append(segment)
            return super().__contains__(segment)

    log = a_log(100)
    add(log, list(range(30)))
    log._segments = Segments(log.segments)
    assert (found(log, 29), found(log, 30)) == ((29, 29), None)
    log.high_watermark = log.end_offset
    run_compaction(log)
    assert not asked


def test_timestamp_search_yields_between_empty_batches() -> None:
    log = a_log(61)
    for offset in range(3 * SLICE_RECORDS):
        emptied = empty_batch(offset, offset, 0, 1_000)
        assert log.append_as_follower(emptied, headers_of(emptied))
    assert len(list(offset_for_timestamp(log, 1_000))) >= 3


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
def test_timestamp_search_yields_between_older_batches(segment_bytes: int) -> None:
    log = a_log(segment_bytes)
    data = build_batch([Record(None, b"v", 9_000), Record(None, b"v", 1)])
    log.append_as_leader(data, headers_of(data), 0)
    add(log, list(range(3_000)))
    log.advance_start(1)
    assert len(list(newest_record(log))) >= 3
    if segment_bytes > 1:
        assert len(list(offset_for_timestamp(log, 9_000))) >= 3


def test_search_for_the_newest_record_yields_within_a_batch() -> None:
    log = a_log(1 << 20)
    for at_ms in (99, *range(1, 30)):
        data = build_batch([Record(None, b"v", at_ms)] * (SLICE_RECORDS - 1))
        log.append_as_leader(data, headers_of(data), 0)
    log.advance_start(SLICE_RECORDS - 1)
    log._segments[0].max_timestamp = 100
    assert len(list(newest_record(log))) >= 25


@pytest.mark.parametrize("newest", [False, True])
def test_timestamp_search_restarts_if_the_log_end_is_rewritten(newest: bool) -> None:
    log = a_log(1 << 20)
    data = build_batch([Record(None, b"v", at_ms) for at_ms in (9, *[3] * 300)])
    log.append_as_leader(data, headers_of(data), 0)
    add(log, [3, 4, 8])
    log.advance_start(1)
    search = newest_record(log) if newest else offset_for_timestamp(log, 5)
    next(search)
    log.truncate_to(301)
    append(log, ("a key", "a longer one"), at_ms=7)
    add(log, [6, 3])
    assert outcome(search) == (7, 301)


@pytest.mark.parametrize("newest", [False, True])
def test_timestamp_lookup_continues_if_a_segment_is_removed(tmp_path: Path, newest: bool) -> None:
    log = a_log(100, FileLogDirectory(tmp_path))
    data = build_batch([Record(None, b"v", at_ms) for at_ms in (9, *[3] * 300)])
    log.append_as_leader(data, headers_of(data), 0)
    add(log, [3, 8])
    log.advance_start(1)
    search = newest_record(log) if newest else offset_for_timestamp(log, 5)
    next(search)
    log.truncate_to(301)
    add(log, [3, 7])
    assert outcome(search) == (7, 302), "the closed file of a removed segment is not a disk failure"
    log.close()


def test_newest_record_search_ignores_compacted_records() -> None:
    log = a_log(100)
    append(log, ("a", "1"), at_ms=9, producer_id=7, producer_epoch=0, base_sequence=0)
    for key, value, at_ms in (("b", "1", 5), ("a", "2", 4), ("c", "1", 5), ("d", "1", 3)):
        append(log, (key, value), at_ms=at_ms)
    run_compaction(log)
    # Compaction removes the record of this batch, but keeps the empty batch for its producer's latest sequence number.
    assert log.segments[0].max_timestamp == 9 and outcome(newest_record(log)) == (5, 1)


def test_search_for_newest_record_survives_removed_segments() -> None:
    log = log_of([9, 5], segment_bytes=100)
    data = build_batch([Record(None, b"v", at_ms) for at_ms in (4, *[3] * 300)])
    log.append_as_leader(data, headers_of(data), 0)
    log.high_watermark = log.end_offset
    log.advance_start(1)
    search = newest_record(log)
    log.drop_first_segments(1)
    log.advance_start(2)
    next(search)
    log.truncate_fully_and_start_at(400)
    assert outcome(search) is None
    log.close()

"""The index by which a segment finds the records of a time (Kafka's TimeIndex)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.logs.partition_log import PartitionLog
from kafka_protocol.record_batch import Record, build_batch
from tests.broker_sim.logs.small_log import a_log
from tests.kafka_protocol.produced import headers_of

TIMES = st.lists(st.integers(0, 20), min_size=1, max_size=60)


def log_of(times: list[int], segment_bytes: int = 1 << 20) -> PartitionLog:
    """One batch of one record for each time, and an entry of the index for every third batch or so."""
    log = a_log(segment_bytes, index_interval_bytes=200)
    add(log, times)
    return log


def add(log: PartitionLog, times: list[int]) -> None:
    for at_ms in times:
        data = build_batch([Record(None, b"v", at_ms)])
        log.append_as_leader(data, headers_of(data), 0)


def found(log: PartitionLog, timestamp_ms: int) -> tuple[int, int] | None:
    search = log.offset_for_timestamp(timestamp_ms)
    try:
        while True:
            next(search)
    except StopIteration as ended:
        result: tuple[int, int] | None = ended.value
        return result


def first_not_older(times: list[int], timestamp_ms: int, start: int = 0) -> tuple[int, int] | None:
    return next(((at, n) for n, at in enumerate(times) if n >= start and at >= timestamp_ms), None)


@given(TIMES, st.integers(0, 60), st.integers(0, 60), TIMES, st.sampled_from([300, 1 << 20]))
def test_a_time_is_found_wherever_it_stands_also_after_truncations_and_deletions(
    times: list[int], end: int, start: int, more: list[int], segment_bytes: int
) -> None:
    log = log_of(times, segment_bytes)
    log.truncate_to(end)
    add(log, more)
    left = [*times[:end], *more]
    log.advance_start(min(start, log.end_offset))
    for timestamp_ms in range(22):
        assert found(log, timestamp_ms) == first_not_older(left, timestamp_ms, log.start_offset)
    newest = [segment.max_timestamp for segment in log.segments]
    starts = [segment.base_offset for segment in log.segments]
    ends = [*starts[1:], log.end_offset]
    assert newest == [max(left[a:b], default=-1) for a, b in zip(starts, ends, strict=True)]


@pytest.mark.parametrize(("timestamp_ms", "offset", "first"), [(2, 0, 1_000), (1, 1_500, 1_500), (0, 0, 0)])
def test_a_search_by_time_begins_shortly_before_what_it_looks_for(timestamp_ms: int, offset: int, first: int) -> None:
    (segment,) = log_of([1] * 1_000 + [2] * 1_000).segments
    _, header = next(segment.headers_since(timestamp_ms, offset))
    assert first - 5 < header.base_offset <= first

"""A truncation ends the compaction that is under way in its log (LogCleanerManager.abortAndPauseCleaning)."""

from __future__ import annotations

import pytest

from broker_sim.logs.memory_log_directory import MemoryLogDirectory
from broker_sim.logs.partition_log import PartitionLog
from tests.broker_sim.logs.small_log import a_log, append, paused_compaction, read_all

KEYS = 100
RECORDS = 3 * KEYS


def three_rounds(directory: MemoryLogDirectory) -> PartitionLog:
    """Each key in each of three segments, with its round for value, and one that is written to."""
    log = a_log(1 << 20, directory)
    for number in range(RECORDS):
        append(log, (f"k{number % KEYS}", str(number // KEYS)))
        if number % KEYS == KEYS - 1:
            log.roll()
    append(log, ("last", "v"))
    return log


def latest(log: PartitionLog) -> dict[str | None, str | None]:
    return {key: value for _, key, value in read_all(log)}


@pytest.mark.parametrize("cut", [KEYS, 2 * KEYS, 2 * KEYS + 10, RECORDS - 10])
@pytest.mark.parametrize("pause", range(1, 72, 5))
def test_of_no_key_the_latest_record_goes_and_none_that_was_cut_off_comes_back(cut: int, pause: int) -> None:
    directory = MemoryLogDirectory()
    log = three_rounds(directory)
    with paused_compaction(log, pause):
        log.truncate_to(cut)
        before, end = latest(log), log.end_offset
        assert end <= cut
    assert latest(log) == before
    assert log.segments[-1].end_offset == log.end_offset == end
    assert log.first_dirty_offset <= end
    append(log, ("k0", "after"))
    assert read_all(log)[-1] == (end, "k0", "after")
    kept = read_all(log)
    again = a_log(1 << 20, directory)
    assert (read_all(again), again.damage) == (kept, [])


def test_a_truncation_of_nothing_but_what_is_written_to_ends_no_compaction() -> None:
    log = three_rounds(MemoryLogDirectory())
    append(log, ("k0", "uncommitted"))
    with paused_compaction(log, 1):
        log.truncate_to(RECORDS + 1)
    assert log.first_dirty_offset == RECORDS
    assert len(read_all(log)) == KEYS + 1

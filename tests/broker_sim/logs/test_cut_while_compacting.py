"""A truncation aborts a running compaction of the log (LogCleanerManager.abortAndPauseCleaning)."""

from __future__ import annotations

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.logs.small_log import a_log, append, paused_compaction, read_all
from tests.broker_sim.replication.replication_cluster import Cluster
from zabka.broker_sim.logs.partition_log import PartitionLog

KEYS = 100
RECORDS = 3 * KEYS


def three_rounds(directory: MemoryLogDirectory) -> PartitionLog:
    """Return a log with three segments that each contain every key, and an active segment.

    The value of a record is the number of its round; each round fills one segment.
    """
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
def test_truncation_during_compaction_keeps_latest_records(cut: int, pause: int) -> None:
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


def test_truncating_the_active_segment_does_not_stop_compaction() -> None:
    log = three_rounds(MemoryLogDirectory())
    append(log, ("k0", "uncommitted"))
    with paused_compaction(log, 1):
        log.truncate_to(RECORDS + 1)
    assert log.first_dirty_offset == RECORDS
    assert len(read_all(log)) == KEYS + 1


@pytest.mark.parametrize("to", [5, 0])
def test_records_appended_after_truncation_are_dirty_after_crash(to: int) -> None:
    cluster = Cluster(1)
    cluster.create([1])
    for number in range(20):
        cluster.produce(1, str(number))
    cluster[1].partition.log.first_dirty_offset = 15
    cluster[1].manager.logs.checkpoint_starts()
    # Like LogManager.truncateTo after an unclean election, write the cleaner's checkpoint.
    if to:
        cluster[1].partition.log.truncate_to(to)
    else:
        cluster[1].partition.log.truncate_fully_and_start_at(to)
    for number in range(20):
        cluster.produce(1, str(number))
    cluster.kill(1)
    cluster.restart(1)
    assert cluster[1].partition.log.end_offset == to + 20
    assert cluster[1].partition.log.first_dirty_offset == to


def test_records_appended_after_power_loss_are_dirty() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    for number in range(20):
        cluster.produce(1, str(number))
        if number == 4:
            cluster[1].partition.log.flush()
    cluster[1].partition.log.first_dirty_offset = 15
    cluster[1].manager.logs.checkpoint_starts()
    cluster.kill(1, power=True)
    cluster.restart(1)
    assert cluster[1].partition.log.end_offset == 5
    for number in range(20):
        cluster.produce(1, str(number))
    cluster.kill(1)
    cluster.restart(1)
    assert cluster[1].partition.log.first_dirty_offset == 5

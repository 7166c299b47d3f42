"""Logs that start in the middle of a batch because earlier records were deleted, and their followers."""

from __future__ import annotations

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.replication.replication_cluster import TP, Cluster, batch
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.kafka.record_batch import split_batches

DELETED = 9
"""Log start offset, in the middle of the second batch. Each batch has six records."""


def delete(cluster: Cluster, offset: int) -> None:
    answer = cluster[1].manager.delete_records({TP: offset}, 2_000)
    cluster.until(answer.done)
    assert answer.result()[TP] == (0, offset)


@pytest.mark.parametrize("wipes_its_disk", [False, True])
def test_follower_copies_a_log_that_starts_within_a_batch(wipes_its_disk: bool) -> None:
    """A follower copies a leader's log that starts in the middle of a batch.

    In Kafka, this situation raises UnexpectedAppendOffsetException
    (Partition.doAppendRecordsToFollowerOrFutureReplica).
    """
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    cluster.produce(1, *"abcdef")
    cluster.settle()
    cluster.kill(3)
    cluster.elect(1, [1, 2])
    cluster.produce(1, *"ghijkl")
    delete(cluster, DELETED)
    if wipes_its_disk:
        cluster[3].directory = MemoryLogDirectory()
    cluster.restart(3)
    cluster.until(lambda: 3 in cluster[1].partition.isr_state.isr)
    log = cluster[3].partition.log
    assert (log.start_offset, log.end_offset, log.epochs.entries) == (DELETED, 12, [(1, DELETED)])
    assert log.read(DELETED, 1 << 20, 12, True) == cluster.fetch(1, DELETED).records != b""
    cluster.elect(3, [3])
    assert cluster.violations() == []


def test_diverged_follower_copies_a_log_starting_within_a_batch() -> None:
    """A follower whose log has diverged copies a leader's log that starts in the middle of a batch.

    The follower's log ends at the leader's log start offset (1), with a record that was never committed. Before the
    fix, the follower's appends failed, as they do in Kafka.
    """
    cluster = Cluster(3)
    cluster.create([3, 1, 2])
    cluster.cut_link(3, 1)
    cluster.cut_link(3, 2)
    cluster.until(cluster.produce_later(3, batch("x"), acks=1).done)
    cluster.kill(3)
    cluster.heal()
    cluster.elect(1, [1, 2])
    cluster.produce(1, *"abcdef")
    delete(cluster, 1)
    cluster.restart(3)
    cluster.until(lambda: 3 in cluster[1].partition.isr_state.isr)
    log = cluster[3].partition.log
    assert (log.start_offset, log.end_offset, log.high_watermark) == (1, 6, 6)
    assert log.read(1, 1 << 20, 6, True) == cluster.fetch(1, 1).records != b""
    assert cluster.violations() == []


def test_leader_killed_before_checkpoint_truncates_follower_logs() -> None:
    """A leader that was killed before a checkpoint makes its followers truncate their logs.

    After the kill, the deleted records are in the leader's log again. If the epoch cache lacked their epochs, followers
    would keep diverging records or fail to append.
    """
    cluster = Cluster(3)
    cluster.create([3, 1, 2])
    cluster.produce(3, "a")
    cluster.settle()
    cluster.cut_link(3, 1)
    cluster.cut_link(3, 2)
    cluster.until(cluster.produce_later(3, batch("x", "y"), acks=1).done)
    cluster.kill(3)
    cluster.kill(2)
    cluster.heal()
    cluster.elect(1, [1])
    cluster.produce(1, *"bcd")
    delete(cluster, 3)
    cluster.kill(1)
    cluster.restart(1)
    log = cluster[1].partition.log
    assert (log.start_offset, log.epochs.entries) == (0, [(0, 0), (1, 1)])
    cluster.restart(3)
    cluster.until(lambda: 3 in cluster[1].partition.isr_state.isr)
    assert cluster[3].values == [*"abcd"]


def test_log_truncated_in_its_first_batch_is_empty() -> None:
    """A log that is truncated within its first batch is empty.

    Before the fix, its start offset was greater than its end offset. The log then rejected the leader's different batch
    at that offset.
    """
    log = PartitionLog(MemoryLogDirectory(), TP, segment_bytes=1 << 20)
    for values in ("abc", "def"):
        data = batch(*values)
        log.append_as_leader(data, split_batches(data) or [], 0)
    log.advance_start(2)
    assert (log.truncate_to(2), log.start_offset, log.end_offset, log.high_watermark) == (0, 0, 0, 0)


def test_empty_log_accepts_only_a_batch_with_its_start_offset() -> None:
    leader = PartitionLog(MemoryLogDirectory(), TP, segment_bytes=1 << 20)
    for values in ("abc", "def"):
        data = batch(*values)
        leader.append_as_leader(data, split_batches(data) or [], 0)
    data = leader.read(0, 1 << 20, 6, True)
    headers = split_batches(data)
    assert headers is not None
    follower = PartitionLog(MemoryLogDirectory(), TP, segment_bytes=1 << 20)
    follower.truncate_fully_and_start_at(4)
    assert not follower.append_as_follower(data, headers), "the first batch ends before this log starts"
    assert (follower.start_offset, follower.end_offset) == (4, 4)
    second = leader.read(4, 1 << 20, 6, True)
    assert not follower.append_as_follower(second * 2, [headers[1], headers[1]])
    assert (follower.start_offset, follower.end_offset) == (4, 4), "a refused batch changes nothing"
    assert follower.append_as_follower(second, [headers[1]])
    assert (follower.start_offset, follower.end_offset, follower.high_watermark) == (4, 6, 4)
    assert follower.read(4, 1 << 20, 6, True) == second


@pytest.mark.parametrize("segment_bytes", [1 << 20, 100])
def test_records_appended_after_a_truncation_survive_a_kill(
    segment_bytes: int,
) -> None:
    """Records that replace deleted ones survive a kill.

    The checkpoint of log start offsets is written only once a minute. After its truncation, this log starts before the
    offset in the checkpoint.
    """
    cluster = Cluster(2, log_segment_bytes=segment_bytes, log_retention_check_interval_ms=1_000)
    cluster.topic_configs[TP.topic] = {"retention.ms": "-1"}
    cluster.create([1, 2])
    cluster.produce(1, *"ab")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.elect(1, [1])
    cluster.produce(1, *"cd")
    cluster.produce(1, *"efgh")
    cluster[1].manager.delete_records({TP: 6}, 1_000)
    cluster.run(cluster.config.log_flush_start_offset_checkpoint_interval_ms)
    assert cluster[1].partition.log.start_offset == 6
    cluster.elect(2, [2], unclean=True)
    cluster.heal()
    cluster.until(lambda: cluster[1].partition.log.end_offset == 2)
    for value in "stuvw":
        cluster.produce(2, value)
    cluster.until(lambda: 1 in cluster[2].partition.isr_state.isr)
    cluster.settle()
    cluster.kill(1)
    cluster.restart(1)
    assert cluster[1].partition.log.start_offset == 2
    assert cluster[1].values == list("stuvw")

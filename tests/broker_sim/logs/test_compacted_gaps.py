"""Effects of compaction gaps on truncation and retention."""

from __future__ import annotations

import pytest

from tests.broker_sim.logs.small_log import a_log, append, read_all, run_compaction
from tests.broker_sim.replication.replication_cluster import TP, Cluster
from tests.kafka.produced import headers_of
from zabka.broker_sim.logs import checkpoints, retention
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.kafka.record_batch import Record, build_batch


def with_gap() -> PartitionLog:
    """Return a log with records at offsets 8 and 9. Compaction removed 0 to 7."""
    log = a_log(1 << 20)
    for key in "aaaaaaaaa":
        append(log, (key, "v"))
    log.roll()
    append(log, ("a", "v"))
    run_compaction(log)
    assert [offset for offset, *_ in read_all(log)] == [8, 9]
    return log


def with_gap_at_its_end() -> PartitionLog:
    """Return a log with records at 0 and 1. The tombstones at 2 and 3 have expired, and the log was truncated to 4."""
    log = a_log(1 << 20)
    for record in (("a", "v"), ("b", "v"), ("x", None), ("y", None)):
        append(log, record)
    log.roll()
    append(log, ("z", "v"))
    run_compaction(log)
    log.first_dirty_offset = 0
    run_compaction(log, after_ms=10_000)
    assert log.truncate_to(4) == 4
    assert [offset for offset, *_ in read_all(log)] == [0, 1]
    assert [segment.end_offset for segment in log.segments] == [2, 4]
    return log


def with_an_epoch_that_begins_in_its_gap() -> PartitionLog:
    """Return the log of `with_gap_at_its_end` with leader epochs 0, 1 and 2 starting at offsets 0, 3 and 4 (its
    end)."""
    log = with_gap_at_its_end()
    log.epochs.clear()
    for epoch, start in ((0, 0), (1, 3), (2, 4)):
        log.epochs.assign(epoch, start)
    return log


def follow(log: PartitionLog, leader: PartitionLog) -> None:
    """Append the leader's batches until both logs end at the same offset."""
    while log.end_offset < leader.end_offset:
        data = leader.read(log.end_offset, 1, leader.end_offset, True)
        assert data and log.append_as_follower(data, headers_of(data))


def test_follower_reaches_the_end_of_a_log_with_a_trailing_gap() -> None:
    leader = with_gap_at_its_end()
    follower = a_log(1 << 20)
    follow(follower, leader)
    assert (follower.end_offset, read_all(follower)) == (4, read_all(leader))
    follower.high_watermark = 4
    opened = PartitionLog(follower._directory, TP, segment_bytes=1 << 20)
    assert (opened.damage, opened.end_offset, read_all(opened)) == ([], 4, read_all(leader))


def test_gap_at_the_log_end_has_its_last_removed_records_epoch() -> None:
    """A gap at the end of a log has the leader epoch of the last record that was removed from it.

    Otherwise the follower's latest epoch would be an earlier one, and the leader would make it truncate its log to the
    end of that earlier epoch.
    """
    leader = with_an_epoch_that_begins_in_its_gap()
    follower = a_log(1 << 20)
    follow(follower, leader)
    assert follower.epochs.latest == 1
    assert leader.epochs.end_offset_for(1, leader.end_offset) == (1, follower.end_offset)


def test_epochs_appended_together_are_written_to_the_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leader epochs that are appended together are written to the epoch file once.

    A gap can contain thousands of epochs, and saving the file after each one would take seconds.
    """
    leader = with_gap()
    leader.epochs.replace([(epoch, epoch) for epoch in range(8)])
    follower = a_log(1 << 20)
    saved: list[object] = []
    monkeypatch.setattr(checkpoints, "write_leader_epochs", lambda *written: saved.append(list(written[-1])))
    data = leader.read(0, 1 << 20, leader.end_offset, True)
    assert follower.append_as_follower(data, headers_of(data))
    assert saved == [leader.epochs.entries]


def test_follower_stores_the_end_of_each_epoch_within_a_gap() -> None:
    """A follower that copies a gap stores the end of each epoch within the gap.

    Otherwise the follower, as the next leader, would make other replicas truncate committed tombstones, and the deleted
    keys would reappear.
    """
    leader = with_an_epoch_that_begins_in_its_gap()
    follower = a_log(1 << 20)
    follow(follower, leader)
    assert follower.epochs.entries == [(0, 0), (1, 3)]
    assert follower.epochs.end_offset_for(0, 4) == leader.epochs.end_offset_for(0, 4) == (0, 3)


def test_follower_ending_in_a_copied_gap_continues_after_it() -> None:
    """A follower whose log ends inside a gap that it copied continues after the gap.

    The leader has one batch without records in the gap. The follower still has the first removed record.
    """
    leader, lagging = a_log(1 << 20), a_log(1 << 20)
    follow(leader, with_gap_at_its_end())
    assert [header.base_offset for header in headers_of(leader.read(0, 1 << 20, 4, True))] == [0, 1, 2]
    for record in (("a", "v"), ("b", "v"), ("x", None)):
        append(lagging, record)
    follow(lagging, leader)
    assert [(offset, key) for offset, key, _ in read_all(lagging)] == [(0, "a"), (1, "b"), (2, "x")]


def with_an_epoch_that_compaction_has_taken(after: bool) -> PartitionLog:
    """Return a log with records of epoch 0 at 0 and 1, and a record of epoch `after` (1 or 2) at 4. Compaction removed
    the records of epoch 1, which started at 2.
    """
    log = a_log(1 << 20)
    for epoch, keys in enumerate(("ab", "xx", "x")):
        log.epochs.assign(min(epoch, 1 + after), log.end_offset)
        for key in keys:
            data = build_batch([Record(key.encode(), b"v", 0)])
            log.append_as_leader(data, headers_of(data), log.epochs.latest)
    log.high_watermark = log.end_offset
    log.roll()
    run_compaction(log)
    assert [offset for offset, *_ in read_all(log)] == [0, 1, 4]
    return log


@pytest.mark.parametrize("max_bytes", [1, 130, 200, 1 << 20])
@pytest.mark.parametrize("after", [False, True])
def test_follower_stores_epochs_of_a_gap_followed_by_a_record(after: bool, max_bytes: int) -> None:
    """A follower stores the ends of the epochs in a gap, even if a record follows the gap.

    Otherwise the follower, as the next leader, would let other replicas keep a record that the previous leader never
    had: here a record of epoch 0 at offset 2. Kafka allows this.
    """
    leader = with_an_epoch_that_compaction_has_taken(after)
    follower = a_log(1 << 20)
    while follower.end_offset < leader.end_offset:
        data = leader.read(follower.end_offset, max_bytes, leader.end_offset, True)
        assert follower.append_as_follower(data, headers_of(data))
    assert follower.epochs.entries == leader.epochs.entries == [(0, 0), (1, 2), (2, 4)][: 2 + after]
    assert follower.epochs.end_offset_for(0, 5) == (0, 2)
    assert read_all(follower) == read_all(leader)


def test_read_of_a_compaction_gap_returns_few_epochs_at_a_time() -> None:
    """A read of a gap returns only a limited number of epochs.

    Without the limit, searching for a gap at the start of each of five thousand epochs took 0.3 s.
    """
    log = a_log(1 << 20)
    for epoch in range(250):
        log.epochs.assign(epoch, epoch)
        data = build_batch([Record(b"k", b"v", 0)])
        log.append_as_leader(data, headers_of(data), epoch)
    assert len(headers_of(log.read(0, 1 << 20, 250, True))) == 100
    assert len(headers_of(log.read(200, 1 << 20, 250, True))) == 50
    assert len(read_all(log)) == 250


def test_gap_in_which_no_epoch_starts_is_skipped() -> None:
    log = with_gap()
    log.epochs.assign(0, 0)
    follower = a_log(1 << 20)
    assert [header.base_offset for header in headers_of(log.read(1, 1 << 20, 10, True))] == [8]
    follow(follower, log)
    assert read_all(follower) == read_all(log)


def test_gap_of_several_epochs_is_read_in_one_step_if_it_fits() -> None:
    """A gap of several epochs is read in one step if it fits into the response.

    librdkafka regards a response without records as truncated, and doubles the size of its next fetch.
    """
    log = with_gap_at_its_end()
    log.epochs.assign(0, 0)
    log.epochs.assign(1, 3)
    batches = headers_of(log.read(2, 122, 4, False))
    assert [(batch.base_offset, batch.next_offset, batch.leader_epoch) for batch in batches] == [(2, 3, 0), (3, 4, 1)]
    assert headers_of(log.read(2, 121, 4, False)) == headers_of(log.read(2, 1, 4, True)) == batches[:1]


def test_gap_at_the_read_limit_is_returned_as_an_empty_batch() -> None:
    log = with_gap_at_its_end()
    append(log, ("c", "v"))
    [header] = headers_of(log.read(2, 1 << 20, 4, False))
    assert (header.base_offset, header.last_offset, header.record_count) == (2, 3, 0)
    assert log.read(2, 10, 4, False) == b"", "it does not fit"
    [header] = headers_of(log.read(2, 1 << 20, 5, False))
    assert (header.base_offset, header.record_count) == (4, 1)


def test_gap_longer_than_one_batch_is_read_in_steps() -> None:
    leader, follower, end = a_log(1 << 20), a_log(1 << 20), (1 << 33) + 5
    append(leader, ("a", "v"))
    far = build_batch([Record(b"z", b"v", 0)], base_offset=end)
    assert leader.append_as_follower(far, headers_of(far))
    assert leader.truncate_to(end) == end
    follow(follower, leader)
    assert (follower.end_offset, read_all(follower)) == (end, [(0, "a", "v")])


def test_follower_of_a_log_ending_in_a_gap_joins_the_isr() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.kill(2)
    cluster.elect(1, [1])
    for key in (b"a", b"b"):
        cluster.until(cluster.produce_later(1, build_batch([Record(key, b"v", 1_000)])).done)
    log = cluster[1].partition.log
    log.roll()
    log.segments[0].truncate_to(1)
    cluster.restart(2)
    cluster.until(lambda: 2 in cluster[1].partition.isr_state.isr)
    assert cluster[2].partition.log.end_offset == log.end_offset == 2


@pytest.mark.parametrize("offset", [0, 1, 5, 8])
def test_log_truncated_in_a_gap_ends_at_the_truncation_offset(offset: int) -> None:
    log = with_gap()
    assert (log.truncate_to(offset), log.end_offset, read_all(log)) == (offset, offset, [])


@pytest.mark.parametrize("kept", ["", "b"])
def test_log_truncated_in_a_gap_can_be_truncated_further(kept: str) -> None:
    """A log that was truncated within a gap can be truncated further.

    Otherwise its leader would return the same divergence offset to every fetch of this follower, forever.
    """
    log = a_log(1 << 20)
    for key in [*kept, *"aaaaaaaaa"]:
        append(log, (key, "v"))
    log.roll()
    append(log, ("a", "v"))
    run_compaction(log)
    begin = len(kept)
    assert [offset for offset, *_ in read_all(log)] == [*range(begin), begin + 8, begin + 9]
    assert [log.truncate_to(offset) for offset in (begin + 8, begin + 3, begin)] == [begin + 8, begin + 3, begin]
    assert (log.end_offset, len(read_all(log))) == (begin, begin)
    assert [segment.base_offset for segment in log.segments] == [0]


@pytest.mark.parametrize("offset", [3, 8])
@pytest.mark.parametrize("kept", [0, 1])
def test_log_truncated_in_a_gap_keeps_its_end_when_reopened(kept: int, offset: int) -> None:
    """A log that was truncated within a gap has the same end offset after it is opened again.

    Otherwise its broker would report lost records and, as leader, reuse their offsets.
    """
    log = with_gap()
    log.roll()
    for key in "xyz"[:kept]:
        append(log, (key, "v"))
    assert log.truncate_to(offset) == offset
    log.close()
    opened = PartitionLog(log._directory, TP, segment_bytes=1 << 20)
    assert (opened.start_offset, opened.end_offset, opened.damage, read_all(opened)) == (0, offset, [], [])
    append(opened, ("a", "w"))
    assert read_all(opened) == [(offset, "a", "w")]
    assert opened.truncate_to(1) <= 1 and read_all(opened) == []


def test_compacted_replica_can_follow_a_leader_ending_in_a_gap() -> None:
    cluster = Cluster(2, log_segment_bytes=700, log_cleaner_backoff_ms=100)
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    cluster.create([1, 2])

    def produce(broker_id: int, keys: str) -> None:
        for key in keys:
            cluster.until(cluster.produce_later(broker_id, build_batch([Record(key.encode(), b"v", 1_000)])).done)

    produce(1, "aaaaa")
    cluster.settle()
    cluster.kill(2)
    cluster.elect(1, [1])
    produce(1, "aaabaa")
    cluster.run(1_000)
    assert [segment.size > 0 for segment in cluster[1].partition.log.segments] == [True, True]
    assert len(cluster[1].values) < 6, "the records that broker 2 has were compacted away here"
    cluster.kill(1)
    cluster.restart(2)
    cluster.elect(2, [2], unclean=True)
    produce(2, "c")
    cluster.restart(1)
    cluster.until(lambda: 1 in cluster[2].partition.isr_state.isr)
    assert cluster[1].partition.log.end_offset == cluster[2].partition.log.end_offset == 6


def test_emptied_first_segment_does_not_delay_retention() -> None:
    """A first segment without records does not delay the retention of later segments.

    This matters with cleanup.policy=compact,delete, because Kafka uses the last modification time of an empty segment.
    """
    log = a_log(100)
    for at_ms in (10, 20, 30, 40):
        append(log, ("k", "v"), at_ms=at_ms)
    run_compaction(log)
    assert [segment.size > 0 for segment in log.segments] == [False, True, True]
    assert retention.drop_older(log, 10, 40) == 0, "no record is too old, and reading from the log's start works"
    assert retention.drop_older(log, 10, 41) == 2
    assert (log.start_offset, [offset for offset, *_ in read_all(log)]) == (3, [3])
    assert retention.drop_older(log, 10, 1_000) == 1
    assert (log.start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)

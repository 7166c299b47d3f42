"""Logs that diverge and become equal again: KIP-101's scenarios, unclean elections, restarts and power losses."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import LATENCY_MS, TOPIC_ID, TP, Cluster, at_once, batch
from zabka.broker_sim.logs import checkpoints
from zabka.journal import events as e
from zabka.kafka.record_batch import decode_records
from zabka.kafka.topic_ids import topic_id_from_kafka


def logs_are_identical(cluster: Cluster, *brokers: int) -> bool:
    logs = [cluster[b].partition.log for b in brokers]
    return len({log.read(0, 1 << 24, log.end_offset, True) for log in logs}) == 1


def leader_with_epochs(entries: list[tuple[int, int]], end: int, epoch: int) -> Cluster:
    """Return a cluster whose broker 1 leads `epoch` and has `end` records. `entries` are (leader epoch, start
    offset).
    """
    cluster = Cluster(2)
    cluster[2].runtime.stop()
    cluster.create([1, 2])
    partition = cluster[1].partition
    starts = {start: at for at, start in entries}
    partition.leader_epoch = -1
    for offset in range(end):
        at = starts.get(offset)
        if at is not None:
            partition.log.epochs.assign(at, offset)
            partition.leader_epoch = at
        cluster.produce_later(1, batch("x"), acks=1)
    cluster.states[TP].update(leader_epoch=epoch - 1)
    cluster.elect(1, [1, 2])
    return cluster


@pytest.mark.scenario(63)
@pytest.mark.parametrize(
    ("last_epoch", "offset", "diverging"),
    [
        (2, 5, (0, 2)),
        (0, 4, (0, 2)),
        (6, 6, (4, 13)),
        (5, 9, (4, 13)),
        (10, 18, (10, 17)),
        (0, 1, None),
        (9, 16, None),
        (10, 17, None),
    ],
)
def test_last_fetched_offset_validation(last_epoch: int, offset: int, diverging: tuple[int, int] | None) -> None:
    cluster = leader_with_epochs([(0, 0), (3, 2), (4, 8), (7, 13), (9, 14)], 17, 10)
    answer = cluster.fetch(1, offset, replica_id=2, epoch=10, last_epoch=last_epoch, max_wait_ms=0)
    assert (answer.error, answer.diverging) == (0, diverging)
    if diverging is not None:
        assert answer.records == b""
        assert cluster[1].partition.followers[2].end_offset == -1, "its log end is unknown"


@pytest.mark.scenario(63)
def test_unknown_last_fetched_epoch_is_out_of_range() -> None:
    cluster = leader_with_epochs([(0, 0), (3, 2), (4, 8), (7, 13), (9, 14)], 17, 10)
    answer = cluster.fetch(1, 5, replica_id=2, epoch=10, last_epoch=11, max_wait_ms=0)
    assert answer.error == ErrorCode.offset_out_of_range


def test_leader_returns_the_end_offsets_of_epochs() -> None:
    cluster = leader_with_epochs([(0, 0), (3, 2), (4, 8), (7, 13), (9, 14)], 17, 10)
    manager = cluster[1].manager
    assert manager.end_offset_for_epoch(TP, 10, 3) == (0, 3, 8)
    assert manager.end_offset_for_epoch(TP, -1, 10) == (0, 10, 17)
    assert manager.end_offset_for_epoch(TP, 10, 11) == (0, -1, -1)
    assert manager.end_offset_for_epoch(TP, 9, 3)[0] == ErrorCode.fenced_leader_epoch


@pytest.mark.scenario(64)
def test_should_not_allow_divergent_logs() -> None:
    """KIP-101's second scenario: both brokers are killed in turn, their logs diverge, and then become equal again."""
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "a", "b")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.produce(1, "only on 1", acks=1)
    cluster.kill(1)
    cluster.heal()
    cluster.elect(2, [2])
    cluster.produce(2, "only on 2", "and this", acks=1)
    cluster.kill(2)
    cluster.restart(2)
    cluster.restart(1)
    cluster.settle()
    assert logs_are_identical(cluster, 1, 2)
    assert cluster[1].values == ["a", "b", "only on 2", "and this"]
    truncated = cluster.events(e.LogTruncated, 1)
    assert [(x.from_offset, x.to_offset) for x in truncated] == [(3, 2)]
    lost = cluster.events(e.RecordsLost, 1)
    assert [(x.first_offset, x.last_offset, x.count, x.below_high_watermark) for x in lost] == [(2, 2, 1, 0)]


@pytest.mark.scenario(65)
def test_offsets_should_not_go_backwards() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    offsets = [cluster.produce(1, f"{i}").base_offset for i in range(10)]
    cluster.kill(1)
    cluster.elect(2, [2])
    offsets += [cluster.produce(2, f"{i}").base_offset for i in range(10, 20)]
    cluster.restart(1)
    cluster.until(lambda: cluster[2].partition.isr_state.isr == (2, 1))
    cluster.elect(1, [2, 1])
    offsets += [cluster.produce(1, f"{i}").base_offset for i in range(20, 30)]
    assert offsets == list(range(30))
    cluster.settle()
    assert logs_are_identical(cluster, 1, 2) and cluster.violations() == []


@pytest.mark.scenario(65)
def test_should_survive_fast_leader_change() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    sent = 0
    leader = 1
    for _ in range(5):
        for _ in range(4):
            assert cluster.produce(leader, f"m{sent}").error == 0
            sent += 1
        other = 3 - leader
        cluster.kill(leader)
        cluster.elect(other, [other])
        cluster.produce(other, f"m{sent}")
        sent += 1
        cluster.restart(leader)
        cluster.until(lambda other=other, leader=leader: cluster[other].partition.isr_state.isr == (other, leader))
        leader = other
    cluster.settle()
    assert logs_are_identical(cluster, 1, 2)
    assert cluster[1].values == [f"m{i}" for i in range(sent)]
    assert cluster.violations() == []


@pytest.mark.scenario(66)
def test_logs_should_not_diverge_on_unclean_leader_elections() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "first")
    cluster.settle()
    for _ in range(3):
        for leader, other in ((1, 2), (2, 1)):
            cluster.kill(other)
            cluster.elect(leader, [leader], unclean=True)
            cluster.produce(leader, *"abc"[:leader], acks=1)
            cluster.kill(leader)
            cluster.restart(other)
            cluster.elect(other, [other], unclean=True)
            cluster.produce(other, f"by {other}", acks=1)
            cluster.restart(leader)
            cluster.settle()
            assert logs_are_identical(cluster, 1, 2)
    assert cluster[1].values[0] == "first"


@pytest.mark.scenario(67)
def test_monotonic_offsets_after_leader_change() -> None:
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    cluster.produce(1, "a", "b")
    cluster.until(lambda: cluster[2].partition.log.end_offset == 2)
    cluster.cut_link(2, 3)
    assert cluster[2].partition.log.high_watermark < 2
    cluster.elect(2, [1, 2, 3])
    cluster.kill(1)
    latest = at_once(cluster[2].manager.list_offset(TP, -1, -1, False))
    assert latest[0] == ErrorCode.offset_not_available
    assert at_once(cluster[2].manager.list_offset(TP, -1, -1, True))[2] == 2
    cluster.heal()
    cluster.elect(2, [2, 3])
    cluster.settle(2, 3)
    assert at_once(cluster[2].manager.list_offset(TP, -1, -1, False)) == (0, -1, 2, 2)


def test_new_leader_finds_committed_offsets_by_timestamp() -> None:
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    cluster.produce(1, "a")
    cluster.until(lambda: cluster[2].partition.log.high_watermark == 1)
    cluster.produce(1, "b", "c")
    cluster.until(lambda: cluster[2].partition.log.end_offset == 3)
    cluster.cut_link(2, 3)
    assert cluster[2].partition.log.high_watermark == 1
    cluster.elect(2, [1, 2, 3])
    cluster.kill(1)
    assert at_once(cluster[2].manager.list_offset(TP, 1_000, -1, False)) == (0, 1_000, 0, 0)
    assert at_once(cluster[2].manager.list_offset(TP, 1_001, -1, False))[0] == ErrorCode.offset_not_available
    assert at_once(cluster[2].manager.list_offset(TP, -1, -1, False))[0] == ErrorCode.offset_not_available


@pytest.mark.scenario(68)
@pytest.mark.parametrize("leader", [1, 2])
def test_older_partition_epoch_in_leader_and_isr_is_ignored(leader: int) -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    for _ in range(3):
        cluster.elect(1, [1, 2])
    state = cluster.leader_and_isr(leader=leader, leader_epoch=9, partition_epoch=1)
    cluster[1].manager.become_leader_or_follower(state)
    partition = cluster[1].partition
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 3, 3)


# ---- section 4.6: an unclean election, on and off ------------------------------------------------------------------


def out_of_step() -> Cluster:
    """Return a cluster whose only ISR member, broker 1, has m1, m2 and m3 but has failed. Broker 2 has only m1."""
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "m1")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.produce(1, "m2", acks=1)
    cluster.until(lambda: cluster[1].partition.isr_state.isr == (1,))
    assert cluster.produce(1, "m3").error == 0
    # Wait until the producer has received the response.
    cluster.run(LATENCY_MS)
    cluster.kill(1)
    cluster.heal()
    return cluster


def test_truncated_follower_still_receives_the_high_watermark() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.until(lambda: cluster[1].partition.log.high_watermark == 1)
    assert cluster[2].partition.log.high_watermark == 0
    # Broker 2 leads for a short time and appends no record. So it later has to remove only its entry in the leader
    # epoch cache.
    cluster.elect(2, [1, 2])
    cluster.elect(1, [1, 2])
    cluster.run(3_000)
    assert cluster[2].partition.log.epochs.entries == [(0, 0)]
    assert cluster[2].partition.log.high_watermark == 1


def test_returning_leader_keeps_its_records_if_never_replaced() -> None:
    cluster = out_of_step()
    cluster.elect(-1, [1])
    assert cluster.produce(2, "m4").error == ErrorCode.not_leader_or_follower
    cluster.run(30_000)
    cluster.alive.add(1)
    cluster.restart(1)
    cluster.elect(1, [1])
    cluster.until(lambda: cluster[1].partition.isr_state.isr == (1, 2))
    cluster.settle()
    assert cluster[1].values == cluster[2].values == ["m1", "m2", "m3"]
    assert cluster.events(e.RecordsLost) == [] and cluster.violations() == []


def test_unclean_election_reports_lost_records_and_logs_converge() -> None:
    cluster = out_of_step()
    cluster.elect(2, [2], unclean=True)
    assert cluster[2].partition.log.epochs.entries == [(0, 0), (1, 1)]
    assert cluster.produce(2, "m4").base_offset == 1
    cluster.restart(1)
    cluster.until(lambda: cluster[2].partition.isr_state.isr == (2, 1))
    cluster.settle()
    assert cluster[1].values == cluster[2].values == ["m1", "m4"]
    assert logs_are_identical(cluster, 1, 2)
    (lost,) = cluster.events(e.RecordsLost)
    assert (lost.broker_id, lost.first_offset, lost.last_offset, lost.count) == (1, 1, 2, 2)
    assert lost.topic_id == topic_id_from_kafka(TOPIC_ID)
    # All lost records were committed, because broker 1 was the only ISR member. Only the broker's journal shows this,
    # because the broker was killed before the next checkpoint.
    assert (lost.committed_at_least, lost.below_high_watermark) == (2, 2)
    (cut,) = cluster.events(e.LogTruncated)
    assert (cut.from_offset, cut.to_offset, cut.leader_epoch) == (3, 1, 1)
    assert cluster.violations() == []


def test_follower_longer_than_an_unclean_leader_is_truncated() -> None:
    """A follower whose log is longer than that of an unclean leader is truncated.

    The leader lost its disk, so it does not know the follower's epoch (OFFSET_OUT_OF_RANGE).
    """
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "a", "b", "c")
    cluster.settle()
    cluster.kill(1, power=True)
    cluster[1].directory.delete_partition(str(TP))
    cluster.restart(1)
    cluster.elect(1, [1], unclean=True)
    cluster.run(3_000)
    assert cluster[2].partition.log.end_offset == 0
    lost = cluster.events(e.RecordsLost, 2)
    assert [(x.first_offset, x.last_offset) for x in lost] == [(0, 2)]
    assert lost[0].below_high_watermark == 3
    cluster.produce(1, "d")
    cluster.settle()
    assert cluster[2].values == ["d"]


def test_follower_below_leaders_log_start_restarts_at_log_start() -> None:
    cluster = Cluster(2)
    cluster[2].runtime.stop()
    cluster.alive.discard(2)
    cluster.create([1, 2])
    cluster[1].partition.log.truncate_fully_and_start_at(50)
    cluster.elect(1, [1])
    cluster.produce(1, "a", "the latest, where a search by time would find it", acks=1)
    cluster.restart(2)
    cluster.until(lambda: cluster[1].partition.isr_state.isr == (1, 2))
    assert cluster[2].partition.log.start_offset == 50 and cluster[2].values[0] == "a"


# ---- restarts -------------------------------------------------------------------------------------------------------


@pytest.mark.scenario(62)
def test_use_checkpoint_to_initialize_high_watermark() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    cluster.produce(1, *"abcdefg", acks=1)
    cluster.kill(1)
    checkpoints.write_offsets(cluster[1].directory, checkpoints.REPLICATION_OFFSETS, {TP: 4})
    cluster.alive.add(1)
    cluster[1].boot()
    (loaded,) = cluster.events(e.ReplicaLoaded)
    assert (loaded.high_watermark, loaded.log_end_offset) == (4, 7)


def test_high_watermark_is_checkpointed_regularly_and_on_stop() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    cluster.produce(1, "a")
    cluster.run(4_000)
    assert checkpoints.read_offsets(cluster[1].directory, checkpoints.REPLICATION_OFFSETS) == {}
    cluster.run(1_500)
    assert checkpoints.read_offsets(cluster[1].directory, checkpoints.REPLICATION_OFFSETS) == {TP: 1}
    cluster.produce(1, "b")
    cluster[1].manager.shutdown()
    assert checkpoints.read_offsets(cluster[1].directory, checkpoints.REPLICATION_OFFSETS) == {TP: 2}


def test_logs_survive_a_kill_and_a_clean_shutdown() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "a", "b")
    cluster.settle()
    cluster.kill(1)
    cluster.elect(2, [2])
    cluster.produce(2, "c")
    cluster.restart(1)
    cluster.until(lambda: cluster[2].partition.isr_state.isr == (2, 1))
    cluster.settle()
    cluster.restart(2)
    cluster.restart(1)
    assert cluster[1].values == cluster[2].values == ["a", "b", "c"]
    assert cluster[1].partition.topic_id is not None
    assert cluster.violations() == []


def test_records_lost_in_a_power_loss_are_replicated_again() -> None:
    cluster = Cluster(3)
    cluster.create([1, 2, 3])
    cluster.produce(1, "a", "b", "c")
    cluster.run(6_000)
    cluster.kill(3, power=True)
    cluster.elect(1, [1, 2])
    cluster.restart(3)
    loaded = cluster.events(e.ReplicaLoaded, 3)[-1]
    assert loaded.log_end_offset == 0
    lost = cluster.events(e.RecordsLost, 3)
    assert [(x.first_offset, x.last_offset, x.cause) for x in lost] == [(0, 2, "missing_at_start")]
    assert [x.topic_id for x in lost] == [topic_id_from_kafka(TOPIC_ID)]
    cluster.until(lambda: cluster[1].partition.isr_state.isr == (1, 2, 3))
    cluster.settle()
    assert cluster[3].values == ["a", "b", "c"] and cluster.violations() == []


def test_clean_shutdown_flushes_all_records() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    cluster.produce(1, "a", "b")
    cluster[1].manager.shutdown()
    cluster.kill(1, power=True)
    cluster.restart(1)
    assert cluster[1].partition.log.end_offset == 2


def test_clean_shutdown_completes_waiting_requests() -> None:
    cluster = Cluster(2, replica_lag_time_max_ms=60_000)
    cluster.create([1, 2])
    cluster.cut_link(1, 2)
    produce = cluster.produce_later(1, batch("x"))
    fetch = cluster.fetch_later(1, 0, max_wait_ms=60_000)
    cluster[1].manager.shutdown()
    assert produce.result()[0].error == ErrorCode.request_timed_out and fetch.done()


def test_follower_backs_off_until_its_leader_returns() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.kill(1)
    cluster.alive.add(1)
    cluster.run(5_000)
    steps = cluster.scheduler.steps
    cluster.run(10_000)
    assert cluster.scheduler.steps - steps < 500
    cluster.restart(1)
    cluster.elect(1, [1, 2])
    cluster.produce(1, "a")
    cluster.settle()


def test_records_read_during_a_leader_change_are_appended_once() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    waiting = cluster.fetch_later(1, 0, replica_id=2, epoch=0, max_wait_ms=60_000)
    cluster.produce(1, "a")
    assert decode_records(waiting.result()[0].records)[0].value == b"a"
    for _ in range(5):
        cluster.elect(1, [1, 2])
    cluster.produce(1, "b")
    cluster.settle()
    assert cluster[2].values == ["a", "b"]

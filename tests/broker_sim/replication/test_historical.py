"""Former rules of Kafka's replication: each known bug occurs if its rule is enabled, and does not occur otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim import broker_world
from tests.broker_sim.replication.replication_cluster import Cluster, batch
from zabka.broker_sim.replication.isr import Committed
from zabka.controller.historical import NO_HISTORY, Historical
from zabka.journal import events as e
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes

P0 = TopicPartition("orders", 0)


def history(switch: Historical, on: bool) -> frozenset[Historical]:
    return frozenset((switch,)) if on else NO_HISTORY


def still(switch: Historical, on: bool, **overrides: Any) -> Cluster:
    """Return three brokers with this historical rule enabled or not.

    Brokers 2 and 3 run no fetcher: the test sends their fetches.
    """
    cluster = Cluster(3, historical=history(switch, on), **overrides)
    for broker_id in (2, 3):
        cluster[broker_id].runtime.stop()
    return cluster


def catch_up(cluster: Cluster, broker_id: int, offset: int, epoch: int = 0) -> None:
    cluster.fetch_later(1, offset, replica_id=broker_id, epoch=epoch, max_wait_ms=0)


# ---- truncation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [False, True])
def test_truncation_to_high_watermark_loses_acknowledged_records(on: bool) -> None:
    """With truncation to the high watermark, an acknowledged record is lost (KIP-101, first scenario).

    The follower restarts before it receives the high watermark that includes the record m2, and then the leader fails.
    """
    cluster = Cluster(2, historical=history(Historical.TRUNCATE_TO_HIGH_WATERMARK, on))
    cluster.create([1, 2])
    cluster.produce(1, "m1")
    cluster.settle()
    cluster.run(6_000)
    assert cluster.produce(1, "m2").error == 0
    assert (cluster[2].partition.log.end_offset, cluster[2].partition.log.high_watermark) == (2, 1)
    cluster.kill(2)
    cluster.restart(2)
    cluster.kill(1)
    cluster.elect(2, [2])
    assert cluster[2].values == (["m1"] if on else ["m1", "m2"])
    cluster.produce(2, "m3")
    cluster.restart(1)
    cluster.settle()
    assert bool(cluster.violations()) is on


@pytest.mark.parametrize("on", [False, True])
def test_kip_101_truncation_diverges_after_unclean_elections(on: bool) -> None:
    """With KIP-101's truncation, logs diverge after two unclean elections (KIP-279).

    Broker 2 led epoch 1, which broker 1 does not have. In broker 1's log, the previous epoch ends at the end offset of
    broker 2's log, so this rule truncates nothing.
    """
    cluster = Cluster(2, historical=history(Historical.TRUNCATE_KIP_101, on))
    cluster.create([1, 2])
    cluster.produce(1, "m0")
    cluster.settle()
    cluster.kill(2)
    cluster.produce(1, "of epoch 0", acks=1)
    cluster.kill(1)
    cluster.restart(2)
    cluster.elect(2, [2], unclean=True)
    cluster.produce(2, "of epoch 1", acks=1)
    cluster.kill(2)
    cluster.restart(1)
    cluster.elect(1, [1], unclean=True)
    cluster.produce(1, "of epoch 2", acks=1)
    cluster.restart(2)
    cluster.settle()
    assert cluster[1].values == ["m0", "of epoch 0", "of epoch 2"]
    assert cluster[2].values == ["m0", "of epoch 1" if on else "of epoch 0", "of epoch 2"]


def test_kip_101_truncation_fixes_the_double_failure() -> None:
    cluster = Cluster(2, historical=frozenset((Historical.TRUNCATE_KIP_101,)))
    cluster.create([1, 2])
    cluster.produce(1, "a", "b")
    cluster.settle()
    cluster.cut_link(1, 2)
    cluster.produce(1, "only on 1", acks=1)
    cluster.kill(1)
    cluster.heal()
    cluster.elect(2, [2])
    cluster.produce(2, "only on 2", acks=1)
    cluster.restart(1)
    cluster.settle()
    assert cluster[1].values == cluster[2].values == ["a", "b", "only on 2"]
    assert cluster.violations() == []


# ---- rules at the leader ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [False, True])
def test_zombie_leader_accepts_a_fetch_without_a_leader_epoch(on: bool) -> None:
    cluster = still(Historical.NO_LEADER_EPOCH_IN_FETCH, on)
    cluster.create([1, 2, 3])
    cluster.elect(1, [1, 2])
    answer = cluster.fetch(1, 0, replica_id=2, epoch=0, max_wait_ms=0)
    assert answer.error == (ErrorCode.none if on else ErrorCode.fenced_leader_epoch)


@pytest.mark.parametrize("on", [False, True])
def test_follower_joins_isr_too_early_without_epoch_start_check(on: bool) -> None:
    cluster = still(Historical.NO_EPOCH_START_CHECK, on)
    cluster.create([1, 2, 3])
    cluster.produce_later(1, batch(*"abcdefghij"), acks=1)
    for broker_id in (2, 3):
        catch_up(cluster, broker_id, 5)
    cluster.elect(1, [1, 2])
    catch_up(cluster, 3, 5, epoch=1)
    cluster.run(10)
    assert cluster.proposals == ([(1, 2, 3)] if on else [])


@pytest.mark.parametrize("on", [False, True])
def test_before_kafka_3_7_high_watermark_advances_below_min_isr(on: bool) -> None:
    cluster = still(Historical.HIGH_WATERMARK_UNDER_MIN_ISR, on, min_insync_replicas=2)
    cluster.create([1, 2, 3])
    cluster.produce_later(1, batch("a"), acks=1)
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1,)))
    assert cluster[1].partition.log.high_watermark == (1 if on else 0)


# ---- broker epochs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [False, True])
def test_stale_request_is_accepted_without_broker_epoch_check(on: bool) -> None:
    cluster = Cluster(2, historical=history(Historical.NO_BROKER_EPOCH, on))
    cluster.create([1, 2])
    stale = cluster.leader_and_isr(broker_epoch=99, leader=2, leader_epoch=5, partition_epoch=5)
    response = cluster[1].manager.become_leader_or_follower(stale)
    assert response.error_code == (ErrorCode.none if on else ErrorCode.stale_broker_epoch)
    assert cluster[1].partition.is_leader is not on


@pytest.mark.parametrize("on", [False, True])
def test_isr_proposals_have_no_epochs_without_member_epochs(on: bool) -> None:
    cluster = Cluster(2, historical=history(Historical.NO_MEMBER_EPOCHS, on))
    cluster.create([1, 2])
    cluster.elect(1, [1])
    cluster.until(lambda: cluster[1].partition.isr_state == Committed((1, 2)))
    (row,) = cluster.alterations[-1].topics[0].partitions
    members = [(int(m.broker_id), int(m.broker_epoch)) for m in row.new_isr_with_epochs]
    assert members == [(1, 100), (2, -1 if on else 100)]


# ---- leaders that write their ISR to ZooKeeper -----------------------------------------------------------------


def whole_brokers(on: bool) -> broker_world.Cluster:
    keys = {"zabka_historical": Historical.DIRECT_ZOOKEEPER_ISR.value} if on else {}
    cluster = broker_world.Cluster(3, default_replication_factor="3", **keys).start()
    cluster.run(cluster.client.create_topic("orders", assignment={0: [1, 2, 3]}))
    cluster.wait(500)
    return cluster


def state_of(cluster: broker_world.Cluster) -> tuple[znodes.LeaderAndIsr, int]:
    znode = cluster.ensemble.nodes[znodes.partition_state_path(P0)]
    state = znodes.decode_partition_state(znode.data, znode.version)
    assert state is not None
    return state, znode.version


def isr_in_metadata(cluster: broker_world.Cluster) -> dict[int, tuple[int, ...]]:
    seen = {}
    for broker_id, node in cluster.nodes.items():
        metadata = node.broker.metadata.partition(P0)
        assert metadata is not None
        seen[broker_id] = metadata.isr
    return seen


def lag_behind(cluster: broker_world.Cluster, broker_id: int) -> None:
    """Produce records while the broker's fetches are paused and its session stays alive."""
    cluster.nodes[broker_id].broker.replicas._fetchers.remove(P0)
    leader = cluster.nodes[1].broker.replicas
    for _ in range(3):
        leader.produce([(P0, batch("x"))], 1, 1_000)
        cluster.wait(1_600)


@pytest.mark.parametrize("on", [False, True])
def test_leader_that_writes_the_isr_also_writes_a_notification(on: bool) -> None:
    cluster = whole_brokers(on)
    _, version = state_of(cluster)
    notes = cluster.ensemble.nodes[znodes.ISR_CHANGE_NOTIFICATION]
    lag_behind(cluster, 3)
    state, after = state_of(cluster)
    assert (state.isr, after, state.leader_epoch, state.controller_epoch) == ((1, 2), version + 1, 0, 1)
    changed = [x for node in cluster.nodes.values() for x in node.of(e.IsrChanged) if x.isr == [1, 2]]
    assert changed and changed[0].zxid > 0
    if on:
        assert notes.cversion == 0, "the notification is delayed by five seconds"
        assert isr_in_metadata(cluster)[2] == (1, 2, 3)
    cluster.wait(10_000)
    assert isr_in_metadata(cluster) == dict.fromkeys((1, 2, 3), (1, 2))
    assert (notes.cversion > 0, notes.children) == (on, set()), "created and removed, or never created"
    cluster.stop_all()


def test_leader_with_a_stale_znode_version_never_changes_its_isr() -> None:
    """A leader with an old znode version cannot change the ISR (KAFKA-2729).

    Another client changed the partition state znode, and the leader was not notified.
    """
    cluster = whole_brokers(on=True)
    znode = cluster.ensemble.nodes[znodes.partition_state_path(P0)]
    znode.version += 1
    lag_behind(cluster, 3)
    cluster.wait(30_000)
    assert state_of(cluster)[0].isr == (1, 2, 3)
    replicas = cluster.nodes[1].broker.replicas
    assert replicas.partitions[P0].isr_state == Committed((1, 2, 3))
    assert replicas.counters.failed_updates > 5
    cluster.stop_all()


def test_lost_response_to_a_direct_isr_write_is_recognised() -> None:
    cluster = whole_brokers(on=True)
    leader = cluster.nodes[1]
    partition = leader.broker.replicas.partitions[P0]
    znode = cluster.ensemble.nodes[znodes.partition_state_path(P0)]
    state, _ = state_of(cluster)
    znode.data = znodes.encode_partition_state(state._replace(isr=(1, 2)))
    znode.version += 1
    lag_behind(cluster, 3)
    assert partition.isr_state == Committed((1, 2))
    assert partition.partition_epoch == znode.version
    cluster.stop_all()

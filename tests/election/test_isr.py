"""The ISR: when and why replicas leave it, and when they return."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.election import broker_sessions
from zabka.testing.cluster import Broker, Cluster, Happening, Topic, Workload, only
from zabka.testing.worlds.cluster import SimulatedCluster

SLACK_US = 100_000
"""Tolerance for the time after which a follower leaves the ISR.

Under load, the follower was last caught up slightly before the fault, and the removal takes one more response of the
controller.
"""
LIVE_SLACK_US = 500_000
"""As `SLACK_US`, for real processes on a busy machine."""


class Roles(NamedTuple):
    """Three brokers: the controller, and the leader and the follower of a topic to which a workload writes."""

    controller: Broker
    leader: Broker
    follower: Broker
    orders: Topic
    workload: Workload


def lag_max_ms(cluster: Cluster) -> int:
    return int(cluster.settings()["replica.lag.time.max.ms"])


def under_load(cluster: Cluster) -> Roles:
    controller = cluster.until(lambda: cluster.controller)
    leader, follower = (broker for broker in cluster.brokers.values() if broker.id != controller.id)
    orders = cluster.topics.create("orders", assignment={0: [leader.id, follower.id]})
    workload = cluster.workload("orders", records_per_s=50)
    cluster.until(lambda: workload.counts.acknowledged > 20 and orders.partitions[0].in_sync)
    return Roles(controller, leader, follower, orders, workload)


def isr_changes(cluster: Cluster, after_us: int) -> list[Happening]:
    return only(cluster.events("isr_changed", after_us=after_us), topic="orders")


def falls_behind(cluster: Cluster, roles: Roles, held_up_us: int) -> int:
    """Wait until the follower leaves the ISR because of its lag. Return the time in microseconds since the fault."""
    lag_us = lag_max_ms(cluster) * 1000
    slack_us = SLACK_US if isinstance(cluster, SimulatedCluster) else LIVE_SLACK_US
    before = roles.orders.partitions[0]
    (left,) = cluster.until(lambda: isr_changes(cluster, held_up_us), 3 * lag_us / 1_000_000, "the follower's eviction")
    assert (left["isr"], left["cause"]) == ([roles.leader.id], "lag")
    # The leader checks for lagging followers every half replica.lag.time.max.ms. So the removal takes up to 1.5 times
    # that setting, and one more response of the controller.
    took_us: int = left["mono_us"] - held_up_us
    assert lag_us - slack_us < took_us < 1.5 * lag_us + slack_us
    after = cluster.until(lambda: (now := roles.orders.partitions[0]).isr == [roles.leader.id] and now)
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    assert after.partition_epoch == before.partition_epoch + 1
    # The follower must leave because of its lag, not because its session expired.
    assert broker_sessions.expired(cluster) == []
    return took_us


def returns(cluster: Cluster, roles: Roles, since_us: int) -> None:
    """Wait until the follower has caught up and returned to the ISR, with every acknowledged record."""
    cluster.until(lambda: roles.orders.partitions[0].in_sync, what="the follower's return")
    (back,) = cluster.until(lambda: isr_changes(cluster, since_us))
    assert (sorted(back["isr"]), back["cause"]) == (sorted([roles.leader.id, roles.follower.id]), "caught_up")
    counts = roles.workload.stop()
    assert (counts.failed, counts.lost, counts.verified) == (0, 0, True)


@pytest.mark.scenario(53)
def test_paused_follower_leaves_the_isr_by_lag_and_returns(cluster: Cluster) -> None:
    roles = under_load(cluster)

    paused_us = cluster.now_us
    roles.follower.pause()
    falls_behind(cluster, roles, paused_us)
    assert roles.follower.registered

    resumed_us = cluster.now_us
    roles.follower.resume()
    returns(cluster, roles, resumed_us)


@pytest.mark.parametrize("direction", ["what it asks", "what it is answered"])
def test_isolated_follower_leaves_the_isr_and_returns(cluster: Cluster, direction: str) -> None:
    roles = under_load(cluster)
    # The follower opens the connection and fetches. Its fetches stall whether its requests or the responses to them are
    # lost.
    ends = (roles.follower, roles.leader) if direction == "what it asks" else (roles.leader, roles.follower)

    cut_us = cluster.now_us
    cut = cluster.faults.cut(*ends, both_ways=False)
    falls_behind(cluster, roles, cut_us)
    assert roles.follower.registered

    healed_us = cluster.now_us
    cut.heal()
    returns(cluster, roles, healed_us)


@pytest.mark.scenario(54)
def test_idle_caught_up_follower_stays_in_the_isr(cluster: Cluster) -> None:
    orders = cluster.topics.create("orders", partitions=2)
    for partition in (0, 1):
        cluster.produce("orders", ["last words"], partition)
    cluster.until(lambda: all(partition.in_sync for partition in orders.partitions))
    idle_us = cluster.now_us

    cluster.let_pass(2 * lag_max_ms(cluster) / 1000)

    assert isr_changes(cluster, idle_us) == []
    assert all(partition.in_sync for partition in orders.partitions)


def test_slow_link_alone_does_not_shrink_the_isr(zabka_world: SimulatedCluster) -> None:
    roles = under_load(zabka_world)
    slow_us = zabka_world.now_us
    zabka_world.faults.delay(roles.follower, roles.leader, delay_ms=lag_max_ms(zabka_world) // 4)

    zabka_world.let_pass(10 * lag_max_ms(zabka_world) / 1000)

    assert isr_changes(zabka_world, slow_us) == []
    assert roles.workload.stop().lost == 0


@pytest.mark.zabka(settings={"replica.lag.time.max.ms": "1000"})
@pytest.mark.parametrize("zabka_seed", range(10))
def test_isr_eviction_time_is_bounded_in_simulation_for_any_lag(zabka_world: SimulatedCluster) -> None:
    roles = under_load(zabka_world)
    for _ in range(5):
        paused_us = zabka_world.now_us
        roles.follower.pause()
        falls_behind(zabka_world, roles, paused_us)
        roles.follower.resume()
        zabka_world.until(lambda: roles.orders.partitions[0].in_sync)
        zabka_world.let_pass(0.3)


def test_acks_all_is_rejected_with_too_few_in_sync_replicas(cluster: Cluster) -> None:
    controller = cluster.until(lambda: cluster.controller)
    leader, follower = (broker for broker in cluster.brokers.values() if broker.id != controller.id)
    orders = cluster.topics.create(
        "orders", assignment={0: [leader.id, follower.id]}, config={"min.insync.replicas": "2"}
    )
    cluster.produce("orders", ["with both"])
    follower.stop()
    cluster.until(lambda: orders.partitions[0].isr == [leader.id])

    with pytest.raises(AssertionError, match=r"(?i)not_?enough_?replicas"):
        cluster.produce("orders", ["with one"], timeout_s=1)
    # This produce request succeeds, because min.insync.replicas applies only to acks=all.
    cluster.produce("orders", ["with one, and that is enough"], acks=1)
    # A record that only one replica has is not committed, so no consumer can read it.
    assert cluster.consume("orders") == ["with both"]

    follower.start()
    cluster.until(lambda: orders.partitions[0].in_sync)
    cluster.until(lambda: cluster.consume("orders") == ["with both", "with one, and that is enough"])

"""Replacement of crashed controllers and partition leaders, and their behaviour when they return."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.election import broker_sessions
from zabka.testing.cluster import Broker, Cluster, Partition, only
from zabka.testing.worlds.cluster import SimulatedCluster


def failover_ms_max(cluster: Cluster) -> int:
    """Return the maximum failover time in ms: the session timeout, one tick and a second.

    The ensemble checks for expired sessions every tick, and another broker becomes controller within a second after the
    expiry.
    """
    tick_ms = int(cluster.settings("peer-1")["tickTime"])
    return int(cluster.settings()["zookeeper.session.timeout.ms"]) + 2 * tick_ms + 1_000


def controller_of(cluster: Cluster) -> Broker:
    return cluster.until(lambda: cluster.controller)


def successor_of(cluster: Cluster, dead: Broker, epoch: int) -> Broker:
    """Wait until the controller epoch has increased, and return the new controller."""
    return cluster.until(
        lambda: cluster.controller_epoch > epoch and cluster.controller not in (None, dead) and cluster.controller,
        2 * failover_ms_max(cluster) / 1000,
        "another controller",
    )


def all_in_sync(cluster: Cluster, topic: str) -> bool:
    return all(partition.in_sync for partition in cluster.topics[topic].partitions)


def led_on(before: Sequence[Partition], now: Sequence[Partition], dead: Broker, bump: int) -> bool:
    """Return whether each partition that the dead broker led has a new leader from its remaining ISR."""
    return all(
        (new.leader in old.isr and new.leader != dead.id and new.leader_epoch == old.leader_epoch + bump)
        for old, new in zip(before, now, strict=True)
        if old.leader == dead.id
    )


@pytest.mark.scenario(34)
def test_killed_controller_is_replaced_and_leaders_are_elected(cluster: Cluster) -> None:
    orders = cluster.topics.create("orders", partitions=3)
    controller = controller_of(cluster)
    epoch = cluster.controller_epoch
    before = cluster.until(lambda: all_in_sync(cluster, "orders") and orders.partitions)
    assert controller.id in [partition.leader for partition in before]

    killed_us = cluster.now_us
    controller.kill()
    successor_of(cluster, controller, epoch)

    elected = cluster.until(lambda: cluster.events("controller_elected", after_us=killed_us))
    assert [event["controller_epoch"] for event in elected] == [epoch + 1]
    assert elected[0]["mono_us"] - killed_us <= failover_ms_max(cluster) * 1000
    # The controller writes the partition state twice: without a leader (+1), and then with the new leader (+1).
    cluster.until(lambda: led_on(before, orders.partitions, controller, bump=2))
    assert only(cluster.events("leader_elected", after_us=killed_us), unclean=True) == []

    controller.start()
    cluster.until(lambda: all_in_sync(cluster, "orders"))
    assert cluster.controller != controller


@pytest.mark.scenario(34)
@pytest.mark.scenario(39)
@pytest.mark.parametrize("cluster", ["simulated", pytest.param("live", marks=pytest.mark.long)], indirect=True)
def test_leader_kill_increments_the_leader_epoch_once(cluster: Cluster) -> None:
    controller = controller_of(cluster)
    epoch = cluster.controller_epoch
    first, second = (broker for broker in cluster.brokers.values() if broker.id != controller.id)
    assignment = {0: [first.id, second.id, controller.id], 1: [second.id, controller.id, first.id]}
    orders = cluster.topics.create("orders", assignment=assignment)
    before = cluster.until(lambda: all_in_sync(cluster, "orders") and orders.partitions)

    first.kill()
    cluster.until(lambda: not first.registered, failover_ms_max(cluster) / 1000)
    led, followed = cluster.until(lambda: led_on(before, now := orders.partitions, first, bump=1) and now)

    # The next replica in the assignment becomes the leader.
    assert led.leader == second.id
    # If the dead broker was a follower, it leaves the ISR, and the partition keeps its leader.
    cluster.until(lambda: orders.partitions[1].isr == [second.id, controller.id])
    assert followed.leader == second.id
    assert cluster.controller == controller
    assert cluster.controller_epoch == epoch

    first.start()
    cluster.until(lambda: all_in_sync(cluster, "orders"))
    # The returned broker stays a follower until a preferred election makes it the leader again.
    assert orders.partitions[0].leader == second.id
    assert cluster.elect("PREFERRED", "orders", 0) is None
    cluster.until(lambda: orders.partitions[0].leader == first.id)


@pytest.mark.scenario(37)
def test_stopping_broker_first_moves_its_leadership(cluster: Cluster) -> None:
    controller = controller_of(cluster)
    leaver = next(broker for broker in cluster.brokers.values() if broker.id != controller.id)
    others = [number for number in cluster.brokers if number != leaver.id]
    orders = cluster.topics.create("orders", assignment={0: [leaver.id, *others]})
    cluster.until(lambda: all_in_sync(cluster, "orders"))
    workload = cluster.workload("orders", records_per_s=50)
    cluster.until(lambda: workload.counts.acknowledged > 10)

    leaver.stop()

    after = cluster.until(lambda: (now := orders.partitions[0]).leader in others and now)
    assert leaver.id not in after.isr
    # The failover did not wait until the session expired.
    assert broker_sessions.expired(cluster) == []
    counts = workload.stop()
    assert (counts.failed, counts.lost) == (0, 0)
    leaver.start()
    cluster.until(lambda: all_in_sync(cluster, "orders"))


def test_every_broker_learns_the_current_controller(cluster: Cluster) -> None:
    controller = controller_of(cluster)
    epoch = cluster.controller_epoch
    controller.kill()
    successor = successor_of(cluster, controller, epoch)
    controller.start()

    cluster.until(
        lambda: all(
            (broker.believes.controller_id, broker.believes.controller_epoch) == (successor.id, epoch + 1)
            for broker in cluster.brokers.values()
        )
    )
    assert [broker.id for broker in cluster.brokers.values() if broker.is_controller] == [successor.id]


@pytest.mark.parametrize("zabka_seed", range(20))
def test_controller_is_replaced_in_time_in_every_simulated_run(zabka_world: SimulatedCluster) -> None:
    for _ in range(3):
        controller = controller_of(zabka_world)
        epoch = zabka_world.controller_epoch
        killed_us = zabka_world.now_us
        controller.kill()
        successor_of(zabka_world, controller, epoch)
        elected = zabka_world.events("controller_elected", after_us=killed_us)
        assert [event["controller_epoch"] for event in elected] == [epoch + 1]
        assert elected[0]["mono_us"] - killed_us <= failover_ms_max(zabka_world) * 1000
        controller.start()
        zabka_world.until_ready()

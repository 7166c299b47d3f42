"""The last in-sync replica dies, with unclean elections enabled or disabled.

Depending on the topic's configuration, the partition stays offline with all records, or becomes available without some
of them.

Section 4.6 of the reference on Kafka's behavior: broker A is the leader and the only ISR member, and has m1, m2 and m3.
Broker B has only m1. A dies, and B returns.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from zabka.testing.cluster import Broker, Cluster, Partition, Topic, only
from zabka.testing.worlds.cluster import SimulatedCluster

UNCLEAN = "unclean.leader.election.enable"


class OfflineCase(NamedTuple):
    """State of partition orders-0: broker A has all records but is dead, and broker B has returned without m2 and
    m3.
    """

    a: Broker
    b: Broker
    orders: Topic
    offline: Partition
    since_us: int


def offline_case(cluster: Cluster) -> OfflineCase:
    controller = cluster.until(lambda: cluster.controller)
    a, b = (broker for broker in cluster.brokers.values() if broker.id != controller.id)
    orders = cluster.topics.create("orders", assignment={0: [a.id, b.id]})
    cluster.produce("orders", ["m1"])
    cluster.until(lambda: orders.partitions[0].in_sync)
    b.stop()
    cluster.until(lambda: orders.partitions[0].isr == [a.id])
    cluster.produce("orders", ["m2"])
    cluster.produce("orders", ["m3"])
    before = orders.partitions[0]
    since_us = cluster.now_us
    a.kill()
    offline = cluster.until(lambda: (now := orders.partitions[0]).offline and now)
    # The ISR is never empty: it still contains A, the last replica with all records.
    assert offline.isr == [a.id]
    assert offline.leader_epoch == before.leader_epoch + 1
    b.start()
    cluster.until(lambda: b.registered)
    return OfflineCase(a, b, orders, offline, since_us)


def b_leads(cluster: Cluster, case: OfflineCase) -> Partition:
    """Wait until the journal shows that an unclean election made B the leader."""
    led = cluster.until(lambda: (now := case.orders.partitions[0]).leader == case.b.id and now)
    assert led.isr == [case.b.id]
    assert led.leader_epoch == case.offline.leader_epoch + 1
    (elected,) = cluster.until(lambda: only(cluster.events("leader_elected", after_us=case.since_us), unclean=True))
    assert (elected["topic"], elected["leader"], elected["leader_epoch"]) == ("orders", case.b.id, led.leader_epoch)
    return led


def a_returns_and_the_logs_converge(cluster: Cluster, case: OfflineCase) -> None:
    """Assert that A returns as a follower of B, truncates the records that B does not have, and reports the
    truncation.
    """
    assert cluster.consume("orders") == ["m1"]
    assert cluster.produce("orders", ["m4"]) == 1
    case.a.start()
    cluster.until(lambda: case.orders.partitions[0].in_sync)

    (lost,) = cluster.until(lambda: cluster.events("records_lost", after_us=case.since_us))
    assert {
        name: lost[name] for name in ("broker_id", "topic", "partition", "first_offset", "last_offset", "count")
    } == {
        **{"broker_id": case.a.id, "topic": "orders", "partition": 0},
        **{"first_offset": 1, "last_offset": 2, "count": 2},
    }
    # Both lost records were committed, because A was the only ISR member. A knows this from its journal, which is newer
    # than its checkpoint.
    assert (lost["committed_at_least"], lost["below_high_watermark"]) == (2, 2)
    (truncated,) = cluster.until(lambda: cluster.events("log_truncated", after_us=case.since_us))
    assert (truncated["broker_id"], truncated["from_offset"], truncated["to_offset"]) == (case.a.id, 3, 1)
    cluster.until(lambda: case.orders.partitions[0].log_end_offsets == {case.a.id: 2, case.b.id: 2})
    assert cluster.consume("orders") == ["m1", "m4"]


@pytest.mark.scenario(43)
@pytest.mark.parametrize("cluster", ["simulated", pytest.param("live", marks=pytest.mark.long)], indirect=True)
def test_partition_waits_for_old_leader_without_unclean_election(cluster: Cluster) -> None:
    case = offline_case(cluster)

    # B is running, but must not be elected.
    cluster.let_pass(1)
    assert case.orders.partitions[0].offline
    with pytest.raises(AssertionError):
        cluster.produce("orders", ["m4"], timeout_s=0.5)

    case.a.start()
    led = cluster.until(lambda: (now := case.orders.partitions[0]).in_sync and now)
    assert led.leader == case.a.id
    assert led.leader_epoch == case.offline.leader_epoch + 1
    assert cluster.produce("orders", ["m4"]) == 3
    assert cluster.consume("orders") == ["m1", "m2", "m3", "m4"]
    assert cluster.events("records_lost", after_us=case.since_us) == []
    assert only(cluster.events("leader_elected", after_us=case.since_us), unclean=True) == []


@pytest.mark.scenario(45)
def test_topic_override_elects_stale_replica_and_reports_loss(
    cluster: Cluster,
) -> None:
    case = offline_case(cluster)
    assert case.orders.partitions[0].offline

    case.orders.set_config({UNCLEAN: "true"})
    b_leads(cluster, case)
    a_returns_and_the_logs_converge(cluster, case)


@pytest.mark.scenario(42)
@pytest.mark.zabka(settings={UNCLEAN: "true"})
def test_broker_default_elects_a_returning_out_of_sync_replica(
    zabka_world: SimulatedCluster,
) -> None:
    case = offline_case(zabka_world)
    b_leads(zabka_world, case)
    a_returns_and_the_logs_converge(zabka_world, case)
    assert zabka_world.world.replicas_agree("orders")
    acting = zabka_world.until(lambda: zabka_world.controller).node.broker
    assert acting is not None
    assert acting.controller.metrics()["ControllerStats"]["UncleanLeaderElectionsPerSec_Count"] == 1


@pytest.mark.zabka(settings={UNCLEAN: "true"})
def test_topic_override_disables_the_default_unclean_election(
    zabka_world: SimulatedCluster,
) -> None:
    zabka_world.topics.create("other")
    controller = zabka_world.until(lambda: zabka_world.controller)
    a, b = (broker for broker in zabka_world.brokers.values() if broker.id != controller.id)
    orders = zabka_world.topics.create("orders", assignment={0: [a.id, b.id]}, config={UNCLEAN: "false"})
    b.stop()
    zabka_world.until(lambda: orders.partitions[0].isr == [a.id])
    a.kill()
    zabka_world.until(lambda: orders.partitions[0].offline)
    b.start()
    zabka_world.until(lambda: b.registered)

    zabka_world.let_pass(30)

    assert orders.partitions[0].offline


def test_admin_can_force_an_unclean_election(zabka_world: SimulatedCluster) -> None:
    case = offline_case(zabka_world)

    # Before the controller is notified of B's return, no replica can be elected.
    zabka_world.until(lambda: zabka_world.elect("UNCLEAN", "orders") != "ELIGIBLE_LEADERS_NOT_AVAILABLE")

    b_leads(zabka_world, case)
    a_returns_and_the_logs_converge(zabka_world, case)
    assert zabka_world.elect("UNCLEAN", "orders") == "ELECTION_NOT_NEEDED"


def test_topic_override_applies_after_a_controller_failover(zabka_world: SimulatedCluster) -> None:
    case = offline_case(zabka_world)
    controller = zabka_world.until(lambda: zabka_world.controller)
    epoch = zabka_world.controller_epoch
    controller.kill()
    zabka_world.until(lambda: only(zabka_world.events("controller_ready"), controller_epoch=epoch + 1))
    assert zabka_world.controller == case.b
    assert case.orders.partitions[0].offline

    case.orders.set_config({UNCLEAN: "true"})

    zabka_world.until(lambda: case.orders.partitions[0].leader == case.b.id)


@pytest.mark.parametrize("zabka_seed", range(10))
def test_logs_converge_in_every_simulated_run(zabka_world: SimulatedCluster) -> None:
    case = offline_case(zabka_world)
    case.orders.set_config({UNCLEAN: "true"})
    b_leads(zabka_world, case)
    a_returns_and_the_logs_converge(zabka_world, case)
    assert zabka_world.world.replicas_agree("orders")

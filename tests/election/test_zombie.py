"""The zombie controller: paused for longer than its session timeout, it continues as if it were still the
controller.
"""

from __future__ import annotations

import pytest

from zabka.testing.cluster import Cluster, only
from zabka.testing.worlds.cluster import SimulatedCluster


def a_zombie_is_fenced(cluster: Cluster) -> None:
    zombie = cluster.until(lambda: cluster.controller)
    epoch = cluster.controller_epoch
    session_s = int(cluster.settings()["zookeeper.session.timeout.ms"]) / 1000
    dead, _ = (broker for broker in cluster.brokers.values() if broker.id != zombie.id)
    # Give the controller unfinished work: a dead broker, requests to that broker, and a topic to create.
    dead.kill()
    cluster.topics.create("early", partitions=3)
    zombie.pause()
    cluster.topics.ask_for("late", partitions=3)
    dead.start()

    successor = cluster.until(
        lambda: cluster.controller_epoch > epoch and cluster.controller, 2 * session_s, "another controller"
    )
    assert successor
    assert successor != zombie
    assert cluster.controller_epoch == epoch + 1
    # The zombie believes that it is the controller, and its status shows this.
    assert zombie.is_controller
    assert (zombie.believes.controller_id, zombie.believes.controller_epoch) == (zombie.id, epoch)
    cluster.until(lambda: dead.registered and dead.believes.controller_id == successor.id)

    resumed_us = cluster.now_us
    zombie.resume()

    # The zombie resigns. Its last writes and requests are rejected.
    (resigned,) = cluster.until(
        lambda: only(cluster.events("controller_resigned", after_us=resumed_us), broker_id=zombie.id)
    )
    assert resigned["controller_epoch"] == epoch
    written = cluster.until(lambda: only(cluster.events("write_fenced", after_us=resumed_us), broker_id=zombie.id))
    assert {event["controller_epoch"] for event in written} == {epoch}
    asked = cluster.until(lambda: only(cluster.events("request_fenced", after_us=resumed_us), sender_id=zombie.id))
    # All rejected requests have an old epoch, both those it sent as controller and those it sent as leader.
    assert {event["reason"] for event in asked} <= {
        "STALE_CONTROLLER_EPOCH",
        "STALE_BROKER_EPOCH",
        "FENCED_LEADER_EPOCH",
    }
    cluster.until(lambda: zombie.registered and not zombie.is_controller)
    cluster.until(
        lambda: (zombie.believes.controller_id, zombie.believes.controller_epoch) == (successor.id, epoch + 1)
    )

    # All replicas are in sync again, so only the successor's decisions have taken effect.
    cluster.until(lambda: all(partition.in_sync for partition in cluster.topics["early"].partitions))
    for event in cluster.events("leader_elected", "isr_changed", "controller_elected", after_us=resumed_us):
        assert event["controller_epoch"] == epoch + 1
    assert cluster.controller == successor
    assert cluster.controller_epoch == epoch + 1


@pytest.mark.scenario(6)
def test_zombie_controller_is_fenced_and_changes_no_state(cluster: Cluster) -> None:
    a_zombie_is_fenced(cluster)


@pytest.mark.parametrize("zabka_seed", range(1, 21))
def test_zombie_controller_is_fenced_in_every_simulated_run(zabka_world: SimulatedCluster) -> None:
    a_zombie_is_fenced(zabka_world)


def test_controller_pause_shorter_than_its_session_has_no_effect(zabka_world: SimulatedCluster) -> None:
    controller = zabka_world.until(lambda: zabka_world.controller)
    epoch = zabka_world.controller_epoch
    orders = zabka_world.topics.create("orders", partitions=3)
    zabka_world.until(lambda: all(partition.in_sync for partition in orders.partitions))
    session_s = int(zabka_world.settings()["zookeeper.session.timeout.ms"]) / 1000

    controller.pause()
    zabka_world.let_pass(session_s / 2)
    controller.resume()
    zabka_world.let_pass(session_s)

    assert zabka_world.controller == controller
    assert zabka_world.controller_epoch == epoch
    assert zabka_world.events("controller_resigned", "session_expired") == []
    zabka_world.topics.create("late")

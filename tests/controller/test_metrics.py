"""The controller's metrics have the names and values of Kafka's MBeans."""

from __future__ import annotations

import pytest

from tests.controller.controller_requests import ask_for_isr
from tests.controller.controller_world import World
from zabka.controller.metrics import STATE_DURING, ControllerState
from zabka.kafka.zk import znodes


@pytest.fixture
def world() -> World:
    made = World()
    made.start(1, auto_leader_rebalance_enable=False)
    made.join(2, 3)
    made.create_topic("orders", {0: [2, 3], 1: [3, 2]})
    made.settle()
    return made


def gauges(world: World, broker_id: int = 1) -> dict[str, int]:
    return world.nodes[broker_id].controller.metrics()["KafkaController"]


def stats(world: World) -> dict[str, int]:
    return world.nodes[1].controller.metrics()["ControllerStats"]


def test_metrics_of_a_healthy_cluster_show_one_controller(world: World) -> None:
    assert gauges(world) == {
        "ActiveControllerCount": 1,
        "OfflinePartitionsCount": 0,
        "PreferredReplicaImbalanceCount": 0,
        "GlobalTopicCount": 1,
        "GlobalPartitionCount": 2,
        "TopicsToDeleteCount": 0,
        "ReplicasToDeleteCount": 0,
        "TopicsIneligibleToDeleteCount": 0,
        "ReplicasIneligibleToDeleteCount": 0,
        "ActiveBrokerCount": 3,
        "FencedBrokerCount": 0,
        "ControllerState": ControllerState.IDLE,
    }


def test_metrics_of_an_inactive_controller_are_zero(world: World) -> None:
    world.start(4)
    assert set(gauges(world, 4).values()) == {0}


def test_imbalanced_and_offline_partitions_are_counted(world: World) -> None:
    world.leave(2)
    world.settle()
    assert (gauges(world)["PreferredReplicaImbalanceCount"], gauges(world)["OfflinePartitionsCount"]) == (1, 0)
    world.leave(3)
    world.settle()
    assert (gauges(world)["PreferredReplicaImbalanceCount"], gauges(world)["OfflinePartitionsCount"]) == (2, 2)


def test_topics_being_deleted_are_not_counted_as_offline(world: World) -> None:
    world.leave(2)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    found = gauges(world)
    assert (found["PreferredReplicaImbalanceCount"], found["OfflinePartitionsCount"]) == (0, 0)
    assert (found["TopicsToDeleteCount"], found["TopicsIneligibleToDeleteCount"]) == (1, 1)
    # Two replicas remain to be deleted, because broker 3 has already deleted its own.
    assert found["ReplicasToDeleteCount"] == 2


def test_event_durations_are_recorded_by_controller_state(world: World) -> None:
    world.run(10_000)
    before = stats(world)
    world.leave(2)
    world.settle()  # takes 300 ms, so no event can have taken longer
    ask_for_isr(world, [3])
    after = stats(world)
    risen = {name for name in after if name.endswith("_Count") and after[name] > before[name]}
    assert risen == {"LeaderElectionRateAndTimeMs_Count", "IsrChangeRateAndTimeMs_Count"}
    assert after["LeaderElectionRateAndTimeMs_Sum"] > before["LeaderElectionRateAndTimeMs_Sum"]
    assert 0 < after["LeaderElectionRateAndTimeMs_Max"] <= after["LeaderElectionRateAndTimeMs_Sum"]
    assert after["LeaderElectionRateAndTimeMs_Max"] <= 300


def test_event_queue_metrics_have_queue_length_and_waiting_times(world: World) -> None:
    controller = world.nodes[1].controller
    world.leave(2)
    world.run(3)
    controller.unclean_default_enabled()
    queue = controller.metrics()["ControllerEventManager"]
    assert queue["EventQueueSize"] == 1
    assert gauges(world)["ControllerState"] == ControllerState.BROKER_CHANGE
    world.settle()
    after = controller.metrics()["ControllerEventManager"]
    assert after["EventQueueSize"] == 0 and after["EventQueueTimeMs_Max"] > 0
    assert after["EventQueueTimeMs_Count"] > queue["EventQueueTimeMs_Count"]


def test_requests_waiting_for_brokers_are_counted(world: World) -> None:
    world.unreachable.add(3)
    world.create_topic("users", {0: [3]})
    world.settle()
    assert world.nodes[1].controller.metrics()["ControllerChannelManager"]["TotalQueueSize"] >= 2


def test_controller_state_values_equal_those_of_kafka() -> None:
    assert [int(state) for state in ControllerState] == list(range(18))
    assert STATE_DURING["ZkPartitionReassignment"] == 5 and STATE_DURING["ListPartitionReassignments"] == 15

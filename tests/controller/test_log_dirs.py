"""Log directories that fail while their broker lives (KafkaController.processLogDirEventNotification)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller import controller_world
from tests.controller.controller_requests import reassign
from tests.controller.controller_world import World
from zabka.controller.context import Replica, ReplicaState
from zabka.journal.events import ControllerEventFailed, TopicPartition
from zabka.kafka.zk import znodes

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.fixture
def world() -> World:
    made = World()
    made.start(1, auto_leader_rebalance_enable=False)
    made.join(2, 3)
    made.create_topic("t", {0: [2, 3]})
    made.create_topic("u", {0: [2, 3]})
    made.settle()
    made.told.clear()
    return made


def fail_log_dir(world: World, broker_id: int, *partitions: TopicPartition) -> None:
    """A log directory with these replicas fails, and its broker leaves a notification."""
    world.offline_replicas[broker_id] = set(partitions)
    path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_{world.ensemble.zxid:010d}"
    world.ensemble.put(path, znodes.encode_log_dir_event(broker_id))
    world.settle()


def test_the_broker_is_asked_for_all_its_replicas_and_those_it_lost_are_led_elsewhere(world: World) -> None:
    fail_log_dir(world, 2, T0)
    assert world.brief("t") == (3, (3,), 1)
    assert world.brief("u") == (2, (2, 3), 0)
    assert set(world.requests("LeaderAndIsr", 2)[0].partitions()) == {T0, U0}
    assert not world.ensemble.nodes[znodes.LOG_DIR_EVENT_NOTIFICATION].children
    assert world.active().controller.term.context.replica_states[Replica(T0, 2)] is ReplicaState.OFFLINE
    assert world.requests("UpdateMetadata", 3)[-1].partitions()[T0].offline_replicas == (2,)


def test_the_only_replica_on_a_failed_log_dir_leaves_its_partition_offline(world: World) -> None:
    world.leave(3)
    world.settle()
    fail_log_dir(world, 2, T0)
    assert world.brief("t") == (-1, (2,), 2)
    assert world.active().controller.metrics()["KafkaController"]["OfflinePartitionsCount"] == 1


def test_a_replica_on_a_failed_log_dir_is_not_elected(world: World) -> None:
    fail_log_dir(world, 2, T0)
    world.leave(3)
    world.settle()
    assert world.brief("t") == (-1, (3,), 2)
    assert world.brief("u")[0] == 2


def test_a_broker_with_a_failed_log_dir_counts_as_whole_after_its_restart(world: World) -> None:
    fail_log_dir(world, 2, T0)
    world.offline_replicas.clear()
    world.leave(2)
    world.settle()
    world.join(2)
    world.settle()
    assert world.active().controller.term.context.offline_dirs.get(2, frozenset()) == frozenset()
    assert world.requests("UpdateMetadata", 3)[-1].request.live_brokers
    assert world.requests("LeaderAndIsr", 2)[-1].partitions()[T0].leader == 3


@pytest.mark.parametrize("bounced_after_ms", range(10))
def test_a_replica_that_a_brokers_life_before_had_lost_is_served_though_the_answer_comes_late(
    world: World, monkeypatch: pytest.MonkeyPatch, bounced_after_ms: int
) -> None:
    monkeypatch.setattr(controller_world, "LATENCY_US", 2 * controller_world.LATENCY_US)
    world.offline_replicas[2] = {T0}
    path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000000"
    world.ensemble.put(path, znodes.encode_log_dir_event(2))
    world.run(bounced_after_ms)
    world.leave(2)
    world.join(2)
    world.run(4)
    world.offline_replicas.clear()
    world.settle()
    assert [told.kind for told in world.told if told.to == 2 and told.kind != "UpdateMetadata"][-1] == "LeaderAndIsr"
    assert world.active().controller.term.context.replica_states[Replica(T0, 2)] is ReplicaState.ONLINE


def test_a_reassignment_to_a_failed_log_dir_does_not_progress(world: World) -> None:
    world.join(4)
    world.settle()
    fail_log_dir(world, 4, T0)
    assert reassign(world, T0, [4]) is KafkaError.none
    assert world.state("t").leader == 2 and 4 not in world.state("t").isr
    assert world.active().controller.term.context.offline_dirs[4] == {T0}


def test_a_notification_that_cannot_be_read_is_removed_and_journalled(world: World) -> None:
    world.ensemble.put(f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000009", b"{")
    world.settle()
    assert not world.ensemble.nodes[znodes.LOG_DIR_EVENT_NOTIFICATION].children
    assert world.events(ControllerEventFailed)[0].event == "LogDirEventNotification"


def test_notifications_left_for_a_dead_controller_are_removed_by_the_next(world: World) -> None:
    world.kill(1)
    world.ensemble.put(f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000000", znodes.encode_log_dir_event(2))
    world.offline_replicas[2] = {T0}
    world.start(5)
    assert not world.ensemble.nodes[znodes.LOG_DIR_EVENT_NOTIFICATION].children
    # Every broker is told what it hosts in any case, and says what it has lost.
    assert world.brief("t") == (3, (3,), 1)

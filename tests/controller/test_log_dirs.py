"""Log directories that fail while their broker runs (KafkaController.processLogDirEventNotification)."""

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
    made.received.clear()
    return made


def fail_log_dir(world: World, broker_id: int, *partitions: TopicPartition) -> None:
    """Fail a log directory that contains these replicas. Its broker writes a notification."""
    world.offline_replicas[broker_id] = set(partitions)
    path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_{world.ensemble.zxid:010d}"
    world.ensemble.put(path, znodes.encode_log_dir_event(broker_id))
    world.settle()


def test_log_dir_failure_moves_leadership_of_its_replicas(world: World) -> None:
    fail_log_dir(world, 2, T0)
    assert world.brief("t") == (3, (3,), 1)
    assert world.brief("u") == (2, (2, 3), 0)
    assert set(world.requests("LeaderAndIsr", 2)[0].partitions()) == {T0, U0}
    assert not world.ensemble.nodes[znodes.LOG_DIR_EVENT_NOTIFICATION].children
    assert world.active().controller.term.context.replica_states[Replica(T0, 2)] is ReplicaState.OFFLINE
    assert world.requests("UpdateMetadata", 3)[-1].partitions()[T0].offline_replicas == (2,)


def test_only_the_replica_on_the_failed_log_dir_is_offline(world: World) -> None:
    world.leave(3)
    world.settle()
    fail_log_dir(world, 2, T0)
    assert world.brief("t") == (-1, (2,), 2)
    assert world.active().controller.metrics()["KafkaController"]["OfflinePartitionsCount"] == 1


def test_replica_on_a_failed_log_dir_is_not_elected(world: World) -> None:
    fail_log_dir(world, 2, T0)
    world.leave(3)
    world.settle()
    assert world.brief("t") == (-1, (3,), 2)
    assert world.brief("u")[0] == 2


def test_broker_with_a_failed_log_dir_is_online_after_a_restart(world: World) -> None:
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
def test_late_log_dir_response_does_not_affect_a_new_process(
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
    assert [received.kind for received in world.received if received.to == 2 and received.kind != "UpdateMetadata"][
        -1
    ] == "LeaderAndIsr"
    assert world.active().controller.term.context.replica_states[Replica(T0, 2)] is ReplicaState.ONLINE


def test_reassignment_to_a_failed_log_dir_does_not_complete(world: World) -> None:
    world.join(4)
    world.settle()
    fail_log_dir(world, 4, T0)
    assert reassign(world, T0, [4]) is KafkaError.none
    assert world.state("t").leader == 2 and 4 not in world.state("t").isr
    assert world.active().controller.term.context.offline_dirs[4] == {T0}


def test_unreadable_log_dir_notification_is_removed(world: World) -> None:
    world.ensemble.put(f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000009", b"{")
    world.settle()
    assert not world.ensemble.nodes[znodes.LOG_DIR_EVENT_NOTIFICATION].children
    assert world.events(ControllerEventFailed)[0].event == "LogDirEventNotification"


def test_log_dir_notifications_of_a_dead_controller_are_removed(world: World) -> None:
    world.kill(1)
    world.ensemble.put(f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000000", znodes.encode_log_dir_event(2))
    world.offline_replicas[2] = {T0}
    world.start(5)
    assert not world.ensemble.nodes[znodes.LOG_DIR_EVENT_NOTIFICATION].children
    # The notification is not needed: every broker receives its replicas at the start and reports its offline
    # ones.
    assert world.brief("t") == (3, (3,), 1)

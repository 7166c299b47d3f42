"""Deletion of a topic whose partitions are being reassigned: the deletion waits until the reassignments end."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_requests import ask_for_isr, caught_up, reassign, under_way
from tests.controller.controller_world import World
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import ReplicaAssignment

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def world() -> World:
    world = World()
    world.join(1, 2, 3, 4)
    world.start(9)
    return world


def test_topic_being_reassigned_is_deleted_after_reassignment(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, P0, [2])
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    assert world.has("orders")
    term = world.active().controller.term
    assert term is not None
    assert term.context.topics_ineligible_for_deletion == {"orders"}
    caught_up(world, [1, 2])
    assert not world.has("orders")


def test_topic_with_a_delayed_deletion_stays_in_metadata(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, P0, [2])
    world.received.clear()
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    world.join(7)
    world.settle()

    def leaders_sent() -> set[int]:
        received = [
            row.leader for each in world.requests("UpdateMetadata") for p, row in each.partitions().items() if p == P0
        ]
        return set(received)

    # The new replica fetches by topic id, so the leader must be sent the id although the topic is being deleted.
    assert leaders_sent() == {1}
    caught_up(world, [1, 2])
    assert -2 in leaders_sent()


def test_replica_reassigned_during_a_delayed_deletion_is_stopped(world: World) -> None:
    world.create_topic("orders", {0: [1], 1: [1]})
    world.settle()
    reassign(world, P0, [2])
    reassign(world, P1, [2])
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    world.received.clear()
    caught_up(world, [1, 2])
    # The broker has the topic's metadata, so it would reject a StopReplica with the leader epoch of a deletion (-2) as
    # outdated.
    stopped = [received.partitions()[P0] for received in world.requests("StopReplica", 1)]
    assert any(row.delete_partition for row in stopped)
    assert all(row.leader_epoch >= 0 for row in stopped)


def test_topic_is_deleted_after_its_last_reassignment_completes(world: World) -> None:
    world.create_topic("orders", {0: [1], 1: [1], 2: [1]})
    world.settle()
    reassign(world, P0, [2])
    reassign(world, P1, [3])
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    caught_up(world, [1, 2])
    assert under_way(world) == {P1: ReplicaAssignment((3, 1), (3,), (1,))}
    assert world.has("orders")
    assert ask_for_isr(world, [1, 3], partition=1) is KafkaError.none
    world.settle()
    assert not world.has("orders")
    last = {
        p: row.leader for received in world.requests("UpdateMetadata", 4) for p, row in received.partitions().items()
    }
    assert last == dict.fromkeys((P0, P1, TopicPartition("orders", 2)), -2), "otherwise brokers would show it for ever"


def test_halted_deletion_remains_halted_when_a_broker_returns(world: World) -> None:
    world.create_topic("orders", {0: [1, 3]})
    world.settle()
    reassign(world, P0, [3, 2])
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    world.leave(3)
    world.settle()
    world.join(3)
    world.settle()
    assert world.has("orders") and under_way(world)
    caught_up(world, [1, 3, 2])
    assert not world.has("orders")


def test_reassignment_that_halts_a_deletion_can_elect_a_leader(world: World) -> None:
    # Kafka elects no leader for a topic that is being deleted. So no replica catches up, and deletion and reassignment
    # wait for each other forever.
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, P0, [2])
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    world.leave(1)
    world.settle()
    assert world.brief("orders")[:2] == (-1, (1,))
    world.received.clear()
    world.join(1)
    world.settle()
    assert world.brief("orders")[:2] == (1, (1,))
    assert [received.partitions()[P0].leader for received in world.requests("LeaderAndIsr", 2)] == [1], (
        "the replica that must catch up"
    )
    caught_up(world, [1, 2])
    assert not world.has("orders")


def test_halted_deletion_stays_halted_under_the_next_controller(world: World) -> None:
    world.start(8)
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, P0, [2])
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    world.kill(world.active().broker_id)
    world.settle()
    assert world.has("orders")
    caught_up(world, [1, 2])
    assert not world.has("orders")

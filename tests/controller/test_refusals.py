"""Znodes that the ensemble does not allow the controller to read or write. It reports the path, and continues or
resigns.
"""

from __future__ import annotations

import pytest

from tests.controller.controller_world import World
from zabka.controller.context import PartitionState
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import ControllerEventFailed, ControllerResigned, TopicPartition
from zabka.kafka.zk import znodes

T0 = TopicPartition("t", 0)
STATE = znodes.partition_state_path(T0)
TOPIC = znodes.topic_path("t")


def led() -> World:
    """Return a world with its controller on broker 1, and t-0 on brokers 2 and 3."""
    world = World()
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    return world


def problems(world: World) -> list[str]:
    return [event.problem for event in world.events(ControllerEventFailed)]


@pytest.mark.parametrize("path", [znodes.FEATURE, znodes.broker_path(2), TOPIC])
def test_controller_that_cannot_read_required_state_resigns(path: str) -> None:
    """KafkaController.elect: any exception during the election makes the controller resign, so that another broker
    takes over.
    """
    world = led()
    world.kill(1)
    world.ensemble.unreadable[path] = ErrorCode.NO_AUTH
    world.start(9)
    world.run(100)
    assert world.events(ControllerResigned) and any(path in problem for problem in problems(world))
    del world.ensemble.unreadable[path]
    world.run(10_000)
    world.settle()
    world.leave(2)
    world.settle()
    assert world.brief("t") == (3, (3,), 1), "the next controller does its work"


@pytest.mark.parametrize("path", [znodes.FEATURE])
def test_controller_that_cannot_write_required_state_resigns(path: str) -> None:
    world = World()
    world.ensemble.unwritable[path] = ErrorCode.NO_AUTH
    world.start(1)
    world.run(100)
    assert world.events(ControllerResigned) and any(path in problem for problem in problems(world))


def test_partition_with_an_unreadable_state_is_reported() -> None:
    world = led()
    world.create_topic("u", {0: [2, 3]})
    world.settle()
    world.kill(1)
    world.ensemble.unreadable[STATE] = ErrorCode.NO_AUTH
    world.start(9)
    world.settle()
    assert problems(world) == ["the state of t-0 is not readable: NO_AUTH"]
    assert world.nodes[9].controller.is_active
    context = world.active().controller.term.context
    assert T0 not in context.leadership and TopicPartition("u", 0) in context.leadership


def test_topic_whose_state_cannot_be_written_has_no_leader() -> None:
    world = World()
    world.start(1)
    world.join(2, 3)
    world.settle()
    world.ensemble.unwritable[STATE] = ErrorCode.NO_AUTH
    world.create_topic("t", {0: [2, 3]})
    world.create_topic("u", {0: [2, 3]})
    world.settle()
    assert world.brief("u") == (2, (2, 3), 0) and STATE not in world.ensemble.nodes
    context = world.active().controller.term.context
    assert context.partition_states[T0] is PartitionState.NEW and T0 not in context.leadership
    assert context.partition_states[TopicPartition("u", 0)] is PartitionState.ONLINE


def test_partition_whose_leader_cannot_be_written_is_offline() -> None:
    world = led()
    world.create_topic("u", {0: [2, 3]})
    world.settle()
    world.ensemble.unwritable[STATE] = ErrorCode.NO_AUTH
    world.leave(2)
    world.settle()
    assert (world.brief("t"), world.brief("u")) == ((2, (2, 3), 0), (3, (3,), 1))
    states = world.active().controller.term.context.partition_states
    assert (states[T0], states[TopicPartition("u", 0)]) == (PartitionState.OFFLINE, PartitionState.ONLINE)

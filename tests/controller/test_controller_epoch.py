"""The controller epoch: every write checks it.

A controller that reads a later epoch checks whether it still is the active controller.
"""

from __future__ import annotations

import pytest

from tests.controller.controller_requests import reassignment_request
from tests.controller.controller_world import Node, World, epoch, take_over
from zabka.controller.config import ControllerConfig
from zabka.ensemble.client.service import Check, Delete
from zabka.journal.cause import owner_cause
from zabka.journal.events import ControllerElected, ControllerResigned, TopicPartition
from zabka.kafka.zk import znodes


@pytest.fixture
def world() -> World:
    return World()


def test_request_of_a_later_controller_makes_the_zombie_resign(world: World) -> None:
    world.start(1)
    node = world.nodes[1]
    node.session.hold_watches = True
    take_over(world)
    world.settle()
    assert node.controller.is_active
    node.controller.controller_seen(99, 2)
    world.settle()
    assert not node.controller.is_active and node.controller.active_controller_id == 99


def test_every_controller_write_checks_the_controller_epoch(world: World) -> None:
    world.start(1)
    node = world.nodes[1]
    node.session.multis.clear()
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3], 1: [3, 2]})
    world.settle()
    world.leave(2)
    world.settle()
    world.join(2)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert not world.has("t")
    assert node.session.multis
    for ops in node.session.multis:
        assert ops[0] == Check(znodes.CONTROLLER_EPOCH, 1) and len(ops) >= 2


def test_controller_checks_its_epoch_if_a_broker_has_a_later_one(world: World) -> None:
    world.start(1)
    world.join(2)
    world.settle()
    # Another client overwrites /controller_epoch while the controller is idle. Broker 3 starts after that,
    # and knows the new epoch.
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"7")
    world.settle()
    assert world.nodes[1].controller.controller_epoch == 1
    world.epochs_known[3] = 7
    world.join(3)
    world.settle()
    assert world.nodes[1].controller.is_active and world.nodes[1].controller.controller_epoch == 8
    assert [e.reason for e in world.events(ControllerResigned)] == ["controller_moved"]
    assert world.requests("UpdateMetadata", 3)[-1].request.controller_epoch == 8


def test_wrong_epoch_seen_at_a_broker_does_not_end_the_term(world: World) -> None:
    world.start(1)
    world.epochs_known[3] = 7
    world.join(3)
    world.settle()
    assert world.nodes[1].controller.is_active and world.nodes[1].controller.controller_epoch == 1
    assert not world.events(ControllerResigned)


def test_overwritten_epoch_znode_restarts_the_controller_term(world: World) -> None:
    world.start(1)
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"7")
    world.nodes[1].controller.controller_changed()
    world.settle()
    assert epoch(world) == ("8", 3) and world.nodes[1].controller.is_active
    assert [e.reason for e in world.events(ControllerResigned)] == ["controller_moved"]
    assert world.nodes[1].controller.controller_epoch == 8


def test_reelected_controller_reports_its_lost_session(world: World) -> None:
    # The broker was elected immediately after its start. Then another controller was elected and resigned, so that a
    # write by the first one is rejected (seed 577 of chaos).
    world.join(2)
    world.create_topic("t", {0: [1]})
    node = world.nodes[1] = Node(world, 1, ControllerConfig())
    node.session.hold_watches = True
    node.start()
    world.settle()
    take_over(world)
    world.ensemble.multi([Delete(znodes.CONTROLLER)], 0)
    world.call(node.controller.alter_partition_reassignments(reassignment_request(TopicPartition("t", 0), [2, 1])))
    world.settle()
    again = world.events(ControllerElected)[-1]
    assert (again.controller_epoch, again.caused_by) == (3, owner_cause(node.session.session_id))


def test_epoch_change_during_an_election_only_causes_a_delay(world: World) -> None:
    node = world.nodes[1] = Node(world, 1, ControllerConfig())
    original, moved = node.session.multi, []

    def multi(ops):
        if any(op.path == znodes.CONTROLLER for op in ops) and not moved:
            moved.append(1)
            world.ensemble.put(znodes.CONTROLLER_EPOCH, b"5")
        return original(ops)

    node.session.multi = multi
    node.start()
    world.settle()
    assert moved and node.controller.is_active and epoch(world)[0] == "6"

"""Former bugs of Kafka's controller: each bug occurs if its switch is on, and does not occur if the switch is off."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_requests import ask_for_isr, shut_down
from tests.controller.controller_world import World
from zabka.controller.historical import Historical
from zabka.journal.cause import UNKNOWN
from zabka.journal.events import ControllerResigned, TopicPartition, WriteFenced
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import ReplicaAssignment

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    return World()


ON_AND_OFF = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


def start(world: World, *broker_ids: int, on: bool, switch: Historical) -> None:
    world.start(*broker_ids, historical=frozenset([switch]) if on else frozenset())


def take_over(world: World) -> None:
    """Delete /controller, and win the next election as broker 99."""
    seen = int(world.ensemble.data(znodes.CONTROLLER_EPOCH))
    world.ensemble.delete(znodes.CONTROLLER)
    world.ensemble.put(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(seen + 1))
    world.ensemble.put(znodes.CONTROLLER, znodes.encode_controller(99, 0), owner=0x7777)


def moved_unnoticed(world: World) -> None:
    """Make broker 99 the controller without notifying broker 1, whose watch on /controller does not fire."""
    session = world.nodes[1].session
    session.hold_watches = True
    take_over(world)
    session._held = [row for row in session._held if row[1].path != znodes.CONTROLLER]
    session.release_watches()


def assignment(world: World) -> ReplicaAssignment:
    """Return the assignment of t-0 from the topic's znode."""
    found = znodes.decode_topic(world.ensemble.data(znodes.topic_path("t")))
    assert found is not None
    return found.partitions[0]


# ---- the election ---------------------------------------------------------------------------------------------


@ON_AND_OFF
def test_zombie_writes_succeed_only_without_fencing(world: World, on: bool) -> None:
    start(world, 1, on=on, switch=Historical.UNFENCED_CONTROLLER)
    world.join(2, 3)
    world.settle()
    moved_unnoticed(world)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    if on:
        assert world.state("t").controller_epoch == 1, "written by the former controller"
        assert not world.events(WriteFenced)
    else:
        assert znodes.partition_state_path(T0) not in world.ensemble.nodes
        assert world.events(WriteFenced)


@ON_AND_OFF
def test_unfenced_resumed_controller_deposes_its_successor(world: World, on: bool) -> None:
    start(world, 1, 2, on=on, switch=Historical.UNFENCED_CONTROLLER)
    zombie = world.active()
    zombie.runtime.pause()
    world.ensemble.end_session(zombie.session.session_id)
    world.settle()
    successor = world.active()
    zombie.runtime.resume()
    world.settle()
    epoch = int(world.ensemble.data(znodes.CONTROLLER_EPOCH))
    resigned = [e.reason for e in world.events(ControllerResigned, successor.broker_id)]
    assert (epoch, resigned) == ((3, ["controller_moved"]) if on else (2, []))


@ON_AND_OFF
def test_ghost_controller_bug_leaves_no_active_controller(world: World, on: bool) -> None:
    start(world, 1, 2, on=on, switch=Historical.GHOST_CONTROLLER)
    ghost = world.active()
    # The controller has resigned, but its session still owns /controller.
    ghost.controller._resign("controller_moved", UNKNOWN)
    ghost.controller.controller_changed()
    world.run(30_000)
    assert world.active() is ghost or not on
    assert sum(node.controller.is_active for node in world.nodes.values()) == (0 if on else 1)


@ON_AND_OFF
def test_registration_of_another_session_is_awaited_or_fatal(world: World, on: bool) -> None:
    start(world, 1, on=on, switch=Historical.FOREIGN_EPHEMERAL)
    world.ensemble.end_session(world.nodes[1].session.session_id)
    world.ensemble.put(znodes.broker_path(1), b"{}", owner=0x4444)
    world.run(2_000)
    world.ensemble.end_session(0x4444)
    world.run(60_000)
    assert (znodes.broker_path(1) in world.ensemble.nodes) is not on


# ---- state that a former term leaves behind -------------------------------------------------------------------


@ON_AND_OFF
def test_unsent_batch_loses_changes_of_the_next_controller(world: World, on: bool) -> None:
    start(world, 1, on=on, switch=Historical.POISONED_BATCH)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    moved_unnoticed(world)
    world.leave(3)
    world.settle()
    # While broker 1 removes broker 3 from the ISR, another broker becomes controller. Then broker 1 is elected again.
    world.ensemble.end_session(0x7777)
    world.settle()
    assert world.nodes[1].controller.is_active
    received = len(world.received)
    world.join(3)
    world.settle()
    later = [row for row in world.received[received:] if row.kind == "LeaderAndIsr" and row.to == 3]
    assert bool(later) is not on
    assert world.brief("t") == ((2, (2, 3), 0) if on else (2, (2,), 1))


@ON_AND_OFF
def test_stale_context_writes_an_old_reassignment_again(world: World, on: bool) -> None:
    start(world, 1, 8, on=on, switch=Historical.CONTEXT_KEPT)
    world.join(2, 3, 4)
    world.create_topic("t", {0: [2]})
    world.settle()
    first = world.active()
    listed = znodes.encode_reassignments({T0: (3,)})
    world.ensemble.put(znodes.REASSIGN_PARTITIONS, listed)
    world.settle()
    # The next controller completes this reassignment. Then it moves the partition to broker 4.
    world.ensemble.end_session(first.session.session_id)
    world.settle()
    assert world.active() is not first
    assert ask_for_isr(world, [2, 3], "t") is KafkaError.none
    world.settle()
    world.ensemble.put(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments({T0: (4,)}))
    world.settle()
    assert ask_for_isr(world, [3, 4], "t") is KafkaError.none
    world.settle()
    assert assignment(world) == ReplicaAssignment((4,))
    world.received.clear()
    world.kill(world.active().broker_id)
    world.settle()
    assert world.active() is first
    received = [row.partitions()[T0] for row in world.requests("LeaderAndIsr", 3) if T0 in row.partitions()]
    assert [row.replicas for row in received if row.is_new] == ([(3, 2)] if on else [])


@ON_AND_OFF
def test_stale_context_keeps_a_topic_that_was_already_deleted(world: World, on: bool) -> None:
    start(world, 1, 8, on=on, switch=Historical.CONTEXT_KEPT)
    world.join(2)
    world.create_topic("t", {0: [2]})
    world.settle()
    first = world.active()
    world.ensemble.end_session(first.session.session_id)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert not world.has("t")
    world.received.clear()
    world.kill(world.active().broker_id)
    world.settle()
    assert world.active() is first
    received = [row for row in world.requests("LeaderAndIsr", 2) if T0 in row.partitions()]
    assert bool(received) is on


# ---- brokers and their epochs ---------------------------------------------------------------------------------


@ON_AND_OFF
def test_bug_sends_leader_and_isr_before_update_metadata(world: World, on: bool) -> None:
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    start(world, 1, on=False, switch=Historical.LEADER_AND_ISR_FIRST)
    world.kill(1)
    world.received.clear()
    start(world, 4, on=on, switch=Historical.LEADER_AND_ISR_FIRST)
    first = [next(row.kind for row in world.received if row.to == broker_id) for broker_id in (2, 3)]
    assert first == (["LeaderAndIsr"] * 2 if on else ["UpdateMetadata"] * 2)


@ON_AND_OFF
def test_fast_bounce_is_undetected_without_broker_epochs(world: World, on: bool) -> None:
    start(world, 1, on=on, switch=Historical.NO_BROKER_EPOCH)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.received.clear()
    world.ensemble.end_session(0x9002)
    world.join(2)
    world.settle()
    received = world.requests("LeaderAndIsr", 2)
    assert bool(received) is not on
    assert world.brief("t") == ((2, (2, 3), 0) if on else (3, (3,), 1))
    world.create_topic("u", {0: [2]})
    world.settle()
    sent = world.requests("LeaderAndIsr", 2)[-1].request.broker_epoch
    assert sent == (-1 if on else world.ensemble.nodes[znodes.broker_path(2)].czxid)
    assert ask_for_isr(world, [2], "u") is KafkaError.none


@ON_AND_OFF
def test_isr_admits_a_former_broker_process_without_epochs(world: World, on: bool) -> None:
    start(world, 1, on=on, switch=Historical.NO_MEMBER_EPOCHS)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    seen = {3: world.ensemble.nodes[znodes.broker_path(3)].czxid}
    world.leave(3)
    world.settle()
    world.join(3)
    world.settle()
    assert world.brief("t") == (2, (2,), 1)
    answered = ask_for_isr(world, [2, 3], "t", member_epochs=seen)
    assert answered is (KafkaError.none if on else KafkaError.ineligible_replica)
    assert world.state("t").isr == ((2, 3) if on else (2,))


@ON_AND_OFF
def test_broker_that_is_shutting_down_can_join_an_isr(world: World, on: bool) -> None:
    start(world, 1, on=on, switch=Historical.ISR_WITH_LEAVING_BROKER)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    assert shut_down(world, 3) == (KafkaError.none, [])
    assert world.brief("t") == (2, (2,), 1)
    answered = ask_for_isr(world, [2, 3], "t")
    assert answered is (KafkaError.none if on else KafkaError.ineligible_replica)
    assert world.state("t").isr == ((2, 3) if on else (2,))


@ON_AND_OFF
def test_empty_isr_bug_elects_no_leader(world: World, on: bool) -> None:
    start(world, 1, on=on, switch=Historical.EMPTY_ISR)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.leave(2)
    world.settle()
    assert world.state("t").isr == (() if on else (2,))
    world.join(2)
    world.settle()
    assert world.state("t").leader == (-1 if on else 2)

"""Reassignment, through the request and through /admin/reassign_partitions: KafkaController.onPartitionReassignment.

The followers here are only registered; `caught_up` is what their leader asks for once they have caught up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_requests import caught_up, reassignment_answer, shut_down, under_way
from tests.controller.controller_world import World
from zabka.journal.events import AssignmentChanged, ControllerEventFailed, ControllerResigned, TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import ReplicaAssignment

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def world() -> World:
    world = World()
    world.join(1, 2, 3, 4)
    world.start(9)
    return world


def assignment(world: World, topic: str = "orders", partition: int = 0) -> ReplicaAssignment:
    """What the topic's znode says."""
    found = znodes.decode_topic(world.ensemble.data(znodes.topic_path(topic)))
    assert found is not None
    return found.partitions[partition]


def reassign(world: World, target: Sequence[int] | None, partition: TopicPartition = P0) -> tuple[Any, str | None]:
    """AlterPartitionReassignments for one partition: its error and message."""
    answered = reassignment_answer(world, partition, target)
    return answered.error_code, answered.error_message


def ask_by_znode(world: World, **targets: Sequence[int]) -> None:
    """What the old tool writes."""
    listed = {TopicPartition(topic, 0): tuple(target) for topic, target in targets.items()}
    world.ensemble.put(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments(listed))
    world.settle()


def path_is_gone(world: World) -> bool:
    return znodes.REASSIGN_PARTITIONS not in world.ensemble.nodes


# ---- the arithmetic -------------------------------------------------------------------------------------------


@pytest.mark.scenario(51)
@pytest.mark.parametrize(
    ("start", "target", "expected"),
    [
        (ReplicaAssignment((1, 2, 3)), (3, 4, 2), ReplicaAssignment((3, 4, 2, 1), (4,), (1,))),
        (ReplicaAssignment((1, 2, 3)), (4, 5, 6), ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        (ReplicaAssignment((1, 2)), (1, 2, 3), ReplicaAssignment((1, 2, 3), (3,), ())),
        (ReplicaAssignment((1, 2, 3)), (1, 2), ReplicaAssignment((1, 2, 3), (), (3,))),
        (ReplicaAssignment((1, 2, 3)), (3, 2, 1), ReplicaAssignment((3, 2, 1))),
    ],
)
def test_the_replicas_while_moving_are_target_and_origin_and_cancelling_goes_back(
    start: ReplicaAssignment, target: tuple[int, ...], expected: ReplicaAssignment
) -> None:
    moving = start.reassign_to(target)
    assert moving == expected
    assert moving.reassign_to(target) == moving, "asking for the same again changes nothing"
    assert moving.target == target
    assert sorted(moving.origin) == sorted(start.replicas)
    cancelled = moving.reassign_to(moving.origin)
    assert sorted(cancelled.target) == sorted(start.replicas)
    assert cancelled.adding == ()


def test_a_later_target_supersedes_and_keeps_the_first_origin() -> None:
    moving = ReplicaAssignment((1, 2)).reassign_to((2, 3)).reassign_to((4, 2))
    assert moving == ReplicaAssignment((4, 2, 1), (4,), (1,))


class _Compared(int):
    """A broker id that counts how often it is compared with another one."""

    times = 0

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_a_target_is_not_looked_for_replica_by_replica() -> None:
    origin, target = (tuple(map(_Compared, range(first, first + 1_000))) for first in (0, 500))
    moving = ReplicaAssignment(origin).reassign_to(target)
    assert len(moving.replicas) == 1_500 and sorted(moving.origin) == list(origin) and moving.target == target
    # Each with each would be a million and more; a request may name a hundred times as many.
    assert _Compared.times < 50_000


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), min_size=2, max_size=6))
def test_whatever_supersedes_what_the_origin_is_kept_and_nobody_is_listed_twice(targets: list[list[int]]) -> None:
    start = ReplicaAssignment(tuple(targets[0]))
    moving = start
    for target in targets[1:]:
        moving = moving.reassign_to(target)
        assert moving.target == tuple(target)
        assert sorted(moving.origin) == sorted(start.replicas)
        assert len(set(moving.replicas)) == len(moving.replicas)
        assert set(moving.adding).isdisjoint(moving.removing)
        assert moving.without(target[0]).replicas == tuple(b for b in moving.replicas if b != target[0])


# ---- step by step ---------------------------------------------------------------------------------------------


@pytest.mark.scenario(48)
def test_a_partition_moves_from_one_broker_to_another_by_znode_in_three_leader_epochs(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    assert world.brief("orders") == (1, (1,), 0)
    world.told.clear()
    ask_by_znode(world, orders=[2])
    # Phase A: the leader learns of the new list, the new replica begins.
    assert world.brief("orders") == (1, (1,), 1)
    assert assignment(world) == ReplicaAssignment((2, 1), (2,), (1,))
    first = world.requests("LeaderAndIsr", 2)[0].partitions()[P0]
    assert (first.is_new, first.leader, first.adding_replicas, first.removing_replicas) == (True, 1, (2,), (1,))
    assert not world.requests("LeaderAndIsr", 1)[0].partitions()[P0].is_new
    assert not path_is_gone(world)
    # Phase B: as soon as it is in sync.
    caught_up(world, [1, 2])
    assert world.brief("orders") == (2, (2,), 3)
    assert assignment(world) == ReplicaAssignment((2,))
    assert path_is_gone(world)
    assert under_way(world) == {}
    stopped = [told.partitions()[P0].delete_partition for told in world.requests("StopReplica", 1)]
    assert stopped == [False, True]
    seen = [(e.replicas, e.adding, e.removing) for e in world.events(AssignmentChanged)]
    assert seen == [([2, 1], [2], [1]), ([2], [], [])]


@pytest.mark.scenario(49)
def test_a_dead_target_halts_the_reassignment_after_one_leader_epoch(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.leave(2)
    world.settle()
    ask_by_znode(world, orders=[2])
    assert world.brief("orders") == (1, (1,), 1)
    assert assignment(world).replicas == (2, 1)
    assert not path_is_gone(world)


@pytest.mark.scenario(50)
def test_a_halted_reassignment_resumes_when_the_target_is_back_and_takes_four_leader_epochs(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.leave(2)
    world.settle()
    ask_by_znode(world, orders=[2])
    world.join(2)
    world.settle()
    assert world.brief("orders") == (1, (1,), 2), "told again, with another leader epoch"
    caught_up(world, [1, 2])
    assert world.brief("orders") == (2, (2,), 4)
    assert assignment(world) == ReplicaAssignment((2,))
    assert path_is_gone(world)


def test_a_target_that_is_in_sync_already_is_complete_at_once_and_the_leader_stays(world: World) -> None:
    world.create_topic("orders", {0: [1, 2, 3]})
    world.settle()
    assert reassign(world, [2, 1]) == (KafkaError.none, None)
    # One epoch to tell the shorter list, one to take the removed replica out of the ISR.
    assert world.brief("orders") == (1, (1, 2), 2)
    assert assignment(world) == ReplicaAssignment((2, 1))


def test_the_leader_moves_to_the_first_of_the_target_where_it_is_to_leave(world: World) -> None:
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    reassign(world, [3, 2])
    caught_up(world, [1, 2, 3])
    assert world.brief("orders") == (3, (2, 3), 3)
    assert assignment(world) == ReplicaAssignment((3, 2))


def test_reassignments_under_way_are_listed_all_or_those_asked_for(world: World) -> None:
    world.create_topic("orders", {0: [1], 1: [1]})
    world.settle()
    reassign(world, [2])
    moving = ReplicaAssignment((2, 1), (2,), (1,))
    assert under_way(world) == {P0: moving}
    assert under_way(world, P0) == {P0: moving}
    assert under_way(world, TopicPartition("orders", 1), TopicPartition("nowhere", 0)) == {}


# ---- cancelling and superseding -------------------------------------------------------------------------------


def test_cancelling_goes_back_to_the_origin_and_deletes_what_was_begun(world: World) -> None:
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    reassign(world, [3, 4])
    assert assignment(world) == ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))
    world.told.clear()
    assert reassign(world, None) == (KafkaError.none, None)
    assert assignment(world) == ReplicaAssignment((1, 2))
    assert world.state("orders").leader == 1
    for broker_id in (3, 4):
        assert [t.partitions()[P0].delete_partition for t in world.requests("StopReplica", broker_id)] == [False, True]
    assert under_way(world) == {}
    assert reassign(world, None) == (
        KafkaError.no_reassignment_in_progress,
        "No partition reassignment is in progress.",
    )


def test_another_target_supersedes_and_only_what_is_no_longer_needed_stops(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, [2, 3])
    world.told.clear()
    reassign(world, [3, 4])
    assert assignment(world) == ReplicaAssignment((3, 4, 1), (3, 4), (1,))
    assert [t.to for t in world.requests("StopReplica")] == [2, 2]
    caught_up(world, [1, 3, 4])
    assert world.brief("orders")[:2] == (3, (3, 4))


def test_where_the_leader_is_no_longer_needed_another_member_of_the_isr_leads(world: World) -> None:
    # Kafka's controller leaves the partition without a leader, and the reassignment without an end (seed 500116).
    world.create_topic("orders", {0: [3]})
    world.settle()
    assert reassign(world, [2, 1, 4])[0] is KafkaError.none
    caught_up(world, [3, 2, 1])
    world.leave(3)
    world.settle()
    assert world.brief("orders")[:2] == (2, (2, 1))
    assert reassign(world, [1, 4])[0] is KafkaError.none
    assert world.brief("orders")[:2] == (1, (1,))
    caught_up(world, [1, 4])
    assert not under_way(world)
    assert assignment(world).replicas == (1, 4)


def test_the_only_replicas_in_sync_are_not_given_up_though_nobody_needs_them_any_more(world: World) -> None:
    # Kafka's controller has them deleted, and whatever was written is lost.
    world.create_topic("orders", {0: [3]})
    world.settle()
    reassign(world, [2, 1, 4])
    caught_up(world, [3, 2])
    world.leave(3)
    world.settle()
    assert world.brief("orders")[:2] == (2, (2,))
    before, told = assignment(world), len(world.told)
    refused = (KafkaError.invalid_replica_assignment, "every replica that is in sync would be deleted")
    assert reassign(world, None) == refused
    assert reassign(world, [1, 4]) == refused
    ask_by_znode(world, orders=[1, 4])
    assert path_is_gone(world) and assignment(world) == before
    assert not any(row.kind == "StopReplica" for row in world.told[told:])
    world.join(3)
    world.settle()
    caught_up(world, [2, 3])
    assert reassign(world, None)[0] is KafkaError.none
    assert world.brief("orders")[:2] == (3, (3,)) and assignment(world).replicas == (3,)


def test_a_request_takes_its_partitions_off_the_list_in_the_znode_and_leaves_the_others(world: World) -> None:
    for topic in ("orders", "users"):
        world.create_topic(topic, {0: [1]})
    world.settle()
    ask_by_znode(world, orders=[2], users=[2])
    reassign(world, [3])
    listed = znodes.decode_reassignments(world.ensemble.data(znodes.REASSIGN_PARTITIONS))
    assert listed == {TopicPartition("users", 0): (2,)}
    assert assignment(world).target == (3,)
    assert world.state("users").leader_epoch == 1, "what stays on the list is not begun again"
    caught_up(world, [1, 2], topic="users")
    assert path_is_gone(world)
    # The next list is noticed.
    ask_by_znode(world, users=[3])
    assert assignment(world, "users").adding == (3,)


# ---- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [[], [2, 2], [2, -1], [2, 7]])
def test_targets_that_make_no_sense_are_invalid(world: World, target: list[int]) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    error, message = reassign(world, target)
    assert error is KafkaError.invalid_replica_assignment
    assert message
    assert assignment(world) == ReplicaAssignment((1,))


def test_unknown_partitions_and_topics_being_deleted_are_not_reassigned(world: World) -> None:
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    assert reassign(world, [2], TopicPartition("orders", 7))[0] is KafkaError.unknown_topic_or_partition
    world.leave(2)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    assert reassign(world, [3])[0] is KafkaError.unknown_topic_or_partition


def test_a_list_that_cannot_be_read_or_carried_out_is_removed(world: World) -> None:
    world.ensemble.put(znodes.REASSIGN_PARTITIONS, b"{")
    world.settle()
    assert path_is_gone(world)
    ask_by_znode(world, nowhere=[1])
    assert path_is_gone(world)
    assert not world.events(ControllerResigned)


def test_a_partition_without_a_state_znode_fails_alone_and_the_reign_goes_on(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.ensemble.delete(znodes.partition_state_path(P0))
    assert reassign(world, [2])[0] is KafkaError.unknown_server_error
    assert not world.events(ControllerResigned)


def test_a_reassignment_for_which_the_znode_would_become_too_large_is_refused_and_nothing_is_written(
    world: World,
) -> None:
    # ZooKeeper drops the connection over more than that, and the controller would send it again for ever.
    world.create_topic("orders", {0: [1], 1: list(range(10_000, 160_000))})
    world.settle()
    written = world.ensemble.data(znodes.topic_path("orders"))
    assert len(written) < znodes.ZNODE_BYTES_MAX
    assert reassign(world, [2], P1)[0] is KafkaError.unknown_server_error
    assert world.ensemble.data(znodes.topic_path("orders")) == written and under_way(world) == {}
    assert reassign(world, [2])[0] is KafkaError.none
    assert not world.events(ControllerResigned)


# ---- partitions that nobody has led yet ------------------------------------------------------------------------


@pytest.fixture
def unborn(world: World) -> World:
    """A partition whose only replica was dead when it was made."""
    world.leave(1)
    world.create_topic("orders", {0: [1]})
    world.settle()
    assert znodes.partition_state_path(P0) not in world.ensemble.nodes
    return world


def test_a_partition_that_nobody_has_led_is_begun_by_the_replicas_it_moves_to(unborn: World) -> None:
    assert reassign(unborn, [2, 3]) == (KafkaError.none, None)
    assert unborn.brief("orders")[:2] == (2, (2, 3))
    assert assignment(unborn) == ReplicaAssignment((2, 3)) and under_way(unborn) == {}
    assert not unborn.events(ControllerEventFailed)


def test_a_replica_that_began_a_partition_is_told_so_again_after_a_restart(unborn: World) -> None:
    reassign(unborn, [2, 3])
    # Something makes the controller look for partitions that can be led, and the leader asks for the ISR.
    unborn.leave(4)
    unborn.settle()
    caught_up(unborn, [2, 3])
    for broker_id in (3, 2):
        unborn.leave(broker_id)
        unborn.settle()
        unborn.told.clear()
        unborn.join(broker_id)
        unborn.settle()
        told = [told.partitions()[P0].leader_epoch for told in unborn.requests("LeaderAndIsr", broker_id)]
        assert told and told[-1] == unborn.state("orders").leader_epoch


def test_a_topic_of_which_a_partition_was_begun_where_it_moved_to_can_be_deleted(unborn: World) -> None:
    reassign(unborn, [2, 3])
    unborn.ensemble.put(znodes.delete_topic_path("orders"))
    unborn.settle()
    assert not unborn.has("orders")


def test_where_nobody_is_live_to_begin_a_partition_its_reassignment_waits_for_the_first(unborn: World) -> None:
    reassign(unborn, [1, 2])
    assert assignment(unborn) == ReplicaAssignment((1, 2), (2,)) and unborn.brief("orders")[:2] == (2, (2,))
    unborn.create_topic("lines", {0: [1]})
    unborn.settle()
    unborn.leave(2)
    unborn.settle()
    ask_by_znode(unborn, lines=[2])
    assert under_way(unborn, TopicPartition("lines", 0)) and not path_is_gone(unborn)
    unborn.join(2)
    unborn.settle()
    assert unborn.brief("lines")[:2] == (2, (2,)) and path_is_gone(unborn)
    assert not unborn.events(ControllerEventFailed)


def test_replicas_that_are_removed_together_hear_nothing_of_who_leads_from_then_on(world: World) -> None:
    world.create_topic("orders", {0: [3, 1, 2]})
    world.settle()
    caught_up(world, [1, 3])
    world.told.clear()
    # Broker 1 leaves the ISR, 2 is not in it: one state is told upon the going of both.
    reassign(world, [3])
    assert world.brief("orders")[:2] == (3, (3,))
    assert world.requests("LeaderAndIsr", 3)
    for broker_id in (1, 2):
        told = [each.partitions()[P0].replicas for each in world.requests("LeaderAndIsr", broker_id)]
        assert all(broker_id in replicas for replicas in told)
        assert world.requests("StopReplica", broker_id)[-1].partitions()[P0].delete_partition


# ---- other things that happen meanwhile -----------------------------------------------------------------------


def test_the_next_controller_goes_on_where_the_last_one_stood(world: World) -> None:
    world.start(8)
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, [2])
    world.kill(world.active().broker_id)
    world.settle()
    assert under_way(world) == {P0: ReplicaAssignment((2, 1), (2,), (1,))}
    caught_up(world, [1, 2])
    assert world.brief("orders")[:2] == (2, (2,))
    assert assignment(world) == ReplicaAssignment((2,))


def test_replicas_are_not_removed_while_nobody_of_the_target_can_lead(world: World) -> None:
    """The target is in sync, and dead: what the origin has is all that there is to be had."""
    world.start(8)
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, [2])
    world.leave(2)
    world.settle()
    path = znodes.partition_state_path(P0)
    alone = world.state("orders")._replace(leader=-1, isr=(2,))
    world.ensemble.put(path, znodes.encode_partition_state(alone))
    world.kill(world.active().broker_id)
    world.settle()
    assert not world.requests("StopReplica", 1)
    assert assignment(world) == ReplicaAssignment((2, 1), (2,), (1,))
    assert under_way(world) == {P0: ReplicaAssignment((2, 1), (2,), (1,))}
    world.join(2)
    world.settle()
    assert world.brief("orders")[:2] == (2, (2,))
    assert assignment(world) == ReplicaAssignment((2,))
    assert [told.partitions()[P0].delete_partition for told in world.requests("StopReplica", 1)] == [False, True]


def begun_with_its_only_leader_on_the_way_out(world: World) -> None:
    """Broker 1 alone is in sync, and is being shut down, when the partition is to be left to it."""
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    world.leave(2)
    world.settle()
    assert world.brief("orders")[:2] == (1, (1,))
    assert shut_down(world, 1)[1] == [P0]
    assert reassign(world, [1]) == (KafkaError.none, None)
    assert assignment(world) == ReplicaAssignment((1, 2), (), (2,))
    assert under_way(world) == {P0: ReplicaAssignment((1, 2), (), (2,))}
    assert not world.requests("StopReplica", 2)


def test_a_target_that_is_being_shut_down_is_waited_for_and_nothing_failed(world: World) -> None:
    begun_with_its_only_leader_on_the_way_out(world)
    world.leave(1)
    world.settle()
    world.join(1)
    world.settle()
    assert assignment(world) == ReplicaAssignment((1,)) and under_way(world) == {}
    assert not world.events(ControllerEventFailed)


def test_where_nothing_is_to_be_removed_a_cancellation_needs_nobody_to_lead(world: World) -> None:
    begun_with_its_only_leader_on_the_way_out(world)
    assert reassign(world, None) == (KafkaError.none, None)
    assert assignment(world) == ReplicaAssignment((1, 2)) and under_way(world) == {}
    assert not world.events(ControllerEventFailed)


def test_a_list_written_while_there_was_no_controller_is_taken_up_by_the_next(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.kill(9)
    ask_by_znode(world, orders=[2])
    world.start(8)
    assert assignment(world).adding == (2,)


def test_an_isr_that_leaders_write_themselves_completes_a_reassignment_too(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, [2])
    world.set_isr("orders", 0, [1, 2])
    world.ensemble.put(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_0000000000", znodes.encode_partition_set([P0]))
    world.settle()
    assert assignment(world) == ReplicaAssignment((2,))


def test_partitions_added_at_the_moment_of_a_reassignment_are_not_written_over(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    # The request is there before the watch tells of the znode.
    world.create_topic("orders", {0: [1], 1: [3]})
    assert reassign(world, [2]) == (KafkaError.none, None)
    world.settle()
    assert assignment(world, partition=1) == ReplicaAssignment((3,))
    assert world.brief("orders", 1) == (3, (3,), 0)
    caught_up(world, [1, 2])
    assert assignment(world) == ReplicaAssignment((2,))
    assert assignment(world, partition=1) == ReplicaAssignment((3,))


def test_an_assignment_that_removes_every_replica_is_not_carried_out_and_can_be_cancelled(world: World) -> None:
    """Nobody can ask for it; it takes an editor, and a controller that reads the znode."""
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    by_hand = json.loads(world.ensemble.data(znodes.topic_path("orders")))
    by_hand["removing_replicas"] = {"0": [1, 2]}
    world.ensemble.put(znodes.topic_path("orders"), znodes.encode(by_hand))
    world.start(8)
    world.kill(9)
    world.run(2_000)
    assert world.active().broker_id == 8
    assert not world.requests("StopReplica")
    assert world.brief("orders")[:2] == (1, (1, 2))
    assert under_way(world) == {P0: ReplicaAssignment((1, 2), (), (1, 2))}
    assert reassign(world, None) == (KafkaError.none, None)
    world.settle()
    assert assignment(world) == ReplicaAssignment((1, 2))
    assert not world.requests("StopReplica")
    assert world.brief("orders")[:2] == (1, (1, 2))

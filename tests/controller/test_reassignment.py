"""Reassignment by request and through /admin/reassign_partitions (KafkaController.onPartitionReassignment).

The followers in these tests are fake brokers that do not fetch. `caught_up` sends the AlterPartition request with which
a leader adds them to the ISR.
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
    """Return a partition's assignment from the topic's znode."""
    found = znodes.decode_topic(world.ensemble.data(znodes.topic_path(topic)))
    assert found is not None
    return found.partitions[partition]


def reassign(world: World, target: Sequence[int] | None, partition: TopicPartition = P0) -> tuple[Any, str | None]:
    """Send AlterPartitionReassignments for one partition. Return its error code and message."""
    answered = reassignment_answer(world, partition, target)
    return answered.error_code, answered.error_message


def ask_by_znode(world: World, **targets: Sequence[int]) -> None:
    """Write the targets to /admin/reassign_partitions, as Kafka's tool did before it used requests."""
    listed = {TopicPartition(topic, 0): tuple(target) for topic, target in targets.items()}
    world.ensemble.put(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments(listed))
    world.settle()


def path_is_gone(world: World) -> bool:
    return znodes.REASSIGN_PARTITIONS not in world.ensemble.nodes


# ---- computing adding and removing replicas -------------------------------------------------------------------


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
def test_reassignment_has_target_and_origin_and_is_cancelable(
    start: ReplicaAssignment, target: tuple[int, ...], expected: ReplicaAssignment
) -> None:
    moving = start.reassign_to(target)
    assert moving == expected
    assert moving.reassign_to(target) == moving, "the same request again changes nothing"
    assert moving.target == target
    assert sorted(moving.origin) == sorted(start.replicas)
    cancelled = moving.reassign_to(moving.origin)
    assert sorted(cancelled.target) == sorted(start.replicas)
    assert cancelled.adding == ()


def test_later_reassignment_keeps_the_original_replicas() -> None:
    moving = ReplicaAssignment((1, 2)).reassign_to((2, 3)).reassign_to((4, 2))
    assert moving == ReplicaAssignment((4, 2, 1), (4,), (1,))


class _Compared(int):
    """Broker id that counts how often it is compared with other ids."""

    times = 0

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_reassignment_target_is_computed_in_linear_time() -> None:
    origin, target = (tuple(map(_Compared, range(first, first + 1_000))) for first in (0, 500))
    moving = ReplicaAssignment(origin).reassign_to(target)
    assert len(moving.replicas) == 1_500 and sorted(moving.origin) == list(origin) and moving.target == target
    # Comparing all pairs would take more than a million comparisons, and a request can have a hundred times as many
    # replicas.
    assert _Compared.times < 50_000


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), min_size=2, max_size=6))
def test_replaced_reassignment_lists_original_replicas_once(targets: list[list[int]]) -> None:
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
def test_reassignment_by_znode_adds_three_leader_epochs(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    assert world.brief("orders") == (1, (1,), 0)
    world.received.clear()
    ask_by_znode(world, orders=[2])
    # Phase A: the leader receives the extended replica list, and the new replica starts to fetch.
    assert world.brief("orders") == (1, (1,), 1)
    assert assignment(world) == ReplicaAssignment((2, 1), (2,), (1,))
    first = world.requests("LeaderAndIsr", 2)[0].partitions()[P0]
    assert (first.is_new, first.leader, first.adding_replicas, first.removing_replicas) == (True, 1, (2,), (1,))
    assert not world.requests("LeaderAndIsr", 1)[0].partitions()[P0].is_new
    assert not path_is_gone(world)
    # Phase B begins as soon as the new replica is in sync.
    caught_up(world, [1, 2])
    assert world.brief("orders") == (2, (2,), 3)
    assert assignment(world) == ReplicaAssignment((2,))
    assert path_is_gone(world)
    assert under_way(world) == {}
    stopped = [received.partitions()[P0].delete_partition for received in world.requests("StopReplica", 1)]
    assert stopped == [False, True]
    seen = [(e.replicas, e.adding, e.removing) for e in world.events(AssignmentChanged)]
    assert seen == [([2, 1], [2], [1]), ([2], [], [])]


@pytest.mark.scenario(49)
def test_dead_target_halts_a_reassignment_after_one_leader_epoch(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.leave(2)
    world.settle()
    ask_by_znode(world, orders=[2])
    assert world.brief("orders") == (1, (1,), 1)
    assert assignment(world).replicas == (2, 1)
    assert not path_is_gone(world)


@pytest.mark.scenario(50)
def test_halted_reassignment_completes_at_leader_epoch_four(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.leave(2)
    world.settle()
    ask_by_znode(world, orders=[2])
    world.join(2)
    world.settle()
    assert world.brief("orders") == (1, (1,), 2), "sent again, with another leader epoch"
    caught_up(world, [1, 2])
    assert world.brief("orders") == (2, (2,), 4)
    assert assignment(world) == ReplicaAssignment((2,))
    assert path_is_gone(world)


def test_reassignment_to_an_in_sync_target_completes_at_once(world: World) -> None:
    world.create_topic("orders", {0: [1, 2, 3]})
    world.settle()
    assert reassign(world, [2, 1]) == (KafkaError.none, None)
    # The leader epoch increases twice: when the replica list gets shorter, and when the replica leaves the ISR.
    assert world.brief("orders") == (1, (1, 2), 2)
    assert assignment(world) == ReplicaAssignment((2, 1))


def test_leadership_moves_to_first_target_if_leader_is_no_target(world: World) -> None:
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    reassign(world, [3, 2])
    caught_up(world, [1, 2, 3])
    assert world.brief("orders") == (3, (2, 3), 3)
    assert assignment(world) == ReplicaAssignment((3, 2))


def test_reassignments_in_progress_are_listed_and_filtered(world: World) -> None:
    world.create_topic("orders", {0: [1], 1: [1]})
    world.settle()
    reassign(world, [2])
    moving = ReplicaAssignment((2, 1), (2,), (1,))
    assert under_way(world) == {P0: moving}
    assert under_way(world, P0) == {P0: moving}
    assert under_way(world, TopicPartition("orders", 1), TopicPartition("nowhere", 0)) == {}


# ---- cancelling and superseding -------------------------------------------------------------------------------


def test_cancellation_restores_only_the_original_replicas(world: World) -> None:
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    reassign(world, [3, 4])
    assert assignment(world) == ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))
    world.received.clear()
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


def test_new_reassignment_stops_replicas_only_in_the_old_target(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, [2, 3])
    world.received.clear()
    reassign(world, [3, 4])
    assert assignment(world) == ReplicaAssignment((3, 4, 1), (3, 4), (1,))
    assert [t.to for t in world.requests("StopReplica")] == [2, 2]
    caught_up(world, [1, 3, 4])
    assert world.brief("orders")[:2] == (3, (3, 4))


def test_leader_outside_a_new_target_is_replaced_by_isr_member(world: World) -> None:
    # Kafka's controller would leave the partition without a leader, and the reassignment would never end (seed 500116).
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


def test_reassignment_cannot_delete_every_in_sync_replica(world: World) -> None:
    # Kafka's controller would delete all in-sync replicas, so that all records would be lost.
    world.create_topic("orders", {0: [3]})
    world.settle()
    reassign(world, [2, 1, 4])
    caught_up(world, [3, 2])
    world.leave(3)
    world.settle()
    assert world.brief("orders")[:2] == (2, (2,))
    before, received = assignment(world), len(world.received)
    refused = (KafkaError.invalid_replica_assignment, "every replica that is in sync would be deleted")
    assert reassign(world, None) == refused
    assert reassign(world, [1, 4]) == refused
    ask_by_znode(world, orders=[1, 4])
    assert path_is_gone(world) and assignment(world) == before
    assert not any(row.kind == "StopReplica" for row in world.received[received:])
    world.join(3)
    world.settle()
    caught_up(world, [2, 3])
    assert reassign(world, None)[0] is KafkaError.none
    assert world.brief("orders")[:2] == (3, (3,)) and assignment(world).replicas == (3,)


def test_reassignment_request_removes_only_its_own_znode_entries(world: World) -> None:
    for topic in ("orders", "users"):
        world.create_topic(topic, {0: [1]})
    world.settle()
    ask_by_znode(world, orders=[2], users=[2])
    reassign(world, [3])
    listed = znodes.decode_reassignments(world.ensemble.data(znodes.REASSIGN_PARTITIONS))
    assert listed == {TopicPartition("users", 0): (2,)}
    assert assignment(world).target == (3,)
    assert world.state("users").leader_epoch == 1, "the remaining reassignments are not restarted"
    caught_up(world, [1, 2], topic="users")
    assert path_is_gone(world)
    # The controller must still watch /admin/reassign_partitions, so that it reads the next list.
    ask_by_znode(world, users=[3])
    assert assignment(world, "users").adding == (3,)


# ---- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [[], [2, 2], [2, -1], [2, 7]])
def test_invalid_reassignment_targets_are_rejected(world: World, target: list[int]) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    error, message = reassign(world, target)
    assert error is KafkaError.invalid_replica_assignment
    assert message
    assert assignment(world) == ReplicaAssignment((1,))


def test_unknown_or_deleted_partitions_are_not_reassigned(world: World) -> None:
    world.create_topic("orders", {0: [1, 2]})
    world.settle()
    assert reassign(world, [2], TopicPartition("orders", 7))[0] is KafkaError.unknown_topic_or_partition
    world.leave(2)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("orders"))
    world.settle()
    assert reassign(world, [3])[0] is KafkaError.unknown_topic_or_partition


def test_unreadable_or_invalid_reassignment_znode_is_removed(world: World) -> None:
    world.ensemble.put(znodes.REASSIGN_PARTITIONS, b"{")
    world.settle()
    assert path_is_gone(world)
    ask_by_znode(world, nowhere=[1])
    assert path_is_gone(world)
    assert not world.events(ControllerResigned)


def test_missing_partition_state_fails_only_its_reassignment(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.ensemble.delete(znodes.partition_state_path(P0))
    assert reassign(world, [2])[0] is KafkaError.unknown_server_error
    assert not world.events(ControllerResigned)


def test_reassignment_too_large_for_the_znode_is_rejected(
    world: World,
) -> None:
    # ZooKeeper would close the connection because of the large znode, and the controller would repeat the write
    # forever.
    world.create_topic("orders", {0: [1], 1: list(range(10_000, 160_000))})
    world.settle()
    written = world.ensemble.data(znodes.topic_path("orders"))
    assert len(written) < znodes.ZNODE_BYTES_MAX
    assert reassign(world, [2], P1)[0] is KafkaError.unknown_server_error
    assert world.ensemble.data(znodes.topic_path("orders")) == written and under_way(world) == {}
    assert reassign(world, [2])[0] is KafkaError.none
    assert not world.events(ControllerResigned)


# ---- partitions that never had a leader -----------------------------------------------------------------------


@pytest.fixture
def leaderless(world: World) -> World:
    """Create a partition on a single, dead broker."""
    world.leave(1)
    world.create_topic("orders", {0: [1]})
    world.settle()
    assert znodes.partition_state_path(P0) not in world.ensemble.nodes
    return world


def test_leaderless_new_partition_starts_on_its_target_replicas(leaderless: World) -> None:
    assert reassign(leaderless, [2, 3]) == (KafkaError.none, None)
    assert leaderless.brief("orders")[:2] == (2, (2, 3))
    assert assignment(leaderless) == ReplicaAssignment((2, 3)) and under_way(leaderless) == {}
    assert not leaderless.events(ControllerEventFailed)


def test_returning_replica_is_sent_the_new_partitions_state(leaderless: World) -> None:
    reassign(leaderless, [2, 3])
    # A broker leaves, which makes the controller elect a leader for this partition. That leader then proposes an ISR.
    leaderless.leave(4)
    leaderless.settle()
    caught_up(leaderless, [2, 3])
    for broker_id in (3, 2):
        leaderless.leave(broker_id)
        leaderless.settle()
        leaderless.received.clear()
        leaderless.join(broker_id)
        leaderless.settle()
        received = [
            received.partitions()[P0].leader_epoch for received in leaderless.requests("LeaderAndIsr", broker_id)
        ]
        assert received and received[-1] == leaderless.state("orders").leader_epoch


def test_topic_started_on_its_reassignment_target_can_be_deleted(leaderless: World) -> None:
    reassign(leaderless, [2, 3])
    leaderless.ensemble.put(znodes.delete_topic_path("orders"))
    leaderless.settle()
    assert not leaderless.has("orders")


def test_reassignment_waits_for_a_replica_that_can_start(leaderless: World) -> None:
    reassign(leaderless, [1, 2])
    assert assignment(leaderless) == ReplicaAssignment((1, 2), (2,)) and leaderless.brief("orders")[:2] == (2, (2,))
    leaderless.create_topic("lines", {0: [1]})
    leaderless.settle()
    leaderless.leave(2)
    leaderless.settle()
    ask_by_znode(leaderless, lines=[2])
    assert under_way(leaderless, TopicPartition("lines", 0)) and not path_is_gone(leaderless)
    leaderless.join(2)
    leaderless.settle()
    assert leaderless.brief("lines")[:2] == (2, (2,)) and path_is_gone(leaderless)
    assert not leaderless.events(ControllerEventFailed)


def test_replicas_removed_in_one_write_get_no_new_leader_and_isr(world: World) -> None:
    world.create_topic("orders", {0: [3, 1, 2]})
    world.settle()
    caught_up(world, [1, 3])
    world.received.clear()
    # A single write of the partition state removes both replicas: broker 1 leaves the ISR, and broker 2 was not in it.
    reassign(world, [3])
    assert world.brief("orders")[:2] == (3, (3,))
    assert world.requests("LeaderAndIsr", 3)
    for broker_id in (1, 2):
        received = [each.partitions()[P0].replicas for each in world.requests("LeaderAndIsr", broker_id)]
        assert all(broker_id in replicas for replicas in received)
        assert world.requests("StopReplica", broker_id)[-1].partitions()[P0].delete_partition


# ---- concurrent events ----------------------------------------------------------------------------------------


def test_next_controller_continues_a_reassignment(world: World) -> None:
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


def test_replicas_are_not_removed_while_no_target_can_lead(world: World) -> None:
    """A replica is not removed while no target replica can lead.

    The target is in sync but dead, so the original replica is the only live one with the records.
    """
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
    assert [received.partitions()[P0].delete_partition for received in world.requests("StopReplica", 1)] == [
        False,
        True,
    ]


def begun_with_its_only_leader_on_the_way_out(world: World) -> None:
    """Start a reassignment to broker 1, the only ISR member, which has begun a controlled shutdown."""
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


def test_reassignment_waits_for_a_target_that_is_shutting_down(world: World) -> None:
    begun_with_its_only_leader_on_the_way_out(world)
    world.leave(1)
    world.settle()
    world.join(1)
    world.settle()
    assert assignment(world) == ReplicaAssignment((1,)) and under_way(world) == {}
    assert not world.events(ControllerEventFailed)


def test_cancellation_that_removes_no_replica_needs_no_leader(world: World) -> None:
    begun_with_its_only_leader_on_the_way_out(world)
    assert reassign(world, None) == (KafkaError.none, None)
    assert assignment(world) == ReplicaAssignment((1, 2)) and under_way(world) == {}
    assert not world.events(ControllerEventFailed)


def test_next_controller_runs_reassignments_requested_earlier(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    world.kill(9)
    ask_by_znode(world, orders=[2])
    world.start(8)
    assert assignment(world).adding == (2,)


def test_isr_change_by_a_leader_completes_a_reassignment(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    reassign(world, [2])
    world.set_isr("orders", 0, [1, 2])
    world.ensemble.put(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_0000000000", znodes.encode_partition_set([P0]))
    world.settle()
    assert assignment(world) == ReplicaAssignment((2,))


def test_partition_added_during_a_reassignment_request_is_kept(world: World) -> None:
    world.create_topic("orders", {0: [1]})
    world.settle()
    # The controller receives the reassignment request before the watch event of the changed topic znode.
    world.create_topic("orders", {0: [1], 1: [3]})
    assert reassign(world, [2]) == (KafkaError.none, None)
    world.settle()
    assert assignment(world, partition=1) == ReplicaAssignment((3,))
    assert world.brief("orders", 1) == (3, (3,), 0)
    caught_up(world, [1, 2])
    assert assignment(world) == ReplicaAssignment((2,))
    assert assignment(world, partition=1) == ReplicaAssignment((3,))


def test_assignment_that_removes_every_replica_can_be_canceled(world: World) -> None:
    """A reassignment that would remove every replica can be canceled.

    No request can create such an assignment. It exists only if the topic's znode was edited, and then read by a new
    controller.
    """
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

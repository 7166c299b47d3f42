"""Partition leadership: offline and unclean elections, retries, valid state transitions (acceptance scenarios 32 to
47).
"""

from __future__ import annotations

import pytest

from tests.controller.controller_world import World, lose_all_but
from zabka.controller.context import PartitionState, Replica, ReplicaState
from zabka.controller.partition_state_machine import Refused
from zabka.journal.events import IsrChanged, LeaderElected, TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import LeaderAndIsr

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    made = World()
    made.start(1, auto_leader_rebalance_enable=False)
    made.join(2, 3, 4)
    made.settle()
    return made


def causes(world: World) -> list[tuple[int, int, str]]:
    return [(e.leader, e.leader_epoch, e.cause) for e in world.events(LeaderElected)]


# ---- leader-epoch arithmetic ----------------------------------------------------------------------------------


@pytest.mark.scenario(34)
def test_dead_leader_is_replaced_in_the_next_leader_epoch(world: World) -> None:
    world.create_topic("t", {0: [2, 3, 4]})
    world.settle()
    world.received.clear()
    world.leave(2)
    world.settle()
    assert world.brief("t") == (3, (3, 4), 1)
    assert world.state("t").partition_epoch == 1
    assert causes(world) == [(2, 0, "new_topic"), (3, 1, "offline")]
    [changed] = world.events(IsrChanged)
    assert (changed.isr, changed.cause, changed.leader_epoch, changed.partition_epoch) == ([3, 4], "controller", 1, 1)
    for broker_id in (3, 4):
        row = world.requests("LeaderAndIsr", broker_id)[0].partitions()[T0]
        assert (row.leader, row.isr, row.leader_epoch, row.partition_epoch, row.is_new) == (3, (3, 4), 1, 1, False)


def test_dead_follower_leaves_the_isr_in_the_next_leader_epoch(world: World) -> None:
    world.create_topic("t", {0: [2, 3, 4]})
    world.settle()
    world.leave(4)
    world.settle()
    assert world.brief("t") == (2, (2, 3), 1)
    assert causes(world)[-1] == (2, 1, "replica_offline")
    assert [(e.isr, e.cause) for e in world.events(IsrChanged)] == [([2, 3], "controller")]


@pytest.mark.scenario(36)
def test_last_isr_member_stays_in_the_isr_if_all_replicas_die(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    assert world.brief("t") == (2, (2,), 1)
    world.leave(2)
    world.settle()
    assert world.brief("t") == (-1, (2,), 2)
    assert world.active().controller.term.context.offline_partition_count == 1
    world.join(3)
    world.settle()
    assert world.brief("t") == (-1, (2,), 2)
    world.join(2)
    world.settle()
    assert world.brief("t") == (2, (2,), 3)
    assert world.active().controller.term.context.offline_partition_count == 0
    assert not any(e.unclean for e in world.events(LeaderElected))


@pytest.mark.scenario(36)
def test_unclean_election_without_live_replicas_fails() -> None:
    world = World()
    world.start(1, unclean_leader_election_enable=True)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.leave(2)
    world.settle()
    assert world.brief("t") == (-1, (2,), 2)
    assert world.active().controller.metrics()["ControllerStats"]["UncleanLeaderElectionsPerSec_Count"] == 0


def test_last_isr_member_leads_again_after_all_replicas_failed(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.nodes[1].session.hold_watches = True
    world.leave(2, 3)
    world.nodes[1].session.release_watches()
    world.settle()
    state = world.state("t")
    assert state.leader == -1 and len(state.isr) == 1
    world.join(state.isr[0])
    world.settle()
    assert world.state("t").leader == state.isr[0]


def test_dead_replica_outside_the_isr_does_not_change_the_state(world: World) -> None:
    world.create_topic("t", {0: [2, 3, 4]})
    world.settle()
    world.leave(4)
    world.settle()
    world.join(4)
    world.settle()
    before = world.state("t")
    assert before.isr == (2, 3)
    world.received.clear()
    world.leave(4)
    world.settle()
    assert world.state("t") == before
    assert world.requests("LeaderAndIsr", 2)[-1].partitions()[T0].leader_epoch == before.leader_epoch


def test_failover_does_not_change_healthy_partitions(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    before = world.state("t")
    world.kill(1)
    world.start(5)
    assert world.state("t") == before
    assert world.requests("LeaderAndIsr", 2)[-1].partitions()[T0].leader_epoch == 0


# ---- unclean elections ----------------------------------------------------------------------------------------


@pytest.mark.scenario(42)
def test_broker_default_allows_unclean_elections() -> None:
    world = World()
    world.start(1, unclean_leader_election_enable=True)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    lose_all_but(world, "t", survivor=3, last=2)
    assert world.brief("t") == (3, (3,), 3)
    assert world.state("t").recovering
    assert b'"leader_recovery_state":1' in world.ensemble.data("/brokers/topics/t/partitions/0/state")
    last = world.events(LeaderElected)[-1]
    assert (last.unclean, last.cause, last.leader) == (True, "unclean", 3)
    assert world.active().controller.metrics()["ControllerStats"]["UncleanLeaderElectionsPerSec_Count"] == 1
    assert world.requests("LeaderAndIsr", 3)[-1].partitions()[T0].leader_recovery_state == 1
    # When the former leader returns, it becomes a follower.
    world.join(2)
    world.settle()
    assert world.brief("t") == (3, (3,), 3)


@pytest.mark.scenario(43)
def test_offline_partition_waits_for_its_old_leader_by_default(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    lose_all_but(world, "t", survivor=3, last=2)
    assert world.brief("t") == (-1, (2,), 2)
    world.join(2)
    world.settle()
    assert world.brief("t") == (2, (2,), 3)
    assert world.active().controller.metrics()["ControllerStats"]["UncleanLeaderElectionsPerSec_Count"] == 0


@pytest.mark.scenario(44)
def test_topic_override_allows_unclean_elections(world: World) -> None:
    world.create_topic("t", {0: [2, 3]}, unclean_leader_election_enable="true")
    world.settle()
    lose_all_but(world, "t", survivor=3, last=2)
    assert world.brief("t") == (3, (3,), 3) and world.state("t").recovering


@pytest.mark.scenario(44)
def test_topic_override_forbids_unclean_elections() -> None:
    world = World()
    world.start(1, unclean_leader_election_enable=True)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]}, unclean_leader_election_enable="false")
    world.settle()
    lose_all_but(world, "t", survivor=3, last=2)
    assert world.brief("t") == (-1, (2,), 2)


def test_invalid_unclean_election_override_elects_no_leader() -> None:
    world = World()
    world.start(1, unclean_leader_election_enable=True)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]}, unclean_leader_election_enable="invalid")
    world.create_topic("u", {0: [2, 3]})
    world.settle()
    lose_all_but(world, "t", survivor=3, last=2)
    assert world.brief("t") == (-1, (2,), 2) and world.brief("u") == (3, (3,), 3)
    assert world.nodes[1].controller.is_active


@pytest.mark.scenario(45)
def test_enabling_unclean_election_of_a_topic_elects_immediately(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.create_topic("u", {0: [2, 3]})
    world.settle()
    lose_all_but(world, "t", survivor=3, last=2)
    world.set_config("t", unclean_leader_election_enable="true")
    world.settle()
    assert world.brief("t") == (-1, (2,), 2)
    world.nodes[1].controller.topic_unclean_enabled("t")
    world.settle()
    assert world.brief("t") == (3, (3,), 3) and world.brief("u") == (-1, (2,), 2)


def test_enabling_unclean_election_by_default_elects_immediately(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    lose_all_but(world, "t", survivor=3, last=2)
    world.nodes[1].config.unclean_leader_election_enable = True
    world.nodes[1].controller.unclean_default_enabled()
    world.settle()
    assert world.brief("t") == (3, (3,), 3)


# ---- concurrent changes ---------------------------------------------------------------------------------------


@pytest.mark.scenario(47)
def test_partition_state_changed_by_the_leader_is_read_again(world: World) -> None:
    world.create_topic("t", {0: [2, 3, 4]})
    world.settle()
    context = world.active().controller.term.context
    reads: list[int] = []
    session = world.nodes[1].session
    original = session.get

    def get(path, watcher=None):
        answer = original(path, watcher)
        if path.endswith("/state") and not reads:
            reads.append(1)
            # The leader shrinks the ISR after the controller has read it, and before the controller writes it.
            world.scheduler.after(1_500, lambda: world.set_isr("t", 0, [2, 4]))
        return answer

    session.get = get
    world.leave(2)
    world.settle()
    assert world.brief("t") == (4, (4,), 1)
    assert world.state("t").partition_epoch == 2
    assert context.leadership[T0] == world.state("t")


@pytest.mark.scenario(47)
def test_election_does_not_overwrite_a_later_controllers_state(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    later = LeaderAndIsr(2, 5, (2, 3), 9)
    world.ensemble.put("/brokers/topics/t/partitions/0/state", znodes.encode_partition_state(later))
    before = world.state("t")
    world.leave(2)
    world.settle()
    assert world.state("t") == before


def test_state_write_is_not_repeated_if_its_response_is_lost(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    lost: list[int] = []

    def lose(ops):
        if any(op.path.endswith("/state") for op in ops) and not lost:
            lost.append(1)
            return True
        return False

    world.nodes[1].session.lose_reply_to = lose
    world.leave(2)
    world.settle()
    assert lost and world.brief("t") == (3, (3,), 1) and world.state("t").partition_epoch == 1
    assert causes(world)[-1] == (3, 1, "offline")
    lost.clear()
    world.create_topic("u", {0: [3, 4]})
    world.settle()
    assert lost and world.brief("u") == (3, (3, 4), 0)
    assert world.requests("LeaderAndIsr", 4)[-1].partitions()[TopicPartition("u", 0)].leader == 3


def test_missing_state_znode_fails_only_its_partition(world: World) -> None:
    world.create_topic("t", {0: [2, 3], 1: [2, 3]})
    world.settle()
    world.ensemble.delete("/brokers/topics/t/partitions/0/state")
    world.leave(2)
    world.settle()
    assert world.brief("t", 1) == (3, (3,), 1)
    assert world.nodes[1].controller.is_active


# ---- the tables of valid transitions --------------------------------------------------------------------------

PARTITION_PREVIOUS = {
    "NewPartition": {"NonExistentPartition"},
    "OnlinePartition": {"NewPartition", "OnlinePartition", "OfflinePartition"},
    "OfflinePartition": {"NewPartition", "OnlinePartition", "OfflinePartition"},
    "NonExistentPartition": {"OfflinePartition"},
}
"""Previous states that Kafka allows for each partition state (validPreviousStates in 3.9's
PartitionStateMachine.scala).
"""
REPLICA_PREVIOUS = {
    "NewReplica": {"NonExistentReplica"},
    "OnlineReplica": {"NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"},
    "OfflineReplica": {"NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"},
    "ReplicaDeletionStarted": {"OfflineReplica"},
    "ReplicaDeletionSuccessful": {"ReplicaDeletionStarted"},
    "ReplicaDeletionIneligible": {"OfflineReplica", "ReplicaDeletionStarted"},
    "NonExistentReplica": {"ReplicaDeletionSuccessful"},
}
"""Previous states that Kafka allows for each replica state (validPreviousStates in 3.9's ReplicaStateMachine.scala)."""


@pytest.mark.parametrize("target", list(PartitionState))
def test_partition_state_change_needs_a_valid_previous_state(world: World, target: PartitionState) -> None:
    term = world.active().controller.term
    for current in PartitionState:
        world.create_topic("t", {0: [2, 3]})
        world.settle()
        term.context.partition_states[T0] = current
        if current is PartitionState.NEW:
            term.context.leadership.pop(T0, None)
            world.ensemble.delete("/brokers/topics/t/partitions")
        results = world.call(term.partitions.handle([T0], target))
        state = term.context.partition_states.get(T0, PartitionState.NON_EXISTENT)
        allowed = current.value in PARTITION_PREVIOUS[target.value]
        assert isinstance(results.get(T0), Refused) is (not allowed)
        assert state is (target if allowed else current)
        world.ensemble.delete("/brokers/topics/t")
        world.settle()


@pytest.mark.parametrize("target", list(ReplicaState))
def test_replica_state_change_needs_a_valid_previous_state(world: World, target: ReplicaState) -> None:
    term = world.active().controller.term
    replica = Replica(T0, 3)
    for current in ReplicaState:
        world.create_topic("t", {0: [2, 3]})
        world.settle()
        term.context.replica_states[replica] = current
        if current is ReplicaState.NON_EXISTENT:
            del term.context.replica_states[replica]
        refused = world.call(term.replicas.handle([replica], target))
        state = term.context.replica_states.get(replica, ReplicaState.NON_EXISTENT)
        allowed = current.value in REPLICA_PREVIOUS[target.value]
        assert (refused == []) is allowed
        assert state is (target if allowed else current)
        world.ensemble.delete("/brokers/topics/t")
        world.settle()


def test_replica_of_a_leaderless_partition_can_go_offline(world: World) -> None:
    """A replica whose partition has no leader also becomes offline, and UpdateMetadata reports it.

    Kafka does the same (ReplicaStateMachine.doHandleStateChanges).
    """
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    term = world.active().controller.term
    term.context.leadership.pop(T0)
    assert world.call(term.replicas.handle([Replica(T0, 3)], ReplicaState.OFFLINE)) == []
    assert term.context.replica_states[Replica(T0, 3)] is ReplicaState.OFFLINE


def test_replica_with_unreadable_partition_state_stays_online(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    term = world.active().controller.term
    world.ensemble.delete("/brokers/topics/t/partitions")
    assert world.call(term.replicas.handle([Replica(T0, 3)], ReplicaState.OFFLINE)) == [Replica(T0, 3)]
    assert term.context.replica_states[Replica(T0, 3)] is ReplicaState.ONLINE


def test_leader_cannot_become_a_new_replica(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    term = world.active().controller.term
    del term.context.replica_states[Replica(T0, 2)]
    assert world.call(term.replicas.handle([Replica(T0, 2)], ReplicaState.NEW)) == [Replica(T0, 2)]

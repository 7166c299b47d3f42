"""Elections requested by znode or by request, and the check for leader imbalance (acceptance scenarios 39 to 41)."""

from __future__ import annotations

import pytest
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_requests import caught_up, reassign, under_way
from tests.controller.controller_world import World, lose_all_but
from zabka.controller.term import ControllerTerm
from zabka.journal.events import AdminRequested, ControllerEventFailed, IsrChanged, LeaderElected, TopicPartition
from zabka.kafka.zk import znodes

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


def elect(world: World, kind: int, *partitions: TopicPartition) -> dict[TopicPartition, KafkaError]:
    topics = tuple(TopicPartitions(topic=p.topic, partitions=(p.partition,)) for p in partitions)
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics or None)
    answer = world.call(world.active().controller.elect_leaders(request))
    assert answer.error_code is KafkaError.none
    return {
        TopicPartition(topic.topic, row.partition_id): row.error_code
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }


def move_off_the_preferred(world: World) -> None:
    """Create t-0 with replicas [2, 3] and leader 3, with the preferred replica 2 back in the ISR."""
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(2)
    world.settle()
    world.join(2)
    world.settle()
    assert world.brief("t") == (3, (3,), 1)
    back_in_isr(world)


def back_in_isr(world: World) -> None:
    """Add broker 2 to the ISR in ZooKeeper, as a partition leader before Kafka 2.7 does."""
    world.set_isr("t", 0, [*world.state("t").isr, 2])
    notice = znodes.encode_partition_set([T0])
    world.ensemble.put(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_{world.ensemble.zxid:010d}", notice)
    world.settle()


def test_isr_change_written_by_a_leader_is_read_and_propagated(world: World) -> None:
    move_off_the_preferred(world)
    assert world.active().controller.term.context.leadership[T0] == world.state("t")
    assert not world.ensemble.nodes[znodes.ISR_CHANGE_NOTIFICATION].children
    assert world.requests("UpdateMetadata", 4)[-1].partitions()[T0].isr == (3, 2)
    assert world.events(IsrChanged)[-1].cause == "caught_up"


@pytest.mark.scenario(39)
def test_two_preferred_elections_requested_by_znode_succeed(world: World) -> None:
    move_off_the_preferred(world)
    for epoch in (2, 4):
        world.ensemble.put(znodes.PREFERRED_REPLICA_ELECTION, znodes.encode_partition_set([T0]))
        world.settle()
        assert znodes.PREFERRED_REPLICA_ELECTION not in world.ensemble.nodes
        assert world.brief("t") == (2, (3, 2), epoch)
        assert causes(world)[-1] == (2, epoch, "preferred")
        if epoch == 2:
            world.leave(2)
            world.settle()
            world.join(2)
            world.settle()
            assert world.brief("t") == (3, (3,), 3)
            back_in_isr(world)


@pytest.mark.scenario(40)
def test_preferred_election_request_for_dead_replica_is_removed(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(2)
    world.settle()
    data = znodes.encode_partition_set([T0, TopicPartition("unknown", 0)])
    world.ensemble.put(znodes.PREFERRED_REPLICA_ELECTION, data)
    world.settle()
    assert world.brief("t") == (3, (3,), 1)
    assert znodes.PREFERRED_REPLICA_ELECTION not in world.ensemble.nodes


def test_next_controller_runs_a_pending_preferred_election(world: World) -> None:
    move_off_the_preferred(world)
    world.kill(1)
    world.ensemble.put(znodes.PREFERRED_REPLICA_ELECTION, znodes.encode_partition_set([T0]))
    world.start(5)
    assert world.brief("t") == (2, (3, 2), 2)
    assert znodes.PREFERRED_REPLICA_ELECTION not in world.ensemble.nodes


def test_invalid_election_znode_is_removed_and_journaled(world: World) -> None:
    world.ensemble.put(znodes.PREFERRED_REPLICA_ELECTION, b"garbage")
    world.settle()
    assert znodes.PREFERRED_REPLICA_ELECTION not in world.ensemble.nodes
    assert world.events(ControllerEventFailed) and world.nodes[1].controller.is_active


def test_preferred_election_by_request_elects_first_replica(world: World) -> None:
    move_off_the_preferred(world)
    world.create_topic("u", {0: [4]})
    world.settle()
    assert elect(world, 0, T0, TopicPartition("u", 0), TopicPartition("no", 0)) == {
        T0: KafkaError.none,
        TopicPartition("u", 0): KafkaError.election_not_needed,
        TopicPartition("no", 0): KafkaError.unknown_topic_or_partition,
    }
    assert world.brief("t") == (2, (3, 2), 2)
    # A request without partitions applies to all partitions. Its response lists only the partitions that needed an
    # election.
    assert elect(world, 0) == {}
    world.leave(4)
    world.settle()
    assert elect(world, 0) == {TopicPartition("u", 0): KafkaError.preferred_leader_not_available}


def test_requested_unclean_election_needs_no_config(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    assert elect(world, 1, T0) == {T0: KafkaError.election_not_needed}
    lose_all_but(world, "t", survivor=3, last=2)
    assert elect(world, 1, T0) == {T0: KafkaError.none}
    assert world.brief("t") == (3, (3,), 3) and world.state("t").recovering
    world.leave(3)
    world.settle()
    assert elect(world, 1, T0) == {T0: KafkaError.eligible_leaders_not_available}


def test_election_for_deleted_topic_or_unknown_type_is_rejected(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert elect(world, 0, T0) == {T0: KafkaError.invalid_topic_exception}
    request = ElectLeadersRequest(election_type=9, topic_partitions=None)
    assert world.call(world.active().controller.elect_leaders(request)).error_code is KafkaError.invalid_request


@pytest.mark.scenario(41)
def test_imbalance_check_moves_leadership_to_preferred_leader() -> None:
    world = World()
    world.start(1, leader_imbalance_check_interval_seconds=10)
    world.join(2, 3)
    world.settle()
    move_off_the_preferred(world)
    world.run(4_000)
    assert world.brief("t") == (2, (3, 2), 2)
    world.leave(2)
    world.settle()
    world.join(2)
    world.settle()
    back_in_isr(world)
    assert world.brief("t") == (3, (3, 2), 3)
    world.run(11_000)
    assert world.brief("t") == (2, (3, 2), 4)


@pytest.mark.scenario(41)
def test_imbalance_check_skips_a_partition_being_reassigned() -> None:
    world = World()
    world.start(1, leader_imbalance_check_interval_seconds=10)
    world.join(2, 3, 4)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    moves = {T0: (4, 2)}
    world.ensemble.put(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments(moves))
    world.run(6_000)
    # Broker 4 is now the preferred leader, but not in sync.
    assert world.brief("t") == (2, (2, 3), 1)
    world.set_isr("t", 0, [2, 3, 4])
    world.ensemble.put(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_0000000001", znodes.encode_partition_set([T0]))
    world.settle()
    assert world.brief("t") == (2, (2, 4), 3)
    world.run(11_000)
    assert world.brief("t") == (4, (2, 4), 4)


def test_admin_request_is_journaled_only_by_the_controller() -> None:
    """Only the controller that executes an admin request journals it.

    Otherwise the journals would show that every broker that rejected the request had executed it.
    """
    world = World()
    for broker_id in (1, 2):
        world.start(broker_id)
    world.settle()
    active = world.active()
    request = ElectLeadersRequest(election_type=0, topic_partitions=None)
    (other,) = (node for node in world.nodes.values() if node is not active)
    world.call(other.controller.elect_leaders(request, "adminclient-1"))
    assert not world.events(AdminRequested)
    world.call(active.controller.elect_leaders(request, "adminclient-1"))
    asked = [(event.request, event.client) for event in world.events(AdminRequested)]
    assert asked == [("ElectLeaders", "adminclient-1")]


def test_imbalance_check_runs_after_5_s_and_then_at_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The imbalance check runs five seconds after the election, and then at the configured interval.

    Kafka does the same (KafkaController.scheduleAutoLeaderRebalanceTask).
    """
    asked_ms: list[int] = []
    schedule = ControllerTerm.schedule_rebalance

    def note(term: ControllerTerm, delay_ms: int) -> None:
        asked_ms.append(delay_ms)
        schedule(term, delay_ms)

    monkeypatch.setattr(ControllerTerm, "schedule_rebalance", note)
    world = World()
    world.start(1, leader_imbalance_check_interval_seconds=7)
    world.run(5_000 + 2 * 7_000 + 1_000)
    assert asked_ms == [5_000, 7_000, 7_000, 7_000]


def test_imbalance_check_ignores_a_small_imbalance() -> None:
    world = World()
    world.start(1, leader_imbalance_per_broker_percentage=50)
    world.join(2, 3)
    world.settle()
    move_off_the_preferred(world)
    world.create_topic("u", {0: [2, 3]})
    world.run(6_000)
    # One of the two partitions that prefer broker 2 is not led by it. This is exactly 50 percent, which does not exceed
    # the limit.
    assert world.brief("t")[0] == 3 and world.brief("u")[0] == 2


def test_imbalance_check_is_postponed_during_reassignments() -> None:
    """The imbalance check elects no leader for a topic while partitions are being reassigned.

    Kafka does the same (KafkaController.checkAndTriggerAutoLeaderRebalance).
    """
    world = World()
    world.start(1, leader_imbalance_check_interval_seconds=7)
    world.join(2, 3)
    world.settle()
    world.create_topic("u", {0: [1]})
    move_off_the_preferred(world)
    moving = TopicPartition("u", 0)
    assert reassign(world, moving, (3,)) is KafkaError.none
    world.run(6_000)
    assert world.brief("t")[0] == 3
    caught_up(world, [1, 3], "u")
    world.run(7_000)
    assert not under_way(world) and world.brief("t")[0] == 2

"""Election of a controller, fencing and resignation (acceptance scenarios 1 to 15)."""

from __future__ import annotations

import json

import pytest
from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from tests.controller.controller_world import Node, World, epoch, take_over
from zabka.controller.config import ControllerConfig
from zabka.ensemble.client.service import Create
from zabka.journal.cause import UNKNOWN
from zabka.journal.events import (
    ControllerBelieved,
    ControllerElected,
    ControllerEventFailed,
    ControllerPropagated,
    ControllerReady,
    ControllerResigned,
    LeaderElected,
    TopicPartition,
    WriteFenced,
)
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import ControllerMoved
from zabka.kafka.zk.znodes import LeaderAndIsr


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.scenario(1)
def test_first_broker_becomes_controller_with_controller_epoch_1(world: World) -> None:
    world.start(1)
    assert world.nodes[1].controller.is_active
    content = json.loads(world.ensemble.data(znodes.CONTROLLER))
    assert list(content) == ["version", "brokerid", "timestamp", "kraftControllerEpoch"]
    assert content["version"] == 2 and content["brokerid"] == 1 and content["kraftControllerEpoch"] == -1
    assert content["timestamp"].isdecimal()
    assert world.ensemble.nodes[znodes.CONTROLLER].owner == world.nodes[1].session.session_id
    assert epoch(world) == ("1", 1)
    [elected] = world.events(ControllerElected)
    assert (elected.broker_id, elected.controller_epoch, elected.zk_version) == (1, 1, 1)
    assert elected.zxid == world.ensemble.nodes[znodes.CONTROLLER].czxid
    assert [e.controller_epoch for e in world.events(ControllerReady)] == [1]
    assert world.ensemble.data(znodes.FEATURE) == b'{"version":2,"status":1,"features":{}}'


@pytest.mark.scenario(2)
@pytest.mark.scenario(3)
def test_controller_epoch_survives_restarts_and_increases(world: World) -> None:
    world.start(1)
    world.nodes[1].stop()
    assert znodes.CONTROLLER not in world.ensemble.nodes
    assert epoch(world) == ("1", 1)
    assert [e.reason for e in world.events(ControllerResigned)] == ["shutdown"]
    world.start(1)
    assert epoch(world) == ("2", 2)
    assert world.nodes[1].controller.controller_epoch == 2


@pytest.mark.scenario(4)
def test_exactly_one_of_many_brokers_is_elected(world: World) -> None:
    world.start(1, 2, 3, 4, 5)
    active = [n.broker_id for n in world.nodes.values() if n.controller.is_active]
    assert len(active) == 1 and epoch(world) == ("1", 1)
    for node in world.nodes.values():
        assert node.controller.active_controller_id == active[0]
        assert node.controller.controller_epoch == 1
        last = world.events(ControllerBelieved, node.broker_id)[-1]
        assert (last.controller_id, last.controller_epoch) == (active[0], 1)
        assert last.is_controller == (node.broker_id == active[0])
    # The other brokers watch /controller. After the controller's death, exactly one of them becomes controller.
    world.kill(active[0])
    world.settle()
    assert epoch(world) == ("2", 2)
    assert len([n for n in world.nodes.values() if n.controller.is_active]) == 1
    assert [e.controller_epoch for e in world.events(ControllerElected)] == [1, 2]


@pytest.mark.scenario(5)
def test_election_detects_its_own_write_after_a_lost_response(world: World) -> None:
    node = world.nodes[1] = Node(world, 1, ControllerConfig())
    lost: list[int] = []

    def lose_first_election(ops):
        election = any(isinstance(op, Create) and op.path == znodes.CONTROLLER for op in ops)
        if election and not lost:
            lost.append(1)
            return True
        return False

    node.session.lose_reply_to = lose_first_election
    node.start()
    world.settle()
    assert lost and node.controller.is_active
    assert epoch(world) == ("1", 1)
    assert [e.zk_version for e in world.events(ControllerElected)] == [1]


@pytest.mark.scenario(14)
def test_kraft_controller_znode_is_not_replaced(world: World) -> None:
    world.ensemble.put(znodes.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":7}')
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"12")
    world.start(1)
    assert not world.nodes[1].controller.is_active
    assert world.nodes[1].controller.active_controller_id == 3000
    assert epoch(world)[0] == "12"


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("topic_creation", marks=pytest.mark.scenario(6)),
        pytest.param("topic_deletion", marks=pytest.mark.scenario(7)),
        pytest.param("preferred_election", marks=pytest.mark.scenario(8)),
        pytest.param("reassignment", marks=pytest.mark.scenario(9)),
        "dead_broker",
    ],
)
def test_zombie_controller_is_fenced_and_resigns_without_a_write(world: World, work: str) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("old", {0: [2, 3]})
    world.settle()
    before, assigned = world.state("old"), world.ensemble.data(znodes.topic_path("old"))
    zombie = world.nodes[1]
    zombie.session.hold_watches = True
    take_over(world)
    received = len(world.received)
    # The zombie receives the watch events of these changes, but not the event of the changed /controller znode.
    if work == "topic_creation":
        world.create_topic("new", {0: [2, 3]})
    elif work == "topic_deletion":
        world.ensemble.put(znodes.delete_topic_path("old"))
    elif work == "preferred_election":
        world.set_isr("old", 0, [3, 2])
        before = world.state("old")
        zombie.controller.term.context.leadership[TopicPartition("old", 0)] = before._replace(leader=3)
        world.ensemble.put(znodes.PREFERRED_REPLICA_ELECTION, znodes.encode_partition_set([TopicPartition("old", 0)]))
    elif work == "reassignment":
        moves = {TopicPartition("old", 0): (3,)}
        world.ensemble.put(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments(moves))
    else:
        world.leave(2)
    held = zombie.session._held
    zombie.session._held = [row for row in held if row[1].path != znodes.CONTROLLER]
    zombie.session.release_watches()
    world.settle()
    assert not zombie.controller.is_active
    assert [e.reason for e in world.events(ControllerResigned)] == ["controller_moved"]
    fenced = world.events(WriteFenced)
    assert fenced and all(e.controller_epoch == 1 and e.broker_id == 1 for e in fenced)
    assert zombie.controller.active_controller_id == 99 and zombie.controller.controller_epoch == 2
    assert world.state("old") == before
    assert world.ensemble.data(znodes.topic_path("old")) == assigned
    assert znodes.partitions_path("new") not in world.ensemble.nodes
    assert not any(row.kind == "LeaderAndIsr" for row in world.received[received:])
    if work == "topic_deletion":
        assert znodes.delete_topic_path("old") in world.ensemble.nodes
    if work == "preferred_election":
        assert znodes.PREFERRED_REPLICA_ELECTION in world.ensemble.nodes
    if work == "reassignment":
        assert znodes.REASSIGN_PARTITIONS in world.ensemble.nodes


def test_zombie_controller_that_reads_a_later_state_resigns(
    world: World,
) -> None:
    # Kafka's controller skips only the election of that partition. It then sends the restarted broker the leader epoch
    # from before its restart.
    world.start(1)
    world.join(2, 3)
    world.create_topic("old", {0: [2, 3]})
    world.settle()
    zombie = world.nodes[1]
    zombie.session.hold_watches = True
    take_over(world)
    world.leave(2)
    world.join(2)
    state = znodes.encode_partition_state(LeaderAndIsr(3, 1, (3,), 2))
    world.ensemble.put(znodes.partition_state_path(TopicPartition("old", 0)), state)
    received = len(world.received)
    zombie.session._held = [row for row in zombie.session._held if row[1].path != znodes.CONTROLLER]
    zombie.session.release_watches()
    world.settle()
    assert [e.reason for e in world.events(ControllerResigned)] == ["controller_moved"]
    assert not any(row.kind == "LeaderAndIsr" for row in world.received[received:])
    assert not any(row.to == 2 for row in world.received[received:])


@pytest.mark.scenario(10)
def test_unsent_request_batch_causes_illegal_state_and_failover(world: World) -> None:
    world.start(1, 2)
    world.join(3)
    first = world.active()
    world.create_topic("t", {0: [3]})
    world.settle()
    term = first.controller.term
    term.batch.add_update_metadata([3], [])
    world.create_topic("u", {0: [3]})
    world.settle()
    second = world.active()
    assert second is not first and epoch(world) == ("2", 2)
    assert [e.reason for e in world.events(ControllerResigned)] == ["illegal_state"]
    [failed] = world.events(ControllerEventFailed)
    assert failed.event == "TopicChange" and "unsent" in failed.problem
    # The new controller completes the work. The former controller is still a candidate, and wins the next election.
    assert world.brief("u") == (3, (3,), 0)
    world.kill(second.broker_id)
    world.run(3_000)
    assert world.active() is first and epoch(world) == ("3", 3)


def test_single_controller_is_reelected_after_an_illegal_state(world: World) -> None:
    world.start(1)
    world.nodes[1].controller.term.batch.add_update_metadata([1], [])
    world.join(3)
    world.run(500)
    assert not world.nodes[1].controller.is_active
    world.run(1_500)
    assert world.nodes[1].controller.is_active and epoch(world) == ("2", 2)


def test_requests_of_a_fenced_controller_are_not_sent_next_term(world: World) -> None:
    # KAFKA-12315: a ControllerMoved exception while replica states change must not leave requests in the batch.
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    node = world.nodes[1]
    node.session.hold_watches = True
    take_over(world)
    node.session._held.clear()
    node.session.hold_watches = False
    world.leave(3)
    world.settle()
    assert not node.controller.is_active and world.events(WriteFenced)
    assert world.brief("t") == (2, (2, 3), 0)
    world.ensemble.end_session(0x7777)
    world.settle()
    assert node.controller.is_active and epoch(world) == ("3", 3)
    assert world.brief("t") == (2, (2,), 1)
    assert not world.events(ControllerEventFailed)


def test_own_controller_znode_of_an_unknown_term_is_replaced(world: World) -> None:
    # KAFKA-13407: the broker has resigned, but /controller still contains its id. In Kafka, no other broker would ever
    # become controller.
    world.start(1, 2)
    first = world.active()
    first.controller._resign("controller_moved", UNKNOWN)
    first.controller.controller_changed()
    world.settle()
    assert world.active().controller.is_active
    assert epoch(world) == ("2", 2)
    assert sum(n.controller.is_active for n in world.nodes.values()) == 1


@pytest.mark.scenario(15)
def test_expired_controller_resigns_then_registers_again(world: World) -> None:
    world.start(1)
    node = world.nodes[1]
    old_epoch, old_session = node.controller.broker_epoch, node.session.session_id
    order: list[str] = []
    node.session.add_listener(lambda state: order.append(f"{state.value}:{node.controller.is_active}"))
    world.ensemble.end_session(old_session)
    world.settle()
    assert order == ["expired:True", "connected:False"]
    kinds = [type(e).__name__ for _, e in world.journal]
    resigned = kinds.index("ControllerResigned")
    assert kinds.index("BrokerRegistered", resigned) < kinds.index("ControllerElected", resigned)
    assert [e.reason for e in world.events(ControllerResigned)] == ["session_expired"]
    assert node.controller.broker_epoch > old_epoch
    assert node.controller.broker_epoch == world.ensemble.nodes["/brokers/ids/1"].czxid
    assert epoch(world) == ("2", 2)


def test_propagation_is_reported_after_all_brokers_have_replied(world: World) -> None:
    world.start(1)
    world.join(2, 3)
    world.settle()
    world.unreachable.add(3)
    world.start(4)
    world.kill(1)
    world.settle()
    assert [e.broker_id for e in world.events(ControllerPropagated)] == [1], "3 has not answered"
    world.unreachable.discard(3)
    world.run(2_000)
    first, second = world.events(ControllerPropagated)
    assert (first.broker_id, first.brokers, second.broker_id, second.brokers) == (1, 1, 4, 3)
    assert second.propagate_ms >= 200


def test_broker_knows_no_controller_before_its_first_request(world: World) -> None:
    node = Node(world, 1, ControllerConfig())
    assert (node.controller.active_controller_id, node.controller.controller_epoch) == (-1, 0)
    node.start()
    world.settle()
    assert (node.controller.active_controller_id, node.controller.controller_epoch) == (1, 1)


def test_first_broker_creates_the_persistent_paths() -> None:
    world = World()
    for path in list(world.ensemble.nodes):
        if path != "/" and path in world.ensemble.nodes:
            world.ensemble.delete(path)
    world.start(1)
    assert [path for path in znodes.PERSISTENT_PATHS if path not in world.ensemble.nodes] == []
    assert world.nodes[1].controller.is_active


def test_term_ended_by_session_expiry_reports_no_rejected_write(world: World) -> None:
    """A controller whose session has expired reports no rejected write when it resigns.

    Its /controller znode was deleted with the session, so the resignation finds nothing to delete.
    """
    world.start(1)
    world.ensemble.end_session(world.nodes[1].session.session_id)
    world.settle()
    assert epoch(world) == ("2", 2)
    assert not world.events(WriteFenced)


def test_session_expiry_during_an_event_ends_the_event_and_term(world: World) -> None:
    world.start(1)
    node = world.nodes[1]
    world.join(2)
    world.create_topic("t", {n: [2] for n in range(50)})
    world.run(6)
    world.ensemble.end_session(node.session.session_id)
    world.settle()
    assert node.controller.is_active and epoch(world) == ("2", 2)
    assert [e.reason for e in world.events(ControllerResigned)] == ["session_expired"]
    assert not world.events(ControllerEventFailed)
    assert all(world.brief("t", n) == (2, (2,), 0) for n in range(50))


def test_resumed_former_controller_finds_the_new_controller(world: World) -> None:
    world.start(1, 2, 3)
    world.join(4, 5)
    world.create_topic("t", {0: [4, 5]})
    world.settle()
    zombie = world.active()
    zombie.runtime.pause()
    world.ensemble.end_session(zombie.session.session_id)
    world.settle()
    successor = world.active()
    assert successor is not zombie and zombie.controller.is_active
    world.leave(4)
    world.create_topic("u", {0: [5]})
    world.settle()
    assert world.brief("t") == (5, (5,), 1) and world.state("u").controller_epoch == 2
    received = len(world.received)
    zombie.runtime.resume()
    world.settle()
    assert not zombie.controller.is_active and successor.controller.is_active
    assert zombie.controller.active_controller_id == successor.broker_id
    assert epoch(world) == ("2", 2)
    assert not any(
        row.kind == "LeaderAndIsr" and row.request.controller_epoch == 1 for row in world.received[received:]
    )
    assert world.brief("t") == (5, (5,), 1)
    resigned = world.events(ControllerResigned, zombie.broker_id)
    assert [e.reason for e in resigned] == ["session_expired"]


def test_lost_controller_session_is_followed_by_an_election(world: World) -> None:
    world.start(1, 2)
    loser = next(n for n in world.nodes.values() if not n.controller.is_active)
    winner = world.active()
    # /controller is deleted, created and deleted before the other broker reads it. So its watch fires only once.
    loser.session.hold_watches = True
    world.kill(winner.broker_id)
    world.ensemble.put(znodes.CONTROLLER, znodes.encode_controller(50, 0), owner=0x5050)
    world.ensemble.end_session(0x5050)
    loser.session.release_watches()
    world.settle()
    assert loser.controller.is_active and epoch(world) == ("2", 2)


def test_invalid_controller_znode_is_journaled(world: World) -> None:
    world.ensemble.put(znodes.CONTROLLER, b"\xff{", owner=0x5050)
    world.start(1)
    assert world.events(ControllerEventFailed)
    assert not world.nodes[1].controller.is_active
    world.ensemble.end_session(0x5050)
    world.run(1_500)
    assert world.nodes[1].controller.is_active


@pytest.mark.scenario(11)
def test_shutdown_skips_queued_events_and_fails_their_callers(world: World) -> None:
    world.start(1)
    world.join(2)
    world.create_topic("t", {0: [2]})
    world.settle()
    controller = world.nodes[1].controller
    # While one event is processed, queue requests of every type.
    world.create_topic("u", {0: [2]})
    world.run(3)
    alter = controller.alter_partition(AlterPartitionRequest(broker_id=2, broker_epoch=5, topics=()))
    stop = controller.controlled_shutdown(ControlledShutdownRequest(broker_id=2, broker_epoch=-1))
    elect = controller.elect_leaders(ElectLeadersRequest(election_type=0, topic_partitions=None))
    move = controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=()))
    moving = controller.list_partition_reassignments(ListPartitionReassignmentsRequest(topics=None))
    world.call(controller.shutdown())
    assert world.call(alter).error_code is KafkaError.not_controller
    assert world.call(stop).error_code is KafkaError.stale_controller_epoch
    assert world.call(elect).error_code is KafkaError.not_controller
    assert world.call(move).error_code is KafkaError.not_controller
    assert world.call(moving).error_code is KafkaError.not_controller
    assert world.brief("u") == (2, (2,), 0)
    assert not controller.is_active
    assert [e.reason for e in world.events(ControllerResigned)] == ["shutdown"]
    # A request after the shutdown fails at once, so that its caller does not wait forever.
    again = controller.alter_partition(AlterPartitionRequest(broker_id=2, broker_epoch=5, topics=()))
    assert world.call(again).error_code is KafkaError.not_controller
    world.call(controller.shutdown())


def test_shutdown_does_not_wait_for_an_unresponsive_ensemble(world: World) -> None:
    world.start(1)
    world.join(2)
    world.nodes[1].session.lose_requests = 10**9
    world.create_topic("u", {0: [2]})
    world.run(50)
    before_us = world.scheduler.now_us
    world.call(world.nodes[1].controller.shutdown())
    assert world.scheduler.now_us - before_us <= 2_100_000
    assert not world.nodes[1].controller.is_active


def test_non_controller_rejects_requests_to_the_controller(world: World) -> None:
    world.start(1, 2)
    loser = next(n for n in world.nodes.values() if not n.controller.is_active).controller
    request = AlterPartitionRequest(broker_id=2, broker_epoch=5, topics=())
    assert world.call(loser.alter_partition(request)).error_code is KafkaError.not_controller
    shutdown = ControlledShutdownRequest(broker_id=2, broker_epoch=-1)
    assert world.call(loser.controlled_shutdown(shutdown)).error_code is KafkaError.stale_controller_epoch
    asked = ElectLeadersRequest(election_type=0, topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),))
    answer = world.call(loser.elect_leaders(asked))
    assert answer.error_code is KafkaError.not_controller
    [row] = answer.replica_election_results[0].partition_result
    assert row.error_code is KafkaError.not_controller


@pytest.mark.scenario(34)
def test_death_of_controller_leading_a_partition_adds_two_epochs(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.active().broker_id
    others = sorted({1, 2, 3} - {leader})
    world.create_topic("t", {0: [leader, *others]})
    world.settle()
    assert world.brief("t") == (leader, (leader, *others), 0)
    world.kill(leader)
    world.settle()
    assert world.brief("t") == (others[0], tuple(others), 2)
    causes = [(e.leader, e.leader_epoch, e.cause) for e in world.events(LeaderElected)]
    assert causes == [(leader, 0, "new_topic"), (-1, 1, "replica_offline"), (others[0], 2, "offline")]
    assert [e.controller_epoch for e in world.events(LeaderElected)] == [1, 2, 2]


def test_controller_moved_error_is_not_a_zookeeper_error() -> None:
    from zabka.ensemble.errors import ZooKeeperError

    assert not issubclass(ControllerMoved, ZooKeeperError)

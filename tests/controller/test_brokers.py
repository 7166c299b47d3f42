"""Broker registration, broker epochs and the control plane (acceptance scenarios 16 to 25)."""

from __future__ import annotations

from importlib import import_module

import pytest
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_world import World
from tests.controller.fake_ensemble import FakeEnsemble, FakeSession
from zabka.journal.events import (
    BrokerLivenessChanged,
    BrokerRegistered,
    ControllerEventFailed,
    LeaderElected,
    TopicPartition,
)
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.registration import BrokerIdInUse, cluster_id, create_persistent_paths, register_broker
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo


@pytest.fixture
def world() -> World:
    return World()


T0 = TopicPartition("t", 0)
INFO = BrokerInfo(5, (BrokerEndpoint("PLAINTEXT", "h", 9092),))


def session(world: World) -> tuple[FakeSession, Zk]:
    from random import Random

    from tests.virtual_time.runtime import SimRuntime

    runtime = SimRuntime(world.scheduler, Random(0))
    opened = FakeSession(world.ensemble, runtime)
    opened.open()
    return opened, Zk(opened, runtime)


# ---- registration ---------------------------------------------------------------------------------------------


def test_broker_epoch_is_the_czxid_of_the_registration(world: World) -> None:
    world.start(1)
    node = world.ensemble.nodes["/brokers/ids/1"]
    assert world.nodes[1].controller.broker_epoch == node.czxid
    assert node.owner == world.nodes[1].session.session_id and node.version == 1
    [registered] = world.events(BrokerRegistered)
    assert (registered.broker_epoch, registered.session_id) == (node.czxid, node.owner)


def test_registration_with_a_lost_response_is_recognized(world: World) -> None:
    opened, zk = session(world)
    opened.lose_replies = 1
    epoch = world.call(register_broker(zk, INFO, 0, {}))
    assert epoch == world.ensemble.nodes["/brokers/ids/5"].czxid
    assert len(opened.multis) == 2


@pytest.mark.scenario(21)
def test_registration_of_a_brokers_earlier_session_is_replaced(world: World) -> None:
    opened, zk = session(world)
    old = world.ensemble.put("/brokers/ids/5", b"{}", owner=0x4444)
    epoch = world.call(register_broker(zk, INFO, 0, {0x4444: None}))
    assert epoch > old.czxid
    assert world.ensemble.nodes["/brokers/ids/5"].owner == opened.session_id


@pytest.mark.scenario(21)
def test_registration_of_another_session_is_rejected(world: World) -> None:
    _opened, zk = session(world)
    world.ensemble.put("/brokers/ids/5", b"{}", owner=0x4444)
    with pytest.raises(BrokerIdInUse) as caught:
        world.call(register_broker(zk, INFO, 0, {}))
    assert caught.value.owner == 0x4444
    assert world.ensemble.nodes["/brokers/ids/5"].owner == 0x4444


def test_controller_start_can_be_retried_after_broker_id_in_use(world: World) -> None:
    from tests.controller.controller_world import Node
    from zabka.controller.config import ControllerConfig

    world.ensemble.put("/brokers/ids/1", b"{}", owner=0x4444)
    node = world.nodes[1] = Node(world, 1, ControllerConfig())
    node.session.open()
    with pytest.raises(BrokerIdInUse):
        world.call(node.controller.startup())
    world.ensemble.end_session(0x4444)
    world.call(node.controller.startup())
    world.settle()
    assert node.controller.is_active


def test_failed_registration_is_journaled_and_retried(world: World) -> None:
    # KAFKA-14845: if another session owns the registration, Kafka's broker stays outside the cluster until it is
    # restarted.
    world.start(1)
    node = world.nodes[1]
    world.ensemble.end_session(node.session.session_id)
    world.ensemble.put("/brokers/ids/1", b"{}", owner=0x4444)
    world.run(2_500)
    assert not node.controller.is_active
    assert all(e.event == "RegisterBrokerAndReelect" for e in world.events(ControllerEventFailed))
    assert 2 <= len(world.events(ControllerEventFailed)) <= 4
    world.ensemble.end_session(0x4444)
    world.run(1_500)
    assert node.controller.is_active
    assert node.controller.broker_epoch == world.ensemble.nodes["/brokers/ids/1"].czxid


def test_persistent_paths_are_created_with_their_parents() -> None:
    world = World()
    world.ensemble = FakeEnsemble()
    _, zk = session(world)
    world.call(create_persistent_paths(zk))
    world.call(create_persistent_paths(zk))
    assert {"/brokers", "/config/topics", "/config/changes", "/admin/delete_topics"} <= set(world.ensemble.nodes)
    assert set(znodes.PERSISTENT_PATHS) <= set(world.ensemble.nodes)


def test_cluster_id_is_created_once(world: World) -> None:
    from random import Random

    _, zk = session(world)
    first = world.call(cluster_id(zk, Random(1)))
    assert len(first) == 22
    assert world.call(cluster_id(zk, Random(2))) == first
    assert world.ensemble.data("/cluster/id") == b'{"version":"1","id":"' + first.encode() + b'"}'


# ---- the control plane ----------------------------------------------------------------------------------------


@pytest.mark.scenario(16)
def test_controller_uses_broker_epochs_from_the_registrations(world: World) -> None:
    world.start(1, 2)
    world.join(3)
    world.settle()
    context = world.active().controller.term.context
    assert context.live_ids == [1, 2, 3]
    for broker_id in (1, 2, 3):
        assert context.broker_epoch(broker_id) == world.ensemble.nodes[f"/brokers/ids/{broker_id}"].czxid


def test_control_request_has_the_broker_epoch_of_its_receiver(world: World) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    for received in world.received:
        if received.to in (1, 2):
            assert received.request.broker_epoch == world.ensemble.nodes[f"/brokers/ids/{received.to}"].czxid
        assert received.request.controller_id == 1 and received.request.controller_epoch == 1
        assert not received.request.is_k_raft_controller


@pytest.mark.scenario(20)
def test_bounced_broker_is_handled_as_failed_and_then_started(world: World) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    old = world.active().controller.term.context.broker_epoch(2)
    # Broker 2 leaves and returns before the controller reads the list of brokers, so the list itself is unchanged.
    world.ensemble.end_session(0x9002)
    world.join(2)
    world.settle()
    [last] = [e for e in world.events(BrokerLivenessChanged) if e.bounced]
    assert (last.live, last.added, last.bounced, last.removed) == ([1, 2, 3], [], [2], [])
    context = world.active().controller.term.context
    assert context.broker_epoch(2) == world.ensemble.nodes["/brokers/ids/2"].czxid > old
    assert world.brief("t") == (3, (3,), 1)
    assert 2 in world.nodes[1].channel.forgotten
    # The controller sends the broker the state of all its replicas, because the broker is a new process.
    assert world.requests("LeaderAndIsr", 2)[-1].partitions()[T0].leader == 3


@pytest.mark.parametrize("intact", [2, 3])
def test_isr_keeps_a_bounced_member_with_an_intact_log(world: World, intact: int) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(2, 3)
    for broker_id in (2, 3):
        world.join(broker_id, intact=broker_id == intact)
    world.settle()
    assert [e.bounced for e in world.events(BrokerLivenessChanged) if e.bounced] == [[2, 3]]
    assert world.brief("t")[:2] == (intact, (intact,))


@pytest.mark.parametrize("away", [2, 3])
def test_bounced_member_with_intact_log_leads_if_the_others_died(world: World, away: int) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]}, unclean_leader_election_enable="false")
    world.settle()
    back = 5 - away
    world.leave(2, 3)
    world.join(back, intact=True)
    world.settle()
    assert [(e.bounced, e.removed) for e in world.events(BrokerLivenessChanged) if e.bounced] == [([back], [away])]
    assert world.brief("t")[:2] == (back, (back,))


def test_election_waits_for_the_dead_last_isr_member(world: World) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]}, unclean_leader_election_enable="false")
    world.settle()
    world.leave(2, 3)
    world.join(3)
    world.settle()
    assert world.brief("t")[:2] == (-1, (2,))


def test_broker_that_bounces_twice_is_detected_twice(world: World) -> None:
    world.start(1)
    world.join(2)
    world.settle()
    for _ in range(2):
        world.ensemble.end_session(0x9002)
        world.join(2)
        world.settle()
    assert len([e for e in world.events(BrokerLivenessChanged) if e.bounced == [2]]) == 2


@pytest.mark.scenario(23)
def test_brokers_without_replicas_are_listed_in_the_metadata(world: World) -> None:
    world.start(1)
    world.join(2)
    world.settle()

    def live(to: int) -> list[int]:
        return [b.id_ for b in world.requests("UpdateMetadata", to)[-1].request.live_brokers]

    assert live(1) == live(2) == [1, 2]
    world.join(3, rack="r3")
    world.settle()
    assert live(1) == live(2) == live(3) == [1, 2, 3]
    [broker] = [b for b in world.requests("UpdateMetadata", 1)[-1].request.live_brokers if b.id_ == 3]
    assert broker.rack == "r3"
    [endpoint] = broker.endpoints
    assert (endpoint.host, endpoint.port, endpoint.listener, endpoint.security_protocol) == (
        "b3",
        9092,
        "PLAINTEXT",
        0,
    )
    world.leave(3)
    world.settle()
    assert live(1) == live(2) == [1, 2]
    changes = [(e.live, e.added, e.removed) for e in world.events(BrokerLivenessChanged)]
    assert changes[0] == ([1], [1], [])
    assert changes[-2:] == [([1, 2, 3], [3], []), ([1, 2], [], [3])]


@pytest.mark.scenario(24)
def test_metadata_lists_dead_replicas_as_offline(world: World) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2]})
    world.settle()
    world.leave(2)
    world.settle()
    assert world.brief("t") == (-1, (2,), 1)
    row = world.requests("UpdateMetadata", 3)[-1].partitions()[T0]
    assert (row.leader, row.offline_replicas, row.isr, row.leader_epoch) == (-1, (2,), (2,), 1)
    assert row.zk_version == world.state("t").partition_epoch == 1


@pytest.mark.scenario(25)
def test_control_requests_are_sent_only_to_registered_brokers(world: World) -> None:
    world.start(1)
    world.join(2, 3, 4)
    world.create_topic("t", {0: [2, 3, 4]})
    world.settle()
    world.leave(4)
    world.settle()
    marked = len(world.received)
    controller = world.nodes[1].controller
    world.call(controller.controlled_shutdown(ControlledShutdownRequest(broker_id=3, broker_epoch=-1)))
    world.settle()
    assert world.brief("t") == (2, (2,), 2)
    kinds = {(received.kind, received.to) for received in world.received[marked:]}
    assert ("StopReplica", 3) in kinds and ("LeaderAndIsr", 2) in kinds and ("UpdateMetadata", 3) in kinds
    assert not any(to == 4 for _, to in kinds)


def test_live_broker_list_is_sent_before_leader_and_isr_requests(world: World) -> None:
    # KAFKA-4443: the list of live brokers must be sent before LeaderAndIsr requests.
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.kill(1)
    world.received.clear()
    world.start(4)
    for broker_id in (2, 3):
        received = [row for row in world.received if row.to == broker_id]
        assert received[0].kind == "UpdateMetadata" and not received[0].request.topic_states
        assert [b.id_ for b in received[0].request.live_brokers] == [2, 3, 4]
        assert "LeaderAndIsr" in [row.kind for row in received[1:]]


def test_unanswered_request_is_retried_every_100_ms_in_order(world: World) -> None:
    world.start(1)
    world.join(2, 3)
    world.settle()
    world.unreachable.add(3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.create_topic("u", {0: [3]})
    world.run(1_000)
    channels = world.nodes[1].controller.term.channels
    assert channels.queue_size(3) > 2 and channels.queue_size(2) == 0
    marked = len(world.received)
    world.unreachable.discard(3)
    world.run(150)
    topics = [
        row.request.topic_states[0].topic_name
        for row in world.received[marked:]
        if row.to == 3 and row.kind == "LeaderAndIsr"
    ]
    assert topics == ["t", "u"] and channels.queue_size(3) == 0


def test_changed_broker_endpoint_is_sent_to_all_brokers(world: World) -> None:
    world.start(1)
    world.join(2)
    world.settle()
    moved = BrokerInfo(2, (BrokerEndpoint("PLAINTEXT", "elsewhere", 7),))
    world.ensemble.put("/brokers/ids/2", znodes.encode_broker(moved, 0))
    world.settle()
    brokers = world.requests("UpdateMetadata", 1)[-1].request.live_brokers
    assert [e.host for b in brokers for e in b.endpoints] == ["b1", "elsewhere"]


def test_unreadable_registration_is_ignored_and_journaled(world: World) -> None:
    world.start(1)
    world.ensemble.put("/brokers/ids/8", b"garbage", owner=0x8888)
    world.join(2)
    world.settle()
    assert world.active().controller.term.context.live_ids == [1, 2]
    assert "/brokers/ids/8" in world.events(ControllerEventFailed)[0].problem


# ---- controlled shutdown --------------------------------------------------------------------------------------


def shut_down(world: World, broker_id: int, broker_epoch: int = -1):
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    return world.call(world.active().controller.controlled_shutdown(request))


@pytest.mark.scenario(22)
def test_controlled_shutdown_with_a_stale_epoch_is_rejected(world: World) -> None:
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    context = world.active().controller.term.context
    epoch = context.broker_epoch(2)
    assert shut_down(world, 2, epoch - 1).error_code is KafkaError.stale_broker_epoch
    assert 2 not in context.shutting_down and world.brief("t") == (2, (2, 3), 0)
    assert shut_down(world, 2, epoch).error_code is KafkaError.none
    assert shut_down(world, 9).error_code is KafkaError.broker_not_available


@pytest.mark.scenario(37)
def test_all_brokers_can_shut_down_one_after_the_other(world: World) -> None:
    # Port of Kafka's testControlledShutdown.
    world.start(9)
    world.join(0, 1, 2)
    world.create_topic("t", {0: [0, 1, 2]})
    world.settle()
    answer = shut_down(world, 2)
    assert (answer.error_code, answer.remaining_partitions) == (KafkaError.none, ())
    assert world.brief("t") == (0, (0, 1), 1)
    assert [e.cause for e in world.events(LeaderElected)][-1] == "controlled_shutdown"
    assert shut_down(world, 1).remaining_partitions == ()
    assert world.brief("t") == (0, (0,), 2)
    answer = shut_down(world, 0)
    [remaining] = answer.remaining_partitions
    assert (remaining.topic_name, remaining.partition_index) == ("t", 0)
    assert world.brief("t") == (0, (0,), 2)


def test_controlled_shutdown_moves_leaders_with_one_new_epoch(world: World) -> None:
    world.start(9)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.create_topic("alone", {0: [2]})
    world.settle()
    answer = shut_down(world, 2)
    assert answer.remaining_partitions == ()
    assert world.brief("t") == (3, (3,), 1)
    assert world.brief("alone") == (2, (2,), 0)
    assert [e.cause for e in world.events(LeaderElected)][-1] == "controlled_shutdown"
    world.settle()
    received = world.requests("LeaderAndIsr", 2)[-1]
    assert received.partitions()[T0].leader == 3
    # Stop the broker. Partitions that another broker already leads must not change.
    world.leave(2)
    world.settle()
    assert world.brief("t") == (3, (3,), 1) and world.brief("alone") == (-1, (2,), 1)
    # When the broker returns, it can lead partitions again.
    world.join(2)
    world.settle()
    assert world.active().controller.term.context.shutting_down == set()
    assert world.brief("alone") == (2, (2,), 2)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_controlled_shutdown_response_has_version_of_the_request(world: World, version: int) -> None:
    world.start(9)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]})
    world.create_topic("u", {0: [2]})
    world.settle()
    schema = import_module(f"kio.schema.controlled_shutdown.v{version}.request")
    epochs = {"broker_epoch": world.active().controller.term.context.broker_epoch(2)} if version == 2 else {}
    answer = world.call(
        world.active().controller.controlled_shutdown(schema.ControlledShutdownRequest(broker_id=2, **epochs))
    )
    assert (answer.error_code, answer.__version__) == (KafkaError.none, version)
    assert world.brief("t") == (3, (3,), 1)


# ---- responses in the request's version -----------------------------------------------------------------------


def test_control_requests_survive_a_round_trip(world: World) -> None:
    from io import BytesIO

    from kio.serial import entity_reader, entity_writer

    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]}, unclean_leader_election_enable="true")
    world.settle()
    world.leave(3)
    world.settle()
    world.leave(2)
    world.settle()
    world.join(3)
    world.settle()
    world.join(2, rack="r")
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert {received.kind for received in world.received} == {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}
    for received in world.received:
        kind = type(received.request)
        buffer = BytesIO()
        entity_writer(kind)(buffer, received.request)
        decoded, _ = entity_reader(kind)(buffer.getvalue(), 0)
        assert decoded == received.request

"""Topics: creation, partition increase and deletion (acceptance scenarios 26 to 31)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller import controller_world
from tests.controller.controller_requests import ask_for_isr
from tests.controller.controller_world import World
from zabka.controller.context import ControllerContext, PartitionState, Replica, ReplicaState
from zabka.controller.request_batch import RequestBatch
from zabka.ensemble.client.service import Delete, Op
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import (
    ControllerEventFailed,
    LeaderElected,
    TopicCreated,
    TopicDeleted,
    TopicPartition,
)
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import ReplicaAssignment

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> World:
    made = World()
    made.start(1)
    made.join(2, 3)
    made.settle()
    made.received.clear()
    return made


@pytest.mark.scenario(26)
def test_new_topic_is_led_by_the_first_replica(world: World) -> None:
    world.create_topic("t", {0: [2, 3], 1: [3, 2]})
    world.settle()
    for path in ("/brokers/topics/t/partitions", "/brokers/topics/t/partitions/0"):
        assert world.ensemble.nodes[path].data is None
    assert world.ensemble.data("/brokers/topics/t/partitions/0/state") == (
        b'{"version":1,"leader":2,"leader_epoch":0,"controller_epoch":1,"isr":[2,3]}'
    )
    assert world.brief("t", 1) == (3, (3, 2), 0)
    [created] = world.events(TopicCreated)
    content = json.loads(world.ensemble.data("/brokers/topics/t"))
    assert (created.topic, created.topic_id) == ("t", content["topic_id"])
    assert created.assignment == {0: [2, 3], 1: [3, 2]}
    elected = world.events(LeaderElected)
    assert [(e.partition, e.leader, e.leader_epoch, e.partition_epoch) for e in elected] == [
        (0, 2, 0, 0),
        (1, 3, 0, 0),
    ]
    assert all(e.cause == "new_topic" and not e.unclean and e.replicas == e.isr for e in elected)
    assert elected[0].zxid == world.ensemble.nodes["/brokers/topics/t/partitions/0/state"].czxid


def test_new_topic_is_sent_once_to_its_replicas_and_in_metadata(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    assert not world.requests("LeaderAndIsr", 1)
    for broker_id in (2, 3):
        [received] = world.requests("LeaderAndIsr", broker_id)
        row = received.partitions()[T0]
        assert row.is_new and (row.leader, row.isr, row.replicas) == (2, (2, 3), (2, 3))
        assert (row.leader_epoch, row.partition_epoch, row.controller_epoch) == (0, 0, 1)
        assert received.request.type_ == 0
        [leader] = received.request.live_leaders
        assert (leader.broker_id, leader.host_name, leader.port) == (2, "b2", 9092)
        topic_id = json.loads(world.ensemble.data("/brokers/topics/t"))["topic_id"]
        from zabka.kafka.topic_ids import topic_id_to_kafka

        assert received.request.topic_states[0].topic_id == topic_id_to_kafka(topic_id)
        order = [row.kind for row in world.received if row.to == broker_id]
        assert order.index("LeaderAndIsr") < order.index("UpdateMetadata")
    assert world.requests("UpdateMetadata", 1)[-1].partitions()[T0].leader == 2


@pytest.mark.scenario(27)
def test_dead_replica_is_not_in_the_isr_of_a_new_topic(world: World) -> None:
    world.leave(2)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    assert world.brief("t") == (3, (3,), 0)
    row = world.requests("UpdateMetadata", 1)[-1].partitions()[T0]
    assert row.offline_replicas == (2,)


@pytest.mark.scenario(29)
def test_partition_without_a_live_replica_remains_new(world: World) -> None:
    world.create_topic("t", {0: [7, 8]})
    world.settle()
    assert "/brokers/topics/t/partitions/0/state" not in world.ensemble.nodes
    context = world.active().controller.term.context
    assert context.partition_states[T0] is PartitionState.NEW
    world.join(8)
    world.settle()
    assert world.brief("t") == (8, (8,), 0)
    assert context.partition_states[T0] is PartitionState.ONLINE
    world.join(7)
    world.settle()
    assert world.brief("t") == (8, (8,), 0)
    assert world.requests("LeaderAndIsr", 7)[-1].partitions()[T0].leader == 8


@pytest.mark.scenario(28)
def test_new_partitions_of_a_topic_come_online(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.create_topic("t", {0: [2, 3], 1: [3, 2]})
    world.settle()
    assert world.brief("t", 1) == (3, (3, 2), 0) and world.brief("t", 0) == (2, (2, 3), 0)
    world.leave(2)
    world.settle()
    world.create_topic("t", {0: [2, 3], 1: [3, 2], 2: [2, 3]})
    world.settle()
    assert world.brief("t", 2) == (3, (3,), 0)
    assert len(world.events(TopicCreated)) == 1


@pytest.mark.scenario(33)
def test_topic_keeps_its_id_after_elections_and_restarts(world: World) -> None:
    world.create_topic("t", {0: [2]})
    world.settle()
    written = world.ensemble.nodes[znodes.topic_path("t")]
    before, version = world.active().controller.term.context.topic_ids["t"], written.version
    for successor in (4, 1):
        world.kill(world.active().broker_id)
        world.start(successor)
        assert world.active().controller.term.context.topic_ids["t"] == before
    assert written.version == version, "the id is written once"


def test_topic_id_removed_by_an_old_tool_is_restored(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    before = json.loads(world.ensemble.data("/brokers/topics/t"))["topic_id"]
    # The topic znode as written by kafka-topics --zookeeper --alter of Kafka 2.4 to 2.7: it has no topic id.
    rows = '{"0":[2,3],"1":[3,2]}'
    old = f'{{"version":2,"partitions":{rows},"adding_replicas":{{}},"removing_replicas":{{}}}}'
    world.ensemble.put("/brokers/topics/t", old.encode())
    world.settle()
    now = json.loads(world.ensemble.data("/brokers/topics/t"))
    assert (now["topic_id"], now["partitions"]) == (before, json.loads(rows))
    assert world.brief("t", 1) == (3, (3, 2), 0)
    assert [e.problem for e in world.events(ControllerEventFailed)] == [
        "/brokers/topics/t has lost its topic id; written again"
    ]


@pytest.mark.scenario(33)
def test_topic_without_an_id_gets_a_new_id(world: World) -> None:
    world.ensemble.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[2]}}')
    world.settle()
    content = json.loads(world.ensemble.data("/brokers/topics/t"))
    assert content["version"] == 3 and len(content["topic_id"]) == 22 and content["partitions"] == {"0": [2]}
    assert world.events(TopicCreated)[0].topic_id == content["topic_id"]
    # The topic keeps its id under the next controller.
    world.kill(1)
    world.start(4)
    assert json.loads(world.ensemble.data("/brokers/topics/t")) == content


def test_partitions_added_during_id_assignment_are_kept(world: World) -> None:
    path = znodes.topic_path("t")
    world.ensemble.put(path, b'{"version":1,"partitions":{"0":[2]}}')
    seen = world.ensemble.nodes[path]
    term = world.active().controller.term
    read_topics = term.read_topics

    async def read_then_altered(topics: Sequence[str]) -> dict[str, znodes.TopicAssignment]:
        found = await read_topics(topics)
        if topics and seen.version == 0:
            world.ensemble.put(path, b'{"version":1,"partitions":{"0":[2],"1":[3]}}')
        return found

    term.read_topics = read_then_altered
    world.settle()
    content = json.loads(world.ensemble.data(path))
    assert len(content["topic_id"]) == 22 and content["partitions"] == {"0": [2], "1": [3]}
    assert world.brief("t", 1) == (3, (3,), 0)


def test_unreadable_topic_is_ignored_and_journaled(world: World) -> None:
    world.ensemble.put("/brokers/topics/bad", b"{")
    world.create_topic("t", {0: [2]})
    world.settle()
    assert world.brief("t") == (2, (2,), 0) and world.nodes[1].controller.is_active
    assert "/brokers/topics/bad" in world.events(ControllerEventFailed)[0].problem


def test_repaired_topic_is_loaded_with_its_isr(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    assert ask_for_isr(world, [2], "t") is KafkaError.none
    sound = world.ensemble.data("/brokers/topics/t")
    world.ensemble.put("/brokers/topics/t", b'{"version":3,')
    world.kill(1)
    world.start(4)
    assert world.brief("t") == (2, (2,), 0)
    world.ensemble.put("/brokers/topics/t", sound)
    world.settle()
    assert world.brief("t") == (2, (2,), 1)
    assert world.active().controller.term.unreadable_topics == {}
    # The topic is handled normally again: replica 3 is out of sync, so it is not elected while broker 2 is down.
    world.leave(2)
    world.settle()
    assert world.brief("t") == (-1, (2,), 2)
    world.join(2)
    world.settle()
    assert world.brief("t") == (2, (2,), 3)
    assert len(world.events(TopicCreated)) == 1


def test_topic_created_without_a_controller_is_loaded_later(world: World) -> None:
    world.kill(1)
    world.create_topic("t", {0: [2, 3]})
    world.start(4)
    assert world.brief("t") == (2, (2, 3), 0)
    assert [e.topic for e in world.events(TopicCreated)] == ["t"]
    world.kill(4)
    world.start(5)
    assert [e.topic for e in world.events(TopicCreated)] == ["t"]


# ---- deletion -------------------------------------------------------------------------------------------------


def gone(world: World, topic: str) -> bool:
    paths = (
        znodes.topic_path(topic),
        znodes.config_path("topics", topic),
        znodes.delete_topic_path(topic),
    )
    return not any(path in world.ensemble.nodes for path in paths)


@pytest.mark.scenario(30)
def test_topic_deletion_first_removes_replicas_and_then_znodes(world: World) -> None:
    world.create_topic("t", {0: [2, 3], 1: [3, 2]}, min_insync_replicas="2")
    world.settle()
    world.received.clear()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert gone(world, "t")
    assert [e.topic for e in world.events(TopicDeleted)] == ["t"]
    for broker_id in (2, 3):
        stops = world.requests("StopReplica", broker_id)
        rows = [row for received in stops for row in received.partitions().values()]
        assert {row.leader_epoch for row in rows} == {-2}
        assert [row.delete_partition for row in rows] == [False, False, True, True]
    first = world.received[0]
    assert first.kind == "UpdateMetadata" and first.partitions()[T0].leader == -2
    assert not world.requests("LeaderAndIsr")
    context = world.active().controller.term.context
    assert not context.has_topic("t") and not context.topics_to_be_deleted
    assert not context.replica_states and not context.leadership and not context.partition_states


def test_topic_with_many_partitions_is_deleted_in_few_requests(world: World) -> None:
    """A topic of a thousand partitions, with 2,002 znodes, is deleted in less than a second.

    The event queue and every election wait until the znodes are deleted.
    """
    world.create_topic("t", {number: [2, 3] for number in range(1_000)})
    world.run(3_000)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.run(1_000)
    assert gone(world, "t")


class _NeverWalked(dict[Replica, ReplicaState]):
    """Replica states that can be looked up, but not iterated over."""

    def __iter__(self) -> Iterator[Replica]:
        raise AssertionError("every replica of the cluster was looked at")


def test_topic_removal_does_not_scan_all_replicas() -> None:
    context = ControllerContext(1, 1)
    for topic in ("t", "u"):
        context.add_topic(topic, None)
        context.set_assignment(TopicPartition(topic, 0), ReplicaAssignment((2, 3)))
    replicas = context.replicas_of(context.partitions)
    context.replica_states = _NeverWalked(dict.fromkeys(replicas, ReplicaState.ONLINE))
    context.remove_topic("t")
    assert [replica in context.replica_states for replica in replicas] == [False, False, True, True]


def test_failover_with_many_dead_replicas_is_not_quadratic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create_topic("t", {0: [2, 3, *range(1_000, 1_200)]})
    world.settle()
    received: list[int] = []
    add_leader_and_isr = RequestBatch.add_leader_and_isr

    def counted(
        batch: RequestBatch, broker_ids: Sequence[int], partition: TopicPartition, state: Any, *, is_new: bool
    ) -> None:
        received.extend(broker_ids)
        add_leader_and_isr(batch, broker_ids, partition, state, is_new=is_new)

    monkeypatch.setattr(RequestBatch, "add_leader_and_isr", counted)
    world.kill(1)
    world.received.clear()
    world.start(9)
    world.run(2_000)
    assert len(received) < 1_000
    # The new controller still sends its requests to live brokers.
    assert world.requests("LeaderAndIsr", 2) and world.requests("LeaderAndIsr", 3)


def test_deleted_topic_can_be_recreated(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    first = world.events(TopicCreated)[0].topic_id
    world.leave(3)
    world.join(3)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert gone(world, "t")
    world.create_topic("t", {0: [3]})
    world.settle()
    assert world.brief("t") == (3, (3,), 0) and world.state("t").partition_epoch == 0
    assert world.events(TopicCreated)[1].topic_id != first
    # The controller watches the recreated topic's znode, so it reads the added partition.
    world.create_topic("t", {0: [3], 1: [2]})
    world.settle()
    assert world.brief("t", 1) == (2, (2,), 0)


def test_immediately_recreated_topic_keeps_its_configuration(world: World) -> None:
    world.create_topic("t", {0: [2, 3]}, min_insync_replicas="2")
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.until(lambda: not world.has("t"))
    world.create_topic("t", {0: [3]}, cleanup_policy="compact")
    world.settle()
    assert world.ensemble.data(znodes.config_path("topics", "t")) == znodes.encode_config({"cleanup.policy": "compact"})
    assert world.brief("t") == (3, (3,), 0)


def test_topic_recreated_before_a_retried_deletion_is_kept(world: World) -> None:
    """A topic that is created again before a deletion is retried is not deleted.

    The retry happens because the response to the deletion's last write is lost.
    """
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    last, lost = Delete(znodes.topic_path("t")), list[Op]()

    def is_the_last_one(ops: Sequence[Op]) -> bool:
        is_it = last in ops and not lost
        lost.extend([last] * is_it)
        return is_it

    world.active().session.lose_reply_to = is_the_last_one
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.until(lambda: lost)
    assert not world.has("t")
    world.create_topic("t", {0: [3]})
    world.settle()
    assert world.has("t") and world.brief("t") == (3, (3,), 0)


def test_immediately_recreated_topic_can_be_deleted_immediately(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.until(lambda: not world.has("t"))
    world.create_topic("t", {0: [3]})
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert gone(world, "t")


def test_deletion_request_remains_if_the_topic_cannot_be_removed(world: World) -> None:
    """The deletion request remains if the topic's znodes cannot be removed.

    Otherwise the next controller would load a topic without records and configuration.
    """
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.ensemble.unwritable[znodes.topic_path("t")] = ErrorCode.NO_AUTH
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert znodes.delete_topic_path("t") in world.ensemble.nodes
    del world.ensemble.unwritable[znodes.topic_path("t")]
    world.start(4)
    world.kill(1)
    world.settle()
    assert gone(world, "t")


@pytest.mark.parametrize("path", [znodes.topic_path("t"), znodes.delete_topic_path("t")])
def test_deletion_completes_if_a_client_removes_the_last_znode(world: World, path: str) -> None:
    world.create_topic("t", {0: [2, 3]}, min_insync_replicas="2")
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.until(lambda: znodes.config_path("topics", "t") not in world.ensemble.nodes)
    world.ensemble.delete(path)
    world.settle()
    assert gone(world, "t")
    assert not world.events(ControllerEventFailed)


@pytest.mark.scenario(31)
def test_deletion_waits_for_an_offline_replica(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    context = world.active().controller.term.context
    assert not gone(world, "t") and context.topics_ineligible_for_deletion == {"t"}
    world.join(3)
    world.settle()
    assert gone(world, "t")
    assert [e.topic for e in world.events(TopicDeleted)] == ["t"]


def test_topic_with_a_delayed_deletion_has_no_partition_states(world: World) -> None:
    """Partitions of a topic whose deletion is delayed do not count as offline.

    TopicDeletionManager.onTopicDeletion moves them to the state Offline and then NonExistent.
    """
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.ensemble.put("/admin/delete_topics/t")
    world.settle()
    context = world.active().controller.term.context
    assert context.is_being_deleted("t") and context.partitions_of("t")
    assert list(context.partition_states) == []
    assert context.offline_partition_count == 0


def test_restarted_leader_does_not_lead_a_topic_being_deleted(world: World) -> None:
    # The controller elects no leader for a topic that is being deleted. In this case, Kafka's controller sends the old
    # leader epoch again (seed 17).
    world.create_topic("t", {0: [3]})
    world.settle()
    shutdown = ControlledShutdownRequest(broker_id=3, broker_epoch=-1)
    world.call(world.active().controller.controlled_shutdown(shutdown))
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    world.leave(3)
    world.settle()
    assert world.state("t").leader == 3
    received = len(world.received)
    world.join(3)
    world.settle()
    assert znodes.topic_path("t") not in world.ensemble.nodes
    later = [row for row in world.received[received:] if row.to == 3]
    assert any(row.kind == "StopReplica" for row in later)
    assert not any(row.kind == "LeaderAndIsr" and row.partitions()[T0].leader == 3 for row in later)


@pytest.mark.scenario(32)
def test_broker_failure_halts_the_deletion_of_its_topics(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.unreachable.add(3)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert not gone(world, "t")
    states = world.active().controller.term.context.replica_states
    assert states[Replica(T0, 2)] is ReplicaState.DELETION_SUCCESSFUL
    assert states[Replica(T0, 3)] is ReplicaState.DELETION_STARTED
    world.leave(3)
    world.settle()
    assert not gone(world, "t")
    assert states[Replica(T0, 2)] is ReplicaState.DELETION_SUCCESSFUL
    # The replica was ineligible for deletion. It is now in its earlier state again, so the deletion can be retried.
    assert states[Replica(T0, 3)] is ReplicaState.OFFLINE
    metrics = world.active().controller.metrics()["KafkaController"]
    assert (metrics["TopicsToDeleteCount"], metrics["TopicsIneligibleToDeleteCount"]) == (1, 1)
    assert metrics["ReplicasToDeleteCount"] == 1
    world.join(3)
    world.settle()
    assert gone(world, "t")


def test_deletion_continues_under_the_next_controller(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    world.kill(1)
    world.received.clear()
    world.start(4)
    assert not gone(world, "t")
    # A deletion is not started while a replica's broker is down.
    assert not any(row.delete_partition for t in world.requests("StopReplica") for row in t.partitions().values())
    world.join(3)
    world.settle()
    assert gone(world, "t")


def test_deletion_requested_without_a_controller_runs_later(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.kill(1)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.ensemble.put(znodes.delete_topic_path("never-existed"))
    world.start(4)
    assert gone(world, "t") and gone(world, "never-existed")


def test_topic_is_ineligible_for_deletion_if_a_broker_rejects_it(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.refuse_deletes.add(3)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert not gone(world, "t")
    world.refuse_deletes.clear()
    world.leave(3)
    world.settle()
    world.join(3)
    world.settle()
    assert gone(world, "t")


@pytest.mark.parametrize("bounced_after_ms", range(10, 25))
def test_late_deletion_error_from_a_former_process_is_ignored(
    world: World, monkeypatch: pytest.MonkeyPatch, bounced_after_ms: int
) -> None:
    monkeypatch.setattr(controller_world, "LATENCY_US", 2 * controller_world.LATENCY_US)
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.refuse_deletes.add(2)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.run(bounced_after_ms)
    world.leave(2)
    world.join(2)
    world.run(4)
    world.refuse_deletes.clear()
    world.settle()
    assert gone(world, "t")


def test_deletion_request_for_an_unknown_topic_is_removed(world: World) -> None:
    world.ensemble.put(znodes.delete_topic_path("nothing"))
    world.settle()
    assert gone(world, "nothing") and world.nodes[1].controller.is_active


def test_second_topic_deletion_does_not_wait_for_the_first(
    world: World,
) -> None:
    world.create_topic("t", {0: [2]})
    world.settle()
    # The event of the first topic's deletion is in the queue before the event of the second topic's creation.
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.create_topic("u", {0: [2]})
    world.ensemble.put(znodes.delete_topic_path("u"))
    world.settle()
    assert gone(world, "t") and gone(world, "u")


def test_disabled_deletion_removes_the_request_but_no_topic() -> None:
    world = World()
    world.start(1, delete_topic_enable=False)
    world.join(2)
    world.create_topic("t", {0: [2]})
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert world.brief("t") == (2, (2,), 0)
    assert znodes.delete_topic_path("t") not in world.ensemble.nodes
    # A deletion request that was created while there was no controller is removed as well.
    world.kill(1)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.start(4, delete_topic_enable=False)
    assert world.brief("t") == (2, (2,), 0)
    assert znodes.delete_topic_path("t") not in world.ensemble.nodes


def test_partitions_added_to_a_topic_being_deleted_are_removed(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    world.create_topic("t", {0: [2, 3], 1: [2, 3]})
    world.settle()
    assert json.loads(world.ensemble.data("/brokers/topics/t"))["partitions"] == {"0": [2, 3]}
    world.join(3)
    world.settle()
    assert gone(world, "t")


def test_topic_being_deleted_keeps_its_id_if_old_tools_write_it(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    before = json.loads(world.ensemble.data("/brokers/topics/t"))["topic_id"]
    world.leave(3)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    version = world.ensemble.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[2,3],"1":[2,3]}}').version
    world.settle()
    content = json.loads(world.ensemble.data("/brokers/topics/t"))
    assert (content["topic_id"], content["partitions"]) == (before, {"0": [2, 3]})
    # One write restores both the topic id and the existing partitions.
    assert world.ensemble.nodes["/brokers/topics/t"].version == version + 2


def test_topic_whose_znode_was_removed_is_removed(world: World) -> None:
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.ensemble.delete("/brokers/topics/t")
    world.settle()
    assert [e.topic for e in world.events(TopicDeleted)] == ["t"]
    assert not world.active().controller.term.context.has_topic("t")
    world.leave(2)
    world.settle()
    assert world.nodes[1].controller.is_active and not world.events(ControllerEventFailed)


def test_topic_with_manually_deleted_znodes_can_be_recreated(world: World) -> None:
    """A topic whose znodes were deleted by hand can be created again.

    The deletion request must be removed too; otherwise the next controller would delete the new topic.
    """
    world.create_topic("t", {0: [2, 3]})
    world.settle()
    world.leave(3)
    world.settle()
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    for below in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        world.ensemble.delete(f"{znodes.topic_path('t')}{below}")
    world.settle()
    world.create_topic("t", {0: [2]})
    world.settle()
    world.kill(1)
    world.start(4)
    assert world.brief("t") == (2, (2,), 0)

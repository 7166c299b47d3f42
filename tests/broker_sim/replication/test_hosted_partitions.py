"""The epoch checks of a broker that receives LeaderAndIsr and StopReplica, in order."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import TOPIC_ID, TP, Cluster, batch
from zabka.broker_sim.logs import checkpoints
from zabka.journal import events as e
from zabka.kafka.topic_ids import topic_id_from_kafka
from zabka.kafka.wire.kafka_schema import ApiKey, request


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(2)
    made.create([1, 2])
    return made


def partition_error(response: object) -> int:
    (topic,) = response.topics  # type: ignore[attr-defined]
    (row,) = topic.partition_errors
    return int(row.error_code)


def test_request_for_an_earlier_broker_epoch_is_ignored(cluster: Cluster) -> None:
    newer = {"leader": 2, "leader_epoch": 5, "partition_epoch": 5}
    response = cluster[1].manager.become_leader_or_follower(cluster.leader_and_isr(broker_epoch=99, **newer))
    assert response.error_code == ErrorCode.stale_broker_epoch
    assert partition_error(response) == ErrorCode.stale_broker_epoch
    assert cluster[1].manager.stop_replica(cluster.stop_replica(9, True, broker_epoch=99)).error_code == 77
    assert cluster[1].partition.is_leader
    fenced = cluster.events(e.RequestFenced)
    assert [(x.request, x.reason, x.request_epoch, x.known_epoch, x.sender_id) for x in fenced] == [
        ("LeaderAndIsr", "STALE_BROKER_EPOCH", 99, 100, 9),
        ("StopReplica", "STALE_BROKER_EPOCH", 99, 100, 9),
    ]


@pytest.mark.parametrize("broker_epoch", [-1, 100, 101])
def test_equal_newer_or_missing_broker_epoch_is_accepted(cluster: Cluster, broker_epoch: int) -> None:
    message = cluster.leader_and_isr(broker_epoch=broker_epoch, leader_epoch=1, leader=2, partition_epoch=1)
    response = cluster[1].manager.become_leader_or_follower(message)
    assert (response.error_code, partition_error(response)) == (0, 0)
    assert cluster[1].partition.leader == 2


@pytest.mark.scenario(12)
def test_only_an_older_controller_epoch_is_rejected(cluster: Cluster) -> None:
    manager = cluster[1].manager
    assert manager.become_leader_or_follower(cluster.leader_and_isr(controller_epoch=4, leader_epoch=1)).error_code == 0
    assert manager.controller_epoch == 4
    stale = manager.become_leader_or_follower(cluster.leader_and_isr(controller_epoch=3, leader_epoch=2))
    assert stale.error_code == ErrorCode.stale_controller_epoch
    assert cluster[1].partition.leader_epoch == 1
    equal = manager.become_leader_or_follower(cluster.leader_and_isr(controller_epoch=4, leader_epoch=2))
    assert equal.error_code == 0 and cluster[1].partition.leader_epoch == 2
    (fenced,) = cluster.events(e.RequestFenced)
    assert (fenced.reason, fenced.request_epoch, fenced.known_epoch) == ("STALE_CONTROLLER_EPOCH", 3, 4)


def test_update_metadata_is_fenced_by_the_controller_epoch(cluster: Cluster) -> None:
    manager = cluster[1].manager

    def update(epoch: int) -> int:
        message = request(ApiKey.UPDATE_METADATA, 7, controller_id=3, controller_epoch=epoch, broker_epoch=-1)
        return manager.accept_control_request("UpdateMetadata", message)

    assert update(6) == 0
    assert update(5) == ErrorCode.stale_controller_epoch
    assert manager.become_leader_or_follower(cluster.leader_and_isr(controller_epoch=5)).error_code == 11
    assert cluster.events(e.RequestFenced)[0].request == "UpdateMetadata"


def test_older_leader_epoch_is_rejected_and_journaled(cluster: Cluster) -> None:
    cluster.elect(1, [1, 2])
    response = cluster[1].manager.become_leader_or_follower(cluster.leader_and_isr(leader_epoch=0, leader=2))
    assert (response.error_code, partition_error(response)) == (0, ErrorCode.stale_controller_epoch)
    (fenced,) = cluster.events(e.RequestFenced)
    assert (fenced.topic, fenced.partition, fenced.request_epoch, fenced.known_epoch) == ("orders", 0, 0, 1)


def test_equal_leader_epoch_is_rejected_without_a_journal_event(cluster: Cluster) -> None:
    response = cluster[1].manager.become_leader_or_follower(cluster.leader_and_isr(leader=2))
    assert partition_error(response) == ErrorCode.stale_controller_epoch
    assert cluster[1].partition.is_leader and cluster.events(e.RequestFenced) == []


def test_leader_and_isr_request_for_unassigned_broker_fails(cluster: Cluster) -> None:
    response = cluster[1].manager.become_leader_or_follower(cluster.leader_and_isr(leader_epoch=3, replicas=[2, 3]))
    assert partition_error(response) == ErrorCode.unknown_topic_or_partition


def test_request_for_a_topic_name_with_another_id_is_rejected(cluster: Cluster) -> None:
    message = cluster.leader_and_isr(leader_epoch=3, topic_id=UUID(int=8))
    assert partition_error(cluster[1].manager.become_leader_or_follower(message)) == ErrorCode.inconsistent_topic_id
    cluster.restart(1)
    assert partition_error(cluster[1].manager.become_leader_or_follower(message)) == ErrorCode.inconsistent_topic_id


def test_log_without_topic_id_adopts_it_at_an_equal_leader_epoch() -> None:
    cluster = Cluster(1)
    cluster.states[TP] = {
        "leader": 1, "leader_epoch": 0, "isr": [1], "partition_epoch": 0, "replicas": [1], "leader_recovery_state": 0,
    }  # fmt: skip
    manager = cluster[1].manager
    old = manager.become_leader_or_follower(cluster.leader_and_isr(version=4))
    assert [(row.topic_name, row.error_code) for row in old.partition_errors] == [("orders", 0)]
    assert cluster[1].partition.topic_id is None
    assert partition_error(manager.become_leader_or_follower(cluster.leader_and_isr())) == 0
    assert cluster[1].partition.topic_id == topic_id_from_kafka(TOPIC_ID)
    assert checkpoints.read_topic_id(cluster[1].directory, "orders-0") == topic_id_from_kafka(TOPIC_ID)


@pytest.mark.parametrize("topic", ["../../etc", "a/b", "", ".."])
def test_topic_name_outside_the_log_directory_is_rejected(topic: str) -> None:
    cluster = Cluster(1)
    name = e.TopicPartition(topic, 0)
    cluster.states[name] = {
        "leader": 1, "leader_epoch": 0, "isr": [1], "partition_epoch": 0, "replicas": [1], "leader_recovery_state": 0,
    }  # fmt: skip
    response = cluster[1].manager.become_leader_or_follower(cluster.leader_and_isr(name))
    assert partition_error(response) == ErrorCode.invalid_topic_exception
    assert cluster[1].directory.partitions() == []


def test_follower_whose_leader_is_not_alive_creates_its_log(cluster: Cluster) -> None:
    name = e.TopicPartition("orders", 5)
    cluster.states[name] = dict(cluster.states[TP], leader=-1)
    response = cluster[1].manager.become_leader_or_follower(cluster.leader_and_isr(name))
    assert partition_error(response) == 0
    partition = cluster[1].manager.partitions[name]
    assert (partition.leader, partition.leader_epoch) == (None, -1)
    assert "orders-5" in cluster[1].directory.partitions()
    cluster[1].manager.shutdown()
    assert name in checkpoints.read_offsets(cluster[1].directory, checkpoints.REPLICATION_OFFSETS), "KAFKA-1647"


def test_changes_of_leader_and_follower_roles_are_journaled(cluster: Cluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    cluster.elect(2, [1, 2])
    taken = cluster.events(e.LeadershipTaken)
    assert [(x.broker_id, x.leader_epoch, x.log_end_offset) for x in taken] == [(1, 0, 0), (2, 1, 1)]
    followed = cluster.events(e.FollowershipTaken)
    assert [(x.broker_id, x.leader, x.leader_epoch) for x in followed] == [(2, 1, 0), (1, 2, 1)]


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr_request_is_handled_in_every_version(version: int) -> None:
    cluster = Cluster(1)
    row = {
        "topic_name": "orders", "partition_index": 0, "controller_epoch": 1, "leader": 1, "leader_epoch": 0,
        "isr": [1], "partition_epoch": 0, "replicas": [1],
    }  # fmt: skip
    message = request(
        ApiKey.LEADER_AND_ISR,
        version,
        controller_id=9,
        controller_epoch=1,
        topic_states=[{"topic_name": "orders", "topic_id": TOPIC_ID, "partition_states": [row]}],
        ungrouped_partition_states=[row],
    )
    response = cluster[1].manager.become_leader_or_follower(message)
    assert response.error_code == 0 and response.__version__ == version
    assert cluster[1].partition.is_leader


@pytest.mark.parametrize("version", range(5))
def test_stop_replica_request_is_handled_in_every_version(cluster: Cluster, version: int) -> None:
    cluster.announced_deletions.add(TP)
    state = {"partition_index": 0, "leader_epoch": -2, "delete_partition": True}
    message = request(
        ApiKey.STOP_REPLICA,
        version,
        controller_id=9,
        controller_epoch=1,
        delete_partitions=True,
        topic_states=[{"topic_name": "orders", "partition_states": [state]}],
        topics=[{"name": "orders", "partition_indexes": [0]}],
        ungrouped_partitions=[{"topic_name": "orders", "partition_index": 0}],
    )
    response = cluster[1].manager.stop_replica(message)
    assert [(row.topic_name, row.error_code) for row in response.partition_errors] == [("orders", 0)]
    assert response.__version__ == version and dict(cluster[1].manager.partitions) == {}


@pytest.mark.parametrize(("leader_epoch", "error"), [(-2, 0), (-1, 0), (1, 0), (2, 0), (0, 74)])
def test_stop_replica_request_is_fenced_by_leader_epoch(cluster: Cluster, leader_epoch: int, error: int) -> None:
    cluster.elect(2, [1, 2])
    if leader_epoch == -2:
        cluster.announced_deletions.add(TP)
    response = cluster[1].manager.stop_replica(cluster.stop_replica(leader_epoch, True))
    assert [int(row.error_code) for row in response.partition_errors] == [error]
    assert (TP in cluster[1].manager.partitions) is bool(error)
    assert ("orders-0" in cluster[1].directory.partitions()) is bool(error)


def test_stop_replica_request_without_deletion_stops_fetching(cluster: Cluster) -> None:
    cluster[2].manager.stop_replica(cluster.stop_replica(0, False))
    cluster.produce(1, "a", acks=1)
    cluster.run(2_000)
    assert cluster[2].partition.log.end_offset == 0
    assert "orders-0" in cluster[2].directory.partitions()


def test_stop_replica_request_deletes_an_unhosted_replica(cluster: Cluster) -> None:
    cluster.kill(2)
    cluster[2].epoch += 1
    cluster[2].boot()
    assert cluster[2].directory.partitions() == ["orders-0"] and dict(cluster[2].manager.partitions) == {}
    assert cluster.delete(2) == [0]
    assert cluster[2].directory.partitions() == []


def test_waiting_requests_fail_when_the_partition_is_deleted(cluster: Cluster) -> None:
    cluster.cut_link(1, 2)
    produce = cluster.produce_later(1, batch("x"))
    fetch = cluster.fetch_later(1, 0, max_wait_ms=60_000)
    cluster.delete(1)
    assert produce.result()[0].error == ErrorCode.not_leader_or_follower
    assert fetch.result()[0].error == ErrorCode.not_leader_or_follower
    cluster.run(10_000)


def test_recreated_topic_starts_empty(cluster: Cluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    cluster.delete(1, 2)
    cluster.create([2, 1])
    cluster.produce(2, "b")
    cluster.settle()
    assert cluster[1].values == ["b"]


@pytest.mark.parametrize("delete", [False, True])
def test_late_stop_replica_request_does_not_affect_a_new_topic(cluster: Cluster, delete: bool) -> None:
    # A StopReplica request has no topic id. This one is a late duplicate: the controller had stopped waiting for it and
    # has sent it again.
    late = cluster.stop_replica(-2, delete)
    cluster.delete(1, 2)
    cluster.create([1, 2])
    for broker_id in (1, 2):
        answer = cluster[broker_id].manager.stop_replica(late)
        assert [row.error_code for row in answer.partition_errors] == [ErrorCode.fenced_leader_epoch]
    cluster.produce(1, "a")
    cluster.settle()
    assert cluster[1].values == cluster[2].values == ["a"]


def moved_away(
    cluster: Cluster, leader_epoch: int, topic_id: UUID = TOPIC_ID, leader: int = 2, replicas: Sequence[int] = (2, 3)
) -> object:
    """Return an UpdateMetadata request that assigns the partition to `replicas` (default 2 and 3).

    Leader -2 means that the topic is being deleted.
    """
    row = {"partition_index": 0, "leader": leader, "leader_epoch": leader_epoch, "isr": [2], "replicas": list(replicas)}
    topics = [{"topic_name": TP.topic, "topic_id": topic_id, "partition_states": [row]}]
    outer = {"controller_id": 9, "controller_epoch": cluster.controller_epoch, "broker_epoch": -1}
    return request(ApiKey.UPDATE_METADATA, 8, topic_states=topics, live_brokers=[], **outer)


def test_leader_stops_if_metadata_assigns_its_partition_away(cluster: Cluster) -> None:
    # The controller sends no StopReplica to a broker that it considered dead during the move, not even when the broker
    # returns (seed 500216).
    waiting = cluster.produce_later(1, batch("a"))
    manager = cluster[1].manager
    manager.leave_strays(moved_away(cluster, 0))
    assert cluster[1].partition.is_leader, "its own or an older leader epoch changes nothing"
    manager.leave_strays(moved_away(cluster, 5, UUID(int=6)))
    assert cluster[1].partition.is_leader, "nor does a late request for a former topic of this name"
    manager.leave_strays(moved_away(cluster, 1))
    assert TP not in manager.partitions
    cluster.until(lambda: bool(waiting.done()))
    assert [row.error for row in waiting.result()] == [ErrorCode.not_leader_or_follower]
    # The log keeps the records, and the broker uses them if the partition is assigned to it again.
    cluster.elect(1, [1, 2])
    cluster.elect(1, [1, 2])
    assert cluster[1].values == ["a"]


@pytest.mark.parametrize("still_serves", [True, False])
def test_stray_replica_is_deleted_with_its_topic(cluster: Cluster, still_serves: bool) -> None:
    cluster.produce(1, "a")
    manager = cluster[1].manager
    if not still_serves:
        manager.leave_strays(moved_away(cluster, 1))
    manager.leave_strays(moved_away(cluster, 0, leader=-2))
    assert TP not in manager.partitions
    cluster.delete(2)
    cluster.create([1, 2])
    cluster.produce(1, "b")
    cluster.settle()
    assert cluster[1].values == cluster[2].values == ["b"]


def test_late_deletion_of_a_former_topic_keeps_the_current_one(cluster: Cluster) -> None:
    cluster.produce(1, "a")
    cluster[1].manager.leave_strays(moved_away(cluster, 0, UUID(int=6), leader=-2))
    assert cluster[1].partition.is_leader and cluster[1].values == ["a"]


@pytest.mark.parametrize("replicas", [(1, 2), (2, 1, 3), ()])
def test_newer_leader_epoch_does_not_stop_an_assigned_replica(cluster: Cluster, replicas: tuple[int, ...]) -> None:
    # The LeaderAndIsr request with the later epoch may still arrive. An entry without replicas does not unassign the
    # partition. So the replica stays.
    manager = cluster[1].manager
    manager.leave_strays(moved_away(cluster, 1, replicas=replicas))
    assert TP in manager.partitions and cluster[1].partition.is_leader


@pytest.mark.parametrize("sent_id", [TOPIC_ID, UUID(int=0)])
@pytest.mark.parametrize("version", [4, 7])
def test_update_without_topic_id_applies_to_the_topic_by_name(version: int, sent_id: UUID) -> None:
    cluster = Cluster(1)
    cluster.states[TP] = {
        "leader": 1, "leader_epoch": 0, "isr": [1], "partition_epoch": 0, "replicas": [1], "leader_recovery_state": 0,
    }  # fmt: skip
    manager = cluster[1].manager
    manager.become_leader_or_follower(cluster.leader_and_isr(version=version))
    assert (cluster[1].partition.topic_id is None) is (version == 4)
    manager.leave_strays(moved_away(cluster, 1, sent_id))
    assert TP not in manager.partitions


def test_follower_stops_fetching_if_its_partition_has_moved(cluster: Cluster) -> None:
    replica = cluster[2].partition
    cluster[2].manager.leave_strays(moved_away(cluster, 1, replicas=(1, 3)))
    cluster.produce(1, "a", acks=1)
    cluster.run(2_000)
    assert replica.log.end_offset == 0 and TP not in cluster[2].manager.partitions

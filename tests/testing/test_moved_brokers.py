"""Clients whose leader or coordinator moves, dies or is out of reach, with confluent-kafka and real brokers.

The cases are from librdkafka's tests of its mock cluster (0031, 0105, 0138, 0139 and 0146), which sets leaders and
coordinators, and takes brokers down.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.testing.test_error_stacks import (
    TOPIC,
    commit_another,
    committed,
    committed_values,
    consumer,
    failure,
    first,
    producer,
    send,
)
from zabka.broker_sim.groups.store import java_hash
from zabka.testing import LiveCluster


@pytest.fixture
def cluster(zabka_cluster: LiveCluster) -> Iterator[LiveCluster]:
    zabka_cluster.topics.create(TOPIC, partitions=1, replication_factor=3)
    yield zabka_cluster
    zabka_cluster.faults.heal()


def move(cluster: LiveCluster, topic: str = TOPIC, partition: int = 0) -> int:
    """Move the leader of a partition to the next broker. Return the new leader."""
    leader = cluster.topics[topic].partitions[partition].leader % 3 + 1
    cluster.move_leader(topic, partition, leader)
    return leader


def only_on_errors(cluster: LiveCluster) -> dict[str, Any]:
    """Return the configuration of a client that requests metadata only after errors."""
    return {"topic.metadata.refresh.interval.ms": -1, "bootstrap.servers": cluster.bootstrap}


def test_watermark_query_finds_the_new_leader(cluster: LiveCluster) -> None:
    """Watermark queries succeed again after a new leader was elected.

    The old leader answers until it learns of its successor. Then queries fail until the client has updated its
    metadata.
    """
    send(producer(cluster), b"a")
    asking = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "asking", "log_level": 0})

    def is_rejected() -> bool:
        try:
            assert asking.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20) == (0, 1)
        except KafkaException as failed:
            assert failed.args[0].name() == "NOT_LEADER_FOR_PARTITION"
            return True
        return False

    assert not is_rejected()
    move(cluster)
    cluster.until(is_rejected, 20, "a query at the old leader")
    cluster.until(lambda: not is_rejected(), 20, "a query at the new leader")
    asking.close()


def test_clients_find_a_moved_leader_without_periodic_metadata(cluster: LiveCluster) -> None:
    made = producer(cluster, **only_on_errors(cluster))
    assert send(made, b"0") is None
    member = consumer(cluster, "following", **only_on_errors(cluster))
    assert first(member) == b"0"
    moved = [move(cluster) for _ in range(2)]
    assert len(set(moved)) == 2
    assert send(made, b"1") is None
    assert first(member) == b"1"
    member.close()


@pytest.mark.parametrize("role", ["leader", "coordinator"])
def test_transaction_commits_after_a_broker_was_killed(cluster: LiveCluster, role: str) -> None:
    made = producer(cluster, **{"transactional.id": f"killed-{role}"})
    made.init_transactions(30)
    made.begin_transaction()
    assert send(made, b"a") is None
    states = cluster.topics["__transaction_state"].partitions
    coordinator = states[java_hash(f"killed-{role}") % len(states)].leader
    killed = cluster.brokers[coordinator if role == "coordinator" else cluster.topics[TOPIC].partitions[0].leader]
    killed.kill()
    assert send(made, b"b") is None
    made.commit_transaction(60)
    assert killed.process == "down"
    cluster.until(lambda: committed_values(cluster) == [b"a", b"b"], 30)


def test_member_stays_in_its_group_while_the_coordinator_moves(cluster: LiveCluster) -> None:
    made = producer(cluster)
    send(made, b"0")
    assigned: list[Any] = []
    member = consumer(cluster, "moving", **{"heartbeat.interval.ms": 200, "retry.backoff.ms": 1_000})
    member.subscribe([TOPIC], on_assign=lambda *_: assigned.append(_))
    assert first(member) == b"0"
    partition = java_hash("moving") % len(cluster.topics["__consumer_offsets"].partitions)
    for number in (1, 2):
        moved = move(cluster, "__consumer_offsets", partition)
        assert cluster.coordinator("moving").id == moved
        send(made, str(number).encode())
        assert first(member) == str(number).encode()
        member.commit(asynchronous=False)
        assert committed(member) == number + 1
    assert len(assigned) == 1
    member.close()


def test_transaction_with_an_expired_record_cannot_commit(cluster: LiveCluster) -> None:
    made = producer(cluster, **{"transactional.id": "expired", "client.id": "cut", "message.timeout.ms": 2_000})
    made.init_transactions(30)
    made.begin_transaction()
    assert send(made, b"a") is None
    link = cluster.faults.cut("client:cut", f"broker-{cluster.topics[TOPIC].partitions[0].leader}")
    assert send(made, b"b") == KafkaError._MSG_TIMED_OUT
    assert failure(made.commit_transaction).txn_requires_abort()
    link.heal()
    made.abort_transaction(60)
    commit_another(cluster, made)

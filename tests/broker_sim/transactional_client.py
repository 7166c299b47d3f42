"""Requests of a transactional producer and of its coordinator, sent to the brokers of a simulated cluster."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster, Node
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import TRANSACTIONAL, Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey, request

ID, PRODUCER = "payments-writer", 7


def leader_of(cluster: Cluster, partition: TopicPartition) -> Node:
    """Return the broker that leads a partition."""
    (leader,) = (
        node
        for node in cluster.nodes.values()
        if not node.runtime.stopped
        and partition in node.broker.replicas.partitions
        and node.broker.replicas.partitions[partition].is_leader
    )
    return leader


def produce(
    cluster: Cluster,
    partition: TopicPartition,
    sequence: int,
    *,
    transactional_id: str | None = ID,
    epoch: int = 0,
    version: int = 11,
) -> Any:
    """Produce one record in a transaction, and return the partition's entry in the response."""
    data = build_batch(
        [Record(b"k", b"v", 5)],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL,
    )
    asked = request(
        ApiKey.PRODUCE,
        version,
        acks=-1,
        timeout=5_000,
        transactional_id=transactional_id,
        topic_data=[{"name": partition.topic, "partition_data": [{"index": partition.partition, "records": data}]}],
    )
    node = leader_of(cluster, partition)
    return cluster.on(node, node.broker.handle(asked, "c", "PLAINTEXT")).responses[0].partition_responses[0]


def marker(*partitions: TopicPartition, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> dict[str, Any]:
    """Return a marker entry for a WriteTxnMarkers request: commit or abort on these partitions."""
    return {
        "producer_id": PRODUCER,
        "producer_epoch": epoch,
        "transaction_result": commit,
        "coordinator_epoch": coordinator_epoch,
        "topics": [{"name": each.topic, "partition_indexes": [each.partition]} for each in partitions],
    }


def write_markers(cluster: Cluster, node: Node, *markers: dict[str, Any], version: int = 1) -> list[ErrorCode]:
    """Send WriteTxnMarkers to a broker. Return the error codes of all partitions in the order of the response."""
    asked = request(ApiKey.WRITE_TXN_MARKERS, version, markers=markers)
    answer = cluster.on(node, node.broker.handle(asked, "c", "PLAINTEXT"))
    return [row.error_code for each in answer.markers for topic in each.topics for row in topic.partitions]

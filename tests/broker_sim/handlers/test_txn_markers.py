"""Transactional records and markers in requests: Produce, WriteTxnMarkers, Fetch, ListOffsets, DescribeProducers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.transactional_client import PRODUCER, leader_of, marker, produce, write_markers
from zabka.journal.events import TopicPartition
from zabka.kafka.wire.kafka_schema import ApiKey, request

P0, P9 = TopicPartition("orders", 0), TopicPartition("orders", 9)
NONE = ErrorCode.none


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(1, transaction_partition_verification_enable="false").start()
    made.run(made.client.create_topic("orders", 1, 1))
    yield made
    made.stop_all()


def asked(cluster: Cluster, key: ApiKey, version: int, **values: Any) -> Any:
    node = leader_of(cluster, P0)
    return cluster.on(node, node.broker.handle(request(key, version, **values), "c", "PLAINTEXT"))


def fetch(cluster: Cluster, version: int, isolation_level: int) -> Any:
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    answer = asked(
        cluster,
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=[{"topic": "orders", "partitions": [row]}],
    )
    return answer.responses[0].partitions[0]


def producer_row(cluster: Cluster) -> Any:
    topics = [{"name": "orders", "partition_indexes": [0]}]
    (row,) = asked(cluster, ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics[0].partitions[0].active_producers
    return row


def test_transactional_batch_requires_a_transactional_id(cluster: Cluster) -> None:
    refused = produce(cluster, P0, 0, transactional_id=None)
    assert refused.error_code is ErrorCode.transactional_id_authorization_failed
    assert produce(cluster, P0, 0).error_code is NONE


@pytest.mark.parametrize("version", [4, 11, 12])
def test_fetch_returns_the_lso_and_the_aborted_transactions(cluster: Cluster, version: int) -> None:
    node = leader_of(cluster, P0)
    produce(cluster, P0, 0)
    row = fetch(cluster, version, 1)
    assert (row.high_watermark, row.last_stable_offset, list(row.aborted_transactions)) == (1, 0, [])
    assert not row.records
    assert write_markers(cluster, node, marker(P0, commit=False)) == [NONE]
    row = fetch(cluster, version, 1)
    assert (row.high_watermark, row.last_stable_offset) == (2, 2)
    assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions] == [(PRODUCER, 0)]
    assert fetch(cluster, version, 0).aborted_transactions is None


def test_list_offsets_with_read_committed_returns_the_lso(cluster: Cluster) -> None:
    produce(cluster, P0, 0)
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}]

    def latest(level: int) -> int:
        answer = asked(cluster, ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=level, topics=topics)
        return int(answer.topics[0].partitions[0].offset)

    assert (latest(1), latest(0)) == (0, 1)


@pytest.mark.parametrize("version", [0, 1])
def test_write_txn_markers_returns_an_error_for_each_partition(cluster: Cluster, version: int) -> None:
    node = leader_of(cluster, P0)
    produce(cluster, P0, 0, epoch=4)
    assert write_markers(cluster, node, marker(P0, P9, commit=True, epoch=3), version=version) == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_producer_epoch,
    ]
    assert write_markers(cluster, node, marker(P0, commit=True, epoch=4, coordinator_epoch=2)) == [NONE]
    assert write_markers(cluster, node, marker(P0, commit=True, epoch=4, coordinator_epoch=1)) == [
        ErrorCode.transaction_coordinator_fenced
    ]
    assert write_markers(cluster, node) == []


def test_describe_producers_includes_the_open_transaction(cluster: Cluster) -> None:
    node = leader_of(cluster, P0)
    produce(cluster, P0, 0)
    row = producer_row(cluster)
    assert (row.producer_id, row.last_sequence, row.coordinator_epoch, row.current_txn_start_offset) == (
        PRODUCER, 0, -1, 0,
    )  # fmt: skip
    write_markers(cluster, node, marker(P0, commit=True, epoch=1, coordinator_epoch=6))
    row = producer_row(cluster)
    assert (row.producer_epoch, row.last_sequence, row.coordinator_epoch, row.current_txn_start_offset) == (
        1, -1, 6, -1,
    )  # fmt: skip

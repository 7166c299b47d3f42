"""Requests with duplicate entries.

The expected responses are from Apache Kafka 3.9.1 (ZooKeeper mode), for the same request bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.kafka.record_batch import Record, build_batch, decode_records
from zabka.kafka.wire.kafka_schema import ApiKey, request

NONE = ErrorCode.none


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(1, offsets_topic_replication_factor="1", offsets_topic_num_partitions="1").start()
    made.run(made.client.create_topic("orders", 1, 1))
    yield made
    made.stop_all()


def asked(cluster: Cluster, key: ApiKey, version: int, **values: Any) -> Any:
    node = cluster.controller
    return cluster.on(node, node.broker.handle(request(key, version, **values), "c", "PLAINTEXT"))


# ---- Produce ---------------------------------------------------------------------------------------------------


def batch(*values: str) -> bytes:
    return build_batch([Record(None, value.encode(), 1_000) for value in values])


def produced(cluster: Cluster, *records: bytes, partition: int = 0, topics: int = 1) -> Any:
    """Send a Produce request that contains one partition several times, and return the partition entries of the
    response.

    With `topics` greater than 1, each partition entry has its own topic entry.
    """
    rows = [{"index": partition, "records": each} for each in records]
    data = [{"name": "orders", "partition_data": rows}]
    if topics > 1:
        data = [{"name": "orders", "partition_data": [row]} for row in rows]
    answer = asked(cluster, ApiKey.PRODUCE, 9, acks=-1, timeout=1_000, topic_data=data)
    return [
        (topic.name, row.index, row.error_code, row.base_offset)
        for topic in answer.responses
        for row in topic.partition_responses
    ]


def stored(cluster: Cluster) -> list[bytes | None]:
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [row]}]
    answer = asked(cluster, ApiKey.FETCH, 11, replica_id=-1, max_wait=0, max_bytes=1 << 20, topics=topics)
    return [record.value for record in decode_records(answer.responses[0].partitions[0].records)]


@pytest.mark.parametrize("topics", [1, 2])
def test_produce_with_a_repeated_partition_stores_the_later_one(cluster: Cluster, topics: int) -> None:
    assert produced(cluster, batch("a"), batch("b", "c"), topics=topics) == [("orders", 0, NONE, 0)]
    assert stored(cluster) == [b"b", b"c"]


@pytest.mark.parametrize("records", [(b"xx", batch("a")), (batch("a"), b"xx")], ids=["earlier", "later"])
def test_valid_batch_for_a_repeated_partition_is_stored(cluster: Cluster, records: tuple[bytes, bytes]) -> None:
    assert produced(cluster, *records) == [("orders", 0, ErrorCode.invalid_record, -1)]
    assert stored(cluster) == [b"a"]


def test_produce_to_a_repeated_unknown_partition_has_one_result(cluster: Cluster) -> None:
    rows = produced(cluster, batch("a"), batch("b"), partition=7)
    assert rows == [("orders", 7, ErrorCode.unknown_topic_or_partition, -1)]


# ---- offsets ---------------------------------------------------------------------------------------------------


def committed(cluster: Cluster, version: int, partition: int, *offsets: int) -> list[ErrorCode]:
    rows = [{"partition_index": partition, "committed_offset": offset, "committed_metadata": ""} for offset in offsets]
    topics = [{"name": "orders", "partitions": rows}]
    answer = asked(
        cluster, ApiKey.OFFSET_COMMIT, version, group_id="g", generation_id_or_member_epoch=-1, topics=topics
    )
    return [row.error_code for topic in answer.topics for row in topic.partitions]


def offset_of(cluster: Cluster, version: int) -> int:
    requested = [{"name": "orders", "partition_indexes": [0]}]
    answer = asked(cluster, ApiKey.OFFSET_FETCH, version, group_id="g", topics=requested)
    return int(answer.topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize(("version", "rows"), [(0, 2), (1, 1), (9, 1)])
def test_second_of_two_offsets_for_a_partition_is_committed(cluster: Cluster, version: int, rows: int) -> None:
    asked(cluster, ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["g"], key_type=0)
    cluster.wait(3_000)
    # In version 0 each entry is written to ZooKeeper and gets a response. In later versions the coordinator stores one
    # entry per partition.
    assert committed(cluster, version, 0, 5, 3) == [NONE] * rows
    assert offset_of(cluster, min(version, 7)) == 3


@pytest.mark.parametrize("version", [0, 9])
def test_every_offset_for_an_unknown_partition_is_rejected(cluster: Cluster, version: int) -> None:
    assert committed(cluster, version, 7, 5, 3) == [ErrorCode.unknown_topic_or_partition] * 2


# ---- topics ----------------------------------------------------------------------------------------------------


def rows_of(answer: Any) -> list[tuple[str | None, ErrorCode]]:
    return [(row.name, row.error_code) for row in getattr(answer, "topics", None) or answer.responses]


def test_create_topics_returns_results_for_repeated_names(cluster: Cluster) -> None:
    names = ("a", "b", "a", "__cluster_metadata")
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    refused = ErrorCode.invalid_request
    answer = asked(cluster, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=1_000)
    assert rows_of(answer) == [("a", refused), ("b", NONE), ("a", refused), ("__cluster_metadata", refused)]


def test_delete_topics_returns_results_for_repeated_names(cluster: Cluster) -> None:
    unknown = ErrorCode.unknown_topic_or_partition
    answer = asked(cluster, ApiKey.DELETE_TOPICS, 5, topic_names=["no", "orders", "no", "orders"], timeout=5_000)
    assert rows_of(answer) == [("no", unknown), ("orders", NONE), ("no", unknown), ("orders", NONE)]


def test_delete_topics_rejects_an_entry_with_both_name_and_id(cluster: Cluster) -> None:
    topics = [{"name": "orders", "topic_id": UUID(int=9)}, {"name": "orders", "topic_id": None}]
    answer = asked(cluster, ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=5_000)
    assert rows_of(answer) == [("orders", ErrorCode.invalid_request)] * 2
    assert [row.topic_id for row in answer.responses] == [UUID(int=9), None]
    assert "/admin/delete_topics/orders" not in cluster.ensemble.nodes
    assert "orders" in cluster.controller.broker.metadata


# ---- quotas and features ---------------------------------------------------------------------------------------


def test_quota_entity_altered_twice_has_one_result(cluster: Cluster) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "c"}]
    ops = [[{"key": "producer_byte_rate", "value": value, "remove": False}] for value in (1.0, 2.0)]
    entries = [{"entity": entity, "ops": each} for each in ops]
    answer = asked(cluster, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries)
    assert [row.error_code for row in answer.entries] == [NONE]
    assert b'"producer_byte_rate":"2"' in cluster.ensemble.data("/config/clients/c")


def test_feature_named_twice_has_one_result(cluster: Cluster) -> None:
    updates = [{"feature": "f", "max_version_level": level, "upgrade_type": 1} for level in (1, 2)]
    answer = asked(cluster, ApiKey.UPDATE_FEATURES, 1, feature_updates=updates)
    assert [(row.feature, row.error_code) for row in answer.results] == [("f", ErrorCode.invalid_request)]

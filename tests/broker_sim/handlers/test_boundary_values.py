"""Request fields at and beyond their limits.

The expected responses are from Apache Kafka 3.9.1 (ZooKeeper mode), for the same request bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey, request

NONE = ErrorCode.none
INVALID = ErrorCode.invalid_request
UNKNOWN_ERROR = ErrorCode.unknown_server_error


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(1).start()
    made.run(made.client.create_topic("orders", 1, 1))
    yield made
    made.stop_all()


def asked(cluster: Cluster, key: ApiKey, version: int, /, **values: Any) -> Any:
    node = cluster.controller
    return cluster.on(node, node.broker.handle(request(key, version, **values), "c", "PLAINTEXT"))


def test_non_transactional_batch_with_transactional_id_is_stored(cluster: Cluster) -> None:
    rows = [{"index": 0, "records": build_batch([Record(None, b"v", 1_000)])}]
    data = [{"name": "orders", "partition_data": rows}]
    for transactional_id in ("", "t"):
        answer = asked(
            cluster, ApiKey.PRODUCE, 9, acks=-1, timeout=1_000, topic_data=data, transactional_id=transactional_id
        )
        assert answer.responses[0].partition_responses[0].error_code is NONE


# ---- Fetch and offsets -----------------------------------------------------------------------------------------


def fetched(cluster: Cluster, version: int, topic: str = "orders", isolation_level: int = 0, epoch: int = -1) -> Any:
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000, "current_leader_epoch": epoch}
    topics = [{"topic": topic, "topic_id": None, "partitions": [row]}]
    level = {"isolation_level": isolation_level}
    answer = asked(cluster, ApiKey.FETCH, version, replica_id=-1, max_wait=0, max_bytes=1_000, topics=topics, **level)
    return answer.error_code, [row.error_code for topic in answer.responses for row in topic.partitions]


@pytest.mark.parametrize("version", [0, 4, 11, 12])
def test_empty_topic_name_is_an_unknown_topic(cluster: Cluster, version: int) -> None:
    assert fetched(cluster, version, topic="") == (NONE, [ErrorCode.unknown_topic_or_partition])


@pytest.mark.parametrize("level", [-128, -1, 2, 127])
def test_unknown_isolation_level_fails_the_whole_request(cluster: Cluster, level: int) -> None:
    assert fetched(cluster, 12, isolation_level=level) == (UNKNOWN_ERROR, [UNKNOWN_ERROR])
    assert fetched(cluster, 17, isolation_level=level) == (UNKNOWN_ERROR, [])
    assert listed(cluster, isolation_level=level) == (UNKNOWN_ERROR, -1)


@pytest.mark.parametrize("level", [0, 1])
def test_both_isolation_levels_are_accepted(cluster: Cluster, level: int) -> None:
    assert fetched(cluster, 12, isolation_level=level) == (NONE, [NONE])
    assert listed(cluster, isolation_level=level)[0] is NONE


def listed(cluster: Cluster, epoch: int = -1, isolation_level: int = 0) -> tuple[ErrorCode, int]:
    row = {"partition_index": 0, "timestamp": -2, "current_leader_epoch": epoch}
    topics = [{"name": "orders", "partitions": [row]}]
    answer = asked(cluster, ApiKey.LIST_OFFSETS, 9, replica_id=-1, topics=topics, isolation_level=isolation_level)
    row = answer.topics[0].partitions[0]
    return row.error_code, row.offset


def epoch_end(cluster: Cluster, epoch: int, current: int = -1) -> tuple[ErrorCode, int, int]:
    row = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
    topics = [{"topic": "orders", "partitions": [row]}]
    answer = asked(cluster, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
    row = answer.topics[0].partitions[0]
    return row.error_code, row.leader_epoch, row.end_offset


@pytest.mark.parametrize("epoch", [-(2**31), -2])
def test_leader_epoch_below_minus_1_is_fenced_except_in_fetch(cluster: Cluster, epoch: int) -> None:
    assert listed(cluster, epoch) == (ErrorCode.fenced_leader_epoch, -1)
    assert epoch_end(cluster, 0, current=epoch) == (ErrorCode.fenced_leader_epoch, -1, -1)
    assert epoch_end(cluster, epoch) == (NONE, epoch, 0), "the start of the first epoch"
    assert fetched(cluster, 12, epoch=epoch) == (NONE, [NONE])


# ---- clients and producers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [-128, -1, 3, 127])
@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_find_coordinator_rejects_an_unknown_key_type(cluster: Cluster, version: int, kind: int) -> None:
    answer = asked(cluster, ApiKey.FIND_COORDINATOR, version, key="g", coordinator_keys=["g"], key_type=kind)
    assert (answer.coordinators[0] if version >= 4 else answer).error_code is INVALID


@pytest.mark.parametrize("invalid", ["", ".", "-1", "a/b", "a ", "\u00e9", "__x", "a-"])
@pytest.mark.parametrize("version", [3, 4])
def test_api_versions_rejects_an_invalid_client_name(cluster: Cluster, version: int, invalid: str) -> None:
    proper = {"client_software_name": "apache-kafka-java", "client_software_version": "3.9.1"}
    assert asked(cluster, ApiKey.API_VERSIONS, version, **proper).error_code is NONE
    for name in proper:
        answer = asked(cluster, ApiKey.API_VERSIONS, version, **{**proper, name: invalid})
        assert (answer.error_code, answer.api_keys) == (INVALID, ())


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [(-1, -1, NONE), (5, 3, NONE), (5, -1, INVALID), (-2, -1, INVALID), (-1, 0, INVALID), (-1, 32767, INVALID)],
)
def test_producer_must_send_previous_id_and_epoch_or_neither(
    cluster: Cluster, producer_id: int, epoch: int, error: ErrorCode
) -> None:
    former = {"producer_id": producer_id, "producer_epoch": epoch}
    for version in (3, 4, 5):
        answer = asked(cluster, ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, **former)
        assert (answer.error_code, answer.producer_epoch) == (error, 0 if error is NONE else -1)


def test_empty_transactional_id_is_an_invalid_request(cluster: Cluster) -> None:
    for version in range(6):
        former = {"producer_id": -1, "producer_epoch": -1}
        answer = asked(cluster, ApiKey.INIT_PRODUCER_ID, version, transactional_id="", **former)
        assert answer.error_code is INVALID


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (1, NONE),
        (2, ErrorCode.mismatched_endpoint_type),
        (0, ErrorCode.unsupported_endpoint_type),
        (3, ErrorCode.unsupported_endpoint_type),
        (-128, ErrorCode.unsupported_endpoint_type),
    ],
)
def test_describe_cluster_accepts_only_the_broker_endpoint_type(cluster: Cluster, kind: int, error: ErrorCode) -> None:
    answer = asked(cluster, ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=kind)
    assert (answer.error_code, answer.endpoint_type) == (error, 1)


# ---- administration --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [(-1, "c"), (3, "c"), (127, None), (0, None)])
def test_quota_filter_with_an_unknown_match_type_is_an_error(cluster: Cluster, kind: int, name: str | None) -> None:
    components = [{"entity_type": "client-id", "match_type": kind, "match": name}]
    answer = asked(cluster, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=components, strict=False)
    assert (answer.error_code, answer.entries) == (UNKNOWN_ERROR, None)


def test_infinite_byte_rate_is_rejected(cluster: Cluster) -> None:
    for value in (float("inf"), float("-inf"), 1e308):
        ops = [{"key": "producer_byte_rate", "value": value, "remove": False}]
        entries = [{"entity": [{"entity_type": "client-id", "entity_name": "endless"}], "ops": ops}]
        answer = asked(cluster, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries)
        assert answer.entries[0].error_code is INVALID
    assert "/config/clients/endless" not in cluster.ensemble.nodes


def test_later_of_two_entities_of_the_same_type_gets_the_quota(cluster: Cluster) -> None:
    entity = [{"entity_type": "client-id", "entity_name": name} for name in ("earlier", "later")]
    ops = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
    answer = asked(cluster, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}])
    (row,) = answer.entries
    assert [(part.entity_type, part.entity_name) for part in row.entity] == [("client-id", "later")]
    assert "/config/clients/later" in cluster.ensemble.nodes


def test_scram_credential_without_a_password_is_not_stored(cluster: Cluster) -> None:
    upsertion = {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b""}
    answer = asked(cluster, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[upsertion])
    assert answer.results[0].error_code is UNKNOWN_ERROR
    assert "/config/users/u" not in cluster.ensemble.nodes


@pytest.mark.parametrize(
    ("length", "error"), [(213, ErrorCode.log_dir_not_found), (214, ErrorCode.invalid_topic_exception)]
)
def test_replica_with_a_too_long_future_directory_is_not_moved(cluster: Cluster, length: int, error: ErrorCode) -> None:
    # KAFKA-4893: the longest directory name of a replica, <topic>-0.<32 characters>-future, must not exceed 255
    # characters.
    dirs = [{"path": "/no", "topics": [{"name": "t" * length, "partitions": [0]}]}]
    answer = asked(cluster, ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs)
    assert answer.results[0].partitions[0].error_code is error

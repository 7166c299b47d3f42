"""What Kafka answers where it has no authorizer, tokens, features or transactions; and where its logs are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from journal.events import TopicPartition
from kafka_protocol.record_batch import Record
from kafka_protocol.wire.api_versions import SUPPORTED
from kafka_protocol.wire.frames import ResponseEncoder, decode_response
from kafka_protocol.wire.kafka_schema import ApiKey, request
from tests.broker_sim.broker_world import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster().start()
    made.run(made.client.create_topic("orders", 1, 3))
    yield made
    made.stop_all()


def asked(cluster: Cluster, message: Any) -> Any:
    node = cluster.controller
    return cluster.on(node, node.broker.handle(message))


ACL = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*", "operation": 3}
REQUESTS: list[tuple[ApiKey, dict[str, Any]]] = [
    (ApiKey.DESCRIBE_ACLS, {"resource_type_filter": 1}),
    (ApiKey.CREATE_ACLS, {"creations": [{**ACL, "permission_type": 3}]}),
    (ApiKey.DELETE_ACLS, {"filters": [{"resource_type_filter": 1}]}),
    (ApiKey.CREATE_DELEGATION_TOKEN, {"max_lifetime": 1}),
    (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"x"}),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"x"}),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
    (ApiKey.UPDATE_FEATURES, {"feature_updates": [{"feature": "metadata.version", "max_version_level": 21}]}),
    (ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["t"]}),
    (ApiKey.LIST_TRANSACTIONS, {"state_filters": ["Ongoing", "Odd"]}),
    (ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, {"dirs": [{"path": "/no", "topics": [{"name": "orders", "partitions": [0]}]}]}),
    (ApiKey.DESCRIBE_PRODUCERS, {"topics": [{"name": "orders", "partition_indexes": [0, 9]}]}),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False}),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"topics": []}),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None}),
]


@pytest.mark.parametrize(("key", "values"), REQUESTS)
def test_every_version_is_answered_in_its_shape(cluster: Cluster, key: ApiKey, values: dict[str, Any]) -> None:
    lowest, highest = SUPPORTED[key]
    for version in range(lowest, highest + 1):
        message = request(key, version, **values)
        answer = asked(cluster, message)
        assert decode_response(ResponseEncoder().encode(7, answer)[4:], message) == answer


def one(cluster: Cluster, key: ApiKey) -> Any:
    return asked(cluster, request(key, SUPPORTED[key][1], **dict(REQUESTS)[key]))


def test_without_an_authorizer_there_are_no_acls(cluster: Cluster) -> None:
    described = one(cluster, ApiKey.DESCRIBE_ACLS)
    assert described.error_code is ErrorCode.security_disabled
    assert described.error_message == "No Authorizer is configured on the broker"
    assert one(cluster, ApiKey.CREATE_ACLS).results[0].error_message == "No Authorizer is configured."
    assert one(cluster, ApiKey.DELETE_ACLS).filter_results[0].error_code is ErrorCode.security_disabled


def test_delegation_tokens_are_refused_on_plain_connections_and_features_cannot_be_updated(cluster: Cluster) -> None:
    token = one(cluster, ApiKey.CREATE_DELEGATION_TOKEN)
    assert token.error_code is ErrorCode.delegation_token_request_not_allowed
    assert one(cluster, ApiKey.UPDATE_FEATURES).results[0].error_code is ErrorCode.invalid_request


def test_requests_about_transactions_are_answered_that_there_are_none(cluster: Cluster) -> None:
    described = one(cluster, ApiKey.DESCRIBE_TRANSACTIONS).transaction_states[0]
    assert described.error_code is ErrorCode.transactional_id_not_found
    listed = one(cluster, ApiKey.LIST_TRANSACTIONS)
    assert (listed.transaction_states, listed.unknown_state_filters) == ((), ("Odd",))


def test_log_directories_tell_the_size_of_every_replica(cluster: Cluster) -> None:
    cluster.run(cluster.client.produce(TopicPartition("orders", 0), [Record(b"k", b"v")]))
    directory = one(cluster, ApiKey.DESCRIBE_LOG_DIRS).results[0]
    partition = directory.topics[0].partitions[0]
    assert directory.topics[0].name == "orders"
    assert partition.partition_size > 0 and partition.offset_lag == 0 and not partition.is_future_key
    moved = one(cluster, ApiKey.ALTER_REPLICA_LOG_DIRS).results[0].partitions[0]
    assert moved.error_code is ErrorCode.log_dir_not_found


def test_a_partition_names_its_idempotent_producers(cluster: Cluster) -> None:
    records = [Record(b"", b"v", timestamp_ms=5), Record(b"", b"w", timestamp_ms=6)]
    cluster.run(cluster.client.produce(TopicPartition("orders", 0), records, producer=(77, 3, 0)))
    known, unknown = one(cluster, ApiKey.DESCRIBE_PRODUCERS).topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 3, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (6, -1)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition

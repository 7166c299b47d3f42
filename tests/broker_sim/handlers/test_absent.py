"""Requests for features that these brokers do not support.

The expected responses are from Apache Kafka 3.9.1 with these features disabled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.request_context import RequestRefused
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.frames import ResponseEncoder, decode_response
from zabka.kafka.wire.kafka_schema import ApiKey, request


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
FILTER = {"resource_type_filter": 1, "pattern_type_filter": 3, "operation": 1, "permission_type": 1}
TOPIC = {"name": "orders", "partitions": [0, 1]}
TRANSACTION = {"transactional_id": "t", "topics": [TOPIC]}
MARKER = {"producer_id": 7, "topics": [{"name": "orders", "partition_indexes": [9]}]}
OFFSETS = {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}
REQUESTS: list[tuple[ApiKey, dict[str, Any]]] = [
    (ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}),
    (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0a\0b"}),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": "g", "subscribed_topic_names": ["orders"], "topic_partitions": []}),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g", "h"], "include_authorized_operations": True}),
    (ApiKey.ADD_PARTITIONS_TO_TXN, {"v3_and_below_topics": [TOPIC], "transactions": [TRANSACTION]}),
    (ApiKey.ADD_OFFSETS_TO_TXN, {"transactional_id": "t", "group_id": "g"}),
    (ApiKey.END_TXN, {"transactional_id": "t", "committed": True}),
    (ApiKey.WRITE_TXN_MARKERS, {"markers": [MARKER]}),
    (ApiKey.TXN_OFFSET_COMMIT, {"transactional_id": "t", "group_id": "g", "topics": [OFFSETS]}),
    (ApiKey.DESCRIBE_ACLS, FILTER),
    (ApiKey.CREATE_ACLS, {"creations": [{**ACL, "permission_type": 3}]}),
    (ApiKey.DELETE_ACLS, {"filters": [FILTER]}),
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
def test_unsupported_apis_return_their_error_in_each_version(
    cluster: Cluster, key: ApiKey, values: dict[str, Any]
) -> None:
    lowest, highest = SUPPORTED[key]
    for version in range(lowest, highest + 1):
        message = request(key, version, **values)
        answer = asked(cluster, message)
        assert decode_response(ResponseEncoder().encode(7, answer)[4:], message) == answer


def one(cluster: Cluster, key: ApiKey) -> Any:
    return asked(cluster, request(key, SUPPORTED[key][1], **dict(REQUESTS)[key]))


def test_acl_requests_without_an_authorizer_fail(cluster: Cluster) -> None:
    described = one(cluster, ApiKey.DESCRIBE_ACLS)
    assert described.error_code is ErrorCode.security_disabled
    assert described.error_message == "No Authorizer is configured on the broker"
    assert one(cluster, ApiKey.CREATE_ACLS).results[0].error_message == "No Authorizer is configured."
    assert one(cluster, ApiKey.DELETE_ACLS).filter_results[0].error_code is ErrorCode.security_disabled


TOKENS = [
    (ApiKey.CREATE_DELEGATION_TOKEN, 0, "00400004557365720009414e4f4e594d4f5553" + "ff" * 24 + "00000000000000000000"),
    (
        ApiKey.CREATE_DELEGATION_TOKEN,
        3,
        "000040055573657204626f6205557365720a414e4f4e594d4f5553" + "ff" * 24 + "01010000000000",
    ),
    (ApiKey.RENEW_DELEGATION_TOKEN, 0, "0040" + "ff" * 8 + "00000000"),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, 2, "000040" + "ff" * 8 + "0000000000"),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, "00400000000000000000"),
]


@pytest.mark.parametrize(("key", "version", "recorded"), TOKENS)
def test_delegation_token_error_on_plaintext_has_kafkas_bytes(
    cluster: Cluster, key: ApiKey, version: int, recorded: str
) -> None:
    owner = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    answer = asked(cluster, request(key, version, max_lifetime=1_000, hmac=b"x", owners=None, **owner))
    assert ResponseEncoder().encode(7, answer)[8:].hex() == recorded


def test_update_features_is_rejected(cluster: Cluster) -> None:
    assert one(cluster, ApiKey.UPDATE_FEATURES).results[0].error_code is ErrorCode.invalid_request
    other = next(node for node in cluster.nodes.values() if node is not cluster.controller)
    message = request(ApiKey.UPDATE_FEATURES, 1, **dict(REQUESTS)[ApiKey.UPDATE_FEATURES])
    refused = cluster.on(other, other.broker.handle(message))
    assert refused.error_code is ErrorCode.not_controller
    assert refused.error_message == "This is not the correct controller for this cluster."


def test_sasl_requests_get_illegal_sasl_state_on_plaintext(cluster: Cluster) -> None:
    handshake = one(cluster, ApiKey.SASL_HANDSHAKE)
    assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.illegal_sasl_state, ())
    authenticate = one(cluster, ApiKey.SASL_AUTHENTICATE)
    assert authenticate.error_code is ErrorCode.illegal_sasl_state
    assert authenticate.error_message == "SaslAuthenticate request received after successful authentication"


def test_new_group_protocol_gets_unsupported_version(cluster: Cluster) -> None:
    heartbeat = one(cluster, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    assert (heartbeat.error_code, heartbeat.error_message) == (ErrorCode.unsupported_version, None)
    groups = one(cluster, ApiKey.CONSUMER_GROUP_DESCRIBE).groups
    assert [(group.group_id, group.error_code) for group in groups] == [
        ("g", ErrorCode.unsupported_version),
        ("h", ErrorCode.unsupported_version),
    ]
    assert groups[0].authorized_operations == -(2**31)


def test_envelope_request_closes_the_connection(cluster: Cluster) -> None:
    message = request(ApiKey.ENVELOPE, 0, request_data=b"abc", client_host_address=b"\x7f\0\0\1")

    async def refused() -> str:
        try:
            await cluster.controller.broker.handle(message)
        except RequestRefused as refusal:
            return str(refusal)
        return ""

    assert cluster.on(cluster.controller, refused()) == "forwarding is not enabled"


def test_describe_log_dirs_returns_the_size_of_every_replica(cluster: Cluster) -> None:
    cluster.run(cluster.client.produce(TopicPartition("orders", 0), [Record(b"k", b"v")]))
    directory = one(cluster, ApiKey.DESCRIBE_LOG_DIRS).results[0]
    partition = directory.topics[0].partitions[0]
    assert directory.topics[0].name == "orders"
    assert partition.partition_size > 0 and partition.offset_lag == 0 and not partition.is_future_key
    moved = one(cluster, ApiKey.ALTER_REPLICA_LOG_DIRS).results[0].partitions[0]
    assert moved.error_code is ErrorCode.log_dir_not_found


def test_describe_producers_lists_idempotent_producers(cluster: Cluster) -> None:
    records = [Record(b"", b"v", timestamp_ms=5), Record(b"", b"w", timestamp_ms=6)]
    cluster.run(cluster.client.produce(TopicPartition("orders", 0), records, producer=(77, 3, 0)))
    known, unknown = one(cluster, ApiKey.DESCRIBE_PRODUCERS).topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 3, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (6, -1)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition

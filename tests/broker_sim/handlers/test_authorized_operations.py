"""Authorized operations in responses of brokers without an authorizer. The expected values are from Apache Kafka
3.9.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.kafka.wire.frames import ResponseEncoder, decode_response
from zabka.kafka.wire.kafka_schema import ApiKey, request

NOT_REQUESTED = -(2**31)
OF_CLUSTER = 8096
"""Bit field for CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS and IDEMPOTENT_WRITE."""
OF_TOPIC = 3576
"""Bit field for READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS."""
OF_GROUP = 328
"""Bit field for READ, DELETE and DESCRIBE."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(brokers=1, offsets_topic_num_partitions="1", offsets_topic_replication_factor="1").start()
    made.run(made.client.create_topic("orders", 1, 1))
    asked(made, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["any"])
    made.wait(1_000)
    yield made
    made.stop_all()


def asked(cluster: Cluster, key: ApiKey, version: int, **values: Any) -> Any:
    """Send the request, and return the response as a client decodes it."""
    message = request(key, version, **values)
    answer = cluster.on(cluster.nodes[1], cluster.nodes[1].broker.handle(message))
    return decode_response(ResponseEncoder().encode(7, answer)[4:], message)


def metadata(cluster: Cluster, version: int, *names: str, **flags: bool) -> Any:
    topics = [{"name": name, "topic_id": None} for name in names]
    return asked(cluster, ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=False, **flags)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_metadata_includes_cluster_operations_if_requested(cluster: Cluster, version: int) -> None:
    plain = metadata(cluster, version, "orders")
    assert plain.cluster_authorized_operations == NOT_REQUESTED
    answer = metadata(cluster, version, "orders", include_cluster_authorized_operations=True)
    assert answer.cluster_authorized_operations == OF_CLUSTER
    assert answer.topics[0].topic_authorized_operations == NOT_REQUESTED
    assert metadata(cluster, version, "orders").cluster_authorized_operations == NOT_REQUESTED


@pytest.mark.parametrize("version", range(8, 13))
def test_metadata_includes_topic_operations_if_requested(cluster: Cluster, version: int) -> None:
    answer = metadata(cluster, version, "orders", "missing", "a b", include_topic_authorized_operations=True)
    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_topic_exception,
    ]
    assert {topic.topic_authorized_operations for topic in answer.topics} == {OF_TOPIC}
    assert getattr(answer, "cluster_authorized_operations", NOT_REQUESTED) == NOT_REQUESTED


def test_unknown_topic_id_has_no_authorized_operations(cluster: Cluster) -> None:
    topics = [{"name": None, "topic_id": uuid.UUID(int=7)}]
    answer = asked(cluster, ApiKey.METADATA, 12, topics=topics, include_topic_authorized_operations=True)
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_id
    assert answer.topics[0].topic_authorized_operations == NOT_REQUESTED


@pytest.mark.parametrize(("requested", "operations"), [(False, NOT_REQUESTED), (True, OF_CLUSTER)])
def test_describe_cluster_includes_operations_if_requested(cluster: Cluster, requested: bool, operations: int) -> None:
    answer = asked(cluster, ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=requested)
    assert answer.cluster_authorized_operations == operations


@pytest.mark.parametrize(("requested", "operations"), [(False, NOT_REQUESTED), (True, OF_GROUP)])
def test_describe_groups_includes_operations_if_requested(cluster: Cluster, requested: bool, operations: int) -> None:
    answer = asked(cluster, ApiKey.DESCRIBE_GROUPS, 5, groups=["any"], include_authorized_operations=requested)
    assert answer.groups[0].authorized_operations == operations


@pytest.mark.parametrize(
    ("endpoint_type", "error", "message"),
    [
        (
            2,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (3, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 3"),
    ],
)
def test_describe_cluster_rejects_the_controller_endpoint_type(
    cluster: Cluster, endpoint_type: int, error: ErrorCode, message: str
) -> None:
    answer = asked(cluster, ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.error_message) == (error, message)

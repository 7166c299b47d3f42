"""List values of configurations. The expected responses are from Apache Kafka 3.9.1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.configs.config_resources import Operation
from zabka.kafka.client.admin_client import BROKER_RESOURCE, TOPIC_RESOURCE
from zabka.kafka.wire.kafka_schema import ApiKey, request

POLICIES = "String must be one of: compact, delete"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(brokers=1).start()
    made.run(made.client.create_topic("orders", 1, 1))
    yield made
    made.stop_all()


def alter(
    cluster: Cluster, operation: int, value: str, *, name: str = "cleanup.policy", kind: int = TOPIC_RESOURCE
) -> tuple[ErrorCode, str | None]:
    """Change one config key with IncrementalAlterConfigs, and return the error code and message."""
    config = {"name": name, "config_operation": int(operation), "value": value}
    resource_name = "orders" if kind == TOPIC_RESOURCE else "1"
    resource = {"resource_type": kind, "resource_name": resource_name, "configs": [config]}
    message = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    answer = cluster.on(cluster.nodes[1], cluster.nodes[1].broker.handle(message)).responses[0]
    return ErrorCode(answer.error_code), answer.error_message


def value_of(cluster: Cluster, name: str = "cleanup.policy", kind: int = TOPIC_RESOURCE) -> str | None:
    entries = cluster.run(cluster.client.describe_configs(kind, "orders" if kind == TOPIC_RESOURCE else "1"))
    return next(entry.value for entry in entries if entry.name == name)


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        ("delete", Operation.SUBTRACT, "delete", ""),
        ("compact,delete", Operation.SUBTRACT, "delete,compact", ""),
        ("delete,delete", Operation.SUBTRACT, "delete", "delete"),
        ("delete", Operation.SUBTRACT, "compact", "delete"),
        ("delete", Operation.SUBTRACT, " delete", "delete"),
        ("delete", Operation.SET, "", ""),
        ("delete", Operation.APPEND, "compact,delete", "delete,compact"),
    ],
)
def test_list_valued_topic_config_is_stored_as_in_kafka(
    cluster: Cluster, before: str, operation: int, value: str, after: str
) -> None:
    alter(cluster, Operation.SET, before)
    assert alter(cluster, operation, value) == (ErrorCode.none, None)
    assert value_of(cluster) == after


def test_append_to_an_empty_list_stores_the_value(cluster: Cluster) -> None:
    alter(cluster, Operation.SET, "")
    assert alter(cluster, Operation.APPEND, "compact") == (ErrorCode.none, None)
    assert value_of(cluster) == "compact"


def test_log_with_empty_cleanup_policy_is_never_cleaned(cluster: Cluster) -> None:
    alter(cluster, Operation.SET, "delete")
    alter(cluster, Operation.SUBTRACT, "delete")
    cluster.wait(100)
    (partition,) = cluster.nodes[1].broker.replicas.partitions.values()
    assert (partition.settings.deletes, partition.settings.compacts) == (False, False)


def test_last_value_of_a_broker_config_list_can_be_removed(cluster: Cluster) -> None:
    changed = alter(cluster, Operation.SUBTRACT, "delete", name="log.cleanup.policy", kind=BROKER_RESOURCE)
    assert changed == (ErrorCode.none, None)
    assert value_of(cluster, "log.cleanup.policy", BROKER_RESOURCE) == ""


@pytest.mark.parametrize(
    ("value", "named"), [("compact,bogus", "bogus"), ("bogus,worse", "bogus"), ("delete,", ""), (",", "")]
)
def test_error_for_a_list_value_contains_the_first_invalid_item(cluster: Cluster, value: str, named: str) -> None:
    error, message = alter(cluster, Operation.SET, value)
    assert error is ErrorCode.invalid_config
    assert message is not None and message.endswith(
        f"Invalid value {named} for configuration cleanup.policy: {POLICIES}"
    )

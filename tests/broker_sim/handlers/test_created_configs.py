"""Configurations in a CreateTopics response (KIP-525). The expected values are from Apache Kafka 3.9.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster, Node
from zabka.broker_sim.configs.config_resources import Source
from zabka.kafka.client.admin_client import BROKER_RESOURCE
from zabka.kafka.wire.frames import ResponseEncoder, decode_response
from zabka.kafka.wire.kafka_schema import ApiKey, request

KEYS_OF_KAFKA = 36


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(brokers=2, log_retention_hours="2", min_insync_replicas="2").start()
    yield made
    made.stop_all()


def created(cluster: Cluster, node: Node, version: int, name: str, **values: Any) -> Any:
    """Create a topic, and return its entry in the response as a client decodes it."""
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], **values}
    message = request(ApiKey.CREATE_TOPICS, version, topics=[topic], timeout=5_000, validate_only=True)
    answer = cluster.on(node, node.broker.handle(message))
    return decode_response(ResponseEncoder().encode(7, answer)[4:], message).topics[0]


@pytest.mark.parametrize("version", [5, 6, 7])
def test_created_topic_response_lists_all_configs_and_sources(cluster: Cluster, version: int) -> None:
    overrides = [{"name": "segment.ms", "value": "1000"}, {"name": "cleanup.policy", "value": "compact"}]
    row = created(cluster, cluster.controller, version, "orders", configs=overrides)
    configs = {config.name: (config.value, config.config_source) for config in row.configs}
    assert len(row.configs) == len(configs) == KEYS_OF_KAFKA
    assert (row.error_code, row.num_partitions, row.replication_factor) == (ErrorCode.none, 1, 1)
    assert configs["segment.ms"] == ("1000", Source.DYNAMIC_TOPIC_CONFIG)
    assert configs["cleanup.policy"] == ("compact", Source.DYNAMIC_TOPIC_CONFIG)
    assert configs["min.insync.replicas"] == ("2", Source.STATIC_BROKER_CONFIG)
    assert configs["compression.type"] == ("producer", Source.DEFAULT_CONFIG)
    assert configs["retention.ms"] == ("7200000", Source.DEFAULT_CONFIG)
    assert not any(config.read_only or config.is_sensitive for config in row.configs)


def test_created_topic_response_lists_dynamic_broker_configs(cluster: Cluster) -> None:
    controller = cluster.controller
    cluster.run(cluster.client.alter_configs(BROKER_RESOURCE, "", {"log.retention.bytes": "77"}))
    own = str(controller.broker_id)
    cluster.run(cluster.client.alter_configs(BROKER_RESOURCE, own, {"log.segment.bytes": "2000000"}))
    cluster.wait(100)
    row = created(cluster, controller, 7, "orders", configs=[])
    configs = {config.name: (config.value, config.config_source) for config in row.configs}
    assert configs["retention.bytes"] == ("77", Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert configs["segment.bytes"] == ("2000000", Source.DYNAMIC_BROKER_CONFIG)


def test_failed_topic_creation_returns_no_configs(cluster: Cluster) -> None:
    row = created(cluster, cluster.controller, 7, "bad name", configs=[])
    assert (row.error_code, row.configs) == (ErrorCode.invalid_topic_exception, ())
    assert (row.num_partitions, row.replication_factor) == (-1, -1)


def test_topic_created_via_another_broker_returns_no_configs(cluster: Cluster) -> None:
    other = next(node for node in cluster.nodes.values() if node is not cluster.controller)
    row = created(cluster, other, 7, "orders", configs=[])
    assert (row.error_code, row.error_message, row.configs) == (ErrorCode.not_controller, "", ())

"""Replicas on dead brokers, as Metadata version 0 lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.kafka.wire.kafka_schema import ApiKey, request


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster().start()
    made.run(made.client.create_topic("orders", assignment={0: [1, 2, 3]}))
    yield made
    made.stop_all()


def described(cluster: Cluster, version: int) -> tuple[ErrorCode, int, list[int], list[int]]:
    """Send Metadata to broker 1, and return the only partition's error, leader, replicas and ISR."""
    message: Any = request(ApiKey.METADATA, version, topics=[{"name": "orders"}])
    (topic,) = cluster.on(cluster.nodes[1], cluster.nodes[1].broker.handle(message)).topics
    (row,) = topic.partitions
    return row.error_code, row.leader_id, list(row.replica_nodes), list(row.isr_nodes)


def test_metadata_v0_omits_dead_replicas_and_returns_an_error(cluster: Cluster) -> None:
    # Every replica in the response must also be in the response's list of brokers, because clients look replicas up
    # there (MetadataResponse 0 has no offline replicas).
    assert described(cluster, 0) == described(cluster, 1) == (ErrorCode.none, 1, [1, 2, 3], [1, 2, 3])
    cluster.nodes[3].kill()
    cluster.expire(cluster.nodes[3])
    cluster.wait(1_000)
    assert described(cluster, 0) == (ErrorCode.replica_not_available, 1, [1, 2], [1, 2])
    assert described(cluster, 1) == (ErrorCode.none, 1, [1, 2, 3], [1, 2])
    cluster.nodes[3].boot()
    cluster.on(cluster.nodes[3], cluster.nodes[3].broker.start())
    cluster.wait(5_000)
    error, leader, replicas, isr = described(cluster, 0)
    assert (error, leader, replicas, sorted(isr)) == (ErrorCode.none, 1, [1, 2, 3], [1, 2, 3])

"""Brokers connect to each other through inter.broker.listener.name, wherever it is in their list of listeners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey, request

TP = TopicPartition("orders", 0)


@pytest.fixture(params=[{"inter.broker.listener.name": "PLAINTEXT"}, {}], ids=["named", "that of the protocol"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield brokers whose first listener has an address that other brokers cannot reach."""
    made = Cluster(min_insync_replicas="3", controlled_shutdown_retry_backoff_ms="0")
    for node in made.nodes.values():
        node.keys |= {
            "listeners": f"OUTSIDE://outside-{node.broker_id}:9093,PLAINTEXT://broker-{node.broker_id}:9092",
            "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **request.param,
        }
    made.start()
    yield made
    made.stop_all()


def test_inter_broker_listener_is_used_for_fetch_and_isr_changes(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", assignment={0: [1, 2, 3]}))
    leader = cluster.nodes[1].broker

    async def produce(acks: int) -> int:
        (produced,) = await leader.replicas.produce([(TP, build_batch([Record(b"k", b"v")]))], acks, 5_000)
        return int(produced.error)

    assert cluster.on(cluster.nodes[1], produce(acks=-1)) == 0
    # Pause a follower, so that it leaves the ISR and returns to it later. The leader must reach the controller for both
    # ISR changes.
    lagging = next(node for node in (cluster.nodes[2], cluster.nodes[3]) if not node.broker.controller.is_active)
    lagging.runtime.pause()
    assert cluster.on(cluster.nodes[1], produce(acks=1)) == 0
    cluster.wait(5_500)
    assert lagging.broker_id not in leader.replicas.partitions[TP].isr_state.isr
    lagging.runtime.resume()
    cluster.wait(5_000)
    assert sorted(leader.replicas.partitions[TP].isr_state.isr) == [1, 2, 3]


def test_inter_broker_listener_is_used_for_controlled_shutdown(cluster: Cluster) -> None:
    leaving, other = (node for node in cluster.nodes.values() if not node.broker.controller.is_active)
    replicas = [leaving.broker_id, other.broker_id]
    cluster.run(cluster.client.create_topic("orders", assignment={0: replicas}))
    cluster.on(leaving, leaving.broker.leaving.leave())
    cluster.wait(100)
    assert not leaving.logged and other.broker.replicas.partitions[TP].is_leader


def test_metadata_returns_endpoints_of_the_clients_listener(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    asked = request(ApiKey.METADATA, 12, topics=[])
    for listener, host in (("OUTSIDE", "outside"), ("PLAINTEXT", "broker")):
        answer = cluster.on(node, node.broker.handle(asked, "c", listener))
        assert [broker.host for broker in answer.brokers] == [f"{host}-{number}" for number in (1, 2, 3)]


def test_metadata_omits_brokers_without_the_clients_listener(cluster: Cluster) -> None:
    # KIP-103: the client may be unable to reach the address of another listener.
    cluster.run(cluster.client.create_topic("orders", assignment={0: [3, 1], 1: [1, 3]}))
    lacking = cluster.nodes[3]
    lacking.kill()
    cluster.expire(lacking)
    del lacking.keys["listeners"]
    lacking.boot()
    cluster.on(lacking, lacking.broker.start())
    cluster.wait(5_000)
    cluster.run(cluster.client.elect_leaders(0, [TP]))
    node = cluster.nodes[1]

    def described(version: int, listener: str) -> tuple[list[int], list[tuple[ErrorCode, int, list[int]]]]:
        asked: Any = request(ApiKey.METADATA, version, topics=[{"name": "orders"}])
        answer = cluster.on(node, node.broker.handle(asked, "c", listener))
        rows = answer.topics[0].partitions
        brokers = [broker.node_id for broker in answer.brokers]
        return brokers, [(row.error_code, row.leader_id, list(row.replica_nodes)) for row in rows]

    none = ErrorCode.none
    assert described(12, "PLAINTEXT") == ([1, 2, 3], [(none, 3, [3, 1]), (none, 1, [1, 3])])
    assert described(12, "OUTSIDE") == ([1, 2], [(ErrorCode.listener_not_found, -1, [3, 1]), (none, 1, [1, 3])])
    assert described(5, "OUTSIDE") == ([1, 2], [(ErrorCode.leader_not_available, -1, [3, 1]), (none, 1, [1, 3])])
    missing = (ErrorCode.replica_not_available, 1, [1])
    assert described(0, "OUTSIDE") == ([1, 2], [(ErrorCode.leader_not_available, -1, [1]), missing])

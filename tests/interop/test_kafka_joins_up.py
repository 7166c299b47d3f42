"""A user adds an Apache Kafka broker to a cluster started by `zabka up`.

Its server.properties contains only the zookeeper.connect. The broker is shown as its znodes describe it, gets replicas,
and can become controller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.kafka_tools import called
from tests.interop.real_kafka import KafkaServer
from zabka.cli import reassign as reassign_tool
from zabka.journal.checkers.invariants import check
from zabka.journal.events import entry_from_dict
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.cluster import LiveCluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.zabka(peers=3, brokers=3)]

OURS = (1, 2, 3)
JOINED = 4
COMES_S = 60.0
SESSION_S = 30.0
"""Kafka's session timeout in seconds, plus a margin for a busy machine."""


@pytest.fixture
def joined(zabka_cluster: LiveCluster, tmp_path: Path) -> Iterator[KafkaServer]:
    """Yield the Kafka broker once it is registered and all other brokers know it."""
    kafka = KafkaServer(JOINED, tmp_path / "joined", zabka_cluster.zookeeper_connect)
    kafka.start()
    try:
        zabka_cluster.until(lambda: shown(zabka_cluster)["registered"], COMES_S, "broker 4")
        yield kafka
    finally:
        kafka.kill()


def shown(cluster: LiveCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(f"/api/v1/brokers/{JOINED}")
    return found


def current_controller(cluster: LiveCluster) -> int:
    return int(cluster.get("/api/v1/controller")["broker_id"])


def last_term(cluster: LiveCluster, broker_id: int) -> dict[str, Any]:
    terms = cluster.get("/api/v1/cluster")["controller_terms"]
    return next(dict(term) for term in reversed(terms) if term["broker_id"] == broker_id)


def make_controller(cluster: LiveCluster) -> None:
    """Make the Kafka broker the controller: it alone takes part in the election."""
    for number in OURS:
        cluster.brokers[number].pause()
    cluster.until(lambda: current_controller(cluster) == JOINED, SESSION_S, "broker 4 as controller")
    for number in OURS:
        cluster.brokers[number].resume()
    cluster.until(lambda: all(cluster.brokers[b].believes.controller_id == JOINED for b in OURS), SESSION_S, "belief")
    cluster.until(lambda: all(cluster.brokers[b].registered for b in OURS), SESSION_S, "all brokers registered")


def reassign(cluster: LiveCluster, directory: Path, topic: str, *replicas: int) -> None:
    """Move partition 0 with our own reassignment tool, and wait until the move is complete."""
    plan = directory / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": list(replicas)}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    arguments = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan))

    def is_begun() -> bool:
        output = called(reassign_tool.main, *arguments, "--execute")
        # Like Kafka's brokers, a broker replies that the topic does not exist until it has the metadata of the new
        # topic.
        assert output.code == 0 or f"Topic {topic} not found." in output.out, output
        return output.code == 0

    cluster.until(is_begun, COMES_S, f"a plan for {topic}")

    def is_there() -> bool:
        partition = cluster.topics[topic].partitions[0]
        return sorted(partition.isr) == sorted(replicas) == sorted(partition.replicas)

    cluster.until(is_there, COMES_S, f"{topic} on {replicas}")
    assert "is completed" in called(reassign_tool.main, *arguments, "--verify").out


def test_joined_kafka_broker_is_listed_and_can_be_controller(
    zabka_cluster: LiveCluster, joined: KafkaServer, tmp_path: Path
) -> None:
    cluster = zabka_cluster
    found = shown(cluster)
    assert (found["process"], found["pid"], found["is_controller"]) == ("unknown", None, False)
    assert (found["host"], found["port"]) == ("127.0.0.1", joined.port)
    assert [broker["id"] for broker in cluster.get("/api/v1/cluster")["brokers"]] == [*OURS, JOINED]
    with pytest.raises(ClusterFailed, match="was not started by this cluster"):
        cluster.post(f"/api/v1/brokers/{JOINED}/kill")

    # Place replicas on the Kafka broker in two ways: create one topic with replicas there, and reassign another topic
    # to it.
    cluster.topics.create("placed", assignment={0: [JOINED, 1], 1: [2, JOINED]})
    assert [p.leader for p in cluster.topics["placed"].partitions] == [JOINED, 2]
    cluster.topics.create("moved", assignment={0: [1, 2]})
    cluster.produce("moved", ["a", "b"])
    reassign(cluster, tmp_path, "moved", JOINED)
    cluster.produce("moved", ["c"])
    assert cluster.consume("moved") == ["a", "b", "c"]

    # The Kafka broker becomes the controller of our brokers.
    make_controller(cluster)
    assert shown(cluster)["is_controller"]
    assert cluster.get("/readyz")["controller"] == JOINED
    cluster.until(lambda: last_term(cluster, JOINED)["until_us"] is None, COMES_S, "its controller term in the journal")
    cluster.topics.create("by-kafka", assignment={0: [1, 2, 3]}, config={"min.insync.replicas": "2"})
    reassign(cluster, tmp_path, "by-kafka", 3, JOINED)
    cluster.topics["by-kafka"].delete()

    # The Kafka broker dies, and one of our brokers becomes the next controller with the same state.
    joined.kill()
    cluster.until(lambda: current_controller(cluster) in OURS, SESSION_S, "a controller of ours")
    cluster.until(
        lambda: last_term(cluster, JOINED)["ended_by"].startswith("session_"), COMES_S, "the end of its controller term"
    )
    assert (shown(cluster)["process"], shown(cluster)["registered"]) == ("unknown", False)
    assert cluster.topics["placed"].partitions[0].leader == 1
    joined.start()
    cluster.until(lambda: cluster.topics["moved"].partitions[0].leader == JOINED, COMES_S, "moved led again")
    reassign(cluster, tmp_path, "moved", 2, 3)
    assert cluster.consume("moved") == ["a", "b", "c"]

    # Stop the Kafka broker once it has no replica. It must then disappear from the list of brokers.
    cluster.topics["placed"].delete()
    joined.stop()
    cluster.until(lambda: [b["id"] for b in cluster.get("/api/v1/brokers")] == list(OURS), SESSION_S, "three brokers")
    assert check([entry_from_dict(dict(event)) for event in cluster.events(after_us=-1)]) == []

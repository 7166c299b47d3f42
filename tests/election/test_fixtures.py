"""The fixtures themselves: their state at the start of a test, and the message when a condition never becomes true."""

from __future__ import annotations

import pytest

from zabka.testing.cluster import Cluster, ClusterFailed
from zabka.testing.worlds.cluster import start_simulated


def test_cluster_fixture_is_empty_and_in_sync_when_a_test_starts(cluster: Cluster) -> None:
    assert {node.process for node in (*cluster.peers.values(), *cluster.brokers.values())} == {"running"}
    assert all(broker.registered for broker in cluster.brokers.values())
    assert cluster.controller is not None
    assert cluster.zab_leader is not None
    assert cluster.topics.names() == []


@pytest.mark.scenario(30)
def test_produced_records_can_be_consumed(cluster: Cluster) -> None:
    cluster.topics.create("orders", partitions=2, config={"min.insync.replicas": "2"})

    assert cluster.produce("orders", ["a", "b"], 1) == 0
    assert cluster.produce("orders", ["c"], 1) == 2

    assert cluster.consume("orders", 1) == ["a", "b", "c"]
    assert cluster.consume("orders", 0) == []
    assert cluster.topics["orders"].config == {"min.insync.replicas": "2"}
    cluster.topics["orders"].delete()
    cluster.until(lambda: cluster.topics.names() == [])


def test_error_of_a_cluster_operation_contains_the_reason(cluster: Cluster) -> None:
    cluster.topics.create("orders")

    with pytest.raises(ClusterFailed, match="exists"):
        cluster.topics.create("orders")
    with pytest.raises(ClusterFailed, match=r"min\.insync\.replicas"):
        cluster.topics["orders"].set_config({"min.insync.replicas": "none"})
    with pytest.raises(ClusterFailed):
        cluster.brokers[1].start()
    assert cluster.elect("PREFERRED", "orders") == "ELECTION_NOT_NEEDED"


def test_condition_timeout_error_contains_the_last_value(cluster: Cluster) -> None:
    with pytest.raises(
        ClusterFailed, match=r"a fourth broker `.*` did not come true within 0\.2 s; it last returned 0"
    ):
        cluster.until(lambda: len(cluster.brokers) - 3, 0.2, "a fourth broker")


@pytest.mark.zabka(peers=1, brokers=1, settings={"replica.lag.time.max.ms": "1234"})
def test_settings_marker_applies_to_the_cluster_of_its_test(cluster: Cluster) -> None:
    assert list(cluster.peers) == list(cluster.brokers) == [1]
    assert cluster.settings()["replica.lag.time.max.ms"] == "1234"
    assert cluster.settings("peer-1")["tickTime"] == "500"


def test_broker_partitioned_from_the_ensemble_loses_its_session(cluster: Cluster) -> None:
    controller = cluster.until(lambda: cluster.controller)
    broker = next(broker for broker in cluster.brokers.values() if broker.id != controller.id)

    cuts = [cluster.faults.cut(broker, peer) for peer in cluster.peers.values()]
    cluster.until(lambda: not broker.registered)
    assert broker.process == "running"

    for cut in cuts:
        cut.heal()
    cluster.until(lambda: broker.registered)


def test_same_seed_gives_the_same_history() -> None:
    def history(seed: int) -> list[bytes]:
        cluster = start_simulated(seed=seed)
        cluster.topics.create("orders", partitions=2)
        workload = cluster.workload("orders")
        cluster.let_pass(2)
        cluster.until(lambda: cluster.controller).kill()
        cluster.until(lambda: cluster.controller)
        workload.stop()
        cluster.close()
        return list(cluster.world.record.lines())

    assert history(3) == history(3)
    assert history(3) != history(4)


def test_settings_in_pytest_configuration_reach_the_cluster(cluster: Cluster, pytestconfig: pytest.Config) -> None:
    configured = dict(line.split("=") for line in pytestconfig.getini("zabka_settings"))
    assert configured
    assert configured.items() <= cluster.settings().items()

"""Workloads with transactions: a producer that aborts some, and a loop that copies committed records exactly once."""

from __future__ import annotations

import pytest

from zabka.testing import Cluster, ClusterFailed, LiveCluster, SimulatedCluster


def _copies_committed_records_once(cluster: Cluster, kills: bool) -> None:
    for name in ("orders", "totals"):
        cluster.topics.create(name, partitions=2, replication_factor=3)
    producer = cluster.transactional_producer("orders", records_per_s=30, abort_every=4)
    loop = cluster.read_process_write("orders", "totals", "movers")
    cluster.until(lambda: loop.counts.records > 20 and producer.counts.aborted > 1)
    if kills:
        leader = cluster.topics["totals"].partitions[0].leader
        cluster.brokers[leader].kill()
        before = producer.counts.committed
        cluster.until(lambda: producer.counts.committed > before + 3, 60.0)
        cluster.brokers[leader].start()
    sent = producer.stop()
    assert sent.committed > 0 and sent.aborted > 1

    def committed(topic: str) -> list[str | bytes]:
        return sorted(each.value for each in cluster.records(topic, isolation_level="read_committed") if each.value)

    cluster.until(lambda: committed("totals") == committed("orders"), 60.0)
    copied = committed("totals")
    assert len(copied) == len(set(copied))
    if not sent.unknown:
        assert len(copied) == sent.records
        assert len(cluster.records("orders")) > sent.records
    assert loop.stop().committed > 0


def test_simulated_copy_loop_copies_records_once_despite_kills(zabka_world: SimulatedCluster) -> None:
    _copies_committed_records_once(zabka_world, kills=True)


def test_live_copy_loop_copies_committed_records_once(zabka_cluster: LiveCluster) -> None:
    _copies_committed_records_once(zabka_cluster, kills=False)
    kinds = {each["kind"]: each for each in zabka_cluster.get("/api/v1/workloads")}
    assert kinds["transactional-producer"]["aborted"] > 1
    assert kinds["read-process-write"]["output"] == "totals"


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "read-process-write", "topic": "orders", "group": "g"},
        {"kind": "read-process-write", "topic": "orders", "output": "totals"},
        {"kind": "read-process-write", "topic": "orders", "output": "t", "group": "g", "offsets": "zookeeper"},
        {"kind": "transactional-producer", "topic": "orders", "acks": "1"},
        {"kind": "producer", "topic": "orders", "transactional_id": "x"},
        {"kind": "consumer", "topic": "orders", "group": "g", "output": "totals"},
    ],
)
def test_live_workload_with_invalid_fields_is_rejected(zabka_cluster: LiveCluster, body: dict[str, str]) -> None:
    with pytest.raises(ClusterFailed, match="422"):
        zabka_cluster.post("/api/v1/workloads", body)

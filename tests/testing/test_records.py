"""Records that tests write and read."""

from __future__ import annotations

from zabka.testing import Cluster, LiveCluster, Record, running_world

WRITTEN = [
    Record("paid", key="7", headers=(("trace", b"\x01"), ("empty", None)), timestamp_ms=1_700_000_000_000, partition=1),
    Record(b"\xff", key=b"8", timestamp_ms=1_700_000_000_001),
    Record(None, key="7", timestamp_ms=1_700_000_000_002, partition=1),
]
READ = [
    Record(b"\xff", b"8", (), 1_700_000_000_001, 0, 0),
    Record(b"paid", b"7", (("trace", b"\x01"), ("empty", None)), 1_700_000_000_000, 1, 0),
    Record(None, b"7", (), 1_700_000_000_002, 1, 1),
]


def write_and_read(cluster: Cluster) -> None:
    cluster.topics.create("orders", partitions=2)
    assert cluster.produce("orders", WRITTEN) == 0
    assert cluster.records("orders") == READ
    assert cluster.records("orders", 1, isolation_level="read_committed") == READ[1:]
    assert [cluster.consume("orders", number) for number in (0, 1)] == [["\\xff"], ["paid", ""]]
    assert cluster.produce("orders", ["later", b"bytes"]) == 1
    assert cluster.records("orders", 0)[-1].value == b"bytes"


def test_simulated_record_keeps_key_headers_time_and_partition() -> None:
    with running_world(peers=1, brokers=1) as world:
        write_and_read(world)


def test_live_record_keeps_key_headers_timestamp_and_partition(zabka_cluster: LiveCluster) -> None:
    write_and_read(zabka_cluster)

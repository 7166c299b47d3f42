"""The availability of partitions and clients, computed from journals with known times."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.pipeline.in_order import rows_of
from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.journal.writer import encode_line
from zabka.pipeline import jobs
from zabka.pipeline.availability import availability, client_availability


def written(directory: Path, *events: tuple[str, int, Event]) -> Path:
    """Write a history of (node, second, event), in which all nodes have the same clock. Return its directory."""
    lines = [
        encode_line(node, number, second * 1_000_000, second * 1_000_000, event)
        for number, (node, second, event) in enumerate(events, 1)
    ]
    (directory / "seed-1.jsonl").write_bytes(b"".join(lines))
    return directory


def test_acks_all_waits_for_dead_and_unreachable_isr_members(spark: SparkSession, tmp_path: Path) -> None:
    """Writes with acks=all wait for ISR members that are dead or unreachable.

    Broker 1 leads from second 0 to 100, with three replicas and min.insync.replicas 2.

    Follower 2 is dead from 10 to 20, and its link is partitioned from 15 to 25: together 15 s. The leader is paused
    from 30 to 34, and link 1-3 is partitioned from 32 to 40: only the 6 s after the pause count. Follower 3 leaves the
    ISR at 50 and is dead from 52 to 60: no time is lost. From 70 to 80, only the leader is in the ISR. The link between
    2 and 3 does not count.
    """

    def isr(epoch: int, *members: int) -> Event:
        return e.IsrChanged("t", 0, list(members), 1, 0, epoch, "lag", 1, 10 + epoch)

    def process(broker: int, state: str, action: str) -> Event:
        return e.ProcessChanged(f"broker-{broker}", state, None, action)

    def cut(fault: str, source: int, target: int) -> Event:
        return e.FaultInjected(fault, "cut", f"broker-{source}", f"broker-{target}", False)

    history = written(
        tmp_path,
        ("broker-1", 0, e.NodeStarted("broker", 1, {"min.insync.replicas": "2"})),
        ("broker-1", 0, e.LeaderElected("t", 0, 1, 0, [1, 2, 3], [1, 2, 3], 0, 1, False, "new_topic", 2)),
        ("host-1", 5, cut("f0", 2, 3)),
        ("host-1", 10, process(2, "down", "kill")),
        ("host-1", 15, cut("f1", 2, 1)),
        ("host-1", 20, process(2, "running", "start")),
        ("host-1", 25, e.FaultRemoved("f1")),
        ("host-1", 30, process(1, "paused", "pause")),
        ("host-1", 32, cut("f2", 1, 3)),
        ("host-1", 34, process(1, "running", "resume")),
        ("host-1", 40, e.FaultRemoved("f2")),
        ("broker-1", 50, isr(1, 1, 2)),
        ("host-1", 52, process(3, "down", "kill")),
        ("host-1", 60, process(3, "running", "start")),
        ("broker-1", 70, isr(2, 1)),
        ("broker-1", 80, isr(3, 1, 2, 3)),
        ("broker-1", 100, e.NodeStopped("end")),
    )
    (row,) = rows_of(jobs.read_journal(spark, history), availability)
    parts = ("observed", "offline", "leader_down", "under_min_isr", "isr_stalled", "under_replicated")
    assert [row[f"{part}_ms"] for part in parts] == [100_000, 0, 4_000, 10_000, 21_000, 30_000]
    assert (row["available_acks_1_ms"], row["availability_acks_1"]) == (96_000, 0.96)
    assert (row["available_acks_all_ms"], row["availability_acks_all"]) == (65_000, 0.65)


def test_network_partition_ends_when_its_host_agent_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """A network partition ends when the host agent that injected it restarts.

    The partition begins at second 10, and the agent that injected it restarts at second 30. The start of the other
    agent at second 20, and the second restart of the first one at second 40, have no effect.
    """
    history = written(
        tmp_path,
        ("host-1", 0, e.NodeStarted("host", 1, {})),
        ("broker-1", 0, e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 2)),
        ("host-1", 10, e.FaultInjected("f1", "cut", "broker-1", "broker-2", True)),
        ("host-2", 20, e.NodeStarted("host", 2, {})),
        ("host-1", 30, e.NodeStarted("host", 1, {})),
        ("host-1", 40, e.NodeStarted("host", 1, {})),
        ("broker-1", 50, e.NodeStopped("end")),
    )
    (row,) = rows_of(jobs.read_journal(spark, history), availability)
    assert (row["isr_stalled_ms"], row["available_acks_1_ms"]) == (20_000, 50_000)


def test_follower_cut_from_all_nodes_blocks_acks_all_writes(spark: SparkSession, tmp_path: Path) -> None:
    """A network partition of an ISR member from all other nodes blocks the leader's writes with acks=all.

    Broker 2, a follower in the ISR, is partitioned from 10 to 25, and broker 3, outside the ISR, from 30 to 40.
    """
    history = written(
        tmp_path,
        ("broker-1", 0, e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2, 3], 0, 1, False, "new_topic", 2)),
        ("host-1", 10, e.FaultInjected("f1", "cut", "broker-2", "*", True)),
        ("host-1", 25, e.FaultRemoved("f1")),
        ("host-1", 30, e.FaultInjected("f2", "cut", "*", "broker-3", False)),
        ("host-1", 40, e.FaultRemoved("f2")),
        ("broker-1", 50, e.NodeStopped("end")),
    )
    (row,) = rows_of(jobs.read_journal(spark, history), availability)
    assert (row["isr_stalled_ms"], row["available_acks_1_ms"]) == (15_000, 50_000)


def test_client_availability_is_the_share_of_unblocked_time(spark: SparkSession, tmp_path: Path) -> None:
    """The availability of a client is the share of time in which it did not have to wait.

    All writes of workload w1 were acknowledged, but it waited for 30 of 120 seconds. w2 is from an older version.
    """

    def progressed(second: int, acknowledged: int, waited_ms: int) -> tuple[str, int, Event]:
        event = e.WorkloadProgressed("w1", "t", acknowledged, acknowledged, 0, 0, "all")
        event.running_ms, event.waited_ms = second * 1_000, waited_ms
        return "api-1", second, event

    older = e.WorkloadProgressed("w2", "t", 10, 9, 1, 0)
    lines = [progressed(10, 100, 0), progressed(60, 200, 30_000), progressed(120, 900, 30_000), ("api-1", 120, older)]
    written(tmp_path, *lines)
    columns = ("workload_id", "acks", "acknowledged", "running_ms", "waited_ms", "share")
    rows = rows_of(jobs.read_journal(spark, tmp_path), client_availability, *columns)
    assert [tuple(row)[1:] for row in rows] == [
        ("w1", "all", 900, 120_000, 30_000, 0.75), ("w2", None, 9, None, None, None),
    ]  # fmt: skip

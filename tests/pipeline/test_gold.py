"""The tables of failovers, losses, the ensemble and faults, and the report of expectations that rows violate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.folded import play
from tests.pipeline.in_order import rows_of
from zabka.journal import events as e
from zabka.pipeline import jobs
from zabka.pipeline.availability import client_availability
from zabka.pipeline.controller_terms import controller_terms, failovers
from zabka.pipeline.ensembles import elections, sessions
from zabka.pipeline.gold import TABLES, TYPES, checked
from zabka.pipeline.losses import records_lost
from zabka.pipeline.ranges import SCHEMA, FileRange, read_range, read_share
from zabka.pipeline.rows import Journal
from zabka.pipeline.source import shares_of
from zabka.pipeline.tables import faults


@pytest.mark.long
@pytest.mark.timeout(600)
def test_table_without_its_event_types_has_no_row(spark: SparkSession, tmp_path: Path) -> None:
    """A table has no row if the journal contains no event of the types declared for the table.

    The history in this test has events of all other types.
    """
    play(2, tmp_path)
    read = pa.Table.from_batches(read_share(shares_of(tmp_path, frozenset(TYPES))[0]))
    for table in TABLES:
        if table.rows_of:
            others = read.filter(pc.invert(pc.is_in(read["type"], pa.array(table.rows_of))))
            assert checked(table, Journal(spark.createDataFrame(others), types=set())).count() == 0, table.name


def test_failover_duration_is_measured_by_phase(spark: SparkSession, history: Any) -> None:
    write = history.write
    write("broker-1", e.ControllerElected(1, 1, 1, 1))
    write("host-1", e.ProcessChanged("broker-1", "down", None, "kill"))
    history.now_us += 3_000_000
    write("peer-1", e.SessionExpired(9, 6000, 4_000, 2))
    write("peer-1", e.SessionClosed(9, 5, ["/controller"], "expiry 0x9"))
    write("broker-2", e.ControllerElected(2, 2, 2, 6))
    write("broker-2", e.ControllerReady(2, 2, 30, 20))
    write("broker-2", e.ControllerPropagated(2, 2, 1, 7))
    (row,) = rows_of(jobs.read_journal(spark, history.directory), failovers)
    assert (row["controller_epoch"], row["broker_id"], row["previous_broker_id"]) == (2, 2, 1)
    assert row["cause"] == "session_expired"
    phases = [row[f"{name}_ms"] for name in ("detect", "elect", "read", "decide", "propagate", "total")]
    # The session expires four seconds after the broker's death, and is closed one second later. Then the controller is
    # elected, becomes ready and is propagated, one second after the previous step each time.
    assert phases == [5_000, 1_000, 30, 20, 7, 7_007]


def test_failover_by_a_superseded_controller_has_no_duration(spark: SparkSession, history: Any) -> None:
    history.write("broker-1", e.ControllerElected(1, 1, 1, 1))
    history.now_us += 30_000_000
    history.write("broker-2", e.ControllerElected(2, 2, 2, 6))
    history.write("broker-2", e.ControllerReady(2, 2, 30, 20))
    journal = jobs.read_journal(spark, history.directory)
    first, second = rows_of(journal, controller_terms)
    assert (first["ended_by"], second["gap_before_ms"]) == ("superseded", None)
    (row,) = rows_of(journal, failovers)
    assert (row["detect_ms"], row["elect_ms"], row["read_ms"], row["total_ms"]) == (None, None, 30, None)


def test_election_of_a_killed_peer_ends_before_its_restart(spark: SparkSession, history: Any) -> None:
    def state(state: str, phase: str) -> e.PeerStateChanged:
        return e.PeerStateChanged(state, phase, -1, 1, 1, 1, 0)

    history.write("peer-1", e.NodeStarted("peer", 1, {}))
    history.write("peer-1", state("LOOKING", "ELECTION"))
    history.write("peer-1", state("FOLLOWING", "DISCOVERY"))
    history.now_us += 3_600_000_000
    history.write("peer-1", e.NodeStarted("peer", 1, {}))
    history.write("peer-1", state("LOOKING", "ELECTION"))
    history.write("peer-1", e.NodeStopped("shutdown"))
    rows = rows_of(jobs.read_journal(spark, history.directory), elections)
    assert [(row["election_ms"], row["discovery_ms"], row["total_ms"]) for row in rows] == [
        (1_000, None, None),
        (1_000, None, None),
    ]


def test_overlapping_losses_of_several_replicas_become_one_row(spark: SparkSession, history: Any) -> None:
    for broker, first, last in ((1, 10, 19), (2, 15, 24), (3, 25, 25), (1, 40, 41)):
        history.write(f"broker-{broker}", e.RecordsLost(broker, "t", 0, first, last, last - first + 1, broker, "x"))
    rows = rows_of(jobs.read_journal(spark, history.directory), records_lost)
    assert [(r["first_offset"], r["last_offset"], r["count"], r["broker_ids"]) for r in rows] == [
        (10, 25, 16, [1, 2, 3]),
        (40, 41, 2, [1]),
    ]


def test_offset_lost_by_several_replicas_is_counted_once(spark: SparkSession, history: Any) -> None:
    """An offset that several replicas have lost counts as one committed record.

    Offsets 10 to 14 and 12 to 19 are ten records. Offsets 25 to 27, in the journal of an older version, are three more.
    """
    for broker, first, last, committed, newer in ((1, 10, 19, 5, 5), (2, 12, 24, 8, 8), (3, 25, 30, 3, -1)):
        event = e.RecordsLost(broker, "t", 0, first, last, last - first + 1, committed, "x", committed_at_least=newer)
        history.write(f"broker-{broker}", event)
    (row,) = rows_of(jobs.read_journal(spark, history.directory), records_lost)
    assert (row["count"], row["committed_at_least"], row["below_high_watermark"]) == (21, 13, 13)


def test_loss_below_the_high_watermark_of_a_replica_is_committed(spark: SparkSession, history: Any) -> None:
    """A lost record counts as committed if any replica had a high watermark above it in the same log.

    Offsets 10 to 19 of leader epoch 3 are lost. The replica knew that five of them were committed, and its leader knew
    that eight were committed.

    Three kinds of high watermarks belong to other logs and do not count: those of another leader epoch, those of
    another topic with the same name, and those of the follower before its high watermark increased.
    """
    write = history.write

    def role(broker: int, epoch: int, topic_id: str) -> e.LeadershipTaken:
        return e.LeadershipTaken(
            broker, "t", 0, leader_epoch=epoch, log_end_offset=10, high_watermark=8, topic_id=topic_id
        )

    def progressed(broker: int, *high_watermarks: int) -> None:
        for high_watermark in high_watermarks:
            write(f"broker-{broker}", e.ReplicaProgressed(broker, [("u", 0, 99, 99), ("t", 0, high_watermark, 99)]))

    write("broker-1", role(1, 3, "old"))
    progressed(1, 50)
    write("broker-1", role(1, 3, "new"))
    write("broker-2", e.FollowershipTaken(2, "t", 0, 1, leader_epoch=3, log_end_offset=10, topic_id="new"))
    progressed(2, 40, 9, 15)
    write("broker-3", role(3, 4, "new"))
    progressed(3, 30)
    lost = e.RecordsLost(2, "t", 0, 10, 19, 10, 5, "x", topic_id="new", committed_at_least=5, leader_epoch=3)
    write("broker-2", lost)
    # The leader's entry comes late by the clock, but leader epochs determine the order.
    progressed(1, 18)
    write("broker-2", e.RecordsLost(2, "t", 0, 25, 26, 2, 0, "x", topic_id="new", leader_epoch=4))
    rows = rows_of(jobs.read_journal(spark, history.directory), records_lost)
    assert [(row["first_offset"], row["count"], row["committed_at_least"]) for row in rows] == [(10, 10, 8), (25, 2, 2)]


def test_acknowledged_losses_are_from_the_last_workload_reports(spark: SparkSession, history: Any) -> None:
    """Lost acknowledged records are counted from the last report of each workload.

    Offsets 10 to 19 and 30 to 39 are lost. Workload w1 misses 15 to 20 and five of 28 to 99, and w2 misses 11.
    """

    def progress(workload: str, acks: str, *missing: tuple[int, int, int, int]) -> None:
        spans = [e.LostSpan(*span) for span in missing]
        event = e.WorkloadProgressed(workload, "t", 90, 90, 0, sum(span.count for span in spans), acks, spans)
        history.write("api-1", event)

    for topic, first in (("t", 10), ("t", 30), ("u", 0), ("v", 0)):
        history.write("broker-1", e.RecordsLost(1, topic, 0, first, first + 9, 10, 0, "x"))
    progress("w1", "1", (0, 30, 39, 10))
    progress("w1", "1", (0, 15, 20, 6), (0, 28, 99, 5), (1, 10, 19, 10))
    progress("w2", "all", (0, 11, 11, 1))
    history.write("api-1", e.WorkloadProgressed("w3", "u", 9, 9, 0, 0, "all"))
    history.write("api-1", e.WorkloadProgressed("w4", "v", 9, 0, 0, 0, "0"))
    rows = rows_of(jobs.read_journal(spark, history.directory), records_lost)
    assert [(row["topic"], row["first_offset"], row["acknowledged"]) for row in rows] == [
        ("t", 10, 6), ("t", 30, 5), ("u", 0, 0), ("v", 0, None),
    ]  # fmt: skip


def test_lost_records_of_a_workload_are_from_its_last_report(spark: SparkSession, history: Any) -> None:
    for workload, counts in (("w1", (0, 61, 0, 148, 0)), ("w2", (0, 5, 3))):
        for sent, lost in enumerate(counts, start=200):
            history.write("api-1", e.WorkloadProgressed(workload, "t", sent, sent, 0, lost))
    found = rows_of(jobs.read_journal(spark, history.directory), client_availability)
    assert [(row["workload_id"], row["acknowledged"], row["lost"]) for row in found] == [("w1", 204, 0), ("w2", 202, 3)]


def test_losses_of_a_recreated_topic_are_in_separate_rows(spark: SparkSession, history: Any) -> None:
    reported = ((1, 10, 19, "old"), (2, 15, 24, "old"), (1, 15, 30, "new"), (2, 25, 26, ""))
    for broker, first, last, topic_id in reported:
        lost = e.RecordsLost(broker, "t", 0, first, last, last - first + 1, 0, "x", topic_id=topic_id)
        history.write(f"broker-{broker}", lost)
    rows = rows_of(jobs.read_journal(spark, history.directory), records_lost)
    assert [(r["topic_id"], r["first_offset"], r["last_offset"], r["count"]) for r in rows] == [
        ("", 25, 26, 2),
        ("new", 15, 30, 16),
        ("old", 10, 24, 15),
    ]


def test_session_election_and_fault_rows_have_start_and_end(spark: SparkSession, history: Any) -> None:
    def state(state: str, phase: str, round_: int = 1) -> e.PeerStateChanged:
        return e.PeerStateChanged(state, phase, 3 if state != "LOOKING" else -1, round_, 1, 1, 0)

    write = history.write
    for peer in ("peer-1", "peer-2"):
        write(peer, e.SessionCreated(7, 6000, 3))
    write("peer-1", state("LOOKING", "ELECTION"))
    write("peer-1", state("LOOKING", "ELECTION", 2))
    write("peer-1", state("FOLLOWING", "DISCOVERY"))
    write("host-1", e.FaultInjected("f1", "cut", "broker-1", "peer-1", True))
    write("peer-1", state("FOLLOWING", "BROADCAST"))
    write("host-1", e.FaultRemoved("f1"))
    write("host-1", e.FaultInjected("f1", "cut", "broker-1", "peer-1", True))
    for peer in ("peer-1", "peer-2"):
        write(peer, e.SessionClosed(7, 9, ["/brokers/ids/1"], "expiry 0x7"))
    journal = jobs.read_journal(spark, history.directory)
    (session,) = rows_of(journal, sessions)
    assert (session["duration_ms"], session["ended_by"], session["timeout_ms"]) == (9_000, "expired", 6_000)
    assert session["ephemerals"] == ["/brokers/ids/1"]
    (election,) = rows_of(journal, elections)
    assert (election["election_ms"], election["discovery_ms"], election["total_ms"]) == (2_000, 2_000, 4_000)
    assert (election["rounds"], election["state"], election["leader_id"]) == (2, "FOLLOWING", 3)
    assert [(row["fault_id"], row["duration_ms"]) for row in rows_of(journal, faults)] == [("f1", 2_000), ("f1", None)]


def test_fault_table_lists_killed_stopped_and_paused_processes(spark: SparkSession, history: Any) -> None:
    """Kills, stops and pauses are rows of the table of faults.

    Exits without a kill, starts and resumes are not faults. A pause lasts until the process is killed, and a kill until
    the process starts again.
    """
    changes = (
        ("broker-1", "running", "start"), ("broker-1", "paused", "pause"), ("broker-1", "down", "kill"),
        ("peer-1", "paused", "pause"), ("broker-1", "running", "start"), ("peer-1", "running", "resume"),
        ("broker-1", "down", "exited"), ("peer-1", "down", "stop"),
    )  # fmt: skip
    requesters = {"kill": "page", "stop": "shutdown of the host agent", "pause": "scenario x"}
    for target, process, action in changes:
        history.write("host-1", e.ProcessChanged(target, process, None, action, requesters.get(action, "")))
    history.write("host-1", e.FaultInjected("f1", "cut", "broker-1", "peer-1", True, requester="fixture"))
    history.write("host-1", e.FaultRemoved("f1"))
    history.write("host-1", e.FaultInjected("f2", "cut", "broker-1", "peer-1", True))
    columns = ("kind", "source", "target", "duration_ms", "requester")
    found = rows_of(jobs.read_journal(spark, history.directory), faults, *columns)
    assert [row[1:] for row in found] == [
        ("pause", "broker-1", "broker-1", 1_000, "scenario x"),
        ("kill", "broker-1", "broker-1", 2_000, "page"),
        ("pause", "peer-1", "peer-1", 2_000, "scenario x"),
        ("stop", "peer-1", "peer-1", None, "shutdown of the host agent"),
        ("cut", "broker-1", "peer-1", 1_000, "fixture"),
        ("cut", "broker-1", "peer-1", None, None),
    ]


def test_unmet_expectation_is_reported(spark: SparkSession, history: Any, tmp_path: Path) -> None:
    history.write("api-1", e.WorkloadProgressed("w1", "t", 5, 4, 2, 0))
    history.write("api-1", e.WorkloadProgressed("w2", "t", 5, 4, 1, 0))
    clients = [table for table in TABLES if table.name == "client_availability"]
    written = jobs.write_tables(jobs.read_journal(spark, history.directory), tmp_path / "out", wanted=clients)
    assert written.rows == {"client_availability": 2}
    assert written.broken == {"client_availability": {"no more is answered than was sent": 1}}


def test_unreadable_journal_is_reported_with_its_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    unreadable = tmp_path / "peer-1.000000000001.jsonl"
    with monkeypatch.context() as patched:
        # Raise the file system's error here, because the root user can read every file.
        patched.setattr(Path, "open", refuse)
        lines = list(read_range(FileRange(".", str(unreadable), 0, 3)))
    bad_lines = [table for table in TABLES if table.name == "bad_lines"]
    lines += [(".", None, None, None, None, None, "{", "seed-1.jsonl", 0, "no entry")]
    written = jobs.write_tables(Journal(spark.createDataFrame(lines, SCHEMA)), tmp_path / "out", wanted=bad_lines)
    assert written.rows == {"bad_lines": 2}
    assert written.unreadable == [f"the file cannot be read: {unreadable}: Permission denied"]

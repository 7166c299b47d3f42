"""The table `incidents` has the incidents that `zabka.journal.incidents` finds in each run.

This applies to the table that the batch job builds, and to the table of a stream.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.pipeline.in_order import rows_of
from zabka.cli.pipeline import jobs_of_spark
from zabka.cli.table_formats import print_summaries
from zabka.journal import events as e
from zabka.journal.cause import expiry_cause, owner_cause, registration_cause
from zabka.pipeline import jobs
from zabka.pipeline.gold import TABLES, TYPES
from zabka.pipeline.incidents import incidents
from zabka.pipeline.prepared import Prepared
from zabka.pipeline.ranges import ARROW_SCHEMA, read_share
from zabka.pipeline.source import shares_of


def failover(history: Any) -> None:
    """Write a failover.

    Broker 1 is killed in second 6, its session expires in second 7, and broker 2 takes over until second 11.
    """
    write = history.write
    write("broker-1", e.BrokerRegistered(1, 1, 11, "start"))
    write("broker-2", e.BrokerRegistered(2, 2, 12, "start"))
    write("broker-1", e.ControllerElected(1, 1, 1, 3))
    write("broker-1", e.ControllerReady(1, 1, 5, 5))
    write("broker-1", e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 4))
    write("host-1", e.ProcessChanged("broker-1", "down", None, "kill"))
    write("peer-1", e.SessionExpired(11, 1_000, 1_000, 1))
    write("peer-1", e.SessionClosed(11, 5, ["/brokers/ids/1", "/controller"], expiry_cause(11)))
    write("broker-2", e.ControllerElected(2, 2, 2, 6, owner_cause(11)))
    write("broker-2", e.ControllerReady(2, 2, 400, 100))
    gone = registration_cause(1, 1)
    write("broker-2", e.LeaderElected("t", 0, 2, 1, [2], [1, 2], 1, 2, False, "offline", 7, caused_by=gone))


EXPECTED = {
    "run": ".", "number": 1, "from_us": 6_000_000, "to_us": None, "duration_ms": None, "kind": "kill",
    "target": "broker-1", "cause_node": "host-1", "cause_node_seq": 1, "detected_by": "peer-1", "detection_ms": 1_000,
    "expired": ["broker-1"], "expiry_ms": 1_000, "controller": 2, "controller_epoch": 2, "no_controller_ms": 4_000,
    "leaderless": ["t-0"], "leaderless_ms": 5_000, "elected_uncleanly": [], "under_replicated": ["t-0"], "stalled": [],
    "stall_ms": None, "failed": 0, "lost": 0, "committed_at_least": 0, "acknowledged": None, "requester": None,
    "headline": "00:00:06.000Z broker-1 is down (kill) (host-1#1)",
    "summary": "detected after 1,000 ms by peer-1: session 0xb expired after 1000 ms, last contact 1000 ms before, "
    "with server 1 (peer-1#1)\n"
    "session of broker-1 expired after 1,000 ms\n"
    "no controller for 4,000 ms; broker 2 is controller after broker 1 (controller epoch 2)\n"
    "without a leader for 5,000 ms: t-0\n"
    "ISRs without broker 1 for a time that still lasts: t-0\n"
    "not recovered yet",
}  # fmt: skip


def test_incident_row_contains_its_effects_and_its_run(spark: SparkSession, history: Any) -> None:
    failover(history)
    (row,) = rows_of(jobs.read_journal(spark, history.directory), incidents)
    assert row.asDict() == EXPECTED


def test_wall_clock_step_changes_no_time_of_an_incident(spark: SparkSession, history: Any, tmp_path: Path) -> None:
    """A step of a wall clock changes no duration in an incident.

    After its registration, the new controller's clock is set back by 12 s or by an hour, or is set ahead.
    """
    failover(history)
    history.close()
    lines = [json.loads(line) for path in history.directory.rglob("*.jsonl") for line in path.read_text().splitlines()]
    for name, step_s in (("back", -12), ("hour", -3_600), ("ahead", 3_600)):
        for line in lines:
            step_us = step_s * 1_000_000 if line["node"] == "broker-2" and line["node_seq"] > 1 else 0
            (journal := tmp_path / "stepped" / name / line["node"] / "journal").mkdir(parents=True, exist_ok=True)
            with (journal / f"{line['node']}.000000000001.jsonl").open("a") as out:
                out.write(json.dumps({**line, "wall_us": line["wall_us"] + step_us}) + "\n")
    rows = rows_of(jobs.read_journal(spark, tmp_path / "stepped"), incidents)
    assert [{**row.asDict(), "run": "."} for row in rows] == [EXPECTED] * 3


@pytest.mark.timeout(600)
def test_incident_computed_by_a_stream_equals_the_batch_result(
    spark: SparkSession, history: Any, tmp_path: Path
) -> None:
    """A stream builds the same table `incidents` as the batch job.

    The stream uses a Spark plan without an exchange. Without events, the table is empty.
    """
    (table,) = (each for each in TABLES if each.name == "incidents")
    prepared = Prepared(spark, tmp_path / "_rows.arrow")
    found = []
    for number, write in enumerate((lambda _: None, failover)):
        write(history)
        shares = shares_of(history.directory, frozenset(TYPES))
        rows = pa.Table.from_batches([batch for share in shares for batch in read_share(share)], ARROW_SCHEMA)
        prepared.set_rows(rows)
        (out := tmp_path / str(number)).mkdir()
        (made,) = prepared.make(out, [table], {*TYPES})
        assert made.broken == {}
        found.append(pq.read_table(out / "incidents", columns=[*EXPECTED]).to_pylist())
    assert found == [[], [EXPECTED]]


def test_show_command_prints_incidents_as_sentences(tmp_path: Path) -> None:
    (tmp_path / "incidents").mkdir()
    pq.write_table(pa.Table.from_pylist([EXPECTED]), tmp_path / "incidents" / "part-00000.parquet")
    answer = CliRunner().invoke(jobs_of_spark, ["show", "incidents", "--out", str(tmp_path)])
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[0] == "incident 1: 00:00:06.000Z broker-1 is down (kill) (host-1#1)"
    assert lines[2:] == [f"  {line}" for line in str(EXPECTED["summary"]).split("\n")[1:]]


def test_incidents_of_several_runs_are_shown_with_their_run(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"headline": "10:00:00.000Z crash", "summary": "recovered after 1 ms"}
    print_summaries([{**row, "run": "a", "number": 1}, {**row, "run": "b", "number": 1}])
    print_summaries([])
    assert capsys.readouterr().out.splitlines() == [
        "incident 1 of run a: 10:00:00.000Z crash",
        "  recovered after 1 ms",
        "incident 1 of run b: 10:00:00.000Z crash",
        "  recovered after 1 ms",
        "no incidents",
    ]

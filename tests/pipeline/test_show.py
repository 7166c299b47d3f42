"""`zabka pipeline show`: the rows of one table as a text table, CSV or JSON."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from zabka.cli.pipeline import jobs_of_spark
from zabka.cli.table_formats import Format, print_rows
from zabka.pipeline import jobs
from zabka.pipeline.gold import NAMES, TABLES
from zabka.pipeline.ranges import SCHEMA
from zabka.pipeline.rows import Journal
from zabka.pipeline.selected import BadCondition, built_rows, stored_rows, stored_rows_where, unreadable_journals

ROWS = [
    {"run": ".", "node": "host-1", "node_seq": 3, "kind": "kill", "replicas": [1, 2], "duration_ms": None},
    {"run": ".", "node": "host-1", "node_seq": 1, "kind": 'cut "[red]"', "replicas": [], "duration_ms": 2},
]
COLUMNS = [*ROWS[0]]


def shown(*arguments: str) -> tuple[int, str]:
    """Run `zabka pipeline show`, and return its exit code and output."""
    answer = CliRunner().invoke(jobs_of_spark, ["show", *arguments])
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    return answer.exit_code, answer.output


def written(out: Path, name: str = "faults") -> Path:
    """Write a table as an earlier run would have, and return the directory of tables."""
    (out / name).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(ROWS), out / name / "part-00000.parquet")
    return out


def test_csv_has_a_header_and_empty_cells_for_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, Format.CSV)
    assert capsys.readouterr().out.splitlines() == [
        "run,node,node_seq,kind,replicas,duration_ms",
        '.,host-1,3,kill,"[1,2]",',
        '.,host-1,1,"cut ""[red]""",[],2',
    ]


def test_json_is_an_array_with_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    moment = datetime(2026, 11, 29, 10, 0, 0, 250_000, UTC)
    print_rows(["at", "share"], [{"at": moment, "share": 0.5}, {"at": None, "share": float("nan")}], Format.JSON)
    out = capsys.readouterr().out
    assert out.splitlines()[1] == '{"at":"2026-11-29T10:00:00.250000Z","share":0.5},'
    assert json.loads(out)[1] == {"at": None, "share": None}


def test_empty_table_is_shown_as_empty_json_array_or_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["run"], [], Format.JSON)
    print_rows(["run"], [], Format.CSV)
    assert capsys.readouterr().out == "[]\nrun\n"


def test_text_table_shows_markup_and_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["kind", "line"], [{"kind": "[red]x[/red]", "line": "\x1b[2J\n"}], Format.TEXT)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "red" in line]
    assert row.split() == ["│", "[red]x[/red]", "│", r"\x1b[2J\n", "│"]


def test_text_table_omits_columns_with_redundant_values(capsys: pytest.CaptureFixture[str]) -> None:
    moment = datetime(2026, 11, 29, 10, 0, 0, 250_000, UTC)
    row = {"run": ".", "cluster_run": ".", "simulated_run": None, "at_us": 1, "at_ts": moment, "run_us": 2}
    print_rows(list(row), [row], Format.TEXT)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["┃", "run", "┃", "at_ts", "┃", "run_us", "┃"]
    assert lines[3].split() == ["│", ".", "│", "2026-11-29T10:00:00.250000Z", "│", "2", "│"]


def test_wide_table_on_a_terminal_shows_one_value_per_line() -> None:
    code = (
        "from zabka.cli.table_formats import *; "
        "print_rows(['node', 'kind'], [{'node': 'host-1', 'kind': 'kill' * 20}], Format.TEXT)"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60", "TERM": "dumb"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, env=environment) as process:
        os.close(theirs)
        assert process.wait() == 0
    assert os.read(ours, 65_536).decode().splitlines() == ["row 1", "  node  host-1", f"  kind  {'kill' * 20}"]
    os.close(ours)


def test_stored_table_is_shown_in_its_order_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, output = shown("faults", "--out", str(written(tmp_path / "out")), "--format", "json")
    assert (code, [row["node_seq"] for row in json.loads(output)]) == (0, [1, 3])


def test_former_table_name_shows_the_renamed_table(tmp_path: Path) -> None:
    code, output = shown("controller_reigns", "--out", str(written(tmp_path, "controller_terms")), "--format", "json")
    assert (code, len(json.loads(output))) == (0, 2)


def test_show_accepts_a_former_table_name_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    written(tmp_path / "analytics", "controller_terms")
    (tmp_path / "analytics" / "controller_reigns").symlink_to("controller_terms")
    code, output = shown("controller_reigns", "--data", str(tmp_path), "--format", "csv")
    assert code == 0
    assert "run,node,node_seq" in output


def test_tables_next_to_the_journals_are_shown_by_default(tmp_path: Path) -> None:
    written(tmp_path / "analytics", "gaps")
    code, output = shown("gaps", "--data", str(tmp_path), "--format", "csv")
    assert code == 0
    assert "--fresh reads the journals again" in output
    assert "run,node,node_seq" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fault", "--out", "out"], "There is no table fault in {}/out; did you mean faults? Tables: faults."),
        (["faults", "--out", "none"], "There are no tables in {}/none: create them with `zabka pipeline tables`."),
        (["faults", "--out", "out", "--fresh"], "--fresh reads the journals"),
        (["failover", "--data", "."], "There is no table failover; did you mean failovers? Tables: " + NAMES[0]),
        (["faults", "--data", "empty"], "No journals in {}/empty"),
    ],
)
def test_missing_table_error_lists_the_known_tables(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    code, output = shown(*arguments)
    assert code == 2
    assert message.format(tmp_path) in " ".join(output.split())


def test_where_option_selects_rows_of_stored_and_computed_tables(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path
) -> None:
    """A condition selects rows, whether the table is stored or is built by the command.

    In the outage, t-0 has no leader once, in leader epoch 1.
    """
    outage(history)
    journal = jobs.read_journal(spark, history.directory)
    wanted = [table for table in TABLES if table.name == "partition_leaderships"]
    jobs.write_tables(journal, tmp_path / "out", wanted=wanted)
    stored = stored_rows_where(spark, tmp_path / "out", "partition_leaderships", "leader = -1 AND topic = 't'")
    built = built_rows(journal, "partition_leaderships", "leader = -1 AND topic = 't'")
    assert [(row["leader_epoch"], row["isr"]) for row in stored.to_pylist()] == [(1, [2])]
    assert built.to_pylist() == stored.to_pylist()
    everything = built_rows(journal, "partition_leaderships", None)
    assert [row["leader"] for row in everything.to_pylist()] == [1, -1, 2]
    assert everything.to_pylist() == stored_rows(tmp_path / "out", "partition_leaderships").to_pylist()


@pytest.mark.parametrize(
    ("condition", "reason"),
    [("length > 1", "UNRESOLVED_COLUMN"), ("kind = ", "PARSE_SYNTAX_ERROR"), ("kind", "filter expression")],
)
def test_error_for_an_invalid_condition_lists_the_columns(
    condition: str, reason: str, spark: SparkSession, tmp_path: Path
) -> None:
    written(tmp_path / "out")
    with pytest.raises(BadCondition) as refused:
        stored_rows_where(spark, tmp_path / "out", "faults", condition)
    message = str(refused.value).lower()
    assert reason.lower().replace("filter expression", "filter") in message
    assert "columns: run, node, node_seq, kind, replicas, duration_ms." in message


def test_unreadable_journals_are_reported_once(spark: SparkSession) -> None:
    aside = dict.fromkeys(SCHEMA.names) | {"run": ".", "file": "a.jsonl", "position": 0, "body": ""}
    problems = ["the file cannot be read: a.jsonl: Input/output error", "no UTF-8 at byte 3"]
    rows = [aside | {"problem": problem, "position": n} for n, problem in enumerate([*problems, problems[0]])]
    journal = Journal(spark.createDataFrame([tuple(row[name] for name in SCHEMA.names) for row in rows], SCHEMA))
    assert unreadable_journals(journal) == [problems[0]]

"""Streaming journals into a lake: each line is in it exactly once, and the tables are updated.

Journals grow, and the stream is restarted or killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.pipeline.pauses import ended_unseen, paused_and_then_stopped, paused_twice_and_a_third_time
from zabka.api.analytics.lake import pipeline_stands
from zabka.journal import events as e
from zabka.pipeline import jobs, stream, versions
from zabka.pipeline.audits.histories import histories
from zabka.pipeline.audits.jobs import rows
from zabka.pipeline.gold import TABLES
from zabka.pipeline.lake import commits, compaction

SOME = [table for table in TABLES if table.name in ("partition_leaderships", "faults", "bad_lines")]


def take(spark: SparkSession, directory: Path, lake: Path) -> None:
    """Run a stream over the lines that exist now, and wait until it ends."""
    with versions.locked(lake):
        stream.start(spark, directory, lake, follow=False, wanted=SOME).awaitTermination()


def availability_of_parts(spark: SparkSession, directory: Path, *parts: list[bytes]) -> dict[str, Any]:
    """Stream the parts of a history one after the other, each with a new stream. Return the only row of
    `availability`.
    """
    lake, path = directory / "lake", directory / "data" / "seed-1.jsonl"
    path.parent.mkdir()
    selected = [table for table in TABLES if table.name == "availability"]
    for part in parts:
        with path.open("ab") as file:
            file.write(b"".join(part))
        with versions.locked(lake):
            stream.start(spark, path.parent, lake, follow=False, wanted=selected).awaitTermination()
    (row,) = pq.read_table(lake / "availability").to_pylist()
    return row


def bronze(lake: Path) -> list[dict[str, Any]]:
    """Return all lines in the lake's files, as seen by a reader that ignores the commit log."""
    rows = ds.dataset(lake / "bronze", format="parquet", partitioning="hive").to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["file"], row["position"]))


@pytest.mark.timeout(600)
def test_stream_reads_each_line_once_across_restarts(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path
) -> None:
    """A stream reads each line once, even if it was restarted. Its tables are the same as those of the batch job."""
    lake = tmp_path / "lake"
    strange = "/a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\ni"
    history.write("peer-1", e.SessionClosed(77, 1, [strange]))
    path = history.directory / "peer-1" / "journal" / "peer-1.000000000001.jsonl"
    with path.open("ab") as file:
        file.write(b'{"a":' + b"[" * 100_000 + b"\n\xff\n" + b'{"half')
    take(spark, history.directory, lake)
    with path.open("ab") as file:
        file.write(b' a line":1}\n')
    outage(history)
    take(spark, history.directory, lake)
    lines = [
        line for file in sorted(history.directory.rglob("*.jsonl")) for line in file.read_bytes().split(b"\n")[:-1]
    ]
    rows = bronze(lake)
    assert len(rows) == len(lines)
    assert sorted(row["body"] for row in rows if row["problem"] is None) == sorted(
        line.decode() for line in lines if line.startswith(b'{"schema"')
    )
    assert [row["problem"] is None for row in rows if row["file"] == path.name] == [True, False, False, False, True]
    closed = ds.dataset(lake / "silver" / "session_closed", partitioning="hive").to_table().to_pylist()
    assert sorted(row["ephemerals"] for row in closed) == [[strange], *2 * [["/brokers/ids/1", "/controller"]]]
    jobs.write_tables(jobs.read_journal(spark, history.directory), tmp_path / "batch", wanted=SOME)
    for table in SOME:
        found = pq.read_table(lake / table.name).to_pylist()
        assert found == pq.read_table(tmp_path / "batch" / table.name).to_pylist(), table.name
        assert found or table.name == "faults"
    # No lines are missing: quarantined lines are not numbered, and the numbers of all other lines have no gap.
    assert pq.read_table(lake / stream.GAPS).to_pylist() == []
    status = stream.read_status(lake)
    assert status is not None
    assert (status.lines, status.quarantined, status.broken) == (len(lines), 3, {})
    assert status.latest_us == history.now_us
    shown = pipeline_stands(lake, history.directory)
    assert shown.stream is not None
    assert (shown.stream.batch, shown.stream.lines, shown.stream.set_aside) == (status.batch, len(lines), 3)
    assert {table.name: table.rows for table in shown.tables} == {
        name: pq.read_table(lake / name).num_rows for name in (*(table.name for table in SOME), stream.GAPS)
    }


@pytest.mark.timeout(600)
def test_stream_merges_its_small_files_and_keeps_each_line_once(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream merges its small files, and each line is still in the lake once.

    Each stream adds one batch. A restarted stream reads the rows of earlier batches from the merged files.
    """
    monkeypatch.setattr(stream, "COMPACTION_BATCHES", 1)
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    lake = tmp_path / "lake"
    for _ in range(3):
        outage(history)
        take(spark, history.directory, lake)
    lines = [line for file in history.directory.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(row["body"] for row in bronze(lake)) == sorted(lines)
    merged, last = commits.read(lake)
    assert (merged.first, merged.batch, last.batch, merged.rows + last.rows) == (0, 1, 2, len(lines))
    names = {path.name for path in (lake / "bronze" / "type=session_closed").rglob("*.parquet")}
    assert any(name.startswith("merged-01-batch-000000000") for name in names)
    jobs.write_tables(jobs.read_journal(spark, history.directory), tmp_path / "batch", wanted=SOME)
    for table in SOME:
        found, expected = (pq.read_table(place / table.name).to_pylist() for place in (lake, tmp_path / "batch"))
        assert found == expected, table.name


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rows_of_a_failed_batch_are_not_counted_twice(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    outage(history)
    with monkeypatch.context() as broken:
        broken.setattr(versions, "publish", lambda *_: 1 / 0)
        with pytest.raises(StreamingQueryException):
            take(spark, history.directory, lake)
    # These are files of an attempt that died before its commit: they exist, but no commit lists them.
    commits.path_of(lake, 0).unlink()
    take(spark, history.directory, lake)
    lines = [line for file in history.directory.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(row["body"] for row in bronze(lake)) == sorted(lines)
    pattern = str(lake / "bronze" / "**" / "*.parquet")
    (count,) = duckdb.sql(f"SELECT count(*) FROM read_parquet('{pattern}')").fetchall()[0]
    assert count == len(lines) == sum(commit.rows for commit in commits.read(lake))
    assert stream.remove_orphans(lake) == 0
    assert json.loads((lake / stream.STATUS).read_text())["lines"] == len(lines)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_restarted_stream_ends_leader_pause_at_its_next_line(spark: SparkSession, tmp_path: Path) -> None:
    lines = paused_twice_and_a_third_time()
    # The first part ends with the start of the first pause. The second part contains the end of that pause, and the
    # second pause.
    row = availability_of_parts(spark, tmp_path, lines[:2], lines[2:6], lines[6:])
    assert (row["observed_ms"], row["leader_down_ms"], row["available_acks_1_ms"]) == (35_000, 11_000, 24_000)


@pytest.mark.timeout(600)
@pytest.mark.long
def test_restarted_stream_detects_that_a_paused_leader_stopped(spark: SparkSession, tmp_path: Path) -> None:
    lines = paused_and_then_stopped()
    row = availability_of_parts(spark, tmp_path, lines[:3], lines[3:])
    assert (row["observed_ms"], row["leader_down_ms"], row["planned_ms"]) == (12_000, 3_000, 23_000)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_restarted_stream_detects_an_unreported_process_exit(spark: SparkSession, tmp_path: Path) -> None:
    lines = ended_unseen()
    # The first part ends with the last line before a start. The second part contains only that start.
    row = availability_of_parts(spark, tmp_path, lines[:4], lines[4:5], lines[5:])
    assert (row["observed_ms"], row["available_acks_1_ms"], row["unseen_ms"]) == (19_000, 19_000, 16_000)


@pytest.mark.timeout(600)
def test_stream_stopped_with_its_cluster_has_read_the_last_lines(
    spark: SparkSession, history: Any, tmp_path: Path
) -> None:
    history.write("broker-1", e.NodeStarted("broker", 1, {}))
    lake = tmp_path / "lake"
    batches: Queue[int] = Queue()
    with versions.locked(lake):
        query = stream.start(
            spark, history.directory, lake, follow=True, wanted=SOME, done=lambda status: batches.put(status.lines)
        )
        assert batches.get(timeout=120) == 1
        while query.status["isTriggerActive"]:
            pass
        history.write("broker-1", e.NodeStopped("shutdown"))
        stream.stop_query(query)
        stream.start(spark, history.directory, lake, follow=False, wanted=SOME).awaitTermination()
    assert [json.loads(row["body"])["type"] for row in bronze(lake)] == ["node_started", "node_stopped"]


def test_uncommitted_files_are_kept_while_commits_are_missing(tmp_path: Path) -> None:
    file = tmp_path / "bronze" / "type=session_closed" / "day=2026-01-01" / "batch-000000000-00000.parquet"
    file.parent.mkdir(parents=True)
    file.touch()
    ended = tmp_path / stream.CHECKPOINT / "commits" / "0"
    ended.parent.mkdir(parents=True)
    ended.touch()
    with pytest.raises(ValueError, match="lacks commits"):
        stream.remove_orphans(tmp_path)
    commits.write(tmp_path, commits.Commit(batch=1, files={}, lines=[], quarantined=0, latest_us=0))
    ended.unlink()
    with pytest.raises(ValueError, match="lacks commits"):
        stream.remove_orphans(tmp_path)
    assert file.exists()
    commits.path_of(tmp_path, 1).unlink()
    # The first attempt to write the batch died before its commit.
    assert stream.remove_orphans(tmp_path) == 1


def test_lake_without_its_checkpoint_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    commits.write(tmp_path, commits.Commit(batch=0, files={}, lines=[], quarantined=0, latest_us=0))
    with pytest.raises(stream.LostCheckpoint, match="_checkpoint"):
        stream.start(spark, tmp_path, tmp_path, follow=False)


@pytest.mark.timeout(600)
def test_verdicts_for_a_lake_equal_the_verdicts_for_its_files(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path
) -> None:
    outage(history)
    alone = history.directory / "seed-7.jsonl"
    for file in sorted(history.directory.rglob("*.jsonl")):
        with alone.open("ab") as out:
            out.write(file.read_bytes() + b"no entry\n")
    lake = tmp_path / "lake"
    take(spark, history.directory, lake)
    # A batch that was never committed has written this file.
    bronze_file = next((lake / "bronze").rglob("batch-*.parquet"))
    bronze_file.with_name("batch-000000009-00000.parquet").write_bytes(bronze_file.read_bytes())
    found, expected = histories(lake), histories(history.directory)
    assert [each.run for each in found] == sorted(each.run for each in expected) == [".", "seed-7.jsonl"]
    for of_lake, of_files in zip(found, sorted(expected, key=lambda each: each.run), strict=True):
        assert list(rows(of_lake)) == list(rows(of_files))
        assert of_lake.command == of_files.command

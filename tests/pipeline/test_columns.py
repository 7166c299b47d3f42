"""The tables' columns: their documented types, their timestamps, and how they show the kind of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from zabka.journal import events as e
from zabka.journal.writer import encode_line
from zabka.pipeline import jobs
from zabka.pipeline.columns import described, finished, schema_of
from zabka.pipeline.gold import TABLES, Table
from zabka.pipeline.ranges import SCHEMA
from zabka.pipeline.rows import Journal


def test_documented_columns_equal_the_table_columns(spark: SparkSession) -> None:
    journal = Journal(spark.createDataFrame([], SCHEMA))
    for table in TABLES:
        schema = finished(table.build(journal)).schema
        assert [(field.name, field.dataType.simpleString()) for field in schema] == [
            (column.name, column.kind) for column in described(table.name)
        ], table.name
        assert schema_of(table.name).simpleString() == schema.simpleString()


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_columns_with_units_are_documented_with_their_unit(table: Table) -> None:
    for column in described(table.name):
        assert column.name.endswith("_us") == column.meaning.endswith("; microseconds since 1970")
        assert column.name.endswith(("_ms", "_ms_ago")) == column.meaning.endswith("; milliseconds")


def test_written_tables_have_timestamps_and_the_kind_of_each_run(
    spark: SparkSession, history: Any, tmp_path: Path
) -> None:
    """The tables contain timestamps, and show whether each run is from a real cluster or is simulated.

    The data are a cluster in a separate folder, a cluster in the directory itself, and two simulated runs. All events
    are at 2026-01-02 03:04:05.
    """
    at = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    at_us = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    history.now_us = at_us - 1_000_000
    history.write("host-1", e.FaultInjected("f1", "cut", "broker-1", "peer-1", True))
    history.directory.rename(tmp_path / "all")
    for name in ("c/host-2.000000000001.jsonl", "seed-1.jsonl", "c/other.jsonl"):
        (tmp_path / "all" / name).parent.mkdir(exist_ok=True)
        # Write a different event to each file, because files with the same content would count as one history.
        fault = e.FaultInjected(name, "cut", "broker-1", "peer-1", True)
        (tmp_path / "all" / name).write_bytes(encode_line("world", 1, at_us, at_us, fault))
    (wanted,) = (table for table in TABLES if table.name == "faults")
    jobs.write_tables(jobs.read_journal(spark, tmp_path / "all"), tmp_path / "out", wanted=[wanted])
    rows = pq.read_table(tmp_path / "out" / "faults").to_pylist()
    assert {(row["from_us"], row["from_ts"], row["to_ts"]) for row in rows} == {(at_us, at, None)}
    assert {(row["run"], row["cluster_run"], row["simulated_run"]) for row in rows} == {
        (".", ".", None),
        ("c", "c", None),
        ("seed-1.jsonl", None, "seed-1.jsonl"),
        ("c/other.jsonl", None, "c/other.jsonl"),
    }

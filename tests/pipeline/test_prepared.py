"""Prepared query plans: with growing input, their results are the same as those of `zabka.journal.fold`.

They keep no state between runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.folded import folded, play
from zabka.pipeline import jobs
from zabka.pipeline.gold import TABLES, TYPES
from zabka.pipeline.prepared import NotPreparable, Prepared, check
from zabka.pipeline.ranges import ARROW_SCHEMA, read_share
from zabka.pipeline.source import shares_of

LEADERSHIPS = ("topic", "partition", "life", "leader", "leader_epoch", "partition_epoch", "isr", "unclean")
CHANGES = ("topic", "partition", "life", "isr_before", "isr", "partition_epoch")
CONTROLLER_TERMS = ("broker_id", "controller_epoch", "from_us", "ended_by")


def rows_below(directory: Path) -> pa.Table:
    shares = shares_of(directory, frozenset(TYPES))
    return pa.Table.from_batches([batch for share in shares for batch in read_share(share)], ARROW_SCHEMA)


def read_rows(place: Path, run: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in pq.read_table(place).to_pylist() if row["run"] == run]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_tables_of_a_stream_equal_folded_state_and_batch_tables(spark: SparkSession, tmp_path: Path) -> None:
    histories = tmp_path / "histories"
    histories.mkdir()
    prepared = Prepared(spark, tmp_path / "_rows.arrow")
    for seed in (2, 11):
        play(seed, histories)
        prepared.set_rows(rows_below(histories))
        out = tmp_path / f"with-{seed}"
        out.mkdir()
        made = {each.name: each for each in prepared.make(out, TABLES, {*TYPES})}
        assert list(made) == [table.name for table in TABLES]
        assert not any(each.broken for each in made.values())
        for path in histories.iterdir():
            expected = folded(path)
            assert read_rows(out / "partition_leaderships", path.name, LEADERSHIPS) == expected.leaderships
            assert read_rows(out / "isr_changes", path.name, CHANGES) == expected.isr_changes
            assert read_rows(out / "controller_terms", path.name, CONTROLLER_TERMS) == expected.controller_terms
    jobs.write_tables(jobs.read_journal(spark, histories), tmp_path / "batch")
    for table in TABLES:
        found, expected_rows = (pq.read_table(place / table.name).to_pylist() for place in (out, tmp_path / "batch"))
        assert sorted(found, key=str) == sorted(expected_rows, key=str), table.name
        assert made[table.name].rows == len(found)


def test_row_that_violates_an_expectation_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    (faults,) = (table for table in TABLES if table.name == "faults")
    # One node has two events with the same number.
    bodies = ['{"fault_id":"a","kind":"pause"}', '{"fault_id":"b","kind":"pause"}']
    row = {"run": "r", "node": "api", "node_seq": 1, "wall_us": 1, "mono_us": 1, "type": "fault_injected"}
    prepared = Prepared(spark, tmp_path / "_rows.arrow")
    prepared.set_rows(pa.Table.from_pylist([{**row, "body": body} for body in bodies], ARROW_SCHEMA))
    (made,) = prepared.make(tmp_path, [faults], {*TYPES})
    assert (made.rows, made.broken) == (2, {"run, node, node_seq identify a row": 1})


def test_prepared_query_plan_with_an_exchange_is_rejected(spark: SparkSession) -> None:
    frame = spark.range(0, 10, 1, 2)
    check(frame)
    with pytest.raises(NotPreparable, match="Exchange"):
        check(frame.groupBy(frame["id"] % 2).count())

"""The rows of a journal are read once for all tables, by worker processes that import only what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from zabka.pipeline import jobs, versions
from zabka.pipeline.gold import TABLES
from zabka.pipeline.ranges import ARROW_SCHEMA, SCHEMA, Row, batches
from zabka.pipeline.rows import Journal
from zabka.pipeline.session import FAILURES
from zabka.pipeline.tables import leader_writes

ROWS: list[Row] = [
    ("seed-1", "broker-1", 1, 2**53, 3, "node_stopped", '{"reason":"ä\U0001f600"}', "a.jsonl", 0, None),
    ("seed-1", "broker-2", 2, -1, 2**63 - 1, "node_stopped", "", "a.jsonl", 30, None),
    ("seed-2", None, None, None, None, None, "{", "é.jsonl", 7, "malformed"),
]
LOADS = """
import sys
from pathlib import Path
from zabka.pipeline.ranges import FileRange, Share, read_share
path = Path(sys.argv[1])
(batch,) = read_share(Share([FileRange(".", str(path), 0, path.stat().st_size)], None))
print(batch.num_rows, "pandas" in sys.modules)
"""


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2], ROWS[2:]], ids=["some lack fields", "none lacks one", "none has any"])
def test_columns_of_a_batch_equal_the_columns_that_arrow_creates(rows: list[Row]) -> None:
    (batch,) = batches(rows)
    batch.validate(full=True)
    names = ARROW_SCHEMA.names
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    assert batch.equals(pa.RecordBatch.from_pylist(dicts, schema=ARROW_SCHEMA))


def test_journal_readers_do_not_load_pandas(tmp_path: Path) -> None:
    line = '{"schema":1,"node":"peer-1","node_seq":1,"wall_us":1,"mono_us":1,"type":"node_stopped","reason":""}\n'
    (path := tmp_path / "a.jsonl").write_text(line * 3)
    done = subprocess.run([sys.executable, "-c", LOADS, str(path)], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["3", "False"]


def counting(spark: SparkSession, directory: Path) -> DataFrame:
    """Return a DataFrame with ROWS from each of two tasks. Each read creates a file, so that reads can be counted."""

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in numbers:
            tempfile.mkstemp(dir=directory)
            yield from batches(ROWS)

    return spark.range(0, 2, 1, 2).mapInArrow(rows, SCHEMA)


def test_journals_are_read_once_for_all_tables(spark: SparkSession, tmp_path: Path) -> None:
    (reads := tmp_path / "told").mkdir()
    journal = Journal(counting(spark, reads))
    once = journal.once("stopped", lambda: journal.rows.where("type = 'node_stopped'"))
    # Both tasks return the same rows, so each event occurs twice. It must be counted once.
    assert [once.count(), once.count(), journal.rows.count()] == [2, 2, 3]
    journal.read()
    assert len(list(reads.iterdir())) == 2


def test_unreadable_journal_fails_at_reading_not_at_planning(spark: SparkSession, tmp_path: Path) -> None:
    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise OSError("the disk is on fire")
        yield from numbers

    journal = Journal(spark.range(1).mapInArrow(rows, SCHEMA))
    assert leader_writes(journal).columns
    with pytest.raises(FAILURES, match="the disk is on fire"):
        journal.read()
    (table,) = [each for each in TABLES if each.name == "bad_lines"]
    with pytest.raises(FAILURES, match="the disk is on fire"):
        list(jobs.make_tables(journal, tmp_path, [table]))
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_no_query_plan_uses_sparks_window_group_limit(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """No query plan uses WindowGroupLimit, which Spark compiles to code whatever its settings are."""

    class Explained(Journal):
        def _kept(self, name: str, frame: DataFrame) -> DataFrame:
            frame.explain()
            return super()._kept(name, frame)

    journal = Explained(spark.createDataFrame([], SCHEMA))
    for table in TABLES:
        table.build(journal).explain()
    plans = capsys.readouterr().out
    assert plans.count("== Physical Plan ==") > len(TABLES)
    assert "WindowGroupLimit" not in plans


@pytest.mark.timeout(600)
def test_interrupt_does_not_wait_for_tables_being_computed(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def endless(journal: Journal) -> DataFrame:
        """Return ten billion rows. Spark needs many minutes for them, so Ctrl-C arrives meanwhile."""
        Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
        rows = spark.range(10**10).selectExpr("sum(id * id % 7) AS run")
        return rows.withColumn("node", f.lit("n")).withColumn("node_seq", f.lit(1))

    faults = next(table for table in TABLES if table.name == "faults")._replace(build=endless)
    (tmp_path / "data").mkdir()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        jobs.write_tables(jobs.read_journal(spark, tmp_path / "data"), tmp_path / "out", wanted=[faults])
    assert time.monotonic() - begin < 60
    assert not versions.current(tmp_path / "out")
    # The session can still be used, and py4j logs no errors about the interrupted call.
    assert spark.range(3).count() == 3
    assert caplog.records == []

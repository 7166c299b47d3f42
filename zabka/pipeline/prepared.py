"""Tables of rows that grow: the frame of each is made once, and every batch is a new query of it.

A table of a stream is small, and its many steps take longer to analyze than to run.  So a stream keeps the analyzed
frames.  They begin at files of rows, which every query reads again: the journal's, and those of the intermediate
results that several tables need.  A batch writes each of these files once, before the first table that needs it.  All
rows are in one partition, so that no query needs an exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, local
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from zabka.pipeline.gold import Table, checked, checks
from zabka.pipeline.jobs import AT_A_TIME, Made
from zabka.pipeline.ranges import BATCH_ROWS, SCHEMA
from zabka.pipeline.rows import Journal


class Prepared:
    """Analyzed tables, and the journal rows that they read; `place` is a file that all machines see."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._journal = _Growing(spark, place)
        self._plans: dict[str, _Plan] = {}

    def set_rows(self, rows: pa.Table) -> None:
        """Replace the rows, in the columns of `zabka-journal`.  Do not call it while tables are being made."""
        self._journal.set_rows(rows)

    def make(self, directory: Path, wanted: Sequence[Table]) -> Iterator[Made]:
        """Write tables as Parquet below a directory, several at a time, and yield each in their order."""

        def make(table: Table) -> Made:
            rows = self._journal.query(self._plan(table))
            counts = {
                rule.name: pc.sum(rows[check]).as_py()
                for check, rule in zip(checks(table), table.expectations, strict=True)
            }
            (directory / table.name).mkdir()
            pq.write_table(rows.drop_columns(checks(table)), directory / table.name / "part-00000.parquet")
            return Made(table.name, rows.num_rows, {rule: count for rule, count in counts.items() if count})

        with ThreadPoolExecutor(AT_A_TIME) as threads:
            yield from threads.map(make, wanted)

    def _plan(self, table: Table) -> _Plan:
        if table.name not in self._plans:
            self._plans[table.name] = self._journal.plan(lambda: checked(table, self._journal))
        return self._plans[table.name]


class _Plan(NamedTuple):
    """An analyzed frame, and the names of the intermediate results that it reads."""

    frame: DataFrame
    needs: list[str]


class _Noted(local):
    """The intermediate results that the frame needs that this thread is making."""

    def __init__(self) -> None:
        self.needs: list[str] = []


class _Growing(Journal):
    """A journal whose rows change between one query and the next."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._place = place
        self._plans: dict[str, _Plan] = {}
        self._locks: dict[str, Lock] = {}
        self._fresh: set[str] = set()
        self._noted = _Noted()
        super().__init__(_rows_of(spark, place, SCHEMA), place.parent)

    def set_rows(self, rows: pa.Table) -> None:
        """Replace the rows; intermediate results are made again when they are needed."""
        _write(rows, self._place)
        self._fresh.clear()

    def plan(self, make: Callable[[], DataFrame]) -> _Plan:
        """Make a frame, and note which intermediate results it needs."""
        outer, self._noted.needs = self._noted.needs, []
        try:
            return _Plan(make(), self._noted.needs)
        finally:
            self._noted.needs = outer

    def query(self, plan: _Plan) -> pa.Table:
        """Return the rows of a frame, made from the current rows."""
        for name in plan.needs:
            self._renew(name)
        # A selection is a new query: a frame itself may return rows that an earlier query of it kept.
        return plan.frame.select("*").toArrow()

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the frame of that name, which is made at the first call and reads its file in each query."""

        def planned() -> DataFrame:
            self._plans[name] = self.plan(make)
            return self._plans[name].frame

        frame = super().once(name, planned)
        self._noted.needs.append(name)
        return frame

    def _renew(self, name: str) -> None:
        """Write an intermediate result to its file, unless that was done since the rows changed."""
        with self._locks[name]:
            if name not in self._fresh:
                _write(self.query(self._plans[name]), self._file(name))
                self._fresh.add(name)

    def _file(self, name: str) -> Path:
        return self._place.with_suffix(f".{name}{self._place.suffix}")

    def _start_reading(self, rows: DataFrame) -> None:
        """Do nothing: the rows are read with the tables that are made from them."""

    def _laid(self, source: DataFrame) -> DataFrame:
        return source

    def _kept(self, name: str, frame: DataFrame) -> DataFrame:
        self._locks[name] = Lock()
        return _rows_of(frame.sparkSession, self._file(name), frame.schema)


def _write(rows: pa.Table, place: Path) -> None:
    """Write a file of rows atomically."""
    aside = place.with_name(f"{place.name}.new")
    with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    aside.replace(place)


def _rows_of(spark: SparkSession, place: Path, schema: StructType) -> DataFrame:
    """Return the rows that are in the file when a query runs, in one partition."""

    def rows(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(place)) as source:
            yield from pa.ipc.open_file(source).read_all().to_batches(BATCH_ROWS)

    return spark.range(0, 1, 1, 1).mapInArrow(rows, schema)

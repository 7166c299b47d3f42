"""Tables of rows that grow: the plan of each is made once, and runs again for every batch.

A table of a stream is small, and to plan it takes Spark longer than to make it.  So a stream keeps the plans.  They
begin at one file of rows, which every run of theirs reads anew; what several of them need is kept in memory until the
rows change.  The rows of a run lie in one share, so that no plan holds an exchange: Spark would take what came through
it for that of the next run, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from zabka.pipeline.gold import Table, checked, checks
from zabka.pipeline.jobs import AT_A_TIME, Made
from zabka.pipeline.ranges import ARROW_SCHEMA, BATCH_ROWS, SCHEMA
from zabka.pipeline.rows import Journal

SHARES = 2
"""So many tasks make a table, and share out the runs."""
SHARE = "share"
_SHARE_FIELD = pa.field(SHARE, pa.int64())
_NO_EXCHANGE = {
    # Spark does not know how small the rows are that lie in memory.
    "spark.sql.defaultSizeInBytes": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.shuffle.partitions": str(SHARES),
    # On a cluster plans are adapted while they run, and such a one does not say how its rows lie.
    "spark.sql.adaptive.enabled": "false",
}


class NotPreparable(Exception):
    """A plan that would show rows of before."""


class Prepared:
    """Plans of tables, and the rows of a journal that they are of; `place` is a file that all machines see."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        own = spark.newSession()
        for name, value in _NO_EXCHANGE.items():
            own.conf.set(name, value)
        self._place = place
        self._journal = _Growing(own, place)
        self._plans: dict[str, DataFrame] = {}

    def set_rows(self, rows: pa.Table) -> None:
        """From now on these are the rows, in the columns of `zabka-journal`.  Not while tables are made."""
        aside = self._place.with_name(f"{self._place.name}.new")
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, ARROW_SCHEMA.append(_SHARE_FIELD)) as writer:
            shares = [zlib.crc32(run.encode()) % SHARES for run in rows["run"].to_pylist()]
            writer.write_table(rows.append_column(_SHARE_FIELD, pa.array(shares, pa.int64())))
        aside.replace(self._place)
        self._journal.forget()

    def make(self, directory: Path, wanted: Sequence[Table]) -> Iterator[Made]:
        """Write tables as Parquet below a directory, some at a time, and tell of them in their order.

        Raises NotPreparable of a table whose plan holds an exchange.
        """

        def make(table: Table) -> Made:
            rows = self._plan(table).toArrow()
            counts = {
                rule.name: pc.sum(rows[check]).as_py()
                for check, rule in zip(checks(table), table.expectations, strict=True)
            }
            (directory / table.name).mkdir()
            pq.write_table(rows.drop_columns(checks(table)), directory / table.name / "part-00000.parquet")
            return Made(table.name, rows.num_rows, {rule: count for rule, count in counts.items() if count})

        with ThreadPoolExecutor(AT_A_TIME) as threads:
            yield from threads.map(make, wanted)

    def _plan(self, table: Table) -> DataFrame:
        if table.name not in self._plans:
            self._plans[table.name] = checked(table, self._journal)
            check(self._plans[table.name])
        return self._plans[table.name]


def check(frame: DataFrame) -> None:
    """Raises NotPreparable of a plan with an exchange."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    if "Exchange" in plan:
        raise NotPreparable(plan)


class _Growing(Journal):
    """A journal whose rows change between one run of its plans and the next."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._made_of_rows: list[Any] = []
        self._making = Lock()
        self._level = spark.sparkContext._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)
        super().__init__(_rows_of(spark, place), place.parent)

    def forget(self) -> None:
        """What was made of the rows is to be made anew."""
        for rows in self._made_of_rows:
            rows.unpersist(True)
            rows.persist(self._level)

    def in_order(self, frame: DataFrame, order: Sequence[str]) -> DataFrame:
        """The frame's rows in an order that begins with `run`, which lies in one share."""
        return frame.sortWithinPartitions(*order)

    def _read_behind(self, rows: DataFrame) -> None:
        """They are read with the tables that are made of them."""

    def _laid(self, source: DataFrame) -> DataFrame:
        return _by_run(source)

    def _kept(self, name: str, frame: DataFrame) -> DataFrame:
        """The frame's rows, kept by Java where they were made; the plans that stand on it begin there."""
        check(frame)
        spark = frame.sparkSession
        rows = frame._jdf.toJavaRDD()
        rows.persist(self._level)
        with self._making:
            self._made_of_rows.append(rows)
        return _by_run(DataFrame(spark._jsparkSession.createDataFrame(rows, frame._jdf.schema()), spark))


def _rows_of(spark: SparkSession, place: Path) -> DataFrame:
    """The rows that lie in the file when they are asked for; those of a run in one share."""

    def rows(shares: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in (number for some in shares for number in some["id"].to_pylist()):
            with pa.OSFile(str(place)) as source:
                told = pa.ipc.open_file(source).read_all()
            yield from told.filter(pc.equal(told[SHARE], share)).drop_columns([SHARE]).to_batches(BATCH_ROWS)

    return spark.range(0, SHARES, 1, SHARES).mapInArrow(rows, SCHEMA)


def _by_run(frame: DataFrame) -> DataFrame:
    """The same frame, of which Spark now knows that the rows of a run lie in one share.

    There is no public way to tell Spark so; its own checkpoints do it like this.
    """
    spark, jvm = frame.sparkSession, frame.sparkSession.sparkContext._jvm
    laid = frame.repartition(SHARES, "run")
    execution, classic = (getattr(jvm, f"org.apache.spark.sql.{name}") for name in ("execution", "classic"))
    relation = _companion(execution, "LogicalRDD").fromDataset(
        frame._jdf.queryExecution().toRdd(), laid._jdf, False, False
    )
    return DataFrame(_companion(classic, "Dataset").ofRows(spark._jsparkSession, relation), spark)


def _companion(package: Any, name: str) -> Any:
    """The object of Scala's that goes with a class."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")

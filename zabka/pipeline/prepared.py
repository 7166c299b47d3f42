"""Tables of a stream: each table is planned once, and its plan is executed again for every batch.

A table of a stream is small, and Spark takes longer to plan it than to compute it, so a stream reuses the plans. They
start from one file of rows, which every execution reads again. Intermediate results that several plans need stay in
memory until the rows change. The rows of a run are in one partition, so that no plan contains an exchange: Spark would
reuse the output of an exchange in the next execution.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from zabka.pipeline.gold import Table, checked
from zabka.pipeline.jobs import AT_A_TIME, Made, put_table
from zabka.pipeline.ranges import ARROW_SCHEMA, BATCH_ROWS, SCHEMA
from zabka.pipeline.rows import Journal

SHARES = 2
"""Number of tasks that compute a table. Each one processes some of the runs."""
SHARE = "share"
_SHARE_FIELD = pa.field(SHARE, pa.int64())
_NO_EXCHANGE = {
    # Declare the tables as small, because Spark does not know the size of rows in memory.
    "spark.sql.defaultSizeInBytes": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.shuffle.partitions": str(SHARES),
    # Disable adaptive plans, which change while they run and do not state how their rows are distributed.
    "spark.sql.adaptive.enabled": "false",
}


class NotPreparable(Exception):
    """Raised for a query plan that cannot be executed again: it would return rows of an earlier batch."""


def find_classes_once(spark: SparkSession) -> None:
    """Look up once the Java classes that PySpark needs for every column, and keep them.

    Otherwise PySpark looks them up by their short names each time, for which Java searches all of Spark's jars.
    """
    jvm = spark.sparkContext._jvm
    for name in ("functions", "PythonUtils"):
        setattr(jvm, name, getattr(jvm, name))


class Prepared:
    """Plans of tables, and the journal rows that they read. `place` is a file that all machines can read."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        own = spark.newSession()
        for name, value in _NO_EXCHANGE.items():
            own.conf.set(name, value)
        self._place = place
        self._journal = _Growing(own, place)
        self._plans: dict[str, DataFrame] = {}

    def set_rows(self, rows: pa.Table) -> None:
        """Replace the rows. The new rows must have the columns of `zabka-journal`.

        Do not call it while tables are being computed.
        """
        aside = self._place.with_name(f"{self._place.name}.new")
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, ARROW_SCHEMA.append(_SHARE_FIELD)) as writer:
            shares = [zlib.crc32(run.encode()) % SHARES for run in rows["run"].to_pylist()]
            writer.write_table(rows.append_column(_SHARE_FIELD, pa.array(shares, pa.int64())))
        aside.replace(self._place)
        self._journal.forget()

    def make(self, directory: Path, wanted: Sequence[Table], types: AbstractSet[str]) -> Iterator[Made]:
        """Write tables as Parquet to `directory`, several at a time, and yield their results in the given order.

        `types` are the event types of the rows; a table that cannot have a row is not planned. Raises NotPreparable for
        a table whose plan contains an exchange.
        """

        def make(table: Table) -> Made:
            rows = self._plan(table).toArrow() if table.can_have_rows(types) else None
            return put_table(table, rows, directory)

        with ThreadPoolExecutor(AT_A_TIME) as threads:
            yield from threads.map(make, wanted)

    def _plan(self, table: Table) -> DataFrame:
        if table.name not in self._plans:
            self._plans[table.name] = checked(table, self._journal)
            check(self._plans[table.name])
        return self._plans[table.name]


def check(frame: DataFrame) -> None:
    """Raise NotPreparable if the frame's Spark plan contains an exchange."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    if "Exchange" in plan:
        raise NotPreparable(plan)


class _Growing(Journal):
    """A journal whose rows change between two executions of the plans that use it."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._made_of_rows: list[Any] = []
        self._making = Lock()
        self._level = spark.sparkContext._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)
        super().__init__(_rows_of(spark, place), place.parent)

    def forget(self) -> None:
        """Discard the intermediate results, so that they are computed again from the new rows."""
        for rows in self._made_of_rows:
            rows.unpersist(True)
            rows.persist(self._level)

    def in_order(self, frame: DataFrame, order: Sequence[str]) -> DataFrame:
        """Sort the rows by `order`, which begins with `run`; the rows of each run are in one partition."""
        return frame.sortWithinPartitions(*order)

    def _start_reading(self, rows: DataFrame) -> None:
        """Do nothing: the rows are read by the plans of the tables."""

    def _laid(self, source: DataFrame) -> DataFrame:
        return _by_run(source)

    def _kept(self, name: str, frame: DataFrame) -> DataFrame:
        """Return a frame of rows that Java computes once and then stores. Plans that use the frame begin with the
        stored rows.
        """
        check(frame)
        spark = frame.sparkSession
        rows = frame._jdf.toJavaRDD()
        rows.persist(self._level)
        with self._making:
            self._made_of_rows.append(rows)
        return _by_run(DataFrame(spark._jsparkSession.createDataFrame(rows, frame._jdf.schema()), spark))


def _rows_of(spark: SparkSession, place: Path) -> DataFrame:
    """Return a DataFrame that reads its rows from a file each time that Spark executes a plan with it.

    The rows of each run are in one partition.
    """

    def rows(shares: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in (number for some in shares for number in some["id"].to_pylist()):
            with pa.OSFile(str(place)) as source:
                table = pa.ipc.open_file(source).read_all()
            yield from table.filter(pc.equal(table[SHARE], share)).drop_columns([SHARE]).to_batches(BATCH_ROWS)

    return spark.range(0, SHARES, 1, SHARES).mapInArrow(rows, SCHEMA)


def _by_run(frame: DataFrame) -> DataFrame:
    """Return the same frame, and declare to Spark that the rows of each run are in one partition.

    There is no public API for that; Spark's own checkpoints do it in the same way.
    """
    spark, jvm = frame.sparkSession, frame.sparkSession.sparkContext._jvm
    laid = frame.repartition(SHARES, "run")
    execution, classic = (getattr(jvm, f"org.apache.spark.sql.{name}") for name in ("execution", "classic"))
    relation = _companion(execution, "LogicalRDD").fromDataset(
        frame._jdf.queryExecution().toRdd(), laid._jdf, False, False
    )
    return DataFrame(_companion(classic, "Dataset").ofRows(spark._jsparkSession, relation), spark)


def _companion(package: Any, name: str) -> Any:
    """Return the companion object of a Scala class."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")

"""The batch job, which reads journals and writes the tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from zabka.pipeline import places, versions
from zabka.pipeline.columns import schema_of
from zabka.pipeline.gold import TABLES, TYPES, Table, checked, checks, observed
from zabka.pipeline.lake import commits
from zabka.pipeline.places import Place
from zabka.pipeline.ranges import ARROW_SCHEMA, UNREADABLE, read_share
from zabka.pipeline.rows import Journal
from zabka.pipeline.source import shares_of

STAGE = "_stage"
"""Directory for intermediate results that several tables need, inside a version not yet published."""
AT_A_TIME = 3
"""Number of tables computed at the same time. While Spark executes the tasks of some tables, it plans another table."""
Progress = Callable[[str, int], None]


def read_journal(spark: SparkSession, place: Place, types: str = ",".join(TYPES)) -> Journal:
    """Return the events of those types from every journal at this place, as one batch.

    An event that was written twice counts once. A run that was copied to another path of a directory counts once as
    well. Small journals on this machine are read in this process, because Spark would start another Python process to
    read them.
    """
    if not isinstance(place, Path):
        return Journal(places.batch(spark, place, types))
    shares = shares_of(place.resolve(), frozenset(types.split(",")))
    if len(shares) != 1:
        return Journal(places.of_shares(spark, shares))
    rows = pa.Table.from_batches(read_share(shares[0]), ARROW_SCHEMA)
    return Journal(spark.createDataFrame(rows), types=frozenset(rows["type"].unique().to_pylist()))


class Made(NamedTuple):
    """Result of one table: its number of rows, and the number of rows that violate each violated condition."""

    name: str
    rows: int
    broken: dict[str, int]


def make_tables(journal: Journal, directory: Path, wanted: Sequence[Table]) -> Iterator[Made]:
    """Write tables as Parquet to `directory`, several at a time, and yield their results in the given order.

    Tables of a small journal are written here, because Spark's own writer takes longer than the table.
    """

    def make(table: Table) -> Made:
        if journal.types is not None:
            rows = checked(table, journal).toArrow() if table.can_have_rows(journal.types) else None
            return put_table(table, rows, directory)
        made = observed(table, journal)
        journal.read()
        made.frame.write.parquet(str(directory / table.name))
        return Made(table.name, made.rows(), made.broken())

    with ThreadPoolExecutor(AT_A_TIME) as threads:
        try:
            yield from threads.map(make, wanted)
        except KeyboardInterrupt:
            # Cancel the tables in progress, because the interrupt would otherwise wait until they are complete.
            journal.break_off()
            raise


def put_table(table: Table, rows: pa.Table | None, directory: Path) -> Made:
    """Write the rows of a table as one Parquet file, without the columns of the table's conditions.

    `rows` has these columns, and is None if the table has no rows. Return the number of rows, and how many of them
    violate each condition.
    """
    counts: dict[str, int] = {}
    if rows is None:
        rows = to_arrow_schema(schema_of(table.name), timezone="UTC").empty_table()
    else:
        names = checks(table)
        counts = {rule.name: pc.sum(rows[check]).as_py() for check, rule in zip(names, table.expectations, strict=True)}
        rows = rows.drop_columns(names)
    (directory / table.name).mkdir()
    pq.write_table(rows, directory / table.name / "part-00000.parquet")
    return Made(table.name, rows.num_rows, {rule: count for rule, count in counts.items() if count})


class ClockStep(NamedTuple):
    """A step of a wall clock by `step_ms`, while the node's monotonic clock continued."""

    run: str
    node: str
    step_ms: int


class Written(NamedTuple):
    """Result of a job.

    It contains the number of rows and the violated conditions of each table, error messages for journals that could not
    be read, and the steps of wall clocks.
    """

    rows: dict[str, int]
    broken: dict[str, dict[str, int]]
    unreadable: list[str]
    clock_steps: list[ClockStep]


def write_tables(
    journal: Journal, out: Path, progress: Progress = lambda table, rows: None, wanted: Sequence[Table] = TABLES
) -> Written:
    """Write tables as Parquet, as one version of `out`.

    Raises versions.InUse if another job writes there, OSError if the directory is not writable or if a table's path
    exists and is not a table, and commits.NewerLake.
    """
    commits.check_format(out)
    for table in wanted:
        versions.check_table(out / table.name)
    with versions.locked(out):
        number, directory = versions.new_version(out)
        journal.stage = directory / STAGE
        written = Written({}, {}, [], [])
        for name, rows, broken in make_tables(journal, directory, wanted):
            written.rows[name] = rows
            if broken:
                written.broken[name] = broken
            progress(name, rows)
        if "bad_lines" in written.rows:
            written.unreadable.extend(_unreadable(directory / "bad_lines"))
        if "clock_steps" in written.rows:
            rows = pq.read_table(directory / "clock_steps", columns=list(ClockStep._fields)).to_pylist()
            written.clock_steps.extend(ClockStep(**row) for row in rows)
        shutil.rmtree(journal.stage, ignore_errors=True)
        versions.publish(out, number)
    return written


def _unreadable(bad_lines: Path) -> list[str]:
    """Return an error message, with the file's name, for each journal that could not be read."""
    problems = pq.read_table(bad_lines, columns=["problem"])["problem"].to_pylist()
    return sorted({problem for problem in problems if problem.startswith(UNREADABLE)})

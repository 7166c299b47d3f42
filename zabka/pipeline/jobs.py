"""The batch job, which reads journals and writes tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from zabka.pipeline import places, versions
from zabka.pipeline.gold import TABLES, TYPES, Table, observed
from zabka.pipeline.lake import commits
from zabka.pipeline.places import Place
from zabka.pipeline.ranges import UNREADABLE
from zabka.pipeline.rows import Journal

STAGE = "_stage"
"""The directory of intermediate results that several tables need, in a version that is not published yet."""
AT_A_TIME = 3
"""The number of tables made at the same time: one is planned while the tasks of others run."""
Progress = Callable[[str, int], None]


def read_journal(spark: SparkSession, place: Place, types: str = ",".join(TYPES)) -> Journal:
    """Return the events of those types from every journal at this place, as one batch.

    An event that was written twice counts once, and so does a run that was copied to another path of a directory.
    """
    return Journal(places.batch(spark, place, types))


class Made(NamedTuple):
    """The result of one table: its rows, and the number of rows that violate each unmet expectation."""

    name: str
    rows: int
    broken: dict[str, int]


def make_tables(journal: Journal, directory: Path, wanted: Sequence[Table]) -> Iterator[Made]:
    """Write tables as Parquet below a directory, several at a time, and yield their results in the given order."""

    def make(table: Table) -> Made:
        made = observed(table, journal)
        journal.read()
        made.frame.write.parquet(str(directory / table.name))
        return Made(table.name, made.rows(), made.broken())

    with ThreadPoolExecutor(AT_A_TIME) as threads:
        try:
            yield from threads.map(make, wanted)
        except KeyboardInterrupt:
            # Otherwise the interrupt would wait until the tables in progress are complete.
            journal.break_off()
            raise


class ClockStep(NamedTuple):
    """A wall clock was changed by `step_ms`, while the node's monotonic clock continued."""

    run: str
    node: str
    step_ms: int


class Written(NamedTuple):
    """The result of a job.

    It has the rows and the unmet expectations of each table, the reasons why journals could not be read, and the steps
    of wall clocks.
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
    contains something else, and commits.NewerLake.
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
    """Return the reasons why journals could not be read, each with its file."""
    problems = pq.read_table(bad_lines, columns=["problem"])["problem"].to_pylist()
    return sorted({problem for problem in problems if problem.startswith(UNREADABLE)})

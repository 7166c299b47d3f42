"""The batch job: journals in, tables out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline import places, versions
from pipeline.gold import TABLES, TYPES, Table, observed
from pipeline.places import Place
from pipeline.rows import Journal

STAGE = "_stage"
"""Where what several tables need lies while they are made, in a version that nobody sees yet."""
Progress = Callable[[str, int], None]


def read_journal(spark: SparkSession, place: Place, types: str = ",".join(TYPES)) -> Journal:
    """What the tables need of every journal there, as one batch: the events of those types.

    An event that was written twice counts once, and so does a run that was copied to another place of a directory.
    """
    return Journal(once(places.batch(spark, place, types)))


def once(rows: DataFrame) -> DataFrame:
    """The rows without those that say again what another one says; lines that were set aside all count."""
    place = f.when(f.col("problem").isNotNull(), f.concat_ws("@", "file", "position"))
    return rows.withColumn("place", place).dropDuplicates(["run", "node", "node_seq", "body", "place"]).drop("place")


class Written(NamedTuple):
    """What a job wrote: the rows of each table, and of each table the expectations that were not met."""

    rows: dict[str, int]
    broken: dict[str, dict[str, int]]


def write_tables(
    journal: Journal, out: Path, progress: Progress = lambda table, rows: None, wanted: Sequence[Table] = TABLES
) -> Written:
    """Write tables as Parquet, as one version of `out`.

    Raises versions.InUse where another job writes there, OSError where nobody may, or where something else lies
    in a table's place.
    """
    for table in wanted:
        versions.check_table(out / table.name)
    with versions.locked(out):
        number, directory = versions.begin(out)
        journal.stage = directory / STAGE
        written = Written({}, {})
        for table in wanted:
            made = observed(table, table.build(journal))
            made.frame.write.parquet(str(directory / table.name))
            written.rows[table.name] = made.rows()
            if broken := made.broken():
                written.broken[table.name] = broken
            progress(table.name, written.rows[table.name])
        shutil.rmtree(journal.stage, ignore_errors=True)
        versions.publish(out, number)
    return written

"""The jobs: journals in, Parquet out, as one batch or as a stream that goes on where it stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import tables

BUILDERS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "controller_reigns": tables.controller_reigns,
    "partition_leaderships": tables.partition_leaderships,
    "isr_changes": tables.isr_changes,
    "availability": tables.availability,
    "bad_lines": tables.bad_lines,
}
"""Every table: its name on disk, over HTTP and on the page, and what makes it of the journal's rows."""


def read_journal(spark: SparkSession, directory: Path) -> DataFrame:
    """What the tables need of every journal below a directory, as one batch.

    A run that was copied counts once, and so does an event that was written twice.
    """
    reader = spark.read.format("zabka-journal").option("types", ",".join(tables.TYPES))
    place = f.when(f.col("problem").isNotNull(), f.concat_ws("@", "file", "position"))
    rows = reader.load(str(directory)).withColumn("place", place)
    return rows.dropDuplicates(["run", "node", "node_seq", "body", "place"]).drop("place")


def write_tables(
    journal: DataFrame, out: Path, progress: Callable[[str, int], None] = lambda table, rows: None
) -> dict[str, int]:
    """Write every table as Parquet below `out`; how many rows each has.

    A table is written aside and then put in its place, so that a reader sees the old one or the new one.
    """
    journal.cache()
    rows: dict[str, int] = {}
    for name, build in BUILDERS.items():
        aside, place = out / f".{name}.new", out / name
        frame = build(journal).coalesce(1)
        frame.write.mode("overwrite").parquet(str(aside))
        rows[name] = journal.sparkSession.read.parquet(str(aside)).count()
        shutil.rmtree(place, ignore_errors=True)
        aside.rename(place)
        progress(name, rows[name])
    journal.unpersist()
    return rows


def stream_events(spark: SparkSession, directory: Path, out: Path, *, follow: bool) -> list[StreamingQuery]:
    """Stream journals into `out/events` and `out/bad`, exactly once, from the checkpoint in `out/checkpoint`.

    With `follow` the queries run until stopped; without, they end when everything present has been taken.
    """
    journal = spark.readStream.format("zabka-journal").load(str(directory))
    good = f.col("problem").isNull()
    sinks = {
        "events": journal.where(good).drop("problem"),
        "bad": journal.where(~good).select("run", "file", "position", "problem", f.col("body").alias("line")),
    }
    queries = []
    for name, frame in sinks.items():
        writer = (
            frame.writeStream.format("parquet")
            .option("path", str(out / name))
            .option("checkpointLocation", str(out / "checkpoint" / name))
            .queryName(f"zabka-{name}-{out.name}")
        )
        writer = writer.trigger(processingTime="2 seconds") if follow else writer.trigger(availableNow=True)
        queries.append(writer.start())
    return queries


def read_streamed(spark: SparkSession, out: Path) -> DataFrame:
    """What `stream_events` wrote, in the journal source's columns, bad lines included."""
    events = spark.read.parquet(str(out / "events")).withColumn("problem", f.lit(None).cast("string"))
    bad = spark.read.parquet(str(out / "bad")).withColumnRenamed("line", "body")
    return events.unionByName(bad, allowMissingColumns=True)

"""One time for all nodes of a run, for durations that begin on one node and end on another.

Every entry has two readings: of its node's wall clock, and of its monotonic clock.  Wall clocks of different machines
lie apart.  Monotonic clocks of one machine are one clock, whichever process reads it, and so they are in the simulated
world; those of different machines have nothing to do with each other.  Which case a run is shows in what several nodes
saw at one moment: every peer tells of the same sessions' beginnings and ends.  The clock on which they agree better is
the run's.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from pipeline.bodies import bodies
from pipeline.rows import Journal

APART_MAX_US = 10_000_000
"""Readings of a wall and a monotonic clock that drift apart further than that are of several boots."""


def run_clocks(journal: Journal) -> DataFrame:
    """Of every run whose monotonic clocks are one: run, base_us, the wall clock's reading when that one showed 0."""
    return journal.once("clocks", lambda: _run_clocks(journal))


def _run_clocks(journal: Journal) -> DataFrame:
    ahead = f.col("wall_us") - f.col("mono_us")
    bases = (
        journal.rows.where(f.col("problem").isNull())
        .groupBy("run")
        .agg(f.percentile(ahead, 0.5).cast(LongType()).alias("base_us"), (f.max(ahead) - f.min(ahead)).alias("apart"))
    )
    moments = (
        bodies(journal, ["session_created", "session_closed"], zxid=LongType())
        .groupBy("run", "node", "zxid")
        .agg(f.min("at_us").alias("wall"), f.min("mono_us").alias("mono"))
        .groupBy("run", "zxid")
        .agg((f.max("wall") - f.min("wall")).alias("wall"), (f.max("mono") - f.min("mono")).alias("mono"))
        .groupBy("run")
        .agg(f.percentile("wall", 0.5).alias("wall"), f.percentile("mono", 0.5).alias("mono"))
    )
    return bases.join(moments, "run").where((f.col("apart") < APART_MAX_US) & (f.col("mono") <= f.col("wall")))


def with_run_time(told: DataFrame, clocks: DataFrame) -> DataFrame:
    """Rows with `at_us` and `mono_us`, and `run_us` besides: the moment on the run's one clock, where there is one."""
    base = clocks.select("run", "base_us")
    return told.join(f.broadcast(base), "run", "left").withColumn("run_us", _run_us()).drop("base_us")


def _run_us() -> Column:
    return f.coalesce(f.col("mono_us") + f.col("base_us"), f.col("at_us"))

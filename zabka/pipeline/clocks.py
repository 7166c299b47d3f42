"""One time for all nodes of a run, for durations that begin on one node and end on another.

Every entry has two readings: of its node's wall clock, and of its monotonic clock.  Wall clocks of different machines
lie apart.  Monotonic clocks of one machine are one clock, whichever process reads it, and so they are in the simulated
world; those of different machines have nothing to do with each other.  Which case a run is shows in what several nodes
saw at one moment: every peer tells of the same sessions' beginnings and ends.  Some hear of one late, and then a wall
clock that is wrong the other way may seem right; so that moment counts which they tell of most nearly together.  Where
monotonic clocks agree on theirs as well as wall clocks do, but for `CLOSE_US`, they are the run's.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, LongType

from zabka.pipeline.bodies import bodies
from zabka.pipeline.rows import Journal

APART_MAX_US = 10_000_000
"""Readings of a wall and a monotonic clock that drift apart further than that are of several boots."""
CLOSE_US = 50_000
"""What peers that heard of a session at once may be apart.  Machines do not boot so nearly together."""


def timed(journal: Journal, kinds: list[str], **fields: DataType) -> DataFrame:
    """The entries of those types, as `bodies` has them, with `run_us`: the moment on the run's one clock."""
    return bodies(timed_rows(journal), kinds, "run_us", **fields)


def timed_rows(journal: Journal) -> DataFrame:
    """The journal's rows, with `run_us`: the moment on the run's one clock, or on the node's where there is none."""
    return journal.once("timed", lambda: _timed_rows(journal))


def _timed_rows(journal: Journal) -> DataFrame:
    run_us = f.coalesce(f.col("mono_us") + f.col("base_us"), f.col("wall_us"))
    return journal.rows.join(run_clocks(journal), "run", "left").withColumn("run_us", run_us).drop("base_us")


def run_clocks(journal: Journal) -> DataFrame:
    """Of every run whose monotonic clocks are one: run, base_us, the wall clock's reading when that one showed 0."""
    ahead = f.col("wall_us") - f.col("mono_us")
    bases = (
        journal.rows.where(f.col("problem").isNull())
        .groupBy("run")
        .agg(f.percentile(ahead, 0.5).cast(LongType()).alias("base_us"), (f.max(ahead) - f.min(ahead)).alias("apart"))
    )
    moments = (
        bodies(journal.rows, ["session_created", "session_closed"], zxid=LongType())
        .groupBy("run", "node", "zxid")
        .agg(f.min("at_us").alias("wall"), f.min("mono_us").alias("mono"))
        .groupBy("run", "zxid")
        .agg(
            (f.max("wall") - f.min("wall")).alias("wall"),
            (f.max("mono") - f.min("mono")).alias("mono"),
            (f.count("*") > 1).alias("told_by_several"),
        )
        .groupBy("run")
        .agg(*(f.min(f.when(f.col("told_by_several"), f.col(clock))).alias(clock) for clock in ("wall", "mono")))
    )
    agree = f.coalesce(f.col("mono") <= f.col("wall") + CLOSE_US, f.lit(True))
    one = (f.col("apart") < APART_MAX_US) & agree
    return bases.join(moments, "run").where(one).select("run", "base_us")

"""Finds one clock for all nodes of a run, for durations that begin on one node and end on another.

Every entry has two times: those of its node's wall clock and of its monotonic clock. Wall clocks of different machines
differ. The monotonic clock is one clock for all processes of a machine, and for all nodes of the simulated world; the
monotonic clocks of different machines are unrelated. Events that several nodes observed at the same time show whether
the nodes of a run share one monotonic clock: every peer reports the start and the end of the same sessions. A peer may
learn of a session late, and an error of its wall clock can hide the delay. So only the session whose reports are
closest together is used. If the peers' monotonic times of this session differ by at most `CLOSE_US` more than their
wall-clock times, the monotonic clocks are the run's clock.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, LongType

from zabka.pipeline.bodies import bodies
from zabka.pipeline.rows import Journal

APART_MAX_US = 10_000_000
"""Maximum drift between wall clock and monotonic clock. If the drift is larger, the times are from different boots."""
CLOSE_US = 50_000
"""Limit for treating the peers' monotonic clocks as one clock.

The peers' monotonic times of one session may differ by at most this much more than their wall-clock times. The
monotonic clocks of two machines that booted separately differ by more than this.
"""


def timed(journal: Journal, kinds: list[str], **fields: DataType) -> DataFrame:
    """Return the entries of these event types as `bodies` does, with `run_us`: the time on the run's clock."""
    return bodies(timed_rows(journal), kinds, "run_us", **fields)


def timed_rows(journal: Journal) -> DataFrame:
    """Return the journal's rows with `run_us`: the time on the run's clock, or else on the node's clock."""
    return journal.once("timed", lambda: _timed_rows(journal))


def _timed_rows(journal: Journal) -> DataFrame:
    run_us = f.coalesce(f.col("mono_us") + f.col("base_us"), f.col("wall_us"))
    return journal.rows.join(run_clocks(journal), "run", "left").withColumn("run_us", run_us).drop("base_us")


def run_clocks(journal: Journal) -> DataFrame:
    """Return the runs in which all nodes share one monotonic clock, with the columns run and base_us.

    base_us is the wall-clock time at which the monotonic clock was 0.
    """
    return journal.once("run_clocks", lambda: _run_clocks(journal))


def _run_clocks(journal: Journal) -> DataFrame:
    ahead = f.col("wall_us") - f.col("mono_us")
    bases = (
        journal.rows.where(f.col("problem").isNull())
        .groupBy("run")
        .agg(f.percentile(ahead, 0.5).cast("bigint").alias("base_us"), (f.max(ahead) - f.min(ahead)).alias("apart"))
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

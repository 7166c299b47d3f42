"""Finds wall clocks that were stepped while their node ran, and corrects the times.

An operator or a time service may set a wall clock, by seconds or hours. The monotonic clock of the same node is not
affected, so between two entries of a node the wall clock must have advanced by the same time. A larger difference is a
step. It is subtracted from all later times of the node, as if the clock had never been stepped. Therefore times (`_us`)
and durations in all tables do not depend on steps.

A machine that booted between two entries has a new monotonic clock, and its times are not changed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

STEP_MIN_US = 1_000_000
"""Minimum size of a step. A time service corrects smaller differences by slewing the clock."""
DRIFT = 0.0005
"""Maximum rate at which a time service slews a clock, as a share of the elapsed time (adjtime, ntpd: 500 ppm)."""


def without_steps(rows: DataFrame) -> DataFrame:
    """Correct `wall_us` by subtracting the steps (sudden changes) of the nodes' wall clocks.

    The new column `step_us` is the step of the clock immediately before the row, or null if there was none.
    """
    in_order = Window.partitionBy("run", "node").orderBy("node_seq", "mono_us")
    passed = f.col("mono_us") - f.lag("mono_us").over(in_order)
    wall_passed = f.col("wall_us") - f.lag("wall_us").over(in_order)
    # The monotonic clock starts at the boot of the machine, so after a reboot it shows less than the time that
    # has passed.
    booted = (f.col("type") == "node_started") & ((passed < 0) | (f.col("mono_us") <= wall_passed))
    step = wall_passed - passed
    is_step = f.col("node").isNotNull() & ~booted & (f.abs(step) > STEP_MIN_US + f.abs(passed) * DRIFT)
    until_now = Window.partitionBy("run", "node", "boot").orderBy("node_seq", "mono_us")
    return (
        rows.withColumns(
            {
                "step_us": f.when(is_step, step),
                "boot": f.sum(f.coalesce(booted, f.lit(False)).cast("long")).over(in_order),
            }
        )
        .withColumn("wall_us", f.col("wall_us") - f.coalesce(f.sum("step_us").over(until_now), f.lit(0)))
        .drop("boot")
    )

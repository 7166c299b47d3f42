"""Wall clocks that were stepped while their node ran: monotonic clocks decide how much time passed.

An operator or a time service may set a wall clock, by seconds or hours.  The monotonic clock of the same node goes on,
so between two entries of a node the wall clock must have advanced by the same time.  A larger difference is a step.
Its size is taken off all later readings of the node, which makes them those of a clock that was never stepped: moments
(`_us`) and durations of all tables are as they would have been.

A machine that booted between two entries has a new monotonic clock, and its readings are left as they are.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

STEP_MIN_US = 1_000_000
"""Smaller differences are no steps: a time service slews the clock by them."""
DRIFT = 0.0005
"""The most by which a time service slews a clock, as a share of the time that passes (adjtime, ntpd: 500 ppm)."""


def without_steps(rows: DataFrame) -> DataFrame:
    """Return a journal's rows with the steps taken off `wall_us`, and the step just before each row: `step_us`."""
    in_order = Window.partitionBy("run", "node").orderBy("node_seq", "mono_us")
    passed = f.col("mono_us") - f.lag("mono_us").over(in_order)
    wall_passed = f.col("wall_us") - f.lag("wall_us").over(in_order)
    # The monotonic clock is at most as old as the machine's boot.
    booted = (f.col("type") == "node_started") & ((passed < 0) | (f.col("mono_us") <= wall_passed))
    step = wall_passed - passed
    is_step = f.col("node").isNotNull() & ~booted & (f.abs(step) > STEP_MIN_US + f.abs(passed) * DRIFT)
    until_now = Window.partitionBy("run", "node", "boot").orderBy("node_seq", "mono_us")
    return (
        rows.withColumn("step_us", f.when(is_step, step))
        .withColumn("boot", f.sum(f.coalesce(booted, f.lit(False)).cast("long")).over(in_order))
        .withColumn("wall_us", f.col("wall_us") - f.coalesce(f.sum("step_us").over(until_now), f.lit(0)))
        .drop("boot")
    )

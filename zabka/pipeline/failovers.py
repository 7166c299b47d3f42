"""The failovers between controllers' reigns, in their phases."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from zabka.pipeline.bodies import bodies
from zabka.pipeline.reigns import controller_reigns
from zabka.pipeline.rows import Journal

_REIGN = ["run", "controller_epoch"]


def failovers(journal: Journal) -> DataFrame:
    """How each controller but a run's first came into office, phase by phase, in milliseconds.

    run, controller_epoch, broker_id, previous_broker_id, cause (how the reign before ended), at_us (the election, on
    the new controller's clock); detect_ms from the death or freeze of the last controller to the end of its session (0
    if no journal reports either), elect_ms from there to the election, read_ms and decide_ms until the new controller
    had read the state and sent what it decided, propagate_ms until every broker had answered.  total_ms is
    gap_before_ms of `controller_reigns`, which is how long there was no controller, and propagate_ms.  A phase that no
    journal reports is null: a controller that ended during its own failover never propagated.  Where no journal reports
    when the gap began, detect_ms, elect_ms and total_ms are null.
    """
    reigns = journal.once("reigns", lambda: controller_reigns(journal))
    in_order = Window.partitionBy("run").orderBy("controller_epoch")
    before = (
        reigns.withColumn("previous_broker_id", f.lag("broker_id").over(in_order))
        .withColumn("cause", f.lag("ended_by").over(in_order))
        .where(f.col("previous_broker_id").isNotNull())
    )
    ready = _once(journal, "controller_ready", "read_ms", "decide_ms")
    propagated = _once(journal, "controller_propagated", "propagate_ms")
    phases = ["detect_ms", "elect_ms", "read_ms", "decide_ms", "propagate_ms"]
    return (
        before.join(ready, _REIGN, "left")
        .join(propagated, _REIGN, "left")
        .withColumn("detect_ms", f.col("detection_ms"))
        .withColumn("elect_ms", f.col("election_ms"))
        .withColumn("total_ms", f.try_add("gap_before_ms", f.coalesce("propagate_ms", f.lit(0))))
        .select(
            "run", "controller_epoch", "broker_id", "previous_broker_id", "cause", f.col("from_us").alias("at_us"),
            *phases, "total_ms", "zxid",
        )
    )  # fmt: skip


def _once(journal: Journal, kind: str, *names: str) -> DataFrame:
    told = bodies(journal.rows, [kind], controller_epoch=LongType(), **{name: LongType() for name in names})
    return told.groupBy(*_REIGN).agg(*(f.min_by(name, "node_seq").alias(name) for name in names))

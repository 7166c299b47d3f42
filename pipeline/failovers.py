"""The failovers between controllers' reigns, in their phases."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType

from pipeline.bodies import STRINGS, bodies
from pipeline.reigns import controller_reigns
from pipeline.rows import Journal

_REIGN = ["run", "controller_epoch"]


def failovers(journal: Journal) -> DataFrame:
    """How each controller but a run's first came into office, phase by phase, in milliseconds.

    run, controller_epoch, broker_id, previous_broker_id, cause (how the reign before ended), at_us (the election, on
    the new controller's clock); detect_ms from the last word of the old one's session to its expiry (0 where it ended
    otherwise), elect_ms from the end of the old reign to the election, read_ms and decide_ms until the new controller
    had read the state and sent what it decided, propagate_ms until every broker had answered, and total_ms, their sum.
    A phase that nobody told of is null and counts 0: a reign that ended during its own failover never propagated.
    Where nobody told when the old reign ended (superseded), detect_ms, elect_ms and total_ms are null.
    """
    reigns = journal.once("reigns", lambda: controller_reigns(journal))
    in_order = Window.partitionBy("run").orderBy("controller_epoch")
    before = (
        reigns.withColumn("previous_broker_id", f.lag("broker_id").over(in_order))
        .withColumn("cause", f.lag("ended_by").over(in_order))
        .withColumn("previous_zxid", f.lag("zxid").over(in_order))
        .where(f.col("previous_broker_id").isNotNull())
    )
    ready = _once(journal, "controller_ready", "read_ms", "decide_ms")
    propagated = _once(journal, "controller_propagated", "propagate_ms")
    is_known = f.col("cause") != "superseded"
    detected = f.when(f.col("cause") == "session_expired", f.col("heard_ms_ago")).when(is_known, 0)
    phases = ["detect_ms", "elect_ms", "read_ms", "decide_ms", "propagate_ms"]
    return (
        before.join(_detected(before, journal), _REIGN, "left")
        .join(ready, _REIGN, "left")
        .join(propagated, _REIGN, "left")
        .withColumn("elect_ms", f.col("gap_before_ms"))
        .withColumn("detect_ms", detected)
        .withColumn("total_ms", f.when(is_known, reduce(f.try_add, (f.coalesce(name, f.lit(0)) for name in phases))))
        .select(
            "run", "controller_epoch", "broker_id", "previous_broker_id", "cause", f.col("from_us").alias("at_us"),
            *phases, "total_ms", "zxid",
        )
    )  # fmt: skip


def _once(journal: Journal, kind: str, *names: str) -> DataFrame:
    told = bodies(journal.rows, [kind], controller_epoch=LongType(), **{name: LongType() for name in names})
    return told.groupBy(*_REIGN).agg(*(f.min_by(name, "node_seq").alias(name) for name in names))


def _detected(reigns: DataFrame, journal: Journal) -> DataFrame:
    """Of each reign: how long the session of the one before had been silent when it was declared dead."""
    closed = (
        bodies(journal.rows, ["session_closed"], session_id=LongType(), zxid=LongType(), ephemerals=STRINGS)
        .where(f.array_contains("ephemerals", "/controller"))
        .groupBy("run", "session_id")
        .agg(f.min("zxid").alias("zxid_closed"))
    )
    expired = (
        bodies(
            journal.rows, ["session_expired"], session_id=LongType(), heard_ms_ago=LongType(), caused_by=StringType()
        )
        .where("heard_ms_ago >= 0")
        .groupBy("run", "session_id")
        .agg(f.max("heard_ms_ago").alias("heard_ms_ago"))
    )
    during = (f.col("zxid_closed") > f.col("previous_zxid")) & (f.col("zxid_closed") < f.col("zxid"))
    return (
        reigns.select(*_REIGN, "previous_zxid", "zxid")
        .join(closed, "run")
        .where(during)
        .groupBy(*_REIGN)
        .agg(f.min_by("session_id", "zxid_closed").alias("session_id"))
        .join(expired, ["run", "session_id"])
        .select(*_REIGN, "heard_ms_ago")
    )

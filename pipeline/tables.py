"""The tables: pure functions from a frame of journal rows (or of other tables) to a frame.

Times are microseconds of the wall clock, durations milliseconds.  Input is what `zabka-journal` reads; bad lines are
passed over here (`bad_lines` counts them).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

_INTS = ArrayType(IntegerType())
_STRINGS = ArrayType(StringType())


def _body(journal: DataFrame, kinds: list[str], **fields: object) -> DataFrame:
    """The rows of those event types, with the body's named fields as columns."""
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])  # type: ignore[arg-type]
    rows = journal.where(f.col("problem").isNull() & f.col("type").isin(kinds))
    parsed = rows.withColumn("e", f.from_json("body", schema))
    return parsed.select("node", "node_seq", f.col("wall_us").alias("at_us"), "type", "e.*")


def _ms(later: Column, earlier: Column) -> Column:
    return ((later - earlier) / 1000).cast(LongType())


def controller_reigns(journal: DataFrame) -> DataFrame:
    """Who was controller: broker_id, controller_epoch, from_us, to_us (null while it lasts), ended_by, gap_before_ms.

    A reign ends when its controller resigned, when the session that held /controller was closed, or at the latest when
    the next one was elected (`superseded`).
    """
    elected = _body(journal, ["controller_elected"], broker_id=IntegerType(), controller_epoch=IntegerType()).select(
        "broker_id", "controller_epoch", f.col("at_us").alias("from_us")
    )
    resigned = _body(
        journal, ["controller_resigned"],
        broker_id=IntegerType(), controller_epoch=IntegerType(), reason=StringType(),
    ).groupBy("broker_id", "controller_epoch").agg(
        f.min("at_us").alias("resigned_us"), f.min_by("reason", "at_us").alias("reason")
    )  # fmt: skip
    closed = (
        _body(journal, ["session_closed"], zxid=LongType(), ephemerals=_STRINGS)
        .where(f.array_contains("ephemerals", "/controller"))
        .groupBy("zxid")
        .agg(f.min("at_us").alias("closed_us"))
        .select("closed_us")
    )
    in_order = Window.orderBy("controller_epoch")
    reigns = elected.withColumn("next_us", f.lead("from_us").over(in_order))
    ends_by_close = (
        reigns.join(
            closed,
            (closed.closed_us >= reigns.from_us) & (reigns.next_us.isNull() | (closed.closed_us <= reigns.next_us)),
        )
        .groupBy("controller_epoch")
        .agg(f.min("closed_us").alias("closed_us"))
    )
    joined = reigns.join(resigned, ["broker_id", "controller_epoch"], "left").join(
        ends_by_close, ["controller_epoch"], "left"
    )
    to_us = f.least("resigned_us", "closed_us", "next_us")
    ended_by = (
        f.when(to_us.isNull(), f.lit(None))
        .when(f.col("closed_us") == to_us, f.lit("session_closed"))
        .when(f.col("resigned_us") == to_us, f.col("reason"))
        .otherwise(f.lit("superseded"))
    )
    ended = joined.withColumn("to_us", to_us).withColumn("ended_by", ended_by)
    gap = _ms(f.col("from_us"), f.lag("to_us").over(in_order))
    return (
        ended.withColumn("gap_before_ms", gap)
        .withColumn("duration_ms", _ms(f.col("to_us"), f.col("from_us")))
        .select(
            "broker_id", "controller_epoch", "from_us", "to_us", "duration_ms", "ended_by", "gap_before_ms"
        )
        .orderBy("controller_epoch")
    )  # fmt: skip


def _leader_writes(journal: DataFrame) -> DataFrame:
    return _body(
        journal, ["leader_elected"],
        topic=StringType(), partition=IntegerType(), leader=IntegerType(), leader_epoch=IntegerType(), isr=_INTS,
        replicas=_INTS, partition_epoch=IntegerType(), controller_epoch=IntegerType(), unclean=BooleanType(),
        cause=StringType(),
    )  # fmt: skip


def partition_leaderships(journal: DataFrame) -> DataFrame:
    """Who led which partition: topic, partition, leader (-1 none), leader_epoch, from_us, to_us, unclean, cause."""
    in_order = Window.partitionBy("topic", "partition").orderBy("at_us", "leader_epoch")
    return (
        _leader_writes(journal)
        .withColumn("to_us", f.lead("at_us").over(in_order))
        .withColumn("duration_ms", _ms(f.col("to_us"), f.col("at_us")))
        .select(
            "topic", "partition", "leader", "leader_epoch", f.col("at_us").alias("from_us"), "to_us", "duration_ms",
            "unclean", "cause", "isr", "replicas", "controller_epoch",
        )
        .orderBy("topic", "partition", "from_us")
    )  # fmt: skip


def isr_changes(journal: DataFrame) -> DataFrame:
    """How each ISR changed: topic, partition, at_us, isr_before, isr, removed, added, cause, leader, epochs."""
    changed = _body(
        journal, ["isr_changed"],
        topic=StringType(), partition=IntegerType(), isr=_INTS, leader=IntegerType(), leader_epoch=IntegerType(),
        partition_epoch=IntegerType(), cause=StringType(),
    )  # fmt: skip
    columns = ["topic", "partition", "at_us", "isr", "leader", "leader_epoch", "partition_epoch", "cause"]
    writes = changed.select(*columns).unionByName(_leader_writes(journal).select(*columns))
    in_order = Window.partitionBy("topic", "partition").orderBy("at_us", "partition_epoch")
    before = f.coalesce(f.lag("isr").over(in_order), f.array().cast(_INTS))
    return (
        writes.withColumn("isr_before", before)
        .withColumn("removed", f.array_except("isr_before", "isr"))
        .withColumn("added", f.array_except("isr", "isr_before"))
        .where((f.size("removed") > 0) | (f.size("added") > 0))
        .select(
            "topic", "partition", "at_us", "isr_before", "isr", "removed", "added", "cause", "leader", "leader_epoch",
            "partition_epoch",
        )
        .orderBy("topic", "partition", "at_us")
    )  # fmt: skip


def _brokers_not_running(journal: DataFrame, end_us: int) -> DataFrame:
    """When which broker's process did not run: broker_id, down_us, up_us."""
    changes = _body(journal, ["process_changed"], target=StringType(), process=StringType()).where(
        f.col("target").startswith("broker-")
    )
    in_order = Window.partitionBy("target").orderBy("at_us", "node_seq")
    return (
        changes.withColumn("up_us", f.coalesce(f.lead("at_us").over(in_order), f.lit(end_us)))
        .where(f.col("process") != "running")
        .select(
            f.regexp_extract("target", r"(\d+)$", 1).cast(IntegerType()).alias("broker_id"),
            f.col("at_us").alias("down_us"),
            "up_us",
        )
    )


def availability(journal: DataFrame) -> DataFrame:
    """How long each partition could be written to, from its first leader to the journal's end.

    topic, partition, observed_ms, offline_ms (the controller had written: no leader), leader_down_ms (the leader's
    process was down or paused and nobody had replaced it yet), available_ms, availability (0 to 1), elections,
    unclean_elections.
    """
    last = journal.where(f.col("problem").isNull()).agg(f.max("wall_us")).collect()[0][0] or 0
    spans = partition_leaderships(journal).withColumn("to_us", f.coalesce("to_us", f.lit(last)))
    down = _brokers_not_running(journal, last)
    overlap = f.least("to_us", "up_us") - f.greatest("from_us", "down_us")
    leader_down = (
        spans.join(
            down,
            (spans.leader == down.broker_id) & (down.down_us < spans.to_us) & (down.up_us > spans.from_us),
        )
        .groupBy("topic", "partition")
        .agg((f.sum(overlap) / 1000).cast(LongType()).alias("leader_down_ms"))
    )
    length = f.col("to_us") - f.col("from_us")
    totals = spans.groupBy("topic", "partition").agg(
        (f.sum(length) / 1000).cast(LongType()).alias("observed_ms"),
        (f.sum(f.when(f.col("leader") < 0, length).otherwise(0)) / 1000).cast(LongType()).alias("offline_ms"),
        f.count("*").alias("elections"),
        f.sum(f.col("unclean").cast(IntegerType())).alias("unclean_elections"),
    )
    joined = totals.join(leader_down, ["topic", "partition"], "left").fillna({"leader_down_ms": 0})
    available = f.col("observed_ms") - f.col("offline_ms") - f.col("leader_down_ms")
    share = f.when(f.col("observed_ms") > 0, f.round(f.col("available_ms") / f.col("observed_ms"), 6))
    return (
        joined.withColumn("available_ms", available)
        .withColumn("availability", share)
        .select(
            "topic", "partition", "observed_ms", "offline_ms", "leader_down_ms", "available_ms", "availability",
            "elections", "unclean_elections",
        )
        .orderBy("topic", "partition")
    )  # fmt: skip


def bad_lines(journal: DataFrame) -> DataFrame:
    """The lines that are no entries: file, position, problem, and the line."""
    return (
        journal.where(f.col("problem").isNotNull())
        .select("file", "position", "problem", f.col("body").alias("line"))
        .orderBy("file", "position")
    )

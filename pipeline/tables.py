"""The tables: pure functions from a frame of journal rows (or of other tables) to a frame.

Every table has the column `run`: rows of different histories never meet.  What came before what is decided by zxids,
epochs and partition epochs, never by comparing clocks of different nodes; `journal.fold` of the history in its true
order has the same answers.  Times are microseconds of the wall clock of the node that wrote the event, durations
milliseconds.  Input is what `zabka-journal` reads; lines that were set aside are passed over here (`bad_lines` lists
them).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, LongType, StringType

from pipeline.bodies import INTS, bodies, milliseconds
from pipeline.reigns import controller_reigns as controller_reigns

TYPES = (
    "broker_session_changed", "controller_elected", "controller_resigned", "isr_changed", "leader_elected",
    "node_started", "node_stopped", "process_changed", "session_closed", "session_created", "topic_deleted",
)  # fmt: skip
"""The types of events that the tables are made of; a reader may leave all others out."""

_PARTITION = ["run", "topic", "partition"]
_LIFE = [*_PARTITION, "life"]


def _writes(journal: DataFrame) -> DataFrame:
    """Every write of a partition's state once, in the ensemble's order, with the life of the partition it belongs to.

    A write with a new leader and a new ISR makes two events: the election's is the one that says why.  A topic that is
    deleted and made again has new znodes: a partition epoch that does not rise begins another life.
    """
    told = bodies(
        journal, ["leader_elected", "isr_changed"],
        topic=StringType(), partition=LongType(), leader=LongType(), leader_epoch=LongType(), isr=INTS, replicas=INTS,
        partition_epoch=LongType(), controller_epoch=LongType(), unclean=BooleanType(), cause=StringType(),
        zxid=LongType(),
    ).na.fill({"zxid": 0})  # fmt: skip
    once = Window.partitionBy(*_PARTITION, "zxid", "partition_epoch").orderBy(f.desc("type"), "node", "node_seq")
    in_order = Window.partitionBy(*_PARTITION).orderBy("zxid", "partition_epoch")
    begins = f.col("partition_epoch") <= f.lag("partition_epoch").over(in_order)
    return (
        told.withColumn("telling", f.row_number().over(once))
        .where("telling = 1")
        .withColumn("begins", f.coalesce(begins, f.lit(False)).cast(LongType()))
        .withColumn("life", f.sum("begins").over(in_order))
        .drop("telling", "begins")
    )


def _deletions(journal: DataFrame) -> DataFrame:
    """When topics were deleted: run, topic, deleted_us, and after_zxid, the last write that its controller told before.

    The event has no zxid of its own.  Its controller began to reign, or made the topic, before it deleted it.
    """
    told = bodies(
        journal, ["controller_elected", "leader_elected", "isr_changed", "topic_deleted"],
        topic=StringType(), zxid=LongType(),
    )  # fmt: skip
    before = Window.partitionBy("run", "node").orderBy("node_seq")
    return (
        told.withColumn("after_zxid", f.coalesce(f.max("zxid").over(before), f.lit(0)))
        .where("type = 'topic_deleted'")
        .select("run", "topic", f.col("at_us").alias("deleted_us"), "after_zxid")
    )


def _ends_of_lives(writes: DataFrame, journal: DataFrame) -> DataFrame:
    """When each life of a partition ended with its topic: run, topic, partition, life, deleted_us."""
    next_life = Window.partitionBy(*_PARTITION).orderBy("life")
    lives = (
        writes.groupBy(*_LIFE)
        .agg(f.min("zxid").alias("first_zxid"))
        .withColumn("next_zxid", f.lead("first_zxid").over(next_life))
    )
    within = (f.col("after_zxid") >= f.col("first_zxid")) & (
        f.col("next_zxid").isNull() | (f.col("after_zxid") < f.col("next_zxid"))
    )
    return (
        lives.join(_deletions(journal), ["run", "topic"])
        .where(within)
        .groupBy(*_LIFE)
        .agg(f.min_by("deleted_us", "after_zxid").alias("deleted_us"))
    )


def partition_leaderships(journal: DataFrame) -> DataFrame:
    """Who led which partition: run, topic, partition, life, leader (-1 none), leader_epoch, from_us, to_us, cause.

    One row for each leader epoch that a controller wrote, in the order of zxids.  A leadership lasts until the next
    such write, or until the topic is deleted; to_us is null while it lasts.  `life` counts how often the partition was
    deleted and made again.
    """
    writes = _writes(journal)
    in_order = Window.partitionBy(*_LIFE).orderBy("zxid", "partition_epoch")
    return (
        writes.where("type = 'leader_elected'")
        .join(_ends_of_lives(writes, journal), _LIFE, "left")
        .withColumn("to_us", f.coalesce(f.lead("at_us").over(in_order), "deleted_us"))
        .withColumn("duration_ms", milliseconds(f.col("to_us") - f.col("at_us")))
        .select(
            *_LIFE, "leader", "leader_epoch", f.col("at_us").alias("from_us"), "to_us", "duration_ms",
            "unclean", "cause", "isr", "replicas", "partition_epoch", "controller_epoch", "zxid",
        )
        .orderBy(*_PARTITION, "zxid", "partition_epoch")
    )  # fmt: skip


def isr_changes(journal: DataFrame) -> DataFrame:
    """How each ISR changed: run, topic, partition, life, at_us, isr_before, isr, removed, added, cause, epochs, zxid.

    One row for each write that made the ISR another set than the write before it.
    """
    in_order = Window.partitionBy(*_LIFE).orderBy("zxid", "partition_epoch")
    before = f.coalesce(f.lag("isr").over(in_order), f.array().cast(INTS))
    return (
        _writes(journal)
        .withColumn("isr_before", before)
        .withColumn("removed", f.array_except("isr_before", "isr"))
        .withColumn("added", f.array_except("isr", "isr_before"))
        .where((f.size("removed") > 0) | (f.size("added") > 0))
        .select(
            *_LIFE, "at_us", "isr_before", "isr", "removed", "added", "cause", "leader", "leader_epoch",
            "partition_epoch", "zxid",
        )
        .orderBy(*_PARTITION, "zxid", "partition_epoch")
    )  # fmt: skip


def _ends_of_runs(journal: DataFrame) -> DataFrame:
    return journal.where(f.col("problem").isNull()).groupBy("run").agg(f.max("wall_us").alias("end_us"))


def _brokers_not_running(journal: DataFrame) -> DataFrame:
    """When which broker's process did not run: run, leader, down_us, up_us (null for good).

    A node says that it starts and stops, and its host what it saw of the process; both have one clock.
    """
    changes = bodies(
        journal, ["process_changed", "node_started", "node_stopped"], target=StringType(), process=StringType()
    )
    who = f.when(f.col("type") == "process_changed", f.col("target")).otherwise(f.col("node"))
    now = f.when(f.col("type") == "process_changed", f.col("process")).otherwise(
        f.when(f.col("type") == "node_started", "running").otherwise("down")
    )
    in_order = Window.partitionBy("run", "who").orderBy("at_us", "node", "node_seq")
    return (
        changes.withColumn("who", who)
        .withColumn("now", now)
        .where(f.col("who").startswith("broker-"))
        .withColumn("up_us", f.lead("at_us").over(in_order))
        .where("now <> 'running'")
        .select(
            "run",
            f.regexp_extract("who", r"(\d+)$", 1).cast(LongType()).alias("leader"),
            f.col("at_us").alias("down_us"),
            "up_us",
        )
    )


def availability(journal: DataFrame) -> DataFrame:
    """How long each partition could be written to, from its first leader to the run's end or to its own.

    run, topic, partition, observed_ms, offline_ms (the controller had written: no leader), leader_down_ms (the leader's
    process was down or paused and nobody had replaced it yet), available_ms, availability (0 to 1), elections,
    unclean_elections.  The time between a topic's deletion and its next creation does not count.
    """
    ends = _ends_of_runs(journal)
    spans = (
        partition_leaderships(journal)
        .join(ends, "run")
        .withColumn("to_us", f.greatest("from_us", f.coalesce("to_us", "end_us")))
    )
    overlap = f.least("to_us", f.coalesce("up_us", "to_us")) - f.greatest("from_us", "down_us")
    leader_down = (
        spans.join(_brokers_not_running(journal), ["run", "leader"])
        .where(overlap > 0)
        .groupBy(*_PARTITION)
        .agg(milliseconds(f.sum(overlap)).alias("leader_down_ms"))
    )
    length = f.col("to_us") - f.col("from_us")
    totals = spans.groupBy(*_PARTITION).agg(
        milliseconds(f.sum(length)).alias("observed_ms"),
        milliseconds(f.sum(f.when(f.col("leader") < 0, length).otherwise(0))).alias("offline_ms"),
        f.count("*").alias("elections"),
        f.sum(f.col("unclean").cast(LongType())).alias("unclean_elections"),
    )
    joined = totals.join(leader_down, _PARTITION, "left").fillna({"leader_down_ms": 0})
    available = f.col("observed_ms") - f.col("offline_ms") - f.col("leader_down_ms")
    share = f.when(f.col("observed_ms") > 0, f.round(f.col("available_ms") / f.col("observed_ms"), 6))
    return (
        joined.withColumn("available_ms", available)
        .withColumn("availability", share)
        .select(
            *_PARTITION, "observed_ms", "offline_ms", "leader_down_ms", "available_ms", "availability",
            "elections", "unclean_elections",
        )
        .orderBy(*_PARTITION)
    )  # fmt: skip


def bad_lines(journal: DataFrame) -> DataFrame:
    """The lines that were set aside: run, file, position (in bytes), problem, and how the line begins."""
    return (
        journal.where(f.col("problem").isNotNull())
        .select("run", "file", "position", "problem", f.col("body").alias("line"))
        .orderBy("run", "file", "position")
    )

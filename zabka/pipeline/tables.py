"""Tables: pure functions from a frame of journal rows (or of other tables) to a frame.

Every table has the column `run`: rows of different histories are never combined. Order is determined by zxids, epochs
and partition epochs, never by comparing clocks of different nodes; `zabka.journal.fold` of the history in its true
order yields the same results. Times are microseconds of the wall clock of the node that wrote the event, corrected for
steps of that clock (`stepped_clocks`). Durations are milliseconds of the run's common clock (`clocks`), and `run_us` is
a time on that clock. The input is the rows of `zabka-journal`; quarantined lines are skipped here (`bad_lines` lists
them).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, LongType, StringType

from zabka.pipeline.bodies import INTS, STANDINGS, bodies, milliseconds
from zabka.pipeline.clocks import timed
from zabka.pipeline.rows import Journal

PARTITION = ["run", "topic", "partition"]
LIFE = [*PARTITION, "life"]
_ACTIONS = ("kill", "stop", "restart", "pause")
"""Actions of a host agent that count as faults."""


def leader_writes(journal: Journal) -> DataFrame:
    """Return every write of a partition's state once, in the ensemble's order, with the number of its life.

    A write that a paused broker reports late is placed before the next write. A write with a new leader and a new ISR
    produces two events: only the election's event has the cause. A topic that is deleted and created again has new
    znodes: if the partition epoch does not increase, another life of the partition begins.
    """
    return journal.once("writes", lambda: _leader_writes(journal))


def _leader_writes(journal: Journal) -> DataFrame:
    reported = timed(
        journal, ["leader_elected", "isr_changed"],
        topic=StringType(), partition=LongType(), leader=LongType(), leader_epoch=LongType(), isr=INTS, replicas=INTS,
        partition_epoch=LongType(), controller_epoch=LongType(), unclean=BooleanType(), cause=StringType(),
        zxid=LongType(), moved=STANDINGS, caused_by=StringType(),
    ).na.fill({"zxid": 0})  # fmt: skip
    once = Window.partitionBy(*PARTITION, "zxid", "partition_epoch").orderBy(f.desc("type"), "node", "node_seq")
    in_order = Window.partitionBy(*PARTITION).orderBy("zxid", "partition_epoch")
    begins = f.col("partition_epoch") <= f.lag("partition_epoch").over(in_order)
    return (
        reported.withColumn("telling", f.row_number().over(once))
        .where("telling = 1")
        .withColumns(
            {
                "run_us": f.min("run_us").over(in_order.rowsBetween(0, Window.unboundedFollowing)),
                "begins": f.coalesce(begins, f.lit(False)).cast("bigint"),
            }
        )
        .withColumn("life", f.sum("begins").over(in_order))
        .drop("telling", "begins")
    )


def _deletions(journal: Journal) -> DataFrame:
    """The deletions of topics: run, topic, deleted_us, after_zxid.

    The deletion event has no zxid. Therefore, after_zxid is the highest zxid that the same controller reported before
    the deletion, at least that of its election or of the topic's creation. It is 0 if the journal contains neither.
    """
    reported = timed(
        journal, ["controller_elected", "leader_elected", "isr_changed", "topic_deleted"],
        topic=StringType(), zxid=LongType(),
    )  # fmt: skip
    before = Window.partitionBy("run", "node").orderBy("node_seq")
    return (
        reported.withColumn("after_zxid", f.coalesce(f.max("zxid").over(before), f.lit(0)))
        .where("type = 'topic_deleted'")
        .select(
            "run", "topic", f.col("at_us").alias("deleted_us"), f.col("run_us").alias("deleted_run_us"), "after_zxid"
        )
    )


def ends_of_lives(journal: Journal) -> DataFrame:
    """The end of each life of a partition with its topic: run, topic, partition, life, deleted_us, deleted_run_us."""
    return journal.once("ends", lambda: _ends_of_lives(journal))


def _ends_of_lives(journal: Journal) -> DataFrame:
    next_life = Window.partitionBy(*PARTITION).orderBy("life")
    lives = (
        leader_writes(journal)
        .groupBy(*LIFE)
        .agg(f.min("zxid").alias("first_zxid"))
        .withColumn("next_zxid", f.lead("first_zxid").over(next_life))
    )
    within = (f.col("after_zxid") >= f.col("first_zxid")) & (
        f.col("next_zxid").isNull() | (f.col("after_zxid") < f.col("next_zxid"))
    )
    return (
        lives.join(_deletions(journal), ["run", "topic"])
        .where(within)
        .groupBy(*LIFE)
        .agg(
            f.min_by("deleted_us", "after_zxid").alias("deleted_us"),
            f.min_by("deleted_run_us", "after_zxid").alias("deleted_run_us"),
        )
    )


def partition_leaderships(journal: Journal) -> DataFrame:
    """The leaders of partitions: run, topic, partition, life, leader (-1 none), leader_epoch, from_us, to_us, cause.

    One row for each leader epoch that a controller wrote, in the order of zxids.  A leader leads until the next such
    write, or until the topic is deleted; to_us is null while it leads.  `life` counts how often the partition was
    created.
    """
    in_order = Window.partitionBy(*LIFE).orderBy("zxid", "partition_epoch")
    return (
        leader_writes(journal).where("type = 'leader_elected'")
        .join(ends_of_lives(journal), LIFE, "left")
        .withColumns(_ends(in_order))
        .select(
            *LIFE, "leader", "leader_epoch", f.col("at_us").alias("from_us"), "to_us",
            milliseconds(f.col("to_run_us") - f.col("run_us")).alias("duration_ms"),
            "unclean", "cause", "isr", "replicas", "partition_epoch", "controller_epoch", "zxid", "run_us",
        )
    )  # fmt: skip


def _ends(in_order: WindowSpec) -> dict[str, Column]:
    """Return columns with the time at which a row ends: at the next row, or at the end of the life of its partition."""
    return {
        "to_us": f.coalesce(f.lead("at_us").over(in_order), "deleted_us"),
        "to_run_us": f.coalesce(f.lead("run_us").over(in_order), "deleted_run_us"),
    }


def _proposals(journal: Journal) -> DataFrame:
    """The AlterPartition requests of leaders: run, topic, partition, caused_by (as in the resulting write),
    proposed.
    """
    names = f.format_string("proposal %s-%d@%d", "topic", "partition", "upon")
    return (
        bodies(
            journal.rows, ["isr_proposed"],
            topic=StringType(), partition=LongType(), upon=LongType(), moved=STANDINGS,
        )
        .withColumn("caused_by", names)
        .groupBy("run", "topic", "partition", "caused_by")
        .agg(f.max_by("moved", f.struct("at_us", "node_seq")).alias("proposed"))
    )  # fmt: skip


def isr_changes(journal: Journal) -> DataFrame:
    """The changes of each ISR, one row for each write that changed the set of its members.

    Columns: run, topic, partition, life, at_us, isr_before, isr, removed, added, cause, evidence, zxid. The evidence is
    the state of the followers when their leader made its decision: it is in the event itself, or in the proposal that
    led to it.
    """
    return journal.once("isr_changes", lambda: _isr_changes(journal))


def _isr_changes(journal: Journal) -> DataFrame:
    in_order = Window.partitionBy(*LIFE).orderBy("zxid", "partition_epoch")
    before = f.coalesce(f.lag("isr").over(in_order), f.array().cast(INTS))
    evidence = f.coalesce(f.when(f.size("moved") > 0, f.col("moved")), f.col("proposed"))
    return (
        leader_writes(journal)
        .join(_proposals(journal), ["run", "topic", "partition", "caused_by"], "left")
        .withColumns({"evidence": evidence, "isr_before": before})
        .withColumns({"removed": f.array_except("isr_before", "isr"), "added": f.array_except("isr", "isr_before")})
        .where((f.size("removed") > 0) | (f.size("added") > 0))
        .select(
            *LIFE, "at_us", "isr_before", "isr", "removed", "added", "cause", "evidence", "leader", "leader_epoch",
            "partition_epoch", "zxid", "run_us",
        )
    )  # fmt: skip


def isr_membership(journal: Journal) -> DataFrame:
    """The members of ISRs: run, topic, partition, life, replica, from_us, to_us, duration_ms, ended_by.

    One row for each period of membership. to_us is null while it lasts. ended_by is the cause of the write that ended
    it, or topic_deleted.
    """
    fields = [*LIFE, "zxid", "partition_epoch", "at_us", "run_us", "cause"]
    steps = (
        isr_changes(journal)
        .select(*fields, "added", f.explode(f.concat("added", "removed")).alias("replica"))
        .join(ends_of_lives(journal), LIFE, "left")
    )
    in_order = Window.partitionBy(*LIFE, "replica").orderBy("zxid", "partition_epoch")
    return (
        steps.withColumns({**_ends(in_order), "ended_by": f.lead("cause").over(in_order)})
        .where(f.array_contains("added", f.col("replica")))
        .select(
            *LIFE, "replica", f.col("at_us").alias("from_us"), "to_us",
            milliseconds(f.col("to_run_us") - f.col("run_us")).alias("duration_ms"),
            f.coalesce("ended_by", f.when(f.col("to_us").isNotNull(), "topic_deleted")).alias("ended_by"),
            f.col("zxid").alias("from_zxid"),
        )
    )  # fmt: skip


def bad_lines(journal: Journal) -> DataFrame:
    """The quarantined lines: run, file, position (in bytes), problem, and the beginning of the line."""
    return journal.rows.where(f.col("problem").isNotNull()).select(
        "run", "file", "position", "problem", f.col("body").alias("line")
    )


def clock_steps(journal: Journal) -> DataFrame:
    """The steps of wall clocks: run, node, node_seq, at_us, step_ms.

    The wall clock of the node was changed by step_ms (negative: set back), while its monotonic clock continued, before
    the entry with the number node_seq. at_us is the time of that entry as if the clock had not been stepped, like all
    times of the tables.
    """
    stepped = journal.rows.where(f.col("step_us").isNotNull())
    return stepped.select(
        "run", "node", "node_seq", f.col("wall_us").alias("at_us"), milliseconds(f.col("step_us")).alias("step_ms")
    )


def faults(journal: Journal) -> DataFrame:
    """Every fault: run, fault_id, kind, source, target, both_ways, delay_ms, requester, from_us, to_us, duration_ms.

    A kill, stop, restart or pause of a process through its host agent is a fault of that kind (also the stop of a whole
    cluster), without a fault_id: its source and target are the process, and it lasts until the next change of that
    process. to_us and duration_ms are null while it is active. The node that injects a fault removes it, so both times
    are of one clock.

    requester is the name of the requester: page, fixture, a scenario with its name, an HTTP client with its address or
    the name that it gave (header `Zabka-Requester`), the shutdown of the host agent, or the seed of a simulated run. It
    is null in journals of older versions.
    """
    reported = bodies(
        journal.rows, ["fault_injected", "fault_removed", "process_changed"],
        fault_id=StringType(), kind=StringType(), source=StringType(), target=StringType(), both_ways=BooleanType(),
        delay_ms=LongType(), process=StringType(), action=StringType(), requester=StringType(),
    )  # fmt: skip
    of_process = f.col("type") == "process_changed"
    stopped = of_process & (f.col("process") != "running") & f.col("action").isin(*_ACTIONS)
    what = f.when(of_process, f.col("target")).otherwise(f.col("fault_id"))
    in_order = Window.partitionBy("run", "node", of_process, what).orderBy("node_seq")
    following = f.lead("type").over(in_order)
    removed = f.when(following.isin("fault_removed", "process_changed"), f.lead("at_us").over(in_order))
    return (
        reported.withColumn("to_us", removed)
        .where((f.col("type") == "fault_injected") | stopped)
        .select(
            "run", "node", "fault_id", f.coalesce("kind", "action").alias("kind"),
            f.coalesce("source", "target").alias("source"), "target", "both_ways", "delay_ms",
            f.nullif(f.col("requester"), f.lit("")).alias("requester"), f.col("at_us").alias("from_us"), "to_us",
            milliseconds(f.col("to_us") - f.col("at_us")).alias("duration_ms"), "node_seq",
        )
    )  # fmt: skip

"""How available partitions and clients' writes were."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, MapType, StringType

from zabka.pipeline.bodies import bodies, milliseconds
from zabka.pipeline.clocks import timed, timed_rows
from zabka.pipeline.processes import node_number, processes_not_running
from zabka.pipeline.rows import Journal
from zabka.pipeline.tables import LIFE, PARTITION, ends_of_lives, leader_writes

_MIN_ISR = "min.insync.replicas"
_ALL_BROKERS = "brokers/<default>"
_HOW = ("down", "planned", "unseen")
"""Why a process did not run: killed or paused, stopped on purpose, or its end was not seen."""
_CONFIG = MapType(StringType(), StringType())


def availability(journal: Journal) -> DataFrame:
    """How long each partition could be written to, from its first leader to the end of the run or of the partition.

    Columns: run, topic, partition, observed_ms and its parts.  The parts are offline_ms (the controller had written: no
    leader), leader_down_ms (the leader's process was down or paused, and not replaced yet), under_min_isr_ms (it ran,
    but the ISR was smaller than min.insync.replicas: acks=all is refused) and available_ms.  availability is available
    of observed, 0 to 1.  Not observed are planned_ms (the leader was stopped on purpose) and unseen_ms (its process
    ended unseen: from its last sign of life to its next start).  Then come elections and unclean_elections.  The time
    between a topic's deletion and its next creation does not count.
    """
    spans = _with_stops(_with_min_isr(_spans(journal), journal), journal)
    observed = f.col("length") - f.col("planned_us") - f.col("unseen_us")
    up = f.greatest(observed - f.col("down_us"), f.lit(0))
    led = f.col("leader") >= 0
    totals = spans.groupBy(*PARTITION).agg(
        _sum(observed).alias("observed_ms"),
        _sum(f.when(~led, f.col("length")).otherwise(0)).alias("offline_ms"),
        _sum(f.col("down_us")).alias("leader_down_ms"),
        _sum(f.when(led & (f.size("isr") < f.col("min_isr")), up).otherwise(0)).alias("under_min_isr_ms"),
        _sum(f.col("planned_us")).alias("planned_ms"),
        _sum(f.col("unseen_us")).alias("unseen_ms"),
    )
    lacking = f.col("offline_ms") + f.col("leader_down_ms") + f.col("under_min_isr_ms")
    share = f.when(f.col("observed_ms") > 0, f.round(f.col("available_ms") / f.col("observed_ms"), 6))
    return (
        totals.join(_elections(journal), PARTITION)
        .withColumn("available_ms", f.greatest(f.col("observed_ms") - lacking, f.lit(0)))
        .withColumn("availability", share)
        .select(
            *PARTITION, "observed_ms", "offline_ms", "leader_down_ms", "under_min_isr_ms", "available_ms",
            "availability", "planned_ms", "unseen_ms", "elections", "unclean_elections",
        )
    )  # fmt: skip


_SPAN = [*LIFE, "begin", "leader"]


def _sum(us: Column) -> Column:
    return milliseconds(f.sum(us))


def _elections(journal: Journal) -> DataFrame:
    return (
        leader_writes(journal)
        .where("type = 'leader_elected'")
        .groupBy(*PARTITION)
        .agg(f.count("*").alias("elections"), f.sum(f.col("unclean").cast(LongType())).alias("unclean_elections"))
    )


def _spans(journal: Journal) -> DataFrame:
    """The spans between two writes of a partition, during which its state is constant.

    Columns: run, topic, partition, life, begin, end, leader, isr and replicas (null if no event gave them).
    """
    ends = timed_rows(journal).where(f.col("problem").isNull()).groupBy("run").agg(f.max("run_us").alias("end_us"))
    in_order = Window.partitionBy(*LIFE).orderBy("zxid", "partition_epoch")
    end = f.coalesce(f.lead("run_us").over(in_order), "deleted_run_us", "end_us")
    return (
        leader_writes(journal)
        # A change of an ISR does not contain the replicas.
        .withColumn("replicas", f.last("replicas", ignorenulls=True).over(in_order))
        .join(ends_of_lives(journal), LIFE, "left")
        .join(ends, "run")
        .withColumn("end", end)
        .select(*LIFE, f.col("run_us").alias("begin"), "end", "leader", "isr", "replicas")
        .where("end > begin")
    )


def _with_min_isr(spans: DataFrame, journal: Journal) -> DataFrame:
    """The spans, split where min.insync.replicas changed, with min_isr and length (microseconds).

    The precedence is a broker's: the topic's override, else the leader's dynamic value, else the dynamic default of all
    brokers, else the value that the leader started with.  It never exceeds the number of replicas (`Partition.min_isr`
    (`broker_sim/`)).
    """
    reported = timed(
        journal, ["config_changed", "node_started", "topic_deleted"],
        entity=StringType(), config=_CONFIG, topic=StringType(),
    )  # fmt: skip
    reported = reported.withColumn("min_isr", f.col("config")[_MIN_ISR].cast(LongType()))
    altered, started = reported.where("type = 'config_changed'"), reported.where("type = 'node_started'")
    name = f.substring_index("entity", "/", -1)
    # A topic's overrides are deleted with it, without an event of their own.
    of_topic = altered.where("entity LIKE 'topics/%'").withColumn("topic", name)
    of_topic = of_topic.unionByName(reported.where("type = 'topic_deleted'"))
    of_leader = altered.where("entity RLIKE '^brokers/[0-9]+$'").withColumn("leader", name.cast(LongType()))
    of_all = altered.where(f.col("entity") == _ALL_BROKERS)
    begun = started.where("node LIKE 'broker-%'").withColumn("leader", node_number("node"))
    usual = begun.groupBy("run").agg(f.max("min_isr").alias("usual"))
    cut = _cut(spans, of_topic, "of_topic", "topic")
    cut = _cut(cut, of_leader, "of_leader", "leader")
    cut = _cut(cut, of_all, "of_all")
    cut = _cut(cut, begun, "begun", "leader")
    asked_for = f.coalesce("of_topic", "of_leader", "of_all", "begun", "usual", f.lit(1))
    replicas = f.when(f.col("replicas").isNotNull(), f.greatest(f.size("replicas"), f.lit(1)))
    return (
        cut.join(usual, "run", "left")
        .withColumn("min_isr", f.least(asked_for, replicas))
        .withColumn("length", f.col("end") - f.col("begin"))
        .select(*_SPAN, "end", "isr", "min_isr", "length")
    )


def _cut(spans: DataFrame, reported: DataFrame, value: str, *keys: str) -> DataFrame:
    """Split the spans where `min_isr` in `reported` changed.

    The new column `value` has it, null before the first change.  Every broker reports a change, some of them at the
    same moment: the last report of a moment holds.
    """
    in_order = Window.partitionBy("run", *keys).orderBy("run_us", "node", "node_seq")
    changes = (
        reported.withColumn("until", f.lead("run_us").over(in_order))
        .where("until IS NULL OR until > run_us")
        .select("run", *keys, f.col("run_us").alias("since"), "until", f.col("min_isr").alias(value))
    )
    before = changes.groupBy("run", *keys).agg(f.min("since").alias("until"))
    return (
        spans.join(changes.unionByName(before, allowMissingColumns=True), ["run", *keys], "left")
        .where(
            (f.col("since").isNull() | (f.col("since") < f.col("end")))
            & (f.col("until").isNull() | (f.col("until") > f.col("begin")))
        )
        .withColumn("begin", f.greatest("begin", "since"))
        .withColumn("end", f.least("end", "until"))
        .drop("since", "until")
    )


def _with_stops(spans: DataFrame, journal: Journal) -> DataFrame:
    """Add how long each span's leader did not run: down_us, planned_us (on purpose), and unseen_us (possibly)."""
    overlap = f.least("end", f.coalesce("until", "end")) - f.greatest("begin", "since")
    # `least` and `greatest` ignore nulls: a leader that always ran has no `since`.
    stopped = f.when(f.col("since").isNotNull() & (overlap > 0), overlap).otherwise(0)
    return (
        spans.join(processes_not_running(journal), ["run", "leader"], "left")
        .groupBy(*_SPAN)
        .agg(
            f.first("isr").alias("isr"),
            f.first("min_isr").alias("min_isr"),
            f.first("length").alias("length"),
            *(f.sum(f.when(f.col("how") == how, stopped).otherwise(0)).alias(f"{how}_us") for how in _HOW),
        )
    )


def client_availability(journal: Journal) -> DataFrame:
    """The results of workloads' writes.

    run, workload_id, topic, from_us, to_us, sent, acknowledged, failed, lost, share. lost is how many acknowledged
    records were missing at the last report; earlier reports may have had more.  `share` is acknowledged divided by
    answered (acknowledged and failed), 0 to 1; null before the first answer.
    """
    reported = bodies(
        journal.rows, ["workload_progressed"],
        workload_id=StringType(), topic=StringType(), sent=LongType(), acknowledged=LongType(), failed=LongType(),
        lost=LongType(),
    )  # fmt: skip
    answered = f.try_add("acknowledged", "failed")
    return (
        reported.groupBy("run", "node", "workload_id", "topic")
        .agg(
            f.min("at_us").alias("from_us"),
            f.max("at_us").alias("to_us"),
            *(f.max(name).alias(name) for name in ("sent", "acknowledged", "failed")),
            f.max_by("lost", "node_seq").alias("lost"),
        )
        .withColumn("share", f.when(answered > 0, f.round(f.col("acknowledged") / answered, 6)))
    )

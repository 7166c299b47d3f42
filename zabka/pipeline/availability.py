"""Tables about the availability of partitions and of clients' writes."""

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
"""Why a process did not run: it was killed or paused, it was stopped on purpose, or its end was not recorded."""
_CONFIG = MapType(StringType(), StringType())


def availability(journal: Journal) -> DataFrame:
    """Time for which each partition could be written to, from its first leader until it or the run ended.

    observed_ms consists of five parts; in the first four, a write fails or waits. offline_ms: the controller had
    written that there is no leader. leader_down_ms: the leader's process was down or paused, and no other leader was
    elected yet. under_min_isr_ms: the leader ran, but the ISR was smaller than min.insync.replicas, so acks=all is
    rejected. min.insync.replicas is the override of the topic, else of the leader, else of all brokers, else what the
    leader started with, and at most the number of replicas. isr_stalled_ms: none of these, but the process of another
    member of the ISR did not run, or its link to the leader was partitioned in at least one direction (also if one of
    them was partitioned from all nodes), so the high watermark does not advance and acks=all waits. The fifth part is
    the rest.

    available_acks_1_ms is observed_ms without the first two parts, and available_acks_all_ms without the first four.
    availability_acks_1 and availability_acks_all are their shares of observed_ms, 0 to 1, to six digits.
    under_replicated_ms is the part of observed_ms with an ISR smaller than the replicas, with or without a leader.

    Not observed are planned_ms (the leader was stopped on purpose) and unseen_ms (the end of its process was not
    recorded: from its last sign of life to its next start).  The time between a topic's deletion and its next creation
    does not count. Then come elections and unclean_elections.
    """
    spans = _with_stops(journal.once("spans", lambda: _with_min_isr(_spans(journal), journal)), journal)
    observed = f.col("length") - f.col("planned_us") - f.col("unseen_us")
    up = f.greatest(observed - f.col("down_us"), f.lit(0))
    led = f.col("leader") >= 0
    under_min = f.size("isr") < f.col("min_isr")
    under_replicated = f.size("isr") < f.col("assigned")

    def total(condition: Column, us: Column) -> Column:
        return milliseconds(f.sum(f.when(condition, us).otherwise(0)))

    totals = spans.groupBy(*PARTITION).agg(
        milliseconds(f.sum(observed)).alias("observed_ms"),
        total(~led, f.col("length")).alias("offline_ms"),
        total(led, f.col("down_us")).alias("leader_down_ms"),
        total(led & under_min, up).alias("under_min_isr_ms"),
        total(led & ~f.coalesce(under_min, f.lit(False)), f.col("stalled_us")).alias("isr_stalled_ms"),
        total(under_replicated, observed).alias("under_replicated_ms"),
        milliseconds(f.sum("planned_us")).alias("planned_ms"),
        milliseconds(f.sum("unseen_us")).alias("unseen_ms"),
    )
    for_one = f.greatest(f.col("observed_ms") - f.col("offline_ms") - f.col("leader_down_ms"), f.lit(0))
    for_all = f.col("available_acks_1_ms") - f.col("under_min_isr_ms") - f.col("isr_stalled_ms")

    def share(of: str) -> Column:
        return f.when(f.col("observed_ms") > 0, f.round(f.col(of) / f.col("observed_ms"), 6))

    return (
        totals.join(_elections(journal), PARTITION)
        .withColumn("available_acks_1_ms", for_one)
        .withColumn("available_acks_all_ms", f.greatest(for_all, f.lit(0)))
        .select(
            *PARTITION, "observed_ms", "offline_ms", "leader_down_ms", "under_min_isr_ms", "isr_stalled_ms",
            "under_replicated_ms", "available_acks_1_ms", share("available_acks_1_ms").alias("availability_acks_1"),
            "available_acks_all_ms", share("available_acks_all_ms").alias("availability_acks_all"), "planned_ms",
            "unseen_ms", "elections", "unclean_elections",
        )
    )  # fmt: skip


_SPAN = [*LIFE, "begin", "leader"]


def _elections(journal: Journal) -> DataFrame:
    return (
        leader_writes(journal)
        .where("type = 'leader_elected'")
        .groupBy(*PARTITION)
        .agg(f.count("*").alias("elections"), f.sum(f.col("unclean").cast("bigint")).alias("unclean_elections"))
    )


def _spans(journal: Journal) -> DataFrame:
    """Return the periods between two writes of a partition's state, during which the state is constant.

    Columns: run, topic, partition, life, begin, end, leader, isr and replicas (null if no event gave them).
    """
    ends = timed_rows(journal).where(f.col("problem").isNull()).groupBy("run").agg(f.max("run_us").alias("end_us"))
    in_order = Window.partitionBy(*LIFE).orderBy("zxid", "partition_epoch")
    end = f.coalesce(f.lead("run_us").over(in_order), "deleted_run_us", "end_us")
    return (
        leader_writes(journal)
        # An ISR change does not contain the replicas, so use those of the last event that does.
        .withColumn("replicas", f.last("replicas", ignorenulls=True).over(in_order))
        .join(ends_of_lives(journal), LIFE, "left")
        .join(ends, "run")
        .select(*LIFE, f.col("run_us").alias("begin"), end.alias("end"), "leader", "isr", "replicas")
        .where("end > begin")
    )


def _with_min_isr(spans: DataFrame, journal: Journal) -> DataFrame:
    """Split the periods at changes of min.insync.replicas.

    Add the columns min_isr, assigned (number of replicas), and length (microseconds). As in a broker, the value comes
    from the first of these sources that has one: the topic's override, the leader's dynamic value, the dynamic default
    of all brokers, the value that the leader started with. It never exceeds the number of replicas (`Partition.min_isr`
    in `broker_sim/`).
    """
    reported = timed(
        journal, ["config_changed", "node_started", "topic_deleted"],
        entity=StringType(), config=_CONFIG, topic=StringType(),
    )  # fmt: skip
    reported = reported.withColumn("min_isr", f.col("config")[_MIN_ISR].cast("bigint"))
    altered, started = reported.where("type = 'config_changed'"), reported.where("type = 'node_started'")
    name = f.substring_index("entity", "/", -1)
    # When a topic is deleted, its overrides are deleted too, without a separate event.
    of_topic = altered.where("entity LIKE 'topics/%'").withColumn("topic", name)
    of_topic = of_topic.unionByName(reported.where("type = 'topic_deleted'"))
    of_leader = altered.where("entity RLIKE '^brokers/[0-9]+$'").withColumn("leader", name.cast("bigint"))
    of_all = altered.where(f.col("entity") == _ALL_BROKERS)
    begun = started.where("node LIKE 'broker-%'").withColumn("leader", node_number("node"))
    usual = begun.groupBy("run").agg(f.max("min_isr").alias("usual"))
    cut = _cut(spans, of_topic, "of_topic", "topic")
    cut = _cut(cut, of_leader, "of_leader", "leader")
    cut = _cut(cut, of_all, "of_all")
    cut = _cut(cut, begun, "begun", "leader")
    asked_for = f.coalesce("of_topic", "of_leader", "of_all", "begun", "usual", f.lit(1))
    replicas = f.when(f.col("replicas").isNotNull(), f.size("replicas"))
    return cut.join(usual, "run", "left").select(
        *_SPAN, "end", "isr", replicas.alias("assigned"),
        f.least(asked_for, f.greatest(replicas, f.lit(1))).alias("min_isr"),
        (f.col("end") - f.col("begin")).alias("length"),
    )  # fmt: skip


def _cut(spans: DataFrame, reported: DataFrame, value: str, *keys: str) -> DataFrame:
    """Split the periods at changes of `min_isr` in `reported`.

    The new column `value` contains `min_isr`, null before the first change. Every broker reports each change. Of
    several reports at the same time, the last one counts.
    """
    in_order = Window.partitionBy("run", *keys).orderBy("run_us", "node", "node_seq")
    at, until = f.col("run_us"), f.col("until")
    change = f.struct(at.alias("since"), until.alias("until"), f.col("min_isr").alias(value))
    none = f.lit(None).cast("bigint")
    before = f.struct(none.alias("since"), at.alias("until"), none.alias(value))
    is_first = at == f.col("first_us")
    changes = (
        reported.withColumns({"until": f.lead("run_us").over(in_order), "first_us": f.first("run_us").over(in_order)})
        .where("until IS NULL OR until > run_us")
        .select("run", *keys, f.inline(f.when(is_first, f.array(before, change)).otherwise(f.array(change))))
    )
    return (
        spans.join(changes, ["run", *keys], "left")
        .where(
            (f.col("since").isNull() | (f.col("since") < f.col("end")))
            & (f.col("until").isNull() | (f.col("until") > f.col("begin")))
        )
        .withColumns({"begin": f.greatest("begin", "since"), "end": f.least("end", "until")})
        .drop("since", "until")
    )


def _with_stops(spans: DataFrame, journal: Journal) -> DataFrame:
    """Add columns for how long the leader of each period did not run, and how long the ISR stalled while the leader
    ran.

    The columns of the leader are down_us, planned_us (stopped on purpose), and unseen_us (possibly stopped). stalled_us
    is the time for which the ISR stalled.
    """
    stopped = processes_not_running(journal)
    of_leader = spans.join(stopped, ["run", "leader"]).select(*_SPAN, "how", _within())
    members = spans.where("leader >= 0").select(*_SPAN, "end", f.explode("isr").alias("member"))
    members = members.where("member != leader")
    of_member = (
        members.join(stopped.withColumnRenamed("leader", "member"), ["run", "member"])
        .where("how != 'unseen'")
        .unionByName(members.join(_cut_links(journal, members), ["run", "leader", "member"]), allowMissingColumns=True)
        .select(*_SPAN, f.lit("stalled").alias("how"), _within())
    )
    times = (
        of_leader.unionByName(of_member)
        .where("within.begin < within.end")
        .groupBy(*_SPAN)
        .agg(
            *(_union(f.collect_list(f.when(f.col("how") == how, f.col("within")))).alias(f"{how}_us") for how in _HOW),
            _union(f.collect_list("within")).alias("any_us"),
        )
        .na.fill(0)
        .withColumn("stalled_us", f.col("any_us") - f.col("down_us") - f.col("planned_us") - f.col("unseen_us"))
    )
    names = [*(f"{how}_us" for how in _HOW), "stalled_us"]
    return spans.join(times.select(*_SPAN, *names), _SPAN, "left").na.fill(0, names)


def _within() -> Column:
    """Return the part of a period that is between `since` and `until`.

    If `until` is null, the part ends where the period ends.
    """
    begin, end = f.greatest("begin", "since"), f.least("end", "until")
    return f.struct(begin.alias("begin"), end.alias("end")).alias("within")


def _union(spans: Column) -> Column:
    """Return the total time that these periods cover. Overlaps count once."""
    zero = f.lit(0).cast("bigint")
    start = f.struct(zero.alias("total"), f.lit(None).cast("bigint").alias("reached"))

    def add(found: Column, span: Column) -> Column:
        # `reached` is null in the first row, and `greatest` ignores null.
        new = f.greatest(span["end"] - f.greatest(span["begin"], found["reached"]), zero)
        return f.struct(
            (found["total"] + new).alias("total"), f.greatest(span["end"], found["reached"]).alias("reached")
        )

    return f.aggregate(f.array_sort(spans), start, add, lambda found: found["total"])


def _cut_links(journal: Journal, members: DataFrame) -> DataFrame:
    """The times when the link between a leader and a member of its ISR was partitioned, in at least one direction.

    Columns: run, leader, member, since, until. A link fault ends when it is removed, or when the host agent that
    injected it starts again.
    """
    reported = timed(
        journal, ["fault_injected", "fault_removed", "node_started"],
        fault_id=StringType(), kind=StringType(), source=StringType(), target=StringType(), role=StringType(),
    )  # fmt: skip
    in_order = Window.partitionBy("run", "node", "fault_id").orderBy("node_seq")
    of_hosts = reported.where("type = 'node_started' AND role = 'host'")
    starts = of_hosts.groupBy("run", "node").agg(f.collect_list("run_us").alias("starts"))
    later = f.array_min(f.filter("starts", lambda start: start > f.col("run_us")))
    cuts = (
        reported.where("type != 'node_started'")
        .withColumn("removed", f.lead("run_us").over(in_order))
        .where("kind = 'cut'")
        .join(starts, ["run", "node"], "left")
        .withColumn("until", f.least("removed", later))
        .select("run", "source", "target", f.col("run_us").alias("since"), "until")
    )
    pairs = members.select("run", "leader", "member").distinct()
    leader, member = (f.concat(f.lit("broker-"), f.col(name)) for name in ("leader", "member"))

    def between(one: Column, other: Column) -> Column:
        # The source or target of a partitioned link can be `*`, which means all other nodes.
        return _is_end("source", one) & _is_end("target", other)

    is_cut = between(leader, member) | between(member, leader)
    return cuts.join(pairs, "run").where(is_cut).select("run", "leader", "member", "since", "until")


def _is_end(column: str, node: Column) -> Column:
    return (f.col(column) == node) | (f.col(column) == "*")


def client_availability(journal: Journal) -> DataFrame:
    """The writes of built-in workloads, and for how long a client could write.

    Columns: run, node, workload_id, topic, acks (all, 1 or 0), from_us, to_us, sent, acknowledged, failed, lost,
    running_ms, waited_ms, share.  lost is how many acknowledged records were missing at the last report; earlier
    reports may have had more.

    A write waits if it is not acknowledged, or takes more than a second. Then its whole time counts, up to the
    acknowledgement or failure.  waited_ms is the time in which at least one write waited, running_ms the time in which
    the workload produced, and `share` is 1 - waited_ms / running_ms.  So `share` is the share of time in which the
    client wanted to write and could; `client_availability` of a campaign is the same.  With acks=0 a write waits only
    for a connection to the leader.  acks and the times are null in journals of older versions.  A transactional
    workload counts the records of committed transactions as acknowledged, and those of transactions with an error as
    failed; it has no times, and no share.
    """
    reported = bodies(
        journal.rows, ["workload_progressed"],
        workload_id=StringType(), topic=StringType(), sent=LongType(), acknowledged=LongType(), failed=LongType(),
        lost=LongType(), acks=StringType(), running_ms=LongType(), waited_ms=LongType(),
    )  # fmt: skip
    # Journals of older versions do not have any of these fields.
    durations = {name: f.when(f.col(name) >= 0, f.col(name)) for name in ("running_ms", "waited_ms")}
    reported = reported.withColumns({"acks": f.nullif(f.col("acks"), f.lit("")), **durations})
    share = f.round(1 - f.col("waited_ms") / f.col("running_ms"), 6)
    return (
        reported.groupBy("run", "node", "workload_id", "topic")
        .agg(
            f.max("acks").alias("acks"),
            f.min("at_us").alias("from_us"),
            f.max("at_us").alias("to_us"),
            *(f.max(name).alias(name) for name in ("sent", "acknowledged", "failed")),
            f.max_by("lost", "node_seq").alias("lost"),
            *(f.max(name).alias(name) for name in ("running_ms", "waited_ms")),
        )
        .withColumn("share", f.when(f.col("running_ms") > 0, share))
    )

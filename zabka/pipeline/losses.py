"""Tables of lost records: how many, how many of them were committed, and how many had been acknowledged."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from zabka.pipeline.bodies import STRINGS, bodies
from zabka.pipeline.rows import Journal

_LOG = ["run", "topic", "partition", "topic_id"]
_SPANS = ArrayType(
    StructType([StructField(name, LongType()) for name in ("partition", "first_offset", "last_offset", "count")])
)


def records_lost(journal: Journal) -> DataFrame:
    """The lost records: run, topic, partition, topic_id, first_offset, last_offset, count, and the columns below.

    Several replicas may report the loss of the same records. A row is a range of the union of their offsets, and the
    ranges of a partition do not touch. So an offset whose records were lost under two leaders, one after the other,
    counts once. A topic that was deleted and created again has another topic_id, and separate rows (topic_id is empty
    in journals without it).

    `committed_at_least` is how many of the records were committed, at least. The committed records of a loss are the
    first ones: as many as its replica reported, or more if any replica reported a higher high watermark in the leader
    epoch of the last lost record. A follower's report counts if it is higher than the follower's previous report in
    this epoch; until then the high watermark refers to another leader's log. `below_high_watermark` is the same figure
    under its older name.

    `acknowledged` is how many of the records had been acknowledged to built-in workloads (acks 1 or all), according to
    the last report of each workload; null if no workload wrote to the topic.  Records of other clients are not
    included. broker_ids are the brokers that reported the loss, the first at first_us and the last at last_us; causes
    are the reasons.
    """
    reported = bodies(
        journal.rows, ["records_lost"],
        broker_id=LongType(), topic=StringType(), partition=LongType(), first_offset=LongType(), last_offset=LongType(),
        below_high_watermark=LongType(), committed_at_least=LongType(), cause=StringType(), topic_id=StringType(),
        leader_epoch=LongType(),
    ).na.fill({"topic_id": ""})  # fmt: skip
    reported = reported.join(high_watermarks(journal), [*_LOG, "leader_epoch"], "left")
    below_mark = f.try_subtract(f.least("reached", f.try_add("last_offset", f.lit(1))), f.col("first_offset"))
    below_mark = f.when(f.col("reached").isNotNull(), below_mark)
    # Journals of older versions have only `below_high_watermark`.
    committed = f.greatest("committed_at_least", "below_high_watermark", below_mark, f.lit(0))
    in_order = Window.partitionBy(*_LOG).orderBy("first_offset", "last_offset", "node", "node_seq")
    reached = f.max("last_offset").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    # The committed records of a loss are its first ones. Do not count offsets again that an earlier row already
    # contains.
    committed_before = f.max("committed_end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    fresh = f.try_subtract("committed_end", f.greatest("first_offset", committed_before))
    begins = f.coalesce(f.col("first_offset") > f.try_add(reached, f.lit(1)), reached.isNull()).cast("bigint")
    spans = (
        reported.withColumn("committed_end", f.try_add("first_offset", committed))
        .withColumns({"fresh": f.greatest(fresh, f.lit(0)), "begins": begins})
        .withColumn("span", f.sum("begins").over(in_order))
        .groupBy(*_LOG, "span")
        .agg(
            f.min("first_offset").alias("first_offset"),
            f.max("last_offset").alias("last_offset"),
            f.sum("fresh").alias("committed_at_least"),
            f.sort_array(f.collect_set("broker_id")).alias("broker_ids"),
            f.sort_array(f.collect_set("cause")).alias("causes"),
            f.min("at_us").alias("first_us"),
            f.max("at_us").alias("last_us"),
        )
        .withColumns(
            {
                "count": f.try_add(f.try_subtract("last_offset", "first_offset"), f.lit(1)),
                "below_high_watermark": f.col("committed_at_least"),
            }
        )
    )
    return acknowledged_records(spans, journal).select(
        *_LOG, "first_offset", "last_offset", "count", "committed_at_least", "acknowledged", "below_high_watermark",
        "broker_ids", "causes", "first_us", "last_us",
    )  # fmt: skip


def high_watermarks(journal: Journal) -> DataFrame:
    """The highest high watermark that a replica reported: run, topic, partition, topic_id, leader_epoch, reached.

    The leader epoch and the topic of a report are those of the last role that its broker took before the report.
    """
    reported = bodies(
        journal.rows, ["leadership_taken", "followership_taken", "replica_progressed"],
        topic=StringType(), partition=LongType(), topic_id=StringType(), leader_epoch=LongType(),
        high_watermark=LongType(), replicas=ArrayType(STRINGS),
    ).select("run", "node", "node_seq", "type", *_LOG[1:], "leader_epoch", "high_watermark", "replicas")  # fmt: skip
    taken = reported.where("type != 'replica_progressed'").na.fill({"topic_id": ""}).drop("replicas")
    row = f.col("row")
    progressed = reported.where("type = 'replica_progressed'").select(
        "run", "node", "node_seq", "type", f.explode("replicas").alias("row")
    )
    progressed = progressed.select(
        "run", "node", "node_seq", "type", row[0].alias("topic"), row[1].cast("bigint").alias("partition"),
        row[2].cast("bigint").alias("high_watermark"),
    )  # fmt: skip
    of_replica = ["run", "node", "topic", "partition"]
    role = f.when(f.col("type") != "replica_progressed", f.struct("node_seq", "type", "topic_id", "leader_epoch"))
    in_role = Window.partitionBy(*of_replica, "role.node_seq").orderBy("node_seq")
    rises = f.col("high_watermark") > f.lag("high_watermark").over(in_role)
    return (
        taken.unionByName(progressed, allowMissingColumns=True)
        .withColumn("role", f.last(role, ignorenulls=True).over(Window.partitionBy(*of_replica).orderBy("node_seq")))
        .withColumn("counts", (f.col("role.type") == "leadership_taken") | rises)
        .where("counts")
        .groupBy("run", "topic", "partition", f.col("role.topic_id").alias("topic_id"), "role.leader_epoch")
        .agg(f.max("high_watermark").alias("reached"))
    )


def acknowledged_records(spans: DataFrame, journal: Journal) -> DataFrame:
    """Add the column `acknowledged` to ranges of lost records: the number of records that built-in workloads miss."""
    last = (
        bodies(
            journal.rows, ["workload_progressed"],
            workload_id=StringType(), topic=StringType(), acks=StringType(), missing=_SPANS,
        )
        .where(f.col("acks").isin("all", "1"))
        .groupBy("run", "node", "workload_id", "topic")
        .agg(f.max_by("missing", "node_seq").alias("missing"))
    )  # fmt: skip
    writers = last.groupBy("run", "topic").agg(f.lit(0).alias("none"))
    missing = last.select("run", "topic", f.explode("missing").alias("m")).select(
        "run", "topic", "m.partition", f.col("m.first_offset").alias("from"), f.col("m.last_offset").alias("to"),
        f.col("m.count").alias("missing"),
    )  # fmt: skip
    key = [*_LOG, "span"]
    inside = (f.col("from") <= f.col("last_offset")) & (f.col("to") >= f.col("first_offset"))
    overlap = f.least("to", "last_offset") - f.greatest("from", "first_offset") + 1
    found = (
        spans.join(missing, ["run", "topic", "partition"])
        .where(inside)
        .groupBy(*key)
        .agg(f.sum(f.least("missing", overlap)).alias("found"))
    )
    return (
        spans.join(found, key, "left")
        .join(writers, ["run", "topic"], "left")
        .withColumn("acknowledged", f.coalesce("found", "none").cast("bigint"))
    )

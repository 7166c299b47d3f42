"""Records that are gone: every offset once, whoever told of it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType

from zabka.pipeline.bodies import bodies
from zabka.pipeline.rows import Journal

_LOG = ["run", "topic", "partition", "topic_id"]


def records_lost(journal: Journal) -> DataFrame:
    """Which records are gone: run, topic, partition, topic_id, first_offset, last_offset, count, committed_at_least.

    Several replicas may tell of the loss of the same records: a row is a span of the union of their offsets, and spans
    of a partition do not touch.  A topic that was deleted and made again has another topic_id, and rows of its own
    (topic_id is empty in journals that do not tell it).  `committed_at_least` is how many of the records were
    committed, at least: they lie below a high watermark that one of these replicas is known to have reached.
    `below_high_watermark` is the same figure under its older name.  broker_ids told of it, first at first_us and last
    at last_us, because of causes.
    """
    told = bodies(
        journal.rows, ["records_lost"],
        broker_id=LongType(), topic=StringType(), partition=LongType(), first_offset=LongType(), last_offset=LongType(),
        below_high_watermark=LongType(), committed_at_least=LongType(), cause=StringType(), topic_id=StringType(),
    ).na.fill({"topic_id": ""})  # fmt: skip
    # Journals of older versions have the older name alone.
    committed = f.greatest(f.coalesce("committed_at_least", f.lit(0)), f.coalesce("below_high_watermark", f.lit(0)))
    in_order = Window.partitionBy(*_LOG).orderBy("first_offset", "last_offset", "node", "node_seq")
    reached = f.max("last_offset").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    # The committed records are each loss's first ones; an offset that an earlier row counts is not counted again.
    committed_before = f.max("committed_end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    fresh = f.try_subtract("committed_end", f.greatest("first_offset", committed_before))
    begins = f.coalesce(f.col("first_offset") > f.try_add(reached, f.lit(1)), reached.isNull()).cast(LongType())
    return (
        told.withColumn("committed_end", f.try_add("first_offset", committed))
        .withColumn("fresh", f.greatest(fresh, f.lit(0)))
        .withColumn("begins", begins)
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
        .withColumn("count", f.try_add(f.try_subtract("last_offset", "first_offset"), f.lit(1)))
        .withColumn("below_high_watermark", f.col("committed_at_least"))
        .select(
            *_LOG, "first_offset", "last_offset", "count", "committed_at_least", "below_high_watermark", "broker_ids",
            "causes", "first_us", "last_us",
        )
    )  # fmt: skip

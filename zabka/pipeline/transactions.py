"""The table of producers' transactions, as their coordinators stored them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType

from zabka.pipeline.bodies import STRINGS, milliseconds
from zabka.pipeline.clocks import timed
from zabka.pipeline.rows import Journal

_ID = ["run", "transactional_id"]
_COMMITTED, _ABORTED = "committed", "aborted"
_OUTCOMES = {
    "PrepareCommit": _COMMITTED, "CompleteCommit": _COMMITTED, "PrepareAbort": _ABORTED, "CompleteAbort": _ABORTED,
}  # fmt: skip
"""Outcome for each state of a transactional id (kafka.coordinator.transaction.TransactionState)."""


def transactions(journal: Journal) -> DataFrame:
    """The transactions of each transactional id, one row for each, numbered from 1.

    Columns: run, transactional_id, number, producer_id, producer_epoch, from_us, decided_us, to_us, outcome,
    abort_reason, partitions, markers, duration_ms, decision_ms. from_us is when the coordinator stored the first
    partition (in milliseconds if only a later coordinator reports it), decided_us when it stored the outcome, and to_us
    when it stored that all markers are written. They are times on the coordinator's clock. A time that no journal
    reports is null.

    outcome is committed or aborted, and null before the decision. abort_reason is why it was aborted: ended by its
    producer, fenced (a new producer started with the same id), or timed out. partitions are those of the transaction,
    and markers is how many of them have an end marker (null unless journals are full). duration_ms lasts from the first
    partition to the last marker, and decision_ms to the decision; both are null if no journal has the beginning.
    producer_epoch is the epoch of the producer; a transaction that is fenced or timed out is aborted with a higher
    epoch. Transactions are distinguished by the time at which they began (started_ms), because a coordinator that was
    replaced while it was paused can later report the end of an older transaction.
    """
    steps = _steps(journal)
    # A broker that becomes coordinator reports each transaction with the reason "loaded".
    loaded = f.col("after") == "loaded"
    found = steps.groupBy(*_ID, "number").agg(
        f.min_by("producer_id", "step").alias("producer_id"),
        f.min_by("producer_epoch", "step").alias("producer_epoch"),
        *_moment("Ongoing", "from", ~loaded),
        *_moment("Prepare%", "decided", ~loaded),
        *_moment("Complete%", "to", ~loaded),
        f.max("outcome").alias("outcome"),
        f.min_by("after", f.when((f.col("state") == "PrepareAbort") & ~loaded, f.col("step"))).alias("abort_reason"),
        f.min(f.when(f.col("started_ms") >= 0, f.col("started_ms"))).alias("started_ms"),
        f.sort_array(f.array_distinct(f.flatten(f.collect_list("partitions")))).alias("partitions"),
        f.countDistinct("marked").alias("markers"),
    )
    with_markers = steps.where(f.col("marked").isNotNull()).select("run", f.lit(True).alias("is_full")).distinct()
    return found.join(with_markers, "run", "left").select(
        *_ID, "number", "producer_id", "producer_epoch",
        f.coalesce("from_us", f.col("started_ms") * 1000).alias("from_us"), "decided_us", "to_us", "outcome",
        f.when(f.col("outcome") == _ABORTED, f.col("abort_reason")).alias("abort_reason"), "partitions",
        f.when(f.col("is_full"), f.col("markers")).alias("markers"),
        milliseconds(f.col("to_run_us") - f.col("from_run_us")).alias("duration_ms"),
        milliseconds(f.col("decided_run_us") - f.col("from_run_us")).alias("decision_ms"),
    )  # fmt: skip


def _moment(state: str, name: str, decided: Column) -> tuple[Column, Column]:
    """Return two columns with the first time at which a transaction had this state, on two clocks.

    One column is on the coordinator's clock, the other on the common clock of the run.
    """
    first = f.when(f.col("state").like(state) & decided, f.col("step"))
    return f.min_by("at_us", first).alias(f"{name}_us"), f.min_by("run_us", first).alias(f"{name}_run_us")


def _steps(journal: Journal) -> DataFrame:
    """The events of each transactional id, with the number of the event's transaction.

    A transaction begins when the state becomes Ongoing, or when started_ms changes. If no journal has such an event,
    the transaction begins with the event of its outcome. A coordinator that was replaced while it was paused can report
    the end of an older transaction late; that event is assigned to the older transaction.
    """
    reported = timed(
        journal, ["transaction_changed"],
        transactional_id=StringType(), state=StringType(), producer_id=LongType(), producer_epoch=LongType(),
        partitions=STRINGS, after=StringType(), started_ms=LongType(),
    )  # fmt: skip
    outcome = f.coalesce(*(f.when(f.col("state") == state, f.lit(end)) for state, end in _OUTCOMES.items()))
    steps = reported.withColumn("outcome", outcome).unionByName(_markers(journal, reported), allowMissingColumns=True)
    in_order = Window.partitionBy(*_ID).orderBy("run_us", "node", "node_seq")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    of_transaction = (f.col("state") == "Ongoing") | f.col("outcome").isNotNull()
    start = f.when(of_transaction & (f.col("started_ms") >= 0), f.col("started_ms"))
    newest = f.max("start").over(earlier)
    is_late = f.coalesce(f.col("start") < newest, f.lit(False))
    before = f.last(f.when(~f.col("is_late"), f.col("state")), ignorenulls=True).over(earlier)
    is_open = f.coalesce(before.like("Prepare%") | (before == "Ongoing"), f.lit(False))
    begins = f.when(f.col("state") == "Ongoing", ~f.coalesce(before == "Ongoing", f.lit(False))).otherwise(
        f.col("outcome").isNotNull() & ~is_open
    )
    begins = ~f.col("is_late") & (begins | (f.col("start") > newest))
    same = Window.partitionBy(*_ID, "start")
    of_same = f.min(f.when(~f.col("is_late"), f.col("number"))).over(same)
    return (
        steps.withColumns({"start": start, "step": f.struct("run_us", "node", "node_seq")})
        .withColumn("is_late", is_late)
        .withColumn("begins", f.coalesce(begins, f.lit(False)).cast("bigint"))
        .withColumn("number", f.sum("begins").over(in_order))
        .withColumn("number", f.when(f.col("is_late"), f.coalesce(of_same, "number")).otherwise(f.col("number")))
        .where("number > 0 AND (outcome IS NOT NULL OR marked IS NOT NULL OR state = 'Ongoing')")
    )


def _markers(journal: Journal, reported: DataFrame) -> DataFrame:
    """Return the transaction markers that were written to partitions.

    Columns: run, transactional_id, marked, and the envelope of the marker's event. The coordinator sends markers after
    its decision and waits for them, so a marker's time identifies the transaction.
    """
    ids = reported.select("run", "producer_id", "transactional_id").distinct()
    written = timed(
        journal, ["marker_written"],
        topic=StringType(), partition=LongType(), producer_id=LongType(),
    )  # fmt: skip
    return written.join(ids, ["run", "producer_id"]).select(
        *_ID, "node", "node_seq", "run_us", f.format_string("%s-%d", "topic", "partition").alias("marked")
    )

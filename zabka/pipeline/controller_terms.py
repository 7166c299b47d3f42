"""Controller terms in the order of the ensemble, with durations that never mix nodes' wall clocks.

Zxids and controller epochs determine the controller of a term, the cause of its end, and the next term. Durations are
harder to compute: a term begins on a broker's clock and often ends on the clocks of peers. If all monotonic clocks of
the run are one clock (`clocks`), durations are differences of two times on it. Otherwise the creation of the broker's
session serves as a moment that is known on both clocks: every peer reports when the broker's session was created, and
the broker reports when it was connected, a round trip later. So the time of the broker's election on each peer's clock
is known, and the durations below are differences of two times on one clock. The median of several peers is used,
because one of them may lag. If no peer reports the creation of the session (its journal was removed, or the ensemble is
not zabka's) the wall clocks are used without a correction.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType

from zabka.pipeline.bodies import STRINGS, bodies, milliseconds
from zabka.pipeline.clocks import run_clocks, timed
from zabka.pipeline.processes import processes_not_running
from zabka.pipeline.rows import Journal

LET_GO = ("shutdown", "illegal_state")
"""Reasons for which a controller resigns before its znode is deleted. In all other cases it resigns after the
deletion.
"""
CLOSED = ("session_closed", "session_expired")
"""How the controller's session ended: closed on request, or expired."""
GAP = ("gap_before_ms", "detection_ms", "election_ms", "loading_ms")
"""Columns with the time without an active controller, and with the parts of that time."""
_TERM = ["run", "controller_epoch"]


def controller_terms(journal: Journal) -> DataFrame:
    """The controller terms, one row for each controller epoch of a run.

    Columns: run, broker_id, controller_epoch, from_us, to_us (null while it lasts), ended_by, gaps. A term ends when
    its controller resigned (shutdown, illegal_state), or when the session that owned /controller was closed
    (session_closed) or expired (session_expired). At the latest it ends at the election of the next controller
    (superseded). from_us and to_us are times on that controller's clock: to_us is from_us plus the duration.

    gap_before_ms is how long there was no active controller: from the death or pause of the last controller to the
    first decision of this one. Its parts are detection_ms (until the session of the last controller ended), election_ms
    (until this controller was elected) and loading_ms (until it had read the state and made its first decision). They
    are null if no journal reports when the gap began, or if this controller never made a decision.
    `zabka.journal.controller_gaps` computes the same from a history in its true order.
    """
    return journal.once("controller_terms", lambda: _controller_terms(journal))


def _controller_terms(journal: Journal) -> DataFrame:
    terms = journal.once("elected", lambda: _elected(journal))
    closings = journal.once("closings", lambda: _first_closings(terms, journal))
    ends = _with_endings(terms, closings, journal)
    moment = f.col("resigned_us") - f.col("from_us")
    # A controller may first resign and then close its session, so the resignation precedes the end of the session even
    # if the clocks show the opposite order.
    first = ~f.col("expired") | (moment < f.col("closed_after"))
    before_closing = f.col("zxid_closed").isNull() | (f.col("reason").isin(*LET_GO) & first)
    before_next = f.col("next_zxid").isNull() | (moment < f.col("next_after"))
    ended_by = (
        f.when(f.col("reason").isNotNull() & before_closing & before_next, f.col("reason"))
        .when(f.col("expired"), "session_expired")
        .when(f.col("zxid_closed").isNotNull(), "session_closed")
        .when(f.col("next_zxid").isNotNull(), "superseded")
    )
    after = (
        f.when(f.col("ended_by").isin(*CLOSED), f.col("closed_after"))
        .when(f.col("ended_by") == "superseded", f.col("next_after"))
        .when(f.col("ended_by").isNotNull(), moment)
    )
    # If a controller was superseded, no event shows when there was no active controller any more, so there is no gap.
    gap = f.when(f.col("ended_by").isin(*CLOSED), f.col("gap_after_closing")).when(
        f.col("ended_by") != "superseded", f.col("next_after") - moment
    )
    ends = ends.withColumn("ended_by", ended_by).withColumns({"after": after.cast("bigint"), "gap": gap})
    return _with_gaps(ends, journal).select(
        "run", "broker_id", "controller_epoch", "from_us", (f.col("from_us") + f.col("after")).alias("to_us"),
        milliseconds(f.col("after")).alias("duration_ms"), "ended_by",
        *(milliseconds(f.col(name)).alias(name) for name in GAP), "zxid",
    )  # fmt: skip


def _with_gaps(ends: DataFrame, journal: Journal) -> DataFrame:
    """Add columns to each term: the time without an active controller before the term, and its parts.

    All these times are in microseconds.
    """
    in_order = Window.partitionBy("run").orderBy("controller_epoch")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    ended = ends.join(_losses_of_holders(ends, journal), _TERM, "left").join(_loading(ends, journal), _TERM, "left")
    detection = f.when(f.col("ended_by").isin(*CLOSED), f.col("closed_run_us") - f.col("lost_run_us"))
    end = f.struct(
        "ended_by", "gap", "lost_run_us", f.greatest(detection, f.lit(0)).alias("detection"),
        f.lead("run_us").over(in_order).alias("next_run_us"),
    )  # fmt: skip
    last = f.coalesce(
        f.last(f.when(f.col("loading").isNotNull(), f.col("end")), ignorenulls=True).over(before),
        f.lag("end").over(in_order),
    )
    # Between the last controller that made a decision and this controller, others may have been elected that never made
    # one.
    election = f.col("last.gap") + f.col("run_us") - f.col("last.next_run_us")
    since_loss = f.col("run_us") - f.col("last.lost_run_us")
    superseded = f.col("last.ended_by") == "superseded"
    detected = f.when(f.col("loading").isNotNull() & ~superseded, f.col("last.detection"))
    elected = f.when(f.col("loading").isNotNull(), f.when(superseded, since_loss).otherwise(election))
    return (
        ended.withColumn("end", end)
        .withColumn("last", last)
        .withColumns(
            {
                "detection_ms": f.when(elected.isNotNull(), detected),
                "election_ms": elected,
                "loading_ms": f.when(elected.isNotNull(), f.col("loading")),
                "gap_before_ms": f.coalesce(detected, f.lit(0)) + elected + f.col("loading"),
            }
        )
    )


def _losses_of_holders(ends: DataFrame, journal: Journal) -> DataFrame:
    """Return when each term's controller died, or was paused and did not resume.

    Columns: run, controller_epoch, lost_run_us.
    """
    over = f.coalesce("closed_run_us", f.lead("run_us").over(Window.partitionBy("run").orderBy("controller_epoch")))
    held = ends.select(*_TERM, f.col("broker_id").alias("leader"), "run_us", over.alias("over_us"))
    # If no event reports the end of a process, only its next start is known.
    lost = f.when(f.col("how") == "unseen", f.col("until")).otherwise(f.col("since"))
    return (
        held.join(processes_not_running(journal).withColumn("lost", lost), ["run", "leader"])
        .where("lost >= run_us AND lost <= over_us AND NOT (resumed AND until <= over_us)")
        .groupBy(*_TERM)
        .agg(f.min("lost").alias("lost_run_us"))
    )


def _loading(ends: DataFrame, journal: Journal) -> DataFrame:
    """Return the time from each controller's election to its first decision: run, controller_epoch, loading.

    If the broker has no journal here, no event reports its first decision; the time of its election is used instead.
    """
    ready = (
        bodies(journal.rows, ["controller_ready"], controller_epoch=LongType())
        .groupBy(*_TERM)
        .agg(f.min_by("at_us", "node_seq").alias("ready_us"))
    )
    is_own = f.col("node") == f.concat(f.lit("broker-"), f.col("broker_id"))
    own = f.when(f.col("ready_us").isNotNull(), f.greatest(f.col("ready_us") - f.col("from_us"), f.lit(0)))
    loading = f.when(is_own, own).otherwise(f.lit(0))
    return ends.join(ready, _TERM, "left").select(*_TERM, loading.alias("loading"))


def _elected(journal: Journal) -> DataFrame:
    """Return every term once, with the start of the next term."""
    reported = timed(
        journal, ["controller_elected"], broker_id=LongType(), controller_epoch=LongType(), zxid=LongType()
    )
    once = Window.partitionBy(*_TERM).orderBy("zxid", "node", "node_seq")
    in_order = Window.partitionBy("run").orderBy("controller_epoch")
    return (
        reported.withColumn("telling", f.row_number().over(once))
        .where("telling = 1")
        .withColumnRenamed("at_us", "from_us")
        .withColumns(
            {
                "next_zxid": f.lead("zxid").over(in_order),
                "next_epoch": f.lead("controller_epoch").over(in_order),
                "next_from_us": f.lead("from_us").over(in_order),
                "next_run_us": f.lead("run_us").over(in_order),
            }
        )
        .drop("telling", "type")
    )


def _first_reports(journal: Journal, kind: str, *keys: str) -> DataFrame:
    """Return each peer's first report of a session's creation or end.

    Later reports are ignored, because a restarted peer replays transactions and reports their events again.
    """
    reported = timed(
        journal, [kind], session_id=LongType(), zxid=LongType(), ephemerals=STRINGS, caused_by=StringType()
    )
    if kind == "session_closed":
        reported = reported.where(f.array_contains("ephemerals", "/controller"))
    return (
        reported.withColumnRenamed("node", "peer")
        .groupBy("run", "peer", *keys)
        .agg(
            f.min_by("at_us", "node_seq").alias("us"),
            f.min_by("run_us", "node_seq").alias("run_us"),
            f.min_by("caused_by", "node_seq").alias("caused_by"),
        )
    )


def _on_the_clocks_of_peers(terms: DataFrame, journal: Journal) -> DataFrame:
    """Return the start of each term on each peer's clock: run, controller_epoch, peer, begin_us."""
    connected = (
        bodies(journal.rows, ["broker_session_changed"], state=StringType(), session_id=LongType())
        .where("state = 'connected'")
        .groupBy("run", "node", "session_id")
        .agg(f.min("node_seq").alias("connected_seq"), f.min_by("at_us", "node_seq").alias("connected_us"))
    )
    own = (
        terms.join(connected, ["run", "node"])
        .where("connected_seq < node_seq")
        .groupBy(*_TERM, "from_us")
        .agg(f.max_by(f.struct("session_id", "connected_us"), "connected_seq").alias("s"))
        .select(*_TERM, "s.session_id", (f.col("from_us") - f.col("s.connected_us")).alias("into_session"))
    )
    created = _first_reports(journal, "session_created", "session_id")
    return own.join(created, ["run", "session_id"]).select(
        *_TERM, "peer", (f.col("us") + f.col("into_session")).alias("begin_us")
    )


def _first_closings(terms: DataFrame, journal: Journal) -> DataFrame:
    """Return each peer's report that the session which owned /controller has ended.

    Columns: run, controller_epoch, zxid_closed, peer, closed_us.
    """
    closed = _first_reports(journal, "session_closed", "zxid")
    closed = closed.withColumnsRenamed({"zxid": "zxid_closed", "run_us": "closed_run_us"})
    during = (f.col("zxid_closed") > f.col("zxid")) & (
        f.col("next_zxid").isNull() | (f.col("zxid_closed") < f.col("next_zxid"))
    )
    first = Window.partitionBy(*_TERM).orderBy("zxid_closed")
    return (
        terms.join(closed, "run")
        .where(during)
        .withColumn("place", f.dense_rank().over(first))
        .where("place = 1")
        .select(*_TERM, "zxid_closed", "peer", f.col("us").alias("closed_us"), "closed_run_us", "caused_by")
    )


def _with_endings(terms: DataFrame, closings: DataFrame, journal: Journal) -> DataFrame:
    """Return every term with the possible causes of its end, as times in microseconds after its start."""
    resigned = (
        bodies(
            journal.rows, ["controller_resigned"],
            broker_id=LongType(), controller_epoch=LongType(), reason=StringType(),
        )
        .groupBy("run", "broker_id", "controller_epoch")
        .agg(f.min_by("at_us", "node_seq").alias("resigned_us"), f.min_by("reason", "node_seq").alias("reason"))
    )  # fmt: skip
    begun = journal.once("begun", lambda: _on_the_clocks_of_peers(terms, journal))
    following = begun.select("run", "peer", f.col("controller_epoch").alias("next_epoch"), f.col("begin_us").alias("n"))
    apart = (
        terms.select(*_TERM, "next_epoch")
        .join(begun, _TERM)
        .join(following, ["run", "peer", "next_epoch"], "left")
        .join(closings.drop("zxid_closed"), [*_TERM, "peer"], "left")
        .groupBy(*_TERM)
        .agg(
            _median(f.col("closed_us") - f.col("begin_us")).alias("closed_apart"),
            _median(f.col("n") - f.col("begin_us")).alias("next_apart"),
        )
    )
    gaps = (
        closings.join(terms.select(*_TERM, "next_epoch"), _TERM)
        .join(following, ["run", "peer", "next_epoch"])
        .groupBy(*_TERM)
        .agg(_median(f.col("n") - f.col("closed_us")).alias("gap_apart"))
    )
    closed = closings.groupBy(*_TERM).agg(
        f.min("zxid_closed").alias("zxid_closed"),
        f.min("closed_us").alias("c_us"),
        f.min("closed_run_us").alias("closed_run_us"),
        f.max(f.coalesce(f.col("caused_by").startswith("expiry"), f.lit(False))).alias("expired"),
    )
    one_clock = f.col("base_us").isNotNull()

    def length(on_one_clock: Column, on_peers: str, otherwise: Column) -> Column:
        return f.coalesce(f.when(one_clock, on_one_clock), on_peers, otherwise)

    closed_run_us, next_run_us, next_us = f.col("closed_run_us"), f.col("next_run_us"), f.col("next_from_us")
    closed_after = length(closed_run_us - f.col("run_us"), "closed_apart", f.col("c_us") - f.col("from_us"))
    next_after = length(next_run_us - f.col("run_us"), "next_apart", next_us - f.col("from_us"))
    gap_after_closing = length(next_run_us - closed_run_us, "gap_apart", next_us - f.col("c_us"))
    return (
        terms.join(resigned, ["run", "broker_id", "controller_epoch"], "left")
        .join(closed, _TERM, "left")
        .join(apart, _TERM, "left")
        .join(gaps, _TERM, "left")
        .join(run_clocks(journal), "run", "left")
        .withColumns({"closed_after": closed_after, "next_after": next_after, "gap_after_closing": gap_after_closing})
    )


def _median(value: Column) -> Column:
    return f.percentile(value, 0.5)


def failovers(journal: Journal) -> DataFrame:
    """The phases of each controller's failover, without a run's first controller, in milliseconds.

    Columns: run, controller_epoch, broker_id, previous_broker_id, cause, at_us. cause is the end of the previous term,
    and at_us is the election, on the new controller's clock.

    detect_ms lasts from the death or freeze of the last controller to the end of its session (0 if no journal reports
    either), and elect_ms from there to the election. read_ms and decide_ms last until the new controller had read the
    state and sent its decisions, and propagate_ms until every broker had replied. total_ms is the sum of gap_before_ms
    of `controller_terms`, the time without a controller, and propagate_ms. A phase that no journal reports is null, and
    so is total_ms then: a controller that ended during its own failover never propagated. If no journal reports when
    the gap began, detect_ms, elect_ms and total_ms are null.
    """
    in_order = Window.partitionBy("run").orderBy("controller_epoch")
    previous = {"previous_broker_id": f.lag("broker_id").over(in_order), "cause": f.lag("ended_by").over(in_order)}
    before = controller_terms(journal).withColumns(previous).where(f.col("previous_broker_id").isNotNull())
    ready = _once(journal, "controller_ready", "read_ms", "decide_ms")
    propagated = _once(journal, "controller_propagated", "propagate_ms")
    return (
        before.join(ready, _TERM, "left")
        .join(propagated, _TERM, "left")
        .select(
            "run", "controller_epoch", "broker_id", "previous_broker_id", "cause", f.col("from_us").alias("at_us"),
            f.col("detection_ms").alias("detect_ms"), f.col("election_ms").alias("elect_ms"), "read_ms", "decide_ms",
            "propagate_ms", f.try_add("gap_before_ms", f.col("propagate_ms")).alias("total_ms"), "zxid",
        )
    )  # fmt: skip


def _once(journal: Journal, kind: str, *names: str) -> DataFrame:
    reported = bodies(journal.rows, [kind], controller_epoch=LongType(), **{name: LongType() for name in names})
    return reported.groupBy(*_TERM).agg(*(f.min_by(name, "node_seq").alias(name) for name in names))

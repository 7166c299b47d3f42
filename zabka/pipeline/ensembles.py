"""Tables about the ensemble: its clients' sessions and its leader elections."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType

from zabka.pipeline.bodies import STRINGS, bodies, milliseconds
from zabka.pipeline.rows import Journal

_SESSION = ["run", "session_id"]


def sessions(journal: Journal) -> DataFrame:
    """The sessions of the ensemble's clients.

    Columns: run, session_id, timeout_ms, from_us, to_us, duration_ms, ended_by, and more. from_us and to_us are from
    the first peer that reported them; duration_ms is the median over the peers, each by its own clock. ended_by is
    expired or closed. to_us, duration_ms and ended_by are null while the session lasts, from_us and timeout_ms if it
    began before the journal. heard_ms_ago is how long before its expiry the last message of the session arrived.
    """
    reported = bodies(
        journal.rows, ["session_created", "session_closed"],
        session_id=LongType(), timeout_ms=LongType(), zxid=LongType(), ephemerals=STRINGS, caused_by=StringType(),
    )  # fmt: skip
    # A restarted peer reports the events of replayed transactions again, so use only its first report of each event.
    by_peer = reported.groupBy(*_SESSION, "node").agg(
        _first("at_us", "session_created").alias("created_us"),
        _first("at_us", "session_closed").alias("closed_us"),
        f.max("timeout_ms").alias("timeout_ms"),
        f.min(f.when(f.col("type") == "session_created", f.col("zxid"))).alias("created_zxid"),
        f.min(f.when(f.col("type") == "session_closed", f.col("zxid"))).alias("closed_zxid"),
        f.max("ephemerals").alias("ephemerals"),
        f.max(f.col("caused_by").startswith("expiry")).alias("expired"),
    )
    expired = (
        bodies(journal.rows, ["session_expired"], session_id=LongType(), heard_ms_ago=LongType())
        .groupBy(*_SESSION)
        .agg(f.max("heard_ms_ago").alias("heard_ms_ago"))
    )
    ended = f.when(f.col("expired"), "expired").when(f.col("closed_zxid").isNotNull(), "closed")
    return (
        by_peer.groupBy(*_SESSION)
        .agg(
            f.max("timeout_ms").alias("timeout_ms"),
            f.min("created_us").alias("from_us"),
            f.min("closed_us").alias("to_us"),
            milliseconds(f.percentile(f.col("closed_us") - f.col("created_us"), 0.5)).alias("duration_ms"),
            f.max("expired").alias("expired"),
            f.min("created_zxid").alias("created_zxid"),
            f.min("closed_zxid").alias("closed_zxid"),
            f.max("ephemerals").alias("ephemerals"),
        )
        .join(expired, _SESSION, "left")
        .select(
            *_SESSION, "timeout_ms", "from_us", "to_us", "duration_ms", ended.alias("ended_by"), "heard_ms_ago",
            "ephemerals", "created_zxid", "closed_zxid",
        )
    )  # fmt: skip


def _first(what: str, kind: str) -> Column:
    return f.min_by(f.when(f.col("type") == kind, f.col(what)), f.when(f.col("type") == kind, f.col("node_seq")))


def elections(journal: Journal) -> DataFrame:
    """Periods during which a peer had no leader: run, peer, from_us, and its time in each phase of ZAB.

    A row begins when a peer is LOOKING, and ends when it is in the broadcast phase, or stops.  All times are on that
    peer's clock.  election_ms, discovery_ms and synchronization_ms are times in those phases.  They are null if the
    peer did not reach the phase, if the phase still lasts, or if the peer was killed in it, at an unknown time.  to_us
    is when the broadcast phase began, and total_ms the time until then; both are null if it did not begin, also if the
    peer stopped.  rounds is the number of election rounds in which the peer took part.  state is its final state
    (LEADING, FOLLOWING, OBSERVING; null if none), with leader_id and epoch.
    """
    reported = bodies(
        journal.rows, ["peer_state_changed", "node_started", "node_stopped"],
        state=StringType(), phase=StringType(), leader_id=LongType(), round=LongType(), current_epoch=LongType(),
    ).where("type = 'peer_state_changed' OR node LIKE 'peer-%'")  # fmt: skip
    in_order = Window.partitionBy("run", "node").orderBy("node_seq")
    stable = f.col("phase") == "BROADCAST"
    # A period begins at the first event after the broadcast phase, after a start or after a stop.
    before_stable = f.lag(stable).over(in_order)
    begins = (f.col("type") != "peer_state_changed") | f.coalesce(before_stable & ~stable, f.lit(False))
    steps = (
        # If a node starts again although no stop was recorded, it was killed at an unknown earlier time.
        reported.withColumns(
            {
                "span": f.sum(f.coalesce(begins, f.lit(True)).cast("bigint")).over(in_order),
                "until": f.when(f.lead("type").over(in_order) != "node_started", f.lead("at_us").over(in_order)),
            }
        )
        .where("type = 'peer_state_changed'")
        .withColumn("length", f.col("until") - f.col("at_us"))
    )
    done = f.col("phase") == "BROADCAST"
    end = f.min(f.when(done, f.col("at_us")))
    return (
        steps.groupBy("run", "node", "span")
        .agg(
            f.min("at_us").alias("from_us"),
            end.alias("to_us"),
            *(_in_phase(phase) for phase in ("ELECTION", "DISCOVERY", "SYNCHRONIZATION")),
            f.countDistinct(f.when(f.col("phase") == "ELECTION", f.col("round"))).alias("rounds"),
            f.min_by(f.when(done, f.col("state")), f.when(done, f.col("node_seq"))).alias("state"),
            f.min_by(f.when(done, f.col("leader_id")), f.when(done, f.col("node_seq"))).alias("leader_id"),
            f.min_by(f.when(done, f.col("current_epoch")), f.when(done, f.col("node_seq"))).alias("epoch"),
            f.min("node_seq").alias("first_seq"),
        )
        .where("rounds > 0")
        .select(
            "run", f.col("node").alias("peer"), "first_seq", "from_us", "to_us", "election_ms", "discovery_ms",
            "synchronization_ms", milliseconds(f.col("to_us") - f.col("from_us")).alias("total_ms"), "rounds", "state",
            "leader_id", "epoch",
        )
    )  # fmt: skip


def _in_phase(phase: str) -> Column:
    lengths = f.when(f.col("phase") == phase, f.col("length"))
    is_known = f.count(lengths) == f.count(f.when(f.col("phase") == phase, 1))
    return f.when(is_known, milliseconds(f.sum(lengths))).alias(f"{phase.lower()}_ms")

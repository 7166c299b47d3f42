"""The periods in which brokers' processes did not run."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StringType

from zabka.pipeline.clocks import timed, timed_rows
from zabka.pipeline.lake.needed import SIGN_OF_LIFE
from zabka.pipeline.rows import Journal

_CRASHES = ("crash", "power_loss")
_STOPPED_BY_PERSONS = ("stop", "restart")
_PROCESSES = ["process_changed", "node_started", "node_stopped", "fault_injected", "fault_removed"]


def node_number(node: str) -> Column:
    """Return a column with the number in the node name of the column `node`."""
    return f.regexp_extract(node, r"(\d+)$", 1).cast("bigint")


def processes_not_running(journal: Journal) -> DataFrame:
    """The periods in which brokers' processes did not run: see `_processes_not_running`."""
    return journal.once("not_running", lambda: _processes_not_running(journal))


def _processes_not_running(journal: Journal) -> DataFrame:
    """The known periods in which brokers' processes did not run.

    Columns: run, leader, since, until (null if it never ran again), how, resumed (whether it was paused and resumed at
    `until`).

    A node reports its start and its stop, and its host agent reports what it observed of the process. A simulated node
    has no host: its faults record that it crashed or was paused, and its first event after a pause shows that it
    resumed, because a paused process writes none. If a process starts although it was running, its end was not
    recorded, for example because the agent of its host ended at the same time: it ended after its last known event.
    """
    reported = timed(
        journal, _PROCESSES,
        target=StringType(), source=StringType(), process=StringType(), action=StringType(), kind=StringType(),
        fault_id=StringType(),
    )  # fmt: skip
    paused = reported.where("type = 'fault_injected' AND kind = 'pause' AND source = target").select(
        "run", "fault_id", f.col("target").alias("paused")
    )
    reported = reported.join(paused, ["run", "fault_id"], "left").unionByName(
        _signs_of_life(journal, paused), allowMissingColumns=True
    )
    kind, of_itself = f.col("type"), f.col("source") == f.col("target")
    now = (
        f.when(kind == "process_changed", f.col("process"))
        .when(kind.isin("node_started", SIGN_OF_LIFE), "running")
        .when(kind == "node_stopped", "planned")
        .when((kind == "fault_injected") & of_itself & f.col("kind").isin(*_CRASHES), "down")
        .when((kind == "fault_injected") & of_itself & (f.col("kind") == "pause"), "paused")
        .when((kind == "fault_removed") & f.col("paused").isNotNull(), "running")
    )
    who = (
        f.when(kind.isin("process_changed", "fault_injected"), f.col("target"))
        .when(kind == "fault_removed", f.col("paused"))
        .otherwise(f.col("node"))
    )
    asked = (kind == "process_changed") & f.col("action").isin(*_STOPPED_BY_PERSONS)
    in_order = Window.partitionBy("run", "who").orderBy("run_us", "node", "node_seq")
    # A process reports its stop before the host agent notices the exit, and the host agent reports a start before the
    # process does.
    was_announced = f.coalesce((f.lag("now").over(in_order) == "planned") | f.col("asked"), f.lit(False))
    spawned = (kind == "process_changed") & (f.col("action") == "start")
    begins = f.coalesce((kind == "node_started") | spawned, f.lit(False))
    resumed = (f.col("now") == "paused") & (f.lead("now").over(in_order) == "running")
    is_its_own = spawned & (f.lead("type").over(in_order) == "node_started")
    ended_unseen = f.lead("begins").over(in_order) & ~f.coalesce(is_its_own, f.lit(False))
    how = (
        f.when((f.col("now") == "planned") | ((f.col("now") == "down") & was_announced), "planned")
        .when(f.col("now") != "running", "down")
        .when(ended_unseen, "unseen")
    )
    return (
        reported.withColumns({"who": who, "now": now, "asked": asked, "begins": begins})
        .where(f.col("who").startswith("broker-") & f.col("now").isNotNull())
        .withColumns({"until": f.lead("run_us").over(in_order), "how": how, "resumed": resumed})
        .where("how IS NOT NULL")
        .select(
            "run",
            node_number("who").alias("leader"),
            f.col("run_us").alias("since"),
            "until",
            "how",
            f.coalesce("resumed", f.lit(False)).alias("resumed"),
        )
    )


def _signs_of_life(journal: Journal, paused: DataFrame) -> DataFrame:
    """Return events that show that a broker ran.

    These are all events of brokers that were paused at any time, and the last event of each broker before each of its
    starts. Events that report the state of a process are not included.
    """
    following = f.lead("type").over(Window.partitionBy("run", "node").orderBy("node_seq"))
    of_paused = paused.select("run", f.col("paused").alias("node"), f.lit(True).alias("was_paused")).distinct()
    return (
        timed_rows(journal)
        .where(f.col("problem").isNull() & f.col("node").startswith("broker-"))
        .select("run", "node", "node_seq", "run_us", "type", following.alias("following"))
        .where(~f.col("type").isin(_PROCESSES))
        .join(of_paused, ["run", "node"], "left")
        .where(f.col("was_paused") | (f.col("following") == "node_started"))
        .select("run", "node", "node_seq", "run_us", f.lit(SIGN_OF_LIFE).alias("type"))
    )

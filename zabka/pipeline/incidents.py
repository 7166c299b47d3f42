"""The table `incidents`, with the effects of each fault in one row (`zabka.journal.incidents`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from zabka.journal.events import Entry
from zabka.journal.incidents import KINDS, Incident, headline, kind_of, summary, target_of
from zabka.journal.incidents import incidents as incidents_of
from zabka.journal.reader import decode_line
from zabka.journal.sentence_file import read_sentences
from zabka.journal.sentences import Sentences
from zabka.pipeline.audits.histories import in_order
from zabka.pipeline.bodies import STRINGS
from zabka.pipeline.clocks import timed_rows
from zabka.pipeline.rows import Journal

_LONG, _TEXT = LongType(), StringType()
SCHEMA = StructType(
    [
        StructField(name, kind)
        for name, kind in (
            ("run", _TEXT), ("number", _LONG), ("from_us", _LONG), ("to_us", _LONG), ("duration_ms", _LONG),
            ("kind", _TEXT), ("target", _TEXT), ("cause_node", _TEXT), ("cause_node_seq", _LONG),
            ("detected_by", _TEXT), ("detection_ms", _LONG), ("expired", STRINGS), ("expiry_ms", _LONG),
            ("controller", _LONG), ("controller_epoch", _LONG), ("no_controller_ms", _LONG),
            ("leaderless", STRINGS), ("leaderless_ms", _LONG), ("elected_uncleanly", STRINGS),
            ("under_replicated", STRINGS), ("stalled", STRINGS), ("stall_ms", _LONG), ("failed", _LONG),
            ("lost", _LONG), ("committed_at_least", _LONG), ("acknowledged", _LONG), ("requester", _TEXT),
            ("headline", _TEXT), ("summary", _TEXT),
        )
    ]
)  # fmt: skip
_ARROW = to_arrow_schema(SCHEMA)


def incidents(journal: Journal) -> DataFrame:
    """The incidents: a first cause, such as a fault, and all decisions whose recorded causes lead back to it.

    Columns: run, number, from_us, to_us, duration_ms, kind, target, and the following. to_us is when leaders,
    controller, ISRs and clients had returned to their state before the fault, null until then. kind is the kind of the
    fault, the action on a process, or the type of the first event if its own cause is unknown; target is the node or
    the link. cause_node and cause_node_seq identify the event (`zabka why NODE#NUMBER` explains it).

    detected_by is the node that made the first decision because of it, after detection_ms. expired are the brokers
    whose sessions expired, the first one after expiry_ms. controller is the last broker that became controller because
    of it, with controller_epoch; no_controller_ms is the time without a controller. leaderless are the partitions that
    had no live leader, the longest of them for leaderless_ms. elected_uncleanly are the partitions with an unclean
    election, and under_replicated those that lost members of their ISR. stalled are the workloads whose writes waited,
    the longest of them for stall_ms; `failed` is the number of their records that failed. Workloads are assigned to
    incidents by topic and time only. lost is the number of lost records, of which committed_at_least were committed,
    and acknowledged had been acknowledged to workloads with acks 1 or all (null if none wrote to these topics).
    requester is the name of the requester of the fault, as in `faults`. headline and summary are the same as sentences.

    The stop of a whole cluster, and partitions of a topic that is being deleted, are not included. A period that has
    not ended counts until the end of the journals. All times are on the common clock of the run (`run_us`), so they do
    not change if a wall clock was stepped.
    """
    # Cache the result: a stream requires that all rows of a run are in one partition, and Spark cannot know that here.
    return journal.once("incidents", lambda: _incidents(journal))


def _incidents(journal: Journal) -> DataFrame:
    chosen = timed_rows(journal).where(f.col("problem").isNull() & f.col("type").isin(*KINDS))
    return chosen.select("run", "file", "position", "body", "run_us").groupBy("run").applyInArrow(_rows_of_run, SCHEMA)


@cache
def _sentences() -> Sentences:
    return read_sentences()


def _rows_of_run(own: pa.Table) -> pa.Table:
    run: str = own["run"][0].as_py()
    lines = own.sort_by([("file", "ascending"), ("position", "ascending")]).to_pylist()
    entries = list(in_order(run, (entry for line in lines if (entry := _entry_of(line)) is not None)))
    until_us = max((entry.wall_us for entry in entries), default=0)
    rows = [{"run": run, **_row(each, until_us)} for each in incidents_of(entries)]
    return pa.Table.from_pylist(rows, _ARROW)


def _entry_of(line: dict[str, Any]) -> Entry | None:
    """Return the entry in a line, with its time on the clock of the run.

    Return None if the value of a field is invalid, which is possible only in fields that no table uses.
    """
    try:
        return msgspec.structs.replace(decode_line(line["body"].encode()), wall_us=line["run_us"])
    except ValueError:
        return None


def _row(incident: Incident, until_us: int) -> dict[str, Any]:
    to_us, detected, failovers = incident.to_us, incident.detected, incident.failovers
    lost = incident.lost.values()

    def after(at_us: int | None) -> int | None:
        return None if at_us is None else (at_us - incident.from_us) // 1000

    def longest(spans: Iterable[tuple[int, int | None]]) -> int | None:
        return max((((until_us if end is None else end) - begin) // 1000 for begin, end in spans), default=None)

    gaps = [failover.gap_us for failover in failovers if failover.gap_us is not None]
    return {
        "number": incident.number, "from_us": incident.from_us, "to_us": to_us, "duration_ms": after(to_us),
        "kind": kind_of(incident), "target": target_of(incident),
        "cause_node": incident.cause.node, "cause_node_seq": incident.cause.node_seq,
        "detected_by": None if detected is None else detected.node,
        "detection_ms": None if detected is None else after(detected.wall_us),
        "expired": sorted({expiry.node for expiry in incident.expiries}),
        "expiry_ms": min((after(expiry.at_us) or 0 for expiry in incident.expiries), default=None),
        "controller": failovers[-1].broker_id if failovers else None,
        "controller_epoch": failovers[-1].controller_epoch if failovers else None,
        "no_controller_ms": sum(gaps) // 1000 if gaps else None,
        "leaderless": sorted({outage.partition for outage in incident.outages}),
        "leaderless_ms": longest((outage.from_us, outage.to_us) for outage in incident.outages),
        "elected_uncleanly": sorted(set(incident.unclean)),
        "under_replicated": sorted({removal.partition for removal in incident.removals}),
        "stalled": sorted({stall.workload_id for stall in incident.stalls}),
        "stall_ms": longest((stall.from_us, stall.to_us) for stall in incident.stalls),
        "failed": sum(stall.failed for stall in incident.stalls),
        "lost": sum(each.records for each in lost),
        "committed_at_least": sum(each.committed_at_least for each in lost),
        "acknowledged": incident.acknowledged, "requester": incident.requester or None,
        "headline": headline(incident, _sentences()), "summary": "\n".join(summary(incident, _sentences())),
    }  # fmt: skip

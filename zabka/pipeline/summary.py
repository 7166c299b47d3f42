"""Summarises the tables in sentences: controller terms, failovers, downtime, lost records and transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from zabka.pipeline.selected import stored_rows

_TIMED_OUT = "timed out"
SHOWN_MAX = 10
"""Maximum number of partitions that are listed."""
Rows = Sequence[dict[str, Any]]
_LACKS = {
    "offline_ms": "without a leader", "leader_down_ms": "with its leader down", "under_min_isr_ms": "under min ISR",
    "isr_stalled_ms": "with a member of the ISR dead or cut off",
}  # fmt: skip
"""Phrases for the parts of the downtime, keyed by the column of `availability` that contains the part."""


def summary_of(out: Path) -> list[str]:
    """Return the summary of the tables that a run wrote to a directory. Raises OSError."""
    names = ("controller_terms", "failovers", "availability", "records_lost", "transactions")
    terms, failovers, partitions, losses, transactions = (stored_rows(out, name).to_pylist() for name in names)
    return summary(terms, failovers, partitions, losses, transactions)


def summary(terms: Rows, failovers: Rows, partitions: Rows, losses: Rows, transactions: Rows) -> list[str]:
    """Return one or more lines about each of the tables. An indented line has details of the line before it."""
    several = len({row["run"] for row in (*terms, *partitions, *losses)}) > 1
    return [_of_terms(terms), _of_failovers(failovers, several), *_of_partitions(partitions, several),
            *_of_losses(losses, several), _of_transactions(transactions)]  # fmt: skip


def _of_terms(terms: Rows) -> str:
    if not terms:
        return "controller terms: none"
    ends = Counter(row["ended_by"] or "not ended" for row in terms)
    return f"controller terms: {len(terms):,} ({', '.join(f'{count:,} {end}' for end, count in ends.most_common())})"


def _of_failovers(failovers: Rows, several: bool) -> str:
    known = [row for row in failovers if row["total_ms"] is not None]
    unknown = len(failovers) - len(known)
    if not failovers:
        return "failovers: none"
    if not known:
        return f"failovers: {len(failovers):,}, all of unknown duration"
    worst = max(known, key=lambda row: row["total_ms"])
    return (
        f"failovers: {len(failovers):,}; p50 {median(row['total_ms'] for row in known):,.0f} ms, worst "
        f"{worst['total_ms']:,} ms (controller epoch {worst['controller_epoch']}{_run(worst, several)}: broker "
        f"{worst['previous_broker_id']} to {worst['broker_id']} after {worst['cause']})"
        + (f"; {unknown:,} of unknown duration" if unknown else "")
    )


def _of_partitions(partitions: Rows, several: bool) -> list[str]:
    down = [row for row in partitions if _lacking_ms(row, "all")]
    down.sort(key=lambda row: (-_lacking_ms(row, "all"), row["topic"], row["partition"]))
    if not down:
        return [f"downtime: none of {len(partitions):,} partitions"]
    lines = [f"downtime for acks=all: {len(down):,} of {len(partitions):,} partitions, worst first"]
    lines += [f"  {_of_partition(row, several)}" for row in down[:SHOWN_MAX]]
    return [*lines, f"  and {len(down) - SHOWN_MAX:,} more partitions"] if len(down) > SHOWN_MAX else lines


def _of_partition(row: dict[str, Any], several: bool) -> str:
    parts = [f"{row[name]:,} ms {what}" for name, what in _LACKS.items() if row[name]]
    lacking = _lacking_ms(row, "all")
    share = 100 * lacking / row["observed_ms"]
    return (
        f"{_name(row, several)}: {lacking:,} ms of {row['observed_ms']:,} ms ({share:.1f} %; for acks=1 "
        f"{_lacking_ms(row, '1'):,} ms): {', '.join(parts)}"
    )


def _lacking_ms(row: dict[str, Any], acks: str) -> int:
    """Return the time in ms during which writes with these acks (1 or all) to the partition could not succeed."""
    lacking: int = row["observed_ms"] - row[f"available_acks_{acks}_ms"]
    return lacking


def _of_losses(losses: Rows, several: bool) -> list[str]:
    if not losses:
        return ["records lost: none reported"]
    counts: Counter[str] = Counter()
    for row in losses:
        counts[_name(row, several)] += row["count"]
    committed = sum(row["committed_at_least"] for row in losses)
    lines = [f"records lost: {counts.total():,}, of which at least {committed:,} were committed"]
    lines += [f"  {name}: {count:,}" for name, count in counts.most_common(SHOWN_MAX)]
    return [*lines, f"  and {len(counts) - SHOWN_MAX:,} more partitions"] if len(counts) > SHOWN_MAX else lines


def _of_transactions(transactions: Rows) -> str:
    if not transactions:
        return "transactions: none"
    ends = Counter(
        _TIMED_OUT if row["abort_reason"] == _TIMED_OUT else row["outcome"] or "undecided" for row in transactions
    )
    return f"transactions: {len(transactions):,} ({', '.join(f'{count:,} {end}' for end, count in ends.most_common())})"


def _name(row: dict[str, Any], several: bool) -> str:
    return f"{row['topic']}-{row['partition']}{_run(row, several)}"


def _run(row: dict[str, Any], several: bool) -> str:
    """Return the row's run if the tables contain several runs."""
    return f" of run {row['run']}" if several else ""

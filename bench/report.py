"""Results as tables for people and as one JSON document for programs: medians over the rounds, and ratios."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import msgspec
from rich.table import Table

from bench.ensembles import TITLES, Shape, Side
from bench.rounds import Failover, Measurement, Plan, Results, Tree
from bench.works import WORKS
from bench.zkfailover import summary


class Figure(NamedTuple):
    """A column: the key in JSON, its heading, how to read it, how to print it, and whether more is better."""

    key: str
    heading: str
    of: Callable[[Measurement], float]
    style: str
    more_is_better: bool = False


FIGURES = (
    Figure("ops_per_s", "ops/s", lambda m: m.sample.ops_per_s, ",.0f", more_is_better=True),
    Figure("p50_ms", "p50 ms", lambda m: m.sample.p50_ms, ",.2f"),
    Figure("p99_ms", "p99 ms", lambda m: m.sample.p99_ms, ",.2f"),
    Figure("cpu_us_per_op", "CPU µs/op", lambda m: m.sample.cpu_us, ",.1f"),
    Figure("rss_mb", "RSS MB", lambda m: m.rss_mb, ",.0f"),
)
EVEN = 0.02
"""A ratio this close to 1 is neither better nor worse."""

Medians = dict[str, float]


def medians(results: Results, side: Side, work: str, tree: Tree = "small") -> Medians | None:
    """The median of each figure over the rounds; None where nothing was measured."""
    found = [m for m in results.measurements if (m.side, m.work, m.tree) == (side, work, tree)]
    return {figure.key: median(map(figure.of, found)) for figure in FIGURES} if found else None


def ratios(ours: Medians, zookeeper: Medians) -> dict[str, float | None]:
    """Ours divided by ZooKeeper's; None where the divisor is 0 (CPU time is counted in ticks of 10 ms)."""
    return {key: ours[key] / zookeeper[key] if zookeeper[key] else None for key in ours}


def faults(results: Results, only: Side | None = None) -> list[str]:
    """One line per measurement or kill that broke a promise, of both sides or one."""
    broken = [
        f"{TITLES[m.side]}, round {m.round}, {m.tree} tree, {WORKS[m.work].title}: {m.sample.faults}"
        for m in results.measurements
        if m.sample.faults and only in (None, m.side)
    ]
    for failover in results.failovers:
        lost, session_kept = failover.outcome.lost, failover.outcome.session_kept
        if only not in (None, failover.side):
            continue
        if lost:
            broken.append(f"{TITLES[failover.side]}, a kill: {lost} acknowledged writes lost")
        if not session_kept:
            broken.append(f"{TITLES[failover.side]}, a kill: the session was lost")
    return broken


def _ratio_text(ratio: float | None, more_is_better: bool) -> str:
    if ratio is None:
        return "n/a"
    better = ratio > 1 if more_is_better else ratio < 1
    colour = "default" if abs(ratio - 1) <= EVEN else "green" if better else "red"
    return f"[{colour}]{ratio:.2f}[/]"


def load_table(results: Results, plan: Plan, zookeeper_version: str, tree: Tree = "small") -> Table:
    """One group of rows per work: each side, then ours divided by ZooKeeper's."""
    rounds = "one round" if plan.rounds == 1 else f"the medians of {plan.rounds} rounds"
    caption = (
        f"As many operations on each side as take ZooKeeper about {plan.seconds:g} s, {rounds}; "
        "CPU and RSS are the three servers together."
    )
    if len(plan.sides) == 2:
        caption += f"  ÷ is ours divided by that of Apache ZooKeeper {zookeeper_version}: green is better."
    title = f"Three servers, 100-byte values, {tree} trees: {_znodes_text(results, tree)}"
    table = Table(title=title, caption=caption, caption_justify="left")
    table.add_column("work")
    table.add_column("")
    for figure in FIGURES:
        table.add_column(figure.heading, justify="right")
    for work in plan.works:
        rows = {side: found for side in plan.sides if (found := medians(results, side, work.name, tree))}
        title = work.title
        for side, row in rows.items():
            table.add_row(title, TITLES[side], *(format(row[figure.key], figure.style) for figure in FIGURES))
            title = ""
        if len(rows) == 2:
            ratio = ratios(rows["ours"], rows["zookeeper"])
            table.add_row("", "÷", *(_ratio_text(ratio[figure.key], figure.more_is_better) for figure in FIGURES))
        table.add_section()
    return table


def _znodes_text(results: Results, tree: Tree) -> str:
    """How many znodes the trees had at their measurements; for each side where they were not the same."""
    sizes = {
        side: (min(found), max(found))
        for side in TITLES
        if (found := [m.znodes for m in results.measurements if m.side == side and m.tree == tree])
    }
    if len(set(sizes.values())) == 1:
        return _range_text(*next(iter(sizes.values()))) + " znodes"
    return ", ".join(f"{TITLES[side]} {_range_text(*size)} znodes" for side, size in sizes.items())


def _range_text(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def memory_table(results: Results, plan: Plan) -> Table:
    """What a grown tree weighs."""
    found = _memories(results, plan)
    znodes = _range_text(min(m.znodes for m in results.memories), max(m.znodes for m in results.memories))
    table = Table(title=f"Resident memory with {znodes} znodes of 100 bytes")
    table.add_column("")
    table.add_column("MB, three servers", justify="right")
    for side, row in found.items():
        note = f" (heap {Shape(znodes=plan.grown).heap_mb} MB)" if side == "zookeeper" else ""
        table.add_row(TITLES[side] + note, f"{row['rss_mb']:,.0f}")
    if len(found) == 2 and found["zookeeper"]["rss_mb"]:
        ratio = found["ours"]["rss_mb"] / found["zookeeper"]["rss_mb"]
        table.add_row("÷", _ratio_text(ratio, more_is_better=False))
    return table


def _memories(results: Results, plan: Plan) -> dict[Side, dict[str, float]]:
    """The medians over the rounds."""
    by_side = {side: [memory for memory in results.memories if memory.side == side] for side in plan.sides}
    return {
        side: {"znodes": median(m.znodes for m in found), "rss_mb": median(m.rss_mb for m in found)}
        for side, found in by_side.items()
        if found
    }


def failover_table(results: Results, plan: Plan) -> Table:
    """The leader killed with SIGKILL under a writing client."""
    table = Table(
        title="Leader killed: how long no write was acknowledged",
        caption=f"{plan.failovers} kills a side, tickTime 2000.",
        caption_justify="left",
    )
    table.add_column("")
    for heading in ("median ms", "worst ms", "writes lost", "sessions lost"):
        table.add_column(heading, justify="right")
    rows = {side: found for side in plan.sides if (found := _failover_summary(results.failovers, side))}
    for side, row in rows.items():
        table.add_row(
            TITLES[side], f"{row['median_gap_ms']:,.0f}", f"{row['worst_gap_ms']:,.0f}", f"{row['lost']:.0f}",
            f"{row['sessions_lost']:.0f}",
        )  # fmt: skip
    if len(rows) == 2:
        ours, theirs = rows["ours"], rows["zookeeper"]
        gaps = (ours[key] / theirs[key] if theirs[key] else None for key in ("median_gap_ms", "worst_gap_ms"))
        table.add_row("÷", *(_ratio_text(gap, more_is_better=False) for gap in gaps), "", "")
    return table


def _failover_summary(failovers: list[Failover], side: Side) -> dict[str, float] | None:
    outcomes = [failover.outcome for failover in failovers if failover.side == side]
    return summary(outcomes) if outcomes else None


def document(results: Results, plan: Plan, machine: dict[str, object], notes: list[str]) -> dict[str, Any]:
    """Everything, for programs: the medians and ratios, and each single measurement."""
    return {
        "machine": machine,
        "notes": notes,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "works": _works(results, plan, "small"),
        "grown": _works(results, plan, "grown"),
        "memory": _memories(results, plan),
        "failover": {side: row for side in plan.sides if (row := _failover_summary(results.failovers, side))},
        "faults": faults(results),
        "measurements": msgspec.to_builtins(results.measurements),
        "kills": msgspec.to_builtins(results.failovers),
    }


def _works(results: Results, plan: Plan, tree: Tree) -> dict[str, dict[str, Any]]:
    works: dict[str, dict[str, Any]] = {}
    for work in plan.works if tree in plan.trees else ():
        rows: dict[str, Any] = {side: row for side in plan.sides if (row := medians(results, side, work.name, tree))}
        if len(rows) == 2:
            rows["ratio"] = ratios(rows["ours"], rows["zookeeper"])
        works[work.name] = rows
    return works

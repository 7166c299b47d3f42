"""`make bench`: our ensemble and Apache ZooKeeper, measured in one run on this machine.

Three servers a side on loopback, never both sides at once, in alternating rounds.  Both do the same number of
operations, so that their trees stay equal: on a small tree, and when it has grown to a million znodes.  Progress and
trouble go to standard error, the tables to standard output; with --json the document goes to standard output and the
tables to standard error.  Exit code 0, 1 where it cannot measure or ours broke a promise of the protocol, 2 for a bad
option, 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bench import baseline, report
from bench.ensembles import SIDES, Side, missing_for_zookeeper, zookeeper_version
from bench.interrupts import interruptible
from bench.load import CannotMeasure, build_zkload, default_cache
from bench.machine import cautions, describe
from bench.progress import BarProgress
from bench.rounds import Plan, Results, Run
from bench.works import WORKS, parse_works

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
INTERRUPTED = 130
GROWN_HELP = "Measure again with so many znodes, and what they weigh; 0 = not"


class Only(StrEnum):
    """A side to measure alone."""

    OURS = "ours"
    ZOOKEEPER = "zookeeper"


def choose_sides(only: Side | None) -> tuple[tuple[Side, ...], list[str]]:
    """The sides that can be measured, and notes about one that cannot.  Raises CannotMeasure where none is left."""
    missing = None if only == "ours" else missing_for_zookeeper()
    if missing and only == "zookeeper":
        raise CannotMeasure(f"Apache ZooKeeper cannot be measured: {missing}")
    if missing:
        return ("ours",), [f"Apache ZooKeeper is left out: {missing}"]
    return (only,) if only else SIDES, []


@app.command()
def main(
    seconds: Annotated[
        float, typer.Option(min=0.5, max=600, help="Each work for as many operations as take ZooKeeper so long")
    ] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How often each work is measured on each side")] = 3,
    works: Annotated[str, typer.Option(metavar="A,B,…", help=f"Some of {', '.join(WORKS)}")] = ",".join(WORKS),
    only: Annotated[Only | None, typer.Option(help="Measure one side alone")] = None,
    failover: Annotated[int, typer.Option(min=0, max=100, help="Kill the leader this often on each side")] = 0,
    grown: Annotated[int, typer.Option(min=0, max=10_000_000, help=GROWN_HELP)] = 1_000_000,
    save: Annotated[bool, typer.Option("--save", help="Keep the figures as this machine's baseline")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document on standard output")] = False,
    data: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Where the servers keep their logs meanwhile")
    ] = None,
) -> None:
    """Measure our ensemble beside Apache ZooKeeper 3.9.5 in one run.  Ctrl-C stops every server."""
    errors = Console(stderr=True, highlight=False)
    tables = errors if as_json else Console(highlight=False)
    try:
        chosen = parse_works(works)
    except ValueError as reason:
        raise typer.BadParameter(str(reason), param_hint="--works") from None
    try:
        program = build_zkload(default_cache())
        sides, notes = choose_sides(only.value if only else None)
        plan = Plan(sides, tuple(chosen), rounds, seconds, failover, grown)
        with interruptible(), tempfile.TemporaryDirectory(prefix="zabka-bench-", dir=data) as directory:
            machine = describe(Path(directory))
            notes += cautions(machine)
            for note in notes:
                errors.print(note, style="yellow", markup=False)
            results, ended = _measure(plan, program, Path(directory), errors)
    except CannotMeasure as reason:
        errors.print(f"bench: {reason}", style="red", markup=False)
        raise typer.Exit(1) from None
    _tell(results, plan, machine, tables)
    document = report.document(results, plan, machine, notes)
    try:
        _hold_to_baseline(document, machine, tables, save and not ended)
    except CannotMeasure as reason:
        errors.print(f"bench: {reason}", style="red", markup=False)
        ended = ended or 1
    if as_json:
        print(json.dumps(document, indent=2))
    raise typer.Exit(ended or (1 if report.faults(results, "ours") else 0))


def _hold_to_baseline(document: dict[str, Any], machine: dict[str, object], out: Console, save: bool) -> None:
    """Show what has changed since the baseline, where there is one; then keep this run in its place, where asked to."""
    path = baseline.baseline_path(default_cache(), machine)
    before = baseline.load(path)
    if before is not None and document["measurements"]:
        out.print(baseline.baseline_table(document, before))
    if save:
        baseline.save(path, document, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
        out.print(f"kept as the baseline of this machine: {path}", markup=False)


def _measure(plan: Plan, program: Path, directory: Path, errors: Console) -> tuple[Results, int]:
    """Run the plan; what was measured until it ended, and the exit code where it ended early."""
    ended = 0
    with BarProgress(errors, plan.expected_s) as progress:
        run = Run(plan, program, directory, progress)
        try:
            run.measure()
        except KeyboardInterrupt:
            errors.print("interrupted: every server is stopped; this was measured so far", style="yellow")
            ended = INTERRUPTED
        except CannotMeasure as reason:
            errors.print(f"bench: {reason}", style="red", markup=False)
            ended = 1
    return run.results, ended


def _tell(results: Results, plan: Plan, machine: dict[str, object], out: Console) -> None:
    for tree in plan.trees:
        if any(measurement.tree == tree for measurement in results.measurements):
            out.print(report.load_table(results, plan, zookeeper_version(), tree))
    if results.memories:
        out.print(report.memory_table(results, plan))
    if results.failovers:
        out.print(report.failover_table(results, plan))
    if results.measurements or results.memories or results.failovers:
        out.print(", ".join(f"{key.replace('_', ' ')} {value}" for key, value in machine.items()), style="dim")
    for fault in report.faults(results):
        out.print(fault, style="red", markup=False)


if __name__ == "__main__":
    app(prog_name="bench")

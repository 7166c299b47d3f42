"""`zabka explore`: visit every state of the ensemble's protocol within given bounds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from zabka.cli.failure import fail
from zabka.cli.output_file import check_output

if TYPE_CHECKING:
    from zabka.simulation.search.explore import Bounds, Exploration

USAGE, INTERRUPTED = 2, 130
QUIET_S = 2.0
LINE_EVERY_S = 10.0


def explore(bounds: Bounds, out: Path | None) -> int:
    """Run the exhaustive search, print how much it covered, and return the exit code.

    The code is 0 if no violation was found, 1 if there is one (with a shortest counter-example), 130 after Ctrl-C.
    """
    from zabka.simulation.scenarios.scenario import write_scenario
    from zabka.simulation.search.explore import explore as search
    from zabka.simulation.search.transcript import transcript

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    on_terminal = sys.stderr.isatty()
    begin_s = printed_s = time.monotonic()
    with Progress(*columns, transient=True, disable=not on_terminal) as shown:
        task = shown.add_task("states")

        def progress(visited: int, depth: int, waiting: int) -> None:
            nonlocal printed_s
            now_s = time.monotonic()
            if now_s - begin_s < QUIET_S:
                return
            speed = visited / (now_s - begin_s)
            line = f"{visited:,} states visited, {depth} steps deep, {waiting:,} waiting, {speed:,.0f} a second"
            if on_terminal:
                shown.update(task, description=line)
            elif now_s - printed_s >= LINE_EVERY_S:
                printed_s = now_s
                sys.stderr.write(line + "\n")

        found = search(bounds, progress)
    sys.stdout.write(scope_text(bounds) + "\n" + extent_text(found) + "\n")
    if not found.problems:
        # Exit code 0 requires that every invariant held in all states within the bounds.
        return 0 if found.exhausted or found.states >= bounds.states_max else INTERRUPTED
    steps_text = "\n".join(transcript(bounds.peers, found.steps))
    sys.stdout.write(steps_text + "\n")
    for problem in found.problems:
        if problem not in steps_text:
            sys.stdout.write(f"     VIOLATED: {problem}\n")
    if out is not None:
        write_scenario(found.scenario(), out)
        sys.stdout.write(f"replay: zabka scenarios run {out}\n")
    return 1


def scope_text(bounds: Bounds) -> str:
    """Return a text that states the exact bounds of the search."""
    left = bounds.allowance()
    begin = "power-on" if bounds.begin == "power-on" else "an established leader"
    parts = [
        f"{bounds.peers} peers from {begin}, at most", f"{left.writes} writes", f"{left.crashes} crashes with restart",
        f"{left.timeouts} spontaneous timeouts", f"{left.breaks} broken links", f"{left.elections} elections",
    ]  # fmt: skip
    lossy = "" if bounds.losses else "; messages of a dead peer always arrive"
    return parts[0] + " " + ", ".join(parts[1:]) + lossy


def extent_text(found: Exploration) -> str:
    """Return a text that says how many states the search visited, and whether it visited all."""
    counts = (
        f"{found.states:,} states, {found.transitions:,} transitions, {found.depth} steps deep, "
        f"{found.settled:,} at rest, {found.cut:,} elections beyond the scope; "
        f"{found.turns:,} turns of single peers; {found.cpu_s:,.1f} s of CPU"
    )
    if found.problems:
        return f"{counts}\na violation, in {len(found.steps)} steps"
    if found.exhausted:
        return f"{counts}\nno violation in any state of the scope"
    return f"{counts}\nstopped: no violation up to {max(found.depth - 1, 0)} steps"


def command(
    writes: Annotated[int, typer.Option(min=0, max=9, envvar="ZABKA_WRITES", help="Maximum number of writes")] = 1,
    crashes: Annotated[int, typer.Option(min=0, max=9, envvar="ZABKA_CRASHES", help="Maximum number of crashes")] = 1,
    peers: Annotated[int, typer.Option(min=1, max=5, envvar="ZABKA_PEERS", help="Number of voters")] = 3,
    start: Annotated[
        Literal["leader", "power-on"],
        typer.Option(envvar="ZABKA_START", help="Start from a serving leader, or from newly started processes"),
    ] = "leader",
    timeouts: Annotated[
        int,
        typer.Option(min=0, max=9, envvar="ZABKA_TIMEOUTS", help="Maximum number of timeouts while links are intact"),
    ] = 0,
    breaks: Annotated[
        int, typer.Option(min=0, max=9, envvar="ZABKA_BREAKS", help="Maximum number of broken links")
    ] = 0,
    elections: Annotated[
        int | None,
        typer.Option(min=0, max=99, envvar="ZABKA_ELECTIONS", help="Maximum number of elections [faults + 1]"),
    ] = None,
    losses: Annotated[
        bool, typer.Option(envvar="ZABKA_LOSSES", help="Whether messages of a peer can be lost when it dies")
    ] = True,
    states: Annotated[int, typer.Option(min=1, envvar="ZABKA_STATES", help="Stop after that many states")] = 10_000_000,
    out: Annotated[
        Path | None, typer.Option(envvar="ZABKA_OUT", help="File for a violation, written as a scenario")
    ] = None,
) -> None:
    """Visit every state of the ensemble's protocol within small bounds; exit code 1 if an invariant was violated."""
    from zabka.simulation.search.explore import Begin, Bounds

    try:
        check_output(out)
    except OSError as reason:
        fail(reason, USAGE)
    limit = -1 if elections is None else elections
    bounds = Bounds(
        peers=peers,
        writes=writes,
        crashes=crashes,
        timeouts=timeouts,
        breaks=breaks,
        elections=limit,
        losses=losses,
        begin=Begin(start),
        states_max=states,
    )
    raise typer.Exit(explore(bounds, out))

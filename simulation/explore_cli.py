"""`zabka explore`: the exhaustive search, from the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from simulation.explore import Bounds
from simulation.explore import explore as search
from simulation.scenarios.scenario import write_scenario


def explore(peers: int, writes: int, crashes: int, states: int, out: Path | None) -> int:
    """Search, and say what was visited; 0 when nothing was found, 1 with what was otherwise."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task("states")

        def progress(visited: int, strays: int) -> None:
            if visited % 100 == 0:
                shown.update(task, description=f"{visited:,} states, {strays} strays")

        found = search(Bounds(peers, writes, crashes, states), progress)
    scope = f"{peers} peers, {writes} writes, {crashes} crashes"
    if found.exhausted:
        extent = "every state of the scope"
    elif found.complete_strays >= 0:
        extent = f"every state up to {found.complete_strays} strays from the plain schedule"
    else:
        extent = "a part of the plain schedules"
    speed = f"{found.states / found.wall_s:,.0f} a second"
    sys.stdout.write(
        f"{scope}: {found.states:,} states ({speed}), {found.steps:,} steps, {found.recovered:,} recoveries\n"
    )
    if not found.found:
        sys.stdout.write(f"no violation in {extent}\n")
        return 0
    for problem in found.found[0][0]:
        sys.stdout.write(f"VIOLATED: {problem}\n")
    for step in found.found[0][1]:
        sys.stdout.write(f"  {step}\n")
    if out is not None:
        write_scenario(found.scenario(), out)
        sys.stdout.write(f"replay: zabka scenarios run {out}\n")
    return 1

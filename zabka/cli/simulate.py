"""`zabka simulate`: run many seeds in the simulated world."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator, Iterable
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from zabka.cli.options import Scenario, Settings
from zabka.cli.worker_processes import KILLED, results_of
from zabka.simulation.engine.garbage import collect_after, collect_seldom, seldom_collected
from zabka.simulation.settings import BadSetting, WorldSettings, world_settings

if TYPE_CHECKING:
    from zabka.simulation.seeds.seed_run import Outcome

USAGE = 2
AHEAD = 16
"""Number of queued seeds per process, so that no process is idle while another process runs a slow seed."""


def print_line(text: str, *, error: bool = False) -> None:
    """Print a line on standard output, or on standard error."""
    stream = sys.stderr if error else sys.stdout
    stream.write(text + "\n")
    stream.flush()


def parse_seeds(text: str) -> range:
    """Parse `A-B` (inclusive) or a single number. Raises ValueError with the reason."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise ValueError(f"--seeds takes A-B or one number, such as 0-199; got {text!r}")
    begin, end = int(first), int(last) if dash else int(first)
    if end < begin:
        raise ValueError(f"--seeds {text}: the last seed is smaller than the first")
    if end - begin >= sys.maxsize:
        raise ValueError(f"--seeds {text}: too many seeds")
    return range(begin, end + 1)


def configured(scenario: str, settings: list[str]) -> WorldSettings:
    """Return the settings of a scenario, changed by the KEY=VALUE `settings`. Raises ValueError and BadSetting."""
    from zabka.simulation.run import SEARCHED, WHOLE_RUNS, script_of
    from zabka.simulation.seeds.chaos import check_played

    try:
        is_script = scenario not in SEARCHED and script_of(scenario) is not None
    except (OSError, msgspec.DecodeError) as reason:
        raise ValueError(f"{scenario} holds no scenario: {reason}") from None
    if scenario not in SEARCHED and not is_script:
        searches = ", ".join(sorted(SEARCHED))
        raise ValueError(
            f"there is no scenario {scenario!r}; there are {searches}, those of `zabka scenarios list`, and files "
            "whose names end in .json"
        )
    if settings and is_script:
        raise ValueError(
            f"{scenario} is a scenario of the outage library: `zabka scenarios run {scenario} --set …` accepts settings"
        )
    if settings and scenario in WHOLE_RUNS:
        raise ValueError(f"{scenario} takes the keys of every server from its seed and accepts no settings")
    world = world_settings(settings)
    check_played(scenario, world, (setting.partition("=")[0] for setting in settings))
    return world


def replay_command(seed: int, scenario: str, settings: Iterable[str]) -> str:
    """Return the command that replays a seed."""
    extra = "".join(f" --set {setting}" for setting in settings)
    named = "" if scenario == "chaos" else f" --scenario {scenario}"
    return f"zabka replay --seed {seed}{named}{extra}"


def import_from_here() -> None:
    """Add the current directory to the import path, as `python -m` does.

    The directory may contain the module of an injected bug that an option names.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _outcome(seed: int, scenario: str, settings: WorldSettings) -> Outcome:
    from zabka.simulation.run import run_seed

    outcome = run_seed(seed, scenario, settings)
    collect_after(seed)
    return outcome


def _outcomes(seeds: range, scenario: str, settings: WorldSettings, jobs: int) -> Generator[Outcome]:
    calls = (partial(_outcome, seed, scenario, settings) for seed in seeds)
    if jobs == 1:
        return (call() for call in calls)
    return results_of(calls, jobs=min(jobs, len(seeds)), ahead=AHEAD * jobs, begin=collect_seldom)


def simulate(seeds: str, scenario: str, settings: list[str], jobs: int, as_json: bool) -> int:
    """Run every seed, and return the exit code.

    The code is 0 if every invariant held, 1 if one was violated (with one line of output per violation), and 2 if the
    arguments are invalid.
    """
    try:
        requested, world = parse_seeds(seeds), configured(scenario, settings)
    except (ValueError, BadSetting) as reason:
        print_line(str(reason), error=True)
        return USAGE
    begin = time.perf_counter()
    outcomes: list[Outcome] = []
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), transient=True,
        disable=as_json or not sys.stderr.isatty(),
    )  # fmt: skip
    try:
        with progress, seldom_collected(), closing(_outcomes(requested, scenario, world, jobs)) as played:
            task = progress.add_task("seeds", total=len(requested))
            for outcome in played:
                outcomes.append(outcome)
                progress.advance(task)
                if not as_json:
                    again = replay_command(outcome.seed, scenario, settings)
                    for problem in outcome.problems:
                        print_line(f"seed {outcome.seed}: {problem}  replay: {again}")
    except BrokenProcessPool:
        print_line(KILLED, error=True)
        return USAGE
    wall_s = time.perf_counter() - begin
    broken = [outcome for outcome in outcomes if not outcome.held]
    virtual_s = sum(outcome.virtual_ms for outcome in outcomes) / 1000
    cpu_s = sum(outcome.cpu_s for outcome in outcomes)
    faults = sum(outcome.faults for outcome in outcomes)
    if as_json:
        totals = {
            "seeds": len(outcomes), "violated": len(broken), "virtual_s": virtual_s, "wall_s": wall_s, "cpu_s": cpu_s,
            "faults": faults,
        }  # fmt: skip
        rows = [{**msgspec.to_builtins(o), "replay": replay_command(o.seed, scenario, settings)} for o in outcomes]
        print_line(json.dumps({**totals, "runs": rows}))
    else:
        speed = f"{virtual_s:,.0f} simulated seconds in {wall_s:.1f} s ({virtual_s / wall_s:,.0f} x real time)"
        print_line(f"{len(outcomes)} seeds, {len(broken)} with violations; {speed}")
        print_line(
            f"{virtual_s / 3600:,.2f} simulated hours, {cpu_s / 3600:,.3f} core-hours, {faults:,} faults injected"
        )
        print_reached(outcomes)
    return 1 if broken else 0


def print_reached(outcomes: list[Outcome]) -> None:
    """Print for each coverage probe how often the runs reached it, and in how many seeds."""
    for place in dict.fromkeys(place for outcome in outcomes for place in outcome.reached):
        counts = [outcome.reached.get(place, 0) for outcome in outcomes]
        print_line(f"{place}: {sum(counts):,} times, in {sum(map(bool, counts)):,} seeds")


def command(
    seeds: Annotated[str, typer.Option(envvar="ZABKA_SEEDS", help="A-B, both ends included, or one number")],
    scenario: Scenario = "chaos",
    set_: Settings = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, envvar="ZABKA_JOBS", help="Number of processes; by default one per core")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="Print JSON")] = False,
) -> None:
    """Run seeds in the simulated world; exit code 1 if an invariant was violated."""
    raise typer.Exit(simulate(seeds, scenario, set_ or [], jobs or os.cpu_count() or 1, as_json))

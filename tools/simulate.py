"""`zabka simulate` and `zabka replay`."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from simulation.run import SCENARIOS, run_seed, run_with_journal
from simulation.scenarios.library import LIBRARY
from simulation.seeds.seed_run import Outcome
from simulation.settings import BadSetting, WorldSettings, world_settings

USAGE = 2
GC_THRESHOLDS = (50_000, 20, 50)
"""A world makes little garbage that reference counting misses, and keeps its whole history: fewer, larger collections
save a tenth of the time."""


def _say(text: str, *, error: bool = False) -> None:
    stream = sys.stderr if error else sys.stdout
    stream.write(text + "\n")
    stream.flush()


def parse_seeds(text: str) -> range:
    """`A-B` (both ends included) or a single number.  Raises ValueError with the reason."""
    first, dash, last = text.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise ValueError(f"--seeds takes A-B or one number, such as 0-199; got {text!r}")
    begin, end = int(first), int(last) if dash else int(first)
    if end < begin:
        raise ValueError(f"--seeds {text}: the last seed is smaller than the first")
    return range(begin, end + 1)


def _configured(scenario: str, settings: list[str]) -> WorldSettings:
    if scenario not in SCENARIOS and scenario not in LIBRARY:
        searches = ", ".join(sorted(SCENARIOS))
        raise ValueError(
            f"there is no scenario {scenario!r}; there are {searches}, and what `zabka scenarios list` names"
        )
    if settings and scenario in LIBRARY:
        raise ValueError(f"{scenario} is a script: `zabka scenarios run {scenario} --set …` takes settings for it")
    return world_settings(settings)


def replay_command(seed: int, scenario: str, settings: Iterable[str]) -> str:
    """The command that plays a seed again."""
    extra = "".join(f" --set {setting}" for setting in settings)
    named = "" if scenario == "chaos" else f" --scenario {scenario}"
    return f"zabka replay --seed {seed}{named}{extra}"


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Within it Python's collector runs as seldom as suits a simulated world."""
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _outcomes(seeds: range, scenario: str, settings: WorldSettings, jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        for seed in seeds:
            yield run_seed(seed, scenario, settings)
        return
    with ProcessPoolExecutor(jobs, initializer=gc.set_threshold, initargs=GC_THRESHOLDS) as pool:
        chunk = max(1, min(16, len(seeds) // (jobs * 4)))
        count = len(seeds)
        yield from pool.map(run_seed, seeds, [scenario] * count, [settings] * count, chunksize=chunk)


def simulate(seeds: str, scenario: str, settings: list[str], jobs: int, as_json: bool) -> int:
    """Run every seed; 0 when every invariant held, 1 with one line a violation, 2 for arguments that make no sense."""
    try:
        wanted, world = parse_seeds(seeds), _configured(scenario, settings)
    except (ValueError, BadSetting) as reason:
        _say(str(reason), error=True)
        return USAGE
    begin = time.perf_counter()
    outcomes: list[Outcome] = []
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), transient=True,
        disable=as_json or not sys.stderr.isatty(),
    )  # fmt: skip
    with progress, seldom_collected():
        task = progress.add_task("seeds", total=len(wanted))
        for outcome in _outcomes(wanted, scenario, world, jobs):
            outcomes.append(outcome)
            progress.advance(task)
            if not as_json:
                for problem in outcome.problems:
                    _say(f"seed {outcome.seed}: {problem}  replay: {replay_command(outcome.seed, scenario, settings)}")
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
        _say(json.dumps({**totals, "runs": rows}))
    else:
        speed = f"{virtual_s:,.0f} simulated seconds in {wall_s:.1f} s ({virtual_s / wall_s:,.0f} x real time)"
        _say(f"{len(outcomes)} seeds, {len(broken)} with violations; {speed}")
        _say(f"{virtual_s / 3600:,.2f} simulated hours, {cpu_s / 3600:,.3f} core-hours, {faults:,} faults injected")
    return 1 if broken else 0


def replay(seed: int, scenario: str, settings: list[str], out: Path | None) -> int:
    """Run one seed again and write its journal; 0 when every invariant held, 1 otherwise, 2 for bad arguments."""
    try:
        world = _configured(scenario, settings)
    except (ValueError, BadSetting) as reason:
        _say(str(reason), error=True)
        return USAGE
    with seldom_collected():
        outcome, lines = run_with_journal(seed, scenario, world)
    digest = sha256()
    if out is None:
        for line in lines:
            digest.update(line)
            sys.stdout.buffer.write(line)
        sys.stdout.flush()
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("wb") as file:
            for line in lines:
                digest.update(line)
                file.write(line)
    for problem in outcome.problems:
        _say(f"seed {seed}: {problem}", error=True)
    where = f" in {out}" if out else ""
    _say(
        f"seed {seed}: {outcome.events} events{where}, {outcome.virtual_ms / 1000:.1f} simulated seconds in "
        f"{outcome.wall_s:.2f} s, sha256 {digest.hexdigest()}",
        error=True,
    )
    return 0 if outcome.held else 1

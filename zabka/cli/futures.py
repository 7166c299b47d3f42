"""Plays possible futures of a run, and counts their outcomes.

Each future continues the run from a given moment with other random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from zabka.cli.damage import course, on_world_clock, seconds
from zabka.cli.worker_processes import results_of
from zabka.simulation.engine.garbage import collect_after, collect_seldom
from zabka.simulation.fork import Change, settings_after
from zabka.simulation.forked_seed import Drawn
from zabka.simulation.run import ForkedRun, run_forked
from zabka.simulation.settings import WorldSettings

AHEAD = 4
"""Number of queued futures per process."""
CONFIDENCE = 0.95
LARGE_PERCENTILE = 0.9


class Future(NamedTuple):
    """The outcome of one future of a run.

    The times are in microseconds since the moment at which the future begins. A time is None if its event never happens
    in the run.
    """

    acknowledged_lost: int
    is_violated: bool
    controller_us: int | None
    writable_us: int | None
    before: str
    """Hash of the journal before the moment."""


def hash_before(run: ForkedRun, at_us: int) -> str:
    """Return a hash of the part of a run's journal before a moment."""
    lines = run.lines()
    return sha256(b"".join(lines[: sum(entry.mono_us < at_us for entry in run.entries)])).hexdigest()


class History(NamedTuple):
    """What the futures of a run have in common with it."""

    seed: int
    scenario: str
    settings: WorldSettings | None
    drawn: Sequence[Drawn]
    """Draws of the run that the futures continue, or of one with the same history up to them."""


Changes = tuple[Change, ...]


def play_future(history: History, changes: Changes) -> Future:
    """Run the seed with these changes, and return a summary of what happens after the last one.

    `future` of the last change is the seed of the random numbers from then on.
    """
    seed, scenario, settings, drawn = history
    run = run_forked(seed, scenario, changes, settings, drawn=drawn)
    at_us = changes[-1].at_us
    found = course(on_world_clock(run.entries), at_us, settings_after(settings, changes))
    since = (found.controller_since_us, found.writable_since_us)
    controller_us, writable_us = (None if each is None else each - at_us for each in since)
    collect_after(changes[-1].future or 0)
    return Future(found.acknowledged_lost, not run.outcome.held, controller_us, writable_us, hash_before(run, at_us))


PlayFutures = Callable[[History, Sequence[Changes]], list[Future]]
"""Plays one possible future of a run for each list of changes, and returns the results."""


def play_futures(history: History, futures: Sequence[Changes], *, jobs: int) -> list[Future]:
    """Play one possible future for each list of changes, in `jobs` processes, and return the results."""
    calls = (partial(play_future, history, changes) for changes in futures)
    with closing(_results(calls, min(jobs, len(futures)))) as results:
        return list(results)


def _results(calls: Iterator[Callable[[], Future]], jobs: int) -> Generator[Future]:
    if jobs == 1:
        return (call() for call in calls)
    return results_of(calls, jobs=jobs, ahead=AHEAD * jobs, begin=collect_seldom)


def numbered(changes: Changes, count: int) -> list[Changes]:
    """Return `count` copies of the changes, each with another seed for the random numbers after the last change."""
    *before, last = changes
    return [(*before, msgspec.structs.replace(last, future=number)) for number in range(1, count + 1)]


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return the confidence interval of a share (Wilson, 1927)."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, scale = count / of, 1 + z * z / of
    middle = (share + z * z / (2 * of)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def table(columns: Sequence[tuple[str, Sequence[Future]]]) -> Iterator[str]:
    """Yield the lines of a table: a column for each change, a row for each figure."""
    rows = [
        ["", *(title for title, _ in columns)],
        ["lose acknowledged records", *(share([each.acknowledged_lost > 0 for each in of]) for _, of in columns)],
        ["violate an invariant", *(share([each.is_violated for each in of]) for _, of in columns)],
        ["time until a controller exists", *(_times([each.controller_us for each in of]) for _, of in columns)],
        ["time until all partitions are writable", *(_times([each.writable_us for each in of]) for _, of in columns)],
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def share(seen: Sequence[bool]) -> str:
    """Return how many of the futures have an outcome, with the confidence interval of the share."""
    low, high = wilson(sum(seen), len(seen))
    return f"{sum(seen)} of {len(seen)} ({100 * low:.0f} to {100 * high:.0f} %)"


def _times(times: Sequence[int | None]) -> str:
    """Return the median, 90th percentile and maximum of the known times, and the number of missing times.

    A time is None if the event never happened.
    """
    known = sorted(each for each in times if each is not None)
    never = [f"never in {len(times) - len(known)}"] if len(known) < len(times) else []
    if not known:
        return never[0]
    large = known[math.ceil(LARGE_PERCENTILE * len(known)) - 1]
    middle = known[(len(known) - 1) // 2]
    return ", ".join([f"median {seconds(middle)}", f"90 % {seconds(large)}", f"longest {seconds(known[-1])}", *never])

"""Shrinks a failing seed: finds fewer faults, and then less jitter of the schedule, with which the test still fails.

Each attempt is a run of the whole test. It counts only if the test fails with the same exception type at the same line,
and for the same cause if the cluster has failed (`ClusterFailed.cause_key`).
The first attempt of each kind leaves everything out. Then halves are left out, quarters and so on, as in delta
debugging (Zeller and Hildebrandt, 2002), beginning with the last ones: they change nothing before them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from time import monotonic, process_time
from typing import NamedTuple

from zabka.simulation.jitter import Span, without
from zabka.testing.cluster import ClusterFailed
from zabka.testing.worlds.failure_places import own_line
from zabka.testing.worlds.seed_test import Body, Parameters, SeedRun, run_seed

FAULTS_S_MAX = 20.0
"""Maximum CPU time in seconds for leaving out faults; the last attempt can exceed it."""
JITTER_S_MAX = 20.0
"""Maximum CPU time in seconds for leaving out jitter; the last attempt can exceed it."""
PROGRESS_S = 2.0
SPAN_US_MIN = 500
LONGER, LONGER_S = 1.5, 10.0
"""An attempt ends without success if its test takes LONGER times as long as the failing one, plus LONGER_S."""

Report = Callable[[str], object]
"""Shows a line about the progress to the user."""


class Selected(NamedTuple):
    """What a run of a seed injects."""

    faults: Sequence[int] | None = None
    """Numbers of the faults, or None for all faults."""
    jitter: Sequence[Span] | None = None
    """Spans of virtual time with jitter, or None for jitter at all times."""


EVERYTHING = Selected()
"""All faults, and jitter at all times."""


class Shrunk(NamedTuple):
    """The smallest failing run that was found."""

    run: SeedRun
    selected: Selected
    runs: int
    """Number of attempts."""
    cpu_s: float


class Shrinking:
    """Shrinks one failing seed."""

    def __init__(self, parameters: Parameters, body: Body, seed: int, found: SeedRun, report: Report) -> None:
        self._body = body
        self._seed = seed
        self._found = self._run = found
        self._wanted = failure_place(found)
        self._selected = EVERYTHING
        self._report = report
        self._runs = 0
        self._began_s = process_time()
        self._until_s = 0.0
        self._reports_at_s = monotonic() + PROGRESS_S
        self._parameters = parameters
        if self._wanted[1]:
            # Otherwise, the failure is the time limit itself.
            length_s = (found.ended_us - found.began_us) / 1e6
            self._parameters = parameters._replace(limit_s=min(parameters.limit_s, LONGER * length_s + LONGER_S))

    def shrink(self) -> Shrunk:
        """Return the smallest failing run that was found within the time limits."""
        self._leave_out_faults()
        self._leave_out_jitter()
        return Shrunk(self._run, self._selected, self._runs, process_time() - self._began_s)

    def _leave_out_faults(self) -> None:
        self._until_s = process_time() + FAULTS_S_MAX
        kept = list(self._found.injected)
        size = len(kept)
        while size and self._has_time():
            for begin in range((len(kept) - 1) // size * size, -1, -size):
                fewer = kept[:begin] + kept[begin + size :]
                if len(fewer) < len(kept) and self._still_fails(Selected(fewer)):
                    kept = fewer
            size = min(size // 2, len(kept))

    def _leave_out_jitter(self) -> None:
        self._until_s = process_time() + JITTER_S_MAX
        kept = [Span(0, self._run.ended_us + 1)]
        size_us = kept[0].end_us
        while kept and size_us >= SPAN_US_MIN and self._has_time():
            for part in list(_parts(kept, size_us)):
                less = without(kept, part)
                if self._still_fails(self._selected._replace(jitter=less)):
                    kept = less
            size_us //= 2

    def _has_time(self) -> bool:
        return process_time() < self._until_s

    def _still_fails(self, selected: Selected) -> bool:
        """Run the seed, and return whether the test fails in the same way.  If so, this run is the smallest so far."""
        if not self._has_time():
            return False
        self._runs += 1
        run = run_seed(self._parameters, self._body, self._seed, selected.faults, jitter=selected.jitter)
        fails = run.failure is not None and failure_place(run) == self._wanted
        if fails:
            self._run, self._selected = run, selected
        if monotonic() >= self._reports_at_s:
            self._reports_at_s = monotonic() + PROGRESS_S
            self._report(self._progress())
        return fails

    def _progress(self) -> str:
        faults, jitter = self._selected
        total = len(self._found.injected)
        left = f"{total if faults is None else len(faults)} of {total} faults, "
        jitter_us = self._run.ended_us if jitter is None else sum(span.end_us - span.begin_us for span in jitter)
        return (
            f"zabka: shrinks the failure of seed {self._seed}: {self._runs} runs, {left if total else ''}"
            f"jitter in {jitter_us / 1e6:.3f} of {self._run.ended_us / 1e6:.3f} s"
        )


def _parts(spans: Sequence[Span], size_us: int) -> Iterator[Span]:
    """Yield spans of at most `size_us` that divide `spans`, the last one first."""
    for span in reversed(spans):
        count = -(-(span.end_us - span.begin_us) // size_us)
        for number in reversed(range(count)):
            begin_us = span.begin_us + number * size_us
            yield Span(begin_us, min(begin_us + size_us, span.end_us))


def failure_place(run: SeedRun) -> tuple[str, str, int, tuple[str, ...]]:
    """Return the exception type of a run's failure, file and line of the user's own code, and the cause's key.

    Two runs fail in the same way if these are equal.
    """
    failure = run.failure
    frames = [] if failure is None else traceback.extract_tb(failure.__traceback__)
    cause_key = failure.cause_key if isinstance(failure, ClusterFailed) else ()
    return type(failure).__name__, *own_line(frames), cause_key

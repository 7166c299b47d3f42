"""Executes the runs of a campaign in processes on this machine, without Spark."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from zabka.cli.worker_processes import results_of
from zabka.simulation.engine.garbage import collect_seldom

if TYPE_CHECKING:
    from zabka.pipeline.campaign.engine import Keep, Players
    from zabka.pipeline.campaign.play import Run

AHEAD = 2
"""Number of queued runs per process. Two are enough, because a run takes a second or more."""


def process_players(jobs: int) -> Players:
    """Return a function that executes a campaign's runs in `jobs` processes, and yields their rows in order.

    The function raises BrokenProcessPool if a process is killed. Spark tasks (`spark_players`) execute the same runs
    and return the same rows, apart from times and hosts.
    """
    return partial(_play, jobs)


def _play(jobs: int, runs: Sequence[Run], keep: Keep) -> None:
    calls = (partial(_row, msgspec.json.encode(run)) for run in runs)
    ahead = AHEAD * jobs
    with closing(results_of(calls, jobs=min(jobs, len(runs)), ahead=ahead, begin=collect_seldom)) as played:
        for line in played:
            keep(line)


def _row(encoded: bytes) -> bytes:
    from zabka.pipeline.campaign.play import row

    line = row(encoded)
    # Free the simulated world of this run now, because the next run needs the memory.
    gc.collect()
    return line

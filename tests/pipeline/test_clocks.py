"""The clock used for a run's durations: the peers' reports of the same sessions show whether they share one clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from zabka.journal.events import SessionCreated
from zabka.journal.writer import encode_line
from zabka.pipeline import jobs
from zabka.pipeline.clocks import run_clocks

MS, HOUR = 1_000, 3_600_000_000
WALL = 1_700_000_000_000_000

Delays = list[tuple[int, int]]
"""Delay of the second peer's report of each session after the first's, by its wall clock and its monotonic clock."""


def is_one_clock(spark: SparkSession, directory: Path, delays: Delays) -> bool:
    """Return whether the monotonic clock is used for the run. One more session is reported by the first peer alone."""
    lines = []
    for number, (wall_later, mono_later) in enumerate([*delays, (0, 0)], 1):
        at, event = number * 1_000 * MS, SessionCreated(session_id=number, timeout_ms=6_000, zxid=number)
        lines.append(encode_line("peer-1", number, WALL + at, at, event))
        if number <= len(delays):
            lines.append(encode_line("peer-2", number, WALL + at + wall_later, at + mono_later, event))
    (directory / "run.jsonl").write_bytes(b"".join(lines))
    return run_clocks(jobs.read_journal(spark, directory)).count() == 1


@pytest.mark.parametrize(
    ("delays", "expected"),
    [
        # One machine, or a simulated world: the second peer's wall clock is 300 ms slow, and most sessions reach it
        # late.
        ([(-298 * MS, 2 * MS), (10 * MS, 310 * MS), (20 * MS, 320 * MS)], True),
        ([(-300 * MS, 1 * MS)], True),
        # Two machines with good wall clocks, one booted a second, or an hour, after the other.
        ([(2 * MS, 1_002 * MS), (1 * MS, 1_001 * MS)], False),
        ([(2 * MS, HOUR), (1 * MS, HOUR)], False),
        ([], True),
    ],
)
def test_monotonic_clock_is_used_if_peers_agree_by_it(
    spark: SparkSession, tmp_path: Path, delays: Delays, expected: bool
) -> None:
    assert is_one_clock(spark, tmp_path, delays) is expected

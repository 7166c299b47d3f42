"""Which clock is used for durations in a run.

The peers' reports of the same sessions show whether all peers have the same monotonic clock.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.in_order import rows_of
from zabka.journal import events as e
from zabka.journal.events import Event, SessionCreated
from zabka.journal.writer import encode_line
from zabka.pipeline import jobs
from zabka.pipeline.availability import availability
from zabka.pipeline.clocks import run_clocks
from zabka.pipeline.controller_terms import controller_terms
from zabka.pipeline.tables import clock_steps

MS, HOUR = 1_000, 3_600_000_000
WALL = 1_700_000_000_000_000

Delays = list[tuple[int, int]]
"""For each session, the delay from the first peer's report to the second's: (wall clock, monotonic clock)."""


def is_one_clock(spark: SparkSession, directory: Path, delays: Delays) -> bool:
    """Return whether the monotonic clock is used for the run.

    The journal has one session for each of `delays`, which both peers report, and one more session, which only the
    first peer reports.
    """
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
        # One machine, or a simulated world: the second peer's wall clock is 300 ms slow, and it reports most sessions
        # late.
        ([(-298 * MS, 2 * MS), (10 * MS, 310 * MS), (20 * MS, 320 * MS)], True),
        ([(-300 * MS, 1 * MS)], True),
        # Two machines with correct wall clocks. One was booted a second or an hour after the other.
        ([(2 * MS, 1_002 * MS), (1 * MS, 1_001 * MS)], False),
        ([(2 * MS, HOUR), (1 * MS, HOUR)], False),
        ([], True),
    ],
)
def test_monotonic_clock_is_used_if_all_peers_share_it(
    spark: SparkSession, tmp_path: Path, delays: Delays, expected: bool
) -> None:
    assert is_one_clock(spark, tmp_path, delays) is expected


LED: list[tuple[int, str, Event]] = [
    (0, "peer-1", e.SessionCreated(9, 6_000, 3)),
    (0, "peer-2", e.SessionCreated(9, 6_000, 3)),
    (1, "broker-1", e.ControllerElected(1, 1, 1, 4)),
    (2, "broker-1", e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 5)),
    (30, "host-1", e.ProcessChanged("broker-1", "paused", 7, "pause")),
    (40, "host-1", e.ProcessChanged("broker-1", "running", 7, "resume")),
    (45, "broker-1", e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", 1, 6)),
    (60, "broker-1", e.IsrChanged("t", 0, [1, 2], 1, 0, 2, "caught_up", 1, 7)),
    (99, "broker-1", e.ControllerResigned(1, 1, "shutdown")),
    (100, "broker-1", e.NodeStopped("shutdown")),
]
"""History as (second, node, event).

A leader is paused for ten seconds, and has no follower in its ISR for fifteen seconds.
"""
UPTIMES_H = {"peer-1": 1, "peer-2": 2, "broker-1": 30, "host-1": 30}


def stepped(path: Path, step_s: int, *, machines: bool) -> None:
    """Write the history `LED` with a step of broker 1's wall clock at second 35.

    With `machines`, each node has a different monotonic clock, as on separate machines.
    """
    lines = []
    for number, (second, node, event) in enumerate(LED, 1):
        wall = second * 1_000 * MS + (step_s * 1_000 * MS if node == "broker-1" and second > 35 else 0)
        mono = second * 1_000 * MS + (UPTIMES_H[node] * HOUR if machines else 0)
        lines.append(encode_line(node, number, WALL + wall, mono, event))
    path.write_bytes(b"".join(lines))


def test_wall_clock_step_changes_no_duration_and_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    steps = {"none": 0, "back": -12, "an-hour-back": -3_600, "an-hour-ahead": 3_600}
    for name, step_s in steps.items():
        stepped(tmp_path / f"{name}.one.jsonl", step_s, machines=False)
        stepped(tmp_path / f"{name}.several.jsonl", step_s, machines=True)
    journal = jobs.read_journal(spark, tmp_path)
    parts = ("observed_ms", "leader_down_ms", "under_replicated_ms", "available_acks_1_ms", "availability_acks_1")
    found = {row["run"]: tuple(row)[1:] for row in rows_of(journal, availability, *parts)}
    assert len(found) == 8
    assert set(found.values()) == {(98_000, 10_000, 15_000, 88_000, 0.897959)}
    terms = {tuple(row)[1:] for row in rows_of(journal, controller_terms, "from_us", "to_us", "duration_ms")}
    assert terms == {(WALL + 1_000_000, WALL + 99_000_000, 98_000)}
    named = {(row["run"].split(".")[0], row["node"], row["node_seq"], row["at_us"], row["step_ms"])
             for row in rows_of(journal, clock_steps)}  # fmt: skip
    at_us = WALL + 45_000_000
    assert named == {(name, "broker-1", 7, at_us, step_s * 1_000) for name, step_s in steps.items() if step_s}


def test_machine_reboot_is_not_a_clock_step(spark: SparkSession, tmp_path: Path) -> None:
    """A reboot of the machine does not count as a step of the wall clock.

    The machine runs for an hour and is then off for ten minutes. The node starts 20 s or two hours after the next boot.
    """
    for name, up_s in (("soon", 20), ("late", 7_200)):
        lines = [
            encode_line("broker-1", 1, WALL, HOUR, e.NodeStopped("shutdown")),
            encode_line(
                "broker-1", 2, WALL + (600 + up_s) * 1_000 * MS, up_s * 1_000 * MS, e.NodeStarted("broker", 1, {})
            ),
        ]
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(lines))
    assert rows_of(jobs.read_journal(spark, tmp_path), clock_steps) == []

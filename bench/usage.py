"""Memory and descriptors of a cluster's processes over time, and whether they are level.  Linux (`/proc`).

A node that is killed comes back as another process, so a series belongs to a process, not to a node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

PROC = Path("/proc")
_TICKS_S = os.sysconf("SC_CLK_TCK")
GROWTH_MAX = 1.05
WARM_S = 300.0
"""A process younger than that is still filling its caches."""
SLACK_KIB = 2048
SLACK_DESCRIPTORS = 20


class Sample(NamedTuple):
    """What a process held at a moment."""

    at_s: float
    resident_kib: int
    descriptors: int


class Series(NamedTuple):
    """One process of one node, from its start on."""

    node: str
    pid: int
    samples: list[Sample]


def sample(pid: int, at_s: float) -> Sample | None:
    """What a process holds now; None where it is gone."""
    try:
        status = (PROC / str(pid) / "status").read_text()
        descriptors = sum(1 for _ in (PROC / str(pid) / "fd").iterdir())
    except OSError:
        return None
    resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return Sample(at_s, int(resident[0]), descriptors) if resident else None


def cpu_s(pid: int) -> float:
    """User and system time of a process, all threads, so far.  Raises OSError where it is gone."""
    # After the command's name, which may hold anything, the third field comes first: 14 and 15 are the times.
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_S


def descendants(pid: int) -> list[int]:
    """A process and everything it has started, and so on."""
    found = [pid]
    for parent in found:
        for task in sorted((PROC / str(parent) / "task").glob("*/children")):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


class Usage:
    """Every process's series."""

    def __init__(self) -> None:
        self.series: dict[tuple[str, int], Series] = {}

    def take(self, pids: Mapping[str, int], at_s: float) -> None:
        """Sample the processes that stand for these names now."""
        for node, pid in pids.items():
            taken = sample(pid, at_s)
            if taken is not None:
                self.series.setdefault((node, pid), Series(node, pid, [])).samples.append(taken)

    def rising(self, since_s: float) -> list[str]:
        """A line for every process whose memory or descriptors rose from the first to the second half of what is left
        of its life after `since_s` (and after it was warm)."""
        return [line for series in self.series.values() if (line := _rise(series, since_s))]

    def table(self, since_s: float) -> list[str]:
        """Each process that lived long enough: memory and descriptors in both halves of the time after `since_s`."""
        lines = []
        for series in self.series.values():
            halves = _halves(series, since_s)
            if halves is not None:
                (before_kib, before_fds), (after_kib, after_fds) = halves
                growth = f"{(after_kib / before_kib - 1) * 100:+5.1f} %"
                lines.append(
                    f"{series.node:10} pid {series.pid:<8} {before_kib / 1024:7.1f} -> {after_kib / 1024:7.1f} MiB "
                    f"{growth}   descriptors {before_fds:.0f} -> {after_fds:.0f}"
                )
        return lines


def _halves(series: Series, since_s: float) -> tuple[tuple[float, float], tuple[float, float]] | None:
    begin_s = max(since_s, series.samples[0].at_s + WARM_S)
    kept = [taken for taken in series.samples if taken.at_s >= begin_s]
    if len(kept) < 8:
        return None
    middle = len(kept) // 2
    first, second = kept[:middle], kept[middle:]
    return (
        (median(taken.resident_kib for taken in first), median(taken.descriptors for taken in first)),
        (median(taken.resident_kib for taken in second), median(taken.descriptors for taken in second)),
    )


def _rise(series: Series, since_s: float) -> str | None:
    halves = _halves(series, since_s)
    if halves is None:
        return None
    (before_kib, before_fds), (after_kib, after_fds) = halves
    if after_kib > before_kib * GROWTH_MAX and after_kib > before_kib + SLACK_KIB:
        return f"{series.node} (pid {series.pid}) grew from {before_kib / 1024:.1f} to {after_kib / 1024:.1f} MiB"
    if after_fds > before_fds + SLACK_DESCRIPTORS:
        return f"{series.node} (pid {series.pid}) went from {before_fds:.0f} to {after_fds:.0f} descriptors"
    return None

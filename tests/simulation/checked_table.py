"""Print how often each invariant was checked in a hundred seeds, and in fifty seeds with whole processes.

Usage: `python -m tests.simulation.checked_table > tests/simulation/checked_invariants.csv`.

An invariant that is never checked proves nothing, so `test_checked_table` requires every count to be above zero.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

from zabka.simulation.run import run_seed

HUNDRED: Mapping[str, range] = {
    "chaos": range(30),
    "ensemble": range(40),
    "reconfiguring": range(10),
    "disks": range(10),
    "read-only": range(10),
}
"""Seeds to run for each scenario, a hundred in all."""
WHOLE: Mapping[str, range] = {"whole": range(20), "whole-cluster": range(30)}
"""Seeds to run for each scenario with whole processes."""
HEADING = ("invariant", "times", "seeds", "times_whole", "seeds_whole")
"""Columns of the table: the counts of the hundred seeds, and those of the seeds with whole processes."""


class Table:
    """Counts of how often each invariant was checked, and in how many seeds."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.seeds: Counter[str] = Counter()
        self.problems: list[str] = []

    def play(self, seeds: Mapping[str, Iterable[int]]) -> Table:
        """Run these seeds, and add their counts of checks."""
        for scenario, numbers in seeds.items():
            for seed in numbers:
                outcome = run_seed(seed, scenario)
                self.problems += [f"{scenario} {seed}: {problem}" for problem in outcome.problems]
                self.times.update(outcome.checked)
                self.seeds.update(name for name, times in outcome.checked.items() if times)
                sys.stderr.write(".")
                sys.stderr.flush()
        return self

    def cells(self, name: str) -> tuple[int | None, int | None]:
        """Return the checks and seeds of the invariant, or None if these seeds do not check it."""
        return (self.times[name], self.seeds[name]) if name in self.times else (None, None)


def rows(hundred: Table, whole: Table) -> list[tuple[str, *tuple[int | None, ...]]]:
    """Return one row per invariant with the counts of both groups of seeds."""
    names = sorted({*hundred.times, *whole.times}, key=str.lower)
    return [(name, *hundred.cells(name), *whole.cells(name)) for name in names]


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(HEADING)
    writer.writerows(rows(Table().play(HUNDRED), Table().play(WHOLE)))

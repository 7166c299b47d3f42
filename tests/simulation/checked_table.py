"""Print how often each invariant was checked in a hundred seeds, and in fifty seeds with whole processes.

Usage: `python -m tests.simulation.checked_table`.

An invariant that is never checked proves nothing, so `test_checked_table` requires every count to be above zero.
"""

from __future__ import annotations

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
HEADING = "| invariant | times | seeds | times (whole) | seeds (whole) |\n|---|---:|---:|---:|---:|"


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

    def cells(self, name: str) -> str:
        """Return two cells of a Markdown table: the invariant's checks and seeds, or nothing if it was not checked."""
        return f" {self.times[name]:,} | {self.seeds[name]} |" if name in self.times else " | |"


def lines(hundred: Table, whole: Table) -> list[str]:
    """Return the rows of a Markdown table with the counts of both groups of seeds."""
    names = sorted({*hundred.times, *whole.times}, key=str.lower)
    return [HEADING, *(f"| {name} |{hundred.cells(name)}{whole.cells(name)}" for name in names)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(Table().play(HUNDRED), Table().play(WHOLE))) + "\n")

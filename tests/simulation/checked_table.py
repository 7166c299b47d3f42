"""Print how often each invariant was checked in a hundred seeds.

Usage: `python -m tests.simulation.checked_table`. With the argument `whole`, run fifty seeds of the scenarios with
whole processes instead.

An invariant that is never checked proves nothing, so `test_checked_table` requires every row to be above zero.
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
HEADING = "| invariant | times | in so many seeds |\n|---|---:|---:|"


class Table:
    """Table that shows how often each invariant was checked, and in how many seeds."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.seeds: Counter[str] = Counter()
        self.problems: list[str] = []

    def play(self, seeds: Mapping[str, Iterable[int]]) -> Table:
        """Run these seeds, and add their counts of checks to the table."""
        for scenario, numbers in seeds.items():
            for seed in numbers:
                outcome = run_seed(seed, scenario)
                self.problems += [f"{scenario} {seed}: {problem}" for problem in outcome.problems]
                self.times.update(outcome.checked)
                self.seeds.update(name for name, times in outcome.checked.items() if times)
                sys.stderr.write(".")
                sys.stderr.flush()
        return self

    def lines(self) -> list[str]:
        """Return the rows of a Markdown table."""
        rows = [f"| {name} | {self.times[name]:,} | {self.seeds[name]} |" for name in sorted(self.times, key=str.lower)]
        return [HEADING, *rows]


if __name__ == "__main__":
    asked = WHOLE if sys.argv[1:] == ["whole"] else HUNDRED
    sys.stdout.write("\n".join(Table().play(asked).lines()) + "\n")

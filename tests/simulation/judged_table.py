"""Prints how often each invariant had something to judge in a hundred seeds: `python -m tests.simulation.judged_table`,
or in fifty seeds of whole processes: `python -m tests.simulation.judged_table whole`.

A judge that never has anything to judge proves nothing, so a test (`test_judged_table`) keeps every row above nothing.
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
"""Which seeds of which scenarios."""
WHOLE: Mapping[str, range] = {"whole": range(20), "whole-cluster": range(30)}
"""Which of whole processes."""
HEADING = "| invariant | times | in so many seeds |\n|---|---:|---:|"


class Table:
    """Times, and in how many seeds, by invariant."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.seeds: Counter[str] = Counter()
        self.problems: list[str] = []

    def play(self, seeds: Mapping[str, Iterable[int]]) -> Table:
        """Count on over these seeds."""
        for scenario, numbers in seeds.items():
            for seed in numbers:
                outcome = run_seed(seed, scenario)
                self.problems += [f"{scenario} {seed}: {problem}" for problem in outcome.problems]
                self.times.update(outcome.judged)
                self.seeds.update(name for name, times in outcome.judged.items() if times)
                sys.stderr.write(".")
                sys.stderr.flush()
        return self

    def lines(self) -> list[str]:
        """As a table for the documents."""
        rows = [f"| {name} | {self.times[name]:,} | {self.seeds[name]} |" for name in sorted(self.times, key=str.lower)]
        return [HEADING, *rows]


if __name__ == "__main__":
    asked = WHOLE if sys.argv[1:] == ["whole"] else HUNDRED
    sys.stdout.write("\n".join(Table().play(asked).lines()) + "\n")

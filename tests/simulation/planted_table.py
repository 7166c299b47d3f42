"""Prints the table of planted bugs: for each, the number of seeds it took to find it, and what showed it.

python tests/simulation/planted_table.py [how many seeds to try at most]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import planted
import planted_ensemble

from simulation.run import run_seed
from simulation.scenarios.library import LIBRARY, play

SEEDS_MAX = 200
RARE = {
    "NEWLEADER acknowledged before the history": "zookeeper-4785",
    "sync answered by the leader alone": "zookeeper-1675",
    "session owner not checked": "zookeeper-710",
    "ephemerals forgotten in snapshots": "zookeeper-3144",
}
"""Bugs that few seeds meet, and the script of the outage library that shows each at once."""
Plant = Callable[[], AbstractContextManager[None]]


class Found(NamedTuple):
    """After how many seeds (None: not), what it showed as, and how long the search took."""

    seeds: int | None
    problem: str
    cpu_s: float


def bugs() -> list[tuple[str, str, Plant]]:
    """Every planted bug: the scenario whose seeds look for it, its name, and how it is planted."""
    ensemble = [("ensemble", name, plant) for name, plant in planted_ensemble.PLANTED.items()]
    return ensemble + [("chaos", name, plant) for name, plant in planted.PLANTED.items()]


def search(scenario: str, plant: Plant, seeds_max: int = SEEDS_MAX, first_seed: int = 0) -> Found:
    """Run seeds until one does not hold."""
    begin = time.process_time()
    with plant():
        for seed in range(first_seed, first_seed + seeds_max):
            problems = run_seed(seed, scenario).problems
            if problems:
                return Found(seed - first_seed + 1, problems[0], time.process_time() - begin)
    return Found(None, "", time.process_time() - begin)


def shown_by_script(bug: str, plant: Plant) -> bool:
    """Does the outage library show it?"""
    with plant():
        return not play(LIBRARY[RARE[bug]]).held


def main() -> int:
    """The table; 1 if some bug was not found."""
    seeds_max = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS_MAX
    missed = 0
    sys.stdout.write(f"{'planted bug':44} {'seeds of':9} {'seeds':>5} {'CPU s':>6}  shown by\n")
    for scenario, name, plant in bugs():
        found = search(scenario, plant, seeds_max)
        if found.seeds is None and name in RARE and shown_by_script(name, plant):
            found = Found(None, f"no seed, but the script {RARE[name]}", found.cpu_s)
        missed += not found.problem
        sys.stdout.write(f"{name:44} {scenario:9} {found.seeds or '-':>5} {found.cpu_s:6.1f}  {found.problem[:110]}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Print a table of the injected bugs and Kafka's historical behaviors.

It contains the number of seeds until each bug was found, and the problem that showed it.

python -m tests.simulation.injected_table [maximum number of seeds]
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import NamedTuple

from tests.simulation import injected, injected_disks, injected_ensemble, injected_transactions
from tests.simulation.injecting import InjectedBug
from tests.simulation.scenarios.pairs import PAIRS
from zabka.controller.historical import Historical
from zabka.simulation.run import run_seed
from zabka.simulation.scenarios.library import LIBRARY, play
from zabka.simulation.scenarios.scenario import WorldScenario
from zabka.simulation.settings import WorldSettings, world_settings

SEEDS_MAX = 200
RARE = {
    "NEWLEADER acknowledged before the history": "zookeeper-4785",
    "sync answered by the leader alone": "zookeeper-1675",
    "session owner not checked": "zookeeper-710",
    "ISR change without the version check": "late-isr-change",
    "damage is taken for a torn tail": "damaged-leader-elected",
    "who comes back ahead is cut back": "ahead-of-its-leader",
    "answers overtake the commits they rely on": "sync-behind-a-slow-disk",
    "no truncation on sync": "zookeeper-trunc-fsync",
    "no epoch check on controller writes": "kafka-6082",
    "closed sessions keep their ephemerals": "zookeeper-1367",
}
"""Bugs that random runs rarely show. The value names the script of the outage library that always shows the bug."""


BY_STEPS = ("leader counts itself before its fsync", "leader acknowledges before its fsync")
"""Bugs that runs of whole processes cannot show, because these processes sync a fast disk before they send.

Searches over the states of the protocol find them (`tests/simulation/search/test_searches.py`).
"""
NOT_SHOWN = ("full disks cut the log",)
"""Bugs that were shown neither by 60 seeds nor by a script."""
SLOW = (
    "a leader never steps down",
    "ack before fsync",
    "commit on a minority",
    "committed by the leader's log alone",
    "controllers do not note shutdowns",
    "coordinators do not read their log",
    "damaged records are served",
    "high watermark is the leader's log end",
    "log directories are used on after an error",
    "no truncation on fetch",
    "producers survive a truncation",
    "replicas in failed directories stay in sync",
    "replicas of deleted topics stay",
    "session ends fire no child watches",
    "unclean elections called clean",
    "unseen bounces are not fenced",
    "votes are sent once",
    "votes with what memory knows",
    "watches lost on reconnection",
    "zxids go on across epochs",
    *(bug for bug in injected_transactions.INJECTED if bug != "end is not fenced"),
)
"""Bugs whose runs take more CPU time than the test suite has."""
SHOWN_BY = {
    "ephemerals forgotten in snapshots": 33,
    "no truncation on fetch": 19,
    "log directories are used on after an error": 4,
    "replicas in failed directories stay in sync": 4,
    "votes are sent once": 14,
    "a leader never steps down": 14,
    "unseen bounces are not fenced": 4,
    **dict.fromkeys(injected_transactions.INJECTED, 4),
    "timed out transaction keeps its epoch": 5,
    "generation of a commit is not checked": 5,
    "offsets of aborted transactions stay": 6,
    "new group coordinator drops pending offsets": 6,
}
"""For each bug that many low seeds do not show, the first seed that shows it. The test suite begins there."""


OF_TRANSACTIONS = (
    "faults.kinds=kill_coordinator:3,kill_marked:2,cut_markers:2,expire_coordinator:1,pause_coordinator:2",
    *("faults.ms=18000", "faults.gap.ms=2000", "faults.lasts.ms=300-5000", "zookeeper.session.timeout.ms=2000"),
    *("peers=1", "num.partitions=1", "drawn.topics=false"),
)
"""Settings of the runs that search for transaction bugs: a small cluster, and faults directly after decisions."""


class Found(NamedTuple):
    """Result of a search: the number of seeds until the bug was found (or None), the problem, and the CPU seconds."""

    seeds: int | None
    problem: str
    cpu_s: float


def bugs() -> list[tuple[str, str, InjectedBug]]:
    """Return the bugs that runs of the scenarios `ensemble` and `chaos` can show, as (scenario, name, bug)."""
    ensemble = [
        ("ensemble", name, injected_bug)
        for name, injected_bug in injected_ensemble.INJECTED.items()
        if name not in BY_STEPS
    ]
    return ensemble + [("chaos", name, injected_bug) for name, injected_bug in injected.INJECTED.items()]


def disk_bugs() -> list[tuple[str, str, InjectedBug]]:
    """Return all injected disk bugs, as (scenario, name, bug)."""
    return [("disks", name, injected_bug) for name, injected_bug in injected_disks.INJECTED.items()]


def transactional_bugs() -> list[tuple[str, str, InjectedBug]]:
    """Return all injected transaction bugs, as (scenario, name, bug)."""
    return [("chaos", name, injected_bug) for name, injected_bug in injected_transactions.INJECTED.items()]


def settings_of(bug: str) -> WorldSettings | None:
    """Return the settings of the runs that search for this bug, or None for the default settings."""
    return world_settings(OF_TRANSACTIONS) if bug in injected_transactions.INJECTED else None


def search(
    scenario: str,
    injected_bug: InjectedBug,
    seeds_max: int = SEEDS_MAX,
    settings: WorldSettings | None = None,
    first_seed: int = 0,
) -> Found:
    """Run seeds until one shows the bug: first from `first_seed` on, then the lower ones.

    Problems that do not show this bug are ignored.
    """
    begin = time.process_time()
    with injected_bug():
        for tried, seed in enumerate((*range(first_seed, seeds_max), *range(first_seed)), start=1):
            shown = injected_bug.shown(run_seed(seed, scenario, settings).problems)
            if shown is not None:
                return Found(tried, shown, time.process_time() - begin)
    return Found(None, "", time.process_time() - begin)


def text_in_script(bug: str) -> str:
    """Return a string by which a problem of the bug's script is recognised as this bug.

    Raises StopIteration if no script is paired with the bug.
    """
    return next(pair.shows for pair in PAIRS if (pair.script, pair.injected_bug) == (RARE[bug], bug))


def shown_by_script(bug: str, injected_bug: InjectedBug) -> bool:
    """Return whether the script that is paired with a rare bug shows it."""
    with injected_bug():
        return any(text_in_script(bug) in problem for problem in play(LIBRARY[RARE[bug]]).problems)


def script_of(switch: Historical) -> WorldScenario:
    """Return the first script of the outage library whose bug is this historical behavior.

    Raises StopIteration if there is none.
    """
    return next(
        scenario
        for scenario in LIBRARY.values()
        if isinstance(scenario, WorldScenario) and switch in scenario.bug.get("zabka.historical", "").split(",")
    )


def search_switched(switch: Historical, seeds_max: int) -> Found:
    """Run seeds with a historical behavior until one has a problem. If no seed has one, run the behavior's script."""
    script = script_of(switch)
    settings = world_settings([f"zabka.historical={switch}"])
    found = search("chaos", InjectedBug(nullcontext, (script.shows,)), seeds_max, settings)
    if found.seeds is None and play(script).held:
        return Found(None, f"no seed, but the script {script.name}", found.cpu_s)
    return found


def _say(name: str, scenario: str, found: Found) -> None:
    sys.stdout.write(f"{name:44} {scenario:9} {found.seeds or '-':>5} {found.cpu_s:6.1f}  {found.problem[:110]}\n")
    sys.stdout.flush()


def main() -> int:
    """Print the table. Return 1 if a bug was not found."""
    seeds_max = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS_MAX
    missed = 0
    sys.stdout.write(f"{'injected bug':44} {'seeds of':9} {'seeds':>5} {'CPU s':>6}  shown by\n")
    for scenario, name, injected_bug in bugs() + disk_bugs() + transactional_bugs():
        found = search(scenario, injected_bug, seeds_max, settings_of(name))
        if found.seeds is None and name in RARE and shown_by_script(name, injected_bug):
            found = Found(None, f"no seed, but the script {RARE[name]}", found.cpu_s)
        missed += not found.problem
        _say(name, scenario, found)
    for switch in Historical:
        found = search_switched(switch, seeds_max)
        missed += not found.problem
        _say(f"zabka.historical={switch}", "chaos", found)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Prints how many runs, and how many seconds, a search takes to find each planted bug and each of Kafka's old
behaviours, and how many plain seeds of the same world take, and of the scenario that was there before.

python -m tests.simulation.search_table [--runs N] [--searches N] [--only WORDS] [--plain] [--markdown]

Three searches each by default, of at most 5,000 runs; a median counts a search that found nothing as more than that.
A search ends with the first run that shows what the bug has to show (of an old behaviour: anything), and that holds
when the same tape is played without the bug.  `--plain` has plain seeds beside it, as many of them at most: those
of the same world, and those of the scenario in which that bug was looked for before there were swarms.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import NamedTuple

from controller.historical import Historical
from simulation.kernel.garbage import collect_seldom
from simulation.kernel.tape import Tape
from simulation.search.runs import run_tape
from simulation.search.tape_search import PLAIN_SHARE, TapeSearch, Wanted
from simulation.settings import world_settings
from tests.simulation import planted, planted_ensemble, planted_histories
from tests.simulation.disks import planted_disks
from tests.simulation.planting import Plant

RUNS_MAX = 5_000
SEARCHES = 3
PROTOCOL, ENSEMBLE, BROKERS, DISKS = "swarm-protocol", "swarm-ensemble", "swarm", "swarm-disks"
FILES = "swarm-files"
BEFORE = {PROTOCOL: "ensemble", ENSEMBLE: "ensemble", BROKERS: "chaos", DISKS: "disks", FILES: "disks"}
"""What seeds were run with before there were swarms."""
OF_CLIENTS = (
    "session owner not checked",
    "watches fire late",
    "watches lost on reconnection",
    "replay of what the snapshot holds",
    "ephemerals forgotten in snapshots",
    "closed sessions keep their ephemerals",
    "sync answered by the leader alone",
    "answers overtake the commits they rely on",
    "snapshots of what is not committed",
    "a leader never steps down",
    "votes are sent once",
    "epochs do not rise",
)
"""Bugs of trees, sessions, watches and syncs, which clients meet; of snapshots, which the bare protocol seldom takes;
and those that have to show in the words of a world with clocks."""
OF_THE_PROTOCOL = ("commit on a minority", "no truncation on sync", "ack before fsync")
"""Of the bugs that stand beside those of brokers."""
OF_HISTORIES: dict[str, tuple[str, ...]] = {
    "the log is read by its numbers": ("committed prefixes agree", "processConsistency", "agreement"),
    "reading goes on behind damage": ("committed prefixes agree", "processConsistency", "agreement"),
    "places in the log outlive what was there": ("committed prefixes agree", "processConsistency", "agreement"),
    "who has lost history is elected for its past": ("no acknowledged write lost", "committedLogDurability"),
    "a spoiled snapshot is made good at once": ("acknowledged and not durable", "processConsistency"),
}
"""The five faults that lost or split committed history, and what each has to show."""
_BESIDE = {
    "reading goes on behind damage": planted_histories.the_log_is_read_by_its_numbers,
    "places in the log outlive what was there": planted_histories.the_log_is_read_by_its_numbers,
}
"""These show only where the borders of epochs are not looked at either; so a run must hold with that alone."""
_OLD_BEHAVIOUR = Plant(nullcontext, ("",))
"""Switched on by a setting.  It shows as whatever does not hold."""


class Bug(NamedTuple):
    """What is to be found, and where it is searched."""

    name: str
    scenario: str
    plant: Plant
    settings: tuple[str, ...] = ()
    control: Callable[[], AbstractContextManager[None]] = nullcontext
    """What is there in the run that must hold, too."""


class Tried(NamedTuple):
    """One search: after how many runs and seconds it found something (None: not), and what."""

    runs: int | None
    cpu_s: float
    problem: str


def bugs() -> Iterator[Bug]:
    """All of them."""
    for name, plant in planted_ensemble.PLANTED.items():
        yield Bug(name, ENSEMBLE if name in OF_CLIENTS else PROTOCOL, plant)
    for name, plant in planted.PLANTED.items():
        yield Bug(name, ENSEMBLE if name in OF_CLIENTS else PROTOCOL if name in OF_THE_PROTOCOL else BROKERS, plant)
    for name, plant in planted_disks.PLANTED.items():
        yield Bug(name, DISKS, plant)
    for name, shows in OF_HISTORIES.items():
        plant = Plant(planted_histories.PLANTED[name], shows)
        yield Bug(name, FILES, plant, control=_BESIDE.get(name, nullcontext))
    for switch in Historical:
        yield Bug(f"zabka.historical={switch}", BROKERS, _OLD_BEHAVIOUR, (f"zabka.historical={switch}",))


def search(bug: Bug, runs_max: int, seed: int = 0, *, scenario: str = "", plain_share: float = PLAIN_SHARE) -> Tried:
    """One search for a bug; with a share of 1 of plain seeds alone."""
    wanted = Wanted(scenario or bug.scenario, bug.settings, seed=seed)
    begin, searching = time.process_time(), TapeSearch(wanted, plain_share)
    settings = wanted.world()
    for _ in range(runs_max):
        with bug.plant():
            ran = run_tape(searching.next_tape(), wanted.scenario, settings)
        searching.take(ran)
        problem = bug.plant.shown(ran.problems)
        if problem is not None and _holds_without(bug, wanted.scenario, ran.written):
            return Tried(searching.runs, time.process_time() - begin, problem)
    return Tried(None, time.process_time() - begin, "")


def _holds_without(bug: Bug, scenario: str, tape: Tape) -> bool:
    """Is all well where the same tape is played and the bug is not there?"""
    with bug.control():
        return not run_tape(tape, scenario, world_settings(())).problems


class Row(NamedTuple):
    """The searches for one bug, and what plain seeds did."""

    bug: Bug
    searches: list[Tried]
    plain: list[Tried]
    before: list[Tried]


def _row(bug: Bug, runs_max: int, searches: int, *, with_plain: bool) -> Row:
    tried = [search(bug, runs_max, seed) for seed in range(searches)]
    if not with_plain:
        return Row(bug, tried, [], [])
    plain = [search(bug, runs_max, seed, plain_share=1) for seed in range(searches)]
    before = [search(bug, runs_max, seed, scenario=BEFORE[bug.scenario], plain_share=1) for seed in range(searches)]
    return Row(bug, tried, plain, before)


def _runs_of(tried: list[Tried], runs_max: int) -> str:
    if not tried:
        return ""
    runs = median(runs_max + 1 if each.runs is None else each.runs for each in tried)
    return f"> {runs_max}" if runs > runs_max else f"{runs:g}"


def _seconds_of(tried: list[Tried]) -> str:
    return f"{median(each.cpu_s for each in tried):.0f}" if tried else ""


def _cells(row: Row, runs_max: int) -> list[str]:
    shown = next((each.problem for each in row.searches if each.runs is not None), "")
    told = [cell for tried in row[1:] for cell in (_runs_of(tried, runs_max), _seconds_of(tried))]
    return [row.bug.name, row.bug.scenario, *told, shown.replace("|", "/")[:90]]


def main() -> int:
    """The table; 1 if some bug was not found in the median of the searches."""
    options = argparse.ArgumentParser(prog="python -m tests.simulation.search_table")
    options.add_argument("--runs", type=int, default=RUNS_MAX, help="runs of each search at most")
    options.add_argument("--searches", type=int, default=SEARCHES, help="searches for each bug")
    options.add_argument("--only", default="", help="bugs whose names, or scenarios, hold these words")
    options.add_argument(
        "--plain", action="store_true", help="plain seeds too, of the same world and of the one before"
    )
    options.add_argument("--markdown", action="store_true", help="a table for a page")
    asked = options.parse_args()
    collect_seldom()
    heads = ["bug", "searched in", "runs", "s", "plain runs", "s", "before", "s", "shown by"]
    widths = (44, 15, 7, 5, 10, 5, 7, 5, 0)
    line = "| {} |\n" if asked.markdown else "{}\n"

    def say(cells: list[str]) -> None:
        padded = cells if asked.markdown else [f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)]
        sys.stdout.write(line.format((" | " if asked.markdown else " ").join(padded)))
        sys.stdout.flush()

    say(heads)
    if asked.markdown:
        say(["---"] * len(heads))
    missed = 0
    for bug in bugs():
        if asked.only in bug.name or asked.only == bug.scenario:
            row = _row(bug, asked.runs, asked.searches, with_plain=asked.plain)
            cells = _cells(row, asked.runs)
            missed += cells[2].startswith(">")
            say(cells)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Prints how many runs, and how many seconds, a search takes to find each planted bug and each of Kafka's old
behaviours, and how many plain seeds of the same world take, and of the scenario that was there before.

python -m tests.simulation.search_table [--runs N] [--cpu-s N] [--searches N] [--only WORDS] [--plain] [--into FILE]
                                        [--markdown]

Three searches each by default, of at most 5,000 runs; a median counts a search that found nothing as later than all
others, and where it falls upon such a one, the table says how far each search came.  A search ends with the first run
that shows what the bug has to show (of an old behaviour: anything), and that holds when the same tape is played without
the bug.  `--cpu-s` ends a search with the run after so many CPU seconds.  `--plain` has plain seeds beside it, as many
of them at most: those of the same world, and those of the scenario in which that bug was looked for before there were
swarms.

All bugs are searched for once, then all again.  With `--into` each search is written to a file, a line of JSON, as soon
as it has ended, and those that are there, under the same limits, are not made again: a table that was stopped goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from math import inf, isfinite
from pathlib import Path
from statistics import median, median_high
from typing import NamedTuple

import msgspec

from tests.simulation import planted, planted_ensemble, planted_histories
from tests.simulation.disks import planted_disks
from tests.simulation.planting import Plant
from zabka.controller.historical import Historical
from zabka.simulation.kernel.garbage import collect_seldom
from zabka.simulation.kernel.tape import Tape
from zabka.simulation.search.runs import run_one_of_many, run_tape
from zabka.simulation.search.tape_search import PLAIN_SHARE, TapeSearch, Wanted
from zabka.simulation.settings import world_settings

RUNS_MAX = 5_000
SEARCHES = 3
PROTOCOL, ENSEMBLE, BROKERS, DISKS = "swarm-protocol", "swarm-ensemble", "swarm", "swarm-disks"
FILES = "swarm-files"
BEFORE = {PROTOCOL: "ensemble", ENSEMBLE: "ensemble", BROKERS: "chaos", DISKS: "disks", FILES: "disks"}
"""What seeds were run with before there were swarms."""
SEARCH, PLAIN, PLAIN_BEFORE = WAYS = ("search", "plain", "before")
"""Tapes that are changed; plain seeds of the same world; plain seeds of the scenario that was there before."""
HEADS = {SEARCH: "runs", PLAIN: "plain runs", PLAIN_BEFORE: "before"}
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
SEEN_BY_CLIENTS: dict[str, tuple[str, ...]] = {
    "session owner not checked": (" went back from ", " was acknowledged before", ", acknowledged "),
    "sync answered by the leader alone": (" was acknowledged before",),
    "answers overtake the commits they rely on": (" was acknowledged before",),
    "ephemerals forgotten in snapshots": ("took their ephemerals along", " outlives its session "),
    "epochs do not rise": ("gap in history", "a serving ensemble did not come true"),
}
"""What bugs have to show where clients come and go.  In a script of its own each shows as that script's expectation,
whose words nobody says here."""
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


class Limits(msgspec.Struct, frozen=True):
    """How far a search goes at most: so many runs, and none begins after so many CPU seconds (None: whatever)."""

    runs: int = RUNS_MAX
    cpu_s: float | None = None

    def allow(self, runs: int, cpu_s: float) -> bool:
        """May a search that has made so many runs make another?"""
        return runs < self.runs and (self.cpu_s is None or cpu_s < self.cpu_s)


class Tried(msgspec.Struct, frozen=True):
    """One search: how many runs it made in how many CPU seconds, and what the last of them showed (nothing: it was not
    found)."""

    runs: int
    cpu_s: float
    problem: str


class Made(msgspec.Struct, frozen=True):
    """A search, and what it was: the name of its bug, one of WAYS, and the number of the search."""

    bug: str
    way: str
    number: int
    limits: Limits
    tried: Tried


def bugs() -> Iterator[Bug]:
    """All of them."""
    for name, plant in planted_ensemble.PLANTED.items():
        shows = SEEN_BY_CLIENTS.get(name, plant.shows)
        yield Bug(name, ENSEMBLE if name in OF_CLIENTS else PROTOCOL, Plant(plant.plant, shows))
    for name, plant in planted.PLANTED.items():
        yield Bug(name, ENSEMBLE if name in OF_CLIENTS else PROTOCOL if name in OF_THE_PROTOCOL else BROKERS, plant)
    for name, plant in planted_disks.PLANTED.items():
        yield Bug(name, DISKS, plant)
    for name, shows in OF_HISTORIES.items():
        plant = Plant(planted_histories.PLANTED[name], shows)
        yield Bug(name, FILES, plant, control=_BESIDE.get(name, nullcontext))
    for switch in Historical:
        yield Bug(f"zabka.historical={switch}", BROKERS, _OLD_BEHAVIOUR, (f"zabka.historical={switch}",))


def search(bug: Bug, limits: Limits, seed: int = 0, way: str = SEARCH) -> Tried:
    """One search for a bug."""
    scenario = BEFORE[bug.scenario] if way == PLAIN_BEFORE else bug.scenario
    wanted = Wanted(scenario, bug.settings, seed=seed)
    begin, searching = time.process_time(), TapeSearch(wanted, PLAIN_SHARE if way == SEARCH else 1)
    settings = wanted.world()
    cpu_s = 0.0
    while limits.allow(searching.runs, cpu_s):
        with bug.plant():
            ran = run_one_of_many(searching.runs, searching.next_tape(), wanted.scenario, settings)
        searching.record_run(ran)
        problem = bug.plant.shown(ran.problems)
        is_found = problem is not None and _holds_without(bug, wanted.scenario, ran.written)
        cpu_s = time.process_time() - begin
        if problem is not None and is_found:
            return Tried(searching.runs, cpu_s, problem)
    return Tried(searching.runs, cpu_s, "")


def _holds_without(bug: Bug, scenario: str, tape: Tape) -> bool:
    """Is all well where the same tape is played and the bug is not there?"""
    with bug.control():
        return not run_tape(tape, scenario, world_settings(())).problems


class Searches:
    """All that were made, those of a file among them; `into` is None where nothing is kept."""

    def __init__(self, limits: Limits, into: Path | None) -> None:
        """Raises OSError, and msgspec.DecodeError where the file is none of ours."""
        self._limits = limits
        self._into = into
        self._made: dict[tuple[str, str, int], Tried] = {}
        lines = into.read_bytes().splitlines() if into is not None and into.exists() else []
        for made in (msgspec.json.decode(line, type=Made) for line in lines):
            if made.limits == limits:
                self._made[made.bug, made.way, made.number] = made.tried

    def make(self, bug: Bug, way: str, number: int) -> None:
        """One of them, unless it has been made."""
        if (bug.name, way, number) in self._made:
            return
        tried = self._made[bug.name, way, number] = search(bug, self._limits, number, way)
        made = Made(bug.name, way, number, self._limits, tried)
        if self._into is not None:
            with self._into.open("ab") as file:
                file.write(msgspec.json.encode(made) + b"\n")
        said = f"run {tried.runs}" if tried.problem else f"not in {tried.runs} runs"
        sys.stderr.write(f"{bug.name}, {way} {number}: {said}, {tried.cpu_s:.0f} CPU s\n")

    def of(self, bug: Bug, way: str) -> list[Tried]:
        """Those for a bug."""
        return [tried for (name, how, _), tried in self._made.items() if (name, how) == (bug.name, way)]


def runs_of(tried: Iterable[Tried]) -> str:
    """After how many runs it was found, in the median; how far each search came where most have not found it."""
    every = list(tried)
    middle = median_high(each.runs if each.problem else inf for each in every) if every else inf
    if isfinite(middle):
        return f"{middle:g}"
    return ", ".join(f"run {each.runs}" if each.problem else f"not in {each.runs}" for each in every)


def _seconds_of(tried: list[Tried]) -> str:
    return f"{median(each.cpu_s for each in tried):.0f}" if tried else ""


def _cells(bug: Bug, ways: Iterable[list[Tried]]) -> list[str]:
    every = list(ways)
    shown = next((each.problem for tried in every for each in tried if each.problem), "")
    told = [cell for tried in every for cell in (runs_of(tried), _seconds_of(tried))]
    return [bug.name, bug.scenario, *told, shown.replace("|", "/")[:90]]


def main() -> int:
    """The table; 1 if some bug was not found in the median of the searches."""
    options = argparse.ArgumentParser(prog="python -m tests.simulation.search_table")
    options.add_argument("--runs", type=int, default=RUNS_MAX, help="runs of each search at most")
    options.add_argument("--cpu-s", type=float, help="CPU seconds, after which no search begins a run")
    options.add_argument("--searches", type=int, default=SEARCHES, help="searches for each bug")
    options.add_argument("--only", default="", help="bugs whose names hold these words, or of that scenario")
    options.add_argument(
        "--plain", action="store_true", help="plain seeds too, of the same world and of the one before"
    )
    options.add_argument("--into", type=Path, help="a file that keeps every search, and of those in it none is made")
    options.add_argument("--markdown", action="store_true", help="a table for a page")
    asked = options.parse_args()
    collect_seldom()
    ways = WAYS if asked.plain else WAYS[:1]
    wanted = [bug for bug in bugs() if asked.only in bug.name or asked.only == bug.scenario]
    searches = Searches(Limits(asked.runs, asked.cpu_s), asked.into)
    for number in range(asked.searches):
        for bug in wanted:
            for way in ways:
                searches.make(bug, way, number)
    rows = [_cells(bug, [searches.of(bug, way) for way in ways]) for bug in wanted]
    heads = ["bug", "searched in", *(cell for way in ways for cell in (HEADS[way], "s")), "shown by"]
    _say([heads, *rows], markdown=asked.markdown)
    return 1 if any(not row[2].isdecimal() for row in rows) else 0


def _say(rows: list[list[str]], *, markdown: bool) -> None:
    """Print a table, the first row of which has the heads of its columns."""
    if markdown:
        rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        lines = [f"| {' | '.join(row)} |" for row in rows]
    else:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())

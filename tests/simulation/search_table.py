"""Print how many runs and seconds a search takes to find each injected bug and each historical behavior of Kafka.

python -m tests.simulation.search_table [--runs N] [--cpu-s N] [--searches N] [--only WORDS] [--plain] [--into FILE]
[--markdown]

By default, three searches are run for each bug, with at most 5,000 runs each. In the median, a search without a
finding counts as later than all others. If the median is such a search, the table shows how far each search got.

A search ends with the first run that shows the expected string of the bug (any problem for a historical behavior), if
the same choice sequence has no problem without the bug. `--cpu-s` is the CPU time after which a search starts no run.
`--plain` also runs as many plain seeds, both of the same world and of the scenario that was used before swarms
existed.

Each round searches once for every bug. `--into` appends each finished search to a file as a line of JSON. Searches in
the file with the same limits are not repeated, so that an interrupted table can be continued.
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

from tests.simulation import injected, injected_disks, injected_ensemble, injected_histories
from tests.simulation.injecting import InjectedBug
from zabka.controller.historical import Historical
from zabka.simulation.choices import Choices
from zabka.simulation.engine.garbage import collect_seldom
from zabka.simulation.search.choice_search import PLAIN_SHARE, ChoiceSearch, Requested
from zabka.simulation.search.runs import run_choices, run_one_of_many
from zabka.simulation.settings import world_settings

RUNS_MAX = 5_000
SEARCHES = 3
PROTOCOL, ENSEMBLE, BROKERS, DISKS = "swarm-protocol", "swarm-ensemble", "swarm", "swarm-disks"
FILES = "swarm-files"
BEFORE = {PROTOCOL: "ensemble", ENSEMBLE: "ensemble", BROKERS: "chaos", DISKS: "disks", FILES: "disks"}
"""Scenario whose seeds were used before swarms existed, keyed by the scenario used now."""
SEARCH, PLAIN, PLAIN_BEFORE = WAYS = ("search", "plain", "before")
"""The three kinds of search that the table compares.

The first mutates choice sequences. The second runs plain seeds of the same world. The third runs plain seeds of the
scenario in `BEFORE`, which was used before swarms existed.
"""
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
"""Bugs that are searched for in a world with clients.

They are bugs of trees, sessions, watches and syncs; bugs of snapshots, which the bare protocol rarely writes; and bugs
whose problem strings need a world with clocks.
"""
OF_THE_PROTOCOL = ("commit on a minority", "no truncation on sync", "ack before fsync")
"""Names of the protocol bugs in `tests.simulation.injected`. All other bugs there are broker bugs."""
OF_HISTORIES: dict[str, tuple[str, ...]] = {
    "the log is read by its numbers": ("committed prefixes agree", "processConsistency", "agreement"),
    "reading goes on behind damage": ("committed prefixes agree", "processConsistency", "agreement"),
    "places in the log outlive what was there": ("committed prefixes agree", "processConsistency", "agreement"),
    "who has lost history is elected for its past": ("no acknowledged write lost", "committedLogDurability"),
    "a spoiled snapshot is made good at once": ("acknowledged and not durable", "processConsistency"),
}
"""Five bugs that caused the loss or divergence of committed history.

Each value contains parts of the problem messages that show the bug.
"""
SEEN_BY_CLIENTS: dict[str, tuple[str, ...]] = {
    "session owner not checked": (" went back from ", " was acknowledged before", ", acknowledged "),
    "sync answered by the leader alone": (" was acknowledged before",),
    "answers overtake the commits they rely on": (" was acknowledged before",),
    "ephemerals forgotten in snapshots": ("took their ephemerals along", " outlives its session "),
    "epochs do not rise": ("gap in history", "a serving ensemble did not come true"),
}
"""Bugs that show in a world with clients, each with the strings that the reported problem contains.

With the bug's own script, the problem is another one: an expectation of the script fails.
"""
_BESIDE = {
    "reading goes on behind damage": injected_histories.the_log_is_read_by_its_numbers,
    "places in the log outlive what was there": injected_histories.the_log_is_read_by_its_numbers,
}
"""For each bug (the key), a second bug that is injected together with it.

The bugs in the keys are visible only together with the second bug, which ignores the ends of epochs. A run with only
the second bug must have no problem.
"""
_OLD_BEHAVIOUR = InjectedBug(nullcontext, ("",))
"""Stands for a bug that a setting enables instead of a code change. Any reported problem detects it."""


class Bug(NamedTuple):
    """A bug to find, and the scenario in which it is searched for."""

    name: str
    scenario: str
    injected_bug: InjectedBug
    settings: tuple[str, ...] = ()
    control: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context for the run without the bug. This run must have no problem."""


class Limits(msgspec.Struct, frozen=True):
    """Limits of a search: the number of runs, and the CPU seconds after which no run starts (None for no limit)."""

    runs: int = RUNS_MAX
    cpu_s: float | None = None

    def allow(self, runs: int, cpu_s: float) -> bool:
        """Return whether a search that has used this many runs and CPU seconds may start another run."""
        return runs < self.runs and (self.cpu_s is None or cpu_s < self.cpu_s)


class Tried(msgspec.Struct, frozen=True):
    """Result of one search: the number of runs, the CPU seconds, and the problem of the last run.

    The problem is empty if the bug was not found.
    """

    runs: int
    cpu_s: float
    problem: str


class Made(msgspec.Struct, frozen=True):
    """A finished search: the bug's name, the kind of search, the search's number, its limits and its result."""

    bug: str
    way: str
    number: int
    limits: Limits
    tried: Tried


def bugs() -> Iterator[Bug]:
    """Yield all bugs that the table contains."""
    for name, injected_bug in injected_ensemble.INJECTED.items():
        shows = SEEN_BY_CLIENTS.get(name, injected_bug.shows)
        yield Bug(name, ENSEMBLE if name in OF_CLIENTS else PROTOCOL, InjectedBug(injected_bug.injected_bug, shows))
    for name, injected_bug in injected.INJECTED.items():
        yield Bug(
            name, ENSEMBLE if name in OF_CLIENTS else PROTOCOL if name in OF_THE_PROTOCOL else BROKERS, injected_bug
        )
    for name, injected_bug in injected_disks.INJECTED.items():
        yield Bug(name, DISKS, injected_bug)
    for name, shows in OF_HISTORIES.items():
        injected_bug = InjectedBug(injected_histories.INJECTED[name], shows)
        yield Bug(name, FILES, injected_bug, control=_BESIDE.get(name, nullcontext))
    for switch in Historical:
        yield Bug(f"zabka.historical={switch}", BROKERS, _OLD_BEHAVIOUR, (f"zabka.historical={switch}",))


def search(bug: Bug, limits: Limits, seed: int = 0, way: str = SEARCH) -> Tried:
    """Search once for a bug, and return the result."""
    scenario = BEFORE[bug.scenario] if way == PLAIN_BEFORE else bug.scenario
    wanted = Requested(scenario, bug.settings, seed=seed)
    begin, searching = time.process_time(), ChoiceSearch(wanted, PLAIN_SHARE if way == SEARCH else 1)
    settings = wanted.world()
    cpu_s = 0.0
    while limits.allow(searching.runs, cpu_s):
        with bug.injected_bug():
            ran = run_one_of_many(searching.runs, searching.next_choices(), wanted.scenario, settings)
        searching.record_run(ran)
        problem = bug.injected_bug.shown(ran.problems)
        is_found = problem is not None and _holds_without(bug, wanted.scenario, ran.written)
        cpu_s = time.process_time() - begin
        if problem is not None and is_found:
            return Tried(searching.runs, cpu_s, problem)
    return Tried(searching.runs, cpu_s, "")


def _holds_without(bug: Bug, scenario: str, choices: Choices) -> bool:
    """Return whether the run with the same choice sequence has no problem if the bug is not injected."""
    with bug.control():
        return not run_choices(choices, scenario, world_settings(())).problems


class Searches:
    """All finished searches, including those stored in the file `into` (None for no file)."""

    def __init__(self, limits: Limits, into: Path | None) -> None:
        """Read the finished searches in the file `into`.

        Raises OSError if it cannot be read, and msgspec.DecodeError if it is not a file of searches.
        """
        self._limits = limits
        self._into = into
        self._made: dict[tuple[str, str, int], Tried] = {}
        lines = into.read_bytes().splitlines() if into is not None and into.exists() else []
        for made in (msgspec.json.decode(line, type=Made) for line in lines):
            if made.limits == limits:
                self._made[made.bug, made.way, made.number] = made.tried

    def make(self, bug: Bug, way: str, number: int) -> None:
        """Run one search, unless the file already contains its result."""
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
        """Return the results of all searches of this kind for a bug."""
        return [tried for (name, how, _), tried in self._made.items() if (name, how) == (bug.name, way)]


def runs_of(tried: Iterable[Tried]) -> str:
    """Return the median number of runs as text.

    If most searches found nothing, return how many runs each search had.
    """
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
    """Print the table. Return 1 if at least half of the searches for some bug did not find it."""
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
    """Print a table. The first row contains the column headings."""
    if markdown:
        rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        lines = [f"| {' | '.join(row)} |" for row in rows]
    else:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""The search: plain seeds, and tapes that were changed, one after the other; what is new is kept, what breaks is found.

Which tape is next depends on the search's own seed and on what the runs before it came to, in their order; so a search
with one process is the same every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from random import Random
from typing import NamedTuple

from zabka.simulation.kernel.tape import Tape
from zabka.simulation.search.corpus import Corpus, Kept
from zabka.simulation.search.mutation import gone_on_from, mutated
from zabka.simulation.search.runs import Ran, invariant_of, run_one_of_many
from zabka.simulation.search.shrinking import Shrinking
from zabka.simulation.settings import WorldSettings, world_settings

PLAIN_FIRST = 24
PLAIN_SHARE = 0.35
GOING_ON = 0.5
"""Of the others, where something has a place; the rest is changed anywhere."""
SHRINKING_RUNS_MAX = 160
OUTSIDERS = ("liveness", "assertion", "crash")
"""Of these the words behind the colon say what it is, not those before it."""


class Wanted(NamedTuple):
    """What is searched: where, with which settings (KEY=VALUE), and with which bug planted, if any (MODULE:NAME)."""

    scenario: str
    settings: tuple[str, ...] = ()
    plant: str = ""
    seed: int = 0

    def world(self) -> WorldSettings:
        """The settings as the world takes them.  Raises BadSetting."""
        return world_settings(self.settings)


def planted(plant: str) -> AbstractContextManager[None]:
    """The context of a planted bug, from MODULE:NAME; an empty one for none.  Raises ValueError."""
    if not plant:
        return nullcontext()
    module, colon, name = plant.partition(":")
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError) as reason:
        raise ValueError(f"--plant takes MODULE:NAME, a context to be entered; {plant!r}: {reason}") from None
    if not colon or not callable(make):
        raise ValueError(f"--plant takes MODULE:NAME, a context to be entered; got {plant!r}")
    context: AbstractContextManager[None] = make()
    return context


class Found(NamedTuple):
    """A violation: in which run it was met, what it is, and its tape with every choice written in."""

    run: int
    invariant: str
    problems: list[str]
    tape: Tape


class TapeSearch:
    """One search; `runs` counts what was taken so far."""

    def __init__(self, wanted: Wanted, plain_share: float = PLAIN_SHARE) -> None:
        """With a share of 1 there are plain seeds alone: that is what the search is compared with."""
        self.wanted = wanted
        self.corpus = Corpus()
        self.runs = 0
        self.cpu_s = 0.0
        self.found: dict[str, Found] = {}
        self._asked = 0
        self._plain_share = plain_share
        self._random = Random(wanted.seed)

    def next_tape(self) -> Tape:
        """What to play next."""
        self._asked += 1
        random = self._random
        if not self.corpus.kept or self._asked <= PLAIN_FIRST or random.random() < self._plain_share:
            return Tape(self.wanted.seed * 1_000_000 + self._asked)
        chosen = self.corpus.choose(random)
        place = self.corpus.place(chosen, random) if random.random() < GOING_ON else 0
        if place:
            return gone_on_from(chosen.tape, place, random)
        return mutated(chosen.tape, self.corpus.any(random), random)

    def resume(self, kept: list[Kept], runs: int) -> None:
        """Go on where a search of the same kind ended."""
        self.runs = self._asked = runs
        self._random = Random(f"{self.wanted.seed} {runs}")
        for each in kept:
            self.corpus.keep_run(each.tape, dict.fromkeys(each.news, 1), each.places)

    def record_run(self, ran: Ran) -> tuple[Kept | None, Found | None]:
        """A run has ended: the tape where it is kept, and what is found where that is new."""
        self.runs += 1
        self.cpu_s += ran.cpu_s
        if not ran.problems:
            return self.corpus.keep_run(ran.written, ran.reached, ran.places), None
        invariant = kind_of(ran.problems[0])
        if invariant in self.found:
            return None, None
        found = self.found[invariant] = Found(self.runs, invariant, ran.problems, ran.written)
        return None, found

    def run_here(self, runs_max: int) -> Iterator[tuple[Kept | None, Found | None]]:
        """Search in this process, within the planted context, if there is to be one."""
        settings = self.wanted.world()
        for number in range(runs_max):
            yield self.record_run(run_one_of_many(number, self.next_tape(), self.wanted.scenario, settings))


def kind_of(problem: str) -> str:
    """What distinguishes one finding from another."""
    invariant = invariant_of(problem)
    if invariant in OUTSIDERS:
        words = problem.partition(":")[2].split()
        return f"{invariant}: {' '.join(words[:6])}"
    return invariant


def shrunk(found: Found, wanted: Wanted, runs_max: int = SHRINKING_RUNS_MAX) -> tuple[Tape, list[str], int]:
    """A shorter tape that shows the same, what it shows, and how many runs that took."""
    settings = wanted.world()
    problems = found.problems

    def shows(tape: Tape) -> Tape | None:
        nonlocal problems
        ran = run_one_of_many(shrinking.runs, tape, wanted.scenario, settings)
        if any(kind_of(problem) == found.invariant for problem in ran.problems):
            problems = ran.problems
            return ran.written
        return None

    shrinking = Shrinking(found.tape, shows, runs_max)
    return shrinking.shrink(), problems, shrinking.runs

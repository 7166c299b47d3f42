"""The search: runs seeds and mutated choice sequences, keeps sequences with new features, and records violations.

The next choice sequence depends only on the search's own seed and on the results and the order of earlier runs. So a
search in one process is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from random import Random
from typing import NamedTuple

from zabka.simulation.choices import Choices
from zabka.simulation.search.corpus import Corpus, Kept
from zabka.simulation.search.mutation import gone_on_from, mutated
from zabka.simulation.search.runs import Ran, invariant_of, run_one_of_many
from zabka.simulation.search.shrinking import Shrinking
from zabka.simulation.settings import WorldSettings, world_settings

PLAIN_FIRST = 24
PLAIN_SHARE = 0.35
GOING_ON = 0.5
"""Share of mutated choice sequences that repeat a prefix with a rare feature and then make new random choices.

The other mutated choice sequences are changed at any position.
"""
SHRINKING_RUNS_MAX = 160
OUTSIDERS = ("liveness", "assertion", "crash")
"""Kinds of problems that are not violated invariants.

Findings of these kinds are distinguished by the text after the colon in the problem's message.
"""


class Requested(NamedTuple):
    """What a search runs: a scenario, settings (KEY=VALUE), and an injected bug (MODULE:NAME), if any."""

    scenario: str
    settings: tuple[str, ...] = ()
    injected_bug: str = ""
    seed: int = 0

    def world(self) -> WorldSettings:
        """Return the settings as WorldSettings. Raises BadSetting."""
        return world_settings(self.settings)


def injected(injected_bug: str) -> AbstractContextManager[None]:
    """Return a context manager that injects the bug MODULE:NAME, or does nothing if the name is empty.

    Raises ValueError.
    """
    if not injected_bug:
        return nullcontext()
    module, colon, name = injected_bug.partition(":")
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError) as reason:
        raise ValueError(f"--bug takes MODULE:NAME, a context to be entered; {injected_bug!r}: {reason}") from None
    if not colon or not callable(make):
        raise ValueError(f"--bug takes MODULE:NAME, a context to be entered; got {injected_bug!r}")
    context: AbstractContextManager[None] = make()
    return context


class Found(NamedTuple):
    """A finding: the number of the run, the violated invariant, the problems, and the complete choice sequence."""

    run: int
    invariant: str
    problems: list[str]
    choices: Choices


class ChoiceSearch:
    """One search; `runs` counts the runs so far."""

    def __init__(self, wanted: Requested, plain_share: float = PLAIN_SHARE) -> None:
        """Create a search.

        With a `plain_share` of 1, the search mutates no choice sequences and runs only plain seeds. Such a search is a
        baseline.
        """
        self.wanted = wanted
        self.corpus = Corpus()
        self.runs = 0
        self.cpu_s = 0.0
        self.found: dict[str, Found] = {}
        self._asked = 0
        self._plain_share = plain_share
        self._random = Random(wanted.seed)

    def next_choices(self) -> Choices:
        """Return the next choice sequence to run."""
        self._asked += 1
        random = self._random
        if not self.corpus.kept or self._asked <= PLAIN_FIRST or random.random() < self._plain_share:
            return Choices(self.wanted.seed * 1_000_000 + self._asked)
        chosen = self.corpus.choose(random)
        place = self.corpus.place(chosen, random) if random.random() < GOING_ON else 0
        if place:
            return gone_on_from(chosen.choices, place, random)
        return mutated(chosen.choices, self.corpus.any(random), random)

    def resume(self, kept: list[Kept], runs: int) -> None:
        """Continue an earlier search with the same parameters from its kept choice sequences and its number of runs."""
        self.runs = self._asked = runs
        self._random = Random(f"{self.wanted.seed} {runs}")
        for each in kept:
            self.corpus.keep_run(each.choices, dict.fromkeys(each.news, 1), each.places)

    def record_run(self, ran: Ran) -> tuple[Kept | None, Found | None]:
        """Process the result of a run.

        Return the run's choice sequence if the corpus keeps it, and the run's finding if it is new.
        """
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
        """Search in this process, and yield the result of `record_run` for each run.

        If there is an injected bug, the caller must have entered its context manager.
        """
        settings = self.wanted.world()
        for number in range(runs_max):
            yield self.record_run(run_one_of_many(number, self.next_choices(), self.wanted.scenario, settings))


def kind_of(problem: str) -> str:
    """Return the key that distinguishes findings: the name of the invariant.

    For kinds in OUTSIDERS, the key also contains the beginning of the message.
    """
    invariant = invariant_of(problem)
    if invariant in OUTSIDERS:
        words = problem.partition(":")[2].split()
        return f"{invariant}: {' '.join(words[:6])}"
    return invariant


def shrunk(found: Found, wanted: Requested, runs_max: int = SHRINKING_RUNS_MAX) -> tuple[Choices, list[str], int]:
    """Return a shorter choice sequence with the same violation, its problems, and the number of runs used."""
    settings = wanted.world()
    problems = found.problems

    def shows(choices: Choices) -> Choices | None:
        nonlocal problems
        ran = run_one_of_many(shrinking.runs, choices, wanted.scenario, settings)
        if any(kind_of(problem) == found.invariant for problem in ran.problems):
            problems = ran.problems
            return ran.written
        return None

    shrinking = Shrinking(found.choices, shows, runs_max)
    return shrinking.shrink(), problems, shrinking.runs

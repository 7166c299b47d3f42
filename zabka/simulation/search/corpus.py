"""The tapes that reached something new, and which of them to change next.

A tape is kept for what it was the first to reach, or to reach more often.  It is chosen the more often, the rarer that
is among all runs so far, and the less, the more often it was chosen already (AFLFast's power schedule in small).

Of some of what was new it is known behind how many steps it was reached: a run can go on from there (Go-Explore).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

import msgspec

from zabka.simulation.kernel.tape import Tape

NEWS_WEIGHED = 48
CANDIDATES = 16
"""So many are weighed against one another; all of them would take as long as a run."""

NOWHERE: Mapping[int, int] = MappingProxyType({})


class Kept(msgspec.Struct):
    """A tape, what it was the first to reach, behind how many steps, where that is known, and how often it was chosen
    since."""

    tape: Tape
    news: list[int]
    chosen: int = 0
    places: dict[int, int] = {}


class Corpus:
    """All of them; `reached` says how often at most each feature was reached in one run, `hits` in how many runs."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.reached: dict[int, int] = {}
        self.hits: dict[int, int] = {}

    def keep_run(self, tape: Tape, reached: dict[int, int], places: Mapping[int, int] = NOWHERE) -> Kept | None:
        """Note what a run reached, and behind how many steps; the tape, if it is kept for that."""
        news = [feature for feature, count in reached.items() if self.reached.get(feature, 0) < count]
        for feature, count in reached.items():
            self.hits[feature] = self.hits.get(feature, 0) + 1
            if self.reached.get(feature, 0) < count:
                self.reached[feature] = count
        if not news:
            return None
        placed = [feature for feature in news if feature in places][-NEWS_WEIGHED:]
        kept = Kept(tape, news[:NEWS_WEIGHED], places={feature: places[feature] for feature in placed})
        self.kept.append(kept)
        return kept

    def choose(self, random: Random) -> Kept:
        """One of them to be changed.  There must be one."""
        asked = [self.kept[random.randrange(len(self.kept))] for _ in range(CANDIDATES)]
        weights = [sum(1 / self.hits.get(feature, 1) for feature in kept.news) / (1 + kept.chosen) for kept in asked]
        chosen = random.choices(asked, weights)[0]
        chosen.chosen += 1
        return chosen

    def place(self, kept: Kept, random: Random) -> int:
        """Behind how many steps this one reached something rare; 0 where that is not known."""
        if not kept.places:
            return 0
        return random.choices([*kept.places.values()], [1 / self.hits.get(feature, 1) for feature in kept.places])[0]

    def any(self, random: Random) -> Tape:
        """Any of them, to cross another with.  There must be one."""
        return self.kept[random.randrange(len(self.kept))].tape

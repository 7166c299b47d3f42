"""Stores the choice sequences that reached new features, and selects the next choice sequence to mutate.

A choice sequence is kept if it is the first to reach a feature, or reaches it more often than any earlier one. The
selection prefers choice sequences with features that are rare among all runs, and choice sequences that were rarely
selected before (a small version of AFLFast's power schedule).

For some features, the number of steps before them is known, so that a run can repeat these steps and then continue with
new ones (Go-Explore).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

import msgspec

from zabka.simulation.choices import Choices

NEWS_WEIGHED = 48
CANDIDATES = 16
"""Number of choice sequences compared in one selection. Comparing all of them would take as long as a run."""

NOWHERE: Mapping[int, int] = MappingProxyType({})


class Kept(msgspec.Struct):
    """A kept choice sequence.

    `news` lists the features that this sequence reached first, or more often than any earlier sequence. `chosen` counts
    how often it has been selected, and `places` maps features to the number of steps before them, where known.
    """

    choices: Choices
    news: list[int]
    chosen: int = 0
    places: dict[int, int] = {}


class Corpus:
    """All kept choice sequences of a search.

    `reached` is the highest count of each feature in any one run, and `hits` the number of runs that reached the
    feature.
    """

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.reached: dict[int, int] = {}
        self.hits: dict[int, int] = {}

    def keep_run(self, choices: Choices, reached: dict[int, int], places: Mapping[int, int] = NOWHERE) -> Kept | None:
        """Update the corpus with the features that a run reached.

        `places` maps features to the number of steps before them. Return the choice sequence if the corpus keeps it,
        else None.
        """
        news = [feature for feature, count in reached.items() if self.reached.get(feature, 0) < count]
        for feature, count in reached.items():
            self.hits[feature] = self.hits.get(feature, 0) + 1
            if self.reached.get(feature, 0) < count:
                self.reached[feature] = count
        if not news:
            return None
        placed = [feature for feature in news if feature in places][-NEWS_WEIGHED:]
        kept = Kept(choices, news[:NEWS_WEIGHED], places={feature: places[feature] for feature in placed})
        self.kept.append(kept)
        return kept

    def choose(self, random: Random) -> Kept:
        """Select a choice sequence to mutate. The corpus must not be empty."""
        asked = [self.kept[random.randrange(len(self.kept))] for _ in range(CANDIDATES)]
        weights = [sum(1 / self.hits.get(feature, 1) for feature in kept.news) / (1 + kept.chosen) for kept in asked]
        chosen = random.choices(asked, weights)[0]
        chosen.chosen += 1
        return chosen

    def place(self, kept: Kept, random: Random) -> int:
        """Select one of the features that the choice sequence reached, preferably a rare one.

        Return the number of steps before that feature, or 0 if no feature's position is known.
        """
        if not kept.places:
            return 0
        return random.choices([*kept.places.values()], [1 / self.hits.get(feature, 1) for feature in kept.places])[0]

    def any(self, random: Random) -> Choices:
        """Select any choice sequence at random, for a crossover. The corpus must not be empty."""
        return self.kept[random.randrange(len(self.kept))].choices

"""The tapes that reached something new, and which of them to change next.

A tape is kept for what it was the first to reach, or to reach more often.  It is chosen the more often, the rarer that
is among all runs so far, and the less, the more often it was chosen already (AFLFast's power schedule in small).
"""

from __future__ import annotations

from random import Random

import msgspec

from simulation.kernel.tape import Tape

NEWS_WEIGHED = 48
CANDIDATES = 16
"""So many are weighed against one another; all of them would take as long as a run."""


class Kept(msgspec.Struct):
    """A tape, what it was the first to reach, and how often it was chosen since."""

    tape: Tape
    news: list[int]
    chosen: int = 0


class Corpus:
    """All of them; `reached` says how often at most each feature was reached in one run, `hits` in how many runs."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.reached: dict[int, int] = {}
        self.hits: dict[int, int] = {}

    def take(self, tape: Tape, reached: dict[int, int]) -> Kept | None:
        """Note what a run reached; the tape, if it is kept for that."""
        news = [feature for feature, count in reached.items() if self.reached.get(feature, 0) < count]
        for feature, count in reached.items():
            self.hits[feature] = self.hits.get(feature, 0) + 1
            if self.reached.get(feature, 0) < count:
                self.reached[feature] = count
        if not news:
            return None
        kept = Kept(tape, news[:NEWS_WEIGHED])
        self.kept.append(kept)
        return kept

    def choose(self, random: Random) -> Tape:
        """A tape to be changed.  There must be one."""
        asked = [self.kept[random.randrange(len(self.kept))] for _ in range(CANDIDATES)]
        weights = [sum(1 / self.hits.get(feature, 1) for feature in kept.news) / (1 + kept.chosen) for kept in asked]
        chosen = random.choices(asked, weights)[0]
        chosen.chosen += 1
        return chosen.tape

    def any(self, random: Random) -> Tape:
        """Any of them, to cross another with.  There must be one."""
        return self.kept[random.randrange(len(self.kept))].tape

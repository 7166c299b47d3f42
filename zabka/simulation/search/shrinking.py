"""Shortens a finding: removes actions and faults, sets values to zero, and resets streams to the values from the seed.

Each attempt is a run, which succeeds if it violates the same invariant. The size of removed spans is halved after each
pass, as in delta debugging (Zeller and Hildebrandt, 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zabka.simulation.choices import STRIKE, Choices, Stream
from zabka.simulation.faults.actions import ACTIONS
from zabka.simulation.search.mutation import unit_of
from zabka.simulation.search.protocol import STEPS

Shows = Callable[[Choices], Choices | None]
"""Runs a choice sequence.

Returns the complete sequence of the choices that the run made if the run has the violation, else None.
"""
ENDING = (ACTIONS, STEPS)
"""Streams in which values of zero select steps that do nothing."""


class Shrinking:
    """Shortens the choice sequence of one finding within a limited number of runs."""

    def __init__(self, choices: Choices, shows: Shows, runs_max: int) -> None:
        self.choices = choices
        self.runs = 0
        self._shows = shows
        self._runs_max = runs_max

    def shrink(self) -> Choices:
        """Return the shortest choice sequence found that still has the violation."""
        self._without_other_streams()
        self._without_faults()
        for purpose in ENDING:
            if purpose in self.choices.streams:
                self._end(purpose)
                self._shorten(purpose)
                self._level(purpose)
                self._without_pairs(purpose)
        return self.choices

    def _holds(self, choices: Choices) -> bool:
        """Return whether the run of this choice sequence has the violation.

        If it has, this choice sequence becomes the current one.
        """
        if self.runs >= self._runs_max:
            return False
        self.runs += 1
        if self._shows(choices) is None:
            return False
        self.choices = choices
        return True

    def _without_other_streams(self) -> None:
        """Reset as many streams as possible to the values from the seed, except the streams of actions and steps."""
        streams = self.choices.streams
        if self._holds(Choices(self.choices.seed, {name: each for name, each in streams.items() if name in ENDING})):
            return
        for purpose in [name for name in streams if name not in ENDING]:
            self._holds(Choices(self.choices.seed, {n: e for n, e in self.choices.streams.items() if n != purpose}))

    def _without_faults(self) -> None:
        """Remove as many faults as possible, if each fault has its own stream."""
        written = self._shows(self.choices)
        self.runs += 1
        if written is None:
            return
        comes = {name: each.words for name, each in written.streams.items() if name.startswith(STRIKE)}
        left = [name for name, words in comes.items() if len(words) > 1 and words[1]]
        size = max(1, len(left) // 2)
        while size and left:
            begin = 0
            while begin < len(left):
                out = {name: Stream(words=(comes[name][0], 0)) for name in left[begin : begin + size]}
                if self._holds(Choices(self.choices.seed, {**self.choices.streams, **out})):
                    del left[begin : begin + size]
                else:
                    begin += size
            size //= 2

    def _end(self, purpose: str) -> None:
        """Try to set all values after the recorded ones to zero, so that nothing happens after the recorded part."""
        self._holds(self.choices.changed(purpose, Stream(words=self.choices.streams[purpose].words, ends=True)))

    def _shorten(self, purpose: str) -> None:
        unit = unit_of(purpose)
        size = max(1, len(self.choices.streams[purpose].words) // unit // 2)
        while size:
            begin = 0
            while begin * unit < len(self.choices.streams[purpose].words):
                stream = self.choices.streams[purpose]
                left = stream.words[: begin * unit] + stream.words[(begin + size) * unit :]
                if not self._holds(
                    self.choices.changed(purpose, Stream(words=left, tail=stream.tail, ends=stream.ends))
                ):
                    begin += size
            size //= 2

    def _without_pairs(self, purpose: str) -> None:
        """Remove pairs of actions. An action that holds messages can only be removed together with the action that
        releases them.
        """
        unit = unit_of(purpose)
        one = 0
        while (one + 1) * unit < len(self.choices.streams[purpose].words):
            if not any(self._holds(choices) for choices in self._without_it_and_another(purpose, one)):
                one += 1

    def _without_it_and_another(self, purpose: str, one: int) -> Iterator[Choices]:
        unit, stream = unit_of(purpose), self.choices.streams[purpose]
        words = stream.words
        for other in range(one + 1, len(words) // unit):
            left = words[: one * unit] + words[(one + 1) * unit : other * unit] + words[(other + 1) * unit :]
            yield self.choices.changed(purpose, Stream(words=left, tail=stream.tail, ends=stream.ends))

    def _level(self, purpose: str) -> None:
        """Set to zero every recorded value that does not matter for the violation."""
        for place in range(len(self.choices.streams[purpose].words)):
            stream = self.choices.streams[purpose]
            if stream.words[place]:
                words = (*stream.words[:place], 0, *stream.words[place + 1 :])
                self._holds(self.choices.changed(purpose, Stream(words=words, tail=stream.tail, ends=stream.ends)))

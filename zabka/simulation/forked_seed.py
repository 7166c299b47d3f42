"""Random numbers of a run and its forks, so that both have the same faults before and after the change.

A fork is played from the start, with the same seed, so it draws the same numbers as the run until the change. Faults
are drawn from a stream of numbers, and how many numbers a fault takes depends on the state of the world. After the
change, the fork therefore continues each fault with the numbers that the run drew there: the faults that follow have
the same times and, as far as they can, the same targets. A fork of a fork continues with the numbers of that fork. A
future, in contrast, draws other numbers after the moment at which it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple


class Drawn(NamedTuple):
    """State of the nemesis before it drew a fault or the pause before a fault.

    It contains the state of the random numbers and the number of the last fault.
    """

    state: tuple[Any, ...]
    faults: int


class ForkedSeed(int):
    """The seed of a run that can be forked, or, with the draws of such a run, of its fork.  Use it like any seed."""

    drawn: list[Drawn]
    """State of the nemesis before each of its draws, in order."""

    def __new__(cls, seed: int, drawn: Sequence[Drawn] = (), future: int | None = None) -> ForkedSeed:
        """Create a seed with the integer value `seed`.

        `drawn` are the draws of the run that is forked. `future` is the number of one possible continuation of the
        run, or None. Until `begin_future` is called, the random streams have the same numbers as those of the run.
        Afterwards, they have the numbers of this continuation.
        """
        made = super().__new__(cls, seed)
        made.drawn, made._original, made._future = [], drawn, future
        made._streams, made._has_begun = [], False
        return made

    _original: Sequence[Drawn]
    _future: int | None
    _streams: list[tuple[str, Random]]
    _has_begun: bool

    def stream(self, purpose: str, seeded: Callable[[int], Random]) -> Random:
        """Return the random stream for a purpose; `seeded` creates the stream of a plain seed."""
        if self._future is None:
            return seeded(int(self))
        random = seeded(self._number("") if self._has_begun else int(self))
        self._streams.append((purpose, random))
        return random

    def begin_future(self, number: int) -> None:
        """Make all random streams continue with the numbers of the future `number`.

        The numbers are derived from the seed and the number of the future. The seed must have been created with the
        number of a future, because only then are its streams known.
        """
        assert self._future is not None
        self._future = number
        self._has_begun = True
        for place, (purpose, random) in enumerate(self._streams):
            random.seed(self._number(f"/{place}/{purpose}"))

    def _number(self, purpose: str) -> int:
        return int.from_bytes(sha256(f"{int(self)}/future {self._future}{purpose}".encode()).digest()[:16], "big")

    def align(self, random: Random, faults: int) -> int:
        """Record the nemesis's state before its next draw; in a fork, first restore the run's state before that draw.

        `faults` is the number of the last fault. Return the number after which the next fault is numbered. A future
        that has begun keeps its own state.
        """
        place = len(self.drawn)
        if place < len(self._original) and not self._has_begun:
            known = self._original[place]
            random.setstate(known.state)
            faults = max(faults, known.faults)
        self.drawn.append(Drawn(random.getstate(), faults))
        return faults

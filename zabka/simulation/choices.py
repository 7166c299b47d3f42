"""Choice sequences: a run's recorded random draws, used to replay the run with a few choices changed.

A run draws all its random numbers from streams, one stream for each purpose (`zabka.simulation.draws`).  A choice
sequence defines the values of some of these streams; the other streams are derived from its seed.  So an empty choice
sequence gives the same history as its seed alone, byte for byte.

A choice is a 64-bit word: `getrandbits(k)` returns its k highest bits, `random()` its 53 highest.  In every draw, the
smallest word selects the first, shortest or smallest option.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

WORD_BITS = 64
WORD_MAX = (1 << WORD_BITS) - 1
FLOAT_BITS = 53
RECORDED_MAX = 1_024
"""The maximum number of random values (64-bit words) that are recorded per stream."""

AGAIN = " again "
STRIKE = "strike "
"""Prefix of the names of random streams for single faults; the number of the fault follows the prefix."""


class Stream(msgspec.Struct, frozen=True, omit_defaults=True):
    """Values of one random stream.

    The first values come from the seed's stream, and `own` is their number. The values in `words` follow. `tail` and
    `ends` define the values after `words`.
    """

    own: int = 0
    words: tuple[int, ...] = ()
    tail: int | None = None
    """Seed of the values that follow `words`; if it is None, the seed of the choice sequence is used."""
    ends: bool = False
    """Whether all values after `words` are zero."""


class Choices(msgspec.Struct, frozen=True, omit_defaults=True):
    """A choice sequence: a seed, and the streams that differ from the seed's streams, keyed by purpose."""

    seed: int
    streams: dict[str, Stream] = {}

    def changed(self, purpose: str, stream: Stream) -> Choices:
        """Return a copy of this choice sequence with another stream for that purpose."""
        return Choices(self.seed, {**self.streams, purpose: stream})


class ReplayedSeed(int):
    """The seed of a run that replays a choice sequence.  It can be used like any seed, and records all draws."""

    choices: Choices
    players: dict[str, Player]

    def __new__(cls, choices: Choices) -> ReplayedSeed:
        """Create a seed whose integer value is the seed of the choice sequence."""
        seed = super().__new__(cls, choices.seed)
        seed.choices, seed.players = choices, {}
        return seed

    def stream(self, purpose: str, seeded: Callable[[int], Random]) -> Random:
        """Return the choice sequence's stream for a purpose; `seeded` creates the stream of a plain seed."""
        # If a purpose is requested again, a plain seed returns a new stream with the same values, but a choice sequence
        # stores its values under another name.
        again = sum(name.partition(AGAIN)[0] == purpose for name in self.players)
        name = f"{purpose}{AGAIN}{again}" if again else purpose
        player = self.players[name] = Player(self.choices.streams.get(name, Stream()), self.choices.seed, seeded)
        return player

    def recorded(self) -> dict[str, tuple[int, ...]]:
        """Return the values drawn from every stream, except streams with more than RECORDED_MAX values."""
        return {purpose: tuple(player.given) for purpose, player in self.players.items() if not player.is_busy}

    def busy(self) -> dict[str, int]:
        """Return the number of drawn values for each stream from which more than RECORDED_MAX values were drawn."""
        return {purpose: player.count for purpose, player in self.players.items() if player.is_busy}


class Player(Random):
    """A random stream that returns the values that a choice sequence defines."""

    def __init__(self, stream: Stream, seed: int, seeded: Callable[[int], Random]) -> None:
        super().__init__(0)
        self.given: list[int] = []
        self.count = 0
        self._words = stream.words
        self._begin, self._end = stream.own, stream.own + len(stream.words)
        own = seeded(seed)
        self._before = own
        self._behind = own if stream.tail is None and not stream.words else seeded(stream.tail or seed)
        self._ends = stream.ends

    @property
    def is_busy(self) -> bool:
        """Whether the run drew more than RECORDED_MAX random values from this stream, in which case the stream is not
        recorded.
        """
        return self.count > RECORDED_MAX

    def getrandbits(self, k: int, /) -> int:
        """Return the highest bits of the next word, or of several words if k is over 64."""
        drawn = done = 0
        while done < k:
            bits = min(k - done, WORD_BITS)
            drawn |= self._next_bits(bits) << done
            done += bits
        return drawn

    def random(self) -> float:
        """Return the 53 highest bits of the next word as a fraction in [0, 1)."""
        source = self._source()
        if source is None:
            word = self._word()
            self._note(word)
            return (word >> (WORD_BITS - FLOAT_BITS)) * 2.0**-FLOAT_BITS
        value = source.random()
        self._note(int(value * 2.0**FLOAT_BITS) << (WORD_BITS - FLOAT_BITS))
        return value

    def _next_bits(self, bits: int) -> int:
        source = self._source()
        if source is None:
            word = self._word()
            self._note(word)
            return word >> (WORD_BITS - bits)
        value = source.getrandbits(bits)
        self._note(value << (WORD_BITS - bits))
        return value

    def _source(self) -> Random | None:
        """Return the generator for the next draw, or None if the choice sequence defines the value or the value is
        zero.
        """
        if self.count < self._begin:
            return self._before
        if self.count < self._end or self._ends:
            return None
        return self._behind

    def _word(self) -> int:
        return self._words[self.count - self._begin] if self.count < self._end else 0

    def _note(self, word: int) -> None:
        if self.count < RECORDED_MAX:
            self.given.append(word)
        self.count += 1

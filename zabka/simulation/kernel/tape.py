"""Tapes of choices: what a run draws, written down, so that it can be played again with a few choices changed.

Everything that a run leaves to chance it draws from a stream of random numbers, one for each purpose
(`zabka.simulation.kernel.draws`).  A tape says what some of these streams give; all others are those of its seed.  So
the tape of a plain seed says nothing, and its history is that seed's, byte for byte.

A choice is a word of 64 bits: `getrandbits(k)` is its k highest, `random()` its 53 highest.  The smallest word makes
the first, the shortest, the least of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

WORD_BITS = 64
WORD_MAX = (1 << WORD_BITS) - 1
FLOAT_BITS = 53
RECORDED_MAX = 1_024
"""Of a stream that gives more than that it is not known what it gave."""

AGAIN = " again "
STRIKE = "strike "
"""What the streams of single faults are called, each with its number: when it comes, whether it comes, and what."""


class Stream(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one stream gives: so many draws of the seed's own, then these words, then what `tail` says."""

    own: int = 0
    words: tuple[int, ...] = ()
    tail: int | None = None
    """The seed of all that follows; None for the tape's own."""
    ends: bool = False
    """Nothing but zeros follows."""


class Tape(msgspec.Struct, frozen=True, omit_defaults=True):
    """A seed, and what is changed of its streams, by their purposes."""

    seed: int
    streams: dict[str, Stream] = {}

    def changed(self, purpose: str, stream: Stream) -> Tape:
        """This tape with another such stream."""
        return Tape(self.seed, {**self.streams, purpose: stream})


class TapedSeed(int):
    """The seed of a run that plays a tape.  It is used as any seed, and remembers what was drawn."""

    tape: Tape
    players: dict[str, Player]

    def __new__(cls, tape: Tape) -> TapedSeed:
        """The number is the tape's own seed."""
        seed = super().__new__(cls, tape.seed)
        seed.tape, seed.players = tape, {}
        return seed

    def stream(self, purpose: str, seeded: Callable[[int], Random]) -> Random:
        """What the tape gives for a purpose; `seeded` makes the stream that a plain seed has for it."""
        # Whoever asks for the same purpose again gets the same of a plain seed, and a stream of its own of a tape.
        again = sum(name.partition(AGAIN)[0] == purpose for name in self.players)
        name = f"{purpose}{AGAIN}{again}" if again else purpose
        player = self.players[name] = Player(self.tape.streams.get(name, Stream()), self.tape.seed, seeded)
        return player

    def recorded(self) -> dict[str, tuple[int, ...]]:
        """What every stream gave, but for those that gave too much of it."""
        return {purpose: tuple(player.given) for purpose, player in self.players.items() if not player.is_busy}

    def busy(self) -> dict[str, int]:
        """The others, and how many words each of them gave."""
        return {purpose: player.count for purpose, player in self.players.items() if player.is_busy}


class Player(Random):
    """A stream that gives what a tape says."""

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
        """Has it given more than was written down?"""
        return self.count > RECORDED_MAX

    def getrandbits(self, k: int, /) -> int:
        """The highest bits of the next word, or of several words."""
        drawn = done = 0
        while done < k:
            bits = min(k - done, WORD_BITS)
            drawn |= self._next_bits(bits) << done
            done += bits
        return drawn

    def random(self) -> float:
        """The highest bits of the next word, as a fraction."""
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
        """What the next draw is made from; None where the tape itself says."""
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

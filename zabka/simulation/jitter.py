"""Jitter: the random part of a run's schedule, and seeds that have jitter only in some spans of virtual time.

The schedule of a run is the order in which its events happen. It follows from random choices: the latency of each
segment, the delay before each turn of an event loop, the duration of jobs and of syncs, and the size of reads. Without
jitter, a choice takes its smallest value, or for a read its whole size. The values that programs and servers themselves
draw, such as session passwords, are no part of the schedule.

A run with less jitter is easier to understand: if a failure needs jitter only between 3.12 and 3.15 s, the cause of the
failure is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

NO_JITTER = "none"
NEARLY_ONE = 1.0 - 2.0**-53


class Span(NamedTuple):
    """A span of virtual time in µs, without its end."""

    begin_us: int
    end_us: int


class JitteredSeed(int):
    """The seed of a run that has jitter only in some spans of virtual time.  Use it like any seed, for one run."""

    spans: tuple[Span, ...]
    now_us: Callable[[], int]
    choices: int
    """Number of choices of the schedule so far."""
    simplified: int
    """Number of these choices that were made without jitter."""

    def __new__(cls, seed: int, spans: Iterable[Span]) -> JitteredSeed:
        """Create a seed with the integer value `seed`.  The world of the seed must set `now_us` to its clock."""
        made = super().__new__(cls, seed)
        made.spans, made.choices, made.simplified = tuple(spans), 0, 0
        made.now_us = lambda: 0
        return made

    def choose(self) -> bool:
        """Count a choice, and return whether it has jitter."""
        self.choices += 1
        now_us = self.now_us()
        for span in self.spans:
            if span.begin_us <= now_us < span.end_us:
                return True
        self.simplified += 1
        return False


class _Jitter(Random):
    """A random stream of the schedule, whose values are constant where the run has no jitter."""

    def __init__(self, seed: JitteredSeed, random: Random) -> None:
        super().__init__(0)
        self._seed = seed
        self._drawn = random

    def getrandbits(self, k: int, /) -> int:
        drawn = self._drawn.getrandbits(k)
        return drawn if self._seed.choose() else 0

    def random(self) -> float:
        drawn = self._drawn.random()
        return drawn if self._seed.choose() else NEARLY_ONE


def scheduling(seed: int, random: Random) -> Random:
    """Return the random stream that makes choices of the schedule with the values of `random`.

    It is `random` itself unless the seed is a `JitteredSeed`.
    """
    return _Jitter(seed, random) if isinstance(seed, JitteredSeed) else random


def text_of(spans: Iterable[Span]) -> str:
    """Return spans as text for a command: virtual seconds, such as "3.12-3.15,4-5", or "none"."""
    return ",".join(f"{_seconds(span.begin_us)}-{_seconds(span.end_us)}" for span in spans) or NO_JITTER


def _seconds(time_us: int) -> str:
    whole, rest = divmod(time_us, 1_000_000)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")


def spans_of(text: str) -> list[Span]:
    """Parse text from `text_of`. Raises ValueError."""
    if text == NO_JITTER:
        return []
    ends = [part.partition("-") for part in text.split(",")]
    return [Span(round(float(begin) * 1e6), round(float(end) * 1e6)) for begin, _, end in ends]


def without(spans: Iterable[Span], left_out: Span) -> list[Span]:
    """Return the parts of `spans` outside `left_out`."""
    parts: list[Span] = []
    for span in spans:
        before = Span(span.begin_us, min(span.end_us, left_out.begin_us))
        after = Span(max(span.begin_us, left_out.end_us), span.end_us)
        parts += [part for part in (before, after) if part.begin_us < part.end_us]
    return parts

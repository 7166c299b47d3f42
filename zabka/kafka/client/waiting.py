"""How long a producer wanted to write and could not: the measure of client availability.

A write keeps its client waiting if it is not acknowledged, or only after SLOW_MS.  Then all of its time counts, from
its beginning to its acknowledgement or failure.  Times of writes that overlap count once.  The tables of journals and
the campaigns use this definition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

SLOW_MS = 1_000
"""A write that takes longer counts as an outage for its client."""

Span = tuple[int, int]
"""A time, from its beginning to its end."""


def united(spans: Iterable[Span]) -> int:
    """Return how much time these spans cover together."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        begin = begin if reached is None else max(begin, reached)
        total += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return total


class WaitingTime:
    """Adds up the time in which at least one write of a producer waits; pure, all times in milliseconds."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, int] = {}
        self._waited: list[Span] = []
        self._settled_ms = 0

    def begin(self, write: Hashable, now_ms: int) -> None:
        """Note that this write begins, unless it has begun before."""
        self._begun.setdefault(write, now_ms)

    def end(self, write: Hashable, now_ms: int, *, acknowledged: bool) -> None:
        """Note that this write ended, if it had begun."""
        begun_ms = self._begun.pop(write, now_ms)
        if not acknowledged or now_ms - begun_ms > SLOW_MS:
            self._waited.append((begun_ms, now_ms))
        self._settle(now_ms)

    def total_ms(self, now_ms: int) -> int:
        """Return the time waited so far, with that of the writes that have waited for longer than SLOW_MS."""
        slow = [(begun_ms, now_ms) for begun_ms in self._begun.values() if now_ms - begun_ms > SLOW_MS]
        return self._settled_ms + united([*self._waited, *slow])

    def _settle(self, now_ms: int) -> None:
        """Add up the spans before the oldest write in flight: no later span reaches back to them."""
        oldest_ms = min(self._begun.values(), default=now_ms)
        self._settled_ms += united((begin, min(end, oldest_ms)) for begin, end in self._waited if begin < oldest_ms)
        self._waited = [(max(begin, oldest_ms), end) for begin, end in self._waited if end > oldest_ms]

"""The time for which a producer wanted to write and could not: the measure of client availability.

A write makes its client wait if it is not acknowledged, or only after SLOW_MS. In that case all of its time counts,
from its start to its acknowledgement or failure. The times of overlapping writes count once. The tables of journals and
the campaigns use this definition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

SLOW_MS = 1_000
"""The limit for the duration of a write; a longer write counts as an outage for its client."""

Span = tuple[int, int]
"""A time span: its start and its end."""


def united(spans: Iterable[Span]) -> int:
    """Return the total time that these spans cover, counting overlaps once."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        begin = begin if reached is None else max(begin, reached)
        total += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return total


class WaitingTime:
    """Adds up the time in which at least one write of a producer waits. It is pure; all times are in milliseconds."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, int] = {}
        self._waited: list[Span] = []
        self._settled_ms = 0

    def begin(self, write: Hashable, now_ms: int) -> None:
        """Record the start of this write, unless it has started already."""
        self._begun.setdefault(write, now_ms)

    def end(self, write: Hashable, now_ms: int, *, acknowledged: bool) -> None:
        """Record the end of this write, if it had started."""
        begun_ms = self._begun.pop(write, now_ms)
        if not acknowledged or now_ms - begun_ms > SLOW_MS:
            self._waited.append((begun_ms, now_ms))
        self._settle(now_ms)

    def total_ms(self, now_ms: int) -> int:
        """Return the total waiting time so far, including pending writes that have waited for longer than SLOW_MS."""
        slow = [(begun_ms, now_ms) for begun_ms in self._begun.values() if now_ms - begun_ms > SLOW_MS]
        return self._settled_ms + united([*self._waited, *slow])

    def _settle(self, now_ms: int) -> None:
        """Add up the spans before the oldest write in flight, because no later span can overlap them."""
        oldest_ms = min(self._begun.values(), default=now_ms)
        self._settled_ms += united((begin, min(end, oldest_ms)) for begin, end in self._waited if begin < oldest_ms)
        self._waited = [(max(begin, oldest_ms), end) for begin, end in self._waited if end > oldest_ms]

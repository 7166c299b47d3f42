"""The time during which a producer had to wait for its writes: the measure of availability for clients.

A write counts as waiting if it is acknowledged after more than SLOW_MS, or never. The whole time of such a write
counts, from its start to its acknowledgement or failure. The times of overlapping writes count once. The tables of
journals and the campaigns use this definition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

SLOW_MS = 1_000
"""Maximum duration of a write that does not count as waiting."""

Span = tuple[int, int]
"""A period: its start and its end."""


def united(spans: Iterable[Span]) -> int:
    """Return the total time that these periods cover. Overlaps count once."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        begin = begin if reached is None else max(begin, reached)
        total += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return total


class WaitingTime:
    """Sums up the time during which at least one write of a producer waits.

    It does no I/O; all times are in milliseconds.
    """

    def __init__(self) -> None:
        self._begun: dict[Hashable, int] = {}
        self._waited: list[Span] = []
        self._settled_ms = 0

    def begin(self, write: Hashable, now_ms: int) -> None:
        """Record that a write starts at `now_ms`, unless it has started already."""
        self._begun.setdefault(write, now_ms)

    def end(self, write: Hashable, now_ms: int, *, acknowledged: bool) -> None:
        """Record that a write ends at `now_ms`, if it had started."""
        begun_ms = self._begun.pop(write, now_ms)
        if not acknowledged or now_ms - begun_ms > SLOW_MS:
            self._waited.append((begun_ms, now_ms))
        self._settle(now_ms)

    def total_ms(self, now_ms: int) -> int:
        """Return the total waiting time so far. Writes still in flight are included if they take longer than
        SLOW_MS.
        """
        slow = [(begun_ms, now_ms) for begun_ms in self._begun.values() if now_ms - begun_ms > SLOW_MS]
        return self._settled_ms + united([*self._waited, *slow])

    def _settle(self, now_ms: int) -> None:
        """Sum up the periods before the start of the oldest write in flight, because no later period can overlap
        them.
        """
        oldest_ms = min(self._begun.values(), default=now_ms)
        self._settled_ms += united((begin, min(end, oldest_ms)) for begin, end in self._waited if begin < oldest_ms)
        self._waited = [(max(begin, oldest_ms), end) for begin, end in self._waited if end > oldest_ms]

"""Decides whether the disk of the log syncs so fast that the event loop itself should wait for it.

Passing a group to the storage thread and back costs two thread switches, about as much as a sync of a good disk. With
one request in flight, that is half of a write's latency. So the event loop itself waits for a fast disk.

This is safe although the duration of the next sync is unknown. A peer whose disk stalls for seconds does not respond
during that time, as if it had been paused, and the protocol tolerates paused peers. After syncLimit the others continue
without it, and it has not acknowledged anything that is not synced. After a stall the thread waits for the disk
instead: for ten seconds after the first stall, and twice as long after each further stall that follows soon. So the
loop loses only a small part of its time on a bad disk.
"""

from __future__ import annotations

from collections import deque

WINDOW = 64
"""Number of recent syncs that are measured. After fewer syncs, the speed of the disk is unknown."""
STALL_NS = 100_000_000
"""A sync that takes at least this long is a stall, after which the event loop does not wait for syncs."""
BAR_NS_MIN = 10_000_000_000
BAR_NS_MAX = 600_000_000_000


class SyncPace:
    """Decides whether a disk is fast.

    A disk is fast if the median of its recent syncs is below `quick_us` (0: never) and no recent sync has stalled. On a
    busy machine, a sync often seems long only because the process waits for a core. The median ignores such syncs, so
    the disk still counts as fast there. This is important because a thread switch costs most on such a machine.
    """

    def __init__(self, quick_us: int) -> None:
        self._quick_ns = quick_us * 1000
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._quick_ones = 0
        self._bar_ns = 0
        self._barred_until_ns = 0

    def note(self, now_ns: int, took_ns: int) -> None:
        """Record a completed sync: its end time on the monotonic clock, and its duration."""
        if took_ns >= STALL_NS:
            self._stalled(now_ns)
            return
        recent = self._recent
        if len(recent) == WINDOW:
            self._quick_ones -= recent[0]
        recent.append(took_ns < self._quick_ns)
        self._quick_ones += recent[-1]

    def _stalled(self, now_ns: int) -> None:
        """Record a stall: discard the measurements and stop waiting in the event loop for a while."""
        soon = self._bar_ns and now_ns < self._barred_until_ns + self._bar_ns
        self._bar_ns = min(2 * self._bar_ns, BAR_NS_MAX) if soon else BAR_NS_MIN
        self._barred_until_ns = now_ns + self._bar_ns
        self._recent.clear()
        self._quick_ones = 0

    def is_quick(self, now_ns: int) -> bool:
        """Return whether the event loop should wait for the next sync."""
        known = len(self._recent) == WINDOW and 2 * self._quick_ones > WINDOW
        return known and (not self._bar_ns or now_ns >= self._barred_until_ns)

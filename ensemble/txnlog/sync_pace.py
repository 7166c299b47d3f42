"""Whether the log's disk syncs quickly enough to be waited for in the event loop.

To hand a group to the storage thread and to be called back costs two changes of threads, about as much as the sync of a
good disk takes: with one request in flight that is half of a write's latency.  So a quick disk is waited for in the
loop.  That is safe although nobody knows how long the next sync takes: a peer whose disk stalls for seconds is deaf for
that once, as if it had been paused, and the protocol lives with paused peers (beyond syncLimit the others go on without
it, and what it had not synced it had not acknowledged).  From then on the thread waits for the disk: for ten seconds
after the first stall, and twice as long after each that follows soon, so that what the loop loses on a bad disk stays a
small part of all time.
"""

from __future__ import annotations

from collections import deque

WINDOW = 64
"""By so many syncs the disk is judged; before there were so many it is not known."""
STALL_NS = 100_000_000
"""A sync of this length bars the loop from waiting for the next."""
BAR_NS_MIN = 10_000_000_000
BAR_NS_MAX = 600_000_000_000


class SyncPace:
    """Judges by the last syncs: quick is a disk whose median is below `quick_us` (0: none is), without a stall lately.

    The median, since on a busy machine a sync often seems long only because the process waits for a core; and it is
    just there that a change of threads costs most.
    """

    def __init__(self, quick_us: int) -> None:
        self._quick_ns = quick_us * 1000
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._quick_ones = 0
        self._bar_ns = 0
        self._barred_until_ns = 0

    def note(self, now_ns: int, took_ns: int) -> None:
        """A sync has ended, by the monotonic clock."""
        if took_ns >= STALL_NS:
            self._stalled(now_ns)
            return
        recent = self._recent
        if len(recent) == WINDOW:
            self._quick_ones -= recent[0]
        recent.append(took_ns < self._quick_ns)
        self._quick_ones += recent[-1]

    def _stalled(self, now_ns: int) -> None:
        """What was measured before says nothing any more."""
        soon = self._bar_ns and now_ns < self._barred_until_ns + self._bar_ns
        self._bar_ns = min(2 * self._bar_ns, BAR_NS_MAX) if soon else BAR_NS_MIN
        self._barred_until_ns = now_ns + self._bar_ns
        self._recent.clear()
        self._quick_ones = 0

    def is_quick(self, now_ns: int) -> bool:
        """Whether to wait for the next sync."""
        known = len(self._recent) == WINDOW and 2 * self._quick_ones > WINDOW
        return known and (not self._bar_ns or now_ns >= self._barred_until_ns)

"""Connections that were dropped because their other side broke a protocol: counted, and said once a second.

Whoever sends garbage may do so thousands of times a second; a line each would fill logs and journals.
"""

from __future__ import annotations

from collections.abc import Callable

SAY_EVERY_MS = 1_000

Say = Callable[[str, str, int], None]
"""(remote, reason, count): so many connections were dropped since the last word, this one as the last of them."""


class DroppedConnections:
    """The first is said at once; those of the second after it together, when it is over.

    `call_later(delay_ms, callback)` is the node's timer.
    """

    def __init__(self, say: Say, call_later: Callable[[int, Callable[[], None]], object]) -> None:
        self._say = say
        self._call_later = call_later
        self._waiting = False
        self._count = 0
        self._last = ("", "")

    def drop(self, remote: str, reason: str) -> None:
        """A connection was dropped."""
        self._count += 1
        self._last = (remote, reason)
        if not self._waiting:
            self._say_it()

    def _say_it(self) -> None:
        count, self._count = self._count, 0
        self._waiting = count > 0
        if count:
            self._say(*self._last, count)
            self._call_later(SAY_EVERY_MS, self._say_it)

"""Reports of dropped connections, combined by reason.

A rejected client or server usually retries, often many times a second, and one report for each attempt would fill logs
and journals. So the first connection dropped for a reason is reported at once. Later ones with the same reason are
reported together, at intervals that double from one second to a minute, or from another first interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable

REPORT_MIN_MS = 1_000
REPORT_MAX_MS = 60_000
REASONS_MAX = 8
"""Number of distinct reasons counted at the same time.

Connections dropped for any further reason count as one reason.
"""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")

Report = Callable[[str, str, int], None]
"""Callback (remote, reason, count): `count` connections were dropped since the last report.

`remote` and `reason` are those of the latest connection.
"""


class _Repeats:
    """The connections that were dropped for one reason since this reason was last reported."""

    __slots__ = ("count", "interval_ms", "reason", "remote")

    def __init__(self, interval_ms: int) -> None:
        self.count = 0
        self.interval_ms = interval_ms
        self.remote = self.reason = ""


class DroppedConnections:
    """Counts dropped connections, and reports them combined by reason.

    Reasons that differ only in numbers count as the same. `call_later(delay_ms, callback)` starts a timer of the node.
    `interval_ms` is the first interval; a longer one combines the attempts of a client that retries less often.
    """

    def __init__(
        self,
        report: Report,
        call_later: Callable[[int, Callable[[], None]], object],
        interval_ms: int = REPORT_MIN_MS,
    ) -> None:
        self._report = report
        self._call_later = call_later
        self._interval_ms = interval_ms
        self._repeats: dict[str, _Repeats] = {}

    def drop(self, remote: str, reason: str) -> None:
        """Count a dropped connection; report it now or with later ones."""
        kind = _NUMBER.sub("#", reason)
        if kind not in self._repeats and len(self._repeats) >= REASONS_MAX:
            kind = ""
        repeats = self._repeats.get(kind)
        if repeats is not None:
            repeats.count += 1
            repeats.remote, repeats.reason = remote, reason
            return
        self._repeats[kind] = _Repeats(self._interval_ms)
        self._report(remote, reason, 1)
        self._call_later(self._interval_ms, lambda: self._on_timer(kind))

    def _on_timer(self, kind: str) -> None:
        repeats = self._repeats[kind]
        count, repeats.count = repeats.count, 0
        if not count:
            del self._repeats[kind]
            return
        repeats.interval_ms = min(2 * repeats.interval_ms, REPORT_MAX_MS)
        self._call_later(repeats.interval_ms, lambda: self._on_timer(kind))
        self._report(repeats.remote, repeats.reason, count)

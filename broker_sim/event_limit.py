"""Limits events that clients can cause: equal ones have one event a minute, and a second has at most ten events."""

from __future__ import annotations

from collections.abc import Hashable

from zabka.ensemble.ports import Runtime

REPEATED_AFTER_MS = 60_000
"""Time during which an equal occurrence has no further event."""
EVENTS_PER_SECOND_MAX = 10
REMEMBERED_MAX = 1_000
TEXT_MAX = 260
"""Maximum length of a name in an event: clients choose names, and topic names have at most 249 characters."""
_SECOND_MS = 1_000


class EventLimit:
    """Decides which occurrences have an event, and counts those without one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._emitted_ms: dict[Hashable, int] = {}
        self._suppressed = 0
        self._second = -1
        self._in_second = 0

    def admit(self, occurrence: Hashable) -> int | None:
        """Return the number of occurrences without an event since the last event, or None if this one has no event."""
        now_ms = self._runtime.now().mono_ms
        second = now_ms // _SECOND_MS
        if second != self._second:
            self._second, self._in_second = second, 0
        emitted_ms = self._emitted_ms.get(occurrence)
        is_recent = emitted_ms is not None and now_ms - emitted_ms < REPEATED_AFTER_MS
        if is_recent or self._in_second >= EVENTS_PER_SECOND_MAX:
            self._suppressed += 1
            return None
        self._in_second += 1
        self._emitted_ms.pop(occurrence, None)
        self._emitted_ms[occurrence] = now_ms
        if len(self._emitted_ms) > REMEMBERED_MAX:
            del self._emitted_ms[next(iter(self._emitted_ms))]
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed

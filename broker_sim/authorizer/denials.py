"""Events about denied requests, at a limited rate."""

from __future__ import annotations

from typing import NamedTuple

from zabka.ensemble.ports import Runtime
from zabka.journal.events import AuthorizationDenied
from zabka.kafka.ports import Emit

REPEATED_AFTER_MS = 60_000
"""Time during which an equal denial has no further event."""
EVENTS_PER_SECOND_MAX = 10
REMEMBERED_MAX = 1_000
TEXT_MAX = 260
"""Maximum length of a name in an event: clients choose names, and topic names have at most 249 characters."""
_SECOND_MS = 1_000


class Denial(NamedTuple):
    """A denied operation, with the names that Kafka's tools use."""

    request: str
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    client_id: str


class Denials:
    """Emits an event for a denied request, unless an equal one was emitted lately or there are too many events.

    The next event contains the number of denials without an event.
    """

    def __init__(self, runtime: Runtime, emit: Emit, broker_id: int) -> None:
        self._runtime = runtime
        self._emit = emit
        self._broker_id = broker_id
        self._emitted_ms: dict[Denial, int] = {}
        self._suppressed = 0
        self._second = -1
        self._in_second = 0

    def note(self, denial: Denial) -> None:
        """Record a denied operation. Long names are cut."""
        denial = Denial(*(text[:TEXT_MAX] for text in denial))
        now_ms = self._runtime.now().mono_ms
        second = now_ms // _SECOND_MS
        if second != self._second:
            self._second, self._in_second = second, 0
        emitted_ms = self._emitted_ms.get(denial)
        is_recent = emitted_ms is not None and now_ms - emitted_ms < REPEATED_AFTER_MS
        if is_recent or self._in_second >= EVENTS_PER_SECOND_MAX:
            self._suppressed += 1
            return
        self._in_second += 1
        self._emitted_ms.pop(denial, None)
        self._emitted_ms[denial] = now_ms
        if len(self._emitted_ms) > REMEMBERED_MAX:
            del self._emitted_ms[next(iter(self._emitted_ms))]
        suppressed, self._suppressed = self._suppressed, 0
        self._emit(AuthorizationDenied(self._broker_id, **denial._asdict(), suppressed=suppressed))

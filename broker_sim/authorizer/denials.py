"""Events about denied requests, at a limited rate."""

from __future__ import annotations

from typing import NamedTuple

from zabka.broker_sim.event_limit import TEXT_MAX, EventLimit
from zabka.ensemble.ports import Runtime
from zabka.journal.events import AuthorizationDenied
from zabka.kafka.ports import Emit


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
        self._emit = emit
        self._broker_id = broker_id
        self._limit = EventLimit(runtime)

    def note(self, denial: Denial) -> None:
        """Record a denied operation. Long names are cut."""
        denial = Denial(*(text[:TEXT_MAX] for text in denial))
        suppressed = self._limit.admit(denial)
        if suppressed is not None:
            self._emit(AuthorizationDenied(self._broker_id, **denial._asdict(), suppressed=suppressed))

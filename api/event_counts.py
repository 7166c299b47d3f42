"""Counting what only the journal tells, for the metrics."""

from __future__ import annotations

from collections import Counter

from journal.events import ControllerElected, Entry, IsrChanged, LeaderElected, RecordsLost, SessionExpired


class EventCounts:
    """Counts what only the journal tells."""

    def __init__(self) -> None:
        self.isr: Counter[tuple[int, str]] = Counter()
        self.leader_elections = 0
        self.unclean_elections = 0
        self.controller_changes = 0
        self.sessions_expired = 0
        self.records_lost = 0
        self._isr_sizes: dict[tuple[str, int], int] = {}

    def take(self, entry: Entry) -> None:
        """Count one event."""
        event = entry.event
        if isinstance(event, IsrChanged):
            name = (event.topic, event.partition)
            before = self._isr_sizes.get(name, len(event.isr))
            if len(event.isr) != before:
                self.isr[event.leader, "shrinks" if len(event.isr) < before else "expands"] += 1
            self._isr_sizes[name] = len(event.isr)
        elif isinstance(event, LeaderElected):
            self.leader_elections += 1
            self.unclean_elections += event.unclean
            self._isr_sizes[event.topic, event.partition] = len(event.isr)
        elif isinstance(event, ControllerElected):
            self.controller_changes += 1
        elif isinstance(event, SessionExpired):
            self.sessions_expired += 1
        elif isinstance(event, RecordsLost):
            self.records_lost += event.count

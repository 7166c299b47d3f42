"""Event counts for the metrics that can only be derived from the journal."""

from __future__ import annotations

from collections import Counter

import msgspec

from zabka.journal.events import (
    ControllerElected,
    Entry,
    IsrChanged,
    LeaderElected,
    RecordsLost,
    SessionExpired,
    TopicDeleted,
    TransactionChanged,
)

_REPEATED = "loaded"
"""Reason of an event that repeats a state: a broker became the coordinator of an unfinished transaction."""


class StoredCounts(msgspec.Struct):
    """The event counts in the format stored on disk. Each row has key fields and a count."""

    isr: list[tuple[int, str, int]]
    isr_sizes: list[tuple[str, int, int]]
    leader_elections: int
    unclean_elections: int
    controller_changes: int
    sessions_expired: int
    records_lost: int
    transactions: dict[str, int] = {}
    transactions_begun: dict[str, int] = {}


class EventCounts:
    """Counts events of the journal for the metrics."""

    def __init__(self) -> None:
        self.isr: Counter[tuple[int, str]] = Counter()
        self.leader_elections = 0
        self.unclean_elections = 0
        self.controller_changes = 0
        self.sessions_expired = 0
        self.records_lost = 0
        self.transactions: Counter[str] = Counter()
        """Numbers of transactions, keyed by what happened to them: begun, committed, aborted or timed_out.

        The key `expired` has the number of expired transactional ids.
        """
        self._begun: dict[str, int] = {}
        """Start time of each open transaction, keyed by transactional id."""
        self._isr_sizes: dict[tuple[str, int], int] = {}

    def count_event(self, entry: Entry) -> None:
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
        elif isinstance(event, TransactionChanged):
            self._count_transaction(event)
        elif isinstance(event, TopicDeleted):
            for name in [name for name in self._isr_sizes if name[0] == event.topic]:
                del self._isr_sizes[name]

    def _count_transaction(self, event: TransactionChanged) -> None:
        """Count a transaction's begin or decision, or the expiry of a transactional id.

        Adding partitions to an open transaction does not count as another begin.
        """
        name = event.transactional_id
        if event.after == _REPEATED:
            return
        if event.state == "Ongoing":
            self.transactions["begun"] += self._begun.get(name) != event.started_ms
            self._begun[name] = event.started_ms
            return
        self._begun.pop(name, None)
        if event.state == "PrepareCommit":
            self.transactions["committed"] += 1
        elif event.state == "PrepareAbort":
            self.transactions["timed_out" if event.after == "timed out" else "aborted"] += 1
        elif event.after == "expired":
            self.transactions["expired"] += 1

    def as_counts(self) -> StoredCounts:
        """Return the counts in the format stored on disk."""
        return StoredCounts(
            isr=[(broker_id, way, number) for (broker_id, way), number in self.isr.items()],
            isr_sizes=[(topic, number, size) for (topic, number), size in self._isr_sizes.items()],
            leader_elections=self.leader_elections,
            unclean_elections=self.unclean_elections,
            controller_changes=self.controller_changes,
            sessions_expired=self.sessions_expired,
            records_lost=self.records_lost,
            transactions=dict(self.transactions),
            transactions_begun=dict(self._begun),
        )

    @classmethod
    def of(cls, stored: StoredCounts) -> EventCounts:
        """Restore the counts from the format stored on disk."""
        counts = cls()
        counts.isr = Counter({(broker_id, way): number for broker_id, way, number in stored.isr})
        counts._isr_sizes = {(topic, number): size for topic, number, size in stored.isr_sizes}
        counts.leader_elections = stored.leader_elections
        counts.unclean_elections = stored.unclean_elections
        counts.controller_changes = stored.controller_changes
        counts.sessions_expired = stored.sessions_expired
        counts.records_lost = stored.records_lost
        counts.transactions = Counter(stored.transactions)
        counts._begun = dict(stored.transactions_begun)
        return counts

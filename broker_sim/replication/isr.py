"""A leader's ISR: committed, or with a change that waits for the controller (Kafka's PartitionState, KIP-497).

While a change is pending, the leader uses the larger of the two ISRs, so that the high watermark cannot pass a replica
that may still be in the ISR.
"""

from __future__ import annotations

from dataclasses import dataclass

RECOVERED = 0
RECOVERING = 1
"""Leader recovery state (KIP-704): set by an unclean election, until the leader's first ISR change."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An ISR that the controller wrote."""

    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """All replicas that may be in the ISR."""
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class PendingExpand:
    """A proposed addition of replica `joining`. Until the response, acks=all also waits for that replica."""

    joining: int
    last_committed: Committed

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR, without the replica to be added."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and the replica to be added."""
        return (*self.last_committed.isr, self.joining)

    @property
    def proposed(self) -> tuple[int, ...]:
        """The proposed ISR: the committed ISR and the replica to be added."""
        return self.maximal_isr


@dataclass(frozen=True, slots=True, eq=False)
class PendingShrink:
    """A proposed removal of the replicas `leaving`. Until the response, they still count as in sync."""

    leaving: tuple[int, ...]
    last_committed: Committed

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR, which still includes the replicas to be removed."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR, which still includes the replicas to be removed."""
        return self.last_committed.isr

    @property
    def proposed(self) -> tuple[int, ...]:
        """The proposed ISR: the committed ISR without the replicas to be removed."""
        return tuple(broker for broker in self.last_committed.isr if broker not in self.leaving)


Pending = PendingExpand | PendingShrink
IsrState = Committed | Pending

"""The ISR as its leader sees it: committed, or waiting for the controller (Kafka's PartitionState, KIP-497).

While a change is pending the leader acts on whichever ISR is the more cautious one, so neither direction can move the
high watermark past a replica that might still count.
"""

from __future__ import annotations

from dataclasses import dataclass

RECOVERED = 0
RECOVERING = 1
"""Leader recovery states (KIP-704): RECOVERING after an unclean election, until the leader's first ISR change."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The controller wrote this ISR."""

    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Everybody who may count as in sync."""
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class PendingExpand:
    """`joining` was proposed; until the answer acks=all waits for it as well."""

    joining: int
    last_committed: Committed

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and the newcomer."""
        return (*self.last_committed.isr, self.joining)

    @property
    def proposed(self) -> tuple[int, ...]:
        """The ISR that was proposed."""
        return self.maximal_isr


@dataclass(frozen=True, slots=True, eq=False)
class PendingShrink:
    """`leaving` are proposed to go; until the answer they still count."""

    leaving: tuple[int, ...]
    last_committed: Committed

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR, from which nobody has gone yet."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self.last_committed.isr

    @property
    def proposed(self) -> tuple[int, ...]:
        """The ISR that was proposed."""
        return tuple(broker for broker in self.last_committed.isr if broker not in self.leaving)


Pending = PendingExpand | PendingShrink
IsrState = Committed | Pending

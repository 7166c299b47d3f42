"""How often each invariant had something to judge: a judge that never has is no judge."""

from __future__ import annotations

from collections.abc import Mapping


class Judged:
    """A count for each invariant, by its name."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def note(self, invariant: str, times: int = 1) -> None:
        """It was looked whether that invariant holds."""
        self.counts[invariant] = self.counts.get(invariant, 0) + times

    def add(self, others: Mapping[str, int]) -> None:
        """Counts of somebody else, on top of these."""
        for invariant, times in others.items():
            self.note(invariant, times)

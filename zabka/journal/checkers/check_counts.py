"""Number of checks per invariant. A checker that never had anything to check proves nothing."""

from __future__ import annotations

from collections.abc import Mapping


class CheckCounts:
    """Counts the checks of each invariant."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def note(self, invariant: str, times: int = 1) -> None:
        """Add `times` to the number of checks of an invariant."""
        self.counts[invariant] = self.counts.get(invariant, 0) + times

    def add(self, others: Mapping[str, int]) -> None:
        """Add the counts of another CheckCounts."""
        for invariant, times in others.items():
            self.note(invariant, times)

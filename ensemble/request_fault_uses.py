"""Decides to which matching requests a request fault is applied on one node, and when the fault ends.

Pure: the caller passes the time, the source of random numbers, and the counts that nodes share (`CountUse`). Because
the counts are shared, a fault for one request affects only one request, whichever node receives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from zabka.ensemble.request_fault import HeldRequestFault

Counts = dict[str, list[int]]
"""Counts on this node, keyed by rule id: (matching requests, requests to which the rule was applied)."""
MATCHED, USED = KINDS = "matched", "used"
"""Kinds of shared counts: matching requests, and requests to which the rule was applied.

A count is keyed by the rule id and the kind.
"""
CountUse = Callable[[str], int]
"""Function that increments the count with this key and returns the new value. Nodes share these counts."""


class SharedCounts:
    """Shared counts for nodes that run in one process, as in the simulated world."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, key: str) -> int:
        """Increment the count with this key and return the new value."""
        number = self._counts[key] = self._counts.get(key, 0) + 1
        return number


class FaultUses:
    """State of one rule on one node: how many requests matched, and to how many the rule was applied."""

    __slots__ = ("_count", "_is_used_up", "applied", "matched", "rule", "started_ms")

    def __init__(self, rule: HeldRequestFault, now_ms: int, count: CountUse) -> None:
        self.rule = rule
        self.started_ms = now_ms
        self.matched = self.applied = 0
        self._count = count
        self._is_used_up = False

    def is_over(self, now_ms: int) -> bool:
        """Return whether the rule has ended: its time is over, or it was applied as often as configured."""
        return self._is_used_up or bool(self.rule.for_ms and now_ms - self.started_ms >= self.rule.for_ms)

    def take(self, draw: Callable[[], float]) -> bool:
        """Count a matching request; return whether to apply the rule to it. `draw` returns a number in [0, 1)."""
        self.matched += 1
        rule = self.rule
        if rule.nth:
            number = self._count(f"{rule.id}.{MATCHED}")
            self._is_used_up = number >= rule.nth
            is_due = number == rule.nth
        elif rule.every:
            is_due = self._count(f"{rule.id}.{MATCHED}") % rule.every == 0
        else:
            is_due = rule.probability >= 1 or draw() < rule.probability
        if is_due and rule.times:
            used = self._count(f"{rule.id}.{USED}")
            self._is_used_up = used >= rule.times
            is_due = used <= rule.times
        self.applied += is_due
        return is_due


class ActiveFaults:
    """The active rules of one node, oldest first.

    At most one rule is applied to a request: the first one that is due.
    """

    def __init__(self, count: CountUse) -> None:
        self._uses: dict[str, FaultUses] = {}
        self._count = count

    def __bool__(self) -> bool:
        return bool(self._uses)

    def replace(self, rules: Iterable[HeldRequestFault], now_ms: int) -> list[HeldRequestFault]:
        """Replace the active rules; rules that were active before keep their counts. Return the new rules."""
        before = self._uses
        self._uses = {rule.id: before.get(rule.id) or FaultUses(rule, now_ms, self._count) for rule in rules}
        return [uses.rule for fault_id, uses in self._uses.items() if fault_id not in before]

    def due(
        self, matches: Callable[[HeldRequestFault], bool], now_ms: int, draw: Callable[[], float]
    ) -> FaultUses | None:
        """Return the rule to apply to a request, or None; count the request for every rule that matches it.

        `matches` returns whether a rule matches the request.
        """
        for uses in self._uses.values():
            if not uses.is_over(now_ms) and matches(uses.rule) and uses.take(draw):
                return uses
        return None

    def __iter__(self) -> Iterator[FaultUses]:
        return iter(self._uses.values())

    def counts(self) -> Counts:
        """Return (matching requests, requests to which the rule was applied), keyed by rule id."""
        return {fault_id: [uses.matched, uses.applied] for fault_id, uses in self._uses.items()}

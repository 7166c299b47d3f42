"""Two ways to apply inputs to nodes of a `BareEnsemble`: compute the result, or look the result up in a cache.

`DirectTransitions` is for a single run and changes nodes in place. `CachedTransitions` is for a search: each distinct
node state, packet and monitor exists once and never changes, so a known input costs one table look-up. This pays off
because an ensemble has millions of states, but each of its servers has only thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from zabka.ensemble.ids import Zxid
from zabka.journal.checkers.invariants import (
    AcknowledgedWritesSurvive,
    Checker,
    CommittedPrefixesAgree,
    OneLeaderPerEpoch,
    Watchdog,
)
from zabka.journal.checkers.zab_invariants import CommittedLog, zab_checkers
from zabka.journal.events import Entry
from zabka.simulation.steps.canonical import node_digest
from zabka.simulation.steps.cloning import Rules, clone, fingerprint
from zabka.simulation.steps.node import CoreNode, Outcome


def _counts(checker: object) -> frozenset[str]:
    """Return the names of a checker's counters.

    They do not affect later checks, so the checker's digest ignores them.
    """
    return frozenset(("checked",))


class Monitor:
    """Checks all invariants of ZAB on the history so far.

    `number` identifies the monitor's state in a search, as in `CoreNode`.
    """

    __slots__ = ("_checkers", "_watchdog", "number")

    def __init__(self) -> None:
        agreement: list[Checker] = [OneLeaderPerEpoch(), CommittedPrefixesAgree(), AcknowledgedWritesSurvive()]
        self._checkers = agreement + zab_checkers()
        self._watchdog = Watchdog(self._checkers)
        self.number = 0

    @property
    def last_committed(self) -> Zxid:
        """Return the zxid of the newest transaction that any peer has delivered, or 0 before the first."""
        return next(Zxid(each.last) for each in self._checkers if isinstance(each, CommittedLog))

    def digest(self) -> bytes:
        """Return a digest that is equal for histories after which the same violations are possible."""
        counts = dict.fromkeys(map(type, self._checkers), _counts)
        return fingerprint(self._checkers, Rules(any_order=None, left_out=counts))

    def see(self, entries: list[Entry]) -> list[str]:
        """Check more journal entries against the invariants, and return the violations."""
        for entry in entries:
            self._watchdog.see(entry)
        found = [f"{violation.invariant}: {violation.detail}" for violation in self._watchdog.violations]
        self._watchdog.violations.clear()
        return found


class Transitions(Protocol):
    """Interface that applies inputs to nodes, checks their journal entries with a monitor, and forks both."""

    def apply_input(self, node: CoreNode, call: Callable[..., None], *args: object) -> tuple[CoreNode, Outcome]:
        """Apply an input to a node; return the resulting node and the outcome of the input."""
        ...

    def watch(
        self, monitor: Monitor, peer: int, outcome: Outcome, entries: Callable[[], list[Entry]]
    ) -> tuple[Monitor, list[str]]:
        """Check the journal entries of an outcome; return the resulting monitor and the violations."""
        ...

    def fork(self, nodes: dict[int, CoreNode], monitor: Monitor) -> tuple[dict[int, CoreNode], Monitor]:
        """Return an independent copy of the nodes and the monitor."""
        ...


class DirectTransitions:
    """Changes nodes and the monitor in place."""

    def apply_input(self, node: CoreNode, call: Callable[..., None], *args: object) -> tuple[CoreNode, Outcome]:
        """Apply the input to the node in place."""
        return node, node.apply_input(call, *args)

    def watch(
        self, monitor: Monitor, peer: int, outcome: Outcome, entries: Callable[[], list[Entry]]
    ) -> tuple[Monitor, list[str]]:
        """Check the entries with the monitor. The monitor itself changes; it is not copied."""
        return monitor, monitor.see(entries())

    def fork(self, nodes: dict[int, CoreNode], monitor: Monitor) -> tuple[dict[int, CoreNode], Monitor]:
        """Copy all nodes and the monitor."""
        return {peer: node.twin() for peer, node in nodes.items()}, clone(monitor)


T = TypeVar("T")


class CachedTransitions:
    """Looks results up in a cache, which has one object for each distinct node state, monitor state and packet."""

    def __init__(self) -> None:
        self.nodes: list[CoreNode] = []
        self.monitors: list[Monitor] = []
        self.missed = 0
        self._node_numbers: dict[bytes, int] = {}
        self._monitor_numbers: dict[bytes, int] = {}
        self._packets: dict[bytes, object] = {}
        self._outcomes: dict[bytes, Outcome] = {}
        self._turns: dict[tuple[object, ...], tuple[CoreNode, Outcome]] = {}
        self._watched: dict[tuple[int, int, int], tuple[Monitor, list[str]]] = {}

    def apply_input(self, node: CoreNode, call: Callable[..., None], *args: object) -> tuple[CoreNode, Outcome]:
        """Look up the result of the input, or compute it on a copy of the node."""
        node = self.keep_node(node)
        key = (node.number, call, *[arg if type(arg) in (int, str) else id(arg) for arg in args])
        known = self._turns.get(key)
        if known is None:
            self.missed += 1
            twin = node.twin()
            outcome = self._kept(twin.apply_input(call, *args))
            known = self._turns[key] = self.keep_node(twin), outcome
        return known

    def watch(
        self, monitor: Monitor, peer: int, outcome: Outcome, entries: Callable[[], list[Entry]]
    ) -> tuple[Monitor, list[str]]:
        """Return the cached result of the check, or check the entries with a copy of the monitor."""
        monitor = self.keep_monitor(monitor)
        key = monitor.number, peer, id(outcome)
        known = self._watched.get(key)
        if known is None:
            twin = clone(monitor)
            twin.number = 0
            problems = twin.see(entries())
            known = self._watched[key] = self.keep_monitor(twin), problems
        return known

    def fork(self, nodes: dict[int, CoreNode], monitor: Monitor) -> tuple[dict[int, CoreNode], Monitor]:
        """Return the same nodes and the same monitor, because cached states never change."""
        return dict(nodes), monitor

    def keep_node(self, node: CoreNode) -> CoreNode:
        """Return the one cached node that stands for all nodes with the same behaviour."""
        if node.number:
            return node
        number = self._node_numbers.setdefault(node_digest(node), len(self.nodes) + 1)
        if number > len(self.nodes):
            self.nodes.append(node)
            node.number = number
        return self.nodes[number - 1]

    def keep_monitor(self, monitor: Monitor) -> Monitor:
        """Return the one cached monitor that stands for all monitors with the same state."""
        if monitor.number:
            return monitor
        number = self._monitor_numbers.setdefault(monitor.digest(), len(self.monitors) + 1)
        if number > len(self.monitors):
            self.monitors.append(monitor)
            monitor.number = number
        return self.monitors[number - 1]

    def _kept(self, outcome: Outcome) -> Outcome:
        traffic = tuple((link, packet and self._once(packet)) for link, packet in outcome.traffic)
        notes = tuple((to, self._once(note)) for to, note in outcome.notes)
        kept = msgspec.structs.replace(outcome, traffic=traffic, notes=notes)
        return self._outcomes.setdefault(fingerprint(kept), kept)

    def _once(self, packet: T) -> T:
        return self._packets.setdefault(fingerprint(packet), packet)  # type: ignore[return-value]

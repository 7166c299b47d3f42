"""Two ways to let a node of the bare protocol take its turns: do it, or remember what came of it the last time.

`DirectTurns` is for one history: nodes change in place.  `RememberedTurns` is for a search: nodes, packets and monitors
are kept once each and never change, so a turn that was seen before is one look into a table.  An ensemble has millions
of states, but each of its servers only thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from zabka.ensemble.ids import Zxid
from zabka.journal.events import Entry
from zabka.journal.judges.invariants import (
    AcknowledgedWritesSurvive,
    Checker,
    CommittedPrefixesAgree,
    OneLeaderPerEpoch,
    Watchdog,
)
from zabka.journal.judges.zab_invariants import CommittedLog, zab_checkers
from zabka.simulation.cores.canonical import node_digest
from zabka.simulation.cores.cloning import Rules, clone, fingerprint
from zabka.simulation.cores.node import CoreNode, Outcome


def _counts(checker: object) -> frozenset[str]:
    """How often something was judged makes no difference to what is judged next."""
    return frozenset(("judged",))


class Monitor:
    """All of ZAB's invariants over the history so far.  `number` as a node's."""

    __slots__ = ("_checkers", "_watchdog", "number")

    def __init__(self) -> None:
        agreement: list[Checker] = [OneLeaderPerEpoch(), CommittedPrefixesAgree(), AcknowledgedWritesSurvive()]
        self._checkers = agreement + zab_checkers()
        self._watchdog = Watchdog(self._checkers)
        self.number = 0

    @property
    def last_committed(self) -> Zxid:
        """The newest transaction that anybody has delivered, 0 before the first."""
        return next(Zxid(each.last) for each in self._checkers if isinstance(each, CommittedLog))

    def digest(self) -> bytes:
        """Equal for histories of which the invariants will say the same."""
        counts = dict.fromkeys(map(type, self._checkers), _counts)
        return fingerprint(self._checkers, Rules(any_order=None, left_out=counts))

    def see(self, entries: list[Entry]) -> list[str]:
        """What is wrong with a history that goes on like this."""
        for entry in entries:
            self._watchdog.see(entry)
        found = [f"{violation.invariant}: {violation.detail}" for violation in self._watchdog.violations]
        self._watchdog.violations.clear()
        return found


class Turns(Protocol):
    """How nodes and monitors change."""

    def apply_input(self, node: CoreNode, call: Callable[..., None], *args: object) -> tuple[CoreNode, Outcome]:
        """The node after that input, and what came of it."""
        ...

    def watch(
        self, monitor: Monitor, peer: int, outcome: Outcome, entries: Callable[[], list[Entry]]
    ) -> tuple[Monitor, list[str]]:
        """The monitor after what that peer's outcome says to the journal, and what is wrong with them."""
        ...

    def fork(self, nodes: dict[int, CoreNode], monitor: Monitor) -> tuple[dict[int, CoreNode], Monitor]:
        """A copy of this state of the search, to go another way from here."""
        ...


class DirectTurns:
    """Nodes and monitor change in place."""

    def apply_input(self, node: CoreNode, call: Callable[..., None], *args: object) -> tuple[CoreNode, Outcome]:
        """Do it."""
        return node, node.apply_input(call, *args)

    def watch(
        self, monitor: Monitor, peer: int, outcome: Outcome, entries: Callable[[], list[Entry]]
    ) -> tuple[Monitor, list[str]]:
        """Look."""
        return monitor, monitor.see(entries())

    def fork(self, nodes: dict[int, CoreNode], monitor: Monitor) -> tuple[dict[int, CoreNode], Monitor]:
        """Copy everything."""
        return {peer: node.twin() for peer, node in nodes.items()}, clone(monitor)


T = TypeVar("T")


class RememberedTurns:
    """Every state of a node, of the monitor, and every packet, once."""

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
        """Look it up, or do it on a copy."""
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
        """Look it up, or look with a copy."""
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
        """Nothing ever changes."""
        return dict(nodes), monitor

    def keep_node(self, node: CoreNode) -> CoreNode:
        """The one that stands for all that behave the same."""
        if node.number:
            return node
        number = self._node_numbers.setdefault(node_digest(node), len(self.nodes) + 1)
        if number > len(self.nodes):
            self.nodes.append(node)
            node.number = number
        return self.nodes[number - 1]

    def keep_monitor(self, monitor: Monitor) -> Monitor:
        """The one that stands for all that have seen the same."""
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

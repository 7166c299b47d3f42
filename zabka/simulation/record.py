"""The world's journal: the events of all nodes in time order.  Every event is checked against the invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zabka.journal.cause import Cause, event_cause
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.checkers.invariants import Violation, Watchdog, default_checkers
from zabka.journal.checkers.zab_invariants import zab_checkers
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry, Event, TopicPartition, TxnCommitted
from zabka.journal.fold import apply
from zabka.journal.high_watermarks import high_watermarks_reached
from zabka.journal.writer import encode_line
from zabka.simulation.engine.scheduler import Scheduler


class Record:
    """The history of one world.  Nodes append events; each event is checked and applied to the cluster state."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._node_seq: dict[str, int] = {}
        self._watchdog = Watchdog([*default_checkers(), *zab_checkers()])
        self.checked = CheckCounts()
        """Number of checks by each checker outside the watchdog."""
        self.last_committed = 0
        """The highest zxid that any peer has applied as committed."""
        self.entries: list[Entry] = []
        self.listeners: list[Callable[[Entry], None]] = []
        """Functions called with every entry, after the watchdog has checked it, and after those of `listen`."""
        self._listening: list[tuple[Callable[[Entry], None], tuple[type[Event], ...] | None]] = []
        self._listening_to: dict[type[Event], list[Callable[[Entry], None]]] = {}
        self.stops: list[Callable[[str, Event, bool], None]] = []
        """Functions that are called twice for each event of a node: before the event is written (True), and afterwards
        (False).

        Each function can kill the node's process.
        """
        self.state = ClusterState()

    @property
    def violations(self) -> list[Violation]:
        """Return all violations of invariants so far."""
        return self._watchdog.violations

    def had_to_check(self) -> dict[str, int]:
        """Return how often each invariant has checked something so far."""
        every = CheckCounts()
        every.add(self._watchdog.checked())
        every.add(self.checked.counts)
        return every.counts

    def listen(self, listener: Callable[[Entry], None], kinds: tuple[type[Event], ...] | None = None) -> None:
        """Call a function with every entry whose event is of one of these types, or with every entry.

        The functions are called in the order in which they were added.
        """
        self._listening.append((listener, kinds))
        self._listening_to = {}

    def _listeners_to(self, kind: type[Event]) -> list[Callable[[Entry], None]]:
        found = [listener for listener, kinds in self._listening if kinds is None or issubclass(kind, kinds)]
        self._listening_to[kind] = found
        return found

    def write(self, node: str, wall_ms: int, event: Event) -> Cause:
        """Append a node's event, and return a reference to the event.  Later events can name it as their cause."""
        node_seq = self._node_seq[node] = self._node_seq.get(node, 0) + 1
        mono_us = self._scheduler.now_us
        wall_us = wall_ms * 1000 + mono_us % 1000
        entry = Entry(node, node_seq, wall_us, mono_us, event, len(self.entries) + 1)
        self.entries.append(entry)
        if isinstance(event, TxnCommitted) and event.zxid > self.last_committed:
            self.last_committed = event.zxid
        apply(self.state, entry)
        self._watchdog.see(entry)
        kind = type(event)
        listening = self._listening_to.get(kind)
        for listener in self._listeners_to(kind) if listening is None else listening:
            listener(entry)
        for listener in self.listeners:
            listener(entry)
        return event_cause(node, node_seq)

    def lines(self) -> Iterator[bytes]:
        """Return the events as lines of a journal file, in order."""
        for entry in self.entries:
            yield encode_line(entry.node, entry.node_seq, entry.wall_us, entry.mono_us, entry.event)

    def high_watermarks_reached(self, node: str) -> dict[TopicPartition, int]:
        """Return the highest high watermark of each of a broker's replicas, according to the broker's events."""
        return high_watermarks_reached(entry.event for entry in self.entries if entry.node == node)

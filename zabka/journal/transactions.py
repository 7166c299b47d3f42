"""Transactions in a history: the state of each producer's transactional id, and why a transaction stays open.

A partition knows only the producer's id and epoch; the coordinator's journal has its transactional id. `find_cause`
finds the events for those references of `cause` that are about transactions. Such a reference is to the newest state of
the transactional id, to the decision that a marker carries out, or to the open transaction that holds back a last
stable offset.

If the coordinator also regards the transaction as open, an event after the transaction's last change keeps it open: the
process of the producer or of the coordinator stopped. If the coordinator knows no open transaction, the partition has a
hanging transaction (KIP-890), and the reason is the batch that began the transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from zabka.journal.cause import DECISION, OPEN, PRODUCER
from zabka.journal.events import (
    Entry,
    FaultInjected,
    FaultRemoved,
    NodeStarted,
    ProcessChanged,
    TransactionBegun,
    TransactionChanged,
)

_PREPARED = ("PrepareCommit", "PrepareAbort")
_UNFINISHED = ("Ongoing", *_PREPARED)
_STOPS = ("crash", "power_loss", "pause")
_RUNNING = "running"

Place = Callable[[Entry], int]
"""Function that returns the position of an entry in the history."""


class Transactions:
    """Transactions of a history. Pass every entry of the history to `see`, in order."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._changes: dict[int, list[Entry]] = {}
        """Changes of transactional ids, by producer id."""
        self._begun: dict[tuple[int, str, int], list[Entry]] = {}
        """Starts of transactions in partitions, by producer id, partition and offset."""
        self._processes: dict[str, list[tuple[Entry, bool]]] = {}
        """Events that started or stopped each process, each with a flag: whether the process runs after the event."""
        self._faults: dict[str, str] = {}
        """The process that each active fault has stopped, by fault id."""

    def see(self, entry: Entry) -> None:
        """Add the next entry."""
        event = entry.event
        match event:
            case TransactionChanged():
                self._changes.setdefault(event.producer_id, []).append(entry)
            case TransactionBegun():
                key = (event.producer_id, f"{event.topic}-{event.partition}", event.first_offset)
                self._begun.setdefault(key, []).append(entry)
            case NodeStarted():
                self._processes.setdefault(entry.node, []).append((entry, True))
            case ProcessChanged():
                self._processes.setdefault(event.target, []).append((entry, event.process == _RUNNING))
            case FaultInjected() if event.kind in _STOPS:
                self._processes.setdefault(event.target, []).append((entry, False))
                self._faults[event.fault_id] = event.target
            case FaultRemoved() if event.fault_id in self._faults:
                self._processes[self._faults.pop(event.fault_id)].append((entry, True))
            case _:
                pass

    def find_cause(self, cause: str, place: int) -> Entry | None:
        """Return the last event before position `place` to which `cause` refers, or None if no journal contains it."""
        word, _, rest = cause.partition(" ")
        match word, rest.split():
            case "producer", [producer]:
                return self._newest(producer, place)
            case "decision", [decided]:
                producer, _, epoch = decided.partition("@")
                newest = self._newest(producer, place)
                return newest if newest is not None and _decides(newest, epoch) else None
            case "open", [producer, where]:
                return self._open(producer, where, place)
            case _:
                return None

    def left_open_by(self, changed: Entry, place: int) -> Entry | None:
        """Return the event that stopped a process and so kept a transaction unchanged up to `place`.

        `changed` is the transaction's last change, and `place` a position in the history. The coordinator's process is
        checked before the producer's, because no transaction ends without a coordinator.
        """
        event = changed.event
        if not isinstance(event, TransactionChanged) or event.state not in _UNFINISHED:
            return None
        needed = (changed.node, event.client_id) if event.state not in _PREPARED else (changed.node,)
        return next((found for name in needed if (found := self._stopped(name, changed, place))), None)

    def producer_stopped(self, changed: Entry, place: int) -> Entry | None:
        """Return the event that stopped the producer's process, if this is why its transaction timed out.

        `changed` is the event of the timeout, and `place` is its position in the history.
        """
        event = changed.event
        if not isinstance(event, TransactionChanged) or event.after != "timed out":
            return None
        ongoing = self._before(self._changes.get(event.producer_id, []), place)
        return self._stopped(event.client_id, ongoing, place) if ongoing is not None else None

    def _stopped(self, name: str, since: Entry, place: int) -> Entry | None:
        known = [(at, runs) for at, runs in self._processes.get(name, ()) if self._place(at) < place]
        if not known or known[-1][1] or self._place(known[-1][0]) < self._place(since):
            return None
        return known[-1][0]

    def _newest(self, producer: str, place: int) -> Entry | None:
        return self._before(self._changes.get(int(producer), []), place) if producer.isdecimal() else None

    def _before(self, entries: list[Entry], place: int) -> Entry | None:
        """Return the last of these entries before position `place`."""
        count = bisect_left(entries, place, key=self._place)
        return entries[count - 1] if count else None

    def _open(self, producer: str, where: str, place: int) -> Entry | None:
        partition, _, offset = where.rpartition("@")
        newest = self._newest(producer, place)
        if newest is not None and _has_open(newest, partition):
            return newest
        if not producer.isdecimal() or not offset.isdecimal():
            return newest
        return self._before(self._begun.get((int(producer), partition, int(offset)), []), place) or newest


def _decides(entry: Entry, epoch: str) -> bool:
    event = entry.event
    return isinstance(event, TransactionChanged) and event.state in _PREPARED and str(event.producer_epoch) == epoch


def _has_open(entry: Entry, partition: str) -> bool:
    event = entry.event
    return isinstance(event, TransactionChanged) and event.state in _UNFINISHED and partition in event.partitions


REFERENCES = frozenset({PRODUCER, DECISION, OPEN})
"""First words of the references that this module resolves."""

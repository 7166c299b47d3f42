"""Finds the first difference between two histories that explains why their outcomes differ.

Two runs of one scenario differ early in irrelevant ways, such as the order of transactions, so the search begins at the
end. An outcome is something that only one of the histories has:

- a violated invariant, at the event that shows it
- a different final state of a partition, broker or controller, at the last event about it
- lost records

The recorded causes (`causes`) of an outcome lead back to its root cause. The first difference is the earliest event in
this chain that the other history does not have. Two events are the same if all their fields except times and counters
are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from zabka.journal import events as e
from zabka.journal.causes import Causes
from zabka.journal.checkers.invariants import check
from zabka.journal.cluster_state import ClusterState
from zabka.journal.divergence import Parting, parting, what_happened
from zabka.journal.event import Level
from zabka.journal.events import Entry, Event
from zabka.journal.fold import fold

_COUNTERS = frozenset(
    {
        "zxid", "last_zxid", "from_zxid", "to_zxid", "session_id", "broker_epoch", "partition_epoch", "zk_version",
        "epoch_version", "version", "upon", "round", "digest", "moved", "candidates", "ended", "heard_by", "eligible",
        "request_epoch", "known_epoch", "topic_id", "sender_id",
    }
)  # fmt: skip
_PROGRESS = (
    e.ReplicaProgressed, e.ZxidCheckpoint, e.WorkloadProgressed, e.ConsumerProgressed, e.ControllerReady,
    e.ControllerPropagated, e.SnapshotTaken, e.SessionCreated, e.NodeStarted,
)  # fmt: skip


_SOON_US = 1_000_000
CONTROLLER, RESIGNATION = "controller", "resignation of a controller"


class _Side(NamedTuple):
    """One of the two histories, its causes, and the events that only this history has."""

    entries: Sequence[Entry]
    causes: Causes
    own: dict[tuple[str, int], Entry]


def is_decision(event: Event) -> bool:
    """Return whether an event is a decision or a change of state, and not a progress report or a single message."""
    return event.level is Level.NORMAL and not isinstance(event, _PROGRESS)


def deciding(one: Sequence[Entry], other: Sequence[Entry]) -> Parting | None:
    """Return the first difference that led to different outcomes.

    If the outcomes do not differ, return the first difference of any kind; None if there is none. Each history must be
    in its own order.
    """
    sides = _side(one, other), _side(other, one)
    ends = fold(one), fold(other)
    found = [*_leading(sides[0], sides[1], ends), *_leading(sides[1], sides[0], (ends[1], ends[0]))]
    if not found:
        found = [entry for side in sides for entry in side.own.values() if hasattr(entry.event, "caused_by")]
    if not found:
        return parting(one, other)
    first = min(found, key=lambda entry: entry.wall_us - (one if _has(one, entry) else other)[0].wall_us)
    if _has(one, first):
        return Parting(first, _instead(first, one, sides[1]))
    return Parting(_instead(first, other, sides[0]), first)


def _has(entries: Sequence[Entry], entry: Entry) -> bool:
    return any(each is entry for each in entries)


def _content(entry: Entry) -> tuple[str, str]:
    fields = {name: value for name, value in what_happened(entry).items() if name not in _COUNTERS}
    return entry.node, repr(sorted(fields.items()))


def _side(entries: Sequence[Entry], others: Sequence[Entry]) -> _Side:
    causes = Causes()
    there = Counter(_content(entry) for entry in others if is_decision(entry.event))
    own: dict[tuple[str, int], Entry] = {}
    for entry in entries:
        causes.see(entry)
        if is_decision(entry.event):
            content = _content(entry)
            there[content] -= 1
            if there[content] < 0:
                own[entry.node, entry.node_seq] = entry
    return _Side(entries, causes, own)


def _leading(side: _Side, other: _Side, ends: tuple[ClusterState, ClusterState]) -> Iterator[Entry]:
    """For each outcome of this side, yield the earliest event in its chain of causes that only this side has."""
    for outcome in _outcomes(side, other, ends):
        chain = side.causes.chain(outcome).steps
        yield from [step for step in chain if (step.node, step.node_seq) in side.own][-1:]


def _outcomes(side: _Side, other: _Side, ends: tuple[ClusterState, ClusterState]) -> Iterator[Entry]:
    known = {violation.invariant for violation in check(other.entries)}
    broken = {(each.node, each.node_seq) for each in check(side.entries) if each.invariant not in known}
    subjects = _different(*ends)
    last: dict[str, Entry] = {}
    decision: Entry | None = None
    for entry in side.entries:
        if (entry.node, entry.node_seq) in broken:
            yield entry
            if isinstance(entry.event, e.InvariantViolated) and decision is not None:
                yield decision
        if isinstance(entry.event, e.RecordsLost) and (entry.node, entry.node_seq) in side.own:
            yield entry
        if is_decision(entry.event) and hasattr(entry.event, "caused_by"):
            decision = entry
            for subject in _subjects(entry.event):
                last[subject] = entry
    if CONTROLLER in subjects:
        # An election and the resignation that follows it belong to one outcome. Either of them can be the last event.
        subjects.append(RESIGNATION)
    for subject in subjects:
        if subject in last:
            yield last[subject]


def _subjects(event: Any) -> Iterable[str]:
    if isinstance(event, e.LeaderElected | e.IsrChanged):
        return (f"{event.topic}-{event.partition}",)
    if isinstance(event, e.BrokerRegistered):
        return (f"broker {event.broker_id}",)
    if isinstance(event, e.ControllerElected):
        return (CONTROLLER,)
    if isinstance(event, e.ControllerResigned):
        return (RESIGNATION,)
    return ()


def _different(one: ClusterState, other: ClusterState) -> list[str]:
    found = [name for name in {**one.partitions, **other.partitions} if _standing(one, name) != _standing(other, name)]
    found += [
        f"broker {number}"
        for number in {**one.brokers, **other.brokers}
        if one.broker(number).registered != other.broker(number).registered
    ]
    here, there = (one.controller_id < 0, one.controller_epoch), (other.controller_id < 0, other.controller_epoch)
    return [*found, CONTROLLER] if here != there else found


def _standing(state: ClusterState, name: str) -> Any:
    partition = state.partitions.get(name)
    return None if partition is None else (sorted(partition.replicas), sorted(partition.isr), partition.leader < 0)


def _instead(first: Entry, entries: Sequence[Entry], other: _Side) -> Entry | None:
    """Return the event of the same node in the other history that happened instead of `first`.

    It is the node's next event of the same type, counted from the time of `first` since the start of the history. If
    there is none, it is the node's next event of any type within `_SOON_US`.
    """
    since_us = first.wall_us - entries[0].wall_us
    own = [entry for entry in other.own.values() if entry.node == first.node]
    later = [entry for entry in own if entry.wall_us - other.entries[0].wall_us >= since_us]
    same = [entry for entry in later if type(entry.event) is type(first.event)]
    soon = [entry for entry in later if entry.wall_us - other.entries[0].wall_us < since_us + _SOON_US]
    return next(iter([*same, *soon]), None)

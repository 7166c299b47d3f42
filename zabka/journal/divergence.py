"""The first difference between two histories: the first event that only one of them contains.

Histories are compared node by node, in each node's order, so the interleaving of several nodes' events does not matter.
Values that depend on clocks and counters of the run are ignored: times, measured durations, process ids and sequence
numbers of events. The configuration of a node is ignored as well, because it is an input and not an outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from zabka.journal import events as e
from zabka.journal.events import Entry, Event

_MEASURED: dict[type[Event], tuple[str, ...]] = {
    e.NodeStarted: ("config",),
    e.ProcessChanged: ("pid",),
    e.ControllerReady: ("read_ms", "decide_ms"),
    e.ControllerPropagated: ("propagate_ms",),
    e.SnapshotTaken: ("duration_ms",),
    e.SessionExpired: ("heard_ms_ago",),
}
"""Fields that are not compared, by event type: times, durations and settings."""
_NEVER_COMPARED = ("caused_by",)
"""Fields that are never compared.

A cause contains the sequence number of another event, which depends on the run. The other event itself is compared.
"""


class Parting(NamedTuple):
    """First difference between two histories: for one node, the event that each history has at that position.

    An event is None if its history contains no further event of this node.
    """

    one: Entry | None
    other: Entry | None


def what_happened(entry: Entry) -> dict[str, Any]:
    """Return the fields of an event that are compared: all except those that depend on clocks and counters."""
    fields: dict[str, Any] = msgspec.to_builtins(entry.event)
    for name in (*_MEASURED.get(type(entry.event), ()), *_NEVER_COMPARED):
        fields.pop(name, None)
    for standing in fields.get("moved", ()):
        if isinstance(standing, dict):
            standing.pop("caught_up_ms_ago", None)
    return fields


def same(one: Entry, other: Entry) -> bool:
    """Return whether two events are from the same node and have the same content."""
    if one.node != other.node or type(one.event) is not type(other.event):
        return False
    return one.event == other.event or what_happened(one) == what_happened(other)


def parting(one: Sequence[Entry], other: Sequence[Entry]) -> Parting | None:
    """Return the first difference between two histories, or None if there is none.

    The events of different nodes may be interleaved differently in the two histories.
    """
    begin = 0
    while begin < len(one) and begin < len(other) and same(one[begin], other[begin]):
        begin += 1
    ones, others = _by_node(one, begin), _by_node(other, begin)
    found: list[tuple[int, str, Parting]] = []
    for node in sorted({**ones, **others}):
        mine, theirs = ones.get(node, []), others.get(node, [])
        place = 0
        while place < len(mine) and place < len(theirs) and same(one[mine[place]], other[theirs[place]]):
            place += 1
        places = [rest[place] for rest in (mine, theirs) if place < len(rest)]
        if places:
            at = Parting(
                one[mine[place]] if place < len(mine) else None, other[theirs[place]] if place < len(theirs) else None
            )
            found.append((min(places), node, at))
    return min(found, key=lambda row: row[:2])[2] if found else None


def _by_node(history: Sequence[Entry], begin: int) -> dict[str, list[int]]:
    """Return the indexes of each node's events at or after the index `begin`."""
    places: dict[str, list[int]] = {}
    for place in range(begin, len(history)):
        places.setdefault(history[place].node, []).append(place)
    return places

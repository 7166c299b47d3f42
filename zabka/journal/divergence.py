"""Where two histories part: the first event that one of them has and the other has not.

Histories are compared node by node, each node's events in their order, so that it does not matter how several nodes'
events are interleaved.  Events are compared without what clocks and counters of the run make of them: times, durations
that were measured, process ids, line numbers, and the configuration that a node was started with (that is what was set,
and not what happened).
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
"""By type, the fields that say when or how long, or what was set."""
_NEVER_COMPARED = ("caused_by",)
"""It names lines by their numbers; what it names is compared itself."""


class Parting(NamedTuple):
    """The first difference: what each history has there of one node; None where it has nothing more of it."""

    one: Entry | None
    other: Entry | None


def what_happened(entry: Entry) -> dict[str, Any]:
    """An event without what clocks and counters make of it."""
    fields: dict[str, Any] = msgspec.to_builtins(entry.event)
    for name in (*_MEASURED.get(type(entry.event), ()), *_NEVER_COMPARED):
        fields.pop(name, None)
    for standing in fields.get("moved", ()):
        if isinstance(standing, dict):
            standing.pop("caught_up_ms_ago", None)
    return fields


def same(one: Entry, other: Entry) -> bool:
    """Whether two events tell the same of the same node."""
    if one.node != other.node or type(one.event) is not type(other.event):
        return False
    return one.event == other.event or what_happened(one) == what_happened(other)


def parting(one: Sequence[Entry], other: Sequence[Entry]) -> Parting | None:
    """Where they part; None where they do not.  Both are in the order of their histories."""
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
    """The places of each node's events from there on."""
    places: dict[str, list[int]] = {}
    for place in range(begin, len(history)):
        places.setdefault(history[place].node, []).append(place)
    return places

"""Converts uploaded journal lines to an ordered history. Rejects the upload if one of the lines is not an event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import (
    BrokerRegistered,
    Entry,
    NodeStarted,
    NodeStopped,
    ProcessChanged,
    TopicCreated,
    TopicDeleted,
)
from zabka.journal.reader import decode_line, split_lines
from zabka.journal.spans import Spans

BAD_LINES_MAX = 20
_INT64_MAX = (1 << 63) - 1

LOOKS_MAX = 20_000_000
"""Limit for the work of folding an upload: the number of nodes, faults and partitions visited.

Folding up to the limit takes less than a minute. A cluster of fifty nodes with eighty thousand events needs a fifth of
it.
"""

SIMULATION_BEGINS_US = 1_700_000_000_000_000
"""Wall clock time at the start of a simulated world, to which each node's configured clock error is added."""
SKEW_US_MAX = 2_000_000


_ABOUT_PARTITIONS = (BrokerRegistered, NodeStarted, NodeStopped, ProcessChanged, TopicCreated, TopicDeleted)


class BadLine(NamedTuple):
    """An uploaded line that is not an event, and the reason."""

    line: int
    what: str


class NoHistory(Exception):
    """The uploaded lines are not a valid history. `bad` lists the first invalid lines."""

    def __init__(self, reason: str, bad: Sequence[BadLine] = ()) -> None:
        super().__init__(reason)
        self.bad = list(bad)


class Taken(NamedTuple):
    """An accepted history, and the times of its first and last event."""

    entries: list[Entry]
    first_us: int
    last_us: int


def read_history(data: bytes) -> Taken:
    """Return the history from these JSON Lines: one node's journal, several concatenated journals, or a merged one.

    Raises NoHistory.
    """
    entries: list[Entry] = []
    bad: list[BadLine] = []
    places: dict[tuple[str, int], int] = {}
    for number, line in enumerate(split_lines(data if data.endswith(b"\n") else data + b"\n"), 1):
        if not line.strip():
            continue
        try:
            entry = _entry(line)
        except ValueError as reason:
            bad.append(BadLine(number, str(reason)))
            continue
        before = places.setdefault((entry.node, entry.node_seq), number)
        if before != number:
            bad.append(BadLine(number, f"{entry.node} has an event {entry.node_seq} in line {before} already"))
        entries.append(entry)
    if bad:
        first = "; ".join(f"line {line}: {what}" for line, what in bad[:3])
        raise NoHistory(f"{len(bad)} lines are not events of one history: {first}", bad[:BAD_LINES_MAX])
    if not entries:
        raise NoHistory("it contains no event")
    return folded(in_order(entries))


def _entry(line: bytes) -> Entry:
    """Decode a line. Raises ValueError."""
    entry = decode_line(line)
    for name in ("seq", "node_seq", "wall_us", "mono_us"):
        if not 0 <= getattr(entry, name) <= _INT64_MAX:
            raise ValueError(f"{name} is out of range")
    return entry


def folded(entries: list[Entry]) -> Taken:
    """Check that a history can be folded and that its state can be encoded. Raises NoHistory if it is empty or
    inconsistent.
    """
    if not entries:
        raise NoHistory("it contains no event")
    spans, looks = Spans(), 0
    for place, entry in enumerate(entries, 1):
        try:
            spans.apply(entry)
        except (ValueError, TypeError, KeyError, LookupError, OverflowError) as reason:
            raise NoHistory(f"event {place} ({entry.node}#{entry.node_seq}) cannot be folded: {reason}") from None
        looks += _looks(spans.state, entry)
        if looks > LOOKS_MAX:
            raise NoHistory(
                f"up to event {place} of {len(entries)} there is more to fold than in any cluster's history"
            )
    try:
        msgspec.msgpack.encode(spans.state)
        msgspec.json.encode(spans.state)
    except (msgspec.MsgspecError, OverflowError) as reason:
        raise NoHistory(f"a number in it is out of range: {reason}") from None
    return Taken(entries, entries[0].wall_us, spans.state.at_us)


def _looks(state: ClusterState, entry: Entry) -> int:
    """Return the maximum number of nodes, faults and partitions that folding this event can visit."""
    found = len(state.peers) + len(state.brokers) + len(state.faults)
    return found + len(state.partitions) if isinstance(entry.event, _ABOUT_PARTITIONS) else found


def in_order(entries: list[Entry]) -> list[Entry]:
    """Order uploaded entries, which are given in the order of the upload, and return them as one history.

    If the entries have ascending numbers, keep their order. A simulated history is already in order; replace its times
    by those of the simulated world's clock. Merge any other history by wall clock: keep each node's own order and the
    order of entries with equal times.
    """
    if all(before.seq < after.seq for before, after in pairwise(entries)) and entries[0].seq:
        return entries
    if _simulated(entries):
        return on_one_clock(entries)
    return _merged(entries)


def _simulated(entries: Iterable[Entry]) -> bool:
    last_us = 0
    for entry in entries:
        if entry.mono_us < last_us or abs(entry.wall_us - entry.mono_us - SIMULATION_BEGINS_US) > SKEW_US_MAX:
            return False
        last_us = entry.mono_us
    return True


def on_one_clock(entries: list[Entry]) -> list[Entry]:
    """Return a simulated history in which every wall clock time is the simulated world's own time.

    The wall clocks of simulated nodes are wrong by fractions of a second on purpose, but the nodes share one monotonic
    clock.
    """
    return [
        entry if entry.wall_us == (wall_us := SIMULATION_BEGINS_US + entry.mono_us)
        else msgspec.structs.replace(entry, wall_us=wall_us)
        for entry in entries
    ]  # fmt: skip


def _merged(entries: list[Entry]) -> list[Entry]:
    by_node: dict[str, list[tuple[int, Entry]]] = {}
    for place, entry in enumerate(entries):
        by_node.setdefault(entry.node, []).append((place, entry))
    keyed: list[tuple[int, int, int, Entry]] = []
    for own in by_node.values():
        latest_us = latest_place = 0
        for place, entry in sorted(own, key=lambda each: each[1].node_seq):
            # Sort by the highest time so far, so that a node's own entries keep their order if its clock steps back.
            latest_us, latest_place = max(latest_us, entry.wall_us), max(latest_place, place)
            keyed.append((latest_us, latest_place, entry.node_seq, entry))
    return [row[3] for row in sorted(keyed, key=lambda row: row[:3])]

"""Rows of the tables, computed with `zabka.journal.fold` from the journals of simulated runs.

The events of a simulated run are processed in the order in which they happened, which the separate journals of nodes do
not show. All nodes of the run share one monotonic clock. Therefore the rows have the true order and the true durations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from zabka.journal import events as e
from zabka.journal.cluster_state import ClusterState, ControllerTermView
from zabka.journal.controller_gaps import gap_before
from zabka.journal.events import Entry
from zabka.journal.fold import apply
from zabka.journal.reader import read_file
from zabka.simulation.run import run_with_journal

Rows = list[tuple[object, ...]]


class Folded(NamedTuple):
    """Expected rows of one run: identifying columns, which must be equal, and durations in milliseconds."""

    controller_terms: Rows
    """Expected controller terms as (broker_id, controller_epoch, from_us, ended_by)."""
    durations: list[tuple[float | None, float | None]]
    """Duration of each controller term, and how long there was no active controller before it."""
    leaderships: Rows
    """Expected leaderships as (topic, partition, life, leader, leader_epoch, partition_epoch, isr, unclean)."""
    isr_changes: Rows
    """Expected ISR changes as (topic, partition, life, isr before, isr, partition_epoch)."""


def play(seed: int, directory: Path) -> None:
    """Execute the run of a seed, and write its journal as `zabka replay --out` does."""
    _, lines = run_with_journal(seed, "chaos")
    (directory / f"seed-{seed}.jsonl").write_bytes(b"".join(lines))


def folded(path: Path) -> Folded:
    """Return the expected rows of a simulated run, computed from its journal."""
    state, on_one_clock = ClusterState(), ClusterState()
    begun: list[int] = []
    ended: list[int | None] = []
    lives: dict[tuple[str, int], int] = {}
    isrs: dict[tuple[str, int, int], list[int]] = {}
    leaderships: Rows = []
    changes: Rows = []
    for entry in in_true_order(read_file(path)):
        before = len(state.controller_terms)
        apply(state, entry)
        apply(on_one_clock, msgspec.structs.replace(entry, wall_us=entry.mono_us))
        event = entry.event
        while len(ended) < len(state.controller_terms):
            begun.append(entry.mono_us)
            ended.append(None)
        for place in range(max(0, before - 1), len(state.controller_terms)):
            if state.controller_terms[place].until_us is not None and ended[place] is None:
                ended[place] = entry.mono_us
        if isinstance(event, e.TopicDeleted):
            for topic, partition in [key for key in lives if key[0] == event.topic]:
                lives[topic, partition] += 1
        if isinstance(event, e.LeaderElected | e.IsrChanged):
            view = state.partition(event.topic, event.partition)
            life = lives.setdefault((event.topic, event.partition), 0)
            if view.partition_epoch != event.partition_epoch:
                continue
            of = (event.topic, event.partition, life)
            if isinstance(event, e.LeaderElected):
                leaderships.append((*of, view.leader, view.leader_epoch, view.partition_epoch, view.isr, view.unclean))
            if set(isrs.get(of, [])) != set(view.isr):
                changes.append((*of, isrs.get(of, []), view.isr, view.partition_epoch))
            isrs[of] = view.isr
    return Folded(
        [(r.broker_id, r.controller_epoch, r.since_us, r.ended_by) for r in state.controller_terms],
        _durations(begun, ended, on_one_clock.controller_terms),
        sorted(leaderships, key=lambda row: row[:3]),
        sorted(changes, key=lambda row: row[:3]),
    )


def in_true_order(entries: Iterable[Entry]) -> list[Entry]:
    """Return the history with the writes of each partition in zxid order.

    A frozen node journals its writes late.
    """
    found = list(entries)
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, entry in enumerate(found):
        if isinstance(entry.event, e.LeaderElected | e.IsrChanged):
            places[entry.event.topic, entry.event.partition].append(place)
    for own in places.values():
        writes = sorted((found[place] for place in own), key=lambda entry: _zxid(entry.event))
        for place, entry in zip(own, writes, strict=True):
            found[place] = entry
    return found


def _zxid(event: e.Event) -> int:
    assert isinstance(event, e.LeaderElected | e.IsrChanged)
    return event.zxid


def _durations(
    begun: list[int], ended: list[int | None], controller_terms: list[ControllerTermView]
) -> list[tuple[float | None, float | None]]:
    found: list[tuple[float | None, float | None]] = []
    for place, (begin, end) in enumerate(zip(begun, ended, strict=True)):
        gap = gap_before(controller_terms, place)
        lasted = None if end is None else (end - begin) / 1000
        found.append((lasted, None if gap is None else gap.total_us / 1000))
    return found

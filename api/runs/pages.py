"""Selects events of a history: after an event number, up to an event number, or filtered by type."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from zabka.api.collector.numbered import Numbered
from zabka.api.http.problems import Problem
from zabka.api.runs.history import History

BATCH_EVENTS = 2_000
LOOKED_THROUGH_MAX = 200_000
"""Maximum number of events searched per response. If the search ends early, the response contains the last event number
searched.
"""


class _Typed(msgspec.Struct):
    type: str


_type_of = msgspec.json.Decoder(_Typed).decode


class EventFilter(NamedTuple):
    """A filter of event types: include only `types` (None: all), and exclude `not_types`."""

    types: frozenset[str] | None = None
    not_types: frozenset[str] = frozenset()

    def passes(self, event: Numbered) -> bool:
        """Return whether an event passes the filter."""
        if self.types is None and not self.not_types:
            return True
        found = _type_of(event.json).type
        return (self.types is None or found in self.types) and found not in self.not_types


class Page(NamedTuple):
    """Selected events in order. `through` is the event number at which the search, forwards or backwards, stopped."""

    events: list[Numbered]
    through: int


async def first_after(history: History, after: int, until: int | None, requested: EventFilter, limit: int) -> Page:
    """Return the first matching events with numbers above `after` and up to `until`.

    Raises Problem 410 if some events after `after` are no longer stored.
    """
    oldest = history.first_seq
    if after and after + 1 < oldest:
        raise Problem(410, f"the oldest stored event is {oldest}; request the events after {oldest - 1}", oldest=oldest)
    last = history.last_seq if until is None else min(until, history.last_seq)
    seq = begin = max(after + 1, oldest)
    found: list[Numbered] = []
    while seq <= last and len(found) < limit and seq - begin < LOOKED_THROUGH_MAX:
        events = history.read(seq, min(BATCH_EVENTS, last + 1 - seq))
        if not events:
            return Page(found, last)
        for event in events:
            if event.seq > last:
                return Page(found, last)
            if requested.passes(event):
                found.append(event)
                if len(found) == limit:
                    return Page(found, event.seq)
        seq = events[-1].seq + 1
        await asyncio.sleep(0)
    return Page(found, seq - 1)


async def last_until(history: History, until: int, requested: EventFilter, limit: int) -> Page:
    """Return the last matching events with numbers up to `until`, in order."""
    end = last = min(until, history.last_seq)
    found: list[Numbered] = []
    while end >= history.first_seq and len(found) < limit and last - end < LOOKED_THROUGH_MAX:
        begin = max(history.first_seq, end + 1 - BATCH_EVENTS)
        window = [event for event in history.read(begin, end + 1 - begin) if event.seq <= end]
        found = [event for event in window if requested.passes(event)] + found
        end = begin - 1
        await asyncio.sleep(0)
    if len(found) > limit:
        found = found[-limit:]
        return Page(found, found[0].seq)
    return Page(found, end + 1)

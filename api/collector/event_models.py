"""The event stream: the numbered journal as server-sent events, in batches, and as a JSON array."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from zabka.api.collector.collector import Collector, TooOld
from zabka.api.collector.numbered import Numbered
from zabka.api.http.problems import Problem

BATCH_EVENTS_MAX = 2_000
BATCH_INTERVAL_S = 0.05
KEEP_ALIVE_S = 10.0
LIMIT_DEFAULT = 1_000
LIMIT_MAX = 100_000
LOOKED_THROUGH_MAX = 100_000
"""Maximum number of events to search backwards when the client excludes some event types."""

EXAMPLE = {
    "seq": 42, "schema": 1, "node": "broker-1", "node_seq": 7, "wall_us": 1700000000000000, "mono_us": 81000000,
    "type": "controller_elected", "broker_id": 1, "controller_epoch": 1, "zk_version": 1,
}  # fmt: skip
ARRAY: dict[str, Any] = {
    "description": "Events in order of their numbers",
    "content": {
        "application/json": {
            "schema": {"type": "array", "items": {"type": "object", "required": ["seq", "node", "type"]}},
            "example": [EXAMPLE],
        }
    },
}
"""The OpenAPI description of a response that is a JSON array of events."""


def encode(events: list[Numbered]) -> bytes:
    """Encode events as server-sent events, with the event numbers as ids."""
    return b"".join(b"id: %d\ndata: %b\n\n" % (event.seq, event.json) for event in events)


def array(events: list[Numbered]) -> bytes:
    """Encode events as one JSON array."""
    return b"[" + b",".join(event.json for event in events) + b"]"


async def some(collector: Collector, after: int, limit: int) -> list[Numbered]:
    """Return up to `limit` events after number `after`. Raises TooOld.

    Reads the events in batches and lets other tasks run between the batches.
    """
    found = collector.after(after, min(limit, BATCH_EVENTS_MAX))
    while len(found) < limit and found[-1:] and found[-1].seq < collector.last_seq:
        await asyncio.sleep(0)
        found += collector.after(found[-1].seq, min(limit - len(found), BATCH_EVENTS_MAX))
    return found


class _Typed(msgspec.Struct):
    type: str


_type_of = msgspec.json.Decoder(_Typed).decode


async def newest(collector: Collector, until: int, limit: int, not_types: frozenset[str]) -> list[Numbered]:
    """Return the newest `limit` events up to number `until`, in order, except events of the given types.

    Only the last LOOKED_THROUGH_MAX events before that number are searched.
    """
    found: list[Numbered] = []
    end = min(until, collector.last_seq)
    last = end - LOOKED_THROUGH_MAX
    while end >= collector.oldest_seq and end > last and len(found) < limit:
        begin = max(collector.oldest_seq, end + 1 - BATCH_EVENTS_MAX)
        window = [event for event in collector.after(begin - 1, end + 1 - begin) if event.seq <= end]
        found = [event for event in window if _type_of(event.json).type not in not_types] + found
        end = begin - 1
        await asyncio.sleep(0)
    return found[-limit:]


def snapshot(collector: Collector) -> bytes:
    """Encode the folded state as one server-sent event, with the last event number as its id.

    The page starts from this state.
    """
    return b"event: snapshot\nid: %d\ndata: %b\n\n" % (collector.last_seq, msgspec.json.encode(collector.state))


def history(collector: Collector) -> bytes:
    """Encode the history's identifier as one server-sent event.

    A new history assigns the same event numbers to other events. A client detects a new history by its identifier.
    """
    return b"event: history\ndata: %b\n\n" % collector.history.encode()


def resumable(collector: Collector, after: int) -> bool:
    """Return whether a stream can resume after this event number.

    A stream can resume if the number was assigned and all events after it are stored.
    """
    return 0 < after <= collector.last_seq and after + 1 >= collector.oldest_seq


def too_old(reason: TooOld) -> Problem:
    """Return the 410 response for events that are no longer stored. It contains the oldest stored event number."""
    return Problem(410, f"{reason}; request the events after {reason.oldest - 1}", oldest=reason.oldest)


def of_another_history(collector: Collector, after: int) -> Problem:
    """Return the 410 response for an event number that is not assigned yet.

    The client must have read another history, which has been removed since.
    """
    oldest, last = collector.oldest_seq, collector.last_seq
    text = (
        f"the last event here is {last}, and {after} belongs to another history; request the events after {oldest - 1}"
    )
    return Problem(410, text, oldest=oldest, last=last)


async def stream(
    collector: Collector, after: int, stopping: asyncio.Event, *, with_snapshot: bool = False
) -> AsyncIterator[bytes]:
    """Yield every event after number `after` while the client stays connected, in at most 20 batches a second.

    If a client reads too slowly and its next event is no longer stored, the stream ends, and the client's next request
    receives 410.

    With `with_snapshot`, first yield the identifier of the event history. If the client cannot resume from its last
    event, then yield the folded state, followed by the events after it.
    """
    yield b"retry: 1000\n: journal\n\n"
    if with_snapshot:
        yield history(collector)
    if with_snapshot and not resumable(collector, after):
        after = collector.last_seq
        yield snapshot(collector)
    while not stopping.is_set():
        try:
            events = collector.after(after, BATCH_EVENTS_MAX)
        except TooOld:
            if not with_snapshot:
                return
            after = collector.last_seq
            yield snapshot(collector)
            continue
        if events:
            after = events[-1].seq
            yield encode(events)
            await asyncio.sleep(BATCH_INTERVAL_S if len(events) < BATCH_EVENTS_MAX else 0)
        elif not await collector.more(after, KEEP_ALIVE_S):
            yield b": still here\n\n"

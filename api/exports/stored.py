"""Reads the runs to export: the live cluster's history, or a stored run.

If the stored run belongs to a pair, and the other run of the pair is stored too, both runs are exported.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import chain
from typing import Any

from zabka.api.exports.recorded import NothingToExport, Recorded
from zabka.api.http.problems import Problem
from zabka.api.runs.catalogue import LIVE
from zabka.api.runs.history import History
from zabka.api.runs.messages import Window
from zabka.api.runs.run_models import Run
from zabka.api.services import Services
from zabka.journal.events import Entry
from zabka.journal.reader import decode_line

EVENTS_MAX = 100_000
"""Maximum number of events to export. A browser opens a file with more events only slowly."""
MESSAGES_MAX = 100_000
LOOKED_BACK = 20_000
"""Number of events before the exported part that are searched for causes."""
CLUSTER = "cluster"
"""Id of the live cluster's run in an exported file, where the run is no longer live."""
_BATCH = 1_000


async def stored_runs(services: Services, run_id: str, from_us: int | None, to_us: int | None) -> list[Recorded]:
    """Return the part of a run between two times.

    If the other run of its pair is stored, return the same part of that run as well. Raises Problem 404, 410, or 422
    (the part has no events or too many).
    """
    about = services.runs.get(run_id)
    found = [await _recorded(services, about, from_us, to_us)]
    if about.pair is not None:
        found.append(await _recorded(services, services.runs.get(about.pair), from_us, to_us))
    return found


async def _recorded(services: Services, about: Run, from_us: int | None, to_us: int | None) -> Recorded:
    rewind = services.runs.rewind(about.id)
    entries = await _entries(rewind.history, from_us, to_us)
    first = entries[0].seq
    before = await rewind.state(first - 1) if first > 1 else None
    begin_us, end_us = entries[0].wall_us, max(entry.wall_us for entry in entries)
    window = Window(from_us or begin_us, to_us or end_us, frozenset(), MESSAGES_MAX)
    messages = (await services.messages.select(about.id, window)).messages
    update: dict[str, Any] = {
        "first_seq": first, "last_seq": entries[-1].seq, "first_us": begin_us, "last_us": end_us, "events": len(entries)
    }  # fmt: skip
    if about.id == LIVE:
        update["id"] = CLUSTER
    try:
        return Recorded(about.model_copy(update=update), entries, messages, before).part(from_us, to_us)
    except NothingToExport as reason:
        raise Problem(422, str(reason)) from None


async def _entries(history: History, from_us: int | None, to_us: int | None) -> list[Entry]:
    """Return the entries between two times, and up to LOOKED_BACK entries before them. Raises Problem 422."""
    earlier: deque[Entry] = deque(maxlen=LOOKED_BACK)
    inside: list[Entry] = []
    seq = history.first_seq
    while rows := history.read(seq, _BATCH):
        for entry in (decode_line(row.json) for row in rows):
            if from_us is not None and entry.wall_us < from_us and not inside:
                earlier.append(entry)
            elif to_us is None or entry.wall_us <= to_us:
                inside.append(entry)
        if len(inside) > EVENTS_MAX:
            raise Problem(422, f"there are more than {EVENTS_MAX} events in that time; ask for less with from and to")
        seq = rows[-1].seq + 1
        await asyncio.sleep(0)
    if not inside:
        raise Problem(422, "no event of the run is in that time")
    return list(chain(earlier, inside))

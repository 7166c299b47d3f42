"""The first difference between two runs, with the causes of the differing event in each run."""

from __future__ import annotations

import asyncio
from typing import Any

from zabka.api.http.problems import Problem
from zabka.api.runs.catalogue import Runs
from zabka.api.runs.history import History
from zabka.journal.divergence import parting
from zabka.journal.events import Entry
from zabka.journal.outcomes import deciding
from zabka.journal.reader import decode_line

COMPARED_MAX = 200_000
CHECKED_MAX = 40_000
"""Maximum total number of events in two compared histories. In longer ones, the consequences of a difference are not
considered.
"""
_BATCH = 1_000


async def divergence(runs: Runs, run_id: str, other_id: str) -> dict[str, Any]:
    """Return the first difference between two runs that changes the outcome.

    Raises Problem: 404, or 422 if a run is too long to be compared.
    """
    one = await _entries(runs.rewind(run_id).history, run_id)
    other = await _entries(runs.rewind(other_id).history, other_id)
    sides = await asyncio.to_thread(first_difference, one, other)
    for side, known in (("a", run_id), ("b", other_id)):
        at = sides["at"][side]
        sides["why"][side] = None if at is None else await runs.whys(known).why(at["seq"])
    return sides


def first_difference(one: list[Entry], other: list[Entry]) -> dict[str, Any]:
    """Return the first difference of two histories as JSON. The caller fills in `why` for both runs."""
    compare = deciding if len(one) + len(other) <= CHECKED_MAX else parting
    found = compare(one, other)
    sides: dict[str, Any] = {"same": found is None, "at": {"a": None, "b": None}, "before": None}
    if found is not None:
        ats = [(at, entries) for at, entries in ((found.other, other), (found.one, one)) if at is not None]
        since_us = ats[0][0].wall_us - ats[0][1][0].wall_us
        sides["before"] = {}
        for side, at, history in (("a", found.one, one), ("b", found.other, other)):
            sides["at"][side] = None if at is None else {"seq": at.seq, "event": at.to_dict()}
            sides["before"][side] = at.seq - 1 if at is not None else _last_at(history, since_us)
    return {**sides, "why": {"a": None, "b": None}}


def _last_at(history: list[Entry], since_us: int) -> int:
    """Return the number of the last event within the first `since_us` microseconds of the history."""
    numbers = [entry.seq for entry in history if entry.wall_us - history[0].wall_us <= since_us]
    return max(numbers, default=history[0].seq)


async def _entries(history: History, run_id: str) -> list[Entry]:
    count = history.last_seq + 1 - history.first_seq
    if count > COMPARED_MAX:
        raise Problem(422, f"{run_id} has {count} events; up to {COMPARED_MAX} are compared")
    entries: list[Entry] = []
    seq = history.first_seq
    while events := history.read(seq, _BATCH):
        entries += [decode_line(event.json) for event in events]
        seq = events[-1].seq + 1
        await asyncio.sleep(0)
    if not entries:
        raise Problem(422, f"{run_id} has no event yet")
    return entries

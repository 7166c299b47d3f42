"""Incidents of a run for the page: each has its first cause and its effects as sentences."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from zabka.api.runs.history import History
from zabka.api.runs.why import read_sentences_once
from zabka.journal.events import Entry
from zabka.journal.incidents import headline, incidents, kind_of, summary, target_of
from zabka.journal.reader import decode_line

EVENTS_MAX = 40_000
"""Maximum number of events to examine. Of a longer history, only the last events are examined."""
_BATCH = 1_000


async def incidents_of(history: History) -> list[dict[str, Any]]:
    """Return the incidents among the last events of a history."""
    entries: deque[Entry] = deque(maxlen=EVENTS_MAX)
    seq = history.first_seq
    while rows := history.read(seq, _BATCH):
        entries.extend(decode_line(row.json) for row in rows)
        seq = rows[-1].seq + 1
        await asyncio.sleep(0)
    return await asyncio.to_thread(incident_list, list(entries))


def incident_list(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the incidents of a history, in the form of `IncidentView`."""
    # `incidents` identifies entries by their index in the list. Convert each index to the history's event number.
    numbers = {(entry.node, entry.node_seq): entry.seq for entry in entries}
    sentences = read_sentences_once()
    return [
        {
            "number": each.number,
            "kind": kind_of(each),
            "target": target_of(each),
            "cause_seq": numbers[each.cause.node, each.cause.node_seq],
            "from_us": each.from_us,
            "to_us": each.to_us,
            "headline": headline(each, sentences),
            "summary": summary(each, sentences),
        }
        for each in incidents(entries)
    ]

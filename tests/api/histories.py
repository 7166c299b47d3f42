"""Journals of simulated runs, for tests of stored runs and of past cluster states."""

from __future__ import annotations

from functools import cache

import msgspec

from zabka.agent.protocol import JournalChunk, Position
from zabka.api.collector.collector import Collector
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.run_models import Run
from zabka.journal.events import Entry
from zabka.journal.reader import decode_line
from zabka.journal.writer import encode_line
from zabka.simulation.run import run_with_journal

PIECE = 100
"""Number of events per chunk that an agent sends to the collector in these tests."""


@cache
def played(scenario: str = "kafka-1211", seed: int = 1) -> tuple[Entry, ...]:
    """Return the journal of a simulated run, with events numbered from 1."""
    _, lines = run_with_journal(seed, scenario)
    entries = map(decode_line, lines)
    return tuple(msgspec.structs.replace(entry, seq=seq) for seq, entry in enumerate(entries, 1))


def copies(history: tuple[Entry, ...], times: int) -> list[Entry]:
    """Return the events repeated `times` times, with later timestamps in each repetition."""
    span = max(entry.wall_us for entry in history) - min(entry.wall_us for entry in history) + 1
    last = {}
    for entry in history:
        last[entry.node] = entry.node_seq
    found = []
    for time in range(times):
        for entry in history:
            found.append(
                msgspec.structs.replace(
                    entry,
                    seq=len(found) + 1,
                    node_seq=entry.node_seq + time * last[entry.node],
                    wall_us=entry.wall_us + time * span,
                )
            )
    return found


def kept_run(run_id: str, created_ms: int, history: tuple[Entry, ...], **about: object) -> Run:
    """Return the metadata of a stored run that consists of the events in `history`."""
    known = {
        "id": run_id, "kind": "upload", "title": run_id, "first_seq": 1, "last_seq": len(history), "first_us": 0,
        "last_us": 0, "events": len(history), "created_ms": created_ms,
    }  # fmt: skip
    return Run.model_validate({**known, **about})


def keep(kept: KeptRuns, run: Run, history: tuple[Entry, ...]) -> Run:
    """Store a run and its events, and list the run as available."""
    kept.keep(run, history)
    kept.admit(run)
    return run


def collect_history(collector: Collector, history: list[Entry]) -> list[Entry]:
    """Send the events to a collector in chunks, and return them with the numbers that the collector assigned."""
    numbered: list[Entry] = []
    for begin in range(0, len(history), PIECE):
        piece = history[begin : begin + PIECE]
        before = collector.last_seq
        for node in dict.fromkeys(entry.node for entry in piece):
            own = [entry for entry in piece if entry.node == node]
            lines = b"".join(encode_line(e.node, e.node_seq, e.wall_us, e.mono_us, e.event) for e in own)
            collector.accept_chunk(JournalChunk(node, lines, Position("f", len(lines))))
        collector.number_due(everything=True)
        numbered += [decode_line(event.json) for event in collector.after(before, 10**6)]
    return numbered

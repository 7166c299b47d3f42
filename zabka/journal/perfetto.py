"""Writes a history as Chrome trace JSON, for https://ui.perfetto.dev and chrome://tracing.

| in the trace | from |
|---|---|
| one process per kind of lane, one thread per lane or replica, one slice per span | `zabka.journal.spans` |
| one process per node, with an instant per event | the journal, without events that only report progress |
| a slice at the sender, one at the receiver, and an arrow between them | messages that arrived |

The format is described in "Trace Event Format" (Google, 2016). Times are microseconds since the first event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry, type_name
from zabka.journal.messages import Message
from zabka.journal.sentences import Sentences
from zabka.journal.spans import Spans

Json = dict[str, Any]
SHORTEST_US = 1
"""Duration of a slice whose real duration is 0, because viewers do not draw a slice of that length."""
_MESSAGES = "messages"
_KINDS = {
    "controller": "Controller", "belief": "Beliefs of brokers", "isr": "Partitions", "peer": "ZAB peers",
    "process": "Processes", "group": "Consumer groups", "faults": "Faults",
}  # fmt: skip


def perfetto_trace(
    entries: Sequence[Entry],
    messages: Sequence[Message],
    sentences: Sentences,
    is_progress: Callable[[Entry], bool],
    before: ClusterState | None = None,
) -> bytes:
    """Return the trace of a history. `before` is the state before the first event; this function modifies it."""
    begin_us = entries[0].wall_us if entries else 0
    rows = _Rows(begin_us)
    events = [
        *_slices(entries, before or ClusterState(), rows),
        *_instants(entries, sentences, is_progress, rows),
        *_arrows(messages, rows),
    ]
    return msgspec.json.encode({"traceEvents": [*rows.names(), *events], "displayTimeUnit": "ms"})


class _Rows:
    """Assigns numbers to the processes and threads of the trace by their names."""

    def __init__(self, begin_us: int) -> None:
        self._begin_us = begin_us
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[str, str], int] = {}

    def at(self, process: str, thread: str, at_us: int) -> Json:
        """Return the process number, thread number and time of a trace event."""
        pid = self._processes.setdefault(process, len(self._processes) + 1)
        tid = self._threads.setdefault((process, thread), len(self._threads) + 1)
        return {"pid": pid, "tid": tid, "ts": at_us - self._begin_us}

    def names(self) -> Iterator[Json]:
        """Yield the trace events that contain the names of processes and threads."""
        for process, pid in self._processes.items():
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}}
        for (process, thread), tid in self._threads.items():
            pid = self._processes[process]
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}


def _slices(entries: Sequence[Entry], before: ClusterState, rows: _Rows) -> Iterator[Json]:
    spans = Spans(before)
    for entry in entries:
        spans.apply(entry)
    end_us = spans.state.at_us
    lasted = [*spans.take_closed(), *spans.lasting()]
    for span in sorted(lasted, key=lambda span: (span.from_us, span.seq)):
        kind = span.lane.partition(":")[0]
        thread = f"{span.lane.partition(':')[2] or span.lane} {span.of}".strip()
        duration_us = max(SHORTEST_US, (end_us if span.to_us is None else span.to_us) - span.from_us)
        args = {"seq": span.seq, "value": span.value}
        yield {
            "ph": "X", "name": span.state, "cat": kind, "dur": duration_us, "args": args,
            **rows.at(_KINDS[kind], thread, span.from_us),
        }  # fmt: skip


def _instants(
    entries: Sequence[Entry], sentences: Sentences, is_progress: Callable[[Entry], bool], rows: _Rows
) -> Iterator[Json]:
    for entry in entries:
        if not is_progress(entry):
            sentence = sentences.sentence(entry.node, entry.event)
            yield {
                "ph": "i", "s": "t", "name": type_name(entry.event), "cat": "event",
                "args": {"sentence": sentence, "seq": entry.seq}, **rows.at(entry.node, "events", entry.wall_us),
            }  # fmt: skip


def _arrows(messages: Sequence[Message], rows: _Rows) -> Iterator[Json]:
    for message in messages:
        name = {"name": message.kind, "cat": message.group}
        sent = rows.at(message.source, _MESSAGES, message.sent_us)
        yield {"ph": "X", "dur": SHORTEST_US, "args": message.subject, **name, **sent}
        if message.arrived_us is None:
            continue
        arrived = rows.at(message.target, _MESSAGES, message.arrived_us)
        yield {"ph": "X", "dur": SHORTEST_US, "args": message.subject, **name, **arrived}
        yield {"ph": "s", "id": message.id, **name, **sent}
        yield {"ph": "f", "bp": "e", "id": message.id, **name, **arrived}

"""Causes of events in a run, found by following the references in the events back to the first cause."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import msgspec

from zabka.api.http.problems import Problem
from zabka.api.runs.history import History
from zabka.journal.causes import Causes, Chain
from zabka.journal.cluster_state import ClusterState
from zabka.journal.controller_gaps import gap_ended_by, gap_milliseconds
from zabka.journal.event import snake
from zabka.journal.events import EVENT_TYPES, Entry
from zabka.journal.fold import apply
from zabka.journal.reader import decode_line
from zabka.journal.rules import Rule, rule_of
from zabka.journal.rules.source_lines import line_of
from zabka.journal.sentence_file import SENTENCES, read_sentences
from zabka.journal.sentences import Sentences, Wording

LOOKED_BACK_MAX = 50_000
"""Maximum number of events before an effect that are searched for its causes."""
LOOKED_AHEAD = 2_000
"""Number of events after the effect that are also searched, because another host's journal may have arrived later."""
_BATCH = 1_000


class _Typed(msgspec.Struct):
    type: str


_type_of = msgspec.json.Decoder(_Typed).decode


@cache
def read_sentences_once() -> Sentences:
    """Return the sentence templates of all events. They are read from disk only once."""
    return read_sentences()


@cache
def progress_types() -> frozenset[str]:
    """Return the event types that only report progress. No event refers to them as its cause."""
    wordings = msgspec.json.decode(SENTENCES.read_bytes(), type=dict[str, Wording])
    known = {snake(kind.__name__) for kind in EVENT_TYPES}
    return frozenset(name for name, wording in wordings.items() if wording.progress and name in known)


class Whys:
    """Finds the causes of events of one history. Caches the events that it has read for later requests."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._causes = Causes()
        self._state = ClusterState()
        self._first = self._next = 0
        self._turn = asyncio.Lock()

    async def why(self, seq: int) -> list[dict[str, Any]]:
        """Return the causal chain of event `seq`, from the effect back to its first cause.

        Raises Problem: 404 if the event does not exist, 410 if it is no longer stored.
        """
        effect = self._event(seq)
        async with self._turn:
            await self._look_through(seq)
            steps = chain_to_json(self._causes.chain(effect))
            gap = gap_ended_by(self._state.controller_terms, effect.event)
            steps[0]["controller_gap"] = None if gap is None else gap_milliseconds(gap)
            return steps

    def _event(self, seq: int) -> Entry:
        oldest = self._history.first_seq
        if seq < oldest and oldest <= self._history.last_seq:
            raise Problem(410, f"the oldest stored event is {oldest}; {seq} is no longer stored", oldest=oldest)
        found = self._history.read(seq, 1) if seq <= self._history.last_seq else []
        if not found or found[0].seq != seq:
            raise Problem(404, f"there is no event {seq}; the last one is {self._history.last_seq}")
        return decode_line(found[0].json)

    async def _look_through(self, seq: int) -> None:
        history = self._history
        begin = max(history.first_seq, seq - LOOKED_BACK_MAX)
        # Reuse the events read so far only if they begin early enough, at most half of LOOKED_BACK_MAX after `begin`,
        # ...
        is_near = self._first <= max(history.first_seq, seq - LOOKED_BACK_MAX // 2)
        # ... and only if they reach `begin` without a gap and are at most three times LOOKED_BACK_MAX events.
        is_there = self._first <= seq and begin <= self._next <= self._first + 3 * LOOKED_BACK_MAX
        if not self._next or not is_near or not is_there:
            self._causes, self._state, self._first, self._next = Causes(), ClusterState(), begin, begin
        end = min(history.last_seq, seq + LOOKED_AHEAD)
        progress = progress_types()
        while self._next <= end:
            events = history.read(self._next, _BATCH)
            if not events:
                return
            for event in events:
                if _type_of(event.json).type not in progress:
                    entry = decode_line(event.json)
                    self._causes.see(entry)
                    apply(self._state, entry)
            self._next = events[-1].seq + 1
            await asyncio.sleep(0)


def chain_to_json(chain: Chain) -> list[dict[str, Any]]:
    """Return a causal chain as JSON. The last step contains the kind of the first cause."""
    steps: list[dict[str, Any]] = []
    link: str | None = None
    for entry in chain.steps:
        steps.append(step(entry, link))
        link = getattr(entry.event, "caused_by", None) or None
    steps[-1].update(end=chain.end.value, says=chain.says or None)
    return steps


def step(entry: Entry, link: str | None) -> dict[str, Any]:
    """Return one step of a causal chain: the event, the reference that led to it, its sentence, and its rule."""
    rule = rule_of(entry.event)
    return {
        "seq": entry.seq,
        "event": entry.to_dict(),
        "told": read_sentences_once().sentence(entry.node, entry.event),
        "link": link,
        "rule": None if rule is None else rule_to_json(rule),
        "end": None,
        "says": None,
        "controller_gap": None,
    }


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return a rule as JSON, with the line number of the function that implements it."""
    found: dict[str, Any] = msgspec.to_builtins(rule)
    found["source"]["line"] = line_of(rule.source)
    return found

"""Computes the state at any time of a history, and the spans of any part of it, by folding events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from zabka.api.collector.numbered import Numbered
from zabka.api.http.problems import Problem
from zabka.api.runs.history import Checkpoint, Checkpoints, Folded, History
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry
from zabka.journal.fold import apply
from zabka.journal.reader import decode_line
from zabka.journal.spans import Span, Spans

BATCH_EVENTS = 500
"""Number of events to fold before other tasks can run. Folding this many takes about 10 ms with the largest events."""


class NotedFold:
    """A fold that stores a checkpoint of its state at regular intervals."""

    def __init__(self, spans: Spans, checkpoints: Checkpoints) -> None:
        self.spans = spans
        self._checkpoints = checkpoints
        self._since = spans.state.seq
        self._closed: list[Span] = []

    def apply(self, entry: Entry) -> None:
        """Apply the next entry of the history."""
        self.spans.apply(entry)
        seq = self.spans.state.seq
        if self._checkpoints.due(seq):
            closed = self.spans.take_closed()
            self._checkpoints.note(self.spans, self._since, closed)
            self._closed += closed
            self._since = seq

    def take_closed(self) -> list[Span]:
        """Return the spans that ended since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def finished_spans(self) -> list[Span]:
        """Return the spans that ended since the last call, and the spans that have not ended.

        Call this only once, after the last event.
        """
        return [*self.take_closed(), *self.spans.take_closed(), *self.spans.lasting()]


class Lasted(NamedTuple):
    """The spans of one part of a history, and the start and end times of that part."""

    spans: list[Span]
    first_us: int
    last_us: int


class Rewind:
    """Computes the state after an event by folding events from the nearest earlier checkpoint."""

    def __init__(self, history: History, checkpoints: Checkpoints | None = None) -> None:
        self.history = history
        self._checkpoints = checkpoints or Checkpoints()

    async def state(self, at: int | None) -> ClusterState:
        """Return the state after event `at`, or after the last event.

        Raises Problem: 410 if some events up to `at` are no longer stored, 422 if the number `at` is not assigned yet.
        """
        at = self.history.last_seq if at is None else at
        self.check(at)
        head, known = self.history.head(at), self._checkpoints.before(at)
        begin = known.unpack() if known is not None and known.seq > head.state.seq else head
        state = begin.state
        if at >= self._checkpoints.next_due(state.seq):
            # No checkpoint is near, so also compute the spans and store checkpoints for later requests.
            fold = self._fold(begin)
            await self._go_on(state, fold.apply, at)
            state = fold.spans.state
        else:
            await self._go_on(state, partial(apply, state), at)
        return state

    async def _go_on(self, state: ClusterState, take: Callable[[Entry], None], last: int) -> None:
        while events := self._batch(state.seq, last):
            for event in events:
                take(decode_line(event.json))
            await asyncio.sleep(0)

    def check(self, seq: int) -> None:
        """Raise Problem if the state after event `seq` cannot be computed."""
        history = self.history
        if seq > history.last_seq:
            raise Problem(422, f"the last event is {history.last_seq}; there is no {seq} yet", last=history.last_seq)
        if seq < history.first_seq - 1:
            oldest = history.first_seq
            raise Problem(410, f"the oldest stored event is {oldest}; {seq} is no longer stored", oldest=oldest)

    def _fold(self, folded: Folded) -> NotedFold:
        return NotedFold(folded.go_on(), self._checkpoints)

    def _batch(self, seq: int, last: int) -> list[Numbered]:
        """Return the next events after `seq`, up to `last`; none if `seq` is already `last`. Raises Problem 410."""
        if seq >= last:
            return []
        # The oldest events may have been deleted while other tasks ran; `check` then raises Problem.
        self.check(seq)
        events = self.history.read(seq + 1, min(BATCH_EVENTS, last - seq))
        return [event for event in events if event.seq <= last]

    async def spans(self, from_us: int | None = None, to_us: int | None = None) -> Lasted:
        """Return the spans that overlap the time between two moments, or all stored spans if neither moment is given.

        Spans that last beyond `to_us` have no end time. Raises Problem 410 if events are removed during the call.
        """
        oldest = self.history.read(self.history.first_seq, 1)
        first_us = decode_line(oldest[0].json).wall_us if oldest else 0
        from_us = first_us if from_us is None else max(first_us, from_us)
        here: Checkpoint | NotedFold = self._begin(from_us)
        found: list[Span] = []
        while True:
            seq = here.seq if isinstance(here, Checkpoint) else here.spans.state.seq
            known = self._checkpoints.after(seq)
            if known is not None and (to_us is None or known.at_us <= to_us):
                found += known.spans()
                here = known
                await asyncio.sleep(0)
                continue
            here = fold = here if isinstance(here, NotedFold) else self._fold(here.unpack())
            events = self._batch(fold.spans.state.seq, self.history.last_seq)
            # Stop at the next event number at which a checkpoint may be stored.
            due = [event for event in events if event.seq <= self._checkpoints.next_due(seq)]
            if not events or not self._apply_until(fold, due or events, to_us):
                break
            found += fold.take_closed()
            await asyncio.sleep(0)
        found += fold.finished_spans()
        last_us = fold.spans.state.at_us
        reaching = [span for span in found if span.to_us is None or span.to_us >= from_us]
        return Lasted(reaching, from_us, last_us if to_us is None else min(to_us, last_us))

    def _begin(self, from_us: int) -> Checkpoint | NotedFold:
        head, known = self.history.head_at(from_us), self._checkpoints.before_us(from_us)
        if head.state.seq + 1 < self.history.first_seq:
            # Node clocks differ, so a stored event can have an earlier time than a removed event of another node.
            head = self.history.head(self.history.first_seq - 1)
        return known if known is not None and known.seq > head.state.seq else self._fold(head)

    @staticmethod
    def _apply_until(fold: NotedFold, events: list[Numbered], to_us: int | None) -> bool:
        """Apply events up to a moment. Return False once that moment is reached."""
        for event in events:
            entry = decode_line(event.json)
            if to_us is not None and entry.wall_us > to_us:
                return False
            fold.apply(entry)
        return True

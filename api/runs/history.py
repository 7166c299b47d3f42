"""Interface of a history, and folded states (checkpoints) in memory, which speed up the computation of other states.

A folded state is the result of applying all events of a history up to an event number.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import Protocol

import msgspec

from zabka.api.collector.numbered import Numbered
from zabka.journal.cluster_state import ClusterState
from zabka.journal.spans import Begun, Span, Spans

CHECKPOINT_EVERY = 250
"""Interval between checkpoints, in events: to compute any other state, at most this number of events is applied."""
CHECKPOINT_BYTES_MAX = 48 * 1024 * 1024
"""Maximum size of a history's folded states in memory. Above it, the least recently used states are dropped."""


class Folded(msgspec.Struct):
    """Intermediate result of a fold: the state, and the beginning of each open span."""

    state: ClusterState
    begun: list[Begun]

    @classmethod
    def of(cls, spans: Spans) -> Folded:
        """Return a fold's intermediate result.

        Pack or encode the result before the fold continues, because the fold modifies the state that it contains.
        """
        return cls(spans.state, spans.begun())

    def go_on(self) -> Spans:
        """Return a fold that continues from this intermediate result."""
        return Spans(self.state, self.begun)


_COMPRESSION = 1
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Folded).decode
_decode_spans = msgspec.msgpack.Decoder(list[Span]).decode


def _pack(value: Folded | list[Span]) -> bytes:
    """Encode and compress a value.

    A state with 505 partitions takes 100 kB, and an eighth of that compressed.
    """
    return zlib.compress(_encode(value), _COMPRESSION)


class History(Protocol):
    """Events of a run, ordered by number. Some numbers may be unused, but no number is used twice."""

    @property
    def first_seq(self) -> int:
        """The lowest stored event number; `last_seq` + 1 if no event is stored."""
        ...

    @property
    def last_seq(self) -> int:
        """The highest event number assigned so far."""
        ...

    def read(self, seq: int, limit: int) -> list[Numbered]:
        """Return up to `limit` events starting with `seq`, in order."""
        ...

    def head(self, seq: int) -> Folded:
        """Return a stored folded state at or before event `seq`, or an empty state if there is none."""
        ...

    def head_at(self, at_us: int) -> Folded:
        """Return a stored folded state at or before the time `at_us`, or an empty state if there is none."""
        ...


class Checkpoint(msgspec.Struct, frozen=True):
    """A compressed folded state after event `seq`, and the spans that ended between `since` and `seq`."""

    seq: int
    at_us: int
    folded: bytes
    since: int
    closed: bytes

    def unpack(self) -> Folded:
        """Return an independent copy of the folded state."""
        return _decode(zlib.decompress(self.folded))

    def spans(self) -> list[Span]:
        """Return the spans that ended after `since` and up to this checkpoint."""
        return _decode_spans(zlib.decompress(self.closed))


class Checkpoints:
    """Folded states of one history, keyed by event number.

    Any of them can be dropped, because each can be computed again.
    """

    def __init__(self, bytes_max: int = CHECKPOINT_BYTES_MAX) -> None:
        self._by_seq: dict[int, Checkpoint] = {}
        self._seqs: list[int] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    @staticmethod
    def due(seq: int) -> bool:
        """Return whether the folded state after event `seq` must be stored as a checkpoint."""
        return seq % CHECKPOINT_EVERY == 0

    @staticmethod
    def next_due(seq: int) -> int:
        """Return the first event number after `seq` whose folded state must be stored as a checkpoint."""
        return (seq // CHECKPOINT_EVERY + 1) * CHECKPOINT_EVERY

    def note(self, spans: Spans, since: int, closed: list[Span]) -> None:
        """Store the fold's state as a checkpoint, with the spans that ended after event `since`."""
        state = spans.state
        if state.seq in self._by_seq:
            return
        made = Checkpoint(state.seq, state.at_us, _pack(Folded.of(spans)), since, _pack(closed))
        self._by_seq[made.seq] = made
        self._seqs.insert(bisect_right(self._seqs, made.seq), made.seq)
        self._bytes += _size(made)
        while self._bytes > self._bytes_max and len(self._by_seq) > 1:
            oldest = next(iter(self._by_seq))
            self._bytes -= _size(self._by_seq.pop(oldest))
            self._seqs.remove(oldest)

    def before(self, seq: int) -> Checkpoint | None:
        """Return the latest checkpoint at or before `seq`."""
        place = bisect_right(self._seqs, seq)
        return self._asked(self._seqs[place - 1]) if place else None

    def before_us(self, at_us: int) -> Checkpoint | None:
        """Return the latest checkpoint at or before the time `at_us`."""
        place = bisect_right(self._seqs, at_us, key=lambda seq: self._by_seq[seq].at_us)
        return self._asked(self._seqs[place - 1]) if place else None

    def after(self, seq: int) -> Checkpoint | None:
        """Return the next checkpoint after `seq` if its list of ended spans begins exactly at `seq`."""
        place = bisect_right(self._seqs, seq)
        found = self._asked(self._seqs[place]) if place < len(self._seqs) else None
        return found if found is not None and found.since == seq else None

    def _asked(self, seq: int) -> Checkpoint:
        # Move the checkpoint to the end, so that the least recently used one is dropped first.
        found = self._by_seq[seq] = self._by_seq.pop(seq)
        return found


def _size(checkpoint: Checkpoint) -> int:
    return len(checkpoint.folded) + len(checkpoint.closed)

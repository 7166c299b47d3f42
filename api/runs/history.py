"""A history that can be rewound: numbered events, and what was folded of them before."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import Protocol

import msgspec

from zabka.api.collector.numbered import Numbered
from zabka.journal.cluster_state import ClusterState
from zabka.journal.spans import Begun, Span, Spans

CHECKPOINT_EVERY = 250
"""Events from one folded state in memory to the next: what a seek folds at most."""
CHECKPOINT_BYTES_MAX = 48 * 1024 * 1024
"""Of a history's folded states in memory; beyond that those go that were not asked for the longest."""


class Folded(msgspec.Struct):
    """Where a fold stands: the state, and since when its spans last."""

    state: ClusterState
    begun: list[Begun]

    @classmethod
    def of(cls, spans: Spans) -> Folded:
        """As it stands now; it is not to be kept while the fold goes on, but packed or encoded."""
        return cls(spans.state, spans.begun())

    def go_on(self) -> Spans:
        """A fold that goes on from here."""
        return Spans(self.state, self.begun)


_COMPRESSION = 1
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Folded).decode
_decode_spans = msgspec.msgpack.Decoder(list[Span]).decode


def _pack(value: Folded | list[Span]) -> bytes:
    """A state of 505 partitions is 100 kB, and packed an eighth of that."""
    return zlib.compress(_encode(value), _COMPRESSION)


class History(Protocol):
    """Numbered events in order; numbers may be missing, and none is given twice."""

    @property
    def first_seq(self) -> int:
        """The lowest number that is kept; one above the last where nothing is."""
        ...

    @property
    def last_seq(self) -> int:
        """The highest number given."""
        ...

    def read(self, seq: int, limit: int) -> list[Numbered]:
        """Up to `limit` events from `seq` on, in order."""
        ...

    def head(self, seq: int) -> Folded:
        """What is kept with the events, folded up to a number no later than `seq`; before all of them nothing is."""
        ...

    def head_at(self, at_us: int) -> Folded:
        """The same, up to a moment no later than `at_us`."""
        ...


class Checkpoint(msgspec.Struct, frozen=True):
    """A fold up to a number, packed, and the spans that ended on the way to it from another number."""

    seq: int
    at_us: int
    folded: bytes
    since: int
    closed: bytes

    def unpack(self) -> Folded:
        """A fold of one's own."""
        return _decode(zlib.decompress(self.folded))

    def spans(self) -> list[Span]:
        """What ended after `since`, up to here."""
        return _decode_spans(zlib.decompress(self.closed))


class Checkpoints:
    """What was folded of one history, by number; any of it can be folded again, and so may go."""

    def __init__(self, bytes_max: int = CHECKPOINT_BYTES_MAX) -> None:
        self._by_seq: dict[int, Checkpoint] = {}
        self._seqs: list[int] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    @staticmethod
    def due(seq: int) -> bool:
        """Whether what is folded up to that number is to be noted."""
        return seq % CHECKPOINT_EVERY == 0

    @staticmethod
    def next_due(seq: int) -> int:
        """The first number after that one which is due."""
        return (seq // CHECKPOINT_EVERY + 1) * CHECKPOINT_EVERY

    def note(self, spans: Spans, since: int, closed: list[Span]) -> None:
        """Keep where a fold stands, and what ended since it stood at `since`."""
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
        """The latest one up to `seq`."""
        place = bisect_right(self._seqs, seq)
        return self._asked(self._seqs[place - 1]) if place else None

    def before_us(self, at_us: int) -> Checkpoint | None:
        """The latest one up to a moment."""
        place = bisect_right(self._seqs, at_us, key=lambda seq: self._by_seq[seq].at_us)
        return self._asked(self._seqs[place - 1]) if place else None

    def after(self, seq: int) -> Checkpoint | None:
        """The one to which the fold came from exactly there."""
        place = bisect_right(self._seqs, seq)
        found = self._asked(self._seqs[place]) if place < len(self._seqs) else None
        return found if found is not None and found.since == seq else None

    def _asked(self, seq: int) -> Checkpoint:
        # What is asked for goes last.
        found = self._by_seq[seq] = self._by_seq.pop(seq)
        return found


def _size(checkpoint: Checkpoint) -> int:
    return len(checkpoint.folded) + len(checkpoint.closed)

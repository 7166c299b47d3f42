"""Extracts the features of a run: states of peers, brokers, partitions and sessions, and the order of events.

Features are derived from the journals of all nodes. Each event becomes a token: its type, and the fields that contain a
state, mode, cause or similar, but no names and no numbers. The features are:

- every token;
- every two tokens in sequence on a node, on a partition or in the whole cluster;
- every token while certain faults are active;
- every token of a partition, with the partition's state (`_Standing`);
- the combination of all peers' roles.

Each feature is counted as reached once, twice or often.

Extracting features takes one hundredth of a run's time. The alternative, recording code edges with `sys.settrace` in
the pure modules of ZAB or of controller and replication only, would make a run take four to six times as long (Python
3.11, which has no `sys.monitoring`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from zabka.journal.events import (
    BrokerRegistered,
    ControllerElected,
    Entry,
    Event,
    FaultInjected,
    FaultRemoved,
    IsrChanged,
    IsrProposed,
    LeaderElected,
    LeadershipTaken,
    LogTruncated,
    PeerStateChanged,
    ReplicaLoaded,
)

_TOO_FREQUENT = frozenset(
    (
        "TxnProposed", "TxnLogged", "TxnCommitted", "WriteAcknowledged", "EphemeralCreated", "EphemeralDeleted",
        "RecordsAppended", "RecordsReplicated", "RecordsAcknowledged", "HighWatermarkMoved", "ReplicaProgressed",
        "ZxidCheckpoint",
    )
)  # fmt: skip
"""Event types that every write causes. They are ignored, because they say nothing about later behaviour."""
_WORDS = ("state", "phase", "mode", "cause", "kind", "request", "process", "operation", "action", "invariant")
_FLAGS = ("unclean", "recovering", "is_controller", "both_ways")
_SIZES = ("isr", "eligible", "left", "live", "added", "removed", "bounced", "adding", "removing", "quorum")
_PAIRS = (
    ("request_epoch", "known_epoch"),
    ("accepted_epoch", "current_epoch"),
    ("from_offset", "to_offset"),
    ("log_end_offset", "high_watermark"),
    ("leader", "previous"),
    ("from_zxid", "to_zxid"),
)
"""Pairs of numeric fields.  The token of an event states which of the two values is larger."""
SIZE_MAX = 3
MASK = (1 << 48) - 1
OFTEN = 4


class _Tokens:
    """Turns events into tokens, and caches the fields of each event type."""

    def __init__(self) -> None:
        self._fields: dict[type[Event], tuple[tuple[str, ...], ...] | None] = {}
        self._pairs: dict[type[Event], tuple[tuple[str, str], ...]] = {}
        self._codes: dict[tuple[object, ...], int] = {}

    def of(self, event: Event) -> int:
        """Return the token of an event, or 0 for an event that is ignored."""
        kind = type(event)
        if kind not in self._fields:
            self._learn(kind)
        fields = self._fields[kind]
        if fields is None:
            return 0
        words, flags, sizes = fields
        performed = (
            kind.__name__,
            *[getattr(event, name) for name in words],
            *[getattr(event, name) for name in flags],
            *[min(len(getattr(event, name)), SIZE_MAX) for name in sizes],
            *[_order(getattr(event, one), getattr(event, other)) for one, other in self._pairs[kind]],
        )
        code = self._codes.get(performed)
        if code is None:
            code = self._codes[performed] = crc32(repr(performed).encode())
        return code

    def _learn(self, kind: type[Event]) -> None:
        names = kind.__struct_fields__
        if kind.__name__ in _TOO_FREQUENT:
            self._fields[kind] = None
            return
        self._fields[kind] = tuple(tuple(n for n in known if n in names) for known in (_WORDS, _FLAGS, _SIZES))
        self._pairs[kind] = tuple(pair for pair in _PAIRS if pair[0] in names and pair[1] in names)


def _order(one: int, other: int) -> int:
    return (one > other) - (one < other)


class _Standing:
    """State of a partition: ISR size, whether it has a leader, and the events since this state was last written."""

    __slots__ = ("_isr", "_led", "_since")

    def __init__(self) -> None:
        self._isr = 0
        self._led = False
        self._since: dict[str, None] = {}

    def see(self, event: Event) -> int:
        """Update the state with an event, and return the new state as a number."""
        if isinstance(event, IsrChanged | LeaderElected):
            self._isr, self._led = len(event.isr), event.leader >= 0
            self._since = {}
        else:
            self._since[type(event).__name__] = None
        return crc32(repr((min(self._isr, SIZE_MAX), self._led, sorted(self._since))).encode())


_TOKENS = _Tokens()
_TOUCHING = (BrokerRegistered, ControllerElected, IsrProposed, LogTruncated, LeadershipTaken, ReplicaLoaded)
"""Event types that count as part of a partition's state until the next write of its ISR or leader (`_Standing`)."""


class Reached(NamedTuple):
    """Features of a run: how often each feature was reached (1, 2 or OFTEN), and the number of its first journal
    entry.
    """

    counts: dict[int, int]
    firsts: dict[int, int]


def reached(entries: Iterable[Entry]) -> Reached:
    """Return the features of the history that these journal entries describe."""
    counts: Counter[int] = Counter()
    firsts: dict[int, int] = {}
    standings: dict[tuple[str, int], _Standing] = {}
    roles: dict[str, tuple[object, ...]] = {}
    last_of_node: dict[str, int] = {}
    last_of_partition: dict[tuple[str, int], int] = {}
    holding: dict[str, int] = {}
    last = faults = 0
    for number, entry in enumerate(entries):
        event = entry.event
        token = _TOKENS.of(event)
        if not token:
            continue
        here: list[int] = []
        if isinstance(event, FaultInjected):
            holding[event.fault_id] = crc32(f"{event.kind} {_kind(event.source)} {_kind(event.target)}".encode())
            faults = _sum(holding)
        elif isinstance(event, FaultRemoved):
            holding.pop(event.fault_id, None)
            faults = _sum(holding)
        elif isinstance(event, PeerStateChanged):
            is_ahead = event.accepted_epoch > event.current_epoch
            roles[entry.node] = event.state, event.phase, is_ahead
            here.append(crc32(repr(sorted(map(repr, roles.values()))).encode()) | 6 << 40)
        elif isinstance(event, (*_TOUCHING, IsrChanged, LeaderElected)):
            here += [_mixed(7, standing.see(event), token) for standing in _concerned(standings, event)]
        here += (
            token,
            _mixed(1, last_of_node.get(entry.node, 0), token),
            _mixed(2, last, token),
            _mixed(3, faults, token),
        )
        topic = getattr(event, "topic", None)
        if isinstance(topic, str):
            name = topic, getattr(event, "partition", 0) or 0
            here.append(_mixed(4, last_of_partition.get(name, 0), token))
            last_of_partition[name] = token
        last_of_node[entry.node] = last = token
        for feature in here:
            counts[feature] += 1
            firsts.setdefault(feature, number)
    return Reached({feature: count if count < 3 else OFTEN for feature, count in counts.items()}, firsts)


def _concerned(standings: dict[tuple[str, int], _Standing], event: Event) -> Iterable[_Standing]:
    """Return the states of the partitions that an event concerns. An event without a partition concerns all known
    ones.
    """
    topic = getattr(event, "topic", None)
    if topic is None:
        return standings.values()
    return (standings.setdefault((topic, getattr(event, "partition", 0)), _Standing()),)


def _kind(node: str) -> str:
    return node.rpartition("-")[0]


def _sum(holding: dict[str, int]) -> int:
    """Return a number for the set of kinds of active faults.

    The number does not depend on the order of the kinds or on the number of faults of each kind.
    """
    return sum(dict.fromkeys(holding.values())) & MASK


def _mixed(way: int, one: int, other: int) -> int:
    return ((one * 1_000_003) ^ (other * 8_191) ^ (way << 40)) & MASK

"""ZAB's own invariants, as the TLA+ specifications of ZAB and of ZooKeeper 3.7 define them.

They need a journal at the full level. The names are those of the sources: Zab.tla, ZkV3_7_0.tla and the later additions
(mixed_v1.tla, MSPEC_2.tla). Each checker processes one entry at a time with O(1) work, amortised. Invariants that need
the content of disks (processConsistency, the acknowledgement rules) are in `zabka.simulation.steps.rules`.

A zxid identifies a transaction, because `Integrity` checks that each zxid is proposed only once. The other checkers
rely on that and compare only zxids.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from zabka.journal import events as e
from zabka.journal.checkers.invariants import Checker
from zabka.journal.events import Entry, Event

_COUNTER = 0xFFFFFFFF
_DELIVERIES = (e.TxnProposed, e.TxnCommitted)


class Leadership:
    """At most one peer ever leads the synchronisation or broadcast phase of an epoch (Leadership1, Leadership2)."""

    name = "Leadership"
    watches: tuple[type[Event], ...] = (e.PeerStateChanged,)

    def __init__(self) -> None:
        self.checked = 0
        self._leaders: dict[int, str] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare a new leader with the earlier leader of the same epoch."""
        event = entry.event
        assert isinstance(event, e.PeerStateChanged)
        if event.state == "LEADING" and event.phase in ("SYNCHRONIZATION", "BROADCAST"):
            self.checked += 1
            first = self._leaders.setdefault(event.current_epoch, entry.node)
            if first != entry.node:
                yield f"epoch {event.current_epoch} is led by {first} and by {entry.node}"


class Integrity:
    """Every delivered transaction was broadcast earlier with the same content, and each zxid is broadcast once."""

    name = "Integrity"
    watches: tuple[type[Event], ...] = (e.TxnProposed, e.TxnCommitted)

    def __init__(self) -> None:
        self.checked = 0
        self._proposed: dict[int, tuple[int, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Record each proposal. Check that each committed transaction was proposed earlier."""
        event = entry.event
        assert isinstance(event, _DELIVERIES)
        self.checked += 1
        row = (event.session_id, event.cxid)
        known = self._proposed.get(event.zxid)
        if isinstance(event, e.TxnCommitted):
            if known != row:
                yield f"{entry.node} delivered 0x{event.zxid:x} of {row}, proposed was {known}"
        elif known is not None:
            yield f"{entry.node} proposed 0x{event.zxid:x} again"
        else:
            self._proposed[event.zxid] = row


class DeliveryOrder:
    """All peers deliver the same transactions in the same order.

    The order is by zxid and has no gap, and each peer delivers a contiguous part of it (PrefixConsistency, Agreement,
    TotalOrder, LocalPrimaryOrder, GlobalPrimaryOrder).
    """

    name = "TotalOrder"
    watches: tuple[type[Event], ...] = (e.TxnCommitted, e.NodeStarted, e.HistoryReplaced, e.ZxidCheckpoint)

    def __init__(self) -> None:
        self.checked = 0
        self._order: list[int] = []
        self._place: dict[int, int] = {}
        self._at: dict[str, int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Check that a peer delivers transactions in the common order.

        Each transaction's position in this order is compared with that of the peer's previous delivery.
        """
        event, node = entry.event, entry.node
        if isinstance(event, e.TxnCommitted):
            yield from self._delivered(node, event.zxid)
        elif isinstance(event, e.NodeStarted):
            self._at.pop(node, None)
        elif isinstance(event, e.HistoryReplaced) or (isinstance(event, e.ZxidCheckpoint) and node not in self._at):
            self._jump(node, event.zxid)

    def _jump(self, node: str, zxid: int) -> None:
        place = self._place.get(zxid)
        if place is None:
            self._at.pop(node, None)
        else:
            self._at[node] = place

    def _delivered(self, node: str, zxid: int) -> Iterator[str]:
        self.checked += 1
        order = self._order
        place = self._place.get(zxid)
        if place is None:
            if order and not _follows(order[-1], zxid):
                yield f"{node} delivered 0x{zxid:x}; the last one anybody had delivered was 0x{order[-1]:x}"
            place = self._place[zxid] = len(order)
            order.append(zxid)
        expected = self._at.get(node, place - 1) + 1
        if place != expected:
            due = f"0x{order[expected]:x}" if expected < len(order) else "nothing known"
            yield f"{node} delivered 0x{zxid:x}, next for it was {due}"
        self._at[node] = place


class PrimaryIntegrity:
    """Before a primary broadcasts, its log has every transaction of earlier epochs that any peer ever delivers."""

    name = "PrimaryIntegrity"
    watches: tuple[type[Event], ...] = (e.LeaderEstablished, e.TxnCommitted)

    def __init__(self) -> None:
        self.checked = 0
        self._established: list[tuple[int, int]] = []
        self._highest = 0

    def see(self, entry: Entry) -> Iterator[str]:
        """When a transaction is first delivered, check that the log of every later primary contains it."""
        event = entry.event
        if isinstance(event, e.LeaderEstablished):
            self._established.append((event.epoch, event.zxid))
        elif isinstance(event, e.TxnCommitted) and event.zxid > self._highest:
            self._highest = event.zxid
            for epoch, history_end in reversed(self._established):
                if epoch <= event.zxid >> 32:
                    break
                self.checked += 1
                if history_end < event.zxid:
                    yield (
                        f"{entry.node} delivered 0x{event.zxid:x}, "
                        f"which the primary of epoch {epoch} (0x{history_end:x}) had not"
                    )


class CommittedLog:
    """Committed transactions are never lost.

    A new leader has all of them (leaderLogCompleteness), no synchronisation removes one (committedLogDurability), and
    no peer serves an older state than before (monotonicRead).

    A peer that joins a leader may truncate a proposal of that leader and receive it again, if the proposal was not
    committed when the leader planned the synchronisation. The leader does not count that peer's earlier
    acknowledgement, so the other peers form a quorum that has the proposal. The peer must keep a transaction that it
    has delivered.
    """

    name = "committedLogDurability"
    watches: tuple[type[Event], ...] = (
        e.TxnCommitted,
        e.LeaderEstablished,
        e.TxnLogTruncated,
        e.LearnerSynced,
        e.ZxidCheckpoint,
        e.PeerStateChanged,
    )

    def __init__(self) -> None:
        self.checked = 0
        self._committed: list[int] = []
        self._seen: dict[str, int] = {}
        self._accepted: dict[str, int] = {}

    @property
    def last(self) -> int:
        """Zxid of the newest transaction that any peer has delivered; 0 before the first delivery."""
        return self._committed[-1] if self._committed else 0

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare a peer's log or state with all transactions committed so far."""
        event, node = entry.event, entry.node
        if isinstance(event, e.TxnCommitted):
            if not self._committed or event.zxid > self._committed[-1]:
                self._committed.append(event.zxid)
            self._seen[node] = max(event.zxid, self._seen.get(node, 0))
        elif isinstance(event, e.PeerStateChanged):
            self._accepted[node] = event.accepted_epoch
        elif isinstance(event, e.LeaderEstablished):
            # Compare only with older epochs, because a leader established late may already have been replaced in a
            # higher epoch.
            older = bisect_right(self._committed, (event.epoch << 32) - 1)
            self.checked += older > 0
            if older and self._committed[older - 1] > event.zxid:
                last = self._committed[older - 1]
                yield f"the leader of epoch {event.epoch} ends at 0x{event.zxid:x}, 0x{last:x} is committed"
        elif isinstance(event, e.TxnLogTruncated | e.LearnerSynced):
            yield from self._removed(node, event.from_zxid, event.to_zxid)
        elif isinstance(event, e.ZxidCheckpoint) and event.zxid < self._seen.get(node, 0):
            yield f"{node} serves from 0x{event.zxid:x}; it had delivered up to 0x{self._seen.get(node, 0):x}"

    def _removed(self, node: str, from_zxid: int, to_zxid: int) -> Iterator[str]:
        after = bisect_right(self._committed, to_zxid)
        if after == len(self._committed) or self._committed[after] > from_zxid:
            return
        lost = self._committed[after]
        if lost >> 32 != self._accepted.get(node) or lost <= self._seen.get(node, 0):
            yield f"{node} went back from 0x{from_zxid:x} to 0x{to_zxid:x}, 0x{lost:x} is committed"


class MessagesLegal:
    """No peer receives a message that the protocol does not allow at that point.

    Peers report such messages as stateInconsistent, proposalInconsistent, commitInconsistent, ackInconsistent or
    messageIllegal.
    """

    name = "messageIllegal"
    watches: tuple[type[Event], ...] = (e.PeerProtocolBroken,)
    checked = None

    def see(self, entry: Entry) -> Iterator[str]:
        """Return the problem that a peer reports about another peer's message."""
        event = entry.event
        assert isinstance(event, e.PeerProtocolBroken)
        if entry.node.startswith("peer-") and event.remote.startswith("peer-"):
            yield f"{entry.node} says of {event.remote}: {event.reason}"


def _follows(previous: int, zxid: int) -> bool:
    return zxid == previous + 1 or (zxid & _COUNTER == 1 and zxid >> 32 > previous >> 32)


def zab_checkers() -> list[Checker]:
    """Return new checkers for ZAB's invariants, for journals at the full level."""
    return [Leadership(), Integrity(), DeliveryOrder(), PrimaryIntegrity(), CommittedLog(), MessagesLegal()]

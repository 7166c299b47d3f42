"""ZAB's own invariants, over the full journal: those that the TLA+ specifications of ZAB and of ZooKeeper 3.7 check.

Sources: Zab.tla, ZkV3_7_0.tla and their after-action additions (mixed_v1.tla, MSPEC_2.tla); the names are theirs.  Each
checker takes one entry after the other and does O(1) work for it, amortised.  What needs a look at the disks
(processConsistency, the acknowledgement rules) is in `zabka.simulation.judges.rules`.

A zxid names a transaction once and for all, because `Integrity` holds that it is proposed once; the other checkers
rely on that and compare zxids alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from zabka.journal import events as e
from zabka.journal.events import Entry, Event
from zabka.journal.judges.invariants import Checker

_COUNTER = 0xFFFFFFFF
_DELIVERIES = (e.TxnProposed, e.TxnCommitted)


class Leadership:
    """At most one peer ever leads in synchronisation or broadcast of an epoch (Leadership1 and 2)."""

    name = "Leadership"
    watches: tuple[type[Event], ...] = (e.PeerStateChanged,)

    def __init__(self) -> None:
        self.judged = 0
        self._leaders: dict[int, str] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare with whoever led in that epoch before."""
        event = entry.event
        assert isinstance(event, e.PeerStateChanged)
        if event.state == "LEADING" and event.phase in ("SYNCHRONIZATION", "BROADCAST"):
            self.judged += 1
            first = self._leaders.setdefault(event.current_epoch, entry.node)
            if first != entry.node:
                yield f"epoch {event.current_epoch} is led by {first} and by {entry.node}"


class Integrity:
    """What is delivered was broadcast, as it was broadcast, and a zxid is broadcast once."""

    name = "Integrity"
    watches: tuple[type[Event], ...] = (e.TxnProposed, e.TxnCommitted)

    def __init__(self) -> None:
        self.judged = 0
        self._proposed: dict[int, tuple[int, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Remember proposals; look each commit up."""
        event = entry.event
        assert isinstance(event, _DELIVERIES)
        self.judged += 1
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
    """There is one order of all that is delivered, it follows the zxids without a gap, and each peer delivers a
    contiguous part of it in that order (PrefixConsistency, Agreement, TotalOrder, LocalPrimaryOrder,
    GlobalPrimaryOrder)."""

    name = "TotalOrder"
    watches: tuple[type[Event], ...] = (e.TxnCommitted, e.NodeStarted, e.HistoryReplaced, e.ZxidCheckpoint)

    def __init__(self) -> None:
        self.judged = 0
        self._order: list[int] = []
        self._place: dict[int, int] = {}
        self._at: dict[str, int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Place each delivery in the order, and behind the peer's last one."""
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
        self.judged += 1
        order = self._order
        place = self._place.get(zxid)
        if place is None:
            if order and not _follows(order[-1], zxid):
                yield f"{node} delivered 0x{zxid:x}; the last one anybody had delivered was 0x{order[-1]:x}"
            place = self._place[zxid] = len(order)
            order.append(zxid)
        expected = self._at.get(node, place - 1) + 1
        if place != expected:
            wanted = f"0x{order[expected]:x}" if expected < len(order) else "nothing known"
            yield f"{node} delivered 0x{zxid:x}, next for it was {wanted}"
        self._at[node] = place


class PrimaryIntegrity:
    """Before a primary broadcasts, it has delivered all of earlier epochs that anybody ever delivers."""

    name = "PrimaryIntegrity"
    watches: tuple[type[Event], ...] = (e.LeaderEstablished, e.TxnCommitted)

    def __init__(self) -> None:
        self.judged = 0
        self._established: list[tuple[int, int]] = []
        self._highest = 0

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare the first delivery of an older epoch's transaction with the histories of the primaries since."""
        event = entry.event
        if isinstance(event, e.LeaderEstablished):
            self._established.append((event.epoch, event.zxid))
        elif isinstance(event, e.TxnCommitted) and event.zxid > self._highest:
            self._highest = event.zxid
            for epoch, history_end in reversed(self._established):
                if epoch <= event.zxid >> 32:
                    break
                self.judged += 1
                if history_end < event.zxid:
                    yield (
                        f"{entry.node} delivered 0x{event.zxid:x}, "
                        f"which the primary of epoch {epoch} (0x{history_end:x}) had not"
                    )


class CommittedLog:
    """What is committed stays: a new leader has all of it (leaderLogCompleteness), no synchronisation removes any of
    it (committedLogDurability), and no peer serves an older state than it served before (monotonicRead).

    A proposal of the very leader that a peer joins may be cut off there and sent again, if it was not committed yet
    when the leader looked: it counts the peer for nothing from before, so a quorum has it without that peer.  What the
    peer has delivered itself may not.
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
        self.judged = 0
        self._committed: list[int] = []
        self._seen: dict[str, int] = {}
        self._accepted: dict[str, int] = {}

    @property
    def last(self) -> int:
        """The newest transaction that anybody has delivered, 0 before the first."""
        return self._committed[-1] if self._committed else 0

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare with all that was committed so far."""
        event, node = entry.event, entry.node
        if isinstance(event, e.TxnCommitted):
            if not self._committed or event.zxid > self._committed[-1]:
                self._committed.append(event.zxid)
            self._seen[node] = max(event.zxid, self._seen.get(node, 0))
        elif isinstance(event, e.PeerStateChanged):
            self._accepted[node] = event.accepted_epoch
        elif isinstance(event, e.LeaderEstablished):
            # One that hears late that it is established may have been overtaken by a higher epoch.
            older = bisect_right(self._committed, (event.epoch << 32) - 1)
            self.judged += older > 0
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
    """Among our own peers nobody ever receives what the protocol does not allow at that point (stateInconsistent,
    proposalInconsistent, commitInconsistent, ackInconsistent, messageIllegal)."""

    name = "messageIllegal"
    watches: tuple[type[Event], ...] = (e.PeerProtocolBroken,)
    judged = None

    def see(self, entry: Entry) -> Iterator[str]:
        """Pass on what a peer says of another."""
        event = entry.event
        assert isinstance(event, e.PeerProtocolBroken)
        if entry.node.startswith("peer-") and event.remote.startswith("peer-"):
            yield f"{entry.node} says of {event.remote}: {event.reason}"


def _follows(previous: int, zxid: int) -> bool:
    return zxid == previous + 1 or (zxid & _COUNTER == 1 and zxid >> 32 > previous >> 32)


def zab_checkers() -> list[Checker]:
    """ZAB's invariants, fresh; for histories at the full journal level."""
    return [Leadership(), Integrity(), DeliveryOrder(), PrimaryIntegrity(), CommittedLog(), MessagesLegal()]

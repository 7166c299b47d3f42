"""Rules that compare the packets that a peer sends with its disk, to prove that its acknowledgements are true.

The rules are checked whenever a peer sends a packet, against the content of its disk and not of its memory.  The rules
are numbered as in the tests of `zabka.ensemble.zab`.  1: accepted epochs are durable.  2: history and epoch are durable
before NEWLEADER is acknowledged.  3: a proposal is durable before it is acknowledged.  A commit requires that the
transaction is on the disks of a quorum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

from zabka.ensemble.ids import Epoch, PeerId, Zxid, counter_of, epoch_of, zxid_text
from zabka.ensemble.zab.messages import Ack, AckEpoch, LeaderInfo, Packet
from zabka.ensemble.zab.sync import follows


class DurableState(Protocol):
    """The data that would be on a disk after a power loss at this time."""

    @property
    def accepted(self) -> Epoch: ...
    @property
    def current(self) -> Epoch: ...
    def last_durable(self) -> Zxid: ...
    def holds(self, zxid: Zxid) -> bool: ...


class Quorums(Protocol):
    """The voters and their quorums."""

    @property
    def voters(self) -> Sequence[PeerId]: ...
    def contains(self, peers: dict[PeerId, None], /) -> bool: ...


def broken_rule(packet: Packet, disk: DurableState, accepted: Epoch) -> str | None:
    """Return the rule that a peer with that disk would break by sending this packet, or None.

    `accepted` is the accepted epoch in the peer's memory.
    """
    if isinstance(packet, AckEpoch):
        if disk.accepted != accepted:
            return f"ACKEPOCH for epoch {accepted}, acceptedEpoch on disk is {disk.accepted}"
        if packet.current_epoch >= 0 and disk.last_durable() != packet.last_zxid:
            return f"ACKEPOCH names {zxid_text(packet.last_zxid)}, {zxid_text(disk.last_durable())} is durable"
    elif isinstance(packet, LeaderInfo):
        if disk.accepted != packet.epoch:
            return f"LEADERINFO of epoch {packet.epoch}, acceptedEpoch on disk is {disk.accepted}"
    elif isinstance(packet, Ack):
        if counter_of(packet.zxid) == 0:
            if disk.current != epoch_of(packet.zxid):
                return f"NEWLEADER acknowledged in epoch {epoch_of(packet.zxid)}, on disk is {disk.current}"
        elif not disk.holds(packet.zxid):
            return f"{zxid_text(packet.zxid)} acknowledged and not durable"
    return None


def without_quorum(zxid: Zxid, quorum: Quorums, disks: dict[int, DurableState]) -> str | None:
    """Return why `zxid` must not be committed yet (it is not on the disks of a quorum), or None."""
    holders = {voter: None for voter in quorum.voters if voter in disks and disks[voter].holds(zxid)}
    if quorum.contains(holders):
        return None
    return f"quorum: {zxid_text(zxid)} committed and durable only on {sorted(holders)}"


def is_prefix(follower: Iterable[int], leader: Sequence[int]) -> bool:
    """Return whether the follower's log is a contiguous part of the leader's log (processConsistency).

    Entries of the follower before the first entry of `leader` are ignored.
    """
    if not leader:
        return True
    mine = [zxid for zxid in follower if zxid >= leader[0]]
    if not mine:
        return True
    theirs = [zxid for zxid in leader if mine[0] <= zxid <= mine[-1]]
    return mine == theirs and all(follows(a, b) for a, b in pairwise(mine))

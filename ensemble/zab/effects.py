"""What the pure core asks its driver to do.

A handler of `zabka.ensemble.zab.peer.Peer` returns a list of effects; the driver (asyncio shell or simulated world)
carries them out in order.  Disk effects go into one queue a peer, done strictly in order; `Barrier(token)` calls back
`on_durable(token)` once everything queued before it is fsynced.  A driver may join many barriers into one fsync. A
message effect never waits for the disk: the core orders them itself, by waiting for a barrier.

A turn asks for a handful of effects, however much came together: what it sends on a link is one, what it appends in one
go is one.  A driver that gave the peer an outlet gets the first part of a long turn's effects while the turn goes on.
"""

from __future__ import annotations

import msgspec

from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, Zxid
from zabka.ensemble.records import ServerMessage
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import Notification, Packet
from zabka.journal.events import Event


class Effect(msgspec.Struct, gc=False):
    """Base of all effects."""


class SendNotification(Effect):
    """Send on the election port.  May be lost; a newer one to the same peer replaces one not sent yet."""

    to: PeerId
    notification: Notification


class OpenLink(Effect):
    """Connect to that peer's quorum port.  Answered by `on_link_up(now, link, to)` or `on_link_failed(now, to)`."""

    to: PeerId


class SendPackets(Effect):
    """Send on a link, in order, reliably until the link breaks: all that one turn has for it."""

    link: LinkId
    packets: list[Packet]


class CloseLink(Effect):
    """Close a link after sending what was queued on it.  The core expects no `on_link_down` for it."""

    link: LinkId
    reason: str


class Append(Effect):
    """Disk: append transactions to the log, in order.  A crash may leave any number of the first of them."""

    txns: list[Txn]


class TruncateLog(Effect):
    """Disk: remove every logged transaction above `zxid`, and every snapshot newer than it, durably; then reload.
    Answered by `on_recovered(now, recovered)`."""

    zxid: Zxid


class ReadLog(Effect):
    """Read some logged transactions that follow `after`, for the learner on `link`; what was queued for the disk before
    this is not waited for.  Answered by `on_log_read(now, link, after, txns)`.

    `txns` are in order and without a gap, and none of them fails its checksum.  It is None where there are none, where
    `after` is neither `base` nor a transaction in the log, or, with a `size_factor` other than 0, where all that
    follow are larger than that part of the newest snapshot (snapshotSizeFactor).

    `borders` says, for the last transaction of each epoch in this peer's history, which one came next: the numbers
    alone do not tell whether an epoch has been read to its end.
    """

    link: LinkId
    after: Zxid
    base: Zxid
    size_factor: float
    borders: dict[Zxid, Zxid] = {}


class SaveSnapshot(Effect):
    """Disk: write a snapshot and fsync it.  `replaces_history` (a SNAP sync) also starts a new log: nothing logged
    before counts any more."""

    snapshot: TreeSnapshot
    replaces_history: bool


class SaveAcceptedEpoch(Effect):
    """Disk: acceptedEpoch, durably, atomically."""

    epoch: Epoch


class SaveCurrentEpoch(Effect):
    """Disk: currentEpoch, durably, atomically.  The history before it is complete (see `Recovered`)."""

    epoch: Epoch


class SaveDoubt(Effect):
    """Disk: note, durably, that this history leads to another tree than the leader's (see `Recovered.in_doubt`)."""


class SaveMembership(Effect):
    """Disk: this membership is in force from now on (`zoo.cfg.dynamic.<version>`, and zoo.cfg names it), durably."""

    membership: Membership


class SaveNextMembership(Effect):
    """Disk: this membership was proposed (`zoo.cfg.dynamic.next`), durably.  Comes before the proposal's own Append."""

    membership: Membership


class UseMembership(Effect):
    """Reach and accept the servers of these two memberships from now on: the one in force and the last one seen."""

    current: Membership
    last_seen: Membership


class Barrier(Effect):
    """Disk: when everything queued before this is durable, call `on_durable(now, token)`."""

    token: int


class SetTimer(Effect):
    """Call `on_timer(now, name)` once, after `delay_ms`; replaces a pending timer of that name."""

    name: str
    delay_ms: int


class CancelTimer(Effect):
    """Forget the timer of that name."""

    name: str


class Answer(Effect):
    """Send a frame to a client, in order."""

    connection: ConnectionId
    message: ServerMessage


class CloseConnection(Effect):
    """Close a client's connection after sending what was queued on it.  No `on_client_closed` follows.

    `reason` is what to log, where the client was refused a session."""

    connection: ConnectionId
    reason: str = ""


class Emit(Effect):
    """Write an event to the journal."""

    event: Event


class Halt(Effect):
    """This peer cannot go on: stop the process with a clear message (a supervisor may restart it)."""

    reason: str


class Recovered(msgspec.Struct, frozen=True):
    """What a disk held at start (or after a truncation): epochs, the newest usable snapshot, and the log after it.

    `complete` is false where the disk has lost transactions that this peer may have acknowledged.  It stays false, over
    restarts too, until the next SaveCurrentEpoch: by then a leader has given it everything again.

    `in_doubt` is true from SaveDoubt to the next snapshot that replaces the history.
    """

    accepted_epoch: Epoch
    current_epoch: Epoch
    snapshot: TreeSnapshot | None
    txns: list[Txn]
    complete: bool = True
    in_doubt: bool = False

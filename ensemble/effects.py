"""What the pure core asks its driver to do.

A handler of `ensemble.zab.peer.Peer` returns a list of effects; the driver (asyncio shell or simulated world) carries
them out in order.  Disk effects go into one queue a peer, done strictly in order; `Barrier(token)` calls back
`on_durable(token)` once everything queued before it is fsynced.  A driver may join many barriers into one fsync.
A message effect never waits for the disk: the core orders them itself, by waiting for a barrier.
"""

from __future__ import annotations

import msgspec

from ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, Zxid
from ensemble.records import ServerMessage
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txn import Txn
from ensemble.zab.messages import Notification, Packet
from journal.events import Event


class Effect(msgspec.Struct):
    """Base of all effects."""


class SendNotification(Effect):
    """Send on the election port.  May be lost; a newer one to the same peer replaces one not sent yet."""

    to: PeerId
    notification: Notification


class OpenLink(Effect):
    """Connect to that peer's quorum port.  Answered by `on_link_up(now, link, to)` or `on_link_failed(now, to)`."""

    to: PeerId


class SendPacket(Effect):
    """Send on a link, in order, reliably until the link breaks."""

    link: LinkId
    packet: Packet


class CloseLink(Effect):
    """Close a link after sending what was queued on it.  The core expects no `on_link_down` for it."""

    link: LinkId
    reason: str


class Append(Effect):
    """Disk: append a transaction to the log."""

    txn: Txn


class TruncateLog(Effect):
    """Disk: remove every logged transaction above `zxid`, and every snapshot newer than it, durably; then reload.
    Answered by `on_recovered(now, recovered)`."""

    zxid: Zxid


class SaveSnapshot(Effect):
    """Disk: write a snapshot and fsync it.  `replaces_history` (a SNAP sync) also starts a new log: nothing logged
    before counts any more."""

    snapshot: TreeSnapshot
    replaces_history: bool


class SaveAcceptedEpoch(Effect):
    """Disk: acceptedEpoch, durably, atomically."""

    epoch: Epoch


class SaveCurrentEpoch(Effect):
    """Disk: currentEpoch, durably, atomically."""

    epoch: Epoch


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
    """Close a client's connection after sending what was queued on it.  No `on_client_closed` follows."""

    connection: ConnectionId


class Emit(Effect):
    """Write an event to the journal."""

    event: Event


class Halt(Effect):
    """This peer cannot go on: stop the process with a clear message (a supervisor may restart it)."""

    reason: str


class Recovered(msgspec.Struct, frozen=True):
    """What a disk held at start (or after a truncation): epochs, the newest usable snapshot, and the log after it."""

    accepted_epoch: Epoch
    current_epoch: Epoch
    snapshot: TreeSnapshot | None
    txns: list[Txn]

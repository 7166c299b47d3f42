"""Effects: requests of the pure core to its driver.

A handler of `zabka.ensemble.zab.peer.Peer` returns a list of effects; the driver (asyncio shell or simulated world)
executes them in order. Disk effects go into one queue per peer, executed strictly in order; `Barrier(token)` calls back
`on_durable(token)` once everything queued before it is fsynced. A driver may join many barriers into one fsync. A
message effect never waits for the disk: the core orders them itself, by waiting for a barrier.

A turn has few effects, even if many packets arrived together: all packets on a link are one effect, and so are all
appended transactions. A driver that gave the peer an outlet gets the first part of a long turn's effects while the turn
goes on.
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
    """Send on the election port. May be lost; a newer message to the same peer replaces an unsent one."""

    to: PeerId
    notification: Notification


class OpenLink(Effect):
    """Connect to that peer's quorum port.  Answered by `on_link_up(now, link, to)` or `on_link_failed(now, to)`."""

    to: PeerId


class SendPackets(Effect):
    """Send all packets of a turn on a link, in order, reliably until the link breaks."""

    link: LinkId
    packets: list[Packet]


class CloseLink(Effect):
    """Close a link after sending its queued packets. The core expects no `on_link_down` for it."""

    link: LinkId
    reason: str


class Append(Effect):
    """Disk: append transactions to the log, in order. A crash may leave any prefix of them."""

    txns: list[Txn]


class TruncateLog(Effect):
    """Disk: remove every logged transaction above `zxid`, and every snapshot newer than it, durably; then reload.
    Answered by `on_recovered(now, recovered)`."""

    zxid: Zxid


class ReadLog(Effect):
    """Read some logged transactions that follow `after`, for the learner on `link`, without waiting for the disk queue.

    Answered by `on_log_read(now, link, after, txns)`.

    `txns` are in order and without a gap, and none of them fails its checksum. It is None if there are none, if
    `after` is neither `base` nor a transaction in the log, or, with a `size_factor` other than 0, if all that follow
    are larger than that part of the newest snapshot (snapshotSizeFactor).

    `borders` maps the last transaction of each epoch in this peer's history to the next transaction: the numbers alone
    do not show whether an epoch has been read to its end.
    """

    link: LinkId
    after: Zxid
    base: Zxid
    size_factor: float
    borders: dict[Zxid, Zxid] = {}


class SaveSnapshot(Effect):
    """Disk: write a snapshot and fsync it.

    `replaces_history` (a SNAP sync) also starts a new log: earlier log files are deleted.
    """

    snapshot: TreeSnapshot
    replaces_history: bool


class SaveAcceptedEpoch(Effect):
    """Disk: acceptedEpoch, durably, atomically."""

    epoch: Epoch


class SaveCurrentEpoch(Effect):
    """Disk: currentEpoch, durably, atomically.  The history before it is complete (see `Recovered`)."""

    epoch: Epoch


class SaveDoubt(Effect):
    """Disk: record durably that this history leads to another tree than the leader's (see `Recovered.in_doubt`)."""


class SaveMembership(Effect):
    """Disk: store durably that this membership is in force (`zoo.cfg.dynamic.<version>`, and zoo.cfg names it)."""

    membership: Membership


class SaveNextMembership(Effect):
    """Disk: store durably a proposed membership (`zoo.cfg.dynamic.next`). Comes before the proposal's own Append."""

    membership: Membership


class UseMembership(Effect):
    """Connect to and accept the servers of these two memberships from now on: in force, and last seen."""

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
    """Cancel the timer of that name."""

    name: str


class Answer(Effect):
    """Send a frame to a client, in order."""

    connection: ConnectionId
    message: ServerMessage


class CloseConnection(Effect):
    """Close a client's connection after sending its queued frames. No `on_client_closed` follows.

    `reason` is for the log, if the client was refused a session.
    """

    connection: ConnectionId
    reason: str = ""


class Emit(Effect):
    """Write an event to the journal."""

    event: Event


class Halt(Effect):
    """This peer cannot continue: stop the process with a clear message (a supervisor may restart it)."""

    reason: str


class Recovered(msgspec.Struct, frozen=True):
    """Content of the disk at start (or after a truncation): epochs, the newest usable snapshot, and the log after it.

    `complete` is false if the disk has lost transactions that this peer may have acknowledged. It stays false, across
    restarts too, until the next SaveCurrentEpoch: by then a leader has sent it the whole history again.

    `in_doubt` is true from SaveDoubt to the next snapshot that replaces the history.
    """

    accepted_epoch: Epoch
    current_epoch: Epoch
    snapshot: TreeSnapshot | None
    txns: list[Txn]
    complete: bool = True
    in_doubt: bool = False

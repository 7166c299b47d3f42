"""Effects: requests of the pure core to its driver.

A handler of `zabka.ensemble.zab.peer.Peer` returns a list of effects; the driver (asyncio shell or simulated world)
executes them in order. Each peer has one queue of disk effects, executed strictly in order. For `Barrier(token)` the
driver calls `on_durable(token)` when everything queued before it is fsynced; it may use one fsync for many barriers.
A message effect never waits for the disk: if the order matters, the core waits for a barrier before it emits the
message effect.

A turn has few effects, even if many packets arrived together: all packets on a link are one effect, and so are all
appended transactions. A driver that gave the peer an outlet receives the first effects of a long turn before the turn
ends.
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
    """Base class of all effects."""


class SendNotification(Effect):
    """Send on the election port.

    The message may be lost; a newer message to the same peer replaces an unsent one.
    """

    to: PeerId
    notification: Notification


class OpenLink(Effect):
    """Connect to that peer's quorum port.

    The driver then calls `on_link_up(now, link, to)` or `on_link_failed(now, to)`.
    """

    to: PeerId


class SendPackets(Effect):
    """Send all packets of a turn on a link, in order, and reliably until the link breaks."""

    link: LinkId
    packets: list[Packet]


class CloseLink(Effect):
    """Close a link after its queued packets are sent. The core expects no `on_link_down` for it."""

    link: LinkId
    reason: str


class Append(Effect):
    """Disk: append transactions to the log, in order. A crash may leave any prefix of them."""

    txns: list[Txn]


class TruncateLog(Effect):
    """Disk: remove every transaction above `zxid` from the log, and every newer snapshot, durably; then reload.

    The driver then calls `on_recovered(now, recovered)`.
    """

    zxid: Zxid


class ReadLog(Effect):
    """Read some logged transactions after `after`, for the learner on `link`, without waiting for the disk queue.

    The driver then calls `on_log_read(now, link, after, txns)`.

    `txns` are in order and without a gap, and none of them fails its checksum. `txns` is None in these cases: there are
    none; `after` is neither `base` nor a transaction in the log; or `size_factor` is not 0 and all transactions after
    `after` together are larger than that part of the newest snapshot (snapshotSizeFactor).

    `borders` maps the last transaction of each epoch in this peer's history to the next transaction: the zxids alone do
    not show whether an epoch has been read to its end.
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
    """Disk: store acceptedEpoch, durably and atomically."""

    epoch: Epoch


class SaveCurrentEpoch(Effect):
    """Disk: store currentEpoch, durably and atomically. The history before it is complete (see `Recovered`)."""

    epoch: Epoch


class SaveDoubt(Effect):
    """Disk: record durably that this history leads to a tree different from the leader's (`Recovered.in_doubt`)."""


class SaveMembership(Effect):
    """Disk: store the active membership durably (`zoo.cfg.dynamic.<version>`, which zoo.cfg then names)."""

    membership: Membership


class SaveNextMembership(Effect):
    """Disk: store a proposed membership durably (`zoo.cfg.dynamic.next`), before the proposal's own Append."""

    membership: Membership


class UseMembership(Effect):
    """Connect to, and accept, the servers of these two memberships: the active one and the last seen one."""

    current: Membership
    last_seen: Membership


class Barrier(Effect):
    """Disk: when everything queued before this is durable, call `on_durable(now, token)`."""

    token: int


class SetTimer(Effect):
    """Call `on_timer(now, name)` once, after `delay_ms`; this replaces a pending timer with that name."""

    name: str
    delay_ms: int


class CancelTimer(Effect):
    """Cancel the timer with that name."""

    name: str


class Answer(Effect):
    """Send a frame to a client, in order."""

    connection: ConnectionId
    message: ServerMessage


class CloseConnection(Effect):
    """Close a client's connection after its queued frames are sent. No `on_client_closed` follows.

    `reason` is for the log, if the client's session was rejected.
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

    `complete` is False if the disk has lost transactions that this peer may have acknowledged. It stays False, also
    across restarts, until the next SaveCurrentEpoch; by then a leader has sent the whole history again.

    `in_doubt` is True from SaveDoubt to the next snapshot that replaces the history.
    """

    accepted_epoch: Epoch
    current_epoch: Epoch
    snapshot: TreeSnapshot | None
    txns: list[Txn]
    complete: bool = True
    in_doubt: bool = False

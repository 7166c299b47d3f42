"""Effects: actions that the pure core requests from its driver.

A handler of `zabka.ensemble.zab.peer.Peer` returns a list of effects; the driver (the asyncio driver or the simulated
world) executes them in order. Each peer has one queue of disk effects, executed strictly in order. For `Barrier(token)`
the driver calls `on_durable(token)` when everything queued before it is fsynced; one fsync may cover many barriers. A
message effect never waits for the disk: if a message must follow a write, the core waits for a barrier before it emits
the message effect.

A turn has few effects, even if many packets arrived together: all packets on a link are one effect, and so are all
appended transactions. A driver that has set an outlet receives the first effects of a long turn before the turn ends.
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
    """Send a notification on the election port.

    It may be lost; a newer notification to the same peer replaces one that was not sent yet.
    """

    to: PeerId
    notification: Notification


class OpenLink(Effect):
    """Connect to the quorum port of a peer.

    The driver then calls `on_link_up(now, link, to)` or `on_link_failed(now, to)`.
    """

    to: PeerId


class SendPackets(Effect):
    """Send packets on a link, in order. They all arrive unless the link breaks."""

    link: LinkId
    packets: list[Packet]


class CloseLink(Effect):
    """Close a link after its queued packets are sent. The peer gets no `on_link_down` call for this link."""

    link: LinkId
    reason: str


class Append(Effect):
    """Disk: append transactions to the log, in order. A crash may leave any prefix of them."""

    txns: list[Txn]


class TruncateLog(Effect):
    """Disk: durably remove all history after `zxid`, and load the rest again.

    This removes every transaction above `zxid` from the log, and every newer snapshot. The driver then calls
    `on_recovered(now, recovered)`.
    """

    zxid: Zxid


class ReadLog(Effect):
    """Read some logged transactions after `after`, for the learner on `link`, without waiting for the disk queue.

    The driver then calls `on_log_read(now, link, after, txns)`.

    `txns` are in order and without a gap, and none of them fails its checksum. `txns` is None in these cases: there are
    no transactions after `after`; `after` is neither `base` nor a transaction in the log; or `size_factor` is not 0 and
    all transactions after `after` together are larger than the newest snapshot multiplied by it (snapshotSizeFactor).

    `borders` maps the last zxid of each epoch in this peer's history to the next zxid: the zxids alone do not show
    whether an epoch has been read to its end.
    """

    link: LinkId
    after: Zxid
    base: Zxid
    size_factor: float
    borders: dict[Zxid, Zxid] = {}


class SaveSnapshot(Effect):
    """Disk: write a snapshot and fsync it.

    `replaces_history` (for a SNAP from a leader) also deletes the earlier log files and begins a new log.
    """

    snapshot: TreeSnapshot
    replaces_history: bool


class SaveAcceptedEpoch(Effect):
    """Disk: store acceptedEpoch, durably and atomically."""

    epoch: Epoch


class SaveCurrentEpoch(Effect):
    """Disk: store currentEpoch, durably and atomically. The history on the disk is then complete (see `Recovered`)."""

    epoch: Epoch


class SaveDoubt(Effect):
    """Disk: record durably that this history leads to a tree that differs from the leader's (`Recovered.in_doubt`)."""


class SaveMembership(Effect):
    """Disk: store the active membership durably, in `zoo.cfg.dynamic.<version>`, to which zoo.cfg then refers."""

    membership: Membership


class SaveNextMembership(Effect):
    """Disk: store a proposed membership durably, in `zoo.cfg.dynamic.next`, before the Append of the proposal."""

    membership: Membership


class UseMembership(Effect):
    """Use the servers of these two memberships, the active and the last seen one, for connections between servers."""

    current: Membership
    last_seen: Membership


class Barrier(Effect):
    """Disk: when all disk effects before this one are durable, call `on_durable(now, token)`."""

    token: int


class SetTimer(Effect):
    """Call `on_timer(now, name)` once, after `delay_ms`; this replaces a pending timer with that name."""

    name: str
    delay_ms: int


class CancelTimer(Effect):
    """Cancel the timer with that name."""

    name: str


class Answer(Effect):
    """Send a frame to a client, after all frames that were queued for the client before."""

    connection: ConnectionId
    message: ServerMessage


class CloseConnection(Effect):
    """Close a client's connection after its queued frames are sent; `on_client_closed` is not called for it.

    `reason` is logged if the client's session was rejected.
    """

    connection: ConnectionId
    reason: str = ""


class Emit(Effect):
    """Write an event to the journal."""

    event: Event


class Halt(Effect):
    """Stop the process with an error message, because this peer cannot continue (a supervisor may restart it)."""

    reason: str


class Recovered(msgspec.Struct, frozen=True):
    """State read from the disk at start or after a truncation: epochs, newest usable snapshot, and the log after it.

    `complete` is False if the disk has lost transactions that this peer may have acknowledged. It remains False, also
    across restarts, until the next SaveCurrentEpoch; by then a leader has sent the whole history again.

    `in_doubt` is True from a SaveDoubt until a snapshot replaces the history.
    """

    accepted_epoch: Epoch
    current_epoch: Epoch
    snapshot: TreeSnapshot | None
    txns: list[Txn]
    complete: bool = True
    in_doubt: bool = False

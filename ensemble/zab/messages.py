"""Typed messages between peers: election notifications, and packets of the learner protocol.

Sources: FastLeaderElection.Notification; org.apache.zookeeper.server.quorum.Leader (packet types), Learner,
LearnerHandler. `zabka.ensemble.server.net.quorum_wire` converts them to ZooKeeper's wire format and back; the simulated
network passes the objects unchanged. On the wire every packet is a QuorumPacket {type, zxid, data, authinfo}.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import msgspec

from zabka.ensemble.ids import Epoch, PeerId, SessionId, Zxid
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn


class PeerState(IntEnum):
    """State of a peer (ServerState), numbered as on the wire."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


class Vote(msgspec.Struct, frozen=True):
    """Vote for a leader. Votes are compared by (peer_epoch, zxid, leader)."""

    leader: PeerId
    zxid: Zxid
    peer_epoch: Epoch


class Notification(msgspec.Struct, frozen=True):
    """An election notification: the sender's state, its vote and its round (electionEpoch).

    It also contains the text of the sender's active membership (empty from old servers, and if there are no addresses).
    """

    state: PeerState
    vote: Vote
    round: int
    config: str = ""


# The field `zxid` of these classes is the packet's zxid. The other fields are in the packet's `data`.


class FollowerInfo(msgspec.Struct, frozen=True):
    """Follower's first message to the leader: its accepted epoch (zxid = acceptedEpoch << 32).

    An `observer` sends it as OBSERVERINFO. The last three fields are sent in up to two bytes after LearnerInfo, which
    other implementations ignore.

    `cumulative`: the learner supports cumulative Acks and Commits. The first byte is then 1. `heeds_acks`: the learner
    can also commit because of the leader's own Acks (see `leader_acks`). The first byte is then 2. `wants_snapshot`:
    the learner requests the whole tree (see `Core.in_doubt`). The second byte is then 1.
    """

    accepted_epoch: Epoch
    peer_id: PeerId
    config_version: int = 0
    observer: bool = False
    cumulative: bool = False
    heeds_acks: bool = False
    wants_snapshot: bool = False


class LeaderInfo(msgspec.Struct, frozen=True):
    """Leader's message with the new epoch (zxid = epoch << 32).

    `cumulative`: cumulative packets are used on this link; on the wire, this is one byte 1 after the protocol version,
    sent only to a learner that supports them.
    """

    epoch: Epoch
    cumulative: bool = False


class AckEpoch(msgspec.Struct, frozen=True):
    """Follower's acceptance of the epoch, with its last zxid (ACKEPOCH).

    `current_epoch` -1 means that the follower accepted this epoch before, so that this message must not be counted.
    """

    last_zxid: Zxid
    current_epoch: int


class Diff(msgspec.Struct, frozen=True):
    """Leader's message that the learner's history is a prefix of the leader's history (DIFF).

    The missing transactions follow as Proposal and Commit.
    """

    zxid: Zxid


class Trunc(msgspec.Struct, frozen=True):
    """Leader's order to truncate the log to `zxid` (TRUNC); later transactions follow as Proposal and Commit."""

    zxid: Zxid


class Snap(msgspec.Struct, frozen=True):
    """Leader's whole tree as of `zxid`, which replaces the learner's tree (SNAP).

    On the wire, the tree follows the packet.
    """

    zxid: Zxid
    snapshot: TreeSnapshot


class NewLeader(msgspec.Struct, frozen=True):
    """Leader's message that the initial history is complete (NEWLEADER, zxid = epoch << 32).

    `config` is the text of the last membership that the leader has seen, active or not.
    """

    zxid: Zxid
    config: str = ""


class UpToDate(msgspec.Struct, frozen=True):
    """Leader's order to accept clients, because a quorum has the initial history (UPTODATE)."""


class Proposal(msgspec.Struct, frozen=True):
    """Leader's order to log these transactions in order, and to acknowledge each of them.

    On the wire there is one PROPOSAL per transaction. A leader combines the proposals of one turn into one object, and
    a connection combines the packets that it reads together.
    """

    txns: Sequence[Txn]


class Ack(msgspec.Struct, frozen=True):
    """Learner's acknowledgement that its log is durable up to `zxid`.

    It is also the reply to NewLeader (and UpToDate), with zxid = epoch << 32. A `cumulative` Ack acknowledges
    everything up to `zxid`; it is used only between peers that agreed on cumulative packets. From a leader to a
    follower that supports it (`heeds_acks`), an Ack means that the leader's log is durable up to `zxid`; the
    transactions in the logs of both are then committed.
    """

    zxid: Zxid
    cumulative: bool = False


class Commit(msgspec.Struct, frozen=True):
    """Leader's order to apply the transaction `zxid`, the oldest pending one.

    A `cumulative` Commit includes all pending transactions before it.
    """

    zxid: Zxid
    cumulative: bool = False


class Inform(msgspec.Struct, frozen=True):
    """Leader's message to an observer with a committed transaction."""

    txn: Txn


class CommitAndActivate(msgspec.Struct, frozen=True):
    """Leader's order to apply the reconfiguration `zxid`, the oldest pending transaction (COMMITANDACTIVATE).

    Its membership becomes active, with `designated` as the leader.
    """

    zxid: Zxid
    designated: PeerId


class InformAndActivate(msgspec.Struct, frozen=True):
    """Leader's message to an observer with a committed reconfiguration; see CommitAndActivate (INFORMANDACTIVATE)."""

    txn: Txn
    designated: PeerId


class Ping(msgspec.Struct, frozen=True):
    """A leader's ping, with the last proposed zxid, or a learner's reply, with its active sessions.

    The sessions are pairs of (id, timeout_ms).
    """

    zxid: Zxid
    touched: Sequence[tuple[SessionId, int]] = ()


class Revalidate(msgspec.Struct, frozen=True):
    """Learner's question whether a client's session can continue on this learner, and the leader's reply.

    The reply contains `valid`, and the last zxid proposed before the reply, which an observer may not have received
    yet; ZooKeeper's leaders do not send this zxid.
    """

    session_id: SessionId
    timeout_ms: int
    valid: bool | None = None
    proposed: Zxid = Zxid(-1)


class ForwardedRequest(msgspec.Struct, frozen=True, gc=False):
    """A client's write that is forwarded to the leader (REQUEST).

    `body` is the encoded request body, as the client sent it. `auth` contains the (scheme, id) pairs that the client's
    connection has proved.
    """

    session_id: SessionId
    cxid: int
    op: int
    body: bytes
    auth: Sequence[tuple[str, str]] = ()


class SyncRequest(msgspec.Struct, frozen=True):
    """Learner's request for a reply once everything proposed so far is committed (SYNC).

    The reply is the same packet.
    """

    session_id: SessionId
    cxid: int
    path: str


Packet = (
    FollowerInfo | LeaderInfo | AckEpoch | Diff | Trunc | Snap | NewLeader | UpToDate | Proposal | Ack | Commit
    | Inform | CommitAndActivate | InformAndActivate | Ping | Revalidate | ForwardedRequest | SyncRequest
)  # fmt: skip

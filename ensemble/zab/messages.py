"""Messages between peers: the election's notification and the learner protocol's packets, typed.

Sources: FastLeaderElection.Notification; org.apache.zookeeper.server.quorum.Leader (packet types), Learner,
LearnerHandler. `zabka.ensemble.server.net.quorum_wire` turns them into ZooKeeper's bytes and back; the simulated
network carries them as they are. On the wire every packet is a QuorumPacket {type, zxid, data, authinfo}.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import msgspec

from zabka.ensemble.ids import Epoch, PeerId, SessionId, Zxid
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn


class PeerState(IntEnum):
    """ServerState, numbered as on the wire."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


class Vote(msgspec.Struct, frozen=True):
    """A vote for a leader, with the values for comparison: (peer_epoch, zxid, leader)."""

    leader: PeerId
    zxid: Zxid
    peer_epoch: Epoch


class Notification(msgspec.Struct, frozen=True):
    """One election message: the sender's state, its vote and its round (electionEpoch).

    Also the text of the membership in force there (empty from old servers, and if there are no addresses).
    """

    state: PeerState
    vote: Vote
    round: int
    config: str = ""


# Field `zxid` is the packet's zxid; the content of ZooKeeper's `data` is in separate fields.


class FollowerInfo(msgspec.Struct, frozen=True):
    """Follower to leader, first: my accepted epoch (zxid = acceptedEpoch << 32). `observer` sends OBSERVERINFO.

    `cumulative` offers cumulative Acks and Commits; on the wire one byte after LearnerInfo, which others ignore.
    `heeds_acks` offers to commit by the leader's own Acks (see `leader_acks`): that byte is 2, and else 1.
    `wants_snapshot` requests the whole tree (see `Core.in_doubt`): a second byte, 1.
    """

    accepted_epoch: Epoch
    peer_id: PeerId
    config_version: int = 0
    observer: bool = False
    cumulative: bool = False
    heeds_acks: bool = False
    wants_snapshot: bool = False


class LeaderInfo(msgspec.Struct, frozen=True):
    """Leader: the new epoch (zxid = epoch << 32).

    `cumulative` accepts the learner's offer; on the wire one byte 1 after the protocol version, never sent to a learner
    that did not offer it.
    """

    epoch: Epoch
    cumulative: bool = False


class AckEpoch(msgspec.Struct, frozen=True):
    """Follower: I accept the epoch. `current_epoch` -1 means: already accepted this epoch earlier, do not count me."""

    last_zxid: Zxid
    current_epoch: int


class Diff(msgspec.Struct, frozen=True):
    """Leader: your history is a prefix of mine; the missing transactions follow as Proposal and Commit."""

    zxid: Zxid


class Trunc(msgspec.Struct, frozen=True):
    """Leader: drop everything after `zxid`; the transactions after it follow as Proposal and Commit."""

    zxid: Zxid


class Snap(msgspec.Struct, frozen=True):
    """Leader: take my whole tree as of `zxid` (streamed after the packet on the wire)."""

    zxid: Zxid
    snapshot: TreeSnapshot


class NewLeader(msgspec.Struct, frozen=True):
    """Leader: end of the initial history (zxid = epoch << 32).

    `config` is the text of the membership that the leader has seen last, in force or not.
    """

    zxid: Zxid
    config: str = ""


class UpToDate(msgspec.Struct, frozen=True):
    """Leader: a quorum has the initial history; serve clients."""


class Proposal(msgspec.Struct, frozen=True):
    """Leader: log these transactions, in order, and acknowledge each.

    On the wire there is one PROPOSAL per transaction; a leader joins the proposals of one turn, a connection the
    packets that it reads at once.
    """

    txns: Sequence[Txn]


class Ack(msgspec.Struct, frozen=True):
    """Learner: `zxid` is durable here. Also answers NewLeader (and UpToDate) with epoch << 32.

    `cumulative` acknowledges everything up to zxid; only between peers that agreed to it. Leader, to a follower that
    heeds it: `zxid` is durable here, and transactions that both of us hold are chosen.
    """

    zxid: Zxid
    cumulative: bool = False


class Commit(msgspec.Struct, frozen=True):
    """Leader: apply the transaction `zxid`, the oldest pending one. `cumulative` as in Ack."""

    zxid: Zxid
    cumulative: bool = False


class Inform(msgspec.Struct, frozen=True):
    """Leader to observer: a committed transaction."""

    txn: Txn


class CommitAndActivate(msgspec.Struct, frozen=True):
    """Leader: apply the reconfiguration `zxid`, the oldest pending one (COMMITANDACTIVATE).

    Its membership is in force, and led by `designated`.
    """

    zxid: Zxid
    designated: PeerId


class InformAndActivate(msgspec.Struct, frozen=True):
    """Leader to observer: a committed reconfiguration; as CommitAndActivate (INFORMANDACTIVATE)."""

    txn: Txn
    designated: PeerId


class Ping(msgspec.Struct, frozen=True):
    """Leader: are you there (zxid = last proposed). The answer lists active sessions: (id, timeout_ms)."""

    zxid: Zxid
    touched: Sequence[tuple[SessionId, int]] = ()


class Revalidate(msgspec.Struct, frozen=True):
    """Learner: a client wants to continue this session here.

    The answer carries `valid`, and the last zxid proposed before it, which an observer may not have received yet;
    ZooKeeper's leaders do not send that.
    """

    session_id: SessionId
    timeout_ms: int
    valid: bool | None = None
    proposed: Zxid = Zxid(-1)


class ForwardedRequest(msgspec.Struct, frozen=True, gc=False):
    """A client's write, forwarded to the leader (REQUEST): `body` is the encoded request body, as the client sent it.

    `auth` are the (scheme, id) pairs of the client's connection.
    """

    session_id: SessionId
    cxid: int
    op: int
    body: bytes
    auth: Sequence[tuple[str, str]] = ()


class SyncRequest(msgspec.Struct, frozen=True):
    """Learner: notify me when everything proposed so far is committed. The answer echoes it (SYNC)."""

    session_id: SessionId
    cxid: int
    path: str


Packet = (
    FollowerInfo | LeaderInfo | AckEpoch | Diff | Trunc | Snap | NewLeader | UpToDate | Proposal | Ack | Commit
    | Inform | CommitAndActivate | InformAndActivate | Ping | Revalidate | ForwardedRequest | SyncRequest
)  # fmt: skip

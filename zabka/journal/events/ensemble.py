"""Events of a server of the ensemble: its role, its transaction log, its tree, and its clients' sessions."""

from __future__ import annotations

from typing import ClassVar

from zabka.journal.event import Event, Level


class PeerStateChanged(Event):
    """A peer's state and phase changed.

    The state is LOOKING, FOLLOWING, LEADING or OBSERVING, the phase ELECTION, DISCOVERY, SYNCHRONIZATION or BROADCAST.
    `leader_id` is -1 if the peer knows no leader. The cause of LOOKING is the reason why the peer started a leader
    election; LOOKING itself is the cause of the states after it.
    """

    state: str
    phase: str
    leader_id: int
    round: int
    accepted_epoch: int
    current_epoch: int
    last_zxid: int
    caused_by: str = ""


class EpochAccepted(Event):
    """A new acceptedEpoch is on this peer's disk. The peer will not follow the leader of a lower epoch."""

    accepted_epoch: int


class EpochAdopted(Event):
    """A new currentEpoch is on this peer's disk. The peer has adopted the initial history of that epoch."""

    current_epoch: int


class LeaderEstablished(Event):
    """A quorum acknowledged NEWLEADER, so this peer is the leader of that epoch."""

    leader_id: int
    epoch: int
    zxid: int
    quorum: list[int]
    caused_by: str = ""


class MembershipActivated(Event):
    """This peer now uses this membership of the ensemble. `version` is the zxid of the reconfig that created it."""

    version: int
    voters: list[int]
    observers: list[int]


class LearnerSynced(Event):
    """A learner was synchronised with its leader's history. The mode is DIFF, TRUNC or SNAP."""

    peer_id: int
    leader_id: int
    epoch: int
    mode: str
    from_zxid: int
    to_zxid: int


class TxnLogTruncated(Event):
    """A peer removed every transaction above `to_zxid` from its log."""

    from_zxid: int
    to_zxid: int


class LogDamageFound(Event):
    """A node found damage in a log or snapshot, such as a torn tail or a bad checksum.

    `action` is what the node did about the damage.
    """

    file: str
    offset: int
    reason: str
    action: str


class ZxidCheckpoint(Event):
    """State of a peer's tree: the last applied zxid, and the 64-bit digest of the tree (unsigned)."""

    zxid: int
    digest: int
    znodes: int
    sessions: int


class SnapshotTaken(Event):
    """A snapshot of a peer's tree is on its disk."""

    zxid: int
    size_bytes: int
    duration_ms: int


class SessionCreated(Event):
    """The creation of a session was committed."""

    session_id: int
    timeout_ms: int
    zxid: int


class SessionExpired(Event):
    """The ensemble's leader declared a session expired. A transaction that closes the session follows.

    The server `heard_by` received the session's last message `heard_ms_ago` milliseconds earlier. If no message arrived
    since the session was created, or since this leader was established, `heard_by` is 0 and `heard_ms_ago` is -1.
    """

    session_id: int
    timeout_ms: int
    heard_ms_ago: int = -1
    heard_by: int = 0
    caused_by: str = "timer session-expiry"


class QuotaExceeded(Event):
    """The znodes or bytes of a subtree exceed its soft or hard quota. A limit of -1 means no limit.

    The leader writes the event when the quota is first exceeded.
    """

    path: str
    count: int
    count_limit: int
    bytes: int
    bytes_limit: int


class SessionClosed(Event):
    """The end of a session was committed, which also deleted the session's ephemeral znodes."""

    session_id: int
    zxid: int
    ephemerals: list[str]
    caused_by: str = ""


class TxnProposed(Event):
    """A leader broadcast a transaction to its learners."""

    level: ClassVar[Level] = Level.FULL
    zxid: int
    session_id: int
    cxid: int


class HistoryReplaced(Event):
    """A peer replaced all its data with its leader's snapshot. The snapshot is durable at the next LearnerSynced."""

    level: ClassVar[Level] = Level.FULL
    zxid: int


class TxnLogged(Event):
    """A transaction is durable in a peer's log."""

    level: ClassVar[Level] = Level.FULL
    zxid: int


class TxnCommitted(Event):
    """A peer applied a committed transaction to its tree. `digest` is the digest of the tree after that."""

    level: ClassVar[Level] = Level.FULL
    zxid: int
    session_id: int
    cxid: int
    operation: str
    path: str
    error: int
    digest: int


class EphemeralCreated(Event):
    """An ephemeral znode was created on this peer."""

    level: ClassVar[Level] = Level.FULL
    path: str
    session_id: int
    zxid: int


class EphemeralDeleted(Event):
    """An ephemeral znode was deleted on this peer."""

    level: ClassVar[Level] = Level.FULL
    path: str
    session_id: int
    zxid: int


class WriteAcknowledged(Event):
    """A peer sent a client the reply that its write is committed."""

    level: ClassVar[Level] = Level.FULL
    session_id: int
    cxid: int
    zxid: int
    operation: str
    path: str

"""The events of a server of the ensemble: its role, its log, its tree, and its clients' sessions."""

from __future__ import annotations

from typing import ClassVar

from zabka.journal.event import Event, Level


class PeerStateChanged(Event):
    """A peer's role and phase.

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
    """acceptedEpoch is durable: this peer will not follow the leader of a lower epoch."""

    accepted_epoch: int


class EpochAdopted(Event):
    """currentEpoch is durable: this peer has adopted that epoch's initial history."""

    current_epoch: int


class LeaderEstablished(Event):
    """A quorum acknowledged NEWLEADER, so this peer leads that epoch."""

    leader_id: int
    epoch: int
    zxid: int
    quorum: list[int]
    caused_by: str = ""


class MembershipActivated(Event):
    """This peer now uses this membership of the ensemble; `version` is the zxid that created it."""

    version: int
    voters: list[int]
    observers: list[int]


class LearnerSynced(Event):
    """A learner was synchronised with its leader's history: mode DIFF, TRUNC or SNAP."""

    peer_id: int
    leader_id: int
    epoch: int
    mode: str
    from_zxid: int
    to_zxid: int


class TxnLogTruncated(Event):
    """Everything above `to_zxid` was removed from a peer's transaction log."""

    from_zxid: int
    to_zxid: int


class LogDamageFound(Event):
    """A torn tail or a bad checksum in a log or snapshot, and the action taken."""

    file: str
    offset: int
    reason: str
    action: str


class ZxidCheckpoint(Event):
    """The state of a peer's tree: last applied zxid and the tree's 64-bit digest (unsigned)."""

    zxid: int
    digest: int
    znodes: int
    sessions: int


class SnapshotTaken(Event):
    """A snapshot of the tree is durable."""

    zxid: int
    size_bytes: int
    duration_ms: int


class SessionCreated(Event):
    """A session's creation was committed."""

    session_id: int
    timeout_ms: int
    zxid: int


class SessionExpired(Event):
    """The ensemble's leader declared a session expired. A transaction that closes the session follows.

    The session's last message arrived `heard_ms_ago` milliseconds earlier, at the server `heard_by`. They are -1 and 0
    if no message arrived since the session was created, or since this leader took over.
    """

    session_id: int
    timeout_ms: int
    heard_ms_ago: int = -1
    heard_by: int = 0
    caused_by: str = "timer session-expiry"


class QuotaExceeded(Event):
    """A subtree has more znodes or bytes than its soft or hard quota allows; a limit of -1 means no limit.

    The leader writes the event when the quota is first exceeded.
    """

    path: str
    count: int
    count_limit: int
    bytes: int
    bytes_limit: int


class SessionClosed(Event):
    """A session's end was committed, which also deleted the session's ephemerals."""

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
    """A peer replaced all its data with its leader's snapshot, which becomes durable at the next LearnerSynced."""

    level: ClassVar[Level] = Level.FULL
    zxid: int


class TxnLogged(Event):
    """A transaction is durable in this peer's log."""

    level: ClassVar[Level] = Level.FULL
    zxid: int


class TxnCommitted(Event):
    """A transaction was applied to this peer's tree, in order. `digest` is the tree's digest after it."""

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
    """A client received the reply that its write is committed. The peer that sent the reply writes the event."""

    level: ClassVar[Level] = Level.FULL
    session_id: int
    cxid: int
    zxid: int
    operation: str
    path: str

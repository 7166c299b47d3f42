"""What a server of the ensemble writes: its role, its log, its tree, and its clients' sessions."""

from __future__ import annotations

from typing import ClassVar

from zabka.journal.event import Event, Level


class PeerStateChanged(Event):
    """A peer's role and phase: state LOOKING, FOLLOWING, LEADING or OBSERVING; phase ELECTION, DISCOVERY,
    SYNCHRONIZATION or BROADCAST.  `leader_id` is -1 while it knows none.

    What sent a peer looking is the cause of LOOKING, and that it looked is the cause of what follows."""

    state: str
    phase: str
    leader_id: int
    round: int
    accepted_epoch: int
    current_epoch: int
    last_zxid: int
    caused_by: str = ""


class EpochAccepted(Event):
    """acceptedEpoch is durable: this peer promised to follow nobody of a lower epoch."""

    accepted_epoch: int


class EpochAdopted(Event):
    """currentEpoch is durable: this peer has taken over that epoch's initial history."""

    current_epoch: int


class LeaderEstablished(Event):
    """A quorum acknowledged NEWLEADER: this peer leads that epoch."""

    leader_id: int
    epoch: int
    zxid: int
    quorum: list[int]
    caused_by: str = ""


class MembershipActivated(Event):
    """This membership of the ensemble is in force for this peer; `version` is the zxid that made it."""

    version: int
    voters: list[int]
    observers: list[int]


class LearnerSynced(Event):
    """A learner was brought to its leader's history: mode DIFF, TRUNC or SNAP."""

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
    """A torn tail or a bad checksum in a log or snapshot, and what was done about it."""

    file: str
    offset: int
    reason: str
    action: str


class ZxidCheckpoint(Event):
    """Where a peer's tree stands: last applied zxid and the tree's 64-bit digest (unsigned)."""

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
    """The ensemble's leader declared a session dead; its closing follows as a transaction.

    The last word of it came `heard_ms_ago` milliseconds before, from the server `heard_by`; -1 and 0 where nothing was
    heard of it since it was created, or since this leader began.
    """

    session_id: int
    timeout_ms: int
    heard_ms_ago: int = -1
    heard_by: int = 0
    caused_by: str = "timer session-expiry"


class QuotaExceeded(Event):
    """More znodes or bytes are in a subtree than its quota allows, softly or hard; -1 is no limit.  The leader says so
    when it becomes true."""

    path: str
    count: int
    count_limit: int
    bytes: int
    bytes_limit: int


class SessionClosed(Event):
    """A session's end was committed; its ephemerals went with it."""

    session_id: int
    zxid: int
    ephemerals: list[str]
    caused_by: str = ""


class TxnProposed(Event):
    """A leader broadcast a transaction to whoever follows it."""

    level: ClassVar[Level] = Level.FULL
    zxid: int
    session_id: int
    cxid: int


class HistoryReplaced(Event):
    """A peer took over its leader's snapshot in place of all it had; it will be durable when LearnerSynced says so."""

    level: ClassVar[Level] = Level.FULL
    zxid: int


class TxnLogged(Event):
    """A transaction is durable in this peer's log."""

    level: ClassVar[Level] = Level.FULL
    zxid: int


class TxnCommitted(Event):
    """A transaction was applied to this peer's tree, in order.  `digest` is the tree's after it."""

    level: ClassVar[Level] = Level.FULL
    zxid: int
    session_id: int
    cxid: int
    operation: str
    path: str
    error: int
    digest: int


class EphemeralCreated(Event):
    """An ephemeral znode appeared on this peer."""

    level: ClassVar[Level] = Level.FULL
    path: str
    session_id: int
    zxid: int


class EphemeralDeleted(Event):
    """An ephemeral znode went on this peer."""

    level: ClassVar[Level] = Level.FULL
    path: str
    session_id: int
    zxid: int


class WriteAcknowledged(Event):
    """A client was told that its write is committed (emitted by the peer that replied)."""

    level: ClassVar[Level] = Level.FULL
    session_id: int
    cxid: int
    zxid: int
    operation: str
    path: str

"""The event schema: facts that assign.

An event says what is now true on one node, so that a fold over events is assignment and never re-implements
a protocol.  `Event` is the body that protocol code emits; `Entry` is the body with its envelope (who, which
number, when), which the writer adds.  Offsets, epochs, versions and zxids are plain integers here; JSON shows
zxids as integers too (the page formats them).

Levels: `NORMAL` events are always written; `FULL` events (every commit, every acknowledgement) are written by
simulated runs and by nodes that were started with the full journal level.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from journal.event import Event as Event
from journal.event import Level as Level
from journal.event import TopicPartition as TopicPartition
from journal.event import snake
from journal.event import topic_partition as topic_partition
from journal.events.controller import AssignmentChanged as AssignmentChanged
from journal.events.controller import ControllerPropagated as ControllerPropagated
from journal.events.groups import ConsumerProgressed as ConsumerProgressed
from journal.events.groups import GroupChanged as GroupChanged

SCHEMA_VERSION = 1


# ---- any node -------------------------------------------------------------------------------------------------


class NodeStarted(Event):
    """A peer, a broker or a service began to run; `config` holds its effective configuration."""

    role: str
    id: int
    config: dict[str, str]


class NodeStopped(Event):
    """A node ends by its own decision; `reason` says why ("shutdown" when it was asked to)."""

    reason: str


class ProcessChanged(Event):
    """The host agent saw or made a process change: `process` is running, paused or down."""

    target: str
    process: str
    pid: int | None
    action: str


class FaultInjected(Event):
    """From now on this fault holds: a link cut or delayed, or (simulated) crash, power_loss, pause, slow_disk, or one
    of a disk: fsync_fails, fsync_stalls, disk_full, bit_flipped, log_dir_fails, log_dir_full, disk_replaced."""

    fault_id: str
    kind: str
    source: str
    target: str
    both_ways: bool
    delay_ms: int = 0


class FaultRemoved(Event):
    """The fault of that id holds no longer."""

    fault_id: str


class PeerProtocolBroken(Event):
    """The other side of a connection broke the protocol and was dropped."""

    remote: str
    reason: str


class InvariantViolated(Event):
    """An invariant did not hold at this point of a history."""

    invariant: str
    detail: str


# ---- ensemble -------------------------------------------------------------------------------------------------


class PeerStateChanged(Event):
    """A peer's role and phase: state LOOKING, FOLLOWING, LEADING or OBSERVING; phase ELECTION, DISCOVERY,
    SYNCHRONIZATION or BROADCAST.  `leader_id` is -1 while it knows none."""

    state: str
    phase: str
    leader_id: int
    round: int
    accepted_epoch: int
    current_epoch: int
    last_zxid: int


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
    """The ensemble's leader declared a session dead; its closing follows as a transaction."""

    session_id: int
    timeout_ms: int


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


# ---- controller and brokers -----------------------------------------------------------------------------------


class BrokerRegistered(Event):
    """The broker's ephemeral stands in /brokers/ids; its czxid is the broker epoch."""

    broker_id: int
    broker_epoch: int
    session_id: int


class BrokerSessionChanged(Event):
    """What a broker knows of its own session: connected, suspended or expired."""

    broker_id: int
    state: str
    session_id: int


class ControllerBelieved(Event):
    """Whom this broker believes to be controller, and at which epoch (highest controller epoch it has seen)."""

    broker_id: int
    controller_id: int
    controller_epoch: int
    is_controller: bool


class ControllerElected(Event):
    """This broker created /controller and bumped /controller_epoch in one transaction."""

    broker_id: int
    controller_epoch: int
    zk_version: int
    zxid: int = 0


class ControllerReady(Event):
    """The new controller has loaded the state and sent its first decisions.  Durations split the failover."""

    broker_id: int
    controller_epoch: int
    read_ms: int
    decide_ms: int


class ControllerResigned(Event):
    """This broker stopped being controller: reason session_expired, controller_moved, illegal_state or shutdown."""

    broker_id: int
    controller_epoch: int
    reason: str


class ControllerEventFailed(Event):
    """A controller's event could not be processed, or met something that nobody should have written: `problem` says
    what.  An unexpected failure is followed by its resignation."""

    broker_id: int
    controller_epoch: int
    event: str
    problem: str


class WriteFenced(Event):
    """A controller's write was refused: `reason` controller_epoch (/controller_epoch had moved on), or session_expired
    (the session that held /controller is over, and the reign with it)."""

    broker_id: int
    controller_epoch: int
    operation: str
    path: str
    reason: str = "controller_epoch"


class RequestFenced(Event):
    """A broker refused a request: `reason` is Kafka's error name, the epochs are the request's and its own."""

    broker_id: int
    request: str
    sender_id: int
    reason: str
    request_epoch: int
    known_epoch: int
    topic: str | None = None
    partition: int | None = None


class BrokerLivenessChanged(Event):
    """The controller's view of who is alive."""

    controller_epoch: int
    live: list[int]
    added: list[int]
    bounced: list[int]
    removed: list[int]


class LeaderElected(Event):
    """The controller wrote a partition's state with a new leader epoch; leader -1 means none (offline).

    `zxid` is the write's transaction, as in ControllerElected and IsrChanged: it orders them all.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    partition_epoch: int
    controller_epoch: int
    unclean: bool
    cause: str
    zxid: int = 0
    eligible: list[int] = []
    """Outside the ISR, with all that was committed."""
    recovering: bool = False
    """Has no leader changed the ISR since the last unclean election (KIP-704)?"""


class IsrChanged(Event):
    """A partition's ISR is now this; cause lag, caught_up (both through the leader) or controller."""

    topic: str
    partition: int
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    cause: str
    controller_epoch: int = 0
    zxid: int = 0
    eligible: list[int] = []


class LeadershipTaken(Event):
    """A broker became leader of a partition in this leader epoch, with this log."""

    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    log_start_offset: int = 0


class FollowershipTaken(Event):
    """A broker follows `leader` for a partition in this leader epoch."""

    broker_id: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    log_end_offset: int


class ReplicaProgressed(Event):
    """Where a broker's replicas stand: rows of topic, partition, high watermark, log end offset.
    Written at most a few times a second, and only for what moved."""

    broker_id: int
    replicas: list[tuple[str, int, int, int]]


class LogTruncated(Event):
    """A replica dropped its log's end: offsets from `to_offset` up to, not including, `from_offset` are gone."""

    broker_id: int
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    leader_epoch: int


class RecordsLost(Event):
    """Records that some leader's log held are gone from a replica that had them: `count` from `first_offset` to
    `last_offset`.  `below_high_watermark` says how many of them had been committed there."""

    broker_id: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    count: int
    below_high_watermark: int
    cause: str


class RecordsAppended(Event):
    """A leader appended a batch."""

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    checksum: int


class RecordsReplicated(Event):
    """A follower appended a batch that it fetched."""

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    checksum: int


class RecordsAcknowledged(Event):
    """A producer was told that its batch is stored, under this `acks` (-1 = all)."""

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    acks: int
    checksum: int


class HighWatermarkMoved(Event):
    """A replica's high watermark; `is_leader` tells whose."""

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int
    is_leader: bool


class ReplicaLoaded(Event):
    """A broker opened a replica's log at start, after a crash or a clean stop."""

    broker_id: int
    topic: str
    partition: int
    log_end_offset: int
    high_watermark: int


class TopicCreated(Event):
    """The controller took a new topic on; `assignment` maps partition to replicas."""

    topic: str
    topic_id: str
    assignment: dict[int, list[int]]


class TopicDeleted(Event):
    """A topic is gone, znodes and all."""

    topic: str


class ConfigChanged(Event):
    """The overrides of a topic or broker are now these (`entity` is topics/T or brokers/N)."""

    entity: str
    config: dict[str, str]


class WorkloadProgressed(Event):
    """How a workload stands."""

    workload_id: str
    topic: str
    sent: int
    acknowledged: int
    failed: int
    lost: int


EVENT_TYPES: tuple[type[Event], ...] = tuple(Event.__subclasses__())
BY_NAME: dict[str, type[Event]] = {snake(t.__name__): t for t in EVENT_TYPES}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of a journal: the envelope and the body.

    `node_seq` counts a node's lines from 1 and goes on over restarts; `seq` is the collector's cluster-wide number
    (0 in a node's own file, which does not know it yet).  `wall_us` and `mono_us` are the node's two clocks.
    """

    node: str
    node_seq: int
    wall_us: int
    mono_us: int
    event: Event
    seq: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The flat JSON form: envelope, then type, then the body's fields."""
        return {
            "seq": self.seq,
            "schema": SCHEMA_VERSION,
            "node": self.node,
            "node_seq": self.node_seq,
            "wall_us": self.wall_us,
            "mono_us": self.mono_us,
            **msgspec.to_builtins(self.event),
        }


def type_name(event: Event) -> str:
    """The `type` an event is written under, such as `controller_elected`."""
    return snake(type(event).__name__)


def entry_from_dict(raw: dict[str, Any]) -> Entry:
    """Rebuild an entry from its flat form.

    Raises msgspec.ValidationError where a field is missing or wrong, KeyError where the type is unknown.
    """
    body = BY_NAME[raw["type"]]
    event = msgspec.convert(raw, body, str_keys=True)
    return Entry(
        node=raw["node"],
        node_seq=raw["node_seq"],
        wall_us=raw["wall_us"],
        mono_us=raw["mono_us"],
        event=event,
        seq=raw.get("seq", 0),
    )

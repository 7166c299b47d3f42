"""The event schema. Each event is a fact that assigns values.

An event states what is now true on one node, so a fold over events consists of assignments and never reimplements a
protocol. `Event` is the base class of the bodies that protocol code emits. `Entry` is a body with its envelope (node,
sequence number, times), which the writer adds. Offsets, epochs, versions and zxids are plain integers here; zxids are
integers in JSON too (the dashboard formats them).

There is one file for each kind of node that writes events, and all events are imported from this package. A new event
type needs a class in one of those files, its name in `EVENT_TYPES` below, an entry in `zabka/journal/sentences.json`,
and a line of the golden file (`tests.journal.golden_files`). A type that is not in `EVENT_TYPES` cannot be written, so
every line of a journal can be read. Every package may import this one, which imports only `zabka.journal.event`.

Levels: `NORMAL` events are always written. `FULL` events (every commit, every acknowledgement) are written by simulated
runs and by nodes that were started with the full journal level.
"""

from __future__ import annotations

from typing import Any

import msgspec

from zabka.journal.event import Event as Event
from zabka.journal.event import Level as Level
from zabka.journal.event import TopicPartition as TopicPartition
from zabka.journal.event import snake
from zabka.journal.event import topic_partition as topic_partition
from zabka.journal.events.broker import AuthenticationFailed as AuthenticationFailed
from zabka.journal.events.broker import AuthorizationDenied as AuthorizationDenied
from zabka.journal.events.broker import BrokerRegistered as BrokerRegistered
from zabka.journal.events.broker import BrokerSessionChanged as BrokerSessionChanged
from zabka.journal.events.broker import ControllerBelieved as ControllerBelieved
from zabka.journal.events.broker import FollowershipTaken as FollowershipTaken
from zabka.journal.events.broker import HighWatermarkMoved as HighWatermarkMoved
from zabka.journal.events.broker import IsrChanged as IsrChanged
from zabka.journal.events.broker import IsrProposed as IsrProposed
from zabka.journal.events.broker import LastStableOffsetHeld as LastStableOffsetHeld
from zabka.journal.events.broker import LastStableOffsetMoved as LastStableOffsetMoved
from zabka.journal.events.broker import LastStableOffsetReleased as LastStableOffsetReleased
from zabka.journal.events.broker import LeadershipTaken as LeadershipTaken
from zabka.journal.events.broker import LogCompacted as LogCompacted
from zabka.journal.events.broker import LogTruncated as LogTruncated
from zabka.journal.events.broker import MarkerWritten as MarkerWritten
from zabka.journal.events.broker import RecordsAcknowledged as RecordsAcknowledged
from zabka.journal.events.broker import RecordsAppended as RecordsAppended
from zabka.journal.events.broker import RecordsLost as RecordsLost
from zabka.journal.events.broker import RecordsReplicated as RecordsReplicated
from zabka.journal.events.broker import ReplicaLoaded as ReplicaLoaded
from zabka.journal.events.broker import ReplicaProgressed as ReplicaProgressed
from zabka.journal.events.broker import ReplicaStanding as ReplicaStanding
from zabka.journal.events.broker import RequestFenced as RequestFenced
from zabka.journal.events.broker import TransactionBegun as TransactionBegun
from zabka.journal.events.clients import AdminRequested as AdminRequested
from zabka.journal.events.clients import ConsumerProgressed as ConsumerProgressed
from zabka.journal.events.clients import GroupChanged as GroupChanged
from zabka.journal.events.clients import LossesAcknowledged as LossesAcknowledged
from zabka.journal.events.clients import LostSpan as LostSpan
from zabka.journal.events.clients import TransactionChanged as TransactionChanged
from zabka.journal.events.clients import WorkloadProgressed as WorkloadProgressed
from zabka.journal.events.controller import AssignmentChanged as AssignmentChanged
from zabka.journal.events.controller import BrokerLivenessChanged as BrokerLivenessChanged
from zabka.journal.events.controller import ConfigChanged as ConfigChanged
from zabka.journal.events.controller import ControllerElected as ControllerElected
from zabka.journal.events.controller import ControllerEventFailed as ControllerEventFailed
from zabka.journal.events.controller import ControllerPropagated as ControllerPropagated
from zabka.journal.events.controller import ControllerReady as ControllerReady
from zabka.journal.events.controller import ControllerResigned as ControllerResigned
from zabka.journal.events.controller import LeaderElected as LeaderElected
from zabka.journal.events.controller import TopicCreated as TopicCreated
from zabka.journal.events.controller import TopicDeleted as TopicDeleted
from zabka.journal.events.controller import WriteFenced as WriteFenced
from zabka.journal.events.ensemble import EphemeralCreated as EphemeralCreated
from zabka.journal.events.ensemble import EphemeralDeleted as EphemeralDeleted
from zabka.journal.events.ensemble import EpochAccepted as EpochAccepted
from zabka.journal.events.ensemble import EpochAdopted as EpochAdopted
from zabka.journal.events.ensemble import HistoryReplaced as HistoryReplaced
from zabka.journal.events.ensemble import LeaderEstablished as LeaderEstablished
from zabka.journal.events.ensemble import LearnerSynced as LearnerSynced
from zabka.journal.events.ensemble import LogDamageFound as LogDamageFound
from zabka.journal.events.ensemble import MembershipActivated as MembershipActivated
from zabka.journal.events.ensemble import PeerStateChanged as PeerStateChanged
from zabka.journal.events.ensemble import QuotaExceeded as QuotaExceeded
from zabka.journal.events.ensemble import SessionClosed as SessionClosed
from zabka.journal.events.ensemble import SessionCreated as SessionCreated
from zabka.journal.events.ensemble import SessionExpired as SessionExpired
from zabka.journal.events.ensemble import SnapshotTaken as SnapshotTaken
from zabka.journal.events.ensemble import TxnCommitted as TxnCommitted
from zabka.journal.events.ensemble import TxnLogged as TxnLogged
from zabka.journal.events.ensemble import TxnLogTruncated as TxnLogTruncated
from zabka.journal.events.ensemble import TxnProposed as TxnProposed
from zabka.journal.events.ensemble import WriteAcknowledged as WriteAcknowledged
from zabka.journal.events.ensemble import ZxidCheckpoint as ZxidCheckpoint
from zabka.journal.events.node import FaultInjected as FaultInjected
from zabka.journal.events.node import FaultRemoved as FaultRemoved
from zabka.journal.events.node import InvariantViolated as InvariantViolated
from zabka.journal.events.node import LinkFaultApplied as LinkFaultApplied
from zabka.journal.events.node import NodeStarted as NodeStarted
from zabka.journal.events.node import NodeStopped as NodeStopped
from zabka.journal.events.node import PeerProtocolBroken as PeerProtocolBroken
from zabka.journal.events.node import ProcessChanged as ProcessChanged
from zabka.journal.events.node import RequestFaultApplied as RequestFaultApplied
from zabka.journal.events.node import TaskFailed as TaskFailed
from zabka.journal.events.programs import ProgramLogged as ProgramLogged
from zabka.journal.events.programs import ProgramNoted as ProgramNoted

SCHEMA_VERSION = 1

EVENT_TYPES: tuple[type[Event], ...] = (
    # zabka/journal/events/node.py
    NodeStarted,
    NodeStopped,
    TaskFailed,
    ProcessChanged,
    FaultInjected,
    FaultRemoved,
    LinkFaultApplied,
    RequestFaultApplied,
    PeerProtocolBroken,
    InvariantViolated,
    # zabka/journal/events/ensemble.py
    PeerStateChanged,
    EpochAccepted,
    EpochAdopted,
    LeaderEstablished,
    MembershipActivated,
    LearnerSynced,
    TxnLogTruncated,
    LogDamageFound,
    ZxidCheckpoint,
    SnapshotTaken,
    SessionCreated,
    SessionExpired,
    QuotaExceeded,
    SessionClosed,
    TxnProposed,
    HistoryReplaced,
    TxnLogged,
    TxnCommitted,
    EphemeralCreated,
    EphemeralDeleted,
    WriteAcknowledged,
    # zabka/journal/events/controller.py
    ControllerElected,
    ControllerReady,
    ControllerPropagated,
    ControllerResigned,
    ControllerEventFailed,
    WriteFenced,
    BrokerLivenessChanged,
    LeaderElected,
    AssignmentChanged,
    TopicCreated,
    TopicDeleted,
    ConfigChanged,
    # zabka/journal/events/broker.py
    BrokerRegistered,
    BrokerSessionChanged,
    ControllerBelieved,
    RequestFenced,
    AuthenticationFailed,
    AuthorizationDenied,
    IsrProposed,
    IsrChanged,
    LeadershipTaken,
    FollowershipTaken,
    ReplicaProgressed,
    ReplicaLoaded,
    LogTruncated,
    RecordsLost,
    LogCompacted,
    RecordsAppended,
    RecordsReplicated,
    RecordsAcknowledged,
    HighWatermarkMoved,
    TransactionBegun,
    MarkerWritten,
    LastStableOffsetMoved,
    LastStableOffsetHeld,
    LastStableOffsetReleased,
    # zabka/journal/events/clients.py
    GroupChanged,
    TransactionChanged,
    WorkloadProgressed,
    ConsumerProgressed,
    AdminRequested,
    LossesAcknowledged,
    # zabka/journal/events/programs.py
    ProgramNoted,
    ProgramLogged,
)
"""Every event type. Types that are not in this list are neither written nor read."""
BY_NAME: dict[str, type[Event]] = {snake(kind.__name__): kind for kind in EVENT_TYPES}
KNOWN: frozenset[type[Event]] = frozenset(EVENT_TYPES)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of a journal: the envelope and the event.

    `node_seq` numbers the lines of a node from 1 and continues after restarts. `seq` is the cluster-wide sequence
    number that the collector assigns (0 in a node's own file). `wall_us` and `mono_us` are the times on the node's wall
    clock and monotonic clock.
    """

    node: str
    node_seq: int
    wall_us: int
    mono_us: int
    event: Event
    seq: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the flat JSON form: the envelope, then the type, then the fields of the event."""
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
    """Return the `type` of an event, such as `controller_elected`."""
    return snake(type(event).__name__)


def entry_from_dict(raw: dict[str, Any]) -> Entry:
    """Create an entry from its flat JSON form.

    Raises msgspec.ValidationError if a field is missing or invalid, KeyError if the type is unknown.
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

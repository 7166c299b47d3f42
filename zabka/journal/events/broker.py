"""Events of a broker: its registration, its belief about the controller, its replicas, and rejected requests."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from zabka.journal.event import Event, Level


class BrokerRegistered(Event):
    """The broker's ephemeral znode exists in /brokers/ids. The broker epoch is the znode's czxid."""

    broker_id: int
    broker_epoch: int
    session_id: int
    caused_by: str = ""


class BrokerSessionChanged(Event):
    """The state of a broker's ZooKeeper session, as the broker sees it, changed to connected, suspended or expired."""

    broker_id: int
    state: str
    session_id: int


class ControllerBelieved(Event):
    """A broker's belief about the controller: the controller's broker id, and the highest controller epoch seen."""

    broker_id: int
    controller_id: int
    controller_epoch: int
    is_controller: bool


class RequestFenced(Event):
    """A broker rejected a request because of an epoch.

    `reason` is Kafka's name for the error. The epochs are those of the request and of the broker.
    """

    broker_id: int
    request: str
    sender_id: int
    reason: str
    request_epoch: int
    known_epoch: int
    topic: str | None = None
    partition: int | None = None


class AuthorizationDenied(Event):
    """A broker's authorizer denied a client an operation on a resource.

    `request` is the name of the API. Equal denials within a minute have only one event, and a broker emits at most ten
    of these events per second. `suppressed` is the number of denials since the previous event that have no event.
    """

    broker_id: int
    request: str
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    client_id: str = ""
    suppressed: int = 0


class AuthenticationFailed(Event):
    """A broker closed the connection of a client that could not authenticate.

    `mechanism` is that of SASL, TLS for a failed TLS handshake, or empty if the client chose none. `host` is the
    client's address. `cause` is the kind of the failure, such as wrong_credentials or untrusted_certificate; the
    broker's log has the details. Equal failures within a minute have only one event, and a broker emits at most ten of
    these events per second. `suppressed` is the number of failures since the previous event that have no event.
    """

    broker_id: int
    listener: str
    mechanism: str
    host: str
    cause: str
    suppressed: int = 0


class ReplicaStanding(msgspec.Struct, frozen=True, gc=False):
    """The data about a follower that its leader used for an ISR decision.

    It consists of the follower's log end offset, the leader's log end offset, and the high watermark; the time since
    the follower last caught up with the leader's log (-1: never in this leader epoch); and the maximum allowed lag
    (replica.lag.time.max.ms).
    """

    replica: int
    log_end_offset: int
    leader_end_offset: int
    high_watermark: int
    caught_up_ms_ago: int
    lag_time_max_ms: int


class IsrProposed(Event):
    """A leader requests another ISR, because of `cause`: lag or caught_up.

    `upon` is the partition epoch that the leader knows. `moved` contains the data about each replica that would leave
    or join the ISR.
    """

    broker_id: int
    topic: str
    partition: int
    isr: list[int]
    leader_epoch: int
    upon: int
    cause: str
    moved: list[ReplicaStanding]
    caused_by: str = ""


class IsrChanged(Event):
    """A partition has a new ISR, because of `cause`: lag or caught_up (both through the leader), or controller.

    `moved` has the data of the decision if the leader wrote the ISR itself. If the leader asked the controller, the
    data is in the IsrProposed event that `caused_by` refers to. `left` contains the replicas that were in the ISR
    before but are not any more.
    """

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
    left: list[int] = []
    moved: list[ReplicaStanding] = []
    caused_by: str = ""


class LeadershipTaken(Event):
    """A broker became leader of a partition in this leader epoch. The offsets are those of the leader's log at that
    time.
    """

    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    log_start_offset: int = 0
    caused_by: str = ""
    topic_id: str = ""


class FollowershipTaken(Event):
    """A broker became a follower of `leader` for a partition in this leader epoch."""

    broker_id: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    log_end_offset: int
    caused_by: str = ""
    topic_id: str = ""


class ReplicaProgressed(Event):
    """Offsets of a broker's replicas. Each row has a topic, a partition, a high watermark and a log end offset.

    The event is written at most a few times a second, and has only the replicas whose offsets changed.
    """

    broker_id: int
    replicas: list[tuple[str, int, int, int]]


class ReplicaLoaded(Event):
    """A broker opened a replica's log when it started, after a crash or after a clean shutdown."""

    broker_id: int
    topic: str
    partition: int
    log_end_offset: int
    high_watermark: int


class LogTruncated(Event):
    """A replica truncated its log: offsets from `to_offset` up to, but not including, `from_offset` were removed.

    `cause` is the reason: diverging_epoch (in the leader's Fetch response), offset_out_of_range (the leader's log is
    shorter), leader_start (the leader's log begins later), or a cause of older versions: high_watermark, leader_epoch.
    `begins_at` is the offset at which the emptied log continues, if the leader's log begins there; -1 if the log was
    only truncated.
    """

    broker_id: int
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    leader_epoch: int
    caused_by: str = ""
    cause: str = ""
    begins_at: int = -1

    @property
    def log_end_offset(self) -> int:
        """Log end offset after the truncation."""
        return max(self.to_offset, self.begins_at)


class RecordsLost(Event):
    """A replica lost records that it had from a leader's log: `count` from `first_offset` to `last_offset`.

    At least the first `committed_at_least` of them were committed: the replica's high watermark was above them,
    according to the broker's checkpoint or to its journal, which is newer after a crash. `below_high_watermark` is the
    older name of this number. In journals of versions that wrote only the older name, `committed_at_least` is -1.

    `topic_id` distinguishes topics of the same name, because a topic that is deleted and created again uses the same
    offsets again. `topic_id` is empty if the broker does not know the id. `leader_epoch` is the epoch of the last lost
    record (-1 if unknown). Other replicas may have reported a higher high watermark in that epoch, which the state of
    the cluster and the tables take into account.
    """

    broker_id: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    count: int
    below_high_watermark: int
    cause: str
    caused_by: str = ""
    topic_id: str = ""
    committed_at_least: int = -1
    leader_epoch: int = -1


class RecordsAppended(Event):
    """A leader appended a batch to its log."""

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    checksum: int


class LogCompacted(Event):
    """Compaction is about to replace a segment.

    After the replacement, records with offsets from `first_offset` to `last_offset` may be missing from this broker's
    log, and their batches have changed. The event is written just before the replacement.
    """

    broker_id: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    bytes_before: int
    bytes_after: int


class RecordsReplicated(Event):
    """A follower appended a batch that it fetched from its leader.

    `compacted` means that the batch was compacted before: it has fewer records than offsets, or a time for the removal
    of its tombstones. Its checksum then differs from that of the batch that the leader appended.
    """

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    checksum: int
    compacted: bool = False


class RecordsAcknowledged(Event):
    """A broker acknowledged a producer's batch, with this `acks` (-1 = all)."""

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
    """A replica's high watermark changed; `is_leader` is whether the replica is the leader."""

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int
    is_leader: bool


class TransactionBegun(Event):
    """A leader appended the first batch of a producer's transaction to a partition, at `first_offset`.

    `is_verified` is whether the coordinator had confirmed that the partition is part of the transaction (KIP-890).
    """

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    producer_id: int
    producer_epoch: int
    is_verified: bool
    caused_by: str = ""


class MarkerWritten(Event):
    """A leader appended a transaction marker, which ends a producer's transaction, at `offset`.

    `first_offset` is the transaction's first offset in this partition; -1 if it has no record there.
    """

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    offset: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    first_offset: int
    caused_by: str = ""


class LastStableOffsetMoved(Event):
    """A replica's last stable offset changed.

    All transactions before that offset are decided, and their markers are committed. The event is written only if
    transactions hold the offset back, or did before; otherwise the offset equals the high watermark. `held_by` is the
    producer id of the first transaction that holds it back now; -1 if there is none.
    """

    level: ClassVar[Level] = Level.FULL
    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    last_stable_offset: int
    high_watermark: int
    held_by: int
    is_leader: bool
    caused_by: str = ""


class LastStableOffsetHeld(Event):
    """An open transaction has held back a leader's last stable offset for `held_ms`: read_committed consumers wait.

    `producer_id` and `producer_epoch` identify the transaction's producer. `last_stable_offset` is the transaction's
    first offset. `held_ms` counts from the leader's first check that found the transaction. The event is written once
    for each transaction and leader epoch.
    """

    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    last_stable_offset: int
    high_watermark: int
    producer_id: int
    producer_epoch: int
    held_ms: int
    caused_by: str = ""


class LastStableOffsetReleased(Event):
    """The last stable offset of a partition advances again. It follows `LastStableOffsetHeld`.

    The offset was held back for `held_ms`.
    """

    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    last_stable_offset: int
    high_watermark: int
    held_ms: int
    caused_by: str = ""

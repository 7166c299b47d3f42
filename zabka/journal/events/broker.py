"""What a broker writes: its registration, whom it believes, its replicas, and the requests that it refused."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from zabka.journal.event import Event, Level


class BrokerRegistered(Event):
    """The broker's ephemeral stands in /brokers/ids; its czxid is the broker epoch."""

    broker_id: int
    broker_epoch: int
    session_id: int
    caused_by: str = ""


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


class ReplicaStanding(msgspec.Struct, frozen=True, gc=False):
    """Where a follower stood when its leader decided about it: its log's end beside the leader's and the high
    watermark, how long ago it had last caught up with the leader's log (-1: not in this leader epoch), and how long it
    may stay behind (replica.lag.time.max.ms)."""

    replica: int
    log_end_offset: int
    leader_end_offset: int
    high_watermark: int
    caught_up_ms_ago: int
    lag_time_max_ms: int


class IsrProposed(Event):
    """A leader asks for another ISR: `cause` is lag or caught_up, `upon` the partition epoch that it knows.

    `moved` holds every replica that is to leave or to join, with what the decision was made from.
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
    """A partition's ISR is now this; cause lag, caught_up (both through the leader) or controller.

    `moved` holds what a leader that wrote the ISR itself decided upon; what one that asked the controller decided upon
    stands in the proposal that `caused_by` names.  `left` are the replicas that were in the ISR before.
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
    """A broker became leader of a partition in this leader epoch, with this log."""

    broker_id: int
    topic: str
    partition: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    log_start_offset: int = 0
    caused_by: str = ""


class FollowershipTaken(Event):
    """A broker follows `leader` for a partition in this leader epoch."""

    broker_id: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    log_end_offset: int
    caused_by: str = ""


class ReplicaProgressed(Event):
    """Where a broker's replicas stand: rows of topic, partition, high watermark, log end offset.
    Written at most a few times a second, and only for what moved."""

    broker_id: int
    replicas: list[tuple[str, int, int, int]]


class ReplicaLoaded(Event):
    """A broker opened a replica's log at start, after a crash or a clean stop."""

    broker_id: int
    topic: str
    partition: int
    log_end_offset: int
    high_watermark: int


class LogTruncated(Event):
    """A replica dropped its log's end: offsets from `to_offset` up to, not including, `from_offset` are gone.

    `cause` is by what it was cut: diverging_epoch (the leader's answer to a fetch), offset_out_of_range (the leader's
    log is shorter), leader_start (the leader's log begins later), or an old way: high_watermark, leader_epoch.
    `begins_at` says where the log goes on that is empty now, since its leader's begins there; -1 where it is only cut.
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
        """Where the log ends then."""
        return max(self.to_offset, self.begins_at)


class RecordsLost(Event):
    """Records that some leader's log held are gone from a replica that had them: `count` from `first_offset` to
    `last_offset`.  At least `committed_at_least` of them, the first ones, were committed: the replica's high watermark
    is known to have been there, by the broker's checkpoint or by its journal, which is newer after a crash.
    `below_high_watermark` is the same figure under its older name.  `topic_id` tells topics of one name apart, since a
    topic that is deleted and created again has the same offsets again; it is empty if the broker does not know it.
    `committed_at_least` is -1 in journals of versions that wrote only the older name."""

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


class LogCompacted(Event):
    """Compaction put what it left of a segment in its place: records with offsets from `first_offset` to `last_offset`
    may be gone from this broker's log, and batches among them are others.  Told just before."""

    broker_id: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    bytes_before: int
    bytes_after: int


class RecordsReplicated(Event):
    """A follower appended a batch that it fetched.  `compacted` says that compaction had been through it: it holds
    fewer records than offsets, or notes when its tombstones may go, and has another checksum than what was appended."""

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

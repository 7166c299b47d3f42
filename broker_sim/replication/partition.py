"""One partition on one broker: role, ISR and high watermark (Kafka's cluster/Partition.scala).

Theory of operation
===================

A `Partition` exists from the first LeaderAndIsr that contains this broker as a replica until StopReplica, a failed log
directory, or an UpdateMetadata that shows it moved elsewhere (`zabka.broker_sim.replication.hosted_partitions`).  Its
methods never wait. Through `host`, they pass to the broker everything that has to wait: a produce with acks=all or a
fetch in the purgatory (`wake`), and an ISR change sent to the controller (`propose_isr`).

    role      condition                     entered by      what it does
    --------  ----------------------------  --------------  ----------------------------------------------------------
    none      leader is None                creation        nothing
    leader    leader is this broker         make_leader     appends, serves fetches, moves the high watermark, the ISR
    follower  leader is another broker      make_follower   fetches (`zabka.broker_sim.replication.fetcher`)

The caller has fenced the request by broker epoch, controller epoch and leader epoch, and ignores a state whose leader
is not alive.  make_leader and make_follower also ignore a state of a lower partition epoch.  A leader has a
second state machine, the ISR state (`isr_state`, `zabka.broker_sim.replication.isr`):

    ISR state                 event                                               next ISR state
    ------------------------  --------------------------------------------------  ------------------------------------
    Committed                 a fetch shows that a follower may join              PendingExpand (maybe_expand_isr)
    Committed                 the periodic check finds members that lag           PendingShrink (maybe_shrink_isr)
    PendingExpand or -Shrink  the proposal cannot be sent now (_submit)           the last Committed
                              response without error, of this leader epoch        Committed, with the response's ISR
                              OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA         the last Committed
                              an error in _WAIT, or a response of another epoch   unchanged until the next LeaderAndIsr
                              any other error                                     unchanged, and proposed again
    any                       make_leader                                         Committed, with the controller's ISR
    any                       make_follower                                       Committed, empty

Invariants
----------

1. At most one ISR change is pending. `maybe_expand_isr` and `maybe_shrink_isr` act only on a Committed state, and
   `_isr_answered` ignores the response to any proposal but the pending one.
2. leader_epoch and partition_epoch never decrease. A proposal is conditional on both, so it can safely be repeated.
3. A leader's high watermark never decreases, and advances only to an offset that every replica in the maximal ISR has
   reached. That includes a joining replica, and leaving replicas until the controller has responded. It also waits for
   live followers that are caught up, because they can join at any moment (`maybe_advance_high_watermark`,
   IsrRules.commit_offset). It does not advance while the committed ISR is smaller than min.insync.replicas
   (KAFKA-15583).
4. A follower joins the ISR only if it has everything before the high watermark and before the start of the leader's
   epoch (`leader_epoch_start`; KAFKA-7128), and its broker is alive (IsrRules.may_join).
5. A produce with acks=all succeeds only if the high watermark has reached its end in an unbroken leadership
   (`acks_all_state`). If another broker led in between (`led_since`), the records may have been truncated, and the
   reply is NOT_LEADER_OR_FOLLOWER. If the ISR is too small by then, it is NOT_ENOUGH_REPLICAS_AFTER_APPEND.
6. Consumers read below the high watermark or the last stable offset; followers read to the log end (`readable_end`).
7. Replicas that are no longer assigned count for the high watermark until they have left the ISR (`make_leader`;
   KAFKA-9672).
8. Changes of role, log end and high watermark are journalled here or in `zabka.broker_sim.replication.following`, which
   appends and truncates for a follower.

The rules of 3 and 4 are in `zabka.broker_sim.replication.isr_rules`, together with their older forms in Kafka.

A produce with acks=all
-----------------------

Replicas 1, 2 and 3 are in the ISR, the leader is 1, the log end is 10, and the high watermark is 10. `append` checks
the role and min.insync.replicas, validates the records, and checks the producer's sequence. A long validation is
returned to the caller and ends in `append_validated`, which checks the role again. `PartitionLog.append_as_leader`
writes offset 10; the log end is 11, and the result has required_offset 11. `maybe_advance_high_watermark` finds
followers at 10, so the high watermark stays, and `wake` completes the waiting fetches of followers. The produce waits
in the purgatory.

Follower 2 receives the record and fetches at 11, which shows that its log ends at 11. `follower_fetched` records that,
`maybe_expand_isr` has nothing to do, and the high watermark still waits for replica 3. When replica 3 fetches at 11,
the high watermark advances to 11, `wake` checks the produce again, `acks_all_state` returns NONE, and the producer gets
its reply. The next fetch responses contain the new high watermark for the followers.

If replica 3 stops fetching, `maybe_shrink_isr` proposes the ISR [1, 2] after replica.lag.time.max.ms to one and a half
times that. The high watermark advances when the controller's response has arrived and `_isr_answered` has made the
smaller ISR the committed one.

Sources
-------

Kafka's Partition.scala (makeLeader, makeFollower, appendRecordsToLeader, updateFollowerFetchState, maybeExpandIsr,
maybeShrinkIsr, maybeIncrementLeaderHW, checkEnoughReplicasReachOffset, submitAlterPartition, handleAlterPartitionError,
handleAlterPartitionUpdate) and Replica.scala.  KIP-497 (AlterPartition), KIP-704 (leader recovery state), KIP-903
(broker epochs of ISR members), KIP-320 (`check_epoch`), KIP-207 (`last_readable`), KIP-392 (fetch from a follower).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.replica_config import PartitionConfig, lists
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.producer_snapshots import NO_OFFSET
from zabka.broker_sim.logs.producer_state import UNKNOWN_CHECKSUM, ProducerBatch
from zabka.broker_sim.logs.verification_state import Guard, VerificationState
from zabka.broker_sim.ports import FetchParams, FetchPartition
from zabka.broker_sim.replication.follower_state import FollowerState
from zabka.broker_sim.replication.isr import RECOVERED, Committed, IsrState, Pending, PendingExpand, PendingShrink
from zabka.broker_sim.replication.isr_rules import begin_leader_epoch, note_fetch
from zabka.broker_sim.replication.partition_host import (
    CLIENT,
    NO_EPOCH,
    Appended,
    IsrAnswer,
    IsrProposal,
    LeaderAndIsrPartitionState,
    PartitionHost,
    Sender,
)
from zabka.broker_sim.replication.validation_scheduler import AtOnce, cost_of
from zabka.journal.cause import (
    UNKNOWN,
    Cause,
    decision_cause,
    election_cause,
    open_transaction_cause,
    producer_cause,
    request_cause,
    timer_cause,
)
from zabka.journal.events import (
    FollowershipTaken,
    HighWatermarkMoved,
    IsrProposed,
    LastStableOffsetHeld,
    LastStableOffsetMoved,
    LastStableOffsetReleased,
    LeadershipTaken,
    MarkerWritten,
    RecordsAppended,
    ReplicaStanding,
    TopicPartition,
    TransactionBegun,
)
from zabka.kafka.compression import Data
from zabka.kafka.end_transaction_marker import EndTransactionMarker, marker_batch
from zabka.kafka.plain_batch import plain_batch
from zabka.kafka.record_batch import NO_PRODUCER, BatchHeader, is_transactional, split_batches
from zabka.kafka.record_refusals import RecordsRefused
from zabka.kafka.record_rules import Append
from zabka.kafka.record_validation import SLICE_RECORDS, Validated, Validation, validate

ALL = -1
"""Value of acks in a produce with acks=all."""

HELD_MS = 10_000
"""Journal a transaction that limits the last stable offset for at least this long."""
_FETCH = request_cause("Fetch")
_PRODUCER_REFUSALS: Mapping[int, str] = {
    ErrorCode.out_of_order_sequence_number: "out of its producer's order",
    ErrorCode.invalid_producer_epoch: "of an earlier epoch of its producer",
    ErrorCode.invalid_txn_state: "outside the transaction that its producer has begun",
}
_REVERT = (ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica)
_WAIT = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.invalid_request,
    ErrorCode.new_leader_elected,
)


class HeldOffset(NamedTuple):
    """A last stable offset that an open transaction holds back, with the time of the first check that saw it."""

    producer_id: int
    offset: int
    leader_epoch: int
    """The first leader epoch of this broker's current leadership."""
    since_ms: int
    is_journalled: bool = False


class Partition:
    """A partition hosted on this broker. Its methods never wait; `host` performs operations that take time."""

    __slots__ = (
        "_held",
        "_marker",
        "adding_replicas",
        "controller_epoch",
        "followed_because",
        "followers",
        "future",
        "host",
        "isr_state",
        "leader",
        "leader_epoch",
        "leader_epoch_start",
        "led_since",
        "log",
        "partition_epoch",
        "replicas",
        "settings",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, log: PartitionLog, settings: PartitionConfig, host: PartitionHost
    ) -> None:
        self.topic_partition = topic_partition
        self.log = log
        self.future: PartitionLog | None = None
        """The copy in another log directory that will replace the log."""
        self.settings = settings
        self.topic_id: str | None = None
        self.leader: int | None = None
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.controller_epoch = NO_EPOCH
        """The epoch of the controller that made the last decision about this partition's leader."""
        self.leader_epoch_start: int | None = None
        self.led_since = NO_EPOCH
        """The first leader epoch of this broker's current, uninterrupted leadership."""
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.followers: dict[int, FollowerState] = {}
        self.isr_state: IsrState = Committed(())
        self.followed_because = UNKNOWN
        """The event that set this follower's leader. It is the cause of the follower's truncations."""
        self._marker = (NO_OFFSET, UNKNOWN)
        """The offset of the last transaction marker that this leader appended, and the marker's journal event."""
        self._held: HeldOffset | None = None
        self.host = host

    @property
    def is_leader(self) -> bool:
        """Whether this broker is the leader."""
        return self.leader == self.host.broker_id

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, limited to the number of replicas."""
        return min(self.settings.min_insync_replicas, max(1, len(self.replicas)))

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker is the leader and the committed ISR is smaller than the replication factor.

        Replicas that a reassignment adds are not counted in the replication factor.
        """
        settled = sum(1 for broker in self.replicas if broker not in self.adding_replicas)
        return self.is_leader and len(self.isr_state.isr) < settled

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this broker is the leader and the committed ISR is smaller than min.insync.replicas."""
        return self.is_leader and len(self.isr_state.isr) < self.min_isr

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this broker is the leader and the size of the committed ISR equals min.insync.replicas."""
        return self.is_leader and len(self.isr_state.isr) == self.min_isr

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the live replicas, as known from their fetches."""
        alive = self.host.metadata.is_alive
        starts = [follower.start_offset for follower in self.followers.values() if alive(follower.broker_id)]
        if self.future is not None:
            starts.append(self.future.start_offset)
        return min([self.log.start_offset, *starts])

    # ---- roles -------------------------------------------------------------------------------------------------

    def make_leader(self, state: LeaderAndIsrPartitionState) -> bool:
        """Become leader. Return False if the given state has a lower partition epoch than the known one.

        RECOVERING is not stored, because a leader proposes RECOVERED with its first ISR change (KIP-704).
        """
        if state.partition_epoch < self.partition_epoch:
            return False
        newly_leader = not self.is_leader
        if newly_leader:
            self.led_since = state.leader_epoch
        if state.leader_epoch > self.leader_epoch:
            start = self.log.end_offset
            self.log.epochs.assign(state.leader_epoch, start)
            self.leader_epoch_start = start
        new_epoch = state.leader_epoch > self.leader_epoch
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        known = self.followers
        # At the end of a reassignment, the ISR contains replicas that are no longer assigned. They count as replicas
        # until they have left the ISR: a new controller reads the old assignment and may elect them (KAFKA-9672).
        others = [broker for broker in dict.fromkeys((*state.replicas, *state.isr)) if broker != self.host.broker_id]
        self.followers = {broker: known.get(broker) or FollowerState(broker) for broker in others}
        if new_epoch:
            now_ms = self.now_ms()
            for follower in self.followers.values():
                in_sync = follower.broker_id in state.isr
                begin_leader_epoch(follower, now_ms, self.log.end_offset, newly_leader, in_sync)
        self.isr_state = Committed(state.isr)
        self.controller_epoch = state.controller_epoch
        self.partition_epoch = state.partition_epoch
        self.leader_epoch = state.leader_epoch
        self.leader = self.host.broker_id
        self.host.emit(
            LeadershipTaken(
                broker_id=self.host.broker_id,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=self.leader_epoch,
                log_end_offset=self.log.end_offset,
                high_watermark=self.log.high_watermark,
                log_start_offset=self.log.start_offset,
                caused_by=election_cause(self.topic_partition, self.leader_epoch),
                topic_id=self.topic_id or "",
            )
        )
        self.host.moved(self)
        self.maybe_advance_high_watermark()
        return True

    def make_follower(self, state: LeaderAndIsrPartitionState) -> bool:
        """Become follower. Return False if the given state is older, or has the same leader and leader epoch."""
        if state.partition_epoch < self.partition_epoch:
            return False
        changed = self.leader != state.leader or state.leader_epoch > self.leader_epoch
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        self.followers = {}
        self.isr_state = Committed(())
        self.leader_epoch_start = None
        self.controller_epoch = state.controller_epoch
        self.partition_epoch = state.partition_epoch
        self.leader_epoch = state.leader_epoch
        self.leader = state.leader
        if changed:
            self.followed_because = self.host.emit(
                FollowershipTaken(
                    broker_id=self.host.broker_id,
                    topic=self.topic_partition.topic,
                    partition=self.topic_partition.partition,
                    leader=state.leader,
                    leader_epoch=self.leader_epoch,
                    log_end_offset=self.log.end_offset,
                    caused_by=election_cause(self.topic_partition, self.leader_epoch),
                    topic_id=self.topic_id or "",
                )
            )
            self.host.moved(self)
        return changed

    def now_ms(self) -> int:
        """Return the broker's monotonic time. The lag of followers is measured with it."""
        return self.host.runtime.now().mono_ms

    # ---- leader: records ---------------------------------------------------------------------------------------

    def append(self, data: bytes, acks: int, at_once: AtOnce, sender: Sender = CLIENT) -> Appended | Validation:
        """Append a producer's records as leader. If the validation takes long, return the unfinished validation.

        The caller then completes the validation and passes its result to `append_validated`.

        Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (acks=all with fewer in-sync replicas than
        min.insync.replicas), the errors of `validate`, RECORD_LIST_TOO_LARGE, and the errors of idempotent producers.
        """
        error = self._append_error(acks)
        if error:
            return Appended(error)
        settings = self.settings
        if settings.asks_nothing_of_records:
            header = plain_batch(data, settings.records.max_message_bytes)
            if header is not None:
                return self._append(data, [header], -1, sender)
        work = validate(data, Append(settings.records, self.topic_partition, self.host.runtime.now().wall_ms))
        cost = cost_of(data)
        try:
            while at_once.allows(cost):
                next(work)
                # The validation paused early, because the batch contains more records than its header states. The cost
                # of the remaining records is unknown, so each step is charged as a whole slice.
                cost = SLICE_RECORDS
        except StopIteration as done:
            return self._append_valid(done.value, sender)
        except RecordsRefused as refused:
            return self.refused(refused)
        return work

    def append_validated(self, outcome: Validated | RecordsRefused, acks: int, sender: Sender = CLIENT) -> Appended:
        """Complete an append after a long validation. The partition may have another leader by now."""
        error = self._append_error(acks)
        if error:
            return Appended(error)
        return self.refused(outcome) if isinstance(outcome, RecordsRefused) else self._append_valid(outcome, sender)

    def _append_valid(self, validated: Validated, sender: Sender) -> Appended:
        return self._append(validated.data, validated.headers, validated.log_append_time_ms, sender)

    def begin_verification(self, producer_id: int, sequence: int, epoch: int) -> Guard:
        """Return the guard that this leader checks before an append: it can require a verified transaction."""
        return self.log.producers.begin_verification(producer_id, sequence, epoch, self.host.runtime.now().wall_ms)

    def append_marker(self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker) -> Appended:
        """Append the marker that ends a producer's transaction, as leader and for acks=all.

        Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, INVALID_PRODUCER_EPOCH if the producer has a later epoch,
        and TRANSACTION_COORDINATOR_FENCED if a later coordinator has ended a transaction of the producer (KIP-98).
        """
        error = self._append_error(ALL)
        if error:
            return Appended(error)
        data = marker_batch(producer_id, producer_epoch, marker, self.host.runtime.now().wall_ms)
        headers = split_batches(data, checked=False)
        assert headers is not None
        error = self.log.producers.check_marker(headers[0], marker)
        if error:
            return Appended(error)
        first_offset = self.log.producers.txn_first_offset(producer_id)

        def journal(stored: BatchHeader) -> None:
            written = MarkerWritten(
                broker_id=self.host.broker_id,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=self.leader_epoch,
                offset=stored.base_offset,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                first_offset=first_offset,
                caused_by=decision_cause(producer_id, producer_epoch),
            )
            self._marker = (stored.base_offset, self.host.emit(written))

        return self._store(data, headers, -1, journal)

    def refused(self, refused: RecordsRefused) -> Appended:
        """Return the result of an append whose records are rejected."""
        return Appended(refused.error, refusal=refused)

    def _append_error(self, acks: int) -> int:
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if acks == ALL and len(self.isr_state.isr) < self.min_isr:
            return ErrorCode.not_enough_replicas
        return 0

    def _append(self, data: Data, headers: list[BatchHeader], append_time_ms: int, sender: Sender) -> Appended:
        if not headers:
            return Appended(0, required_offset=0)
        if len(data) > self.settings.segment_bytes:
            return Appended(ErrorCode.record_list_too_large)
        header = headers[0]
        if header.producer_id < 0:
            return self._store(data, headers, append_time_ms)
        refusal = self._check_producer(header, sender)
        if refusal is not None:
            return refusal
        journal = partial(self._journal_beginning, sender.guard) if is_transactional(header) else None
        return self._store(data, headers, append_time_ms, journal)

    def _journal_beginning(self, guard: Guard, header: BatchHeader) -> None:
        """If this batch has begun a transaction, journal the beginning."""
        if self.log.producers.txn_first_offset(header.producer_id) != header.base_offset:
            return
        self.host.emit(
            TransactionBegun(
                broker_id=self.host.broker_id,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=self.leader_epoch,
                first_offset=header.base_offset,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                is_verified=isinstance(guard, VerificationState),
                caused_by=producer_cause(header.producer_id),
            )
        )

    def _store(
        self,
        data: Data,
        headers: list[BatchHeader],
        append_time_ms: int,
        journal: Callable[[BatchHeader], None] | None = None,
    ) -> Appended:
        patched = self.log.append_as_leader(data, headers, self.leader_epoch)
        topic, partition = self.topic_partition
        for header in patched:
            self.host.emit(
                RecordsAppended(
                    broker_id=self.host.broker_id,
                    topic=topic,
                    partition=partition,
                    leader_epoch=self.leader_epoch,
                    first_offset=header.base_offset,
                    last_offset=header.last_offset,
                    checksum=header.crc,
                )
            )
        if journal is not None:
            journal(patched[0])
        self.host.moved(self)
        if not self.maybe_advance_high_watermark():
            self.host.wake(self.topic_partition)
        last_offset = patched[-1].last_offset
        stored = tuple(patched)
        return Appended(0, patched[0].base_offset, last_offset, last_offset + 1, stored, append_time_ms)

    def _check_producer(self, header: BatchHeader, sender: Sender) -> Appended | None:
        known = self.log.producers.check(header, sender.origin, sender.guard)
        if isinstance(known, ProducerBatch):
            header = header._replace(base_offset=known.base_offset)
            if known.crc != UNKNOWN_CHECKSUM:
                header = header._replace(crc=known.crc)
            # As in Kafka, return the timestamp of the latest record for a duplicate batch.
            last_offset, time_ms = known.last_offset, known.timestamp_ms
            return Appended(0, known.base_offset, last_offset, last_offset + 1, (header,), time_ms)
        return self.refused(RecordsRefused(known, _PRODUCER_REFUSALS[known])) if known else None

    def acks_all_state(self, required_offset: int, leader_epoch: int) -> int | None:
        """Return the result of a produce with acks=all: None while the high watermark is too low, else the error code.

        The result is an error if another broker has led since the append, because the records may have been truncated
        and replaced.
        """
        if not self.is_leader or leader_epoch < self.led_since:
            return ErrorCode.not_leader_or_follower
        if self.log.high_watermark < required_offset:
            return None
        if len(self.isr_state.maximal_isr) < self.min_isr:
            return ErrorCode.not_enough_replicas_after_append
        return ErrorCode.none

    # ---- leader: reads -----------------------------------------------------------------------------------------

    def check_epoch(self, current_leader_epoch: int, leader_only: bool = True) -> int:
        """Compare the leader epoch of the request with the current one (KIP-320). Return the error code.

        Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, and NOT_LEADER_OR_FOLLOWER if this broker is not the leader
        and `leader_only` is True.
        """
        error = self.host.fences.fetch_epoch_error(current_leader_epoch, self.leader_epoch)
        if error:
            return error
        return 0 if self.is_leader or not leader_only else ErrorCode.not_leader_or_follower

    def readable_end(self, params: FetchParams) -> int:
        """Return the end of the offsets that a fetch can read.

        This is the log end offset for followers, the high watermark for consumers, and the last stable offset for
        consumers with isolation level READ_COMMITTED (FetchIsolation).
        """
        if params.replica_id >= 0:
            return self.log.end_offset
        return self.log.last_stable_offset if params.read_committed else self.log.high_watermark

    @property
    def is_throttled_leader(self) -> bool:
        """Whether the topic's list of throttled replicas contains the leader."""
        return lists(self.settings.leader_throttled, self.topic_partition.partition, self.host.broker_id)

    def is_held_back(self, follower_id: int) -> bool:
        """Return whether a follower that is not in sync must wait because throttled replicas exceed their rate."""
        throttle = self.host.throttle
        return (
            throttle.is_limited
            and follower_id not in self.isr_state.isr
            and self.is_throttled_leader
            and throttle.is_exceeded
        )

    def follower_fetched(self, follower: FollowerState, requested: FetchPartition, replica_epoch: int) -> None:
        """Record a follower's log end offset, known from its fetch.

        Then expand the ISR and advance the high watermark if possible.
        """
        before = follower.end_offset
        note_fetch(follower, requested.fetch_offset, self.log.end_offset, self.now_ms())
        if follower.start_offset != requested.log_start_offset:
            follower.start_offset = requested.log_start_offset
            self.host.wake(self.topic_partition)
        follower.broker_epoch = replica_epoch
        self.maybe_expand_isr(follower)
        if follower.end_offset != before:
            self.maybe_advance_high_watermark()

    def last_readable(self, from_follower: bool, read_committed: bool) -> tuple[int, int]:
        """Return an error code and the end of the offsets that ListOffsets can return.

        The code is OFFSET_NOT_AVAILABLE for clients while the high watermark has not reached this leader epoch
        (KIP-207), else 0.
        """
        if from_follower:
            return 0, self.log.end_offset
        is_too_low = self.leader_epoch_start is not None and self.leader_epoch_start > self.log.high_watermark
        last = self.log.last_stable_offset if read_committed else self.log.high_watermark
        return ErrorCode.offset_not_available if is_too_low else 0, last

    # ---- leader: high watermark and ISR ------------------------------------------------------------------------

    def maybe_advance_high_watermark(self) -> bool:
        """Advance the high watermark to the lowest log end offset of the replicas required for a commit.

        Returns whether the high watermark advanced. It does not advance while the ISR is smaller than
        min.insync.replicas (KAFKA-15583).
        """
        rules = self.host.isr_rules
        if not self.is_leader or not rules.may_commit(len(self.isr_state.isr), self.min_isr):
            return False
        mark = rules.commit_offset(
            self.followers, self.isr_state.maximal_isr, self.log.end_offset, self.now_ms(), self.host.metadata.is_alive
        )
        if mark <= self.log.high_watermark:
            return False
        self.set_high_watermark(mark)
        self.host.wake(self.topic_partition)
        return True

    def set_high_watermark(self, offset: int) -> None:
        """Set the high watermark, and journal it."""
        log = self.log
        before = log.high_watermark
        # Inline copy of `stable_offset_if_held_back`, because this runs for every batch.
        stable = log.last_stable_offset if log.producers.has_undecided else None
        log.high_watermark = offset
        moved = self.host.emit(
            HighWatermarkMoved(
                broker_id=self.host.broker_id,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=self.leader_epoch,
                high_watermark=offset,
                is_leader=self.is_leader,
            )
        )
        if stable is not None:
            marker_offset, written = self._marker
            passed = before <= marker_offset < offset
            self.journal_stable_offset(stable, written if passed else moved if self.is_leader else _FETCH)
        self.host.moved(self)

    def stable_offset_if_held_back(self) -> int | None:
        """Return the last stable offset if transactions may limit it, else None."""
        return self.log.last_stable_offset if self.log.producers.has_undecided else None

    def journal_stable_offset(self, before: int, cause: Cause) -> None:
        """Journal the last stable offset if it differs from `before`."""
        stable = self.log.last_stable_offset
        if stable == before:
            return
        self._release_stable_offset(stable, cause)
        producers = self.log.producers
        self.host.emit(
            LastStableOffsetMoved(
                broker_id=self.host.broker_id,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=self.leader_epoch,
                last_stable_offset=stable,
                high_watermark=self.log.high_watermark,
                held_by=producers.first_unstable_producer if stable < self.log.high_watermark else NO_PRODUCER,
                is_leader=self.is_leader,
                caused_by=cause,
            )
        )

    def check_held_stable_offset(self) -> None:
        """Journal a transaction that has limited the last stable offset for HELD_MS. Called periodically."""
        producers, stable = self.log.producers, self.stable_offset_if_held_back()
        if not self.is_leader or stable is None or stable == self.log.high_watermark:
            self._held = None
            return
        now_ms, producer_id = self.now_ms(), producers.first_unstable_producer
        held = self._held
        if held is None or (held.producer_id, held.offset, held.leader_epoch) != (producer_id, stable, self.led_since):
            self._held = HeldOffset(producer_id, stable, self.led_since, now_ms)
        elif not held.is_journalled and now_ms - held.since_ms >= HELD_MS:
            self._held = held._replace(is_journalled=True)
            self.host.emit(
                LastStableOffsetHeld(
                    broker_id=self.host.broker_id,
                    topic=self.topic_partition.topic,
                    partition=self.topic_partition.partition,
                    leader_epoch=self.leader_epoch,
                    last_stable_offset=stable,
                    high_watermark=self.log.high_watermark,
                    producer_id=producer_id,
                    producer_epoch=producers.epoch_of(producer_id),
                    held_ms=now_ms - held.since_ms,
                    caused_by=open_transaction_cause(producer_id, self.topic_partition, stable),
                )
            )

    def _release_stable_offset(self, stable: int, cause: Cause) -> None:
        held = self._held
        if held is None or not held.is_journalled or not self.is_leader:
            return
        self._held = None
        self.host.emit(
            LastStableOffsetReleased(
                broker_id=self.host.broker_id,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=self.leader_epoch,
                last_stable_offset=stable,
                high_watermark=self.log.high_watermark,
                held_ms=self.now_ms() - held.since_ms,
                caused_by=cause,
            )
        )

    def maybe_expand_isr(self, follower: FollowerState) -> None:
        """Propose to add a follower to the ISR if it can join."""
        state = self.isr_state
        if not isinstance(state, Committed) or follower.broker_id in state.isr or self.leader_epoch_start is None:
            return
        rules, alive = self.host.isr_rules, self.host.metadata.is_alive
        if rules.may_join(follower, self.log.high_watermark, self.leader_epoch_start, alive):
            self._propose(PendingExpand(follower.broker_id, state))

    def maybe_shrink_isr(self) -> None:
        """Propose to remove ISR members that are not caught up. Called every half of replica.lag.time.max.ms."""
        state = self.isr_state
        if not self.is_leader or not isinstance(state, Committed):
            return
        if lagging := self.lagging():
            self._propose(PendingShrink(lagging, state))

    def lagging(self) -> tuple[int, ...]:
        """Return the members of the committed ISR that the leader does not consider caught up."""
        rules, end = self.host.isr_rules, self.log.end_offset
        return rules.lagging(self.isr_state.isr, self.host.broker_id, self.followers, end, self.now_ms())

    def _propose(self, pending: Pending) -> None:
        """Propose another ISR and journal the reason. A proposal that is sent again is journalled only once."""
        moved = self._standings(pending)
        if self._submit(pending, moved):
            shrinks = isinstance(pending, PendingShrink)
            self.host.emit(
                IsrProposed(
                    broker_id=self.host.broker_id,
                    topic=self.topic_partition.topic,
                    partition=self.topic_partition.partition,
                    isr=list(pending.proposed),
                    leader_epoch=self.leader_epoch,
                    upon=self.partition_epoch,
                    cause="lag" if shrinks else "caught_up",
                    moved=list(moved),
                    caused_by=timer_cause("isr-expiration") if shrinks else _FETCH,
                )
            )

    def _standings(self, pending: Pending) -> tuple[ReplicaStanding, ...]:
        leaving = pending.leaving if isinstance(pending, PendingShrink) else (pending.joining,)
        end, mark, now_ms = self.log.end_offset, self.log.high_watermark, self.now_ms()
        standing, followers = self.host.isr_rules.standing, self.followers
        return tuple(standing(followers[b], end, mark, now_ms) for b in leaving if b in followers)

    def _submit(self, pending: Pending, moved: tuple[ReplicaStanding, ...]) -> bool:
        self.isr_state = pending
        member_epoch = self.host.isr_rules.member_epoch
        proposal = IsrProposal(
            topic_partition=self.topic_partition,
            topic_id=self.topic_id,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=pending.proposed,
            member_epochs=tuple(member_epoch(self.followers.get(broker)) for broker in pending.proposed),
            recovery_state=RECOVERED,
            is_shrink=isinstance(pending, PendingShrink),
            moved=moved,
            controller_epoch=self.controller_epoch,
            answered=lambda answer: self._isr_answered(pending, moved, answer),
        )
        accepted = self.host.propose_isr(proposal)
        if not accepted:
            self.isr_state = pending.last_committed
        return accepted

    def _isr_answered(self, pending: Pending, moved: tuple[ReplicaStanding, ...], answer: IsrAnswer) -> None:
        if self.isr_state is not pending or not self.is_leader:
            return
        if answer.error:
            self.host.counters.failed_updates += 1
            if answer.error in _REVERT:
                self.isr_state = pending.last_committed
            elif answer.error not in _WAIT:
                self._submit(pending, moved)
            return
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            self.host.counters.failed_updates += 1
            return
        if isinstance(pending, PendingExpand):
            self.host.counters.expands += 1
        else:
            self.host.counters.shrinks += 1
        self.isr_state = Committed(answer.isr)
        self.partition_epoch = answer.partition_epoch
        if not self.maybe_advance_high_watermark():
            self.host.wake(self.topic_partition)

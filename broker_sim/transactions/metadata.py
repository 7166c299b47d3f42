"""The state machine of a transactional id (kafka.coordinator.transaction.TransactionMetadata). Pure.

Theory of operation
===================

A transactional id has one producer id, and an epoch that rises with every producer that starts under the id. A
producer with an older epoch is fenced. The id's transactions follow one another::

    Empty ──add──▶ Ongoing ──end──▶ PrepareCommit ──markers──▶ CompleteCommit ──add──▶ Ongoing …
                      └─────end──▶ PrepareAbort  ──markers──▶ CompleteAbort  ──add──▶ Ongoing …

Every transition has two steps. `prepare_…` checks it against the current state, remembers it as pending, and returns a
`Transition`: the values to append to the log. `complete` assigns them once the log of `__transaction_state` has them on
every in-sync replica. In between, every other transition is rejected (clients get CONCURRENT_TRANSACTIONS), so that the
state in memory is never ahead of the log, and the log never contains two transitions from the same state.

The outcome is decided when Prepare… is in the log: from then on, every coordinator that loads it writes markers only
for that outcome. Complete… follows when every partition has its marker, and only then can the next transaction begin.

Rules
-----

1. A transition is prepared only from a state in `VALID_PREVIOUS`, and only if none is pending.
2. Only InitProducerId raises the epoch. If a producer starts while a transaction is Ongoing, or if it timed out, the
   epoch rises first (PrepareEpochFence, which is never in the log), and the transaction is aborted under the new epoch.
3. If the append of such a fence fails, the epoch is not raised again at the next attempt: no client has seen it
   (`has_failed_epoch_fence`).
4. Epoch 32766 is the last one that a producer gets; the next one is epoch 0 of a new producer id. Epoch 32767 is
   reserved for the fence of a transaction under 32766.
5. A producer that sends its id and epoch (KIP-360) gets the next epoch if that epoch is the current one. If it is the
   previous one, this is a repeated request, and the current epoch is returned. Otherwise the producer is fenced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from zabka.journal.cause import UNKNOWN
from zabka.journal.events import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 2**15 - 1


class TransactionState(StrEnum):
    """State of a transactional id, with the names of Kafka's tools, in the order of their ids in the log."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATES = tuple(TransactionState)
"""The states, ordered by their ids in the log."""
_S = TransactionState
VALID_PREVIOUS: Mapping[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: frozenset({_S.ONGOING, _S.PREPARE_EPOCH_FENCE}),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_ABORT, _S.COMPLETE_COMMIT}),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
EXPIRES = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""The states in which a transactional id can expire after a time without use."""
PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The states in which the transaction is decided and its markers are being written."""


class IllegalTransition(Exception):
    """The transition is not allowed in the current state. This is a bug of the caller."""


class ProducerFenced(Exception):
    """The epoch that the producer sent is neither the current nor the previous epoch."""


class Transition(NamedTuple):
    """The values of a transactional id after a transition (TxnTransitMetadata). Times are wall-clock milliseconds."""

    state: TransactionState
    producer_id: int
    last_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    start_ms: int
    update_ms: int


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Return whether a producer with this epoch must get a new producer id."""
    return producer_epoch >= EPOCH_MAX - 1


class TransactionMetadata:
    """A transactional id: its producer, the state of its last transaction, and the partitions of that transaction."""

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        timeout_ms: int,
        update_ms: int,
        *,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        state: TransactionState = TransactionState.EMPTY,
        partitions: Iterable[TopicPartition] = (),
        start_ms: int = NO_TIME,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.last_producer_id = NO_PRODUCER_ID
        self.producer_epoch = producer_epoch
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.timeout_ms = timeout_ms
        self.state = state
        self.pending_state: TransactionState | None = None
        """Target state of the prepared transition that is not completed yet."""
        self.partitions = dict.fromkeys(partitions)
        """The partitions of the transaction. In a Prepare state, only those that do not have a marker yet."""
        self.start_ms = start_ms
        self.update_ms = update_ms
        self.has_failed_epoch_fence = False
        self.client_id = ""
        """The client id in the producer's last request. No record contains it, so a new coordinator does not know
        it.
        """
        self.journalled = UNKNOWN
        """The journal event of the last change of this transactional id."""

    # ---- preparing --------------------------------------------------------------------------------------------

    def prepare_fence(self) -> Transition:
        """Prepare a higher producer epoch, under which the ongoing transaction can then be aborted."""
        if self.producer_epoch == EPOCH_MAX:
            raise IllegalTransition(f"the epoch of {self.transactional_id} cannot rise above {EPOCH_MAX}")
        epoch = self.producer_epoch if self.has_failed_epoch_fence else self.producer_epoch + 1
        return self._prepare(
            TransactionState.PREPARE_EPOCH_FENCE,
            epoch=epoch,
            last_epoch=NO_PRODUCER_EPOCH,
            partitions=self.partitions,
            start_ms=self.start_ms,
            update_ms=self.update_ms,
        )

    def prepare_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transition:
        """Prepare the next epoch for a producer.

        `expected_epoch` is the epoch that the producer sent, or None if it sent none. Raises ProducerFenced.
        """
        if self.is_epoch_exhausted:
            raise IllegalTransition(f"no epochs are left for producer id {self.producer_id}")
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                raise ProducerFenced(f"{expected_epoch}, not {self.producer_epoch}")
        return self._prepare(
            TransactionState.EMPTY, epoch=epoch, last_epoch=last_epoch, timeout_ms=timeout_ms, update_ms=now_ms
        )

    def prepare_new_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, records_last_epoch: bool
    ) -> Transition:
        """Prepare a new producer id, because the epochs of the current one are exhausted."""
        if self.state in (TransactionState.ONGOING, *PREPARED):
            raise IllegalTransition("a producer id cannot change during a transaction")
        return self._prepare(
            TransactionState.EMPTY,
            producer_id=producer_id,
            epoch=0,
            last_epoch=self.producer_epoch if records_last_epoch else NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            update_ms=now_ms,
        )

    def prepare_add(self, partitions: Collection[TopicPartition], now_ms: int) -> Transition:
        """Prepare to add partitions to the transaction. If none is ongoing, this begins a transaction."""
        return self._prepare(
            TransactionState.ONGOING,
            partitions=(*self.partitions, *partitions),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            update_ms=now_ms,
        )

    def prepare_end(self, commits: bool, now_ms: int) -> Transition:
        """Prepare the decision to commit or abort the transaction."""
        state = TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT
        return self._prepare(state, partitions=self.partitions, start_ms=self.start_ms, update_ms=now_ms)

    def prepare_complete(self, now_ms: int) -> Transition:
        """Prepare the completion of the transaction, whose partitions all have their markers."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        # The decision and the epoch of the fence are in the log now.
        self.has_failed_epoch_fence = False
        state = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
        return self._prepare(state, start_ms=self.start_ms, update_ms=now_ms)

    def prepare_dead(self) -> Transition:
        """Prepare the removal of the transactional id."""
        return self._prepare(TransactionState.DEAD, start_ms=self.start_ms, update_ms=self.update_ms)

    def _prepare(
        self,
        state: TransactionState,
        *,
        producer_id: int | None = None,
        epoch: int | None = None,
        last_epoch: int | None = None,
        timeout_ms: int | None = None,
        partitions: Iterable[TopicPartition] = (),
        start_ms: int = NO_TIME,
        update_ms: int,
    ) -> Transition:
        if self.pending_state is not None:
            raise IllegalTransition(f"to {state} while a transition to {self.pending_state} is pending")
        if self.state not in VALID_PREVIOUS[state]:
            raise IllegalTransition(f"from {self.state} to {state}")
        transition = Transition(
            state=state,
            producer_id=self.producer_id if producer_id is None else producer_id,
            last_producer_id=self.producer_id,
            producer_epoch=self.producer_epoch if epoch is None else epoch,
            last_producer_epoch=self.last_producer_epoch if last_epoch is None else last_epoch,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            partitions=tuple(dict.fromkeys(partitions)),
            start_ms=start_ms,
            update_ms=update_ms,
        )
        if transition.producer_id < 0 or (state is not TransactionState.DEAD and transition.producer_epoch < 0):
            raise IllegalTransition(f"producer id {transition.producer_id}, epoch {transition.producer_epoch}")
        self.pending_state = state
        return transition

    # ---- completing -------------------------------------------------------------------------------------------

    def complete(self, to: Transition) -> None:
        """Assign the values of a prepared transition that is in the log.

        Raises IllegalTransition if it is not the pending one.
        """
        if to.state is not self.pending_state or not self._fits(to):
            raise IllegalTransition(f"{self.transactional_id} in {self.state}, {self.pending_state} pending, to {to}")
        match to.state:
            case TransactionState.EMPTY:
                self.timeout_ms = to.timeout_ms
                self.producer_epoch = to.producer_epoch
                self.last_producer_epoch = to.last_producer_epoch
                self.producer_id = to.producer_id
                self.last_producer_id = to.last_producer_id
            case TransactionState.ONGOING:
                self.start_ms = to.start_ms
                self.partitions.update(dict.fromkeys(to.partitions))
            case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
                self.start_ms = to.start_ms
                self.partitions.clear()
            case _:
                pass
        self.update_ms = to.update_ms
        self.pending_state = None
        self.state = to.state

    def _fits(self, to: Transition) -> bool:
        same_producer = (to.producer_id, to.producer_epoch) == (self.producer_id, self.producer_epoch)
        unchanged = same_producer and to.timeout_ms == self.timeout_ms
        match to.state:
            case TransactionState.EMPTY:
                is_next = to.producer_epoch in (self.producer_epoch, self.producer_epoch + 1)
                is_new_id = to.producer_epoch == 0 and to.producer_id != self.producer_id
                return (is_next or is_new_id) and not to.partitions and to.start_ms == NO_TIME
            case TransactionState.ONGOING:
                return unchanged and self.partitions.keys() <= frozenset(to.partitions)
            case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
                return unchanged and self.partitions.keys() == set(to.partitions) and to.start_ms == self.start_ms
            case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
                return unchanged and to.start_ms != NO_TIME
            case _:
                # No other state can be completed: PREPARE_EPOCH_FENCE is followed by PREPARE_ABORT, and DEAD ids are
                # removed.
                return False

    # ---- queries ----------------------------------------------------------------------------------------------

    def fence_now(self, epoch: int) -> None:
        """Apply the epoch of a prepared fence immediately, so that the abort under this epoch can be prepared."""
        self.pending_state = None
        self.producer_epoch = epoch
        self.last_producer_epoch = NO_PRODUCER_EPOCH

    def marker_written(self, partition: TopicPartition) -> None:
        """Record that a partition has its marker or needs none."""
        if self.state not in PREPARED:
            raise IllegalTransition(f"a marker for {partition} in {self.state}")
        self.partitions.pop(partition, None)

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer must get a new producer id."""
        return is_epoch_exhausted(self.producer_epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        """Return whether the ongoing transaction has exceeded its producer's timeout."""
        ongoing = self.state is TransactionState.ONGOING and self.pending_state is None
        return ongoing and self.start_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Return whether the transactional id has been unused for longer than `expiration_ms`."""
        idle = self.state in EXPIRES and self.pending_state is None
        return idle and self.update_ms <= now_ms - expiration_ms

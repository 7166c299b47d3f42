"""The producers of a partition and their transactions (Kafka's ProducerStateManager, ProducerAppendInfo, KIP-98).

The state is a function of the batch headers and transaction markers in the log. Therefore every replica has the same
state, it can be rebuilt when a log is opened, and a new leader also detects duplicates. `producer_snapshots` stores the
state that comes from batches that have been deleted.

A transaction is ongoing from its first batch until its marker, and then unreplicated until the high watermark has
passed the marker. Consumers with read_committed can read only up to the first offset of all these transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from zabka.broker_sim.logs.producer_snapshots import NO_COORDINATOR, NO_OFFSET, ProducerEntry
from zabka.broker_sim.logs.transaction_index import CompletedTransaction
from zabka.broker_sim.logs.verification_state import (
    IN_TRANSACTION,
    NOT_REQUIRED,
    Guard,
    Unverified,
    VerificationState,
)
from zabka.kafka.end_transaction_marker import EndTransactionMarker
from zabka.kafka.record_batch import NO_PRODUCER, TRANSACTIONAL, BatchHeader

BATCHES_KEPT = 5
"""Number of batches that a producer can have in flight. If one of them is sent again, the duplicate is detected."""
PRODUCERS_MAX = 10_000
"""Maximum number of producers remembered per partition. The producer with the oldest last batch is dropped first."""

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
TRANSACTION_COORDINATOR_FENCED = 52
NO_SEQUENCE = -1
UNKNOWN_CHECKSUM = -1
"""The checksum of a batch that is known only from a producer snapshot."""

_SEQUENCES = 1 << 31


class ProducerBatch(NamedTuple):
    """A producer's remembered batch: its sequence numbers, offsets and checksum."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    crc: int
    timestamp_ms: int = -1
    """The time of the batch's latest record."""


class AppendOrigin(Enum):
    """The origin of an append. Sequence numbers are checked only in appends by clients."""

    CLIENT = auto()
    COORDINATOR = auto()


class ActiveProducer(NamedTuple):
    """A producer in the response of DescribeProducers."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int = NO_COORDINATOR
    txn_first_offset: int = NO_OFFSET


class LastRecord(NamedTuple):
    """The offset of a producer's last data record (-1 if unknown) and the producer's epoch (Kafka's LastRecord)."""

    last_offset: int
    epoch: int


class _Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducerBatch] = []
        self.last_timestamp = -1
        self.coordinator_epoch = NO_COORDINATOR
        self.txn_first_offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def has_transactions(self) -> bool:
        return self.txn_first_offset != NO_OFFSET or self.coordinator_epoch != NO_COORDINATOR

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []


def _last_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES


def _restored(entry: ProducerEntry, known: _Producer | None) -> _Producer:
    """Return the producer state from a snapshot entry.

    If `known` has the same last batch, its earlier batches are also remembered.
    """
    if known is not None and known.last_offset == entry.last_offset and known.epoch == entry.epoch:
        producer = known
    else:
        producer = _Producer(entry.epoch)
        if entry.last_offset != NO_OFFSET:
            producer.batches.append(
                ProducerBatch(
                    (entry.last_sequence - entry.offset_delta) % _SEQUENCES,
                    entry.last_sequence,
                    entry.last_offset - entry.offset_delta,
                    entry.last_offset,
                    UNKNOWN_CHECKSUM,
                    entry.timestamp_ms,
                )
            )
    producer.last_timestamp = entry.timestamp_ms
    producer.coordinator_epoch = entry.coordinator_epoch
    producer.txn_first_offset = entry.txn_first_offset
    return producer


class ProducerStates:
    """The producers of one partition, keyed by producer id, and its undecided transactions, keyed by first offset."""

    __slots__ = ("_ongoing", "_producers", "_unreplicated", "_verifications")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._ongoing: dict[int, int] = {}
        """The producer ids of open transactions, keyed by the transaction's first offset, in ascending order."""
        self._unreplicated: dict[int, CompletedTransaction] = {}
        """Completed transactions whose marker the high watermark may not have passed yet, keyed by first offset."""
        self._verifications: dict[int, VerificationState] = {}

    # ---- transactions ------------------------------------------------------------------------------------------

    @property
    def has_undecided(self) -> bool:
        """Whether a transaction may limit the last stable offset."""
        return bool(self._ongoing or self._unreplicated)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the lowest first offset of the transactions that limit the last stable offset, or None.

        These are open transactions, and transactions whose marker the high watermark has not passed.
        """
        if self._unreplicated:
            self.forget_replicated(high_watermark)
        firsts = list(self._unreplicated)
        if self._ongoing:
            firsts.append(next(iter(self._ongoing)))
        return min(firsts, default=None)

    def forget_replicated(self, high_watermark: int) -> None:
        """Remove completed transactions whose markers the high watermark has passed (onHighWatermarkUpdated)."""
        for first in [first for first, each in self._unreplicated.items() if each.last_offset < high_watermark]:
            del self._unreplicated[first]

    def is_in_transaction(self, producer_id: int) -> bool:
        """Return whether the producer has an open transaction in this partition (UnifiedLog.hasOngoingTransaction)."""
        return self.txn_first_offset(producer_id) != NO_OFFSET

    def txn_first_offset(self, producer_id: int) -> int:
        """Return the first offset of the producer's open transaction in this partition, or -1."""
        producer = self._producers.get(producer_id)
        return NO_OFFSET if producer is None else producer.txn_first_offset

    def epoch_of(self, producer_id: int) -> int:
        """Return the producer's epoch according to this partition's log, or -1 if it is unknown."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.epoch

    @property
    def first_unstable_producer(self) -> int:
        """The producer id of the first transaction that limits the last stable offset, or -1."""
        firsts = {**{first: each.producer_id for first, each in self._unreplicated.items()}, **self._ongoing}
        return firsts[min(firsts)] if firsts else NO_PRODUCER

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> int:
        """Check whether a leader can append this marker. Return 0 or an error code."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return 0
        if header.producer_epoch < producer.epoch:
            return INVALID_PRODUCER_EPOCH
        return TRANSACTION_COORDINATOR_FENCED if producer.coordinator_epoch > marker.coordinator_epoch else 0

    def end_transaction(self, header: BatchHeader, marker: EndTransactionMarker) -> CompletedTransaction | None:
        """Apply a transaction marker that was appended. Return the transaction that it ends, or None.

        The caller reads `last_stable_offset` for the transaction index, and then calls `complete`.
        """
        producer = self._producers.pop(header.producer_id, None) or _Producer(header.producer_epoch)
        self._producers[header.producer_id] = producer
        if len(self._producers) > PRODUCERS_MAX:
            self._drop_one(header.producer_id)
        producer.enter_epoch(header.producer_epoch)
        self._verifications.pop(header.producer_id, None)
        first, producer.txn_first_offset = producer.txn_first_offset, NO_OFFSET
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        if first == NO_OFFSET:
            return None
        return CompletedTransaction(header.producer_id, first, header.base_offset, not marker.is_commit)

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset as it will be after the completion of this transaction."""
        others = (first for first, producer_id in self._ongoing.items() if producer_id != completed.producer_id)
        return next(others, completed.last_offset + 1)

    def complete(self, completed: CompletedTransaction) -> None:
        """Move a completed transaction from the ongoing to the unreplicated transactions.

        The transaction continues to limit the last stable offset until the high watermark has passed its marker.
        """
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed

    def begin_verification(self, producer_id: int, sequence: int, epoch: int, wall_ms: int) -> Guard:
        """Return the guard for a batch of a transaction.

        The batch must be verified unless the producer already has an open transaction in this partition. Source:
        UnifiedLog.maybeStartTransactionVerification.
        """
        if self.is_in_transaction(producer_id):
            return IN_TRANSACTION
        state = self._verifications.get(producer_id)
        if state is None:
            state = self._verifications[producer_id] = VerificationState(wall_ms, sequence, epoch)
        else:
            state.note(sequence, epoch)
        return state

    # ---- batches -----------------------------------------------------------------------------------------------

    def check(
        self, header: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT, guard: Guard = NOT_REQUIRED
    ) -> ProducerBatch | int:
        """Check whether a leader can append this batch. `guard` is the result of its transaction's verification.

        Returns 0 if the batch can be appended, an error code if not, and the remembered batch if this one is a
        duplicate sent by a client.
        """
        if header.producer_id < 0:
            return 0
        producer = self._producers.get(header.producer_id)
        is_clients = origin is AppendOrigin.CLIENT
        if is_clients and producer is not None and producer.epoch == header.producer_epoch:
            last = _last_sequence(header)
            for batch in producer.batches:
                if batch.first_sequence == header.base_sequence and batch.last_sequence == last:
                    return batch
        if header.attributes & TRANSACTIONAL:
            error = self._verification_error(header, is_clients, guard)
            if error:
                return error
        if producer is None:
            return 0
        if header.producer_epoch < producer.epoch:
            return INVALID_PRODUCER_EPOCH
        if is_clients:
            known = producer.last_sequence if header.producer_epoch == producer.epoch else NO_SEQUENCE
            if (known + 1) % _SEQUENCES != header.base_sequence:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer.txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL:
            return INVALID_TXN_STATE
        return 0

    def _verification_error(self, header: BatchHeader, is_clients: bool, guard: Guard) -> int:
        if self.is_in_transaction(header.producer_id):
            return 0
        state = self._verifications.get(header.producer_id)
        is_verified = guard.may_begin if isinstance(guard, Unverified) else guard is state
        if not is_verified:
            return INVALID_TXN_STATE
        # The client has already sent a batch with a lower sequence number, which was verified but not appended yet.
        # That batch must be appended first.
        if is_clients and state is not None and header.base_sequence > state.lowest_sequence:
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        return 0

    def update(self, header: BatchHeader) -> None:
        """Update the state with a data batch that was appended."""
        if header.producer_id < 0:
            return
        producer = self._producers.pop(header.producer_id, None)
        if producer is None:
            producer = _Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.enter_epoch(header.producer_epoch)
        self._producers[header.producer_id] = producer
        if len(self._producers) > PRODUCERS_MAX:
            self._drop_one(header.producer_id)
        producer.last_timestamp = header.max_timestamp
        last_offset = header.base_offset + header.last_offset_delta
        producer.batches.append(
            ProducerBatch(
                header.base_sequence,
                _last_sequence(header),
                header.base_offset,
                last_offset,
                header.crc,
                header.max_timestamp,
            )
        )
        del producer.batches[:-BATCHES_KEPT]
        if header.attributes & TRANSACTIONAL and producer.txn_first_offset == NO_OFFSET:
            self._verifications.pop(header.producer_id, None)
            producer.txn_first_offset = header.base_offset
            self._ongoing[header.base_offset] = header.producer_id

    def _drop_one(self, kept_id: int) -> None:
        """Remove the producer with the oldest last batch, except `kept_id` and producers with an open transaction."""
        idle = (each for each, known in self._producers.items() if known.txn_first_offset == NO_OFFSET)
        dropped = next(idle, kept_id)
        if dropped != kept_id:
            del self._producers[dropped]

    # ---- snapshots and truncation ------------------------------------------------------------------------------

    def entries(self) -> list[ProducerEntry]:
        """Return a snapshot entry for every producer, the one with the oldest last batch first."""
        rows = []
        for producer_id, producer in self._producers.items():
            last = producer.batches[-1] if producer.batches else None
            rows.append(
                ProducerEntry(
                    producer_id=producer_id,
                    epoch=producer.epoch,
                    last_sequence=producer.last_sequence,
                    last_offset=producer.last_offset,
                    offset_delta=0 if last is None else last.last_offset - last.base_offset,
                    timestamp_ms=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    txn_first_offset=producer.txn_first_offset,
                )
            )
        return rows

    def replace(self, entries: Sequence[ProducerEntry]) -> None:
        """Replace the state with the content of a snapshot.

        The snapshot was written at the offset up to which the log has been read. It may contain batches that compaction
        has removed. If a producer's last batch is the same in the old state and in the snapshot, its earlier batches
        stay known; Kafka forgets them.
        """
        known = self._producers
        self._producers = {entry.producer_id: _restored(entry, known.get(entry.producer_id)) for entry in entries}
        opened = ((entry.txn_first_offset, entry.producer_id) for entry in entries)
        self._ongoing = dict(sorted((first, producer_id) for first, producer_id in opened if first != NO_OFFSET))

    def active(self) -> list[ActiveProducer]:
        """Return all known producers, ordered by id."""
        return [
            ActiveProducer(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
            for producer_id, producer in sorted(self._producers.items())
        ]

    def last_records(self) -> dict[int, LastRecord]:
        """Return each producer's last data record and epoch (UnifiedLog.lastRecordsOfActiveProducers)."""
        return {
            producer_id: LastRecord(producer.last_offset, producer.epoch)
            for producer_id, producer in self._producers.items()
        }

    def truncate(self, offset: int) -> bool:
        """Remove batches at or after `offset` from the state.

        Returns False if this removed the last known batch of a producer, or if a producer has had transactions. The
        state must then be rebuilt from the log.
        """
        complete = True
        for producer_id, producer in list(self._producers.items()):
            complete = complete and not producer.has_transactions
            producer.batches = [batch for batch in producer.batches if batch.last_offset < offset]
            if not producer.batches:
                del self._producers[producer_id]
                complete = False
            else:
                producer.last_timestamp = producer.batches[-1].timestamp_ms
        return complete

    def expire(self, before_wall_ms: int) -> None:
        """Remove producers without a transaction whose last record is older than the time `before_wall_ms`.

        The configuration key is producer.id.expiration.ms.
        """
        for producer_id, producer in list(self._producers.items()):
            if producer.last_timestamp <= before_wall_ms and producer.txn_first_offset == NO_OFFSET:
                del self._producers[producer_id]
        for producer_id, state in list(self._verifications.items()):
            if state.timestamp_ms <= before_wall_ms:
                del self._verifications[producer_id]

    def clear(self) -> None:
        """Remove all producers and transactions."""
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

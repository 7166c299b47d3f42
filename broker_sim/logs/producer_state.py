"""What a partition remembers of idempotent producers (Kafka's ProducerStateManager, KIP-98), without transactions.

The state is a function of the batch headers in the log, so every replica has it and it is rebuilt when a log is
opened: a duplicate is recognised by the next leader, too.  What deleted batches said is in `producer_snapshots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zabka.broker_sim.logs.producer_snapshots import NO_OFFSET, ProducerEntry
from zabka.kafka.record_batch import BatchHeader

BATCHES_KEPT = 5
"""As many as a producer may have in flight, so a resend of any of them is recognised."""
PRODUCERS_MAX = 10_000
"""Producers remembered in one partition; the one that was silent longest goes first."""

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
UNKNOWN_CHECKSUM = -1
"""Of a batch that a snapshot tells of."""

_SEQUENCES = 1 << 31


class ProducerBatch(NamedTuple):
    """One remembered batch: its sequences, the offsets it got and its checksum."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    crc: int
    timestamp_ms: int = -1
    """Of its latest record."""


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers tells of it."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int


class _Producer:
    __slots__ = ("batches", "epoch", "last_timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducerBatch] = []
        self.last_timestamp = -1


def _last_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES


def _restored(entry: ProducerEntry) -> _Producer:
    producer = _Producer(entry.epoch)
    producer.last_timestamp = entry.timestamp_ms
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
    return producer


class ProducerStates:
    """The producers of one partition, by id."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def check(self, header: BatchHeader) -> ProducerBatch | int:
        """May a leader append this batch?  0 where it may, an error code where not, the batch that is already in the
        log where this one repeats it."""
        if header.producer_id < 0:
            return 0
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return 0
        if header.producer_epoch < producer.epoch:
            return INVALID_PRODUCER_EPOCH
        if header.producer_epoch > producer.epoch:
            return 0 if header.base_sequence == 0 else OUT_OF_ORDER_SEQUENCE_NUMBER
        last = _last_sequence(header)
        for batch in producer.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last:
                return batch
        if (producer.batches[-1].last_sequence + 1) % _SEQUENCES != header.base_sequence:
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        return 0

    def update(self, header: BatchHeader) -> None:
        """The batch is in the log now."""
        if header.producer_id < 0:
            return
        producer = self._producers.pop(header.producer_id, None)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = _Producer(header.producer_epoch)
        self._producers[header.producer_id] = producer
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
        while len(self._producers) > PRODUCERS_MAX:
            del self._producers[next(iter(self._producers))]

    def entries(self) -> list[ProducerEntry]:
        """Every producer's last batch, those that were silent longest first, for a snapshot."""
        return [
            ProducerEntry(
                producer_id,
                producer.epoch,
                producer.batches[-1].last_sequence,
                producer.batches[-1].last_offset,
                producer.batches[-1].last_offset - producer.batches[-1].base_offset,
                producer.last_timestamp,
            )
            for producer_id, producer in self._producers.items()
        ]

    def replace(self, entries: Sequence[ProducerEntry]) -> None:
        """Know what a snapshot says, which was written where the log has been read up to now.

        Compaction may have taken batches that it tells of.  Of who is known by the same last batch the batches before
        it are known still, which Kafka's forgets.
        """
        known = self._producers
        self._producers = {}
        for entry in entries:
            producer = known.get(entry.producer_id)
            if entry.last_offset != NO_OFFSET and (
                producer is None or producer.batches[-1].last_offset != entry.last_offset
            ):
                producer = _restored(entry)
            if producer is not None:
                self._producers[entry.producer_id] = producer

    def active(self) -> list[ActiveProducer]:
        """Every producer that is known, in the order of their ids."""
        return [
            ActiveProducer(
                producer_id, producer.epoch, producer.batches[-1].last_sequence, producer.batches[-1].timestamp_ms
            )
            for producer_id, producer in sorted(self._producers.items())
        ]

    def last_offsets(self) -> frozenset[int]:
        """The last offset of each producer's last batch."""
        return frozenset(producer.batches[-1].last_offset for producer in self._producers.values())

    def truncate(self, offset: int) -> bool:
        """The log now ends at `offset`.  False where that took the last that is known of a producer: then the state
        must be rebuilt from the log."""
        complete = True
        for producer_id, producer in list(self._producers.items()):
            producer.batches = [batch for batch in producer.batches if batch.last_offset < offset]
            if not producer.batches:
                del self._producers[producer_id]
                complete = False
            else:
                producer.last_timestamp = producer.batches[-1].timestamp_ms
        return complete

    def expire(self, before_wall_ms: int) -> None:
        """Forget those whose last record is that old (producer.id.expiration.ms)."""
        for producer_id, producer in list(self._producers.items()):
            if producer.last_timestamp <= before_wall_ms:
                del self._producers[producer_id]

    def clear(self) -> None:
        """Forget everybody."""
        self._producers.clear()

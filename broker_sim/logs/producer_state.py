"""A partition's state of idempotent producers (Kafka's ProducerStateManager, KIP-98), without transactions.

The state is a function of the batch headers in the log. So every replica has it, it is rebuilt when a log is opened,
and the next leader also recognises a duplicate. The state from deleted batches is in `producer_snapshots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zabka.broker_sim.logs.producer_snapshots import NO_OFFSET, ProducerEntry
from zabka.kafka.record_batch import BatchHeader

BATCHES_KEPT = 5
"""As many batches as a producer may have in flight, so a resend of any of them is recognised."""
PRODUCERS_MAX = 10_000
"""Most producers remembered in one partition; the one with the oldest last batch is dropped first."""

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
UNKNOWN_CHECKSUM = -1
"""The checksum of a batch that is known only by a snapshot."""

_SEQUENCES = 1 << 31


class ProducerBatch(NamedTuple):
    """One remembered batch: its sequences, its offsets and its checksum."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    crc: int
    timestamp_ms: int = -1
    """The time of its latest record."""


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers reports it."""

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
        """Check whether a leader may append this batch.

        Returns 0 if it may, an error code if not, and the remembered batch if this one is a duplicate of it.
        """
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
        """Note a batch that was appended."""
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
        """Return every producer's last batch for a snapshot, the oldest first."""
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
        """Replace the state by a snapshot that was written at the end of what has been read so far.

        Compaction may have removed batches in it. If a producer's last batch is the same in both, its earlier batches
        stay known; Kafka forgets them.
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
        """Return all known producers, in the order of their ids."""
        return [
            ActiveProducer(
                producer_id, producer.epoch, producer.batches[-1].last_sequence, producer.batches[-1].timestamp_ms
            )
            for producer_id, producer in sorted(self._producers.items())
        ]

    def last_offsets(self) -> frozenset[int]:
        """Return the last offset of each producer's last batch."""
        return frozenset(producer.batches[-1].last_offset for producer in self._producers.values())

    def truncate(self, offset: int) -> bool:
        """Truncate the state at `offset`.

        Returns False if that removed the last known batch of a producer: then the state must be rebuilt from the log.
        """
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
        """Forget producers whose last record is that old (producer.id.expiration.ms)."""
        for producer_id, producer in list(self._producers.items()):
            if producer.last_timestamp <= before_wall_ms:
                del self._producers[producer_id]

    def clear(self) -> None:
        """Forget all producers."""
        self._producers.clear()

"""Reads some records of a partition, for people: with markers, producers, and the outcome of transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import FETCH_VERSION, RETRIED, Isolation, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.end_transaction_marker import read_marker
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.record_batch import (
    LOG_APPEND_TIME,
    NO_PRODUCER,
    BatchHeader,
    BatchUnreadable,
    Record,
    is_control,
    is_transactional,
    iter_batch,
    offset_after,
    split_batches,
)
from zabka.kafka.wire.data_messages import FetchPartition, FetchRequest, FetchTopic, PartitionData, error_code
from zabka.kafka.wire.kafka_schema import as_time

FETCH_BYTES_MAX = 1 << 20
"""Maximum size of the fetched batches. A broker returns the first batch even if it is larger.

The decoded records also end at this size, because a batch can decompress to 64 MiB.
"""
_HEADER_BYTES = 64
"""Size of a record header in memory, without its name and value."""
READING_MS = 5_000
_RETRIED = RETRIED - {ErrorCode.unknown_topic_or_partition}

Transaction = Literal["committed", "aborted", "undecided"]
"""`undecided`: the record is at or after the last stable offset."""


class RecordSeen(NamedTuple):
    """A record, its producer, and its transaction; `marker` is set for the marker that ends a transaction."""

    record: Record
    leader_epoch: int
    is_append_time: bool
    producer_id: int | None
    transaction: Transaction | None
    marker: Literal["commit", "abort"] | None


class RecordsSeen(NamedTuple):
    """Records from an offset on, the offset after them, and the offsets of the log."""

    records: Sequence[RecordSeen]
    next_offset: int
    first_offset: int
    last_stable_offset: int
    high_watermark: int


class OffsetOutOfRange(Exception):
    """The partition has no such offset. It has the offsets from `first_offset` up to `end_offset`."""

    def __init__(self, first_offset: int, end_offset: int) -> None:
        super().__init__(f"the offsets are {first_offset} to {end_offset}")
        self.first_offset = first_offset
        self.end_offset = end_offset


class FetchedRecords(NamedTuple):
    """Fetched batches that are not decoded yet, and the offsets of the log.

    `aborted` has the first offset and the producer of each aborted transaction.
    """

    begin: int
    limit: int
    data: bytes
    headers: Sequence[BatchHeader]
    aborted: Sequence[tuple[int, int]]
    first_offset: int
    last_stable_offset: int
    high_watermark: int

    def decode(self) -> RecordsSeen:
        """Return at most `limit` records, and at most FETCH_BYTES_MAX of data after the first. Raises BatchUnreadable.

        Decompressing the batches can take a second, so an event loop should not call this.
        """
        rows: list[RecordSeen] = []
        held = 0
        for each in _seen(self.data, self.headers, self.aborted, self.last_stable_offset):
            if each.record.offset >= self.begin:
                if len(rows) == self.limit or (rows and held >= FETCH_BYTES_MAX):
                    return self._until(rows, each.record.offset)
                rows.append(each)
                held += _size_of(each.record)
        return self._until(rows, offset_after(self.data, self.begin))

    def _until(self, rows: Sequence[RecordSeen], next_offset: int) -> RecordsSeen:
        return RecordsSeen(rows, next_offset, self.first_offset, self.last_stable_offset, self.high_watermark)


def _size_of(record: Record) -> int:
    headers = sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


async def fetch_records(
    client: KafkaClient, partition: TopicPartition, offset: int | None, limit: int, timeout_ms: int = READING_MS
) -> FetchedRecords:
    """Fetch batches for at most `limit` records from `offset` on, or for the last ones if it is None.

    Raises OffsetOutOfRange, BatchUnreadable, KafkaRequestFailed, KafkaUnavailable.
    """
    first, end = [await client.list_offset(partition, at, timeout_ms=timeout_ms) for at in (-2, -1)]
    begin = max(first, end - limit) if offset is None else offset
    if not first <= begin <= end:
        raise OffsetOutOfRange(first, end)
    try:
        got = await _fetched(client, partition, begin, Isolation.READ_UNCOMMITTED, timeout_ms)
        data = bytes(got.records or b"")
        headers = split_batches(data)
        if headers is None:
            raise BatchUnreadable("a batch is damaged")
        stable = got.last_stable_offset
        aborted: list[tuple[int, int]] = []
        # Only a fetch with read_committed returns the aborted transactions, and the last stable offset in any case.
        if stable < 0 or any(map(is_transactional, headers)):
            decided = await _fetched(client, partition, begin, Isolation.READ_COMMITTED, timeout_ms)
            stable = decided.last_stable_offset
            aborted = [(each.first_offset, each.producer_id) for each in decided.aborted_transactions or ()]
    except KafkaRequestFailed as failure:
        if failure.error is not ErrorCode.offset_out_of_range:
            raise
        # Records have been deleted or truncated since the offsets were read.
        raise OffsetOutOfRange(first, end) from None
    return FetchedRecords(
        begin, limit, data, headers, sorted(aborted), got.log_start_offset,
        last_stable_offset=stable, high_watermark=got.high_watermark,
    )  # fmt: skip


async def _fetched(
    client: KafkaClient, partition: TopicPartition, offset: int, isolation: Isolation, timeout_ms: int
) -> PartitionData:
    def ask(leader_epoch: int) -> KafkaMessage:
        row = FetchPartition(partition.partition, offset, FETCH_BYTES_MAX, leader_epoch)
        topics = [FetchTopic([row], partition.topic)]
        return FetchRequest(
            FETCH_VERSION, as_time(0), 0, topics, max_bytes=FETCH_BYTES_MAX, isolation_level=int(isolation)
        )

    def read(response: KafkaMessage) -> tuple[ErrorCode, PartitionData]:
        if response.error_code != ErrorCode.none:
            raise KafkaRequestFailed(ErrorCode(response.error_code))
        got: PartitionData = response.responses[0].partitions[0]
        return error_code(got.error_code), got

    return await client.at_leader(partition, ask, read, timeout_ms, _RETRIED)


def _seen(
    data: bytes, headers: Sequence[BatchHeader], aborted: Sequence[tuple[int, int]], stable: int
) -> Iterator[RecordSeen]:
    """Yield every record and marker. `aborted` has the first offset and the producer of each aborted transaction."""
    position = begun = 0
    aborting: set[int] = set()
    for header in headers:
        while begun < len(aborted) and aborted[begun][0] <= header.last_offset:
            aborting.add(aborted[begun][1])
            begun += 1
        transaction = _transaction(header, aborting, stable)
        marker: Literal["commit", "abort"] | None = None
        if is_control(header):
            found = read_marker(data, position, header)
            marker = None if found is None else "commit" if found.is_commit else "abort"
            aborting.discard(header.producer_id)
        producer = None if header.producer_id == NO_PRODUCER else header.producer_id
        stamped = bool(header.attributes & LOG_APPEND_TIME)
        for record in iter_batch(data, position, header):
            yield RecordSeen(record, header.leader_epoch, stamped, producer, transaction, marker)
        position += header.size


def _transaction(header: BatchHeader, aborting: set[int], stable: int) -> Transaction | None:
    if not is_transactional(header):
        return None
    if header.base_offset >= stable:
        return "undecided"
    return "aborted" if header.producer_id in aborting else "committed"

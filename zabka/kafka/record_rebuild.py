"""Builds a batch from records that arrived in another codec or format (MemoryRecordsBuilder)."""

from __future__ import annotations

from typing import NamedTuple

from zabka.kafka.compression import Codec, Data, Packer
from zabka.kafka.record_batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    with_checksum,
    write_varint,
)
from zabka.kafka.record_refusals import too_large, unexpected
from zabka.kafka.record_rules import NO_TIMESTAMP, Append

_PACK_BYTES = 32 << 10


class Producer(NamedTuple):
    """Producer fields in the header of a batch."""

    producer_id: int = NO_PRODUCER
    epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False


class BatchBuilder:
    """Builds one batch of format 2 with base offset 0, compressed with `codec`."""

    def __init__(self, append: Append, codec: Codec, producer: Producer) -> None:
        self._append = append
        self._codec = codec
        self._producer = producer
        self._packer = Packer(codec, append.rules.level)
        self._packed: list[bytes] = []
        self._size = HEADER_SIZE
        self._waiting = bytearray()
        self._count = 0
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    def add(self, timestamp_ms: int, fields: Data) -> None:
        """Append a record. `fields` are its encoded key, value and headers, which follow the offset in the record.

        Raises RecordsRefused if Kafka's builder rejects the timestamp, or if the batch becomes too large.
        """
        if timestamp_ms < NO_TIMESTAMP:
            raise unexpected(f"Invalid negative timestamp {timestamp_ms}")
        if not self._count:
            self._base_timestamp = timestamp_ms
        head = bytearray(b"\x00")
        write_varint(head, timestamp_ms - self._base_timestamp)
        write_varint(head, self._count)
        write_varint(self._waiting, len(head) + len(fields))
        self._waiting += head
        self._waiting += fields
        self._count += 1
        self._max_timestamp = max(self._max_timestamp, timestamp_ms)
        if len(self._waiting) >= _PACK_BYTES:
            self._pack(self._packer.add(bytes(self._waiting)))
            self._waiting.clear()

    def take_over(self, piece: Data) -> None:
        """Append the bytes of records that need no change. Their header fields are passed to `done_unchanged` at the
        end.
        """
        self._pack(self._packer.add(piece))

    def _pack(self, packed: bytes) -> None:
        self._packed.append(packed)
        self._size += len(packed)
        if self._size > self._append.rules.max_message_bytes:
            raise too_large(f"more than {self._append.rules.max_message_bytes} bytes after compression")

    def done(self) -> tuple[bytes, BatchHeader]:
        """Return the batch of all added records."""
        return self._done(self._base_timestamp, self._max_timestamp, self._count)

    def done_unchanged(self, base_timestamp: int, max_timestamp: int, count: int) -> tuple[bytes, BatchHeader]:
        """Return the batch of the records that `take_over` appended."""
        return self._done(base_timestamp, max_timestamp, count)

    def _done(self, base_timestamp: int, max_timestamp: int, count: int) -> tuple[bytes, BatchHeader]:
        self._pack(self._packer.add(bytes(self._waiting)))
        self._pack(self._packer.finish())
        body = b"".join(self._packed)
        stamps, producer = self._append.rules.stamps, self._producer
        header = BatchHeader(
            base_offset=0,
            length=HEADER_SIZE - SIZE_OVERHEAD + len(body),
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self._codec
            | (LOG_APPEND_TIME if stamps else 0)
            | (TRANSACTIONAL if producer.is_transactional else 0),
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=self._append.now_ms if stamps else max_timestamp,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.base_sequence,
            record_count=count,
        )
        return with_checksum(header, body)

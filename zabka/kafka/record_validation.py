"""Validates produced records before they are appended, as UnifiedLog and LogValidator of Kafka 3.9 do.

Records are rejected or rebuilt as in Kafka, with two additional limits: on the decompressed size of a batch, and on the
number of rejected records that a response lists. One check is stricter than Kafka's: even in compressed batches, a
record is rejected if its fields do not end at its declared length, or if a number is out of its type's range.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from struct import Struct
from typing import NamedTuple

from zabka.kafka.compression import EXPANDED_BYTES_MAX, PIECE_BYTES, ZSTD_BYTES_MAX, Codec, Data, unpacked
from zabka.kafka.message_set import MESSAGE_SIZE_MIN, convert_up, message_checksum_holds
from zabka.kafka.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    checksum_holds,
    cut_records,
    is_control,
    read_header,
    with_checksum,
)
from zabka.kafka.record_rebuild import BatchBuilder, Producer
from zabka.kafka.record_refusals import (
    CORRUPT_MESSAGE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNSUPPORTED_COMPRESSION_TYPE,
    RecordsRefused,
    corrupt,
    invalid,
    too_large,
    unexpected,
)
from zabka.kafka.record_rules import Append, as_long
from zabka.kafka.record_walk import RecordWalk, read_varint, read_varlong

SLICE_RECORDS = 250
"""Number of records validated in one step.

A step takes about a quarter of a millisecond, during which other clients wait.
"""
SLICE_CONVERTED = 60
"""Number of records validated in one step if they are also rebuilt."""

_START = Struct(">qiib")
_HEAD = Struct(">qiibIh")
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_AT = 21
_PRODUCER_ID_ENDS = 51
_KNOWN_BITS = 0x7F
_ONE_BATCH_SINCE = 3
_ZSTD_SINCE = 7


class ShallowBatch(NamedTuple):
    """Position of a batch, or of a message of magic 0 or 1, in the produced data."""

    start: int
    end: int
    base_offset: int
    magic: int


class Validated(NamedTuple):
    """Data to append: complete batches, still with the producer's offsets, and their headers."""

    data: Data
    headers: list[BatchHeader]
    log_append_time_ms: int = -1
    """Append time of the records; -1 if they keep their own timestamps."""


Validation = Generator[None, None, Validated]
"""Generator that validates one slice of records per step, and returns the data to append.

It raises RecordsRefused if the data is invalid.
"""


def shallow_batches(data: Data) -> Iterator[ShallowBatch]:
    """Yield the positions of the complete batches at the beginning of `data`, as ByteBufferLogInputStream does.

    An incomplete batch at the end is omitted. Raises RecordsRefused (CORRUPT_MESSAGE) if a length or magic is
    impossible.
    """
    at, stop = 0, len(data)
    while stop - at > SIZE_OVERHEAD:
        if stop - at < _START.size:
            size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
            if size < MESSAGE_SIZE_MIN:
                raise corrupt(f"Record size {size} is less than the minimum record overhead ({MESSAGE_SIZE_MIN})")
            return
        base_offset, size, _, magic = _START.unpack_from(data, at)
        if size < MESSAGE_SIZE_MIN:
            raise corrupt(f"Record size {size} is less than the minimum record overhead ({MESSAGE_SIZE_MIN})")
        if not 0 <= magic <= MAGIC:
            raise corrupt(f"Invalid magic found in record: {magic}")
        end = at + SIZE_OVERHEAD + size
        if end > stop:
            return
        yield ShallowBatch(at, end, base_offset, magic)
        at = end


class ProduceRefused(Exception):
    """Kafka rejects the whole Produce request with one error for all of its partitions."""

    def __init__(self, error: int, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_request(data: Data, version: int, is_transactional: bool) -> None:
    """Check that a Produce request of that version can contain this partition's data (ProduceRequest.validateRecords).

    Raises RecordsRefused, without a message and without the log start offset for the response. Raises ProduceRefused if
    the whole request fails: the data cannot be parsed, or it has transactional batches although the request has no
    transactional id (`is_transactional` is false).
    """
    if len(data) >= HEADER_SIZE:
        _, length, _, magic, _, attributes = _HEAD.unpack_from(data)
        is_sole = magic == MAGIC and length == len(data) - SIZE_OVERHEAD
        if is_sole and version >= _ZSTD_SINCE and (is_transactional or not attributes & TRANSACTIONAL):
            return
    try:
        _check_transactional(data, is_transactional)
    except RecordsRefused as refused:
        message = str(refused) if refused.error == CORRUPT_MESSAGE else None
        raise ProduceRefused(refused.error, message) from None
    try:
        if version >= _ONE_BATCH_SINCE:
            _check_for_version(data, version)
    except RecordsRefused as refused:
        refused.says_log_start = False
        raise


def _check_transactional(data: Data, is_transactional: bool) -> None:
    first = next(shallow_batches(data), None)
    if first is None or first.magic != MAGIC:
        return
    if first.end - first.start < _PRODUCER_ID_ENDS:
        raise unexpected("a batch that ends before its producer's id")
    if not is_transactional and _ATTRIBUTES.unpack_from(data, first.start + _ATTRIBUTES_AT)[0] & TRANSACTIONAL:
        raise ProduceRefused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _check_for_version(data: Data, version: int) -> None:
    batches = shallow_batches(data)
    first = next(batches, None)
    if first is None:
        raise invalid(f"Produce requests with version {version} must have at least one record batch per partition")
    if first.magic != MAGIC:
        raise invalid(f"Produce requests with version {version} are only allowed to contain magic version 2")
    if version < _ZSTD_SINCE and _codec(data[first.start + _ATTRIBUTES_AT + 1]) is Codec.ZSTD:
        raise RecordsRefused(UNSUPPORTED_COMPRESSION_TYPE, f"Produce requests with version {version} and zstd")
    if next(batches, None) is not None:
        raise invalid(f"Produce requests with version {version} may have only one record batch per partition")


# ---- checks of the produced batch as a whole -------------------------------------------------------------------------


def _codec(number: int) -> Codec:
    try:
        return Codec(number & CODEC_MASK)
    except ValueError:
        raise unexpected(f"Unknown compression type id: {number & CODEC_MASK}") from None


def _check_batch(data: Data, batch: ShallowBatch, append: Append) -> BatchHeader:
    """Check a batch of format 2 without its records, as UnifiedLog.analyzeAndValidateRecords does."""
    if batch.base_offset:
        raise invalid(f"The baseOffset of the record batch should be 0, but it is {batch.base_offset}")
    size = batch.end - batch.start
    if size > append.rules.max_message_bytes:
        raise too_large(f"The record batch size is {size} bytes")
    header = read_header(data, batch.start) if size >= HEADER_SIZE else None
    if header is None or not checksum_holds(data, batch.start, header):
        raise corrupt("Record is corrupt")
    return header


def _check_message(data: Data, batch: ShallowBatch, append: Append) -> Codec:
    """Check a message of magic 0 or 1, as `_check_batch` does for a batch."""
    size = batch.end - batch.start
    if size > append.rules.max_message_bytes:
        raise too_large(f"The record batch size is {size} bytes")
    if not message_checksum_holds(data, batch.start + SIZE_OVERHEAD, batch.end):
        raise corrupt("Record is corrupt")
    return _codec(data[batch.start + SIZE_OVERHEAD + 5])


def validate(data: Data, append: Append) -> Validation:
    """Validate the data that a producer sent for one partition, and convert it to the data to append."""
    batches: list[ShallowBatch] = []
    headers: list[BatchHeader] = []
    source = Codec.NONE
    for batch in shallow_batches(data):
        batches.append(batch)
        if batch.magic == MAGIC:
            headers.append(_check_batch(data, batch, append))
            source = _codec(headers[-1].attributes) or source
        else:
            source = _check_message(data, batch, append) or source
    append_time_ms = append.now_ms if append.rules.stamps else -1
    if not batches:
        # The set of batches can be empty here only with the oldest versions of Produce.
        return Validated(b"", [], append_time_ms)
    first = batches[0]
    if len(batches) > 1 and (first.magic == MAGIC or source is not Codec.NONE):
        raise invalid("Compressed outer record has more than one batch")
    if first.magic == MAGIC:
        stored, header = yield from _validate_batch(data, first, headers[0], source, append)
    else:
        if any(batch.magic != first.magic for batch in batches):
            raise invalid("Batch magic is not the same as the first batch's magic byte")
        places = [(batch.start, batch.end) for batch in batches]
        stored, header = yield from convert_up(data, places, source, append, SLICE_CONVERTED)
    return Validated(stored, [header], append_time_ms)


# ---- batches of format 2 --------------------------------------------------------------------------------------


def _check_header(header: BatchHeader) -> None:
    """Check the header of a client's batch, as LogValidator.validateBatch does."""
    if header.last_offset_delta + 1 <= 0:
        raise invalid("Batch has an invalid offset range")
    if header.record_count <= 0:
        raise invalid(f"Invalid reported count for record batch: {header.record_count}")
    if header.last_offset_delta + 1 != header.record_count:
        raise invalid("Inconsistent batch offset range and count of records")
    if is_control(header):
        raise invalid("Clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise invalid(f"Invalid sequence number {header.base_sequence} in record batch")


def _validate_batch(
    data: Data, batch: ShallowBatch, header: BatchHeader, source: Codec, append: Append
) -> Generator[None, None, tuple[Data, BatchHeader]]:
    _check_header(header)
    body = memoryview(data)[batch.start + HEADER_SIZE : batch.end]
    pieces = iter((bytes(body),)) if source is Codec.NONE else unpacked(source, body, _expands_to(source))
    walk = RecordWalk(header, pieces, append)
    while not walk.step(SLICE_RECORDS):
        yield
    if append.rules.codec in (None, source):
        if source is not Codec.NONE and not walk.is_sequential:
            # Kafka would build the batch again and fail here, because it has skipped the keys and values.
            raise unexpected("offsets inside a compressed batch that do not follow each other")
        return _with_times(data, batch, header, walk, append)
    return (yield from _recompress(data, batch, header, walk, append))


def _expands_to(codec: Codec) -> int:
    """Return the maximum decompressed size of a producer's batch with this codec."""
    return ZSTD_BYTES_MAX if codec is Codec.ZSTD else EXPANDED_BYTES_MAX


def _with_times(
    data: Data, batch: ShallowBatch, header: BatchHeader, walk: RecordWalk, append: Append
) -> tuple[Data, BatchHeader]:
    """Return the batch with the correct timestamps in its header (DefaultRecordBatch.setMaxTimestamp)."""
    stamps = append.rules.stamps
    max_timestamp = append.now_ms if stamps else walk.max_timestamp
    if header.max_timestamp == max_timestamp and bool(header.attributes & LOG_APPEND_TIME) == stamps:
        whole = len(data) == batch.end
        return (data if whole else memoryview(data)[: batch.end]), header
    attributes = header.attributes & _KNOWN_BITS & ~LOG_APPEND_TIME | (LOG_APPEND_TIME if stamps else 0)
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    return with_checksum(changed, memoryview(data)[batch.start + HEADER_SIZE : batch.end])


def _recompress(
    data: Data, batch: ShallowBatch, header: BatchHeader, walk: RecordWalk, append: Append
) -> Generator[None, None, tuple[bytes, BatchHeader]]:
    """Compress the batch again, with the topic's codec (LogValidator.buildRecordsAndAssignOffsets)."""
    target = append.rules.codec
    assert target is not None
    transactional = bool(header.attributes & TRANSACTIONAL)
    producer = Producer(header.producer_id, header.producer_epoch, header.base_sequence, transactional)
    if producer.producer_id >= 0 and producer.epoch < 0:
        raise unexpected("Invalid negative producer epoch")
    builder = BatchBuilder(append, target, producer)
    if walk.may_be_copied:
        body = memoryview(data)[batch.start + HEADER_SIZE : batch.end]
        codec = _codec(header.attributes)
        for piece in unpacked(codec, body, _expands_to(codec)):
            yield
            for at in range(0, len(piece), PIECE_BYTES):
                builder.take_over(piece[at : at + PIECE_BYTES])
                yield
        return builder.done_unchanged(header.base_timestamp, walk.max_timestamp, header.record_count)
    is_stamped = bool(header.attributes & LOG_APPEND_TIME)
    for number, (records, _, at, end) in enumerate(cut_records(memoryview(data), batch.start, header), 1):
        raw, at = read_varlong(records, at + 1)
        _, at = read_varint(records, at)
        delta = (raw >> 1) ^ -(raw & 1)
        builder.add(header.max_timestamp if is_stamped else as_long(header.base_timestamp + delta), records[at:end])
        if not number % SLICE_CONVERTED:
            yield
    return builder.done()

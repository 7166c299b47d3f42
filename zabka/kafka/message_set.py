"""Message sets of magic 0 and 1, which clients from before Kafka 0.11 send and read (LegacyRecord, RecordsUtil).

A message has an offset, a size, a CRC-32, a magic number, attributes, a timestamp (not in magic 0), a key and a value.
A compressed set is a message whose value is a set. Kafka 3.9 stores only batches of format 2, so messages that an old
client produces are converted up, and records that it fetches are converted down.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Sequence
from struct import Struct
from typing import NamedTuple

from zabka.kafka.compression import Codec, CompressionError, Data, ExpandsTooFar, Packer, unpacked
from zabka.kafka.record_batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    BatchHeader,
    BatchUnreadable,
    Record,
    codec_of,
    is_control,
    iter_batch,
    read_header,
    write_varint,
)
from zabka.kafka.record_rebuild import BatchBuilder, Producer
from zabka.kafka.record_refusals import (
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
    RecordErrors,
    corrupt,
    invalid,
    too_large,
    unexpected,
)
from zabka.kafka.record_rules import NO_TIMESTAMP, Append

MESSAGE_SIZE_MIN = 14
"""Minimum value of the size field: the bytes after it in a message of magic 0 without key and value."""

_OVERHEAD = Struct(">qi")
_HEAD = Struct(">Ibb")
_CRC_SIZE = 4
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")


class Message(NamedTuple):
    """One message.  A compressed set is a message whose attributes name a codec."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    """Timestamp of the message; -1 in magic 0, which has no timestamps."""
    key: bytes | None
    value: bytes | None


# ---- bytes ----------------------------------------------------------------------------------------------------


def message_checksum_holds(data: Data, at: int, end: int) -> bool:
    """Return whether the CRC-32 of a message is correct. Its fields after the size are at `data[at:end]`."""
    view = memoryview(data)
    crc: int = _HEAD.unpack_from(view, at)[0]
    return crc == zlib.crc32(view[at + _CRC_SIZE : end])


def read_message(data: Data, at: int, end: int) -> Message:
    """Decode the message at `data[at:end]`.

    Raises RecordsRefused (UNKNOWN_SERVER_ERROR, as in Kafka) if its lengths are wrong.
    """
    (offset, _), start = _OVERHEAD.unpack_from(data, at), at + _OVERHEAD.size
    _, magic, attributes = _HEAD.unpack_from(data, start)
    start += _HEAD.size
    timestamp_ms = NO_TIMESTAMP
    if magic:
        if end - start < _TIMESTAMP.size:
            raise unexpected("a message that ends within its timestamp")
        (timestamp_ms,) = _TIMESTAMP.unpack_from(data, start)
        start += _TIMESTAMP.size
    key, start = _read_bytes(data, start, end)
    value, start = _read_bytes(data, start, end)
    return Message(offset, magic, attributes, timestamp_ms, key, value)


def _read_bytes(data: Data, at: int, end: int) -> tuple[bytes | None, int]:
    if end - at < _LENGTH.size:
        raise unexpected("a message that ends within a length")
    (size,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if size < 0:
        return None, at
    if size > end - at:
        raise unexpected("a message that ends within its key or value")
    return bytes(data[at : at + size]), at + size


def write_message(message: Message) -> bytes:
    """Encode a message, including its checksum."""
    fields = [bytes((message.magic, message.attributes))]
    if message.magic:
        fields.append(_TIMESTAMP.pack(message.timestamp_ms))
    for part in (message.key, message.value):
        fields += [_LENGTH.pack(-1)] if part is None else [_LENGTH.pack(len(part)), part]
    body = b"".join(fields)
    return _OVERHEAD.pack(message.offset, _CRC_SIZE + len(body)) + zlib.crc32(body).to_bytes(_CRC_SIZE, "big") + body


# ---- reading a compressed set ---------------------------------------------------------------------------------


class _Sliced:
    """Counts the steps of a conversion and decides when it pauses."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._done = 0

    def is_time(self) -> bool:
        self._done += 1
        return not self._done % self._records


def _inner_messages(
    wrapper: Message, take: Callable[[Message, bool], None], pause: _Sliced
) -> Generator[None, None, None]:
    """Check a compressed message set.

    Call `take` for each message, with the message and whether its checksum is correct.
    """
    codec = Codec(wrapper.attributes & CODEC_MASK)
    if codec is Codec.ZSTD:
        raise invalid("Invalid wrapper compressionType found in legacy deep record iterator")
    if wrapper.value is None:
        raise invalid("Found invalid compressed record set with null value")
    waiting: bytearray = bytearray()
    count, last_offset = 0, 0
    for piece in _unpacked_value(codec, wrapper):
        waiting += piece
        at = 0
        while len(waiting) - at >= _OVERHEAD.size:
            last, size = _OVERHEAD.unpack_from(waiting, at)
            if size < MESSAGE_SIZE_MIN:
                raise corrupt(f"Record size is less than the minimum record overhead ({MESSAGE_SIZE_MIN})")
            end = at + _OVERHEAD.size + size
            if end > len(waiting):
                break
            inner = read_message(waiting, at, end)
            if inner.attributes & CODEC_MASK:
                raise invalid("Inner messages must not be compressed")
            take(inner, message_checksum_holds(waiting, at + _OVERHEAD.size, end))
            count, last_offset, at = count + 1, last, end
            if pause.is_time():
                yield
        del waiting[:at]
        yield
    if not count:
        raise invalid("Found invalid compressed record set with no inner records")
    if wrapper.magic and 0 != wrapper.offset < last_offset:
        raise invalid("Found invalid wrapper offset in compressed v1 message set")


def _unpacked_value(codec: Codec, wrapper: Message) -> Generator[Data, None, None]:
    assert wrapper.value is not None
    try:
        yield from unpacked(codec, wrapper.value, magic=wrapper.magic)
    except ExpandsTooFar as wrong:
        raise too_large(str(wrong)) from None
    except CompressionError as wrong:
        raise unexpected(str(wrong)) from None


# ---- up -------------------------------------------------------------------------------------------------------


class _Conversion:
    """Converts messages to the records of one batch (LogValidator.convertAndAssignOffsetsNonCompressed)."""

    def __init__(self, append: Append, codec: Codec, magic: int) -> None:
        self._append = append
        self._builder = BatchBuilder(append, codec, Producer())
        self._errors = RecordErrors()
        self._index = 0
        self._magic = magic
        self.wrapper: Message | None = None

    def add_message(self, message: Message, checksum_holds: bool) -> None:
        """Add a message. Raises RecordsRefused if the message makes the whole batch invalid."""
        wrapper, index = self.wrapper, self._index
        self._index += 1
        if message.magic != self._magic:
            self._errors.note(index, f"Record's magic does not match outer magic {self._magic}")
            return
        if not checksum_holds:
            raise corrupt("Record is corrupt")
        timestamp_ms = message.timestamp_ms
        is_stamped = bool(self._magic and (wrapper or message).attributes & LOG_APPEND_TIME)
        if wrapper is not None and is_stamped:
            timestamp_ms = wrapper.timestamp_ms
        has_key = message.key is not None
        shown = "of magic 1" if is_stamped else None
        self._append.check_record(self._errors, index, message.offset, timestamp_ms, has_key, shown)
        if not self._errors:
            self._builder.add(timestamp_ms, _fields(message))

    def done(self) -> tuple[bytes, BatchHeader]:
        """Return the finished batch and its header. Raises RecordsRefused."""
        self._errors.check()
        return self._builder.done()


def _fields(message: Message) -> bytes:
    """Encode key, value and headers of a message as in a record of format 2."""
    out = bytearray()
    for part in (message.key, message.value):
        if part is None:
            write_varint(out, -1)
        else:
            write_varint(out, len(part))
            out += part
    out.append(0)
    return bytes(out)


def convert_up(
    data: Data, places: Sequence[tuple[int, int]], source: Codec, append: Append, slice_records: int
) -> Generator[None, None, tuple[bytes, BatchHeader]]:
    """Convert an old client's messages, or the messages of its compressed set, to one batch of format 2.

    `source` is the codec of a compressed set. `places` are the start and end of each message. All messages have the
    same magic, and their checksums have been checked. The generator pauses after every `slice_records`. Raises
    RecordsRefused.
    """
    pause = _Sliced(slice_records)
    first = read_message(data, *places[0])
    target = source if append.rules.codec is None else append.rules.codec
    if source is Codec.ZSTD:
        raise invalid("Invalid wrapper compressionType found in legacy deep record iterator")
    conversion = _Conversion(append, target, first.magic)
    if source is not Codec.NONE:
        conversion.wrapper = first
        yield from _inner_messages(first, conversion.add_message, pause)
        return conversion.done()
    for at, end in places:
        conversion.add_message(read_message(data, at, end), True)
        if pause.is_time():
            yield
    return conversion.done()


# ---- down -----------------------------------------------------------------------------------------------------


class CannotConvert(Exception):
    """A batch cannot be converted to messages of an older magic. `error` is Kafka's error code."""

    def __init__(self, error: int, reason: str) -> None:
        super().__init__(reason)
        self.error = error


NOTHING_FITS = _OVERHEAD.pack(-1, 61) + b"\0" * 5
"""A truncated message, returned in place of batches that contain no messages.

It makes the client fetch again with a larger size. It is the overflow batch of LazyDownConversionRecordsSend.
"""


def convert_down(data: Data, magic: int, first_offset: int, slice_records: int) -> Generator[None, None, bytes]:
    """Convert the batches of a fetch response to messages of an older magic (RecordsUtil.downConvert).

    Records of uncompressed batches are converted from `first_offset` on. Headers and transaction markers are dropped.
    The conversion ends before the first zstd batch. The generator pauses after every `slice_records`. Raises
    CannotConvert.
    """
    converted: list[bytes] = []
    pause = _Sliced(slice_records)
    view = memoryview(data)
    at = 0
    while (header := read_header(view, at)) is not None and at + header.size <= len(view):
        if not is_control(header):
            try:
                converted.append((yield from _convert_batch(view, at, header, magic, first_offset, pause)))
            except BatchUnreadable as unreadable:
                raise CannotConvert(UNKNOWN_SERVER_ERROR, str(unreadable)) from None
            except CannotConvert as refused:
                if refused.error != UNSUPPORTED_COMPRESSION_TYPE or not any(converted):
                    raise
                break
        at += header.size
    return b"".join(converted) or (NOTHING_FITS if at else b"")


def _convert_batch(
    data: memoryview, at: int, header: BatchHeader, magic: int, first_offset: int, pause: _Sliced
) -> Generator[None, None, bytes]:
    codec = codec_of(header)
    if codec is Codec.ZSTD:
        raise CannotConvert(UNSUPPORTED_COMPRESSION_TYPE, "zstd")
    times = header.attributes & LOG_APPEND_TIME if magic else 0
    packer = Packer(codec, magic=magic)
    out: list[bytes] = []
    waiting: list[bytes] = []
    base = last = -1
    newest = NO_TIMESTAMP
    for record in iter_batch(data, at, header):
        if codec is Codec.NONE and record.offset < first_offset:
            continue
        if record.timestamp_ms < NO_TIMESTAMP:
            raise CannotConvert(UNKNOWN_SERVER_ERROR, f"timestamp {record.timestamp_ms}")
        if base < 0:
            base = record.offset
        elif record.offset <= last:
            raise CannotConvert(UNKNOWN_SERVER_ERROR, f"offset {record.offset} after {last}")
        last, newest = record.offset, max(newest, record.timestamp_ms)
        offset = record.offset - base if magic and codec else record.offset
        waiting.append(_message(record, offset, magic, times))
        if pause.is_time():
            out.append(packer.add(b"".join(waiting)))
            waiting.clear()
            yield
    if base < 0:
        return b""
    out += [packer.add(b"".join(waiting)), packer.finish()]
    messages = b"".join(out)
    if codec is Codec.NONE:
        return messages
    newest = header.max_timestamp if times else newest
    return write_message(Message(last, magic, codec | times, newest, None, messages))


def _message(record: Record, offset: int, magic: int, times: int) -> bytes:
    return write_message(Message(offset, magic, times, record.timestamp_ms, record.key, record.value))

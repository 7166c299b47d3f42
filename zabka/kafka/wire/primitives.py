"""Primitive types of Kafka's protocol: varints, strings and lengths, in the old and the compact form (KIP-482)."""

from __future__ import annotations

from struct import Struct

from zabka.kafka.wire.kafka_schema import KafkaUuid, Uuid

_I16 = Struct(">h")
_I32 = Struct(">i")
_UUID_SIZE = 16
_NO_UUID = bytes(_UUID_SIZE)
_SMALL_VARINTS = tuple(bytes([value]) for value in range(128))

EMPTY_TAGS = b"\x00"
TEXT_BYTES_MAX = 0x7FFF
"""Maximum length of a string, even in the compact form, as in the readers that Kafka's MessageGenerator creates.

A string received in the compact form must also be valid in the old form, because it may later be stored or returned in
the old form.
"""


class WireError(Exception):
    """The peer sent bytes that are not a valid Kafka frame. The message gives the reason."""


# ---- writing --------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 128:
        return _SMALL_VARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def length(count: int, flexible: bool) -> bytes:
    """Encode the length of an array or of bytes. `flexible` selects the compact form."""
    return varint(count + 1) if flexible else _I32.pack(count)


def null_length(flexible: bool) -> bytes:
    """Encode the length that stands for a null array or for null bytes."""
    return b"\x00" if flexible else b"\xff\xff\xff\xff"


def string(text: str, flexible: bool) -> bytes:
    """Encode a string that is not null."""
    data = text.encode()
    return (varint(len(data) + 1) if flexible else _I16.pack(len(data))) + data


def nullable_string(text: str | None, flexible: bool) -> bytes:
    """Encode a nullable string."""
    if text is not None:
        return string(text, flexible)
    return b"\x00" if flexible else b"\xff\xff"


def uuid(value: KafkaUuid | None) -> bytes:
    """Encode a topic id; None is encoded as all zeros."""
    return _NO_UUID if value is None else bytes(value.bytes)


# ---- reading --------------------------------------------------------------------------------------------------


def text_of(data: bytes) -> str:
    """Decode a string as Java does, with U+FFFD for invalid UTF-8.

    Raises WireError if the result is too long for a string.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise WireError("a string that is no UTF-8")
    return text


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Decode an unsigned varint; return (value, offset after it). Raises WireError."""
    if offset < len(data) and data[offset] < 0x80:
        return data[offset], offset + 1
    value = shift = 0
    while True:
        if offset >= len(data) or shift > 28:
            raise WireError("a number that ends early")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, offset
        shift += 7


def read_length(data: bytes, offset: int, flexible: bool) -> tuple[int, int]:
    """Decode the length of an array or of bytes; return (length, offset after it). The length is -1 for null.

    Raises WireError, struct.error.
    """
    if flexible:
        value, offset = read_varint(data, offset)
        return value - 1, offset
    return _I32.unpack_from(data, offset)[0], offset + 4


def read_count(data: bytes, offset: int, flexible: bool) -> tuple[int, int]:
    """Decode the length of an array that is not null; return (length, offset after it).

    Raises WireError, struct.error.
    """
    count, offset = read_length(data, offset, flexible)
    if count < 0:
        raise WireError("an array that may not be null")
    return count, offset


def read_nullable_string(data: bytes, offset: int, flexible: bool) -> tuple[str | None, int]:
    """Decode a nullable string; return (string or None, offset after it). Raises WireError, struct.error."""
    if flexible:
        size, offset = read_varint(data, offset)
        size -= 1
    else:
        (size,) = _I16.unpack_from(data, offset)
        offset += 2
    if size < 0:
        if size < -1:
            raise WireError("a string of negative length")
        return None, offset
    if size > TEXT_BYTES_MAX:
        raise WireError(f"a string of {size} bytes")
    end = offset + size
    if end > len(data):
        raise WireError("a string that ends early")
    return text_of(data[offset:end]), end


def read_string(data: bytes, offset: int, flexible: bool) -> tuple[str, int]:
    """Decode a string that is not null; return (string, offset after it). Raises WireError, struct.error."""
    text, offset = read_nullable_string(data, offset, flexible)
    if text is None:
        raise WireError("a string that may not be null")
    return text, offset


def read_records(view: memoryview, data: bytes, offset: int, flexible: bool) -> tuple[memoryview | None, int]:
    """Decode a field with records; return (the records as a part of `view`, or None; the offset after them).

    `view` is a view of `data`. Raises WireError.
    """
    size, offset = read_length(data, offset, flexible)
    if size < 0:
        if size < -1:
            raise WireError("records of negative length")
        return None, offset
    end = offset + size
    if end > len(data):
        raise WireError("records that end early")
    return view[offset:end], end


def read_uuid(data: bytes, offset: int) -> tuple[KafkaUuid | None, int]:
    """Decode a topic id; return (id, offset after it). The id is None for all zeros. Raises WireError."""
    end = offset + _UUID_SIZE
    if end > len(data):
        raise WireError("a UUID that ends early")
    found = data[offset:end]
    return (None if found == _NO_UUID else Uuid(bytes=found)), end


def read_tags(data: bytes, offset: int) -> tuple[list[tuple[int, int, int]], int]:
    """Decode the tagged fields; return a list of (tag, begin, end), and the offset after them. Raises WireError."""
    count, offset = read_varint(data, offset)
    found = []
    for _ in range(count):
        tag, offset = read_varint(data, offset)
        size, offset = read_varint(data, offset)
        if offset + size > len(data):
            raise WireError("tagged fields that end early")
        found.append((tag, offset, offset + size))
        offset += size
    return found, offset


def skip_tags(data: bytes, offset: int) -> int:
    """Skip the tagged fields, and return the offset after them. Raises WireError."""
    if offset < len(data) and not data[offset]:
        return offset + 1
    return read_tags(data, offset)[1]

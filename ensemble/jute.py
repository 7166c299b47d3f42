"""Jute, ZooKeeper's wire format: big-endian integers, length-prefixed buffers and strings, counted vectors.

Source: org.apache.jute.BinaryInputArchive and BinaryOutputArchive. A record is a msgspec struct; its class lists one
codec per field in `layout`. A field can be another record. A null buffer, string or vector has length -1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

import msgspec

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
pack_int = _INT.pack
pack_long = _LONG.pack
_int_at = _INT.unpack_from


NULL = pack_int(-1)
"""Encoded length of a null buffer, string or vector."""


class MalformedRecord(Exception):
    """The bytes are not a valid record: they are too short, or contain a negative or huge length or a bad string."""


class Reader:
    """Reader of successive jute values from `data`."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes | bytearray | memoryview, pos: int = 0) -> None:
        self.data = bytes(data) if not isinstance(data, bytes) else data
        self.pos = pos
        self.end = len(self.data)

    def skip_bytes(self, size: int) -> int:
        """Skip `size` bytes; return the position of the first of them. Raises MalformedRecord if there are fewer."""
        start = self.pos
        if size < 0 or start + size > self.end:
            raise MalformedRecord(f"{size} bytes wanted at {start}, {self.end - start} left")
        self.pos = start + size
        return start

    def read_bool(self) -> bool:
        """Read one byte; any value except zero is True."""
        return self.data[self.skip_bytes(1)] != 0

    def read_byte(self) -> int:
        """Read one signed byte."""
        value = self.data[self.skip_bytes(1)]
        return value - 256 if value > 127 else value

    def read_int(self) -> int:
        """Read a signed 32-bit integer."""
        start = self.pos
        if start + 4 > self.end:
            self.skip_bytes(4)
        self.pos = start + 4
        value: int = _int_at(self.data, start)[0]
        return value

    def read_long(self) -> int:
        """Read a signed 64-bit integer."""
        value: int = _LONG.unpack_from(self.data, self.skip_bytes(8))[0]
        return value

    def read_buffer(self) -> bytes | None:
        """Read a length and that many bytes; length -1 is None."""
        size = self.read_int()
        if size == -1:
            return None
        start = self.skip_bytes(size)
        return self.data[start : self.pos]

    def read_string(self) -> str:
        """Read a UTF-8 string; a null string is read as empty."""
        raw = self.read_buffer()
        if raw is None:
            return ""
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as bad:
            raise MalformedRecord(f"not UTF-8: {bad.reason}") from None

    def read_present_string(self) -> str:
        """Read a UTF-8 string.

        Raises MalformedRecord, for a null string too.
        """
        if self.data.startswith(NULL, self.pos):
            raise MalformedRecord("null in place of a string")
        return self.read_string()

    def read_path_and_data(self) -> tuple[str, bytes | None]:
        """Read a string and a buffer, as at the start of most requests and transactions.

        Equivalent to `read_string` and `read_buffer`, but in one step in the common case.
        """
        data, start = self.data, self.pos
        try:
            size: int = _int_at(data, start)[0]
            middle = start + 4 + size
            length: int = _int_at(data, middle)[0]
            stop = middle + 4 + length
            if size >= 0 and length >= 0 and stop <= self.end:
                path = data[start + 4 : middle].decode()
                self.pos = stop
                return path, data[middle + 4 : stop]
        except (struct.error, UnicodeDecodeError):
            pass
        return self.read_string(), self.read_buffer()

    def rest(self) -> bytes:
        """Return all bytes that are not read yet."""
        start, self.pos = self.pos, self.end
        return self.data[start:]

    @property
    def left(self) -> int:
        """Return the number of bytes that are not read yet."""
        return self.end - self.pos


Writer = bytearray
"""Output of encoding: records append their bytes to it."""


def write_buffer(out: Writer, value: bytes | None) -> None:
    """Append the length of `value` and its bytes; None is written as length -1."""
    if value is None:
        out += NULL
    else:
        out += pack_int(len(value))
        out += value


def write_string(out: Writer, value: str) -> None:
    """Append a length-prefixed UTF-8 string."""
    raw = value.encode("utf-8", "surrogatepass")
    out += pack_int(len(raw))
    out += raw


def write_path_and_data(out: Writer, path: str, data: bytes | None) -> None:
    """Append a string and a buffer, as `write_string` and `write_buffer` do, in one step."""
    raw = path.encode("utf-8", "surrogatepass")
    if data is None:
        out += pack_int(len(raw)) + raw + NULL
    else:
        out += pack_int(len(raw)) + raw + pack_int(len(data)) + data


class Codec:
    """Functions that encode and decode one field."""

    __slots__ = ("read", "write")

    def __init__(self, write: Callable[[Writer, Any], None], read: Callable[[Reader], Any]) -> None:
        self.write = write
        self.read = read


def _write_int(out: Writer, value: int) -> None:
    out += pack_int(value)


def _write_long(out: Writer, value: int) -> None:
    out += pack_long(value)


def _write_bool(out: Writer, value: bool) -> None:
    out.append(1 if value else 0)


def _write_byte(out: Writer, value: int) -> None:
    out.append(value & 0xFF)


INT = Codec(_write_int, Reader.read_int)
LONG = Codec(_write_long, Reader.read_long)
BOOL = Codec(_write_bool, Reader.read_bool)
BYTE = Codec(_write_byte, Reader.read_byte)
BUFFER = Codec(write_buffer, Reader.read_buffer)
STRING = Codec(write_string, Reader.read_string)
PRESENT_STRING = Codec(write_string, Reader.read_present_string)


def vector(item: Codec) -> Codec:
    """Return the codec of a list of `item` that begins with its length; a null vector is read as an empty list."""

    def write(out: Writer, values: list[Any] | tuple[Any, ...]) -> None:
        out += pack_int(len(values))
        for value in values:
            item.write(out, value)

    def read(reader: Reader) -> list[Any]:
        count = reader.read_int()
        if count > reader.left:
            raise MalformedRecord(f"vector of {count} items in {reader.left} bytes")
        return [item.read(reader) for _ in range(count)]

    return Codec(write, read)


class Record(msgspec.Struct, gc=False):
    """A jute record: fields in wire order, with one codec per field in `layout`.

    Records contain only values and are never part of a reference cycle, so the garbage collector need not track them.
    """

    layout: ClassVar[tuple[Codec, ...]] = ()

    def encode_into(self, out: Writer) -> None:
        """Append this record's bytes."""
        for name, codec in zip(self.__struct_fields__, self.layout, strict=True):
            codec.write(out, getattr(self, name))

    def encode(self) -> bytes:
        """Return this record's bytes."""
        out = bytearray()
        self.encode_into(out)
        return bytes(out)

    @classmethod
    def read_from(cls, reader: Reader) -> Self:
        """Read one record.  Raises MalformedRecord."""
        return cls(*[codec.read(reader) for codec in cls.layout])

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the record in `data`; ignore trailing bytes, as ZooKeeper does.

        Raises MalformedRecord.
        """
        return cls.read_from(Reader(data))


R = TypeVar("R", bound=Record)


def record(cls: type[R]) -> Codec:
    """Return the codec for a field that contains a nested record."""

    def write(out: Writer, value: R) -> None:
        value.encode_into(out)

    return Codec(write, cls.read_from)

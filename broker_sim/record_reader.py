"""Reads Kafka's primitive types from the records of coordinators, in flexible and non-flexible versions."""

from __future__ import annotations

import struct

_BYTE, _SHORT, _INT, _LONG = (struct.Struct(form) for form in (">b", ">h", ">i", ">q"))


class UnreadableRecord(Exception):
    """A key or value is truncated or has an unknown version."""


class RecordReader:
    """Reads Kafka's primitive types in sequence. Its methods raise UnreadableRecord."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.flexible = False

    def _number(self, form: struct.Struct) -> int:
        if self._at + form.size > len(self._data):
            raise UnreadableRecord("a record is cut short")
        (number,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(number)

    def int8(self) -> int:
        """Read an 8-bit integer."""
        return self._number(_BYTE)

    def int16(self) -> int:
        """Read a 16-bit integer."""
        return self._number(_SHORT)

    def int32(self) -> int:
        """Read a 32-bit integer."""
        return self._number(_INT)

    def int64(self) -> int:
        """Read a 64-bit integer."""
        return self._number(_LONG)

    def _unsigned_varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise UnreadableRecord("a length runs past its end")

    def _take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise UnreadableRecord("a record is cut short")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def nullable_string(self) -> str | None:
        """Read a string, or None."""
        size = self._unsigned_varint() - 1 if self.flexible else self.int16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise UnreadableRecord("a text is not UTF-8") from None

    def string(self) -> str:
        """Read a string that must not be null."""
        text = self.nullable_string()
        if text is None:
            raise UnreadableRecord("a text is missing")
        return text

    def data(self) -> bytes:
        """Read bytes that are preceded by their length."""
        return self._take(self._unsigned_varint() - 1 if self.flexible else self.int32())

    def count(self) -> int:
        """Read the length of an array."""
        count = self.nullable_count()
        if count is None:
            raise UnreadableRecord("an array is missing")
        return count

    def nullable_count(self) -> int | None:
        """Read the length of an array, or None if the array is null."""
        count = self._unsigned_varint() - 1 if self.flexible else self.int32()
        if count == -1:
            return None
        if not 0 <= count <= len(self._data):
            raise UnreadableRecord(f"{count} rows")
        return count

    def skip_tagged_fields(self) -> None:
        """Skip tagged fields, which only flexible versions have."""
        if self.flexible:
            for _ in range(self._unsigned_varint()):
                self._unsigned_varint()
                self._take(self._unsigned_varint())

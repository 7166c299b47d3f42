"""LZ4 frames as Kafka reads and writes them (Lz4BlockInputStream, Lz4BlockOutputStream): independent blocks only.

In messages of magic 0, the header checksum covers too many bytes. This is a bug of Kafka's first version that must be
reproduced.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Literal

import cramjam

_MAGIC = 0x184D2204
_LENGTH = Struct("<I")
_CONTENT_SIZE_BYTES = 8
_STORED = 0x80000000
"""Bit in a block's length that marks an uncompressed block."""
_GROWS_AT_MOST = 256
"""Maximum factor by which a block grows: one byte decompresses to at most 255 bytes."""
_VERSION = 1
_BLOCK_64_KB = 4
_WRITTEN_FLAGS = _VERSION << 6 | 1 << 5
_BLOCK_CHECKSUM_FLAGS = _WRITTEN_FLAGS | 1 << 4

_WORD = 0xFFFFFFFF
_PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2246822519, 3266489917, 668265263, 374761393
_PRIME_1 = 2654435761
_SHORT = 16


def short_xxh32(data: bytes) -> int:
    """Return XXH32 with seed 0, for data of fewer than 16 bytes, such as every frame header."""
    assert len(data) < _SHORT
    value = _PRIME_5 + len(data)
    at = 0
    while at + 4 <= len(data):
        value = (value + _LENGTH.unpack_from(data, at)[0] * _PRIME_3) & _WORD
        value = ((value << 17 | value >> 15) * _PRIME_4) & _WORD
        at += 4
    for byte in data[at:]:
        value = (value + byte * _PRIME_5) & _WORD
        value = ((value << 11 | value >> 21) * _PRIME_1) & _WORD
    value = ((value ^ value >> 15) * _PRIME_2) & _WORD
    value = ((value ^ value >> 13) * _PRIME_3) & _WORD
    return value ^ value >> 16


def _header_checksum(described: bytes) -> int:
    return short_xxh32(described) >> 8 & 0xFF


class _Frame:
    """Parsed header of an LZ4 frame."""

    def __init__(self, view: memoryview, header_is_checked: bool) -> None:
        if len(view) < 7 or _LENGTH.unpack_from(view)[0] != _MAGIC:
            raise ValueError("no frame")
        flags, size_code = view[4], view[5]
        if flags & 3 or flags >> 6 != _VERSION or not flags >> 5 & 1:
            raise ValueError("a kind of frame that is not supported")
        if size_code & 0x0F or size_code >> 7 or size_code >> 4 < _BLOCK_64_KB:
            raise ValueError("a wrong block size")
        end = 6 + (_CONTENT_SIZE_BYTES if flags >> 3 & 1 else 0)
        if len(view) <= end:
            raise ValueError("it ends early")
        if header_is_checked and _header_checksum(bytes(view[4:end])) != view[end]:
            raise ValueError("a damaged frame header")
        self.size_code = size_code
        self.block_bytes_max = 1 << 2 * (size_code >> 4) + 8
        self.has_block_checksums = bool(flags >> 4 & 1)
        self.blocks_at = end + 1


def lz4_blocks(data: bytes | bytearray | memoryview, header_is_checked: bool) -> Iterator[bytes | bytearray]:
    """Yield the decompressed content of each block of the first frame. Ignore any data after that frame.

    Raises ValueError, and cramjam.DecompressionError.
    """
    view = memoryview(data)
    frame = _Frame(view, header_is_checked)
    at = frame.blocks_at
    while True:
        if len(view) - at < _LENGTH.size:
            raise ValueError("it ends early")
        (word,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        size = word & ~_STORED
        if not size:
            return
        end = at + size + (_LENGTH.size if frame.has_block_checksums else 0)
        if size > frame.block_bytes_max or end > len(view):
            raise ValueError("a block that is too long")
        if frame.has_block_checksums:
            yield _checked_block(frame, bytes(view[at - _LENGTH.size : end]))
        elif word & _STORED:
            yield bytes(view[at:end])
        else:
            yield _unpacked(view[at:end], min(frame.block_bytes_max, _GROWS_AT_MOST * size))
        at = end


def _unpacked(block: memoryview, bytes_max: int) -> bytearray:
    buffer = bytearray(bytes_max)
    written = cramjam.lz4.decompress_block_into(block, buffer, output_len=bytes_max)
    del buffer[written:]
    return buffer


def _checked_block(frame: _Frame, block: bytes) -> bytearray:
    """Decompress a block that has a checksum.

    The block is put into a separate frame, so that the library verifies the checksum.
    """
    described = bytes((_BLOCK_CHECKSUM_FLAGS, frame.size_code))
    head = _LENGTH.pack(_MAGIC) + described + bytes([_header_checksum(described)])
    buffer = bytearray(frame.block_bytes_max)
    written = cramjam.lz4.decompress_into(head + block + _LENGTH.pack(0), buffer)
    del buffer[written:]
    return buffer


class Lz4FrameWriter:
    """Writes an LZ4 frame with blocks of 64 KB: fast compression without a `level`, otherwise high compression."""

    def __init__(self, level: int | None, header_is_checked: bool) -> None:
        self._level = level
        self._waiting = bytearray()
        described = bytes((_WRITTEN_FLAGS, _BLOCK_64_KB << 4))
        head = _LENGTH.pack(_MAGIC) + described
        self._out = bytearray(head + bytes([_header_checksum(described if header_is_checked else head)]))
        self._block_bytes = 1 << 2 * _BLOCK_64_KB + 8

    def add(self, data: bytes | bytearray | memoryview) -> bytes:
        """Compress more data. Return the blocks that are ready."""
        self._waiting += data
        full = len(self._waiting) - len(self._waiting) % self._block_bytes
        view = memoryview(self._waiting)
        for at in range(0, full, self._block_bytes):
            self._write(bytes(view[at : at + self._block_bytes]))
        view.release()
        del self._waiting[:full]
        return self._taken()

    def finish(self) -> bytes:
        """Return the last block, and the end mark."""
        if self._waiting:
            self._write(bytes(self._waiting))
        self._out += _LENGTH.pack(0)
        return self._taken()

    def _write(self, block: bytes) -> None:
        mode: Literal["default", "high_compression"] = "default" if self._level is None else "high_compression"
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False, mode=mode, compression=self._level))
        if len(packed) < len(block):
            self._out += _LENGTH.pack(len(packed)) + packed
        else:
            self._out += _LENGTH.pack(len(block) | _STORED) + block

    def _taken(self) -> bytes:
        taken = bytes(self._out)
        self._out.clear()
        return taken

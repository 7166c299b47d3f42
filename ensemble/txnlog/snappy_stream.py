"""Reader and writer of snappy-java's stream format (SnappyOutputStream, SnappyInputStream).

A file is a header and blocks, each preceded by its compressed size. cramjam compresses the blocks.
"""

from __future__ import annotations

import io
import struct
from typing import IO, Any

import cramjam

MAGIC = b"\x82SNAPPY\0"
_HEADER = MAGIC + struct.pack(">ii", 1, 1)
"""File header: magic number, version, and the oldest version that can read this format."""
_SIZE = struct.Struct(">i")
BLOCK_BYTES = 32 * 1024
BLOCK_BYTES_MAX = 64 << 20
RATIO_MAX = 64
"""Maximum ratio of a block's uncompressed size to its compressed size.

The longest copy element is two or more bytes long and produces 64 bytes.
"""


class SnappyDamaged(Exception):
    """The bytes are not a complete snappy stream."""


class SnappyWriter(io.RawIOBase):
    """Compresses the written bytes and writes them to `raw`; does not close `raw`."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._buffer = bytearray()
        raw.write(_HEADER)

    def write(self, data: Any, /) -> int:
        """Buffer bytes; compress and write complete blocks."""
        buffer = self._buffer
        before = len(buffer)
        buffer += data
        taken = len(buffer) - before
        stop = len(buffer) - len(buffer) % BLOCK_BYTES
        for at in range(0, stop, BLOCK_BYTES):
            self._write_block(bytes(buffer[at : at + BLOCK_BYTES]))
        del buffer[:stop]
        return taken

    def close(self) -> None:
        """Write the last block, and leave `raw` open."""
        if not self.closed and self._buffer:
            self._write_block(bytes(self._buffer))
            self._buffer.clear()
        super().close()

    def _write_block(self, block: bytes) -> None:
        packed = bytes(cramjam.snappy.compress_raw(block))
        self._raw.write(_SIZE.pack(len(packed)) + packed)


class SnappyReader(io.RawIOBase):
    """Decompresses the bytes read from `raw`. Reading raises SnappyDamaged."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._block = b""
        self._pos = 0
        if raw.read(len(_HEADER))[: len(MAGIC)] != MAGIC:
            raise SnappyDamaged("no snappy stream")

    def read(self, size: int | None = -1, /) -> bytes:
        """Return `size` bytes, or all remaining bytes if `size` is negative; fewer only at the end."""
        requested = -1 if size is None else size
        parts: list[bytes] = []
        while requested and (part := self._some(requested)):
            parts.append(part)
            requested = requested - len(part) if requested > 0 else requested
        return b"".join(parts)

    def _some(self, requested: int) -> bytes:
        if self._pos >= len(self._block):
            self._block, self._pos = self._next_block(), 0
        stop = len(self._block) if requested < 0 else self._pos + requested
        part = self._block[self._pos : stop]
        self._pos += len(part)
        return part

    def _next_block(self) -> bytes:
        head = self._raw.read(_SIZE.size)
        if not head:
            return b""
        if len(head) < _SIZE.size:
            raise SnappyDamaged("cut short")
        (size,) = _SIZE.unpack(head)
        if not 0 < size <= BLOCK_BYTES_MAX:
            raise SnappyDamaged(f"a block of {size} bytes")
        packed = self._raw.read(size)
        if len(packed) < size:
            raise SnappyDamaged("cut short")
        _check_unpacked_size(packed)
        try:
            block = bytes(cramjam.snappy.decompress_raw(packed))
        except cramjam.DecompressionError as bad:
            raise SnappyDamaged(str(bad)) from None
        return block

    def close(self) -> None:
        """Close this and the underlying file."""
        self._raw.close()
        super().close()


def _check_unpacked_size(packed: bytes) -> None:
    """Raise SnappyDamaged if a block claims an uncompressed size that is impossible for its length.

    The size is a varint at the beginning of the block.
    """
    size = 0
    for index, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            break
    if not 0 < size <= min(BLOCK_BYTES_MAX, RATIO_MAX * len(packed)):
        raise SnappyDamaged(f"a block that unpacks to {size} bytes")

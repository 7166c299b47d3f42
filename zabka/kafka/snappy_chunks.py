"""Snappy as xerial's SnappyOutputStream (Java) writes it: a header, then chunks, each with its length before it."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import cramjam

_MAGIC = b"\x82SNAPPY\x00"
_VERSIONS = Struct(">ii")
_HEADER_SIZE = len(_MAGIC) + _VERSIONS.size
_VERSION = _COMPATIBLE_VERSION = 1
_LENGTH = Struct(">i")
_CHUNK_BYTES = 32 << 10
"""Block size of SnappyOutputStream."""
CHUNK_BYTES_MAX = 8 << 20
"""Maximum decompressed size of a chunk. A chunk is decompressed in one call, during which all other clients wait.

Clients that write a whole batch as one chunk limit the batch to max.message.bytes before compression.
"""


class ChunkTooLarge(Exception):
    """A chunk decompresses to more bytes than allowed."""


def snappy_chunks(data: bytes | bytearray | memoryview, bytes_max: int) -> Iterator[bytes]:
    """Yield the decompressed content of each chunk. Data without a header is one chunk, as non-Java clients write it.

    A chunk declares its decompressed size, so no chunk above `bytes_max` or CHUNK_BYTES_MAX is decompressed. Raises
    ChunkTooLarge, ValueError, and cramjam.DecompressionError.
    """
    view = memoryview(data)
    if view[: len(_MAGIC)] != _MAGIC or len(view) < _HEADER_SIZE:
        yield _unpacked(view, bytes_max)
        return
    if _VERSIONS.unpack_from(view, len(_MAGIC))[1] < _COMPATIBLE_VERSION:
        raise ValueError("a version that is too old")
    at = _HEADER_SIZE
    while len(view) - at >= _LENGTH.size:
        if view[at : at + len(_MAGIC)] == _MAGIC:
            # A second header in the data means that two streams were joined, so skip it.
            at += _HEADER_SIZE
            continue
        (size,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if size < 0 or at + size > len(view):
            raise ValueError("a chunk that ends early")
        yield _unpacked(view[at : at + size], bytes_max)
        at += size


def _unpacked(chunk: memoryview, bytes_max: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(chunk)
    if size > min(bytes_max, CHUNK_BYTES_MAX):
        raise ChunkTooLarge(f"a chunk of {size} bytes")
    return bytes(cramjam.snappy.decompress_raw(chunk))


class SnappyWriter:
    """Writes a stream of snappy chunks."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._out = bytearray(_MAGIC + _VERSIONS.pack(_VERSION, _COMPATIBLE_VERSION))

    def add(self, data: bytes | bytearray | memoryview) -> bytes:
        """Compress more data. Return the chunks that are ready."""
        self._waiting += data
        full = len(self._waiting) - len(self._waiting) % _CHUNK_BYTES
        view = memoryview(self._waiting)
        for at in range(0, full, _CHUNK_BYTES):
            self._write(bytes(view[at : at + _CHUNK_BYTES]))
        view.release()
        del self._waiting[:full]
        return self._taken()

    def finish(self) -> bytes:
        """Return the last chunk."""
        if self._waiting:
            self._write(bytes(self._waiting))
        return self._taken()

    def _write(self, chunk: bytes) -> None:
        packed = bytes(cramjam.snappy.compress_raw(chunk))
        self._out += _LENGTH.pack(len(packed)) + packed

    def _taken(self) -> bytes:
        taken = bytes(self._out)
        self._out.clear()
        return taken

"""Codecs of record batches and message sets: gzip, snappy, lz4 and zstd, as in Kafka's `compress` package.

Untrusted data is decompressed in pieces and up to a limit, because a batch does not declare its decompressed size. gzip
and zstd return pieces of the requested size, lz4 and snappy one block at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum

import cramjam

from zabka.kafka.lz4_frame import Lz4FrameWriter, lz4_blocks
from zabka.kafka.snappy_chunks import ChunkTooLarge, SnappyWriter, snappy_chunks

try:
    # Python's own zstd implementation, available since 3.14.
    from compression.zstd import ZstdDecompressor, ZstdError  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from backports.zstd import ZstdDecompressor, ZstdError

EXPANDED_BYTES_MAX = 64 << 20
"""Maximum decompressed size of a batch; larger batches are rejected.

Kafka has no such limit. 5,000,000 of the smallest records fit into it.
"""
ZSTD_BYTES_MAX = 16 << 20
"""Maximum decompressed size of a producer's zstd batch. The decompressor may buffer all of it until the end."""
PIECE_BYTES = 16 << 10
"""Maximum size of a piece of gzip, zstd and uncompressed data. An lz4 block can have 4 MiB."""

_GZIP_WINDOW = 31
_GZIP_START = b"\x1f\x8b\x08"
_INPUT_BYTES = 8 << 10
Data = bytes | bytearray | memoryview


class Codec(IntEnum):
    """A compression codec: the three lowest bits of a batch's attributes (CompressionType.java)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODECS = {"uncompressed": Codec.NONE} | {codec.name.lower(): codec for codec in Codec if codec}
"""Codecs by their names in compression.type (BrokerCompressionType.java)."""
DEFAULT_LEVELS = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Default compression levels of the codecs that have levels."""


class CompressionError(Exception):
    """The data cannot be decompressed. The message gives the reason."""


class ExpandsTooFar(CompressionError):
    """The data decompresses to more bytes than allowed."""


# ---- unpacking ------------------------------------------------------------------------------------------------


def unpacked(codec: Codec, data: Data, bytes_max: int = EXPANDED_BYTES_MAX, magic: int = 2) -> Iterator[Data]:
    """Yield the decompressed `data` in pieces, some of them empty, so that the caller can do other work in between.

    `magic` is the magic number of the batch or message: in messages of magic 0, lz4 frames have a wrong header
    checksum. Raises CompressionError, and ExpandsTooFar before more than `bytes_max` bytes have been decompressed.
    """
    left = bytes_max
    try:
        for piece in _pieces(codec, data, bytes_max, magic):
            left -= len(piece)
            if left < 0:
                raise ExpandsTooFar(f"more than {bytes_max} bytes are in a batch of {len(data)}")
            yield piece
    except ChunkTooLarge as wrong:
        raise ExpandsTooFar(f"snappy: {wrong}") from None
    except (cramjam.DecompressionError, zlib.error, ZstdError, ValueError) as wrong:
        raise CompressionError(f"{codec.name.lower()}: {wrong}") from None


def unpack(codec: Codec, data: Data, bytes_max: int = EXPANDED_BYTES_MAX, magic: int = 2) -> bytes:
    """Return all decompressed `data`. Raises the same exceptions as `unpacked`."""
    return b"".join(unpacked(codec, data, bytes_max, magic))


def _pieces(codec: Codec, data: Data, bytes_max: int, magic: int) -> Iterator[Data]:
    if codec is Codec.GZIP:
        return _gzip_pieces(data)
    if codec is Codec.SNAPPY:
        return snappy_chunks(data, bytes_max)
    if codec is Codec.LZ4:
        return lz4_blocks(data, header_is_checked=magic > 0)
    if codec is Codec.ZSTD:
        return _zstd_pieces(data)
    return _plain_pieces(data)


def _plain_pieces(data: Data) -> Iterator[Data]:
    view = memoryview(data)
    for at in range(0, len(view), PIECE_BYTES):
        yield bytes(view[at : at + PIECE_BYTES])


def _gzip_pieces(data: Data) -> Iterator[Data]:
    """Yield the content of every member of a gzip file. Ignore trailing bytes that are not a member, as Java does."""
    view = memoryview(data)
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
    for at in range(0, len(view), _INPUT_BYTES):
        rest: Data = view[at : at + _INPUT_BYTES]
        while rest:
            yield unpacker.decompress(rest, PIECE_BYTES)
            rest = unpacker.unconsumed_tail
            if unpacker.eof:
                following = len(view) - at - min(_INPUT_BYTES, len(view) - at) + len(unpacker.unused_data)
                begins = bytes(view[len(view) - following : len(view) - following + len(_GZIP_START)])
                if begins != _GZIP_START:
                    return
                rest = unpacker.unused_data
                unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
    while not unpacker.eof:
        piece = unpacker.decompress(unpacker.unconsumed_tail, PIECE_BYTES)
        if not piece:
            raise ValueError("it ends early")
        yield piece


def _zstd_pieces(data: Data) -> Iterator[Data]:
    """Yield the content of every frame, one after another, as zstd-jni's stream does."""
    view = memoryview(data)
    unpacker, is_whole = ZstdDecompressor(), False
    for at in range(0, len(view), _INPUT_BYTES):
        rest: Data = view[at : at + _INPUT_BYTES]
        while rest or not unpacker.needs_input:
            piece = unpacker.decompress(rest, PIECE_BYTES)
            is_whole = unpacker.eof
            rest = b""
            if is_whole:
                rest = unpacker.unused_data
                unpacker = ZstdDecompressor()
            yield piece
            is_whole = is_whole and not rest
    if not is_whole:
        raise ValueError("it ends early")


# ---- packing --------------------------------------------------------------------------------------------------


class Packer:
    """Compresses data in pieces. `level` is the compression level, None for the codec's default.

    `magic` has the same meaning as for `unpacked`.
    """

    def __init__(self, codec: Codec, level: int | None = None, magic: int = 2) -> None:
        level = DEFAULT_LEVELS.get(codec, 0) if level is None else level
        self._add: Callable[[Data], bytes]
        self._end: Callable[[], bytes]
        if codec is Codec.GZIP:
            gzip = zlib.compressobj(level, wbits=_GZIP_WINDOW)
            self._add, self._end = gzip.compress, gzip.flush
        elif codec is Codec.SNAPPY:
            snappy = SnappyWriter()
            self._add, self._end = snappy.add, snappy.finish
        elif codec is Codec.LZ4:
            lz4 = Lz4FrameWriter(None if level == DEFAULT_LEVELS[codec] else level, header_is_checked=magic > 0)
            self._add, self._end = lz4.add, lz4.finish
        elif codec is Codec.ZSTD:
            zstd = _ZstdPacker(level)
            self._add, self._end = zstd.add, zstd.finish
        else:
            self._add, self._end = bytes, bytes

    def add(self, data: Data) -> bytes:
        """Compress more data. Return the compressed bytes that are ready."""
        return self._add(data)

    def finish(self) -> bytes:
        """Finish the compression. Return the remaining compressed bytes."""
        return self._end()


class _ZstdPacker:
    def __init__(self, level: int) -> None:
        self._packer = cramjam.zstd.Compressor(level=level)

    def add(self, data: Data) -> bytes:
        self._packer.compress(bytes(data))
        return b""

    def finish(self) -> bytes:
        return bytes(self._packer.finish())


def pack(codec: Codec, data: Data, level: int | None = None, magic: int = 2) -> bytes:
    """Return all of `data` compressed."""
    packer = Packer(codec, level, magic)
    return packer.add(data) + packer.finish()

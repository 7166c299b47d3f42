from __future__ import annotations

import gzip
import tracemalloc
from random import Random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zabka.kafka.compression import (
    DEFAULT_LEVELS,
    EXPANDED_BYTES_MAX,
    PIECE_BYTES,
    Codec,
    CompressionError,
    ExpandsTooFar,
    Packer,
    pack,
    unpack,
    unpacked,
)
from zabka.kafka.lz4_frame import short_xxh32
from zabka.kafka.snappy_chunks import CHUNK_BYTES_MAX

PACKED = [codec for codec in Codec if codec is not Codec.NONE]
LEVELS = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-5, 22)}
COMPRESSIBLE = b"some text that comes again and again, " * 20_000


def zeros_packed_by_others(codec: Codec, size: int) -> bytes:
    """Return zeros compressed by another encoder."""
    data = bytes(size)
    if codec is Codec.GZIP:
        return gzip.compress(data)
    if codec is Codec.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    return bytes((cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd).compress(data))


@given(st.sampled_from(Codec), st.binary(max_size=3_000), st.integers(0, 200), st.sampled_from((0, 2)))
def test_compressed_data_round_trips(codec: Codec, data: bytes, times: int, magic: int) -> None:
    assert unpack(codec, pack(codec, data * times, magic=magic), magic=magic) == data * times


@pytest.mark.parametrize("codec", PACKED)
def test_data_compressed_in_chunks_round_trips(codec: Codec) -> None:
    packer = Packer(codec)
    random = Random(codec)
    packed, at = [], 0
    while at < len(COMPRESSIBLE):
        size = random.choice((1, 100, 70_000))
        packed.append(packer.add(COMPRESSIBLE[at : at + size]))
        at += size
    packed.append(packer.finish())
    assert unpack(codec, b"".join(packed)) == COMPRESSIBLE


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec in LEVELS for level in LEVELS[codec]])
def test_output_of_every_compression_level_is_decompressed(codec: Codec, level: int) -> None:
    assert DEFAULT_LEVELS[codec] != level
    packed = pack(codec, COMPRESSIBLE, level)
    assert unpack(codec, packed) == COMPRESSIBLE and len(packed) < len(COMPRESSIBLE) / 5


@pytest.mark.parametrize("codec", PACKED)
def test_other_libraries_decompress_our_data(codec: Codec) -> None:
    packed = pack(codec, COMPRESSIBLE)
    if codec is Codec.GZIP:
        assert gzip.decompress(packed) == COMPRESSIBLE
    elif codec is Codec.SNAPPY:
        assert packed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    else:
        assert bytes((cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd).decompress(packed)) == COMPRESSIBLE


@pytest.mark.parametrize("codec", PACKED)
def test_data_that_expands_too_far_is_rejected_in_low_memory(codec: Codec) -> None:
    size, bound = 48 << 20, 1 << 20
    packed = zeros_packed_by_others(codec, size)
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError):
            unpack(codec, packed, bound)
        assert tracemalloc.get_traced_memory()[1] < 12 * bound
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_decompression_limit_defaults_to_the_module_constant(codec: Codec) -> None:
    fits, too_large = (zeros_packed_by_others(codec, EXPANDED_BYTES_MAX + more) for more in (0, 1))
    assert sum(map(len, unpacked(codec, fits))) == EXPANDED_BYTES_MAX
    with pytest.raises(ExpandsTooFar):
        for _ in unpacked(codec, too_large):
            pass


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_decompressed_data_is_returned_in_small_chunks(codec: Codec) -> None:
    pieces = list(unpacked(codec, zeros_packed_by_others(codec, 8 << 20)))
    assert max(map(len, pieces)) == PIECE_BYTES and sum(map(len, pieces)) == 8 << 20


def test_consecutive_zstd_frames_are_decompressed() -> None:
    skippable = b"\x50\x2a\x4d\x18\2\0\0\0ab"
    one, other = pack(Codec.ZSTD, b"one" * 9_000), pack(Codec.ZSTD, b"other")
    assert unpack(Codec.ZSTD, one + skippable + other) == b"one" * 9_000 + b"other"
    for wrong in (b"", one[:-1], one + b"g", one + other[:7], skippable + b"behind"):
        with pytest.raises(CompressionError):
            unpack(Codec.ZSTD, wrong)


def test_snappy_chunk_over_the_size_limit_is_rejected() -> None:
    fits, too_large = (cramjam.snappy.compress_raw(bytes(CHUNK_BYTES_MAX + more)) for more in (0, 1))
    assert len(unpack(Codec.SNAPPY, bytes(fits))) == CHUNK_BYTES_MAX
    with pytest.raises(ExpandsTooFar):
        unpack(Codec.SNAPPY, bytes(too_large))


@given(st.sampled_from(PACKED), st.binary(max_size=300))
def test_garbage_raises_only_compression_errors(codec: Codec, garbage: bytes) -> None:
    for magic in (0, 2):
        try:
            unpack(codec, garbage, magic=magic)
        except CompressionError:
            continue


@given(st.sampled_from(PACKED), st.data())
def test_damaged_data_raises_only_compression_errors(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(pack(codec, COMPRESSIBLE[:5_000]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(1, len(packed))) :]
    try:
        unpack(codec, packed, 1 << 20)
    except CompressionError:
        return


def test_checksum_of_an_lz4_frame_header_is_xxh32() -> None:
    # Results of the reference implementation with seed 0.
    assert (short_xxh32(b""), short_xxh32(b"a"), short_xxh32(b"abc")) == (0x02CC5D05, 0x550D7456, 0x32D153FF)


def test_checksum_of_a_compressed_block_is_verified() -> None:
    compressor = cramjam.lz4.Compressor(block_linked=False, content_checksum=True)
    compressor.compress(COMPRESSIBLE)
    assert unpack(Codec.LZ4, bytes(compressor.finish())) == COMPRESSIBLE
    block = bytes(cramjam.lz4.compress_block(b"x" * 500, store_size=False))
    described = b"\x70\x40"
    frame = b"\x04\x22\x4d\x18" + described + bytes([short_xxh32(described) >> 8 & 0xFF])
    frame += len(block).to_bytes(4, "little") + block + b"\1\2\3\4" + bytes(4)
    with pytest.raises(CompressionError):
        unpack(Codec.LZ4, frame)

"""Snappy streams in snappy-java's framing: read completely with any write and read size, or rejected."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from zabka.ensemble.ids import Epoch, make_zxid
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.restoring import read_received
from zabka.ensemble.txnlog.snappy_stream import BLOCK_BYTES, SnappyDamaged, SnappyReader, SnappyWriter
from zabka.ensemble.txnlog.snapshots import read_snapshot, stage_snapshot

HEADER = b"\x82SNAPPY\0" + bytes.fromhex("0000000100000001")


def packed(*parts: bytes) -> bytes:
    raw = io.BytesIO()
    writer = SnappyWriter(raw)
    for part in parts:
        writer.write(part)
    writer.close()
    return raw.getvalue()


def unpacked(data: bytes, size: int = -1) -> bytes:
    reader = SnappyReader(io.BytesIO(data))
    out = bytearray()
    while part := reader.read(size):
        out += part
    return bytes(out)


@pytest.mark.parametrize("size", [1, 1000, BLOCK_BYTES, -1])
def test_compressed_data_is_decompressed_from_chunks_of_any_size(size: int) -> None:
    text = b"all is written down " * 4000
    data = packed(text[:3], text[3:50_000], text[50_000:])
    assert data.startswith(HEADER) and len(data) < len(text) // 4
    assert unpacked(data, size if size != 1 else 999) == text
    assert unpacked(packed(), size) == b""


def test_every_snappy_block_is_preceded_by_its_size() -> None:
    (size,) = struct.unpack(">i", packed(b"abc")[16:20])
    assert packed(b"abc")[20:] == bytes([3, 2 << 2]) + b"abc" and size == 5


@pytest.mark.parametrize("cut", [0, 7, 18, 22])
def test_truncated_snappy_stream_is_malformed(cut: int) -> None:
    with pytest.raises(SnappyDamaged):
        unpacked(packed(b"abcdefgh" * 9)[:cut])


@pytest.mark.parametrize("block", [b"\xff\xff\xff\xff\x7f0", b"\x7fabc", b"\0", b"\x80"])
def test_snappy_block_with_a_wrong_length_reserves_no_memory(block: bytes) -> None:
    with pytest.raises(SnappyDamaged):
        unpacked(HEADER + struct.pack(">i", len(block)) + block)
    with pytest.raises(SnappyDamaged):
        unpacked(HEADER + struct.pack(">i", 1 << 30) + block)


def test_compressed_snapshot_is_recognized_by_name_or_content(tmp_path: Path) -> None:
    empty = DataTree().to_snapshot()
    path = tmp_path / "snapshot.100000007.snappy"
    stage_snapshot(path, TreeSnapshot(make_zxid(Epoch(1), 7), {}, empty.nodes, empty.digest), ".snappy")
    assert read_snapshot(path).digest == read_received(path).digest == empty.digest
    assert read_received(path).zxid == make_zxid(Epoch(1), 7)

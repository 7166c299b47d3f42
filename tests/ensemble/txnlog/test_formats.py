"""Our files on disk have the same bytes as ZooKeeper's."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import ACL, OPEN_ACL, OpCode
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import CreateTxn, SetDataTxn, Txn
from zabka.ensemble.txnlog.log import ZEROS_AHEAD_BYTES, LogWriter, read_log
from zabka.ensemble.txnlog.records import LOG_HEADER, Damage, frame_record, whole_record_after
from zabka.ensemble.txnlog.snapshot_format import TreeDecoder, encode_tree
from zabka.ensemble.txnlog.snapshots import SnapshotDamaged, read_snapshot, write_snapshot

REAL = Path(__file__).parent / "written_by_zookeeper_3_9_5"


def node(path: str, data: bytes | None = b"", acl: tuple[ACL, ...] = OPEN_ACL, owner: int = 0) -> NodeImage:
    return NodeImage(path, data, acl, 1, 2, 3, 4, 5, 6, 7, owner, 8)


def some_snapshot(zxid: int = 0x100000005) -> TreeSnapshot:
    private = (ACL(31, "digest", "u:x"), ACL(1, "world", "anyone"))
    nodes = [node(""), node("/a", None), node("/a/b", b"x" * 70_000, private), node("/a/ü", b"1", owner=-5)]
    return TreeSnapshot(Zxid(zxid), {SessionId(-5): 4000, SessionId(7): 10_000}, nodes, (1 << 64) - 3)


def a_txn(zxid: int, data: bytes = b"v") -> Txn:
    return Txn(SessionId(1), 2, Zxid(zxid), 3, OpCode.SET_DATA, SetDataTxn("/a", data, 1), 99)


def test_log_of_zookeeper_is_decoded_and_encodes_identically() -> None:
    raw, scanned = read_log(REAL / "log.100000001")
    assert scanned.damage is Damage.NONE
    assert [txn.zxid for txn in scanned.txns] == [0x100000001 + i for i in range(31)]
    first = scanned.txns[1]
    assert isinstance(first.body, CreateTxn)
    assert (first.body.path, first.body.data) == ("/a", b"hello")
    again = [Txn(t.session_id, t.cxid, t.zxid, t.time_ms, t.type, t.body, t.digest) for t in scanned.txns]
    assert LOG_HEADER + b"".join(frame_record(txn) for txn in again) == raw[: scanned.end]


def test_snapshot_of_zookeeper_is_decoded_with_all_checksums() -> None:
    snapshot = read_snapshot(REAL / "snapshot.10000001f")
    assert snapshot.zxid == 0x10000001F
    assert list(snapshot.sessions.values()) == [10_000]
    assert {image.path: image.data for image in snapshot.nodes}["/a"] == b"multi"
    assert snapshot.digest == 19108315368


def test_any_changed_byte_of_a_snapshot_is_detected(tmp_path: Path) -> None:
    raw = (REAL / "snapshot.10000001f").read_bytes()
    path = tmp_path / "snapshot.10000001f"
    for offset in range(16, len(raw), 7):
        path.write_bytes(raw[:offset] + bytes([raw[offset] ^ 0x55]) + raw[offset + 1 :])
        with pytest.raises(SnapshotDamaged):
            read_snapshot(path)


def test_truncation_of_required_snapshot_parts_is_detected(tmp_path: Path) -> None:
    raw = (REAL / "snapshot.10000001f").read_bytes()
    path = tmp_path / "snapshot.10000001f"
    optional = {len(raw) - 21, len(raw) - 21 - 33}
    for end in range(len(raw)):
        path.write_bytes(raw[:end])
        if end in optional:
            assert read_snapshot(path).zxid == 0x10000001F
        else:
            with pytest.raises(SnapshotDamaged):
                read_snapshot(path)


def test_snapshot_decodes_to_the_encoded_tree(tmp_path: Path) -> None:
    snapshot = some_snapshot()
    written = write_snapshot(tmp_path, snapshot)
    assert written.zxid == snapshot.zxid
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot.100000005"]
    assert read_snapshot(tmp_path / "snapshot.100000005") == snapshot


@pytest.mark.parametrize("step", [1, 3, 1000, 100_000])
def test_streamed_tree_is_decoded_from_chunks_of_any_size(step: int) -> None:
    snapshot = some_snapshot()
    if step == 1:
        snapshot = TreeSnapshot(snapshot.zxid, snapshot.sessions, [node(""), node("/x", b"123")], 1)
    raw = b"".join(encode_tree(snapshot)) + b"behind"
    decoder = TreeDecoder()
    for start in range(0, len(raw), step):
        decoder.feed(raw[start : start + step])
    assert decoder.done
    assert decoder.rest == b"behind"
    assert decoder.snapshot(snapshot.zxid, snapshot.digest) == snapshot


def test_log_is_preallocated_and_named_after_its_first_zxid(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, preallocate_bytes=4096)
    writer.append([a_txn(0x10000000A)])
    for zxid in range(0x10000000B, 0x10000000F):
        writer.append([a_txn(zxid, b"x" * 1500)])
    writer.sync()
    path = tmp_path / "log.10000000a"
    assert path.stat().st_size % 4096 != 1
    raw, scanned = read_log(path)
    assert scanned.damage is Damage.NONE
    assert [txn.zxid for txn in scanned.txns] == [0x10000000A + i for i in range(5)]
    assert raw[scanned.end :].strip(b"\0") == b""
    writer.roll()
    writer.append([a_txn(0x200000001)])
    writer.roll()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.10000000a", "log.200000001"]


def test_file_blocks_are_allocated_before_their_records(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    blocks: list[int] = []
    records = 2 * ZEROS_AHEAD_BYTES // len(frame_record(a_txn(0x100000001, b"x" * 900))) - 1
    for number in range(records):
        writer.append([a_txn(0x100000001 + number, b"x" * 900)])
        writer.sync()
        blocks.append((tmp_path / "log.100000001").stat().st_blocks)
    assert len(set(blocks)) <= 3, "not with every few records, but 256 KiB at a time"
    raw, scanned = read_log(tmp_path / "log.100000001")
    assert scanned.damage is Damage.NONE and len(scanned.txns) == records
    assert len(raw) <= scanned.end + ZEROS_AHEAD_BYTES + 4096, "the rest of the file is still a hole"


@pytest.mark.parametrize("gap", [0, 1, 3, 4, 11, 12, 13, 500, 16_000_000])
def test_complete_record_is_found_after_damage_and_zeros(gap: int) -> None:
    record = frame_record(a_txn(0x100000001))
    zeros = bytes(gap)
    at = whole_record_after(b"x" + zeros + record + bytes(50), 0)
    assert at is not None and at == 1 + gap
    assert whole_record_after(b"x" + zeros + record[:-1] + b"C" + zeros, 0) is None

"""A flipped byte on disk is detected, reported and never used as data.

Records that may have been acknowledged are requested from the leader again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ensemble.txnlog.test_formats import REAL, a_txn, some_snapshot
from tests.ensemble.txnlog.test_recovery import EPOCH_1, counters, directories_with
from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.txnlog import losses
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import LogWriter, read_log
from zabka.ensemble.txnlog.log_reading import LogReader
from zabka.ensemble.txnlog.losses import ASIDE_PREFIX, MARKER_NAME
from zabka.ensemble.txnlog.records import HEADER, frame_record
from zabka.ensemble.txnlog.recovery import RecoveryPolicy, recover, replace_history, truncate
from zabka.ensemble.txnlog.snapshots import SnapshotDamaged, read_snapshot, write_snapshot
from zabka.ensemble.zab.effects import ReadLog

ONE_OF_THREE = RecoveryPolicy(other_voters=2)
FLIPS = (0x01, 0xFF)


def flip(raw: bytes, offset: int, bits: int) -> bytes:
    return raw[:offset] + bytes([raw[offset] ^ bits]) + raw[offset + 1 :]


def refill(directory: Path, source: Path) -> None:
    for path in list(directory.iterdir()):
        path.unlink()
    shutil.copytree(source, directory, dirs_exist_ok=True)


def test_flipped_log_byte_is_detected_and_never_loses_history(tmp_path: Path) -> None:
    """A flipped byte anywhere in the log is detected, and no acknowledged record is lost.

    The test covers every record and every field: checksum, length, transaction and closing byte.
    """
    good = tmp_path / "good"
    good.mkdir()
    directories_with(good, range(1, 3))
    raw, scanned = read_log(good / "log.100000001")
    used = raw[: scanned.end]
    work = tmp_path / "work"
    work.mkdir()
    directories = Directories(work, work)
    path = work / "log.100000001"
    for offset in range(HEADER.size, len(used)):
        for bits in FLIPS:
            refill(work, good)
            path.write_bytes(flip(used, offset, bits) + bytes(300))
            recovery = recover(directories, ONE_OF_THREE)
            whole = [txn.zxid - EPOCH_1 for txn in recovery.recovered.txns]
            assert whole == [1, 2][: len(whole)]
            assert [txn.encoded() for txn in recovery.recovered.txns] == [a_txn(EPOCH_1 + n).encoded() for n in whole]
            assert whole == [1, 2] or not recovery.recovered.complete, f"{offset}: {bits:#x}"
            assert [damage.file for damage in recovery.damages] == [path.name]
            # The disk contains a mark for the loss, so a second recovery (as after a crash at this time) must have the
            # same result.
            assert recover(directories, ONE_OF_THREE).recovered.complete == recovery.recovered.complete


def test_flipped_log_byte_stops_the_only_peer_or_has_no_effect(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    path = tmp_path / "log.100000001"
    raw, scanned = read_log(path)
    used = raw[: scanned.end]
    for offset in range(HEADER.size, len(used)):
        path.write_bytes(flip(used, offset, 0x40) + bytes(300))
        try:
            assert counters(directories) == [1, 2, 3]
        except DataDirectoryError as refused:
            assert path.name in str(refused) and "at offset" in str(refused)
        assert not (tmp_path / MARKER_NAME).exists()


@pytest.mark.parametrize("bits", FLIPS)
def test_any_flipped_byte_of_zookeepers_log_is_detected(tmp_path: Path, bits: int) -> None:
    raw, scanned = read_log(REAL / "log.100000001")
    expected = [txn.encoded() for txn in scanned.txns]
    path = tmp_path / "log.100000001"
    for offset in range(HEADER.size, scanned.end, 3):
        path.write_bytes(flip(raw[: scanned.end], offset, bits) + bytes(100))
        _, found = read_log(path)
        got = [txn.encoded() for txn in found.txns]
        assert got == expected[: len(got)]
        assert len(got) < len(expected) or found.unclosed


def test_any_flipped_byte_of_a_snapshot_is_detected(tmp_path: Path) -> None:
    """A flipped byte anywhere in a snapshot is detected, both in our snapshot and in ZooKeeper's."""
    ours = some_snapshot()
    small = ours.nodes[:2] + ours.nodes[3:]
    write_snapshot(tmp_path, type(ours)(ours.zxid, ours.sessions, small, ours.digest))
    for source in (tmp_path / "snapshot.100000005", REAL / "snapshot.10000001f"):
        raw = source.read_bytes()
        path = tmp_path / f"x-{source.name}"
        for offset in range(len(raw)):
            path.write_bytes(flip(raw, offset, 1 << offset % 8))
            with pytest.raises(SnapshotDamaged):
                read_snapshot(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_in_a_larger_log_never_change_a_txn(tmp_path: Path, data: st.DataObject) -> None:
    txns = [a_txn(EPOCH_1 + n, b"%d" % n * (n % 50)) for n in range(1, 200)]
    raw = bytes(HEADER.pack(0x5A4B4C47, 2, 0)) + b"".join(frame_record(txn) for txn in txns)
    damaged = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER.size, len(raw) - 1))
        damaged[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "log.100000001"
    path.write_bytes(bytes(damaged) + bytes(500))
    _, found = read_log(path)
    assert [txn.encoded() for txn in found.txns] == [txn.encoded() for txn in txns[: len(found.txns)]]
    requested = ReadLog(LinkId(1), Zxid(EPOCH_1), Zxid(EPOCH_1), 0.0)
    read = LogReader(Directories(tmp_path, tmp_path)).read(requested)
    assert [txn.encoded() for txn in read or []] == [txn.encoded() for txn in txns[: len(read or [])]]


def test_damaged_log_file_and_later_ones_are_set_aside(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 6), range(6, 9))
    path = tmp_path / "log.100000001"
    raw, scanned = read_log(path)
    path.write_bytes(flip(raw, scanned.ends[2] + 20, 0xFF))
    recovery = recover(directories, ONE_OF_THREE)
    assert [txn.zxid - EPOCH_1 for txn in recovery.recovered.txns] == [1, 2, 3]
    damage = recovery.damages[0]
    assert (damage.file, damage.offset) == (path.name, scanned.ends[2])
    assert damage.reason == "bad checksum behind 0x100000003"
    assert (tmp_path / f"{ASIDE_PREFIX}log.100000001").read_bytes()[: scanned.end] == flip(
        raw, scanned.ends[2] + 20, 0xFF
    )[: scanned.end]
    assert (tmp_path / f"{ASIDE_PREFIX}log.100000006").exists() and not (tmp_path / "log.100000006").exists()
    # The leader sends all lost transactions again. The mark of the loss is deleted once their epoch is on disk.
    writer = LogWriter(tmp_path)
    writer.append([a_txn(EPOCH_1 + n) for n in range(4, 9)])
    writer.roll()
    assert not recover(directories, ONE_OF_THREE).recovered.complete
    losses.clear(tmp_path)
    assert recover(directories, ONE_OF_THREE).recovered.complete
    assert counters(directories) == list(range(1, 9))


def test_damage_to_the_only_snapshot_is_reported(tmp_path: Path) -> None:
    """A damaged snapshot is not ignored if there is no other snapshot.

    After a SNAP there is no older data, so the peer would vote with an empty history.
    """
    directories = directories_with(tmp_path, snapshots=(EPOCH_1 + 9,))
    path = tmp_path / "snapshot.100000009"
    path.write_bytes(flip(path.read_bytes(), 200, 0xFF))
    with pytest.raises(DataDirectoryError, match=r"snapshot\.100000009 is damaged, and without it the history ends at"):
        recover(directories)
    recovery = recover(directories, ONE_OF_THREE)
    assert not recovery.recovered.complete and recovery.recovered.snapshot is None
    assert not recover(directories, ONE_OF_THREE).recovered.complete


def test_snapshot_with_the_file_name_of_a_later_one_is_rejected(tmp_path: Path) -> None:
    """A snapshot file is rejected if its name has a later zxid than its content.

    Such a file can be a misnamed copy. If it were used, the transactions between the two zxids would be lost without
    notice.
    """
    directories = directories_with(tmp_path, snapshots=(0, EPOCH_1 + 2))
    (tmp_path / "snapshot.100000002").rename(tmp_path / "snapshot.100000004")
    with pytest.raises(DataDirectoryError, match=r"snapshot\.100000004 is damaged"):
        recover(directories)
    recovery = recover(directories, ONE_OF_THREE)
    assert not recovery.recovered.complete
    assert "it ends at 0x100000002" in recovery.damages[0].reason


def test_logs_without_a_snapshot_are_trusted_if_configured(tmp_path: Path) -> None:
    """Logs without a snapshot are accepted if snapshot.trust.empty is set.

    This key is for upgrades from servers that wrote no snapshot at startup.
    """
    directories = directories_with(tmp_path, range(1, 4), snapshots=())
    recovered = recover(directories, RecoveryPolicy(trusts_empty=True)).recovered
    assert [txn.zxid - EPOCH_1 for txn in recovered.txns] == [1, 2, 3]
    assert recovered.complete
    with pytest.raises(DataDirectoryError, match=r"snapshot\.trust\.empty=true"):
        recover(directories, ONE_OF_THREE)


@pytest.mark.parametrize("content", [b"", b"\x82SNAPPY\0", b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\0\0\0\x09abc"])
def test_damaged_snappy_snapshot_is_skipped_like_a_plain_one(tmp_path: Path, content: bytes) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    (tmp_path / "snapshot.100000003.snappy").write_bytes(content)
    recovery = recover(directories, ONE_OF_THREE)
    assert [txn.zxid - EPOCH_1 for txn in recovery.recovered.txns] == [1, 2, 3]
    assert [damage.file for damage in recovery.damages] == ["snapshot.100000003.snappy"]


def test_incomplete_history_of_a_single_peer_is_reported(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    (tmp_path / MARKER_NAME).write_text("why")
    assert not recover(directories, ONE_OF_THREE).recovered.complete
    with pytest.raises(DataDirectoryError, match="no other voter to take them from"):
        recover(directories)


def test_peer_doubts_its_tree_until_its_history_is_replaced(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    losses.note_doubt(tmp_path)
    for _ in range(2):
        recovered = recover(directories, ONE_OF_THREE).recovered
        assert recovered.in_doubt and recovered.complete and len(recovered.txns) == 3
        losses.clear(tmp_path)
    with pytest.raises(DataDirectoryError, match="no other voter to take it from"):
        recover(directories)
    replace_history(directories, some_snapshot(EPOCH_1 + 9))
    assert not recover(directories).recovered.in_doubt


@pytest.mark.parametrize("flipped", [1, 2, 3])
def test_log_damage_before_the_truncation_point_is_reported(tmp_path: Path, flipped: int) -> None:
    """Damage before the position of a truncation is reported.

    In a TRUNC to transaction 4, the records from the damage up to transaction 4 count as lost: they were acknowledged,
    and the truncation was not supposed to remove them.
    """
    directories = directories_with(tmp_path, range(1, 7))
    path = tmp_path / f"log.{EPOCH_1 + 1:x}"
    raw = bytearray(path.read_bytes())
    raw[read_log(path)[1].ends[flipped - 1] - 3] ^= 1
    path.write_bytes(raw)
    recovery = truncate(directories, EPOCH_1 + 4, RecoveryPolicy(other_voters=2))
    assert [txn.zxid - EPOCH_1 for txn in recovery.recovered.txns] == list(range(1, flipped))
    assert not recovery.recovered.complete
    assert [damage.file for damage in recovery.damages] == [path.name]


def test_log_damage_after_the_truncation_point_is_removed(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 7))
    path = tmp_path / f"log.{EPOCH_1 + 1:x}"
    raw = bytearray(path.read_bytes())
    raw[read_log(path)[1].ends[4] - 3] ^= 1
    path.write_bytes(raw)
    recovered = truncate(directories, EPOCH_1 + 4, RecoveryPolicy(other_voters=2)).recovered
    assert [txn.zxid - EPOCH_1 for txn in recovered.txns] == [1, 2, 3, 4] and recovered.complete

"""Recovery from a data directory that is complete or damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ensemble.txnlog.test_formats import a_txn, some_snapshot
from zabka.ensemble.ids import zxid_text
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.directory import open_directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT, write_epoch
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import LogWriter, list_logs, read_log
from zabka.ensemble.txnlog.losses import clear
from zabka.ensemble.txnlog.records import LOG_HEADER, frame_record
from zabka.ensemble.txnlog.recovery import (
    REPLACEMENT_NAME,
    REPLACING_NAME,
    RecoveryPolicy,
    purge,
    recover,
    replace_history,
    truncate,
)
from zabka.ensemble.txnlog.snapshots import list_snapshots, stage_snapshot, write_snapshot

EPOCH_1 = 1 << 32


def directories_with(tmp_path: Path, *logs: range, snapshots: tuple[int, ...] = (0,), epoch: int = 1) -> Directories:
    for zxid in snapshots:
        write_snapshot(tmp_path, some_snapshot(zxid))
    for zxids in logs:
        writer = LogWriter(tmp_path, preallocate_bytes=8192)
        writer.append([a_txn(EPOCH_1 + n) for n in zxids])
        writer.roll()
    write_epoch(tmp_path, ACCEPTED, epoch)
    write_epoch(tmp_path, CURRENT, epoch)
    return Directories(tmp_path, tmp_path)


def counters(directories: Directories) -> list[int]:
    return [txn.zxid - EPOCH_1 for txn in recover(directories).recovered.txns]


def damage_log(path: Path, offset: int, data: bytes) -> None:
    raw = bytearray(path.read_bytes())
    raw[offset : offset + len(data)] = data
    path.write_bytes(raw)


def test_empty_directory_recovers_to_an_empty_history(tmp_path: Path) -> None:
    directories, _ = open_directories(tmp_path, tmp_path)
    recovered = recover(directories).recovered
    assert (recovered.accepted_epoch, recovered.current_epoch, recovered.snapshot, recovered.txns) == (0, 0, None, [])


def test_recovery_reads_the_newest_snapshot_and_the_log_after_it(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 6), range(6, 9), snapshots=(0, EPOCH_1 + 4))
    recovered = recover(directories).recovered
    assert recovered.snapshot is not None
    assert recovered.snapshot.zxid == EPOCH_1 + 4
    assert counters(directories) == [5, 6, 7, 8]


def test_recovery_reports_damaged_snapshot_and_uses_an_older_one(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 6), snapshots=(0, EPOCH_1 + 4))
    damage_log(tmp_path / "snapshot.100000004", 100, b"????")
    recovery = recover(directories)
    assert recovery.recovered.snapshot is not None
    assert recovery.recovered.snapshot.zxid == 0
    assert counters(directories) == [1, 2, 3, 4, 5]
    assert recovery.damages[0].file == "snapshot.100000004"


def test_incomplete_last_record_is_dropped_and_reported(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    path = tmp_path / "log.100000001"
    raw, scanned = read_log(path)
    begin, end = scanned.ends[1], scanned.ends[2]
    for cut in range(begin, end + 1):
        path.write_bytes(raw[:cut] + bytes(512))
        recovery = recover(directories)
        # If only the record's closing byte is missing, its checksum shows that the record is complete.
        whole = cut >= end - 1
        assert counters(directories) == ([1, 2, 3] if whole else [1, 2])
        if cut == end - 1:
            assert [damage.action for damage in recovery.damages] == ["closed again"]
        # If all remaining bytes are zero, they cannot be told apart from preallocated space, so no damage is reported.
        if raw[begin:cut].strip(b"\0") and not whole:
            assert [damage.action for damage in recovery.damages] == ["cut off"]
            assert path.stat().st_size == begin


def test_log_ending_within_a_record_is_truncated(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    path = tmp_path / "log.100000001"
    raw, scanned = read_log(path)
    path.write_bytes(raw[: scanned.ends[2] - 5])
    assert counters(directories) == [1, 2]


def test_log_record_with_a_bad_checksum_is_reported_and_rejected(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 6))
    path = tmp_path / "log.100000001"
    end = read_log(path)[1].ends[1]
    damage_log(path, end + 30, b"\xff\xff")
    with pytest.raises(DataDirectoryError, match=rf"bad checksum at offset {end}, behind 0x100000002"):
        recover(directories)


@pytest.mark.parametrize("hole", [b"\0" * 12, b"\0\0\0\0\1\1\1\1\0\0\0\x20"])
def test_lost_log_bytes_before_later_transactions_are_rejected(tmp_path: Path, hole: bytes) -> None:
    directories = directories_with(tmp_path, range(1, 6))
    path = tmp_path / "log.100000001"
    damage_log(path, read_log(path)[1].ends[1], hole)
    with pytest.raises(DataDirectoryError, match="further transactions at offset"):
        recover(directories)


def test_gap_between_log_files_is_rejected(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4), range(5, 6))
    with pytest.raises(DataDirectoryError, match="goes from 0x100000003 to 0x100000005"):
        recover(directories)


def test_gap_between_the_snapshot_and_the_log_is_rejected(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(7, 9), snapshots=(EPOCH_1 + 4,))
    with pytest.raises(DataDirectoryError, match="transactions are missing"):
        recover(directories)


def test_transactions_without_any_snapshot_are_rejected(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4), snapshots=())
    with pytest.raises(DataDirectoryError, match=r"there is no snapshot.*snapshot\.trust\.empty=true"):
        recover(directories)


def test_error_names_the_unknown_file_in_the_data_directory(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    (tmp_path / "log.100000009").write_bytes(b"#!/bin/sh\necho hello to you\n")
    with pytest.raises(DataDirectoryError, match="not a ZooKeeper transaction log"):
        recover(directories)


def test_log_file_without_a_header_is_ignored(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    for content in (b"", bytes(4096), LOG_HEADER[:5]):
        (tmp_path / "log.100000004").write_bytes(content)
        assert counters(directories) == [1, 2, 3]
    writer = LogWriter(tmp_path)
    writer.append([a_txn(EPOCH_1 + 4)])
    writer.roll()
    assert counters(directories) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("accepted", "current", "message"),
    [
        (b"0", b"0", "older than the last transaction 0x100000003"),
        (b"1", b"2", "less than currentEpoch"),
        (b"1", b"one", "instead of an epoch"),
        (b"", b"1", "instead of an epoch"),
        (b"-1", b"1", "instead of an epoch"),
    ],
)
def test_epoch_files_that_contradict_the_history_are_rejected(
    tmp_path: Path, accepted: bytes, current: bytes, message: str
) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    (tmp_path / ACCEPTED).write_bytes(accepted)
    (tmp_path / CURRENT).write_bytes(current)
    with pytest.raises(DataDirectoryError, match=message):
        recover(directories)


def test_missing_epoch_files_default_to_the_last_logged_epoch(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    (tmp_path / ACCEPTED).unlink()
    (tmp_path / CURRENT).unlink()
    recovered = recover(directories).recovered
    assert (recovered.accepted_epoch, recovered.current_epoch) == (1, 1)
    assert (tmp_path / CURRENT).read_bytes() == b"1"


def test_epoch_file_written_but_not_renamed_is_used(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    (tmp_path / CURRENT).write_bytes(b"0")
    (tmp_path / "currentEpoch.tmp").write_bytes(b"1")
    assert recover(directories).recovered.current_epoch == 1


def test_transactions_synced_before_their_epoch_are_accepted(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    (tmp_path / CURRENT).write_bytes(b"0")
    recovered = recover(directories).recovered
    assert (recovered.accepted_epoch, recovered.current_epoch) == (1, 0)


def test_truncation_keeps_exactly_the_history_up_to_its_zxid(tmp_path: Path) -> None:
    for to in range(1, 9):
        directory = tmp_path / str(to)
        directory.mkdir()
        directories = directories_with(directory, range(1, 4), range(4, 9), snapshots=(0, EPOCH_1 + 5))
        recovery = truncate(directories, EPOCH_1 + to)
        assert recovery.recovered.snapshot is not None
        assert recovery.recovered.snapshot.zxid == (0 if to < 5 else EPOCH_1 + 5)
        last = recovery.recovered.txns[-1].zxid if recovery.recovered.txns else recovery.recovered.snapshot.zxid
        assert last == EPOCH_1 + to
        writer = LogWriter(directory)
        writer.append([a_txn(EPOCH_1 + to + 1, b"another")])
        writer.roll()
        assert recover(directories).recovered.txns[-1] == a_txn(EPOCH_1 + to + 1, b"another")


def test_truncation_to_a_snapshots_zxid_keeps_the_snapshot(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 9), snapshots=(EPOCH_1 + 5,))
    recovered = truncate(directories, EPOCH_1 + 5).recovered
    assert recovered.snapshot is not None and recovered.snapshot.zxid == EPOCH_1 + 5 and recovered.txns == []


def test_truncation_without_an_old_snapshot_changes_no_file(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 9), snapshots=(EPOCH_1 + 5,))
    with pytest.raises(DataDirectoryError, match=f"at or before {zxid_text(EPOCH_1 + 3)}"):
        truncate(directories, EPOCH_1 + 3)
    assert counters(directories) == [6, 7, 8]


def test_replaced_history_removes_the_old_files(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 9), snapshots=(0, EPOCH_1 + 7))
    replace_history(directories, some_snapshot(EPOCH_1 + 3))
    assert [path.name for _, path in list_snapshots(tmp_path)] == ["snapshot.100000003"]
    assert list_logs(tmp_path) == []
    assert counters(directories) == []


def test_interrupted_replacement_keeps_one_complete_history(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 9), snapshots=(0, EPOCH_1 + 7))
    stage_snapshot(tmp_path / REPLACEMENT_NAME, some_snapshot(EPOCH_1 + 3))
    assert counters(directories) == [8]
    assert not (tmp_path / REPLACEMENT_NAME).exists()
    for renamed in (False, True):
        staged = tmp_path / REPLACEMENT_NAME
        stage_snapshot(staged, some_snapshot(EPOCH_1 + 3))
        (tmp_path / REPLACING_NAME).write_text("100000003")
        if renamed:
            staged.rename(tmp_path / "snapshot.100000003")
        recovered = recover(directories).recovered
        assert recovered.snapshot is not None
        assert (recovered.snapshot.zxid, recovered.txns) == (EPOCH_1 + 3, [])
        assert not (tmp_path / REPLACING_NAME).exists()


def test_incompletely_written_snapshot_is_ignored(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 3))
    (tmp_path / ".snapshot.tmp").write_bytes(b"ZKSN")
    assert recover(directories).damages == []
    assert not (tmp_path / ".snapshot.tmp").exists()


def test_purge_keeps_newest_snapshots_and_their_logs(tmp_path: Path) -> None:
    directories = directories_with(
        tmp_path, range(1, 4), range(4, 7), range(7, 9), snapshots=(0, EPOCH_1 + 3, EPOCH_1 + 5, EPOCH_1 + 8)
    )
    purge(directories, 2)
    assert [zxid - EPOCH_1 for zxid, _ in list_snapshots(tmp_path)] == [5, 8]
    assert [zxid - EPOCH_1 for zxid, _ in list_logs(tmp_path)] == [4, 7]
    (tmp_path / "snapshot.100000008").unlink()
    assert counters(directories) == [6, 7, 8]


def test_two_processes_cannot_share_a_data_directory(tmp_path: Path) -> None:
    _, locks = open_directories(tmp_path, tmp_path)
    with pytest.raises(DataDirectoryError, match="in use by process"):
        open_directories(tmp_path, tmp_path)
    locks[0].release()
    _, again = open_directories(tmp_path, tmp_path)
    again[0].release()


def test_data_directory_of_a_broker_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("broker.id=1\n")
    with pytest.raises(DataDirectoryError, match="belongs to a Kafka broker"):
        open_directories(tmp_path, tmp_path)


def test_logs_in_data_dir_are_read_even_with_a_data_log_dir(tmp_path: Path) -> None:
    (tmp_path / "d" / "version-2").mkdir(parents=True)
    (tmp_path / "d" / "version-2" / "log.1").write_bytes(LOG_HEADER + frame_record(a_txn(1)))
    with pytest.raises(DataDirectoryError, match="is a transaction log, but dataLogDir"):
        open_directories(tmp_path / "d", tmp_path / "l")


def test_unusable_data_directory_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="cannot be used"):
        open_directories(tmp_path / "file" / "data", tmp_path / "file" / "data")


def test_recovery_rewrites_the_newest_log_to_make_it_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery writes the last log again to make it durable.

    After a failed sync the kernel treats the file's pages as clean, so that another sync would write nothing.
    """
    directories = directories_with(tmp_path, range(1, 4), range(4, 6))
    (_, before), (_, last) = list_logs(tmp_path)
    content = [path.read_bytes() for path in (before, last)]
    written: list[tuple[str, bytes]] = []
    pwrite, fsync = os.pwrite, os.fsync

    def name_of(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def note_write(descriptor: int, data: bytes, at: int) -> int:
        written.append((name_of(descriptor), bytes(data)))
        return pwrite(descriptor, data, at)

    def note_sync(descriptor: int) -> None:
        written.append((name_of(descriptor), b"synced"))
        fsync(descriptor)

    monkeypatch.setattr(HOST, "pwrite", note_write)
    monkeypatch.setattr(HOST, "fsync", note_sync)
    assert counters(directories) == [1, 2, 3, 4, 5]
    (name, data), synced = written
    assert (name, synced) == (last.name, (last.name, b"synced"))
    assert content[1].startswith(data.rstrip(b"\0")) and data.rstrip(b"\0").endswith(b"B")
    assert [path.read_bytes() for path in (before, last)] == content


def test_fallback_snapshot_before_a_damaged_log_is_not_used(tmp_path: Path) -> None:
    """An older snapshot is not used together with a log that follows a damaged log.

    The zxids do not show whether transactions at the end of an epoch are missing, so the result would seem complete.
    """
    epoch_2 = 2 << 32
    directories = directories_with(tmp_path, range(1, 5), snapshots=(0, EPOCH_1 + 4), epoch=2)
    (_, path), policy = list_logs(tmp_path)[0], RecoveryPolicy(other_voters=2)
    damage_log(path, len(LOG_HEADER) + len(frame_record(a_txn(EPOCH_1 + 1))) + 30, b"?")
    found = recover(directories, policy)
    assert found.recovered.snapshot is not None and found.recovered.snapshot.zxid == EPOCH_1 + 4
    assert not found.recovered.complete and found.damages[0].action == "set aside"
    clear(tmp_path)
    writer = LogWriter(tmp_path, preallocate_bytes=8192)
    writer.append([a_txn(epoch_2 + 1)])
    writer.roll()
    assert recover(directories, policy).recovered.complete
    damage_log(list_snapshots(tmp_path)[-1][1], 40, b"?")
    left = recover(directories, policy).recovered
    assert (left.complete, left.snapshot, left.txns) == (False, None, [])

"""Storage tasks other than logs and snapshots: marks for a doubtful history, memberships, and purges.

Also tests how the storage reports its failures.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.ensemble.txnlog.test_formats import some_snapshot
from tests.ensemble.txnlog.test_recovery import EPOCH_1, directories_with
from tests.ensemble.txnlog.test_storage import Owner, appends
from zabka.ensemble.ids import Epoch, LinkId, PeerId, Zxid
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.txnlog.directory import open_directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import list_logs
from zabka.ensemble.txnlog.losses import DOUBT_NAME, MARKER_NAME
from zabka.ensemble.txnlog.recovery import RecoveryPolicy, purge, recover
from zabka.ensemble.txnlog.snapshots import list_snapshots
from zabka.ensemble.zab.effects import (
    Barrier,
    Effect,
    ReadLog,
    SaveCurrentEpoch,
    SaveDoubt,
    SaveMembership,
    SaveNextMembership,
)
from zabka.ensemble.zab.membership import Membership

ONE_OF_THREE = RecoveryPolicy(other_voters=2)


class Memberships:
    """Fake membership files that record which memberships were saved."""

    def __init__(self) -> None:
        self.saved: list[tuple[str, Membership]] = []

    def save(self, membership: Membership) -> None:
        self.saved.append(("in force", membership))

    def save_next(self, membership: Membership) -> None:
        self.saved.append(("next", membership))


def settled(owner: Owner) -> None:
    """Wait until all submissions have completed and the owner was notified."""
    owner.storage.close()
    while not owner.posted.empty():
        owner.run_one()


def test_memberships_are_written_in_order_if_their_files_are_set(tmp_path: Path) -> None:
    one, two = Membership(1, (PeerId(1),)), Membership(2, (PeerId(1),))
    effects: list[Effect] = [SaveNextMembership(two), SaveMembership(one), SaveMembership(two), Barrier(1)]
    files = Memberships()
    owner = Owner(directories_with(tmp_path), memberships=files)
    owner.storage.submit(effects)
    settled(owner)
    assert files.saved == [("next", two), ("in force", one), ("in force", two)] and owner.tokens == [[1]]
    without = Owner(directories_with(tmp_path))
    without.storage.submit(effects)
    settled(without)
    assert without.tokens == [[1]] and not without.failures


def test_saved_epoch_clears_incomplete_sync_but_not_the_doubt(tmp_path: Path) -> None:
    owner = Owner(directories_with(tmp_path))
    (tmp_path / MARKER_NAME).write_text("why")
    owner.storage.submit([SaveDoubt(), SaveCurrentEpoch(Epoch(1)), Barrier(1)])
    settled(owner)
    assert (tmp_path / DOUBT_NAME).exists() and not (tmp_path / MARKER_NAME).exists()
    recovered = recover(owner.directories, ONE_OF_THREE).recovered
    assert recovered.in_doubt and recovered.complete


@pytest.mark.parametrize(("retained", "left"), [(0, [0, 1, 2]), (2, [1, 2])])
def test_finished_snapshot_purges_older_ones_if_configured(tmp_path: Path, retained: int, left: list[int]) -> None:
    """A finished snapshot purges older ones if autopurge.snapRetainCount is set.

    With 0, old snapshots are purged only by PurgeTxnLog.
    """
    owner = Owner(directories_with(tmp_path), retain_snapshots=retained)
    for counter in (1, 2):
        owner.storage.submit([*appends(counter), Barrier(counter)])
        owner.storage.take_snapshot(some_snapshot(EPOCH_1 + counter))
        while len(owner.snapshots) < counter:
            owner.run_one()
    settled(owner)
    assert [zxid for zxid, _ in list_snapshots(tmp_path)] == [EPOCH_1 + n if n else 0 for n in left]


@pytest.mark.parametrize(
    ("retain", "snapshots", "logs"),
    [
        (1, [8], [7]),
        (2, [5, 8], [4, 7]),
        (3, [3, 5, 8], [1, 4, 7]),
        (4, [0, 3, 5, 8], [1, 4, 7]),
        (9, [0, 3, 5, 8], [1, 4, 7]),
    ],
)
def test_purge_keeps_the_retained_snapshots_and_later_files(
    tmp_path: Path, retain: int, snapshots: list[int], logs: list[int]
) -> None:
    zxids = [EPOCH_1 + n if n else 0 for n in (0, 3, 5, 8)]
    directories = directories_with(tmp_path, range(1, 4), range(4, 7), range(7, 9), snapshots=tuple(zxids))
    purge(directories, retain)
    assert [zxid & 0xFFFFFFFF for zxid, _ in list_snapshots(tmp_path)] == snapshots
    assert [zxid - EPOCH_1 for zxid, _ in list_logs(tmp_path)] == logs


def test_failed_purge_of_old_files_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(directories_with(tmp_path), retain_snapshots=1)

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    owner.storage.take_snapshot(some_snapshot(EPOCH_1 + 1))
    monkeypatch.setattr(HOST, "unlink", lambda path: fail(path) if path.name == "snapshot.0" else None)
    while not owner.failures:
        owner.run_one()
    assert owner.failures == ["the disk failed: [Errno 5] Input/output error"] and not owner.snapshots


def test_snapshot_too_large_for_the_disk_is_reported_with_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(directories_with(tmp_path))

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(HOST, "fsync", fail)
    owner.storage.take_snapshot(some_snapshot(EPOCH_1 + 1))
    owner.run_one()
    assert len(owner.failures) == 1 and owner.failures[0].startswith("the disk is full for the snapshot")
    settled(owner)
    assert [zxid for zxid, _ in list_snapshots(tmp_path)] == [0]


def test_unreadable_log_is_reported_and_not_sent_to_a_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(directories_with(tmp_path, range(1, 4)))

    def fail(descriptor: int, size: int, at: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(HOST, "pread", fail)
    owner.storage.read_log(ReadLog(LinkId(1), Zxid(EPOCH_1), Zxid(EPOCH_1), 0.0))
    for _ in range(2):
        owner.run_one()
    assert owner.warnings == ["the log cannot be read for a learner: [Errno 5] Input/output error"]
    assert owner.read == [(EPOCH_1, None)]
    owner.storage.close()


def test_storage_sends_no_callbacks_to_a_closed_event_loop(tmp_path: Path) -> None:
    owner = Owner(directories_with(tmp_path))

    def closed(callback: object, *args: object) -> None:
        raise RuntimeError("Event loop is closed")

    owner.storage._post = closed
    owner.storage.submit([*appends(1), Barrier(1)])
    owner.storage.close()
    assert [txn.zxid for txn in recover(owner.directories).recovered.txns] == [EPOCH_1 + 1] and owner.tokens == []


def test_snapshots_in_the_log_directory_are_reported(tmp_path: Path) -> None:
    """Snapshots in dataLogDir are reported at startup.

    ZooKeeper also checks both directories (FileTxnSnapLog.checkLogDir and checkSnapDir).
    """
    (tmp_path / "l" / "version-2").mkdir(parents=True)
    (tmp_path / "l" / "version-2" / "snapshot.1").write_bytes(b"")
    with pytest.raises(DataDirectoryError, match="is a snapshot in dataLogDir"):
        open_directories(tmp_path / "d", tmp_path / "l")


def test_separate_data_and_log_directories_are_both_locked(tmp_path: Path) -> None:
    apart, locks = open_directories(tmp_path / "d", tmp_path / "l")
    assert (apart.data, apart.log) == (tmp_path / "d" / "version-2", tmp_path / "l" / "version-2") and len(locks) == 2
    for lock in locks:
        lock.release()
    same, locks = open_directories(tmp_path / "d", tmp_path / "d")
    assert same.data == same.log and len(locks) == 1
    locks[0].release()

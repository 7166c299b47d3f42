"""An uploaded snapshot that replaces all data: it is recognized by its content, and used at the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ensemble.txnlog.test_formats import REAL
from zabka.ensemble.ids import Epoch, Zxid, make_zxid
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT, read_epoch, write_epoch
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.losses import MARKER_NAME
from zabka.ensemble.txnlog.recovery import RecoveryPolicy, recover
from zabka.ensemble.txnlog.restoring import (
    ARRIVING_NAME,
    EPOCHS_AHEAD,
    RECEIVED_NAME,
    keep_received,
    read_received,
    take_received,
)
from zabka.ensemble.txnlog.snapshots import list_snapshots, stage_snapshot, write_snapshot

ZXID = make_zxid(Epoch(5), 7)


def snapshot(zxid: Zxid = ZXID) -> TreeSnapshot:
    empty = DataTree().to_snapshot()
    return TreeSnapshot(zxid, {}, empty.nodes, empty.digest)


def file_of(directory: Path, zxid: Zxid = ZXID, suffix: str = "") -> bytes:
    stage_snapshot(directory / "made", snapshot(zxid), suffix)
    return (directory / "made").read_bytes()


@pytest.mark.parametrize("suffix", ["", ".gz", ".snappy"])
def test_snapshot_compression_is_detected_from_the_first_bytes(tmp_path: Path, suffix: str) -> None:
    (tmp_path / RECEIVED_NAME).write_bytes(file_of(tmp_path, suffix=suffix))
    read = read_received(tmp_path / RECEIVED_NAME)
    assert (read.zxid, read.digest) == (ZXID, snapshot().digest)


def test_snapshot_of_zookeeper_contains_its_own_zxid() -> None:
    assert read_received(REAL / "snapshot.10000001f").zxid == 0x10000001F


def test_uploaded_snapshot_is_synced_before_and_after_its_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ARRIVING_NAME).write_bytes(b"x")
    done: list[tuple[str, str]] = []
    rename = HOST.rename

    def note_rename(path: Path, to: Path) -> None:
        done.append(("named", to.name))
        rename(path, to)

    def note_sync(descriptor: int) -> None:
        done.append(("synced", Path(f"/proc/self/fd/{descriptor}").readlink().name))

    monkeypatch.setattr(HOST, "rename", note_rename)
    monkeypatch.setattr(HOST, "fsync", note_sync)
    keep_received(tmp_path)
    assert done == [("synced", ARRIVING_NAME), ("named", RECEIVED_NAME), ("synced", tmp_path.name)]


def test_partial_snapshot_upload_is_removed_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / ARRIVING_NAME).write_bytes(b"x")
    assert take_received(Directories(tmp_path, tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_restore_completes_despite_a_damaged_previous_history(tmp_path: Path) -> None:
    write_snapshot(tmp_path, snapshot(make_zxid(Epoch(1), 3)))
    (tmp_path / MARKER_NAME).write_text("why")
    (tmp_path / RECEIVED_NAME).write_bytes(file_of(tmp_path))
    assert take_received(Directories(tmp_path, tmp_path)) == ZXID
    assert recover(Directories(tmp_path, tmp_path), RecoveryPolicy(other_voters=2)).recovered.complete
    assert not (tmp_path / RECEIVED_NAME).exists()


def test_restored_snapshot_replaces_all_files_but_the_epochs(tmp_path: Path) -> None:
    directories = Directories(tmp_path, tmp_path)
    for zxid in (make_zxid(Epoch(1), 3), make_zxid(Epoch(9), 1)):
        write_snapshot(tmp_path, snapshot(zxid))
    for epoch, expected in ((2, 5), (9, 9)):
        for name in (ACCEPTED, CURRENT):
            write_epoch(tmp_path, name, epoch)
        (tmp_path / RECEIVED_NAME).write_bytes(file_of(tmp_path))
        assert take_received(directories) == ZXID
        assert [zxid for zxid, _ in list_snapshots(tmp_path)] == [ZXID]
        assert (read_epoch(tmp_path, ACCEPTED), read_epoch(tmp_path, CURRENT)) == (expected, expected)
        assert recover(directories).recovered.snapshot is not None
    assert take_received(directories) is None


def test_interrupted_restore_is_completed_at_the_next_start(tmp_path: Path) -> None:
    directories = Directories(tmp_path, tmp_path)
    write_snapshot(tmp_path, snapshot(make_zxid(Epoch(1), 3)))
    (tmp_path / RECEIVED_NAME).write_bytes(file_of(tmp_path))
    assert take_received(directories) == ZXID
    # Write the uploaded file again, as if a crash had occurred before the file was removed and the epochs were written.
    (tmp_path / RECEIVED_NAME).write_bytes(file_of(tmp_path))
    write_epoch(tmp_path, CURRENT, 1)
    assert take_received(directories) == ZXID
    assert read_epoch(tmp_path, CURRENT) == 5


def test_damaged_restored_snapshot_is_rejected_in_one_line(tmp_path: Path) -> None:
    (tmp_path / RECEIVED_NAME).write_bytes(b"rotten")
    with pytest.raises(DataDirectoryError, match=r"which was to be restored: .*; remove it to go on without"):
        take_received(Directories(tmp_path, tmp_path))


def test_second_restore_starts_a_later_epoch_than_the_first(tmp_path: Path) -> None:
    """A second restore yields the same tree as the first one, but in a later epoch."""
    directories = Directories(tmp_path, tmp_path)
    write_epoch(tmp_path, ACCEPTED, 5)
    for epoch in (5 + EPOCHS_AHEAD, 5 + 2 * EPOCHS_AHEAD):
        (tmp_path / RECEIVED_NAME).write_bytes(file_of(tmp_path))
        assert take_received(directories, 3) == make_zxid(Epoch(epoch), 3)
        recovered = recover(directories, RecoveryPolicy(other_voters=2)).recovered
        assert recovered.complete and recovered.snapshot is not None
        assert list(recovered.snapshot.nodes) == list(snapshot().nodes)
        assert (recovered.accepted_epoch, recovered.current_epoch) == (epoch, epoch)


def test_concurrent_restores_end_at_different_zxids(tmp_path: Path) -> None:
    """Servers 1 and 2 restore different backups in the same epoch, and use different zxids.

    Equal zxids would hide that their trees differ.
    """
    found = []
    for server_id in (1, 2):
        data = tmp_path / str(server_id)
        data.mkdir()
        write_epoch(data, ACCEPTED, 5)
        (data / RECEIVED_NAME).write_bytes(file_of(data))
        found.append(take_received(Directories(data, data), server_id))
    assert found == [make_zxid(Epoch(5 + EPOCHS_AHEAD), 1), make_zxid(Epoch(5 + EPOCHS_AHEAD), 2)]

"""A start that recovery rejects changes no file, so that a later start can still use all data.

Damaged files are kept as well. Each case is one code path of `recovery.py` or `losses.py` that renames, truncates or
marks files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ensemble.txnlog.test_formats import a_txn
from tests.ensemble.txnlog.test_recovery import EPOCH_1, damage_log, directories_with
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import LogWriter, read_log
from zabka.ensemble.txnlog.losses import ASIDE_PREFIX, MARKER_NAME, UNCHANGED, copy_aside, note_doubt, set_aside
from zabka.ensemble.txnlog.newest_log import note_begun
from zabka.ensemble.txnlog.records import HEADER
from zabka.ensemble.txnlog.recovery import (
    LONE,
    REPLACEMENT_NAME,
    REPLACING_NAME,
    RecoveryPolicy,
    purge,
    recover,
)

ONE_OF_THREE = RecoveryPolicy(other_voters=2)
TRUSTS = RecoveryPolicy(other_voters=2, trusts_empty=True)
LOG_1, LOG_4 = f"log.{EPOCH_1 + 1:x}", f"log.{EPOCH_1 + 4:x}"


def content_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def refused(directory: Path, policy: RecoveryPolicy) -> str:
    """Start twice, check that both starts are rejected and change no file, and return the reason."""
    before = content_of(directory)
    reasons = []
    for _ in range(2):
        with pytest.raises(DataDirectoryError) as found:
            recover(directories_of(directory), policy)
        reasons.append(str(found.value))
        assert content_of(directory) == before
    assert reasons[0] == reasons[1]
    return reasons[0]


def directories_of(directory: Path) -> Directories:
    return Directories(directory, directory)


def found_in(directory: Path, policy: RecoveryPolicy = ONE_OF_THREE) -> list[int]:
    """Start, and return the counters of the recovered transactions."""
    return [txn.zxid - EPOCH_1 for txn in recover(directories_of(directory), policy).recovered.txns]


def corrupt(path: Path, number: int) -> None:
    """Change a byte in transaction `number` (counted from 1) of a log."""
    ends = [HEADER.size, *read_log(path)[1].ends]
    damage_log(path, ends[number - 1] + 30, b"\xff\xff")


def tear(path: Path) -> None:
    """Cut off a part of the log's last record, as a crash during its write does."""
    end = read_log(path)[1].ends[-1]
    path.write_bytes(path.read_bytes()[: end - 9])


# -- logs without a snapshot -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [LONE, ONE_OF_THREE])
@pytest.mark.parametrize("has_epochs", [True, False], ids=["epochs", "of-3.4"])
def test_start_with_logs_but_no_snapshot_is_rejected(tmp_path: Path, policy: RecoveryPolicy, has_epochs: bool) -> None:
    """A start with logs but no snapshot is rejected and changes no file.

    ZooKeeper 3.9.5 does the same, and reports "No snapshot found, but there are log entries. Something is broken!".
    """
    directories_with(tmp_path, range(1, 4), range(4, 21), snapshots=())
    if not has_epochs:
        for name in (ACCEPTED, CURRENT):
            (tmp_path / name).unlink()
    reason = refused(tmp_path, policy)
    assert "snapshot.trust.empty=true" in reason and UNCHANGED in reason and MARKER_NAME in reason
    assert found_in(tmp_path, TRUSTS) == list(range(1, 21))


@pytest.mark.parametrize("left", [0, 9, 60])
def test_truncated_snapshot_counts_as_missing(tmp_path: Path, left: int) -> None:
    """A truncated snapshot counts as missing.

    A full disk leaves truncated snapshots on all peers at the same time. ZooKeeper also skips such snapshots, and also
    requires snapshot.trust.empty=true to start without a snapshot.
    """
    directories_with(tmp_path, range(1, 6))
    path = tmp_path / "snapshot.0"
    path.write_bytes(path.read_bytes()[:left])
    assert "snapshot.trust.empty=true" in refused(tmp_path, ONE_OF_THREE)
    assert found_in(tmp_path, TRUSTS) == [1, 2, 3, 4, 5]


def test_incomplete_logs_without_a_snapshot_are_not_repaired(tmp_path: Path) -> None:
    """If there is no snapshot, the start is rejected before a torn log is repaired.

    The torn end is not removed, and a missing closing byte is not added.
    """
    directories_with(tmp_path, range(1, 4), range(4, 7), snapshots=())
    tear(tmp_path / LOG_4)
    damage_log(tmp_path / LOG_1, read_log(tmp_path / LOG_1)[1].ends[1] - 1, b"\0")
    refused(tmp_path, ONE_OF_THREE)
    assert found_in(tmp_path, TRUSTS) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("policy", [LONE, ONE_OF_THREE])
@pytest.mark.parametrize("head", [bytes(12), bytes(8) + b"\x00\x2d\xc6\xc0"], ids=["zeros", "long"])
def test_logs_with_a_damaged_first_record_are_rejected(tmp_path: Path, policy: RecoveryPolicy, head: bytes) -> None:
    """Logs whose first record is damaged are rejected, because complete records after it show that there was a
    history.
    """
    directories_with(tmp_path, range(1, 6), snapshots=())
    damage_log(tmp_path / LOG_1, HEADER.size, head)
    assert "has transactions from log.100000001 on" in refused(tmp_path, policy)


def test_empty_log_named_after_a_later_zxid_is_rejected(tmp_path: Path) -> None:
    """An empty log is rejected if its name has a later zxid than the first zxid of a new history.

    The name shows that earlier transactions existed. ZooKeeper takes the zxid in the name as that of the last logged
    transaction.
    """
    directories_with(tmp_path, range(1, 4), range(4, 5), snapshots=())
    tear(tmp_path / LOG_4)
    (tmp_path / LOG_1).unlink()
    assert "has transactions from log.100000004 on" in refused(tmp_path, ONE_OF_THREE)
    assert found_in(tmp_path, TRUSTS) == []


def test_log_whose_only_record_is_incomplete_can_be_used(tmp_path: Path) -> None:
    """A log that contains only a torn first record can be used.

    It is the result of a power loss during the very first write. That transaction was not acknowledged, and the leader
    sends it again.
    """
    directories_with(tmp_path, range(1, 2), snapshots=())
    tear(tmp_path / LOG_1)
    recovery = recover(directories_of(tmp_path), LONE)
    assert [damage.action for damage in recovery.damages] == ["cut off"]
    writer = LogWriter(tmp_path)
    writer.append([a_txn(EPOCH_1 + 1)])
    writer.roll()
    assert [txn.zxid for txn in read_log(tmp_path / LOG_1)[1].txns] == [EPOCH_1 + 1]


@pytest.mark.parametrize("policy", [RecoveryPolicy(trusts_empty=True), TRUSTS])
def test_trusted_logs_with_a_gap_are_rejected_and_unchanged(tmp_path: Path, policy: RecoveryPolicy) -> None:
    """Logs with a gap are rejected and not changed, even if logs without a snapshot are trusted.

    The first log was purged, or a byte changed, so these logs are not the complete history.
    """
    directories_with(tmp_path, range(1, 4), range(4, 7), snapshots=())
    whole = (tmp_path / LOG_1).read_bytes()
    corrupt(tmp_path / LOG_1, 2)
    reason = refused(tmp_path, policy)
    assert "put the snapshots, or the missing logs, back" in reason and f"empty file {tmp_path / MARKER_NAME}" in reason
    (tmp_path / LOG_1).unlink()
    assert "goes from 0x0 to 0x100000004" in refused(tmp_path, policy)
    (tmp_path / LOG_1).write_bytes(whole)
    assert found_in(tmp_path, policy) == [1, 2, 3, 4, 5, 6]


def test_directory_marked_as_damaged_without_logs_is_incomplete(tmp_path: Path) -> None:
    """A server whose logs were removed counts as incomplete if its directory contains the file that marks a loss.

    The error message recommends moving the logs and creating this file. Then the server's vote counts only after a
    leader has sent it all data.
    """
    directories_with(tmp_path, range(1, 4), snapshots=())
    (tmp_path / LOG_1).unlink()
    (tmp_path / MARKER_NAME).touch()
    recovered = recover(directories_of(tmp_path), ONE_OF_THREE).recovered
    assert (recovered.txns, recovered.complete) == ([], False)


# -- other rejections --------------------------------------------------------------------------------------------------


def gap(directory: Path) -> None:
    (directory / LOG_4).rename(directory / f"log.{EPOCH_1 + 2:x}")
    (directory / LOG_1).unlink()


def bad_checksum(directory: Path) -> None:
    corrupt(directory / LOG_1, 2)


def bad_snapshot(directory: Path) -> None:
    (directory / "snapshot.100000009").write_bytes((directory / "snapshot.0").read_bytes()[:-9])


def missing_newest(directory: Path) -> None:
    note_begun(directory, EPOCH_1 + 7)


def incomplete(directory: Path) -> None:
    (directory / MARKER_NAME).write_text("why")


def old_epoch(directory: Path) -> None:
    for name in (ACCEPTED, CURRENT):
        (directory / name).write_text("0")


def epoch_not_accepted(directory: Path) -> None:
    (directory / CURRENT).write_text("2")


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (gap, "restore the file from a backup"),
        (bad_checksum, "restore the file from a backup"),
        (bad_snapshot, "restore the file from a backup"),
        (missing_newest, "if that is meant, remove"),
        (incomplete, "remove it to go on without them"),
        (note_doubt, "remove it to go on with this one"),
        (old_epoch, "remove currentEpoch and acceptedEpoch"),
        (epoch_not_accepted, "remove acceptedEpoch"),
    ],
)
def test_rejected_standalone_start_changes_nothing(tmp_path: Path, spoil: Callable[[Path], None], remedy: str) -> None:
    """A standalone server whose start is rejected changes no file, even if other files need a repair.

    Here the last log is torn, and one of its records has no closing byte.
    """
    directories_with(tmp_path, range(1, 4), range(4, 7))
    damage_log(tmp_path / LOG_4, read_log(tmp_path / LOG_4)[1].ends[0] - 1, b"\0")
    tear(tmp_path / LOG_4)
    spoil(tmp_path)
    assert remedy in refused(tmp_path, LONE)


def test_unreadable_snapshot_from_a_leader_deletes_no_history(tmp_path: Path) -> None:
    """An unreadable snapshot from an interrupted SNAP sync does not cause the old history to be deleted.

    After a crash during the sync, the new snapshot is unreadable or missing, but the old history can still be used.
    """
    directories_with(tmp_path, range(1, 4))
    (tmp_path / REPLACING_NAME).write_bytes(b"200000005")
    assert f"rename {tmp_path / REPLACING_NAME} to {MARKER_NAME}" in refused(tmp_path, ONE_OF_THREE)
    (tmp_path / REPLACEMENT_NAME).write_bytes(b"half of it")
    refused(tmp_path, ONE_OF_THREE)
    (tmp_path / REPLACING_NAME).write_bytes(b"")
    assert f"rename {tmp_path / REPLACING_NAME} to {MARKER_NAME}" in refused(tmp_path, ONE_OF_THREE)
    (tmp_path / REPLACING_NAME).rename(tmp_path / MARKER_NAME)
    recovered = recover(directories_of(tmp_path), ONE_OF_THREE).recovered
    assert (len(recovered.txns), recovered.complete) == (3, False)


# -- damage that the leader repairs ------------------------------------------------------------------------------------


def put_back(directory: Path) -> None:
    """Restore as documented: give the copied files their original names again, and remove the mark of the loss."""
    for path in sorted(directory.glob(f"{ASIDE_PREFIX}*")):
        path.rename(directory / path.name.removeprefix(ASIDE_PREFIX))
    (directory / MARKER_NAME).unlink()


@pytest.mark.parametrize("number", [1, 2])
def test_copies_of_a_damaged_log_restore_the_original_directory(tmp_path: Path, number: int) -> None:
    """Restoring the copies of a damaged log gives the original directory.

    The server copies the log before it truncates it, and renames later logs.
    """
    directories_with(tmp_path, range(1, 4), range(4, 7))
    whole = content_of(tmp_path)
    corrupt(tmp_path / LOG_1, number)
    before = content_of(tmp_path)
    assert found_in(tmp_path) == list(range(1, number))
    put_back(tmp_path)
    after = content_of(tmp_path)
    assert {name: data.rstrip(b"\0") for name, data in after.items()} == {
        name: data.rstrip(b"\0") for name, data in before.items()
    }
    (tmp_path / LOG_1).write_bytes(whole[LOG_1])
    assert found_in(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_stored_copies_of_damaged_snapshot_restore_the_directory(tmp_path: Path) -> None:
    """Restoring the copies of a damaged snapshot gives the original directory.

    The logs are copied too, because they can be used only together with that snapshot.
    """
    directories_with(tmp_path, range(1, 4))
    before = content_of(tmp_path)
    damage_log(tmp_path / "snapshot.0", 60, b"\xff\xff")
    recovered = recover(directories_of(tmp_path), ONE_OF_THREE).recovered
    assert (recovered.txns, recovered.complete) == ([], False)
    put_back(tmp_path)
    (tmp_path / "snapshot.0").write_bytes(before["snapshot.0"])
    assert content_of(tmp_path) == before
    assert found_in(tmp_path) == [1, 2, 3]


def test_second_log_damage_does_not_overwrite_the_first_copy(tmp_path: Path) -> None:
    """When a log is damaged a second time, the copy that was made after the first damage is not overwritten.

    Only that copy contains the records after the first damage.
    """
    directories_with(tmp_path, range(1, 7))
    corrupt(tmp_path / LOG_1, 4)
    first = (tmp_path / LOG_1).read_bytes()
    assert found_in(tmp_path) == [1, 2, 3]
    corrupt(tmp_path / LOG_1, 2)
    assert found_in(tmp_path) == [1]
    kept = sorted(path.name for path in tmp_path.glob(f"{ASIDE_PREFIX}*"))
    assert kept == [f"{ASIDE_PREFIX}{LOG_1}", f"{ASIDE_PREFIX}{LOG_1}.2"]
    assert first.startswith((tmp_path / kept[0]).read_bytes().rstrip(b"\0"))
    path = tmp_path / "x"
    for content in (b"1", b"2", b"3"):
        path.write_bytes(content)
        set_aside(path)
    assert [(tmp_path / f"{ASIDE_PREFIX}x{end}").read_bytes() for end in ("", ".2", ".3")] == [b"1", b"2", b"3"]


def test_copy_of_a_log_is_durable_before_it_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, done = tmp_path / "log.1", []
    path.write_bytes(b"all of it")
    fsync, rename = HOST.fsync, HOST.rename

    def note_sync(descriptor: int) -> None:
        done.append("sync")
        fsync(descriptor)

    def note_rename(source: Path, to: Path) -> None:
        done.append(to.name)
        rename(source, to)

    monkeypatch.setattr(HOST, "fsync", note_sync)
    monkeypatch.setattr(HOST, "rename", note_rename)
    copy_aside(path)
    assert done == ["sync", f"{ASIDE_PREFIX}log.1", "sync"]
    assert (tmp_path / f"{ASIDE_PREFIX}log.1").read_bytes() == b"all of it"


def test_restored_log_is_used_after_its_loss_mark_is_removed(tmp_path: Path) -> None:
    """The newest log is used again after it was restored and the mark of its loss was removed.

    The dataLogDir was not mounted at an earlier start. That start only created the mark, which contains the name of the
    log.
    """
    directories_with(tmp_path, range(1, 4), range(4, 7))
    note_begun(tmp_path, EPOCH_1 + 4)
    newest = (tmp_path / LOG_4).read_bytes()
    (tmp_path / LOG_4).unlink()
    assert found_in(tmp_path) == [1, 2, 3]
    assert LOG_4 in (tmp_path / MARKER_NAME).read_text()
    (tmp_path / LOG_4).write_bytes(newest)
    (tmp_path / MARKER_NAME).unlink()
    recovered = recover(directories_of(tmp_path), ONE_OF_THREE).recovered
    assert (len(recovered.txns), recovered.complete) == (6, True)


def test_new_log_does_not_overwrite_an_unreadable_file(tmp_path: Path) -> None:
    """The server does not create a log over a file with content.

    An unreadable log with the same name can still contain transactions after its damage.
    """
    directories_with(tmp_path, range(1, 4))
    corrupt(tmp_path / LOG_1, 1)
    before = (tmp_path / LOG_1).read_bytes()
    with pytest.raises(DataDirectoryError, match="exists already"):
        LogWriter(tmp_path).append([a_txn(EPOCH_1 + 1)])
    assert (tmp_path / LOG_1).read_bytes() == before


def test_purge_counts_only_readable_snapshots(tmp_path: Path) -> None:
    """Purging counts only readable snapshots.

    Three newer files that a full disk left empty are no reason to delete the last readable snapshot.
    """
    directories = directories_with(tmp_path, range(1, 10), snapshots=(0, EPOCH_1 + 3, EPOCH_1 + 5))
    for counter in (6, 7, 8):
        (tmp_path / f"snapshot.{EPOCH_1 + counter:x}").touch()
    purge(directories, 3)
    assert len(directories.snapshots()) == 6
    purge(directories, 2)
    assert [zxid - EPOCH_1 for zxid, _ in directories.snapshots()] == [3, 5, 6, 7, 8]
    assert found_in(tmp_path) == [6, 7, 8, 9]


def test_start_killed_while_files_are_set_aside_can_be_repeated(tmp_path: Path) -> None:
    """A start that is killed while it renames damaged files can be repeated.

    Before the renames, the start creates the file that marks the loss. If this file exists, logs without a snapshot
    count as damage of this server only.
    """
    directories_with(tmp_path, range(1, 4), snapshots=())
    (tmp_path / MARKER_NAME).write_text("a damaged snapshot")
    recovered = recover(directories_of(tmp_path), ONE_OF_THREE).recovered
    assert (recovered.txns, recovered.complete) == ([], False)
    (tmp_path / MARKER_NAME).unlink()
    (tmp_path / f"{ASIDE_PREFIX}{LOG_1}").rename(tmp_path / LOG_1)
    assert found_in(tmp_path, TRUSTS) == [1, 2, 3]

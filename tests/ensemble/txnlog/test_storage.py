"""The storage thread: the order of writes, group commits, and what a completed barrier guarantees."""

from __future__ import annotations

import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ensemble.txnlog.test_formats import a_txn, some_snapshot
from tests.ensemble.txnlog.test_recovery import EPOCH_1, counters, directories_with
from zabka.ensemble.ids import Epoch, LinkId, Zxid
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import LogWriter, cut_file, list_logs, read_log
from zabka.ensemble.txnlog.log_reading import PIECE_TXNS, LogReader
from zabka.ensemble.txnlog.recovery import Recovery, RecoveryPolicy, recover, truncate
from zabka.ensemble.txnlog.snapshots import WrittenSnapshot, list_snapshots, write_snapshot
from zabka.ensemble.txnlog.storage import Storage
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    Effect,
    ReadLog,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    TruncateLog,
)

EPOCH_2 = 2 << 32
ONE_OF_THREE = RecoveryPolicy(other_voters=2)


class Owner:
    """Fake event loop: callbacks wait in a queue until the test runs them."""

    def __init__(
        self,
        directories: Directories,
        fsync_warning_ms: int = 60_000,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        **options: Any,
    ) -> None:
        self.directories = directories
        self.tokens: list[list[int]] = []
        self.truncated: list[Recovery] = []
        self.snapshots: list[WrittenSnapshot] = []
        self.spoiled = 0
        self.failures: list[str] = []
        self.warnings: list[str] = []
        self.read: list[tuple[int, list[int] | None]] = []
        self.posted: queue.Queue[tuple[Callable[..., None], tuple[object, ...]]] = queue.Queue()
        self.storage = Storage(
            directories,
            self,
            self._post,
            preallocate_bytes=8192,
            fsync_warning_ms=fsync_warning_ms,
            clock_ns=clock_ns,
            **options,
        )

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        self.posted.put((callback, args))

    def run_one(self) -> None:
        callback, args = self.posted.get(timeout=10)
        callback(*args)

    def on_durable(self, tokens: list[int]) -> None:
        self.tokens.append(tokens)

    def on_truncated(self, recovery: Recovery) -> None:
        self.truncated.append(recovery)

    def on_snapshot(self, written: WrittenSnapshot) -> None:
        self.snapshots.append(written)

    def on_snapshot_spoiled(self) -> None:
        self.spoiled += 1

    def on_log_read(self, link: LinkId, after: Zxid, txns: list[Txn] | None) -> None:
        self.read.append((after, [txn.zxid for txn in txns] if txns is not None else None))

    def on_storage_warning(self, line: str) -> None:
        self.warnings.append(line)

    def on_storage_failed(self, reason: str) -> None:
        self.failures.append(reason)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(directories_with(tmp_path, range(1, 3)))
    yield owner
    owner.storage.close()


def appends(*zxids: int) -> list[Effect]:
    return [Append([a_txn(EPOCH_1 + n)]) for n in zxids]


def test_writes_before_an_acknowledged_barrier_are_recoverable(owner: Owner) -> None:
    owner.storage.submit([*appends(3, 4), Barrier(1)])
    owner.run_one()
    assert owner.tokens == [[1]]
    assert counters(owner.directories) == [1, 2, 3, 4]


def test_appends_and_barriers_of_a_group_commit_share_one_sync(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(HOST, "fdatasync", lambda fd: (syncs.append(fd), real(fd))[1])
    group: list[Effect] = []
    for n in range(3, 53):
        group += [*appends(n), Barrier(n)]
    owner.storage.submit(group)
    owner.run_one()
    assert owner.tokens == [list(range(3, 53))]
    assert len(syncs) == 1
    assert counters(owner.directories) == list(range(1, 53))


def test_incompletely_written_batch_keeps_its_first_transactions(tmp_path: Path) -> None:
    owner = Owner(directories_with(tmp_path, range(1, 3)))
    owner.storage.submit([Append([a_txn(EPOCH_1 + n) for n in (3, 4, 5)]), Barrier(1)])
    owner.run_one()
    owner.storage.close()
    assert counters(owner.directories) == [1, 2, 3, 4, 5]
    path = list_logs(owner.directories.log)[-1][1]
    ends = read_log(path)[1].ends
    cut_file(path, ends[-2] + 7)
    assert counters(owner.directories) == [1, 2, 3, 4]


def test_disk_operations_are_executed_in_order(owner: Owner, tmp_path: Path) -> None:
    owner.storage.submit([SaveAcceptedEpoch(Epoch(2)), *appends(3), SaveCurrentEpoch(Epoch(2)), Barrier(1)])
    owner.run_one()
    assert (tmp_path / "acceptedEpoch").read_text() == (tmp_path / "currentEpoch").read_text() == "2"
    owner.storage.submit([*appends(4), TruncateLog(Zxid(EPOCH_1 + 2)), *appends(3), Barrier(2)])
    owner.run_one()
    owner.run_one()
    assert [txn.zxid for txn in owner.truncated[0].recovered.txns] == [EPOCH_1 + 1, EPOCH_1 + 2]
    assert counters(owner.directories) == [1, 2, 3]


def test_history_is_durable_before_its_epoch_is_written(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history that a learner has received is durable before the learner writes the epoch.

    Otherwise, after a power loss, the peer would vote with an epoch whose transactions it has lost.
    """
    done: list[str] = []
    fdatasync, rename = os.fdatasync, os.rename
    monkeypatch.setattr(HOST, "fdatasync", lambda descriptor: (done.append("log"), fdatasync(descriptor))[1])
    monkeypatch.setattr(HOST, "rename", lambda path, to: (done.append(to.name), rename(path, to))[1])
    owner.storage.submit([*appends(3), SaveCurrentEpoch(Epoch(2)), Barrier(1)])
    owner.run_one()
    assert done[-3:-1] == ["log", "currentEpoch"]


def test_closed_storage_cancels_its_snapshot(owner: Owner, tmp_path: Path) -> None:
    """Closing the storage cancels its snapshot.

    The event loop no longer runs the snapshot's steps, so its thread would wait forever.
    """
    owner.storage.take_snapshot(DataTree().to_snapshot())
    owner.storage.close()
    writing = owner.storage._snapshots._writing
    assert writing is not None and writing.work is not None and not writing.work.is_under_way()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".snapshot")]
    assert [zxid for zxid, _ in list_snapshots(tmp_path)] == [0]


def test_snapshot_of_the_running_peer_starts_a_new_log_file(owner: Owner, tmp_path: Path) -> None:
    owner.storage.submit([*appends(3), Barrier(1)])
    owner.storage.take_snapshot(some_snapshot(EPOCH_1 + 3))
    owner.storage.submit([*appends(4), Barrier(2)])
    for _ in range(3):
        owner.run_one()
    assert [written.zxid for written in owner.snapshots] == [EPOCH_1 + 3]
    assert [path.name for _, path in list_logs(tmp_path)] == ["log.100000001", "log.100000003", "log.100000004"]
    assert counters(owner.directories) == [4]


def test_damaged_snapshot_is_reported_by_the_next_snapshot(owner: Owner, tmp_path: Path) -> None:
    tree = DataTree()
    for _ in range(2):
        owner.storage.take_snapshot(tree.to_snapshot())
        while not owner.snapshots and not owner.spoiled:
            owner.run_one()
        if not owner.spoiled:
            written = owner.snapshots.pop()
            path = tmp_path / f"snapshot.{written.zxid:x}"
            raw = path.read_bytes()
            path.write_bytes(raw.replace(b"quota", b"quotb"))
    assert owner.spoiled == 1 and not owner.snapshots


def test_received_snapshot_replaces_the_history(owner: Owner, tmp_path: Path) -> None:
    owner.storage.submit([SaveSnapshot(some_snapshot(EPOCH_1 + 9), True), *appends(10), Barrier(1)])
    owner.run_one()
    owner.run_one()
    assert owner.tokens == [[1]]
    assert [zxid for zxid, _ in list_snapshots(tmp_path)] == [EPOCH_1 + 9]
    assert counters(owner.directories) == [10]


def test_disk_failure_is_reported_once_and_stops_all_acks(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(HOST, "fdatasync", fail)
    owner.storage.submit([*appends(3), Barrier(1)])
    owner.run_one()
    owner.storage.submit([*appends(4), Barrier(2)])
    assert owner.tokens == []
    assert owner.failures == ["the disk failed: [Errno 5] Input/output error"]
    assert owner.posted.empty()


def test_close_completes_the_queued_disk_operations(owner: Owner) -> None:
    owner.storage.submit([*appends(3, 4, 5), Barrier(1)])
    owner.storage.close()
    assert owner.posted.qsize() == 1
    assert counters(owner.directories) == [1, 2, 3, 4, 5]


def test_full_disk_logs_one_line_and_loses_no_acknowledged_txn(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk causes one log line, and no acknowledged transaction is lost, whatever part of a record was written.

    ZooKeeper continues after some of these failures (ZOOKEEPER-3701, 4882).
    """
    owner.storage.submit([*appends(3), Barrier(1)])
    owner.run_one()
    real = os.pwrite
    monkeypatch.setattr(HOST, "pwrite", lambda fd, data, at: full() if len(data) < 60 else real(fd, data[:20], at))
    owner.storage.submit([*appends(4), Barrier(2)])
    owner.run_one()
    assert owner.tokens == [[1]]
    assert len(owner.failures) == 1 and owner.failures[0].startswith("the disk is full")
    monkeypatch.undo()
    assert counters(owner.directories) == [1, 2, 3]


def full() -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "effect",
    [SaveAcceptedEpoch(Epoch(7)), SaveCurrentEpoch(Epoch(7)), TruncateLog(Zxid(EPOCH_1 + 1))],
    ids=lambda effect: type(effect).__name__,
)
def test_barrier_after_a_failed_write_is_not_acknowledged(
    owner: Owner, effect: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A barrier after a failed write is not acknowledged, and a failed truncation is not reported as done
    (ZOOKEEPER-3701).
    """
    for name in ("fsync", "ftruncate"):
        monkeypatch.setattr(HOST, name, lambda *args: full())
    owner.storage.submit([effect, Barrier(1)])
    owner.run_one()
    assert (owner.tokens, owner.truncated) == ([], []) and len(owner.failures) == 1
    monkeypatch.undo()
    recovered = recover(owner.directories).recovered
    assert (recovered.accepted_epoch, recovered.current_epoch) == (1, 1)
    assert counters(owner.directories) == [1, 2]


def test_slow_sync_logs_a_warning(tmp_path: Path) -> None:
    """A sync that takes longer than fsync.warningthresholdms logs a warning."""
    owner = Owner(directories_with(tmp_path, range(1, 3)), fsync_warning_ms=-1)
    owner.storage.submit([*appends(3), Barrier(1)])
    owner.run_one()
    owner.run_one()
    owner.storage.close()
    assert "syncing the transaction log took" in owner.warnings[0]


@pytest.mark.parametrize(
    ("after", "base", "factor", "answer"),
    [
        pytest.param(0, 0, 0.0, [1, 2, 3, 4, 5, 6, 7, 8], id="from where the log begins"),
        pytest.param(3, 0, 0.0, [4, 5, 6, 7, 8], id="from a transaction in it"),
        pytest.param(6, 0, 0.0, [7, 8], id="over the border of a file"),
        pytest.param(8, 0, 0.0, None, id="nothing follows"),
        pytest.param(9, 0, 0.0, None, id="from a transaction that is not in it"),
        pytest.param(3, 0, 0.01, None, id="too large against a snapshot"),
        pytest.param(3, 0, 1e6, [4, 5, 6, 7, 8], id="small enough"),
    ],
)
def test_transactions_for_a_learner_are_read_from_the_log(
    tmp_path: Path, after: int, base: int, factor: float, answer: list[int] | None
) -> None:
    owner = Owner(directories_with(tmp_path, range(1, 5), range(5, 9)))
    at = Zxid(EPOCH_1 + after)
    owner.storage.read_log(ReadLog(LinkId(1), at, Zxid(EPOCH_1 + base), factor))
    owner.run_one()
    assert owner.read == [(at, [EPOCH_1 + n for n in answer] if answer else None)]
    owner.storage.close()


def test_log_is_sent_to_a_learner_in_chunks(tmp_path: Path) -> None:
    owner = Owner(directories_with(tmp_path, range(1, PIECE_TXNS * 2 + 10)))
    at, got = Zxid(EPOCH_1), []
    for _ in range(3):
        owner.storage.read_log(ReadLog(LinkId(1), at, Zxid(EPOCH_1), 0.0))
        owner.run_one()
        zxids = owner.read[-1][1] or []
        got += zxids
        at = Zxid(zxids[-1])
    assert got == [EPOCH_1 + n for n in range(1, PIECE_TXNS * 2 + 10)]
    owner.storage.close()


def test_failed_read_for_a_learner_does_not_stop_later_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(directories_with(tmp_path, range(1, 4)))
    requested = ReadLog(LinkId(1), Zxid(EPOCH_1), Zxid(EPOCH_1), 0.0)
    with monkeypatch.context() as broken:
        failed = threading.Event()
        broken.setattr(threading, "excepthook", lambda _: failed.set())
        broken.setattr(LogReader, "read", lambda *_: 1 // 0)
        owner.storage.read_log(requested)
        assert failed.wait(10)
        assert owner.storage._reading is not None
        owner.storage._reading.join()
    owner.storage.read_log(requested)
    owner.run_one()
    assert owner.read == [(EPOCH_1, [EPOCH_1 + n for n in (1, 2, 3)])]
    owner.storage.close()


def test_learner_chunks_end_at_a_gap_in_the_log(tmp_path: Path) -> None:
    owner = Owner(directories_with(tmp_path, range(1, 4), range(5, 7)))
    owner.storage.read_log(ReadLog(LinkId(1), Zxid(EPOCH_1), Zxid(EPOCH_1), 0.0))
    owner.run_one()
    assert owner.read == [(EPOCH_1, [EPOCH_1 + 1, EPOCH_1 + 2, EPOCH_1 + 3])]
    owner.storage.close()


def log_of_epoch_2(directories: Directories, counters: range) -> None:
    writer = LogWriter(directories.log, preallocate_bytes=8192)
    writer.append([a_txn(EPOCH_2 + n) for n in counters])
    writer.roll()


def read_after(owner: Owner, after: int, base: int, borders: dict[Zxid, Zxid]) -> list[int] | None:
    owner.storage.read_log(ReadLog(LinkId(1), Zxid(after), Zxid(base), 0.0, borders))
    owner.run_one()
    return owner.read[-1][1]


def test_learner_chunks_continue_into_the_next_epoch(tmp_path: Path) -> None:
    owner = Owner(directories_with(tmp_path, range(1, 5), snapshots=(0, EPOCH_1 + 2)))
    log_of_epoch_2(owner.directories, range(1, 3))
    borders = {Zxid(EPOCH_1 + 4): Zxid(EPOCH_2 + 1)}
    got = read_after(owner, EPOCH_1 + 2, EPOCH_1 + 2, borders)
    assert got == [EPOCH_1 + 3, EPOCH_1 + 4, EPOCH_2 + 1, EPOCH_2 + 2]
    owner.storage.close()


def test_learner_gets_no_diff_if_the_end_of_an_epoch_was_purged(tmp_path: Path) -> None:
    """A learner gets no DIFF if the end of an epoch was purged.

    Here the log starts after transaction 2, and autopurge has removed the file with transactions 3 and 4 of the first
    epoch.
    """
    owner = Owner(directories_with(tmp_path, range(1, 5), snapshots=(0, EPOCH_1 + 2)))
    log_of_epoch_2(owner.directories, range(1, 3))
    (tmp_path / "log.100000001").unlink()
    borders = {Zxid(EPOCH_1 + 4): Zxid(EPOCH_2 + 1)}
    assert read_after(owner, EPOCH_1 + 2, EPOCH_1 + 2, borders) is None
    owner.storage.close()


@pytest.mark.parametrize("flipped", range(1, 5))
def test_learner_chunks_end_before_a_flipped_bit_at_an_epoch_end(tmp_path: Path, flipped: int) -> None:
    owner = Owner(directories_with(tmp_path, range(1, 5)))
    log_of_epoch_2(owner.directories, range(1, 3))
    path = tmp_path / "log.100000001"
    raw = bytearray(path.read_bytes())
    raw[read_log(path)[1].ends[flipped - 1] - 3] ^= 1
    path.write_bytes(raw)
    # The zxids do not show where an epoch ends. Therefore `borders` states that the next epoch follows the last
    # readable transaction.
    borders = {Zxid(EPOCH_1 + flipped - 1): Zxid(EPOCH_2 + 1)}
    got = read_after(owner, EPOCH_1, EPOCH_1, {} if flipped == 1 else borders)
    assert (got or []) == [EPOCH_1 + n for n in range(1, flipped)]
    owner.storage.close()


def test_truncation_discards_remembered_learner_file_positions(tmp_path: Path) -> None:
    """A truncation discards the remembered file positions of learners.

    A learner that still has the truncated transactions must not get a DIFF that starts after them.
    """
    owner = Owner(directories_with(tmp_path, range(1, 6)))
    assert read_after(owner, EPOCH_1 + 2, EPOCH_1, {}) == [EPOCH_1 + 3, EPOCH_1 + 4, EPOCH_1 + 5]
    owner.storage.submit([TruncateLog(Zxid(EPOCH_1 + 4))])
    owner.run_one()
    owner.storage.submit([Append([a_txn(EPOCH_2 + 1), a_txn(EPOCH_2 + 2)]), Barrier(1)])
    owner.run_one()
    # Transaction 5 was the last of its epoch when it was read, but was truncated afterwards. The zxids alone would
    # allow the next epoch to follow it.
    borders = {Zxid(EPOCH_1 + 4): Zxid(EPOCH_2 + 1), Zxid(EPOCH_1 + 5): Zxid(EPOCH_2 + 1)}
    assert read_after(owner, EPOCH_1 + 5, EPOCH_1, borders) is None
    assert read_after(owner, EPOCH_1 + 4, EPOCH_1, borders) == [EPOCH_2 + 1, EPOCH_2 + 2]
    owner.storage.close()


def directories_of_a_storage(tmp_path: Path) -> Directories:
    """Return a data directory with a snapshot at transaction 2, and a separate log directory with transactions 3 and 4.

    The log is written by a `Storage`, as a peer would write it.
    """
    (tmp_path / "data").mkdir()
    (tmp_path / "log").mkdir()
    whole = directories_with(tmp_path / "data", snapshots=(0, EPOCH_1 + 2))
    owner = Owner(Directories(whole.data, tmp_path / "log"))
    owner.storage.submit([*appends(3, 4), Barrier(1)])
    owner.run_one()
    owner.storage.close()
    return owner.directories


def test_loss_of_the_newest_log_is_detected(tmp_path: Path) -> None:
    directories = directories_of_a_storage(tmp_path)
    assert recover(directories, ONE_OF_THREE).recovered.complete
    (directories.log / "log.100000003").unlink()
    with pytest.raises(DataDirectoryError, match=r"log\.100000003, which was begun behind 0x100000002, is gone"):
        recover(directories)
    recovery = recover(directories, ONE_OF_THREE)
    assert not recovery.recovered.complete
    assert [damage.file for damage in recovery.damages] == ["log.100000003"]
    assert not recover(directories, ONE_OF_THREE).recovered.complete


def test_intended_removal_of_the_newest_log_is_no_loss(tmp_path: Path) -> None:
    directories = directories_of_a_storage(tmp_path)
    assert truncate(directories, EPOCH_1 + 2, ONE_OF_THREE).recovered.complete
    owner = Owner(directories)
    owner.storage.submit([*appends(3, 4), SaveSnapshot(some_snapshot(EPOCH_1 + 1), replaces_history=True)])
    owner.storage.close()
    recovered = recover(directories, ONE_OF_THREE).recovered
    assert recovered.complete and recovered.txns == []


@pytest.mark.parametrize("covered", [3, 4])
def test_lost_newest_log_covered_by_a_snapshot_is_ignored(tmp_path: Path, covered: int) -> None:
    """The loss of the newest log is ignored if a snapshot covers it.

    The server has noted only the zxid of the log's first transaction, so a snapshot at that zxid suffices.
    """
    directories = directories_of_a_storage(tmp_path)
    write_snapshot(directories.data, some_snapshot(EPOCH_1 + covered))
    (directories.log / "log.100000003").unlink()
    assert recover(directories, ONE_OF_THREE).recovered.complete

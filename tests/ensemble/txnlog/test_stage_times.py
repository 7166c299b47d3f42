"""Times that the storage measures for its writes, compared with calculated values."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ensemble.txnlog.test_formats import some_snapshot
from tests.ensemble.txnlog.test_recovery import EPOCH_1, directories_with
from tests.ensemble.txnlog.test_storage import Owner, Zxid, appends
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.txnlog.stage_times import StageTimes
from zabka.ensemble.txnlog.storage import Storage, complaint, is_full
from zabka.ensemble.zab.effects import Barrier, SaveSnapshot, TruncateLog

MS = 1_000_000
A_TXNS_TIME_MS = 3
"""Creation time in ms of the transactions in these tests."""


def noted(*, learning: bool) -> StageTimes:
    """Return the measured times of two submissions with five transactions in all.

    The submissions waited 30 and 20 ms. The write took 4 ms and the sync 6 ms.
    """
    stages = StageTimes()
    stages.learning = learning
    stages.note(
        5, [30 * MS, 20 * MS], process_ns=4 * MS, sync_ns=6 * MS, queued=2, made_ms=1000, wall_ms=1100
    )  # fmt: skip
    return stages


def test_each_write_stage_is_measured_from_its_own_start() -> None:
    stages = noted(learning=False)
    assert (stages.queue_ms.count, stages.queue_ms.minimum, stages.queue_ms.maximum) == (2, 20, 30)
    assert (stages.whole_ms.count, stages.whole_ms.minimum, stages.whole_ms.maximum) == (2, 30, 40)
    assert (stages.process_ms.count, stages.process_ms.total) == (5, 5 * 4)
    assert (stages.queue_sizes.count, stages.queue_sizes.total) == (1, 2)
    assert (stages.acknowledged_ms.count, stages.acknowledged_ms.total) == (5, 5 * 100)
    assert stages.proposed_ms.count == 0, "its own transactions come from nowhere else"


def test_learner_measures_the_propagation_time_from_its_leader() -> None:
    """A learner measures how long the proposals of its leader took to arrive.

    The proposals are durable 100 ms after their creation. The 20 ms in the learner's queue and the 10 ms on its disk
    are subtracted.
    """
    stages = noted(learning=True)
    assert (stages.proposed_ms.count, stages.proposed_ms.total) == (5, 5 * 70)


def test_clock_difference_gives_no_negative_propagation_time() -> None:
    stages = StageTimes()
    stages.learning = True
    stages.note(1, [0], process_ns=0, sync_ns=0, queued=0, made_ms=2000, wall_ms=1000)
    stages.note(1, [50 * MS], process_ns=0, sync_ns=0, queued=0, made_ms=1000, wall_ms=1010)
    assert (stages.acknowledged_ms.minimum, stages.acknowledged_ms.maximum) == (0, 10)
    assert (stages.proposed_ms.count, stages.proposed_ms.total) == (2, 0)


class Clocks:
    """Clocks that advance only during disk operations: 2 ms for each write, 7 ms for each sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        pwrite, fdatasync = os.pwrite, os.fdatasync

        def slow_write(descriptor: int, data: bytes, at: int) -> int:
            self.now_ns += 2 * MS
            return pwrite(descriptor, data, at)

        def slow_sync(descriptor: int) -> None:
            self.now_ns += self.sync_ms * MS
            fdatasync(descriptor)

        self.sync_ms = 7
        monkeypatch.setattr(HOST, "pwrite", slow_write)
        monkeypatch.setattr(HOST, "fdatasync", slow_sync)

    def ns(self) -> int:
        return self.now_ns


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.fixture
def owner(tmp_path: Path, clocks: Clocks) -> Iterator[Owner]:
    owner = Owner(directories_with(tmp_path, range(1, 3)), fsync_warning_ms=20, clock_ns=clocks.ns)
    owner.storage._wall_ms = lambda: A_TXNS_TIME_MS + 50
    yield owner
    owner.storage.close()


def done(storage: Storage) -> None:
    """Wait until the storage thread has recorded its last operation."""
    while storage._submitted != storage._finished:
        os.sched_yield()


def test_storage_measures_each_group_commit(owner: Owner) -> None:
    storage = owner.storage
    storage.submit([*appends(3), Barrier(1)])
    owner.run_one()
    done(storage)
    before = storage.stages.process_ms.total
    storage.submit([*appends(4, 5), Barrier(2), Barrier(3)])
    owner.run_one()
    done(storage)
    assert (storage.txns_logged, storage.batch_sizes.count, storage.batch_sizes.maximum) == (3, 2, 2)
    assert (storage.fsync_time_ms.count, storage.fsync_time_ms.minimum, storage.fsync_time_ms.maximum) == (2, 7, 7)
    stages = storage.stages
    assert (stages.process_ms.total - before, stages.process_ms.count) == (2 * 2, 3), "one write of 2 ms for two"
    assert (stages.queue_sizes.count, stages.queue_sizes.maximum) == (2, 0)
    assert (stages.queue_ms.count, stages.queue_ms.maximum) == (2, 0)
    assert stages.whole_ms.minimum == 2 + 7
    assert (stages.acknowledged_ms.count, stages.acknowledged_ms.total) == (3, 3 * 50)


def test_barrier_without_transactions_adds_only_a_sync_time(owner: Owner) -> None:
    owner.storage.submit([Barrier(1)])
    owner.run_one()
    done(owner.storage)
    assert owner.storage.batch_sizes.count == owner.storage.stages.queue_ms.count == owner.storage.txns_logged == 0
    assert owner.storage.fsync_time_ms.count == 1


@pytest.mark.parametrize(("sync_ms", "warnings"), [(20, 0), (21, 1)])
def test_sync_slower_than_the_threshold_logs_a_warning(
    owner: Owner, clocks: Clocks, sync_ms: int, warnings: int
) -> None:
    """A sync that takes longer than fsync.warningthresholdms logs a warning.

    As in FileTxnLog, a sync of exactly this duration logs no warning.
    """
    clocks.sync_ms = sync_ms
    owner.storage.submit([*appends(3), Barrier(1)])
    owner.run_one()
    done(owner.storage)
    while not owner.posted.empty():
        owner.run_one()
    assert len(owner.warnings) == warnings


def test_transactions_before_a_truncation_are_synced_first(owner: Owner) -> None:
    """Before the log is truncated, the transactions submitted earlier are synced and acknowledged."""
    owner.storage.submit([*appends(3), Barrier(1), TruncateLog(Zxid(EPOCH_1 + 2)), Barrier(2)])
    for _ in range(3):
        owner.run_one()
    assert owner.tokens == [[1], [2]] and len(owner.truncated) == 1
    done(owner.storage)
    assert (owner.storage.txns_logged, owner.storage.batch_sizes.count) == (1, 1)


def test_snapshot_that_replaces_the_history_reports_its_size(owner: Owner) -> None:
    owner.storage.submit([SaveSnapshot(some_snapshot(EPOCH_1 + 9), True)])
    owner.run_one()
    (written,) = owner.snapshots
    path = owner.directories.data / f"snapshot.{EPOCH_1 + 9:x}"
    assert (written.zxid, written.size_bytes) == (EPOCH_1 + 9, path.stat().st_size)
    assert 0 <= written.duration_ms < 60_000


@pytest.mark.parametrize(
    ("failed", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (ValueError("28"), False),
    ],
)
def test_full_disk_is_distinguished_from_a_broken_disk(failed: Exception, full: bool) -> None:
    assert is_full(failed) is full
    assert complaint(failed).startswith("the disk is full" if full else "the disk failed")

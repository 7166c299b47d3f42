"""Leader epoch files: synced soon after they are replaced, and ignored if they contradict the records."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.replication.replication_cluster import TP, batch
from zabka.broker_sim.logs.epoch_cache import EpochCache
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.ensemble.runtime.files import HOST
from zabka.kafka.record_batch import split_batches

FILE = "leader-epoch-checkpoint"


class Syncs:
    """Record of fsync calls and their threads, in order. Calls wait while `gate` is closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.threads: set[str] = set()
        self.failure: OSError | None = None
        self.gate = threading.Event()
        self.gate.set()
        monkeypatch.setattr(HOST, "fsync", self._fsync)

    def _fsync(self, descriptor: int) -> None:
        assert self.gate.wait(10)
        if self.failure is not None:
            raise self.failure
        self.threads.add(threading.current_thread().name)
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        self.done.append(f"{name}/" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else name)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


@pytest.fixture
def directory(tmp_path: Path) -> FileLogDirectory:
    made = FileLogDirectory(tmp_path / "logs")
    made.create_partition("orders-0")
    return made


def test_replaced_epoch_file_is_synced_with_its_directory(directory: FileLogDirectory, syncs: Syncs) -> None:
    syncs.gate.clear()
    directory.exchange_text("orders-0", FILE, "one")
    assert directory.read_text("orders-0", FILE) == "one" and not syncs.done, "the caller does not wait for the disk"
    syncs.gate.set()
    directory.finish(20)
    assert syncs.done == [FILE, "orders-0/"]
    assert syncs.threads == {"log directory sync"}


def test_epoch_file_replaced_twice_before_a_sync_is_synced_once(directory: FileLogDirectory, syncs: Syncs) -> None:
    syncs.gate.clear()
    directory.create_partition("orders-1")
    directory.exchange_text("orders-1", FILE, "first")
    for number in range(5):
        directory.exchange_text("orders-0", FILE, str(number))
    syncs.gate.set()
    directory.finish(20)
    assert syncs.done == [FILE, "orders-1/", FILE, "orders-0/"]


def test_files_of_a_replica_renamed_before_the_sync_are_synced(directory: FileLogDirectory, syncs: Syncs) -> None:
    syncs.gate.clear()
    directory.exchange_text("orders-0", FILE, "one")
    directory.exchange_text("orders-0", "another", "one")
    syncs.gate.set()
    directory.rename_partition("orders-0", "orders-9")
    directory.finish(20)
    assert {"another", FILE, "orders-9/"} <= set(syncs.done)


def test_replica_deleted_before_the_sync_causes_no_failure(directory: FileLogDirectory, syncs: Syncs) -> None:
    syncs.gate.clear()
    directory.exchange_text("orders-0", FILE, "one")
    directory.exchange_text("orders-0", "another", "one")
    directory.delete_partition("orders-0")
    syncs.gate.set()
    directory.finish(20)
    directory.create_partition("orders-0")
    directory.exchange_text("orders-0", FILE, "two")
    directory.finish(20)


def test_failed_epoch_file_sync_is_a_disk_failure(directory: FileLogDirectory, syncs: Syncs) -> None:
    syncs.failure = OSError(errno.EIO, "Input/output error")
    directory.exchange_text("orders-0", FILE, "one")
    directory.finish(20)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            directory.exchange_text("orders-0", FILE, "two")


# ---- after a power loss -----------------------------------------------------------------------------------------


def log_of(disk: MemoryLogDirectory) -> PartitionLog:
    return PartitionLog(disk, TP, segment_bytes=1 << 20)


def append(log: PartitionLog, epoch: int) -> None:
    data = batch("x")
    log.epochs.assign(epoch, log.end_offset)
    log.append_as_leader(data, split_batches(data) or [], epoch)


def test_epoch_lost_from_its_file_is_restored_from_the_records() -> None:
    disk = MemoryLogDirectory()
    log = log_of(disk)
    for epoch in (1, 4):
        append(log, epoch)
    log.flush()
    disk.power_loss()
    assert "4" not in (disk.read_text(str(TP), FILE) or "").split("\n")[2:]
    assert log_of(disk).epochs.entries == [(1, 0), (4, 1)]


def test_power_loss_removes_the_epochs_of_lost_records() -> None:
    disk = MemoryLogDirectory()
    log = log_of(disk)
    append(log, 1)
    log.flush()
    append(log, 4)
    disk.power_loss()
    assert log_of(disk).epochs.entries == [(1, 0)]


def test_epoch_entry_that_contradicts_the_records_is_replaced() -> None:
    disk = MemoryLogDirectory()
    log = log_of(disk)
    append(log, 1)
    append(log, 3)
    disk.crash()
    stale = disk.read_text(str(TP), FILE) or ""
    log = log_of(disk)
    log.truncate_to(1)
    append(log, 1)
    append(log, 2)
    assert log.epochs.entries == [(1, 0), (2, 2)]
    log.flush()
    disk.write_text(str(TP), FILE, stale)
    reopened = log_of(disk)
    assert reopened.epochs.entries == [(1, 0), (2, 2)]
    assert disk.read_text(str(TP), FILE) == "0\n2\n1 0\n2 2\n"


def test_epoch_of_records_removed_by_compaction_is_kept() -> None:
    cache = EpochCache([(1, 0), (2, 5), (3, 9)], lambda entries: None)
    cache.believe([(1, 0), (3, 9)], {1: 4, 3: 12})
    assert cache.entries == [(1, 0), (2, 5), (3, 9)]

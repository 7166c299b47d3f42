"""Planted bugs of what is done about disks that fail: one for each way in which a fault could go unnoticed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn
from unittest.mock import patch
from zlib import adler32

from broker_sim.logs.guarded_directory import GuardedDirectory, LogDirFailed
from broker_sim.logs.memory_log_directory import MemoryLogFile
from controller import log_dir_failures
from controller.context import Replica
from controller.reign import Reign
from ensemble.txnlog import log, log_reading
from ensemble.txnlog.records import RECORD_HEAD, Damage, ScannedLog, scan
from simulation.disks.faulty_disk import FaultyDisk
from simulation.disks.faulty_log_directory import FaultyLogDirectory


@contextmanager
def failed_syncs_are_acknowledged() -> Iterator[None]:
    """An error from fdatasync is not looked at."""
    sync = FaultyDisk._sync

    def lax(self: FaultyDisk) -> None:
        try:
            sync(self)
        except OSError:
            self._durable = len(self._log)

    with patch.object(FaultyDisk, "_sync", lax):
        yield


@contextmanager
def recovery_trusts_the_kernel() -> Iterator[None]:
    """After a failed sync the next process syncs what it reads, and does not write it again."""
    with patch.object(FaultyDisk, "_write_again", lambda self: None):
        yield


@contextmanager
def full_disks_cut_the_log() -> Iterator[None]:
    """Where a batch has no room in a broker's log, the one before it is cut, too."""
    append = FaultyLogDirectory.append

    def rash(self: FaultyLogDirectory, file: MemoryLogFile, data: bytes) -> int:
        try:
            return append(self, file, data)
        except OSError as failure:
            if failure.errno == errno.ENOSPC:
                file.truncate(max(0, file.size() - 1))
            raise

    with patch.object(FaultyLogDirectory, "append", rash):
        yield


@contextmanager
def damaged_records_are_served() -> Iterator[None]:
    """Checksums in the log are not compared."""

    def trusting(data: bytes) -> ScannedLog:
        scanned = scan(data)
        while scanned.damage is Damage.CHECKSUM:
            at = scanned.end
            length = RECORD_HEAD.unpack_from(data, at)[1]
            body = data[at + RECORD_HEAD.size : at + RECORD_HEAD.size + length]
            data = data[:at] + RECORD_HEAD.pack(adler32(body), length) + data[at + RECORD_HEAD.size :]
            scanned = scan(data)
        return scanned

    with patch.object(log, "scan", trusting), patch.object(log_reading, "adler32", lambda body: _AnyNumber()):
        yield


class _AnyNumber:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


@contextmanager
def damage_is_a_torn_tail() -> Iterator[None]:
    """A log is cut where a record cannot be read, and what follows is forgotten without a word."""
    from ensemble.txnlog import recovery

    def lenient(data: bytes) -> tuple[bytes, ScannedLog]:
        used, scanned = log.read_log(data)  # type: ignore[arg-type]
        return used, scanned._replace(damage=Damage.NONE)

    with patch.object(recovery, "read_log", lenient):
        yield


@contextmanager
def log_directories_are_used_on_after_an_error() -> Iterator[None]:
    """A request that meets an error is refused; the directory is not given up."""

    def shrug(self: GuardedDirectory, failure: OSError) -> NoReturn:
        raise LogDirFailed from failure

    with patch.object(GuardedDirectory, "give_up", shrug):
        yield


@contextmanager
def replicas_in_failed_directories_stay_in_sync() -> Iterator[None]:
    """The controller hears of a failed log directory, and leaves ISR and leader as they are."""

    async def leave(reign: Reign, replicas: Sequence[Replica]) -> None:
        return

    with patch.object(log_dir_failures, "on_replicas_offline", leave):
        yield


PLANTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "failed syncs are acknowledged": failed_syncs_are_acknowledged,
    "recovery trusts the kernel after a failed sync": recovery_trusts_the_kernel,
    "full disks cut the log": full_disks_cut_the_log,
    "damaged records are served": damaged_records_are_served,
    "damage is taken for a torn tail": damage_is_a_torn_tail,
    "log directories are used on after an error": log_directories_are_used_on_after_an_error,
    "replicas in failed directories stay in sync": replicas_in_failed_directories_stay_in_sync,
}

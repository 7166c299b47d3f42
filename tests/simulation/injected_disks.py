"""Injected bugs in the handling of disk faults. With each of them, one type of fault is not noticed."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn
from zlib import adler32

from tests.simulation.injecting import InjectedBug, broken
from zabka.broker_sim.logs import guarded_directory
from zabka.broker_sim.logs.guarded_directory import GuardedDirectory, LogDirFailed
from zabka.controller import log_dir_failures
from zabka.controller.context import Replica
from zabka.controller.term import ControllerTerm
from zabka.ensemble.txnlog import log, log_reading, recovery
from zabka.ensemble.txnlog.records import RECORD_HEAD, Damage, ScannedLog, scan


@contextmanager
def failed_syncs_are_acknowledged() -> Iterator[None]:
    """Injected bug: errors from fdatasync are ignored."""
    sync = log.LogWriter.sync

    def lax(self: log.LogWriter) -> None:
        with suppress(OSError):
            sync(self)

    with broken(log.LogWriter, sync=lax):
        yield


@contextmanager
def recovery_trusts_the_kernel() -> Iterator[None]:
    """Injected bug: after a failed sync, the next process syncs the data that it reads, but does not write the data
    again.
    """
    with broken(recovery, write_again=lambda *where: None):
        yield


@contextmanager
def full_disks_cut_the_log() -> Iterator[None]:
    """Injected bug: a batch that does not fit on a full disk also truncates the batch before it."""
    append = guarded_directory._GuardedFile.append

    def rash(self: guarded_directory._GuardedFile, data: bytes) -> int:
        try:
            return append(self, data)
        except LogDirFailed as failed:
            if isinstance(failed.__cause__, OSError) and failed.__cause__.errno == errno.ENOSPC:
                self._file.truncate(max(0, self._file.size() - 1))
            raise

    with broken(guarded_directory._GuardedFile, append=rash):
        yield


@contextmanager
def damaged_records_are_served() -> Iterator[None]:
    """Injected bug: checksums in the log are not verified."""

    def trusting(data: bytes) -> ScannedLog:
        scanned = scan(data)
        while scanned.damage is Damage.CHECKSUM:
            at = scanned.end
            length = RECORD_HEAD.unpack_from(data, at)[1]
            body = data[at + RECORD_HEAD.size : at + RECORD_HEAD.size + length]
            data = data[:at] + RECORD_HEAD.pack(adler32(body), length) + data[at + RECORD_HEAD.size :]
            scanned = scan(data)
        return scanned

    with broken(log, scan=trusting), broken(log_reading, adler32=lambda body: _AnyNumber()):
        yield


class _AnyNumber:
    """Number that is equal to any value, in place of a checksum."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


@contextmanager
def damage_is_a_torn_tail() -> Iterator[None]:
    """Injected bug: a log is truncated at an unreadable record, and the records after it are dropped silently."""

    def lenient(*where: Any) -> tuple[bytes, ScannedLog]:
        used, scanned = log.read_log(*where)
        return used, scanned._replace(damage=Damage.NONE)

    with broken(recovery, read_log=lenient):
        yield


@contextmanager
def log_directories_are_used_on_after_an_error() -> Iterator[None]:
    """Injected bug: a log directory is not taken offline after a disk error; only the request is rejected."""

    def shrug(self: GuardedDirectory, failure: OSError) -> NoReturn:
        raise LogDirFailed from failure

    with broken(GuardedDirectory, give_up=shrug):
        yield


@contextmanager
def replicas_in_failed_directories_stay_in_sync() -> Iterator[None]:
    """Injected bug: when a log directory fails, the controller changes neither the ISR nor the leader."""

    async def leave(term: ControllerTerm, replicas: Sequence[Replica]) -> None:
        return

    with broken(log_dir_failures, on_replicas_offline=leave):
        yield


INJECTED: dict[str, InjectedBug] = {
    "failed syncs are acknowledged": InjectedBug(failed_syncs_are_acknowledged, ("acknowledged and not durable",)),
    "recovery trusts the kernel after a failed sync": InjectedBug(
        recovery_trusts_the_kernel, ("committed and durable only on",)
    ),
    "full disks cut the log": InjectedBug(
        full_disks_cut_the_log, ("committed and acks=all records survive", "inconsistent offset")
    ),
    "damaged records are served": InjectedBug(damaged_records_are_served, ("committed prefixes agree",)),
    "damage is taken for a torn tail": InjectedBug(
        damage_is_a_torn_tail, ("committedLogDurability", "no acknowledged write lost")
    ),
    "log directories are used on after an error": InjectedBug(
        log_directories_are_used_on_after_an_error, ("do not count on a failed directory",)
    ),
    "replicas in failed directories stay in sync": InjectedBug(
        replicas_in_failed_directories_stay_in_sync, ("do not count on a failed directory",)
    ),
}

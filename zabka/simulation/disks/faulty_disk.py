"""A peer's disk that fails: what the scenario `disks` gives to its peers.

It keeps its log in files as the real one does, and what a start finds on it is read by the real recovery
(`disk_image`).  What a peer does about an error is the real storage's decision: it stops, with the real storage's line.

A sync that fails     nothing behind it is carried out; what it was to make durable stays in the kernel, marked clean: a
                      process that begins after it reads it, a power loss takes it
A full disk           takes so many bytes more, and then a part of a record; epochs and snapshots need a block
A sync that stalls    takes that much longer; where the real storage would wait for it in its event loop, that waits
A power loss          leaves of what was not synced a prefix, cut anywhere.  A fragile disk may also leave sectors that
                      came later and not those before, or garbage in the place of one: no reader can tell that from
                      damage to what was synced
A flipped bit         in a synced record or a snapshot; whoever reads it next finds it
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec import structs

from zabka.ensemble.ids import Zxid
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog import recovery as txnlog
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import LogWriter, list_logs
from zabka.ensemble.txnlog.log_reading import LogReader
from zabka.ensemble.txnlog.records import HEADER, frame_record
from zabka.ensemble.txnlog.recovery import Recovery, RecoveryPolicy
from zabka.ensemble.txnlog.snapshot_format import ROOT_END
from zabka.ensemble.txnlog.storage import QUICK_SYNC_US, WAIT_TXNS_MAX, complaint
from zabka.ensemble.txnlog.sync_pace import SyncPace
from zabka.ensemble.zab import effects
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.simulation.disks.disk import SimDisk
from zabka.simulation.disks.disk_image import (
    DiskImage,
    LogImage,
    SnapshotImage,
    log_bytes,
    logs_on,
    on_real_files,
    snapshots_on,
)
from zabka.simulation.kernel.scheduler import Scheduler

BLOCK_BYTES = 4096
SECTOR_BYTES = 512
ROOM_BYTES_MAX = 16_384
RECENT_TXNS = 40
QUICK_CHANCE, QUICK_FACTOR = 0.5, 3
"""Some disks are so quick that the event loop waits for them."""
_EPOCHS = (effects.SaveAcceptedEpoch, effects.SaveCurrentEpoch, effects.SaveMembership, effects.SaveNextMembership)


class Flip(NamedTuple):
    """One bit of a record or a snapshot that is another than was written; `at` is where, from 0 to 1."""

    zxid: Zxid
    at: float
    in_snapshot: bool


class FaultyDisk(SimDisk):
    """One peer's disk.  `waits` is called with how long the process waits for it, where it does (µs)."""

    def __init__(
        self, scheduler: Scheduler, random: Random, config: EnsembleConfig, waits: Callable[[int], None]
    ) -> None:
        super().__init__(scheduler, random)
        self.is_fragile = False
        """May what was synced be damaged?"""
        self._config = config
        self._policy = RecoveryPolicy(other_voters=len(config.voters) - 1)
        self._waits = waits
        self._pace = SyncPace(QUICK_SYNC_US)
        self._failed = False
        self._sync_fails = False
        self._stall_us = 0
        self._room: int | None = None
        self._starts: list[Zxid] = []
        """The first transaction of each log file."""
        self._rolls = True
        """Does the next append begin a file?"""
        self._tail = b""
        """Bytes behind the last record of the last file, or its header."""
        self._tail_file: Zxid | None = None
        """The name of the file that consists of the tail alone."""
        self._clean: dict[Zxid, None] = {}
        """What the kernel takes to be on the disk, and is not."""
        self._flips: list[Flip] = []
        self._gap_ends = Zxid(0)
        """Up to where the log is not whole."""
        self._damaged: dict[Zxid, None] = {}
        self._damaged_floor = Zxid(0)
        """What was durable in the log, and up to where in a snapshot, when damage was found that may have taken it."""
        self._is_quick = random.random() < QUICK_CHANCE

    # -- faults ------------------------------------------------------------------------------------------------------

    def fail_next_sync(self) -> None:
        """The next sync returns an error."""
        self._sync_fails = True

    def stall_next_sync(self, for_us: int) -> None:
        """The next sync takes that much longer."""
        self._stall_us = for_us

    def fill(self) -> None:
        """Hardly any room is left."""
        self._room = self._random.randrange(0, ROOM_BYTES_MAX)

    def make_room(self) -> None:
        """There is room again."""
        self._room = None

    def flip_a_bit(self) -> None:
        """Damage something that was synced: a snapshot, a late record, or any."""
        draw = self._random
        kind, at = draw.random(), draw.random()
        if self._snapshots and kind < 0.3:
            self._flips.append(Flip(self._snapshots[draw.randrange(0, len(self._snapshots))].zxid, at, True))
        elif self._durable:
            first = max(0, self._durable - RECENT_TXNS) if kind < 0.7 else 0
            self._flips.append(Flip(self._log[draw.randrange(first, self._durable)].zxid, at, False))

    # -- operations ----------------------------------------------------------------------------------------------------

    def submit(self, effect: effects.Effect) -> None:
        """Queue an operation, unless the disk has failed."""
        if not self._failed:
            super().submit(effect)

    def _takes_us(self) -> int:
        took_us = super()._takes_us() // (QUICK_FACTOR if self._is_quick else 1)
        batch = self._in_progress
        if any(isinstance(effect, effects.Barrier) for effect in batch):
            now_us = self._scheduler.now_us
            if self._stall_us:
                stall_us, self._stall_us = self._stall_us, 0
                took_us += stall_us
                if self._is_waited_for(batch):
                    self._waits(stall_us)
            self._pace.note((now_us + took_us) * 1000, took_us * 1000)
        return took_us

    def _is_waited_for(self, batch: list[effects.Effect]) -> bool:
        """Does the event loop wait for this batch?  (`zabka.ensemble.txnlog.storage.Storage.is_quick`)"""
        plain = all(isinstance(effect, effects.Append | effects.Barrier) for effect in batch)
        appends = sum(isinstance(effect, effects.Append) for effect in batch)
        return plain and appends <= WAIT_TXNS_MAX and self._pace.is_quick(self._scheduler.now_us * 1000)

    def _end(self, generation: int) -> None:
        try:
            super()._end(generation)
        except (OSError, DataDirectoryError) as failed:
            self._failed = True
            self._queue.clear()
            self._on_failed(complaint(failed))

    def _do(self, effect: effects.Effect) -> bool:
        if isinstance(effect, effects.Append):
            for txn in effect.txns:
                self._write(txn)
            return False
        if isinstance(effect, _EPOCHS):
            self._take_room(BLOCK_BYTES)
        if isinstance(effect, effects.TruncateLog):
            self._load(lambda directories: txnlog.truncate(directories, effect.zxid, self._policy))
            return True
        if isinstance(effect, effects.SaveSnapshot):
            self._take_room(BLOCK_BYTES)
            self._rolls = True
        if isinstance(effect, effects.Barrier | effects.SaveCurrentEpoch | effects.SaveSnapshot):
            self._sync()
        if isinstance(effect, effects.SaveSnapshot) and effect.replaces_history:
            self._forget_files()
        return super()._do(effect)

    def _write(self, txn: Txn) -> None:
        record = frame_record(txn)
        if self._room is not None:
            self._room -= len(record)
            if self._room < 0:
                self._tail = b"" if self._rolls else record[: self._random.randrange(0, len(record))]
                raise _full()
        if self._rolls:
            self._rolls = False
            self._starts.append(txn.zxid)
        self._log.append(txn)

    def _take_room(self, size: int) -> None:
        if self._room is not None and self._room < size:
            raise _full()

    def _sync(self) -> None:
        if self._sync_fails:
            self._sync_fails = False
            self._clean.update(dict.fromkeys(txn.zxid for txn in self._log[self._durable :]))
            _sync_what_cannot_be_synced()
        self._durable = len(self._log)

    def holds(self, zxid: Zxid) -> bool:
        """Is that transaction on the disk, in the log or below a snapshot?

        Or was it, before the damage that this peer knows of and has no vote for: an acknowledgement that it gave before
        counts, for whoever is elected without it has that transaction, too.
        """
        if not self.complete and (zxid <= self._damaged_floor or zxid in self._damaged):
            return True
        return zxid not in self._clean and super().holds(zxid)

    def history(self) -> list[int]:
        """Every zxid in the log or on its way there, behind what was damaged and a snapshot covers for."""
        return [zxid for zxid in super().history() if zxid > self._gap_ends]

    def read_log(self, wanted: effects.ReadLog) -> list[Txn] | None:
        """Some of the transactions that are wanted, as far as the real reader finds them whole and without a gap."""
        with on_real_files(self._image()) as directories:
            return LogReader(directories).read(structs.replace(wanted, size_factor=0.0))

    # -- what a process finds ----------------------------------------------------------------------------------------

    def attach(
        self,
        on_durable: Callable[[int], None],
        on_recovered: Callable[[effects.Recovered], None],
        on_failed: Callable[[str], None] = lambda reason: None,
    ) -> effects.Recovered:
        """A process opens the disk: what the real recovery makes of it.  Raises DataDirectoryError, as that does."""
        self._failed = False
        self._load(lambda directories: txnlog.recover(directories, self._policy))
        recovered = super().attach(on_durable, on_recovered, on_failed)
        if not self._snapshots:
            # As a real peer does: later starts can tell an empty tree from a lost one.
            self._snapshots.append(Service(self._config).snapshot())
        return recovered

    def _load(self, read: Callable[[Directories], Recovery]) -> None:
        with on_real_files(self._image()) as directories:
            newest = next((path for _, path in reversed(list_logs(directories.log))), None)
            if newest is not None:
                os.utime(newest, (0, 0))
            recovery = read(directories)
            self._take(recovery, snapshots_on(directories), logs_on(directories))
            if newest is None or not newest.exists() or newest.stat().st_mtime:
                self._write_again()
        self.found = recovery.damages

    def _take(self, recovery: Recovery, snapshots: list[Zxid], logs: list[tuple[int, list[Txn]]]) -> None:
        """Keep what was left on the files; of what was not read the bytes are as they were."""
        found = recovery.recovered
        if self.complete and not found.complete:
            self._remember_what_was_durable()
        floor = found.snapshot.zxid if found.snapshot is not None else Zxid(0)
        first_read = max((i for i, (start, _) in enumerate(logs) if start <= floor), default=0)
        self._keep_flips(snapshots, older_than=floor, in_logs_before=logs[first_read][0] if logs else 0)
        self._keep_logs(logs, first_read, floor)
        self._snapshots = [each for each in self._snapshots if each.zxid in snapshots and each.zxid < floor]
        if found.snapshot is not None:
            self._snapshots.append(found.snapshot)
        self._accepted, self._current, self.complete = found.accepted_epoch, found.current_epoch, found.complete
        self._tail, self._tail_file = b"", None
        self._rolls = True
        self._durable = len(self._log)
        assert [txn.zxid for txn in self.recover().txns] == [txn.zxid for txn in found.txns], "the disk misread"

    def _remember_what_was_durable(self) -> None:
        self._damaged = dict.fromkeys(txn.zxid for txn in self._log[: self._durable])
        self._damaged_floor = self._snapshots[-1].zxid if self._snapshots else Zxid(0)

    def _keep_flips(self, snapshots: list[Zxid], *, older_than: int, in_logs_before: int) -> None:
        """What was read is whole now, or gone; damage to what was not read is still there."""

        def is_unread(flip: Flip) -> bool:
            if flip.in_snapshot:
                return flip.zxid in snapshots and flip.zxid < older_than
            return flip.zxid < in_logs_before

        self._flips = [flip for flip in self._flips if is_unread(flip)]

    def _keep_logs(self, logs: list[tuple[int, list[Txn]]], first_read: int, floor: Zxid) -> None:
        """Of files before the first that was read keep what was written, of the others what was found in them."""
        written = self._by_file()
        held = [written[Zxid(start)] if i < first_read else txns for i, (start, txns) in enumerate(logs)]
        self._log = [txn for txns in held for txn in txns]
        self._starts = [txns[0].zxid for txns in held if txns]
        if self._log and self._log[-1].zxid < floor:
            self._gap_ends = floor

    def _write_again(self) -> None:
        """Recovery has written the last file once more (`zabka.ensemble.txnlog.files.write_again`): all is on disk."""
        self._clean.clear()

    def _by_file(self) -> dict[Zxid, list[Txn]]:
        files: dict[Zxid, list[Txn]] = {start: [] for start in self._starts}
        ends = iter(self._starts[1:])
        start, end = (self._starts or [Zxid(0)])[0], next(ends, None)
        for txn in self._log:
            while end is not None and txn.zxid >= end:
                start, end = end, next(ends, None)
            files[start].append(txn)
        return files

    def _image(self) -> DiskImage:
        """What lies on the disk as real files, damage and all."""
        worn = {flip.zxid: flip.at for flip in self._flips if flip.in_snapshot}
        snapshots = {each.zxid: SnapshotImage(each, _wear(worn.get(each.zxid))) for each in self._snapshots}
        return DiskImage(self._log_files(), list(snapshots.values()), self._accepted, self._current, self.complete)

    def _log_files(self) -> list[LogImage]:
        flips = {flip.zxid: flip.at for flip in self._flips if not flip.in_snapshot}
        logs = [LogImage(start, _damaged_log(txns, flips)) for start, txns in self._by_file().items()]
        if self._tail_file is not None:
            logs.append(LogImage(self._tail_file, self._tail))
        elif self._tail and logs:
            logs[-1] = LogImage(logs[-1].first, logs[-1].data + self._tail)
        if logs:
            ahead = bytes(self._random.randrange(0, 2) * self._random.randrange(1, 2 * BLOCK_BYTES))
            logs[-1] = LogImage(logs[-1].first, logs[-1].data + ahead)
        return logs

    # -- how processes end -------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process is killed; what it was writing may not have had room."""
        try:
            super().crash()
        except (OSError, DataDirectoryError):
            self._forget()

    def power_loss(self) -> None:
        """What was not synced is gone, but for what the platter has of it."""
        self.crash()
        unsynced = self._log[self._durable :]
        del self._log[self._durable :]
        if unsynced:
            self._tear(unsynced)
        if self._clean:
            self._lose_clean()
        self._durable = len(self._log)

    def _tear(self, unsynced: list[Txn]) -> None:
        """Of these transactions only a part is left, behind the last record of the last file or in one of its own."""
        begins_file = unsynced[0].zxid == self._starts[-1]
        if begins_file:
            self._tail = self._torn(log_bytes(unsynced), 0)
            self._tail_file = self._starts.pop()
        else:
            data = b"".join([frame_record(txn) for txn in unsynced]) + self._tail
            self._tail = self._torn(data, len(log_bytes(self._by_file()[self._starts[-1]])))

    def _lose_clean(self) -> None:
        """What a failed sync left in the kernel alone goes with the power; before what a later sync wrote it leaves a
        hole, which cannot be read."""
        written = [txn.zxid for txn in self._log if txn.zxid not in self._clean]
        last = written[-1] if written else Zxid(0)
        self._flips += [Flip(zxid, 0.0, in_snapshot=False) for zxid in self._clean if zxid < last]
        self._log = [txn for txn in self._log if txn.zxid <= last]
        self._starts = [start for start in self._starts if start <= last]
        self._clean = {zxid: None for zxid in self._clean if zxid < last}

    def _torn(self, data: bytes, offset: int) -> bytes:
        """What is left of bytes that were written from `offset` of a file on, and not synced."""
        draw = self._random
        cut = draw.randrange(0, len(data) + 1)
        if not self.is_fragile or draw.random() < 0.5:
            return data[:cut]
        if draw.random() < 0.5:
            return data[:cut] + draw.randbytes(draw.randrange(1, SECTOR_BYTES))
        left = bytearray()
        while len(left) < len(data):
            size = SECTOR_BYTES - (offset + len(left)) % SECTOR_BYTES
            sector = data[len(left) : len(left) + size]
            left += sector if draw.random() < 0.6 else bytes(len(sector))
        return bytes(left)

    def _forget_files(self) -> None:
        self._starts.clear()
        self._flips.clear()
        self._clean.clear()
        self._tail, self._tail_file = b"", None


def _sync_what_cannot_be_synced() -> None:
    """What comes of an error from fdatasync is the real writer's decision.  Raises OSError, where that does."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    writer = LogWriter(Path(os.devnull))
    writer._descriptor = descriptor
    try:
        writer.sync()
    except OSError:
        raise OSError(errno.EIO, os.strerror(errno.EIO)) from None
    finally:
        os.close(descriptor)


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _flip(data: bytearray, position: int, size: int, at: float) -> None:
    bit = int(at * size * 8)
    data[position + bit // 8] ^= 1 << bit % 8


def _damaged_log(txns: list[Txn], flips: dict[Zxid, float]) -> bytes:
    """A log file's bytes, with the bits flipped in the records of these transactions."""
    data = bytearray(log_bytes(txns))
    position = HEADER.size
    for txn in txns:
        size = len(frame_record(txn))
        if txn.zxid in flips:
            _flip(data, position, size, flips[txn.zxid])
        position += size
    return bytes(data)


def _wear(at: float | None) -> Callable[[bytes], bytes]:
    """What a snapshot's bytes have become.  The last ones stay: a file without them counts as only written in part, and
    stops a server."""

    def worn(data: bytes) -> bytes:
        if at is None:
            return data
        changed = bytearray(data)
        _flip(changed, 0, len(changed), min(at, 1 - (len(ROOT_END) + 1) / len(changed)))
        return bytes(changed)

    return worn

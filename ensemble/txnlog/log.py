"""Writer of the transaction log: appends in groups with one fsync per group, begins new files, truncates.

Source: org.apache.zookeeper.server.persistence.FileTxnLog. Blocking; runs in the storage thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from zabka.ensemble.ids import zxid_text
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import LOG_PREFIX, by_zxid, exists, forget_pages, read_used, remove_all, sync_directory
from zabka.ensemble.txnlog.records import (
    END_OF_RECORD,
    HEADER,
    LOG_HEADER,
    LOG_MAGIC,
    Damage,
    ScannedLog,
    frame_record,
    scan,
)

PREALLOCATE_BYTES = 64 * 1024 * 1024
ZEROS_AHEAD_BYTES = 256 * 1024
"""Number of zero bytes to write after the records, so that the file system has allocated blocks there.

With allocated blocks, a sync only writes data; a sync that must allocate blocks also waits for the file system's
journal.
"""
ZEROS_AT_ONCE_BYTES = 16 * 1024
"""Maximum size of one write of zeros.

Linux keeps a single write as one large page, and each sync scans all of it.
"""
FORGET_BYTES = 1 << 20
"""Number of log bytes that are dropped from the page cache in one call."""
_ZEROS = bytes(ZEROS_AT_ONCE_BYTES)


def list_logs(directory: Path, files: Files = HOST) -> list[tuple[int, Path]]:
    """Return the log files, oldest first, each with the zxid of its first transaction, taken from its name."""
    return by_zxid(directory, LOG_PREFIX, files)


def read_log(path: Path, files: Files = HOST) -> tuple[bytes, ScannedLog]:
    """Return a log file's bytes, and the result of scanning them for records. Raises OSError."""
    data = read_used(path, files)
    if not data.strip(b"\0"):
        # The file was created, but a crash prevented its header from reaching the disk.
        return b"", ScannedLog([], [], 0, scan(b"").damage)
    if len(data) < HEADER.size or HEADER.unpack_from(data)[0] != LOG_MAGIC:
        if LOG_HEADER.startswith(data.rstrip(b"\0")):
            return b"", ScannedLog([], [], 0, scan(b"").damage)
        return data, ScannedLog([], [], 0, Damage.HEADER)
    return data, scan(data)


class LogWriter:
    """Appends to the newest log file; the first append after a roll begins a new file."""

    def __init__(
        self,
        directory: Path,
        preallocate_bytes: int = PREALLOCATE_BYTES,
        begun: Callable[[int], None] = lambda first: None,
        files: Files = HOST,
    ) -> None:
        """Create a writer; it opens no file yet.

        `begun` is called with the zxid in the name of each new file, after the file is durable in its directory and
        before its first sync.
        """
        self._directory = directory
        self._files = files
        self._begun = begun
        self._preallocate_bytes = preallocate_bytes
        self._descriptor = -1
        self._pos = 0
        self._zeroed = 0
        """Offset up to which the file system has allocated blocks for the file."""
        self._allocated = 0
        self._forgotten = 0
        """Offset up to which the file was dropped from the kernel's page cache."""

    def append(self, txns: Sequence[Txn]) -> None:
        """Write transactions with one system call; they are durable only after `sync`.

        Raises OSError and DataDirectoryError.
        """
        if self._descriptor < 0:
            self._open(txns[0].zxid)
        data = frame_record(txns[0]) if len(txns) == 1 else b"".join([frame_record(txn) for txn in txns])
        end = self._pos + len(data)
        if end > self._zeroed:
            self._make_room(end)
        while data:
            written = self._files.pwrite(self._descriptor, data, self._pos)
            self._pos += written
            data = data[written:]

    def _make_room(self, end: int) -> None:
        """Write zeros after `end`, so that later appends rarely change the file's size or its blocks."""
        if end > self._allocated:
            self._allocated = end + self._preallocate_bytes
            self._files.ftruncate(self._descriptor, self._allocated)
        self._zeroed = min(end + ZEROS_AHEAD_BYTES, self._allocated)
        pos = end
        while pos < self._zeroed:
            room = min(ZEROS_AT_ONCE_BYTES - pos % ZEROS_AT_ONCE_BYTES, self._zeroed - pos)
            pos += self._files.pwrite(self._descriptor, _ZEROS[:room], pos)

    def sync(self) -> None:
        """Make all appended transactions durable (one fdatasync)."""
        if self._descriptor >= 0:
            self._files.fdatasync(self._descriptor)
            if self._pos - self._forgotten >= FORGET_BYTES:
                forget_pages(self._descriptor, self._forgotten, self._pos, self._files)
                self._forgotten = self._pos

    def roll(self) -> None:
        """Close the current file; the next append begins a new file."""
        if self._descriptor >= 0:
            self._files.fdatasync(self._descriptor)
            self._files.close(self._descriptor)
            self._descriptor = -1

    def _open(self, first_zxid: int) -> None:
        path = self._directory / f"{LOG_PREFIX}.{first_zxid:x}"
        if exists(path, self._files):
            data, scanned = read_log(path, self._files)
            if scanned.txns or data[HEADER.size :].strip(b"\0"):
                raise DataDirectoryError(
                    f"{path} exists already and is not empty, and transaction {zxid_text(first_zxid)} comes again; "
                    "move it away"
                )
        self._descriptor = self._files.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._files.pwrite(self._descriptor, LOG_HEADER, 0)
        self._pos = self._zeroed = len(LOG_HEADER)
        self._forgotten = 0
        self._allocated = self._pos + self._preallocate_bytes
        self._files.ftruncate(self._descriptor, self._allocated)
        sync_directory(self._directory, self._files)
        self._begun(first_zxid)


def cut_file(path: Path, end: int, files: Files = HOST) -> None:
    """Truncate a file at `end`, durably."""
    descriptor = files.open(path, os.O_RDWR)
    try:
        files.ftruncate(descriptor, end)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def close_record(path: Path, offset: int, files: Files = HOST) -> None:
    """Write the missing end byte of a record, durably."""
    descriptor = files.open(path, os.O_RDWR)
    try:
        files.pwrite(descriptor, END_OF_RECORD, offset)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def truncate_logs(directory: Path, zxid: int, files: Files = HOST) -> None:
    """Remove every logged transaction above `zxid` durably, newest first, so that a crash leaves a prefix of the log.

    If there is damage before `zxid`, the log is not truncated there: recovery would not notice that transactions are
    lost, because the log would look correctly truncated.
    """
    for first, path in reversed(list_logs(directory, files)):
        if first > zxid:
            remove_all([path], files)
            continue
        scanned = read_log(path, files)[1]
        if scanned.damage is not Damage.NONE and (not scanned.txns or scanned.txns[-1].zxid < zxid):
            return
        kept = [end for txn, end in zip(scanned.txns, scanned.ends, strict=True) if txn.zxid <= zxid]
        if kept:
            cut_file(path, kept[-1], files)
        else:
            remove_all([path], files)
        return

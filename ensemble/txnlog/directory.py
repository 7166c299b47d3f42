"""Creates, checks and locks data directories; the lock prevents a second process from using them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import exists, make_directories
from zabka.ensemble.txnlog.log import list_logs
from zabka.ensemble.txnlog.snapshots import list_snapshots

VERSION_DIRECTORY = "version-2"
LOCK_NAME = ".lock"


class DirectoryLock:
    """Lock on a data directory for this process; the kernel releases the lock when the process ends in any way."""

    def __init__(self, directory: Path, files: Files = HOST) -> None:
        self._files = files
        self._descriptor = files.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            files.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = files.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            files.close(self._descriptor)
            raise DataDirectoryError(f"{directory} is in use by process {holder}: stop that, or use another") from None
        files.ftruncate(self._descriptor, 0)
        files.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        self._files.close(self._descriptor)


def open_directories(data_dir: Path, log_dir: Path, files: Files = HOST) -> tuple[Directories, list[DirectoryLock]]:
    """Create, check and lock dataDir and dataLogDir. Raises DataDirectoryError with a one-line message."""
    directories = Directories(data_dir / VERSION_DIRECTORY, log_dir / VERSION_DIRECTORY, files)
    for base in (data_dir, log_dir):
        if exists(base / "meta.properties", files):
            raise DataDirectoryError(f"{base} belongs to a Kafka broker (it holds meta.properties)")
    try:
        for path in (directories.data, directories.log):
            make_directories(path, files)
        paths = dict.fromkeys(files.resolve(path) for path in (directories.data, directories.log))
        locks = [DirectoryLock(path, files) for path in paths]
    except OSError as bad:
        raise DataDirectoryError(f"{bad.filename or data_dir} cannot be used: {bad.strerror}") from None
    if len(locks) == 2:
        # Reject transaction logs in dataDir, as FileTxnSnapLog does: they are from before dataLogDir was configured,
        # and would not be read.
        if strays := list_logs(directories.data, files):
            raise DataDirectoryError(f"{strays[0][1]} is a transaction log, but dataLogDir is {log_dir}")
        if strays := list_snapshots(directories.log, files):
            raise DataDirectoryError(f"{strays[0][1]} is a snapshot in dataLogDir; snapshots belong into {data_dir}")
    return directories, locks

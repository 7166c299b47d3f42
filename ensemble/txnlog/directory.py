"""Taking possession of the data directories: made when missing, checked, locked against a second process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.log import list_logs
from ensemble.txnlog.recovery import Directories
from ensemble.txnlog.snapshots import list_snapshots

VERSION_DIRECTORY = "version-2"
LOCK_NAME = ".lock"


class DirectoryLock:
    """Holds a data directory for this process; the kernel lets go of it when the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise DataDirectoryError(f"{directory} is in use by process {holder}: stop that, or use another") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go."""
        os.close(self._descriptor)


def open_directories(data_dir: Path, log_dir: Path) -> tuple[Directories, list[DirectoryLock]]:
    """dataDir and dataLogDir, ready for use and locked.  Raises DataDirectoryError with one clear line."""
    directories = Directories(data_dir / VERSION_DIRECTORY, log_dir / VERSION_DIRECTORY)
    for base in (data_dir, log_dir):
        if (base / "meta.properties").exists():
            raise DataDirectoryError(f"{base} belongs to a Kafka broker (it holds meta.properties)")
    try:
        for path in directories:
            path.mkdir(parents=True, exist_ok=True)
        locks = [DirectoryLock(path) for path in dict.fromkeys(path.resolve() for path in directories)]
    except OSError as bad:
        raise DataDirectoryError(f"{bad.filename or data_dir} cannot be used: {bad.strerror}") from None
    if len(locks) == 2:
        # FileTxnSnapLog's check: a dataLogDir that was added later would hide the logs written before.
        if strays := list_logs(directories.data):
            raise DataDirectoryError(f"{strays[0][1]} is a transaction log, but dataLogDir is {log_dir}")
        if strays := list_snapshots(directories.log):
            raise DataDirectoryError(f"{strays[0][1]} is a snapshot in dataLogDir; snapshots belong into {data_dir}")
    return directories, locks

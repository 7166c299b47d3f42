"""The two directories that contain a peer's history."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog.files import LOG_PREFIX, SNAPSHOT_PREFIX, by_zxid


class Directories(NamedTuple):
    """Directories that contain a peer's history, and the file system to use.

    dataDir/version-2 contains the snapshots and epochs, and dataLogDir/version-2 contains the logs. Often both are the
    same directory.
    """

    data: Path
    log: Path
    files: Files = HOST

    def logs(self) -> list[tuple[int, Path]]:
        """Return the log files, oldest first, each with the zxid of its first transaction, which is in the file's name.

        Raises OSError.
        """
        return by_zxid(self.log, LOG_PREFIX, self.files)

    def snapshots(self) -> list[tuple[int, Path]]:
        """Return the snapshot files, oldest first, each with its zxid. Raises OSError."""
        return by_zxid(self.data, SNAPSHOT_PREFIX, self.files)

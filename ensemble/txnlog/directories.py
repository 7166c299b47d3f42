"""The two directories of a peer's history, on one file system."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog.files import LOG_PREFIX, SNAPSHOT_PREFIX, by_zxid


class Directories(NamedTuple):
    """dataDir/version-2 (snapshots and epochs) and dataLogDir/version-2 (logs), often the same, and their file
    system."""

    data: Path
    log: Path
    files: Files = HOST

    def logs(self) -> list[tuple[int, Path]]:
        """Log files, oldest first, with the zxid in their names (that of their first transaction).  Raises OSError."""
        return by_zxid(self.log, LOG_PREFIX, self.files)

    def snapshots(self) -> list[tuple[int, Path]]:
        """Snapshot files, oldest first, with their zxids.  Raises OSError."""
        return by_zxid(self.data, SNAPSHOT_PREFIX, self.files)

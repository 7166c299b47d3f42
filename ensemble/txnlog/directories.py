"""The two directories of a peer's history."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog.files import LOG_PREFIX, SNAPSHOT_PREFIX, by_zxid


class Directories(NamedTuple):
    """Directories of a peer's history, and their file system.

    dataDir/version-2 contains snapshots and epochs, dataLogDir/version-2 logs; often they are the same.
    """

    data: Path
    log: Path
    files: Files = HOST

    def logs(self) -> list[tuple[int, Path]]:
        """Return the log files with the zxids in their names (of their first transactions), oldest first.

        Raises OSError.
        """
        return by_zxid(self.log, LOG_PREFIX, self.files)

    def snapshots(self) -> list[tuple[int, Path]]:
        """Return the snapshot files with their zxids, oldest first. Raises OSError."""
        return by_zxid(self.data, SNAPSHOT_PREFIX, self.files)

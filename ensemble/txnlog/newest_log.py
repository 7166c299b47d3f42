"""A file that names the newest log file, stored next to the snapshots, so that a start detects a missing log.

Without this file, a directory that lacks its newest log looks like a directory without transactions since the last
snapshot. So does an empty dataLogDir on which nothing is mounted. ZooKeeper's servers do not notice the difference, and
vote with such a directory. The file is written when the log file is durable in its directory, and removed before the
log file is removed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog.files import exists, read_bytes, remove_all, replace_file

NOTE_NAME = ".newest-log"


def note_begun(data: Path, first: int, files: Files = HOST) -> None:
    """Record a new, durable log file, whose first transaction is `first`, as the newest one. Raises OSError."""
    replace_file(data / NOTE_NAME, f"{first:x}".encode(), NOTE_NAME + ".tmp", files)


def noted(data: Path, files: Files = HOST) -> int | None:
    """Return the zxid of the newest log file's first transaction, or None if none is recorded. Raises OSError."""
    with suppress(FileNotFoundError, ValueError):
        return int(read_bytes(data / NOTE_NAME, files), 16)
    return None


def forget(data: Path, files: Files = HOST) -> None:
    """Remove the record of the newest log file, which is about to be deleted intentionally. Raises OSError."""
    if exists(data / NOTE_NAME, files):
        remove_all([data / NOTE_NAME], files)

"""Which log file was begun last, noted beside the snapshots: a start finds out by it that the file is gone.

Without a note a directory that lacks its newest log, or a dataLogDir that is empty because nothing is mounted there,
looks like one in which nothing was logged since the last snapshot; ZooKeeper's servers take it for that, and vote with
it.  The note is written when the file is durable in its directory, and goes before the file does.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog.files import exists, read_bytes, remove_all, replace_file

NOTE_NAME = ".newest-log"


def note_begun(data: Path, first: int, files: Files = HOST) -> None:
    """A log file whose first transaction is `first` was begun, and is durable.  Raises OSError."""
    replace_file(data / NOTE_NAME, f"{first:x}".encode(), NOTE_NAME + ".tmp", files)


def noted(data: Path, files: Files = HOST) -> int | None:
    """The first transaction of the log file that was begun last, as far as anybody noted.  Raises OSError."""
    with suppress(FileNotFoundError, ValueError):
        return int(read_bytes(data / NOTE_NAME, files), 16)
    return None


def forget(data: Path, files: Files = HOST) -> None:
    """That file is about to go, and is not to be missed.  Raises OSError."""
    if exists(data / NOTE_NAME, files):
        remove_all([data / NOTE_NAME], files)

"""A snapshot that an operator wants in place of all there is: received under a name of its own, taken over at a start.

Nothing of what a peer has is touched before the new history is whole and durable, and a crash in between is made up for
at the next start.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import IO, cast

from ensemble.ids import Epoch, Zxid, epoch_of
from ensemble.tree_snapshot import TreeSnapshot
from ensemble.txnlog.epochs import ACCEPTED, CURRENT, read_epoch, write_epoch
from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.files import remove_all, sync_directory
from ensemble.txnlog.losses import MARKER_NAME
from ensemble.txnlog.recovery import Directories, replace_history
from ensemble.txnlog.snappy_stream import MAGIC, SnappyReader
from ensemble.txnlog.snapshots import SnapshotDamaged, read_stream

RECEIVED_NAME = ".restore"
ARRIVING_NAME = ".restore.tmp"
_GZIP_MAGIC = b"\x1f\x8b"


def read_received(path: Path) -> TreeSnapshot:
    """Read and check a snapshot whose name does not say its zxid.  Raises SnapshotDamaged, OSError."""
    with path.open("rb") as raw:
        file: IO[bytes] = raw
        head = raw.read(len(MAGIC))
        raw.seek(0)
        if head.startswith(_GZIP_MAGIC):
            file = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        elif head == MAGIC:
            file = cast(IO[bytes], SnappyReader(raw))
        return read_stream(file)


def keep_received(directory: Path) -> None:
    """What arrived is checked and is to be taken over: from now on that survives a crash.  Raises OSError."""
    arrived = directory / ARRIVING_NAME
    with arrived.open("rb") as file:
        os.fsync(file.fileno())
    arrived.rename(directory / RECEIVED_NAME)
    sync_directory(directory)


def take_received(directories: Directories) -> Zxid | None:
    """Make a received snapshot, where there is one, all there is; its zxid.  Raises DataDirectoryError, OSError.

    Epochs never go back.  The accepted one is raised first, so that the history is never ahead of it.
    """
    received = directories.data / RECEIVED_NAME
    (directories.data / ARRIVING_NAME).unlink(missing_ok=True)
    if not received.exists():
        return None
    try:
        snapshot = read_received(received)
    except SnapshotDamaged as damaged:
        reason = f"{received}, which was to be restored: {damaged}; remove it to go on without"
        raise DataDirectoryError(reason) from None
    _raise_epoch(directories.data, ACCEPTED, epoch_of(snapshot.zxid))
    replace_history(directories, snapshot)
    _raise_epoch(directories.data, CURRENT, epoch_of(snapshot.zxid))
    remove_all([directories.data / MARKER_NAME, received])
    return snapshot.zxid


def _raise_epoch(directory: Path, name: str, epoch: Epoch) -> None:
    if (read_epoch(directory, name) or 0) < epoch:
        write_epoch(directory, name, epoch)

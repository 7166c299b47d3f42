"""Restore of a snapshot that replaces the whole history: received under a separate name, applied at the next start.

No data of a peer is changed before the new history is complete and durable, and the next start completes a restore that
a crash interrupted.

A server of an ensemble has to win the next election with the restored tree, or the leader would overwrite the tree.
While the server restarts, the other servers may elect leaders. They always do if this server was the leader. So the
restored history gets an epoch well above the accepted one, unless the snapshot's epoch is already higher than any that
the ensemble can reach during the restart. Only the zxid of the snapshot changes; the znodes keep their zxids.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import IO, cast

from zabka.ensemble.ids import Epoch, Zxid, epoch_of, make_zxid
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT, read_epoch, write_epoch
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import exists, remove_all, sync_directory, sync_file, unlink
from zabka.ensemble.txnlog.losses import MARKER_NAME
from zabka.ensemble.txnlog.recovery import replace_history
from zabka.ensemble.txnlog.snappy_stream import MAGIC, SnappyReader
from zabka.ensemble.txnlog.snapshots import SnapshotDamaged, read_stream

RECEIVED_NAME = ".restore"
ARRIVING_NAME = ".restore.tmp"
EPOCHS_AHEAD = 100
"""Number of epochs by which the epoch of a restored history exceeds the server's accepted epoch.

The other servers begin fewer new epochs than this during the restart.
"""
_GZIP_MAGIC = b"\x1f\x8b"


def read_received(path: Path, files: Files = HOST) -> TreeSnapshot:
    """Read and check a received snapshot file, whose name has no zxid. Raises SnapshotDamaged, OSError."""
    with files.stream(path, "rb") as raw:
        file: IO[bytes] = raw
        head = raw.read(len(MAGIC))
        raw.seek(0)
        if head.startswith(_GZIP_MAGIC):
            file = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        elif head == MAGIC:
            file = cast(IO[bytes], SnappyReader(raw))
        return read_stream(file)


def keep_received(directory: Path, files: Files = HOST) -> None:
    """Store a received and checked snapshot durably for the next start. Raises OSError."""
    arrived = directory / ARRIVING_NAME
    sync_file(arrived, files)
    files.rename(arrived, directory / RECEIVED_NAME)
    sync_directory(directory, files)


def restored_zxid(snapshot: Zxid, accepted: Epoch, server_id: int) -> Zxid:
    """Return the zxid that a restored snapshot gets on a server of an ensemble.

    It is higher than the zxid of every transaction that the other servers log until this server returns. Its counter is
    the server's id. So if two servers restore different snapshots at the same time, their histories end at different
    zxids, and one replaces the other.
    """
    epoch = Epoch(accepted + EPOCHS_AHEAD)
    return snapshot if epoch_of(snapshot) > epoch else make_zxid(epoch, server_id)


def take_received(directories: Directories, server_id: int | None = None) -> Zxid | None:
    """Replace the whole history by a received snapshot, if there is one, and return the snapshot's zxid.

    `server_id` is the id of a server in an ensemble, None for a standalone server. Epochs never decrease. The accepted
    epoch is raised first, so that the history's epoch never exceeds it. Raises DataDirectoryError, OSError.
    """
    received = directories.data / RECEIVED_NAME
    files = directories.files
    unlink(directories.data / ARRIVING_NAME, files)
    if not exists(received, files):
        return None
    try:
        snapshot = read_received(received, files)
    except SnapshotDamaged as damaged:
        reason = f"{received}, which was to be restored: {damaged}; remove it to go on without"
        raise DataDirectoryError(reason) from None
    if server_id is not None:
        accepted = read_epoch(directories.data, ACCEPTED, files) or Epoch(0)
        zxid = restored_zxid(snapshot.zxid, accepted, server_id)
        snapshot = TreeSnapshot(zxid, snapshot.sessions, snapshot.nodes, snapshot.digest)
    _raise_epoch(directories.data, ACCEPTED, epoch_of(snapshot.zxid), files)
    replace_history(directories, snapshot)
    _raise_epoch(directories.data, CURRENT, epoch_of(snapshot.zxid), files)
    remove_all([directories.data / MARKER_NAME, received], files)
    return snapshot.zxid


def _raise_epoch(directory: Path, name: str, epoch: Epoch, files: Files) -> None:
    if (read_epoch(directory, name, files) or 0) < epoch:
        write_epoch(directory, name, epoch, files)

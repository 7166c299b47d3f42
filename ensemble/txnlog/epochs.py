"""The two epoch files, acceptedEpoch and currentEpoch, in ASCII decimal (QuorumPeer, AtomicFileOutputStream)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.ids import Epoch, epoch_of, zxid_text
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import read_bytes, replace_file

ACCEPTED = "acceptedEpoch"
CURRENT = "currentEpoch"
TEMPORARY_SUFFIX = ".tmp"


def write_epoch(directory: Path, name: str, epoch: int, files: Files = HOST) -> None:
    """Store an epoch, atomically and durably.  Raises OSError."""
    replace_file(directory / name, str(epoch).encode(), name + TEMPORARY_SUFFIX, files)


def read_epoch(directory: Path, name: str, files: Files = HOST) -> Epoch | None:
    """Return the epoch in the file, or None if there is no file.

    Raises DataDirectoryError if the content is not a number.
    """
    path = directory / name
    try:
        text = read_bytes(path, files)
    except FileNotFoundError:
        return None
    number = text.strip()
    if not number.isdigit() or len(number) > 18:
        raise DataDirectoryError(f"{path} holds {text[:40]!r} instead of an epoch")
    return Epoch(int(number))


def _pending_epoch(directory: Path, files: Files) -> Epoch | None:
    """Return the epoch in currentEpoch.tmp, which a crash left, or None if it is missing or incomplete (full disk)."""
    try:
        return read_epoch(directory, CURRENT + TEMPORARY_SUFFIX, files)
    except DataDirectoryError:
        return None


class Epochs(NamedTuple):
    """The accepted and current epochs of a peer, and the epoch files that must still be written."""

    accepted: Epoch
    current: Epoch
    unwritten: list[tuple[str, Epoch]]

    def write(self, directory: Path, files: Files = HOST) -> None:
        """Write the files that do not contain their epoch yet. Raises OSError."""
        for name, epoch in self.unwritten:
            write_epoch(directory, name, epoch, files)


def check_epochs(directory: Path, last_zxid: int, files: Files = HOST) -> Epochs:
    """Check acceptedEpoch and currentEpoch against each other and against the last logged zxid; write nothing.

    If a file is missing, the last zxid's epoch is used. Raises DataDirectoryError if the files contradict the history
    (QuorumPeer.loadDataBase). Unlike in ZooKeeper, a last zxid whose epoch is above currentEpoch but not above
    acceptedEpoch is valid: a crash between writing a synchronisation's transactions and writing its epoch leaves this
    state.
    """
    epoch = epoch_of(last_zxid)
    current = read_epoch(directory, CURRENT, files)
    accepted = read_epoch(directory, ACCEPTED, files)
    unwritten: list[tuple[str, Epoch]] = []
    if current is None:
        current = epoch
        unwritten.append((CURRENT, current))
    elif epoch > current:
        # currentEpoch.tmp was written but not renamed before a crash. At that point, the history of the new epoch was
        # already on disk.
        pending = _pending_epoch(directory, files)
        if pending is not None and pending >= epoch:
            current = pending
            unwritten.append((CURRENT, current))
        elif accepted is None or accepted < epoch:
            raise DataDirectoryError(
                f"{directory / CURRENT} is {current}, older than the last transaction {zxid_text(last_zxid)}. If the "
                f"logs are those of this server, remove {CURRENT} and {ACCEPTED}: the next start writes both again."
            )
    if accepted is None:
        accepted = Epoch(max(epoch, current))
        unwritten.append((ACCEPTED, accepted))
    if accepted < current:
        raise DataDirectoryError(
            f"{directory / ACCEPTED} is {accepted}, less than {CURRENT}, which is {current}. If {CURRENT} is right, "
            f"remove {ACCEPTED}: the next start writes it again."
        )
    return Epochs(accepted, current, unwritten)

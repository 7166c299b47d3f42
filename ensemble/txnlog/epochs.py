"""The two epoch files, ASCII decimal (org.apache.zookeeper.server.quorum.QuorumPeer, AtomicFileOutputStream)."""

from __future__ import annotations

from pathlib import Path

from ensemble.ids import Epoch, epoch_of, zxid_text
from ensemble.runtime.files import HOST, Files
from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.files import read_bytes, replace_file

ACCEPTED = "acceptedEpoch"
CURRENT = "currentEpoch"
TEMPORARY_SUFFIX = ".tmp"


def write_epoch(directory: Path, name: str, epoch: int, files: Files = HOST) -> None:
    """Store an epoch, atomically and durably.  Raises OSError."""
    replace_file(directory / name, str(epoch).encode(), name + TEMPORARY_SUFFIX, files)


def read_epoch(directory: Path, name: str, files: Files = HOST) -> Epoch | None:
    """The epoch in that file, or None where there is no file.  Raises DataDirectoryError for anything but a number."""
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
    """The epoch that was about to be written, or None where a full disk did not take it whole."""
    try:
        return read_epoch(directory, CURRENT + TEMPORARY_SUFFIX, files)
    except DataDirectoryError:
        return None


def load_epochs(directory: Path, last_zxid: int, files: Files = HOST) -> tuple[Epoch, Epoch]:
    """acceptedEpoch and currentEpoch, checked against each other and against the last logged zxid.

    A missing file counts as the last zxid's epoch and is written.  Raises DataDirectoryError where the files
    contradict the history (QuorumPeer.loadDataBase).  Unlike there, a history that reaches beyond currentEpoch but not
    beyond acceptedEpoch is fine: a crash between a synchronisation's transactions and its epoch leaves just that.
    """
    epoch = epoch_of(last_zxid)
    current = read_epoch(directory, CURRENT, files)
    accepted = read_epoch(directory, ACCEPTED, files)
    if current is None:
        write_epoch(directory, CURRENT, epoch, files)
        current = epoch
    elif epoch > current:
        # A crash between writing currentEpoch.tmp and renaming it: the history of that epoch is already here.
        pending = _pending_epoch(directory, files)
        if pending is not None and pending >= epoch:
            write_epoch(directory, CURRENT, pending, files)
            current = pending
        elif accepted is None or accepted < epoch:
            raise DataDirectoryError(
                f"{directory / CURRENT} is {current}, older than the last transaction {zxid_text(last_zxid)}"
            )
    if accepted is None:
        write_epoch(directory, ACCEPTED, max(epoch, current), files)
        accepted = Epoch(max(epoch, current))
    if accepted < current:
        raise DataDirectoryError(f"{directory / ACCEPTED} is {accepted}, less than {CURRENT}, which is {current}")
    return accepted, current

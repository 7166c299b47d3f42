"""Damage to a peer's history that a crash cannot explain, and the file that marks the history until it is repaired.

Which transactions are lost is unknown. The peer may have acknowledged them, so that a leader committed them. So when
the damage is found, a file marks this history as incomplete. While the file exists, the peer does not vote, and its
acknowledgements do not count. It follows any leader that the others elect, and fetches the missing part from that
leader. The file is removed when this part is durable.

Recovery first reads everything and only collects the changes (`Losses.change`). It applies them after the last check
that can reject the start, so a rejected start leaves every file as it was. No change deletes data: a damaged file is
copied or renamed to an unused name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.ids import zxid_text
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.txnlog import newest_log
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import LOG_PREFIX, exists, read_used, remove_all, replace_file, sync_directory
from zabka.ensemble.txnlog.log import cut_file
from zabka.ensemble.txnlog.records import HEADER, Damage
from zabka.journal.events import LogDamageFound

MARKER_NAME = ".incomplete"
"""Name of the file that exists while acknowledged transactions of this peer may be missing.

The file contains the reason.
"""
ASIDE_PREFIX = "damaged-"
DOUBT_NAME = ".in-doubt"
"""Name of the file that exists while this peer's tree is known to differ from the leader's.

It is removed when a SNAP has replaced the tree.
"""
DAMAGE_FOUND = "the log turned out to be damaged"
"""Reason given for a restart because of damage that was detected while the peer was running."""
_ACTION = "set aside; what is missing comes from the leader"
UNCHANGED = "No file was changed"
"""Part of the error message when recovery rejects a start."""
_LONE_REMEDY = (
    "no other voter has what is missing: restore the file from a backup, or move it and the files after it away to "
    "continue without them"
)


class Loss(NamedTuple):
    """Position in a log after which transactions may be lost.

    It contains the file, the offset, the reason, the last transaction before it, and the highest zxid that a snapshot
    covers.
    """

    path: Path
    offset: int
    damage: Damage
    behind: int
    floor: int


class Losses:
    """Plans the repair of damage that may have lost transactions.

    No file is modified before `carry_out`. If there is no other voter that may have the transactions, every method that
    reports a loss raises DataDirectoryError.
    """

    def __init__(self, directories: Directories, damages: list[LogDamageFound], may_ask_others: bool) -> None:
        self.marker = directories.data / MARKER_NAME
        self.marks = False
        """Whether `carry_out` marks this history as incomplete."""
        self._changes: list[Callable[[], None]] = []
        self._directories = directories
        self.files = directories.files
        self._damages = damages
        self._may_ask_others = may_ask_others

    def change(self, step: Callable[..., None], *args: object) -> None:
        """Add a change to the planned changes of files, which are applied in the order in which they were added."""
        self._changes.append(partial(step, *args))

    def carry_out(self) -> None:
        """Apply the planned changes, in order.

        Raises OSError; the next start then plans the remaining changes again.
        """
        while self._changes:
            self._changes.pop(0)()

    def set_aside(self, path: Path) -> None:
        """Plan to rename a file to a name that no server reads."""
        self.change(set_aside, path, self.files)

    def lose(self, loss: Loss, complaint: str, later: list[Path]) -> None:
        """Plan to truncate a log file at the loss and to rename the `later` files; mark the history as incomplete."""
        self._mark(complaint, loss.damage)
        if loss.behind < loss.floor:
            self._give_up_snapshots_before(loss.floor)
        for path in reversed(later):
            self.set_aside(path)
        kept_bytes = loss.offset if loss.offset > HEADER.size else 0
        if kept_bytes:
            self.change(copy_aside, loss.path, self.files)
            self.change(cut_file, loss.path, kept_bytes, self.files)
        else:
            self.set_aside(loss.path)
        reason = f"{loss.damage.value} behind {zxid_text(loss.behind)}"
        self._damages.append(LogDamageFound(loss.path.name, loss.offset, reason, _ACTION))

    def _give_up_snapshots_before(self, floor: int) -> None:
        """Rename the snapshots below `floor`: the log after them now has a gap that only the newest snapshot covers.

        If the newest snapshot becomes unreadable, recovery must not use an older one, because a gap at the end of an
        epoch is not visible in the zxids.
        """
        for zxid, path in self._directories.snapshots():
            if zxid < floor:
                self.set_aside(path)
                reason = f"the log between it and the snapshot of {zxid_text(floor)} is damaged"
                self._damages.append(LogDamageFound(path.name, 0, reason, "set aside"))

    def lose_all_logs(self, complaint: str) -> None:
        """Plan to rename all logs, because the snapshot that they follow is damaged; mark the history as incomplete."""
        self._mark(complaint, Damage.GAP)
        for _, path in reversed(self._directories.logs()):
            self.set_aside(path)
            self._damages.append(LogDamageFound(path.name, 0, "no usable snapshot before it", _ACTION))

    def lose_newest_log(self, first: int, last_zxid: int) -> None:
        """Report that the newest log file is missing and that no other file contains its transactions."""
        path, note = self._directories.log / f"{LOG_PREFIX}.{first:x}", self._directories.data / newest_log.NOTE_NAME
        self._mark(
            f"{path}, which was begun behind {zxid_text(last_zxid)}, is gone; if that is meant, remove {note}",
            Damage.GAP,
        )
        self._damages.append(
            LogDamageFound(path.name, 0, "the newest log is gone", "what is missing comes from the leader")
        )

    def lose_snapshot(self, path: Path, last_zxid: int) -> None:
        """Report that a snapshot cannot be read and is newer than all readable data."""
        if not self.marks and not exists(self.marker, self.files):
            self._mark(f"{path} is damaged, and without it the history ends at {zxid_text(last_zxid)}", Damage.GAP)

    def _mark(self, complaint: str, damage: Damage) -> None:
        if damage is Damage.CONTENT:
            raise DataDirectoryError(f"{complaint}. {UNCHANGED}; start a version that can read this transaction")
        if not self._may_ask_others:
            raise DataDirectoryError(f"{complaint}. {UNCHANGED}; {_LONE_REMEDY}")
        self.marks = True
        self.change(replace_file, self.marker, complaint.encode(), MARKER_NAME + ".tmp", self.files)
        self.change(newest_log.forget, self._directories.data, self.files)


def set_aside(path: Path, files: Files = HOST) -> None:
    """Rename a file to an unused name that no server reads."""
    files.rename(path, _free_name(path, files))
    sync_directory(path.parent, files)


def copy_aside(path: Path, files: Files = HOST) -> None:
    """Copy a file durably to a name that no server reads; a crash leaves the complete copy or none."""
    replace_file(_free_name(path, files), read_used(path, files), f".{ASIDE_PREFIX}copy.tmp", files)


def _free_name(path: Path, files: Files) -> Path:
    """Return `damaged-NAME`, or `damaged-NAME.2` and so on: existing files are never overwritten."""
    first = path.with_name(ASIDE_PREFIX + path.name)
    found, number = first, 1
    while exists(found, files):
        number += 1
        found = first.with_name(f"{first.name}.{number}")
    return found


def note_doubt(data: Path, files: Files = HOST) -> None:
    """Record durably that this server's history results in another tree than the leader's.

    Raises OSError.
    """
    said = b"a transaction's digest was not that of the tree here"
    replace_file(data / DOUBT_NAME, said, DOUBT_NAME + ".tmp", files)


def clear(data: Path, files: Files = HOST) -> None:
    """Remove the mark that the history is incomplete, durably."""
    if exists(data / MARKER_NAME, files):
        remove_all([data / MARKER_NAME], files)

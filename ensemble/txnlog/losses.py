"""Damage to a history beyond what a crash leaves, and the mark that a peer bears until it is made good.

Which transactions are lost nobody can tell, and the peer may have acknowledged them: a leader may have counted on it.
So from the moment the damage is found a file says that this history is not complete; the peer then neither votes nor
promises anything that counts, follows whatever leader the others elect, and takes the missing part from it.  The file
goes when that is durable.  What is damaged is kept beside the log for whoever wants to look.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from ensemble.ids import zxid_text
from ensemble.txnlog import newest_log
from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.files import LOG_PREFIX, remove_all, replace_file, sync_directory
from ensemble.txnlog.log import cut_file, list_logs
from ensemble.txnlog.records import HEADER, Damage
from ensemble.txnlog.snapshots import list_snapshots
from journal.events import LogDamageFound

MARKER_NAME = ".incomplete"
"""Present while transactions may be missing here that this peer once acknowledged; says why."""
ASIDE_PREFIX = "damaged-"
DOUBT_NAME = ".in-doubt"
"""Present while this history is known to lead to another tree than the leader's; a SNAP ends it."""
DAMAGE_FOUND = "the log turned out to be damaged"
"""Why a peer begins anew that finds it in the midst of its service."""
_ACTION = "set aside; what is missing comes from the leader"


class Loss(NamedTuple):
    """Where a log stops being usable: file, offset, why, the last transaction before, and up to where a snapshot
    covers for it."""

    path: Path
    offset: int
    damage: Damage
    behind: int
    floor: int


class Losses:
    """Deals with damage that may have cost transactions; without other peers to ask it raises DataDirectoryError."""

    def __init__(self, data: Path, log: Path, damages: list[LogDamageFound], may_ask_others: bool) -> None:
        self.marker = data / MARKER_NAME
        self._data = data
        self._log = log
        self._damages = damages
        self._may_ask_others = may_ask_others

    def lose(self, loss: Loss, complaint: str, later: list[Path]) -> None:
        """Keep a log file up to the loss, and nothing of the `later` ones."""
        self._mark(complaint, loss.damage)
        if loss.behind < loss.floor:
            self._give_up_snapshots_before(loss.floor)
        for path in reversed(later):
            set_aside(path)
        kept_bytes = loss.offset if loss.offset > HEADER.size else 0
        if kept_bytes:
            shutil.copyfile(loss.path, loss.path.with_name(ASIDE_PREFIX + loss.path.name))
            cut_file(loss.path, kept_bytes)
        else:
            set_aside(loss.path)
        reason = f"{loss.damage.value} behind {zxid_text(loss.behind)}"
        self._damages.append(LogDamageFound(loss.path.name, loss.offset, reason, _ACTION))

    def _give_up_snapshots_before(self, floor: int) -> None:
        """Behind them the log has a gap from now on, where only the newest snapshot covers for it.  Should that become
        unreadable, they must not take its place: a gap that ends with an epoch does not show in the numbers."""
        for zxid, path in list_snapshots(self._data):
            if zxid < floor:
                set_aside(path)
                reason = f"the log between it and the snapshot of {zxid_text(floor)} is damaged"
                self._damages.append(LogDamageFound(path.name, 0, reason, "set aside"))

    def lose_all_logs(self, complaint: str) -> None:
        """No snapshot is left that the logs could follow."""
        self._mark(complaint, Damage.GAP)
        for _, path in reversed(list_logs(self._log)):
            set_aside(path)
            self._damages.append(LogDamageFound(path.name, 0, "no usable snapshot before it", _ACTION))

    def lose_newest_log(self, first: int, last_zxid: int) -> None:
        """The log file that was begun last is not there, and nothing else covers for it."""
        name = f"{LOG_PREFIX}.{first:x}"
        self._mark(
            f"{self._log / name}, which was begun behind {zxid_text(last_zxid)}, is gone; if that is meant, remove "
            f"{self._data / newest_log.NOTE_NAME}", Damage.GAP,
        )  # fmt: skip
        self._damages.append(LogDamageFound(name, 0, "the newest log is gone", "what is missing comes from the leader"))

    def lose_snapshot(self, path: Path, last_zxid: int) -> None:
        """A snapshot that cannot be read is newer than everything that can."""
        if not self.marker.exists():
            self._mark(f"{path} is damaged, and without it the history ends at {zxid_text(last_zxid)}", Damage.GAP)

    def _mark(self, complaint: str, damage: Damage) -> None:
        if not self._may_ask_others or damage is Damage.CONTENT:
            raise DataDirectoryError(complaint)
        replace_file(self.marker, complaint.encode(), MARKER_NAME + ".tmp")
        newest_log.forget(self._data)


def set_aside(path: Path) -> None:
    """Keep a damaged file, under a name that nothing reads."""
    path.rename(path.with_name(ASIDE_PREFIX + path.name))
    sync_directory(path.parent)


def note_doubt(data: Path) -> None:
    """The history here led to another tree than the leader's; durable when this returns.  Raises OSError."""
    replace_file(data / DOUBT_NAME, b"a transaction's digest was not that of the tree here", DOUBT_NAME + ".tmp")


def clear(data: Path) -> None:
    """The history is complete again, durably."""
    if (data / MARKER_NAME).exists():
        remove_all([data / MARKER_NAME])

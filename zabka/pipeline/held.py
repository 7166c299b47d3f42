"""Keeps journal files that a stream has not read yet, even after the node has removed them.

A node's journal is bounded: the node removes its oldest file when a new one begins. For each file that it finds, the
stream creates a hard link in a separate directory; lines appended to the file are visible through the link. A link
needs no copy, and it uses disk space only while the stream lags. If a cluster is created again in the same directory,
its files have the names of the earlier files. The stream reads the new files after it has read the earlier files of the
same name.

Without such a directory, or if the directory is on another file system, files are read in place. Lines of a file that
is removed before it was read are missing; the lake lists them (`gaps`).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from zabka.pipeline.positions import Offset, is_done, key_of
from zabka.pipeline.runs import JournalFile, journal_files


class Held:
    """Journal files in the directory `root`, and removed files that must still be read."""

    def __init__(self, root: Path, hold: Path | None) -> None:
        self._root = root
        self._hold = hold
        self.waiting: set[str] = set()
        """Runs for which the last call of `files` held back a file.

        Such a file must wait until an earlier file of the same name has been read.
        """

    def files(self, start: Offset) -> dict[str, JournalFile]:
        """Return every file by its key, and create links to new files.

        `start` are the positions up to which the lines are stored elsewhere.
        """
        self.waiting = set()
        present = {key_of(self._root, file.path): file for file in journal_files(self._root)}
        if self._hold is None:
            return present
        for key, file in present.items():
            self._link(key, file, start)
        kept = {key_of(self._hold, file.path): file for file in journal_files(self._hold)}
        return present | kept

    def files_to_go_on_with(self, start: Offset) -> dict[str, JournalFile]:
        """Return the files that can be read now.

        Unread files of the runs in `waiting` are omitted: they belong to a cluster that was created again, and its
        older files must be read first.
        """
        return {key: file for key, file in self.files(start).items() if key in start or file.run not in self.waiting}

    def _link(self, key: str, file: JournalFile, start: Offset) -> None:
        assert self._hold is not None
        link = self._hold / key
        # If the link cannot be created (another file system, no support for links, or a removed file), the file is
        # read in place.
        with contextlib.suppress(OSError):
            if link.exists() and not link.samefile(file.path):
                # A link of this name exists for an older file, which may not be completely read yet.
                if not is_done(link, start.get(key)):
                    self.waiting.add(file.run)
                    return
                link.unlink()
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(file.path, link)

    def release(self, end: Offset) -> None:
        """Remove the links to removed files that were read to their end.

        `end` are the positions up to which the lines are stored elsewhere.
        """
        if self._hold is None:
            return
        for file in journal_files(self._hold):
            key = key_of(self._hold, file.path)
            gone = not (self._root / key).exists()
            if gone and is_done(file.path, end.get(key)):
                file.path.unlink(missing_ok=True)

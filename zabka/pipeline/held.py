"""Journal files that a stream keeps until it has read them, even after the node has removed them.

A node's journal is bounded: the node removes its oldest file when a new one begins. For each file that it finds, the
stream creates a second name, a hard link, in a separate directory; appends through the first name are visible through
the second. A link costs no copy, and it uses disk space only while the stream lags. If a cluster is recreated in the
same directory, its files get the names of the earlier ones: they wait until the earlier files with these names were
read.

Without such a directory, or if it is on another file system, files are read in place. Lines of a file that is removed
before it was read are missing: the lake names them (`gaps`).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from zabka.pipeline.positions import Offset, is_done, key_of
from zabka.pipeline.runs import JournalFile, journal_files


class Held:
    """The journal files below `root`, and the removed files that must still be read."""

    def __init__(self, root: Path, hold: Path | None) -> None:
        self._root = root
        self._hold = hold
        self.waiting: set[str] = set()
        """Runs with a file that waits for an earlier file of the same name, as of the last call of `files`."""

    def files(self, start: Offset) -> dict[str, JournalFile]:
        """Return every file by its key, linked so that it is kept; everything up to `start` is stored elsewhere."""
        self.waiting = set()
        present = {key_of(self._root, file.path): file for file in journal_files(self._root)}
        if self._hold is None:
            return present
        for key, file in present.items():
            self._link(key, file, start)
        kept = {key_of(self._hold, file.path): file for file in journal_files(self._hold)}
        return present | kept

    def files_to_go_on_with(self, start: Offset) -> dict[str, JournalFile]:
        """Return the files that `files` returns, without unread files of a waiting run.

        Those belong to the recreated cluster.
        """
        return {key: file for key, file in self.files(start).items() if key in start or file.run not in self.waiting}

    def _link(self, key: str, file: JournalFile, start: Offset) -> None:
        assert self._hold is not None
        link = self._hold / key
        # If the link cannot be created (another file system, no support for links, or a removed file), the file is
        # read in place.
        with contextlib.suppress(OSError):
            if link.exists() and not link.samefile(file.path):
                # The link's name is in use for an older file, which may not be completely read yet.
                if not is_done(link, start.get(key)):
                    self.waiting.add(file.run)
                    return
                link.unlink()
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(file.path, link)

    def release(self, end: Offset) -> None:
        """Release the files that were read to their end; everything up to `end` is stored elsewhere."""
        if self._hold is None:
            return
        for file in journal_files(self._hold):
            key = key_of(self._hold, file.path)
            gone = not (self._root / key).exists()
            if gone and is_done(file.path, end.get(key)):
                file.path.unlink(missing_ok=True)

"""Journal files that a stream keeps until it has read them, whoever removes them from their own place.

A node's journal is bounded: it removes its oldest file when a new one begins.  A file that the stream has found gets a
second name, a hard link, in a directory of the stream's own; what is written through the first name shows under the
second.  It costs no copy, and disk space only for as long as the stream is behind.  Where a cluster is made anew in the
same place its files get the names of those before: they wait until what is held under these names was read.

Where there is no such directory, or it lies on another file system, files are read where they are, and what goes before
it was read is missing: the lake names it (`gaps`).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from zabka.pipeline.positions import Offset, is_done, key_of
from zabka.pipeline.runs import JournalFile, journal_files


class Held:
    """The journal files below `root`, and those that were there and are still to be read."""

    def __init__(self, root: Path, hold: Path | None) -> None:
        self._root = root
        self._hold = hold
        self.waiting: set[str] = set()
        """Runs with a file behind another one of its name, which comes first: when `files` was last asked."""

    def files(self, start: Offset) -> dict[str, JournalFile]:
        """Every file by its key, linked so that it stays; up to `start` everything is kept elsewhere."""
        self.waiting = set()
        present = {key_of(self._root, file.path): file for file in journal_files(self._root)}
        if self._hold is None:
            return present
        for key, file in present.items():
            self._link(key, file, start)
        kept = {key_of(self._hold, file.path): file for file in journal_files(self._hold)}
        return present | kept

    def files_to_go_on_with(self, start: Offset) -> dict[str, JournalFile]:
        """The same, but for files that nobody has looked into, of a cluster whose others wait: they are of its life."""
        return {key: file for key, file in self.files(start).items() if key in start or file.run not in self.waiting}

    def _link(self, key: str, file: JournalFile, start: Offset) -> None:
        assert self._hold is not None
        link = self._hold / key
        # Another file system, a file system without links, or a file that just went: it is read where it is.
        with contextlib.suppress(OSError):
            if link.exists() and not link.samefile(file.path):
                # The name was given anew, to another file.
                if not is_done(link, start.get(key)):
                    self.waiting.add(file.run)
                    return
                link.unlink()
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(file.path, link)

    def release(self, end: Offset) -> None:
        """Everything up to `end` is kept elsewhere: let go of the files that were read to their end."""
        if self._hold is None:
            return
        for file in journal_files(self._hold):
            key = key_of(self._hold, file.path)
            gone = not (self._root / key).exists()
            if gone and is_done(file.path, end.get(key)):
                file.path.unlink(missing_ok=True)

"""Reads journal files while they grow: whole lines from a byte position on, across file rotations."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from zabka.agent.protocol import JOURNAL_CHUNK_BYTES_MAX, FirstLine, JournalChunk, Position
from zabka.journal.reader import node_files

_first_line_of = msgspec.json.Decoder(FirstLine).decode

SETTLED_NS = 1_000_000_000
"""Minimum age at which a directory's modification time proves that no file was created after it.

The modification time advances in steps of the kernel's clock, so a second file that is created within one step does not
change it.
"""


class JournalTail:
    """Reads one node's journal. It is polled twenty times a second, usually without new lines.

    If the last poll found no new lines, the next polls list and open no file until the directory or the last file
    changes.
    """

    def __init__(self, directory: Path, node: str, files: Callable[[Path, str], list[Path]] = node_files) -> None:
        self.node = node
        self._files = files
        self._directory = directory
        self._nothing_new: tuple[Position, tuple[int, int]] | None = None

    def read_on(self, position: Position) -> JournalChunk | None:
        """Return the journal lines after a position, or None if there are none yet."""
        seen = self._seen(position)
        if seen is not None and self._nothing_new == (position, seen):
            return None
        chunk = read_on(self._directory, self.node, position, self._files)
        settled = chunk is None and seen is not None and time.time_ns() - seen[0] > SETTLED_NS
        self._nothing_new = (position, seen) if settled and seen is not None else None
        return chunk

    def _seen(self, position: Position) -> tuple[int, int] | None:
        """Return the directory's modification time and the size of the last file; None if one of them is missing."""
        directory = str(self._directory)
        try:
            return os.stat(directory).st_mtime_ns, os.stat(f"{directory}/{position.file}").st_size  # noqa: PTH116
        except OSError:
            return None


def read_on(
    directory: Path, node: str, position: Position, files: Callable[[Path, str], list[Path]] = node_files
) -> JournalChunk | None:
    """Return the journal lines after a position, or None if there are none yet.

    A file that was deleted by rotation is skipped. If the journal was replaced since the last read, return the
    beginning of the new one.
    """
    names = [path.name for path in files(directory, node)]
    if not names:
        return None
    is_new = _is_new_journal(directory, names, position)
    if is_new is None:
        return None
    name, offset = (names[0], 0) if is_new else _resolve(directory, names, position)
    while True:
        lines, size = _whole_lines(directory / name, offset)
        if size:
            return JournalChunk(node, lines, Position(name, offset + size), is_new)
        later = [n for n in names if n > name]
        if not later:
            return None if is_new or name == position.file else JournalChunk(node, b"", Position(name, offset))
        name, offset = later[0], 0


def _is_new_journal(directory: Path, names: list[str], position: Position) -> bool | None:
    """Return whether this is another journal than the one read before, because a disk was emptied or replaced.

    Return None if the journal is too short to decide.
    """
    oldest = names[0]
    if position.first is not None and _begins_with(oldest) == 1:
        try:
            with (directory / oldest).open("rb") as file:
                line = file.readline()
        except FileNotFoundError:
            return None
        if not line.endswith(b"\n"):
            return None
        # A damaged first line does not prove that the journal was replaced. Assume that it is the same journal, so that
        # lines are not read twice.
        with contextlib.suppress(msgspec.MsgspecError):
            return _first_line_of(line) != position.first
        return False
    if position.file in names:
        # If this file is shorter than the offset, it belongs to another journal only if it begins with line 1. If the
        # file with line 1 was deleted by rotation, this is the same journal, which a power loss has shortened.
        return position.file == oldest and _begins_with(oldest) == 1 and _size(directory / oldest) < position.offset
    return bool(position.file) and names[-1] < position.file


def _begins_with(name: str) -> int:
    """Return the node_seq of a journal file's first line, from the file's name."""
    return int(name.rsplit(".", 2)[1])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _resolve(directory: Path, names: list[str], position: Position) -> tuple[str, int]:
    if position.file in names:
        # If the file is shorter than the offset, a power loss has removed lines that were already read. Read the file
        # again; the collector recognises known lines by their numbers.
        return position.file, position.offset if position.offset <= _size(directory / position.file) else 0
    if position.file:
        return next((n for n in names if n > position.file), names[-1]), 0
    older = [n for n in names if _begins_with(n) <= position.after + 1]
    return (older[-1] if older else names[0]), 0


def _whole_lines(path: Path, offset: int) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(JOURNAL_CHUNK_BYTES_MAX)
    except FileNotFoundError:
        return b"", 0
    end = data.rfind(b"\n") + 1
    if not end and len(data) == JOURNAL_CHUNK_BYTES_MAX:
        # A line longer than a whole chunk can only be damage, and is skipped.
        return b"", len(data)
    return data[:end], end

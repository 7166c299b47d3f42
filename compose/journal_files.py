"""Serving journal files as they grow: whole lines from a byte position on, over rotations."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from zabka.agent.protocol import JOURNAL_CHUNK_BYTES_MAX, FirstLine, JournalChunk, Position
from zabka.journal.reader import node_files

# A line that is longer than a whole chunk can only be damage: it is passed over.

_first_line_of = msgspec.json.Decoder(FirstLine).decode

SETTLED_NS = 1_000_000_000
"""A directory's time of change moves in steps of the kernel's clock: a second file made within one step does not move
it.  What changed longer ago than this is past all such steps."""


class JournalTail:
    """One node's journal, asked for what is new twenty times a second, which is nearly always nothing.

    Nothing is listed or opened as long as neither the directory nor the file last read has changed since it was found
    to hold nothing new.
    """

    def __init__(self, directory: Path, node: str, files: Callable[[Path, str], list[Path]] = node_files) -> None:
        self.node = node
        self._files = files
        self._directory = directory
        self._nothing_new: tuple[Position, tuple[int, int]] | None = None

    def read_on(self, position: Position) -> JournalChunk | None:
        """What stands after a position: None when nothing does yet."""
        seen = self._seen(position)
        if seen is not None and self._nothing_new == (position, seen):
            return None
        chunk = read_on(self._directory, self.node, position, self._files)
        settled = chunk is None and seen is not None and time.time_ns() - seen[0] > SETTLED_NS
        self._nothing_new = (position, seen) if settled and seen is not None else None
        return chunk

    def _seen(self, position: Position) -> tuple[int, int] | None:
        """When the directory changed last, and how long the file is; None where one of them is not there."""
        directory = str(self._directory)
        try:
            return os.stat(directory).st_mtime_ns, os.stat(f"{directory}/{position.file}").st_size  # noqa: PTH116
        except OSError:
            return None


def read_on(
    directory: Path, node: str, position: Position, files: Callable[[Path, str], list[Path]] = node_files
) -> JournalChunk | None:
    """What stands after a position: None when nothing does yet.  A file that was rotated away is passed over.

    Where the journal is another one than was read, what is found is its beginning.
    """
    names = [path.name for path in files(directory, node)]
    if not names:
        return None
    anew = _began_anew(directory, names, position)
    if anew is None:
        return None
    name, offset = (names[0], 0) if anew else _resolve(directory, names, position)
    while True:
        lines, size = _whole_lines(directory / name, offset)
        if size:
            return JournalChunk(node, lines, Position(name, offset + size), anew)
        later = [n for n in names if n > name]
        if not later:
            return None if anew or name == position.file else JournalChunk(node, b"", Position(name, offset))
        name, offset = later[0], 0


def _began_anew(directory: Path, names: list[str], position: Position) -> bool | None:
    """Whether this is another journal than the one that was read (a disk was emptied or replaced); None where it has
    too little in it to tell."""
    oldest = names[0]
    if position.first is not None and _begins_with(oldest) == 1:
        try:
            with (directory / oldest).open("rb") as file:
                line = file.readline()
        except FileNotFoundError:
            return None
        if not line.endswith(b"\n"):
            return None
        # A damaged line tells nothing: the journal is taken for the one that was read, lest its lines come twice.
        with contextlib.suppress(msgspec.MsgspecError):
            return _first_line_of(line) != position.first
        return False
    if position.file in names:
        # With line 1 rotated away this is the journal that was read, which a power cut has made shorter.
        return position.file == oldest and _begins_with(oldest) == 1 and _size(directory / oldest) < position.offset
    return bool(position.file) and names[-1] < position.file


def _begins_with(name: str) -> int:
    """A file's name says with which node_seq it begins."""
    return int(name.rsplit(".", 2)[1])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _resolve(directory: Path, names: list[str], position: Position) -> tuple[str, int]:
    if position.file in names:
        # What a power cut took from the end may have been read: the file is read again, and who collects knows by the
        # numbers which lines are new.
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
        return b"", len(data)
    return data[:end], end

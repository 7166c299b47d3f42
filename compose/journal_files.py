"""Serving journal files as they grow: whole lines from a byte position on, over rotations."""

from __future__ import annotations

from pathlib import Path

from api.agent_protocol import JOURNAL_CHUNK_BYTES_MAX, JournalChunk, Position
from journal.reader import node_files

# A line that is longer than a whole chunk can only be damage: it is passed over.


def read_on(directory: Path, node: str, position: Position) -> JournalChunk | None:
    """What stands after a position: None when nothing does yet.  A file that was rotated away is passed over."""
    names = [path.name for path in node_files(directory, node)]
    if not names:
        return None
    name, offset = _resolve(names, position)
    while True:
        lines, size = _whole_lines(directory / name, offset)
        if size:
            return JournalChunk(node, lines, Position(name, offset + size))
        later = [n for n in names if n > name]
        if not later:
            return None if name == position.file else JournalChunk(node, b"", Position(name, offset))
        name, offset = later[0], 0


def _resolve(names: list[str], position: Position) -> tuple[str, int]:
    if position.file in names:
        return position.file, position.offset
    if position.file:
        return next((n for n in names if n > position.file), names[-1]), 0
    # A file's name says with which node_seq it begins.
    older = [n for n in names if int(n.rsplit(".", 2)[1]) <= position.after + 1]
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

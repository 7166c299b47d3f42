"""Read positions of a stream: for every journal file a position, and checksums of its first and its last read line.

A file's name does not identify it: if a cluster is created again in the same directory, its files get the names of the
old cluster's files. So a position is valid only for a file that begins with the same line, and only if the last line
read ends at that position. (Histories of the simulated world have the same beginning.) If another file has a known
name, or the number of a new file is not above all known numbers of its node, the cluster was created again. Its lines
then are another run: `DIRECTORY~2`. The stream may find the files of its nodes one after another; all of them are files
of that one run.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from zabka.pipeline.ranges import FileRange, complete_bytes
from zabka.pipeline.runs import JournalFile, node_of, run_of

Offset = dict[str, list[Any]]
"""For every file, by its path from the root: [position, mark, life, ending].

`mark` and `ending` are the checksums of the first line and of the last line read. `life` counts how often the run was
created. `ending` is "" if it is unknown, and missing if an older zabka wrote the offset.
"""
_MARK_BYTES = 64 * 1024
_ENDING_BYTES = 4096


def key_of(root: Path, path: Path) -> str:
    """Return the key of a file in the stream's offset: the path of the file relative to the root."""
    return path.name if path == root else path.relative_to(root).as_posix()


def mark_of(path: Path) -> str | None:
    """Return a checksum of a file's first line, which identifies it among files with the same name.

    Return None while that line is incomplete.
    """
    with path.open("rb") as file:
        line = file.readline(_MARK_BYTES)
    return f"{zlib.crc32(line):08x}" if line.endswith(b"\n") or len(line) == _MARK_BYTES else None


def ending_of(line: bytes) -> str:
    """Return a checksum of the end of a line, which identifies the line."""
    return f"{zlib.crc32(line[-_ENDING_BYTES:]):08x}"


def _ending_at(path: Path, position: int) -> str:
    """Return the checksum of the line that ends at `position` of a file; "" if no line ends there."""
    with path.open("rb") as file:
        file.seek(max(0, position - 1 - _ENDING_BYTES))
        before = file.read(position - file.tell())
        ends = file.tell() == position and before.endswith(b"\n")
    return ending_of(before[:-1].rpartition(b"\n")[2]) if ends else ""


def _goes_on(path: Path, mark: str | None, reached: list[Any]) -> bool:
    """Return whether a file that begins with this mark is the file that was read up to `reached`."""
    _, known, _, *ending = reached
    return bool(known == mark and (ending in ([], [""]) or ending[0] == _ending_at(path, reached[0])))


def is_done(path: Path, reached: list[Any] | None) -> bool:
    """Return whether the file was read to its end, or has no complete line."""
    complete = complete_bytes(path)
    return not complete or (reached is not None and reached[0] >= complete and _goes_on(path, mark_of(path), reached))


class _Found(NamedTuple):
    """The mark of an existing file, and whether the file shows that its cluster was created again."""

    mark: str
    recreated: bool


def advance(files: dict[str, JournalFile], start: Offset) -> Offset:
    """Return the positions up to which the files can now be read.

    A removed file keeps its position, unless later files of its node exist.
    """
    found = _found(files, start)
    lives = _lives(files, found, start)
    end: Offset = {}
    for key, (mark, recreated) in found.items():
        begin, life = (
            (start[key][0], start[key][2]) if key in start and not recreated else (0, lives.get(files[key].run, 1))
        )
        # If the file is removed after its mark was read, it keeps its position, like any other removed file.
        with contextlib.suppress(OSError):
            reached = max(begin, complete_bytes(files[key].path, begin))
            end[key] = [reached, mark, life, _ending_at(files[key].path, reached)]
    newest = _newest(end)
    for key, reached in start.items():
        node = node_of(key)
        if key not in end and (node is None or (reached[2], node.number) >= newest.get(node.place, (1, 0))):
            end[key] = reached
    return dict(sorted(end.items()))


def _lives(files: dict[str, JournalFile], found: dict[str, _Found], start: Offset) -> dict[str, int]:
    """Return the current life of each run that has existing files.

    If a node's files show that its cluster was created again, the next life begins, unless another node's files have
    already begun it.
    """
    lives: dict[str, int] = {}
    for key, (_, _, life, *_) in start.items():
        lives[run_of(key)] = max(lives.get(run_of(key), 1), life)
    newest = _newest(start)
    begin = set()
    for key, (_, recreated) in found.items():
        if recreated:
            node = node_of(key)
            own = start[key][2] if node is None else newest[node.place][0]
            if own == lives[files[key].run]:
                begin.add(files[key].run)
    return {run: life + (run in begin) for run, life in lives.items()}


def _found(files: dict[str, JournalFile], start: Offset) -> dict[str, _Found]:
    found = {}
    for key in sorted(files):
        # Skip a file that cannot be read or was removed. The lake lists its lines as gaps.
        with contextlib.suppress(OSError):
            if (mark := mark_of(files[key].path)) is not None:
                found[key] = _Found(mark, is_recreated(key, files[key].path, mark, start))
    return found


def is_recreated(key: str, path: Path, mark: str, start: Offset) -> bool:
    """Return whether this file shows that its cluster was created again since the position `start`.

    `mark` identifies the content of the file. Raises OSError if the file cannot be read.
    """
    if key in start:
        return not _goes_on(path, mark, start[key])
    node = node_of(key)
    return node is not None and node.number <= _newest(start).get(node.place, (1, 0))[1]


def _newest(offset: Offset) -> dict[str, tuple[int, int]]:
    """Return the newest life of each node, by directory and name, and its highest file number in that life."""
    found: dict[str, tuple[int, int]] = {}
    for key, (_, _, life, *_) in offset.items():
        if (node := node_of(key)) is not None:
            found[node.place] = max(found.get(node.place, (1, 0)), (life, node.number))
    return found


def ranges_between(files: dict[str, JournalFile], start: Offset, end: Offset) -> list[FileRange]:
    """Return the ranges to read between two offsets, for the files that still exist.

    If another file now has the name of an earlier file, the earlier file's lines are not read from it.
    """
    ranges = []
    for key, reached in sorted(end.items()):
        position, mark, life, *_ = reached
        known = start.get(key)
        begin = known[0] if known is not None and known[1:3] == [mark, life] else 0
        if key in files and position > begin and _is_still(files[key].path, reached):
            run = files[key].run if life == 1 else f"{files[key].run}~{life}"
            ranges.append(FileRange(run, str(files[key].path), begin, position))
    return ranges


def _is_still(path: Path, reached: list[Any]) -> bool:
    with contextlib.suppress(OSError):
        return _goes_on(path, mark_of(path), reached)
    # The task that reads the file reports why it cannot be read, or finds that it was removed.
    return True

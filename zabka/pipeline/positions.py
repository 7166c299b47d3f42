"""How far a stream has read: of every journal file a position, by what the file begins, and the last line before it.

The name of a file does not say whose it is: a cluster that is made anew in the same directory gives its files the names
of the old one's.  So a position holds for a file that begins with the same line, and in which the last line that was
read ends there.  (Histories of the simulated world begin alike.)  Where another file stands under a known name, or one
whose number is not above all that are known of its node, the cluster was made anew, and what comes from there is
another run: `DIRECTORY~2`.  Its nodes may be found one after the other: all of them are of that one run.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from zabka.pipeline.ranges import FileRange, complete_bytes
from zabka.pipeline.runs import JournalFile, node_of, run_of

Offset = dict[str, list[Any]]
"""Of every file, by its path from the root: [position, mark, life, ending].  `life` counts how often the run was made
anew.  `ending` is "" where nobody knows it, and missing where an older zabka wrote the offset."""
_MARK_BYTES = 64 * 1024
_ENDING_BYTES = 4096


def key_of(root: Path, path: Path) -> str:
    """A file's name in the offset."""
    return path.name if path == root else path.relative_to(root).as_posix()


def mark_of(path: Path) -> str | None:
    """What tells a file from another one of its name: a checksum of its first line; None while that is not whole."""
    with path.open("rb") as file:
        line = file.readline(_MARK_BYTES)
    return f"{zlib.crc32(line):08x}" if line.endswith(b"\n") or len(line) == _MARK_BYTES else None


def ending_of(line: bytes) -> str:
    """A checksum of a line's end, by which it is known again."""
    return f"{zlib.crc32(line[-_ENDING_BYTES:]):08x}"


def _ending_at(path: Path, position: int) -> str:
    """The same of the line that ends at a position of a file; "" where none does."""
    with path.open("rb") as file:
        file.seek(max(0, position - 1 - _ENDING_BYTES))
        before = file.read(position - file.tell())
        ends = file.tell() == position and before.endswith(b"\n")
    return ending_of(before[:-1].rpartition(b"\n")[2]) if ends else ""


def _goes_on(path: Path, mark: str | None, reached: list[Any]) -> bool:
    """Is a file that begins with this mark the one that was read, as far as it was read?"""
    _, known, _, *ending = reached
    return bool(known == mark and (ending in ([], [""]) or ending[0] == _ending_at(path, reached[0])))


def is_done(path: Path, reached: list[Any] | None) -> bool:
    """Was the file read to its end?  So was one without a line."""
    complete = complete_bytes(path)
    return not complete or (reached is not None and reached[0] >= complete and _goes_on(path, mark_of(path), reached))


class _Found(NamedTuple):
    """A file that is there: by what it begins, and whether its run was made anew by what it shows."""

    mark: str
    anew: bool


def advance(files: dict[str, JournalFile], start: Offset) -> Offset:
    """How far the files can be read now.  Those that went keep their place, unless later ones of their node exist."""
    found = _found(files, start)
    lives = _lives(files, found, start)
    end: Offset = {}
    for key, (mark, anew) in found.items():
        begin, life = (start[key][0], start[key][2]) if key in start and not anew else (0, lives.get(files[key].run, 1))
        # It may have gone since its mark was read: then it keeps its place, as any file that went.
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
    """Of each run the life that files belong to which are found now.

    A node that shows that its cluster was made anew begins the next life, unless another one has begun that before it.
    """
    lives: dict[str, int] = {}
    for key, (_, _, life, *_) in start.items():
        lives[run_of(key)] = max(lives.get(run_of(key), 1), life)
    newest = _newest(start)
    begin = set()
    for key, (_, anew) in found.items():
        if anew:
            node = node_of(key)
            own = start[key][2] if node is None else newest[node.place][0]
            if own == lives[files[key].run]:
                begin.add(files[key].run)
    return {run: life + (run in begin) for run, life in lives.items()}


def _found(files: dict[str, JournalFile], start: Offset) -> dict[str, _Found]:
    found = {}
    for key in sorted(files):
        # A file that cannot be read, or no longer: the lake's gaps tell of what it held.
        with contextlib.suppress(OSError):
            if (mark := mark_of(files[key].path)) is not None:
                found[key] = _Found(mark, is_anew(key, files[key].path, mark, start))
    return found


def is_anew(key: str, path: Path, mark: str, start: Offset) -> bool:
    """Does a file with this mark show that its run was made anew?  Raises OSError where it cannot be read."""
    if key in start:
        return not _goes_on(path, mark, start[key])
    node = node_of(key)
    return node is not None and node.number <= _newest(start).get(node.place, (1, 0))[1]


def _newest(offset: Offset) -> dict[str, tuple[int, int]]:
    """Of each node, by its directory and name: its newest life, and the highest number of its files in that."""
    found: dict[str, tuple[int, int]] = {}
    for key, (_, _, life, *_) in offset.items():
        if (node := node_of(key)) is not None:
            found[node.place] = max(found.get(node.place, (1, 0)), (life, node.number))
    return found


def ranges_between(files: dict[str, JournalFile], start: Offset, end: Offset) -> list[FileRange]:
    """What is to be read between two offsets, of the files that are still there.

    Another file may have got the name of one since: what stood in that one is not to be looked for in it.
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
    # Whoever reads it says why it cannot be read, or finds that it has gone.
    return True

"""The run of each journal file, and the files that are copies of others.

A run is one history: a cluster's journals, or one simulated run. Events do not name their run, so it follows from the
file's path. Files of a node, `<node>.<first number>.jsonl`, belong to the cluster's directory that contains
`<node>/journal/`, or otherwise to the directory of the file. Any other `*.jsonl` is a separate history, as `zabka
replay --out` writes them. The name of a run is that path, relative to the directory that is read (`.` is that
directory).
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

NODE_FILE = r"([a-z]+(?:-[0-9]+)?)\.([0-9]{12})\.jsonl"
"""The name of a node's file (node, number of its first line), as a regular expression of Python and of Java."""
_NODE_FILE = re.compile(NODE_FILE)
_NO_JOURNAL = re.compile(r"(^|/)[._]|\.messages\.[^/]*$")
"""The pipeline's own files, hidden files, and the files of messages that nodes write next to their journals."""
_COMPARED_BYTES = 1024 * 1024
_COMPARED_FIRST_BYTES = 4096
"""The number of bytes that are compared first: unrelated histories nearly always differ within them."""


class JournalFile(NamedTuple):
    """A journal file: its run, its name within the run, and its path."""

    run: str
    name: str
    path: Path


class NodeFile(NamedTuple):
    """The parts of a node's file name: its directory and node, and the number of its first line."""

    place: str
    number: int


def node_of(key: str) -> NodeFile | None:
    """Parse the path of a node's file; return None for a file that is a separate history."""
    folder, _, name = key.rpartition("/")
    found = _NODE_FILE.fullmatch(name)
    return None if found is None else NodeFile(f"{folder}/{found[1]}", int(found[2]))


def journal_files(root: Path) -> list[JournalFile]:
    """Return every journal file below a directory, or `root` if it is a file, in the order of their paths.

    Directories whose names begin with `_` or `.` are skipped: they are the pipeline's own, or hidden.
    """
    if root.is_file():
        # A single file is a history. The suffix in its name distinguishes its rows from those of a cluster.
        return [JournalFile(f"{root.name.removesuffix('.jsonl')}.jsonl", root.name, root)]
    keys = (path.relative_to(root).as_posix() for path in root.rglob("*.jsonl") if path.is_file())
    return [placed(root, key) for key in sorted(keys) if is_journal(key)]


def is_journal(key: str) -> bool:
    """Return whether a JSON Lines file is a journal, by its path from the root."""
    return not _NO_JOURNAL.search(key)


def run_of(key: str) -> str:
    """Return the run that a file belongs to, by its path from the root."""
    return _home(key) or "."


def placed(root: Path, key: str) -> JournalFile:
    """Return the journal file at that path from the root."""
    home = _home(key)
    if home == key:
        return JournalFile(key, key.rpartition("/")[2], root / key)
    return JournalFile(home or ".", key[len(home) + 1 :] if home else key, root / key)


def _home(key: str) -> str:
    """Return the directory of a node's run, "" for the root; any other file is itself a run."""
    folder, _, name = key.rpartition("/")
    found = _NODE_FILE.fullmatch(name)
    if found is None:
        return key
    parts = folder.split("/")
    if len(parts) > 1 and parts[-2:] == [found[1], "journal"]:
        return "/".join(parts[:-2])
    return folder


def without_copies(files: list[JournalFile]) -> list[JournalFile]:
    """Return the files without copies: of two equal runs, only one is kept.

    Two runs are the same if they share files, and of each shared file one is a prefix of the other; the longer file
    counts. Two runs with the same beginning that differ later are two runs.
    """
    kept: dict[str, dict[str, Path]] = {}
    for run, members in _by_run(files).items():
        same = next((other for other, theirs in kept.items() if _is_copy(members, theirs)), None)
        target = kept.setdefault(run if same is None else same, {})
        for name, path in members.items():
            if name not in target or _size(path) > _size(target[name]):
                target[name] = path
    return [JournalFile(run, name, path) for run, members in kept.items() for name, path in sorted(members.items())]


def _by_run(files: list[JournalFile]) -> dict[str, dict[str, Path]]:
    runs: dict[str, dict[str, Path]] = {}
    for file in files:
        # Leave out the names of histories, because two histories have different names even if one is a copy of the
        # other.
        name = "" if _NODE_FILE.fullmatch(file.path.name) is None else file.name
        runs.setdefault(file.run, {})[name] = file.path
    return runs


def _is_copy(one: dict[str, Path], other: dict[str, Path]) -> bool:
    shared = [name for name in one if name in other]
    try:
        return bool(shared) and all(_begins_alike(one[name], other[name]) for name in shared)
    except OSError:
        # A file cannot be read or was removed, so do not call this history a copy.
        return False


def _size(path: Path) -> int:
    """Return a file's size; 0 if it was removed in the meantime, as a journal's oldest file is."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _begins_alike(one: Path, other: Path) -> bool:
    """Return whether one file is a prefix of the other; an empty file does not count."""
    left = min(_size(one), _size(other))
    if not left:
        return False
    most = _COMPARED_FIRST_BYTES
    with one.open("rb", buffering=0) as first, other.open("rb", buffering=0) as second:
        while left:
            step = min(left, most)
            if first.read(step) != second.read(step):
                return False
            left -= step
            most = _COMPARED_BYTES
    return True

"""Finds the run of each journal file, and the files that are copies of others.

A run is one history: a cluster's journals, or one simulated run. Events do not contain the name of their run, so it is
derived from the file's path. Files of a node, `<node>.<first number>.jsonl`, are in the run of the cluster's directory,
which contains `<node>/journal/`, or otherwise in the run of their own directory. Any other `*.jsonl` is a separate
history, as `zabka replay --out` writes it. The name of a run is the path of its directory or file, relative to the
directory that is read (`.` is that directory itself).
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

NODE_FILE = r"([a-z]+(?:-[0-9]+)?)\.([0-9]{12})\.jsonl"
"""Regular expression, for Python and Java, of the name of a node's file (node, number of its first line)."""
_NODE_FILE = re.compile(NODE_FILE)
_NO_JOURNAL = re.compile(r"(^|/)[._]|\.messages\.[^/]*$")
"""Matches files that are not journals: the pipeline's own files, hidden files, and message logs of nodes."""
_COMPARED_BYTES = 1024 * 1024
_COMPARED_FIRST_BYTES = 4096
"""Number of bytes that are compared first. Unrelated histories nearly always differ within these bytes."""


class JournalFile(NamedTuple):
    """A journal file: its run, its name in the run, and its path."""

    run: str
    name: str
    path: Path


class NodeFile(NamedTuple):
    """Parts of the path of a node's file: its directory and node, and the number of its first line."""

    place: str
    number: int


def node_of(key: str) -> NodeFile | None:
    """Parse the path of a node's file. Return None for a file that is a separate history."""
    folder, _, name = key.rpartition("/")
    found = _NODE_FILE.fullmatch(name)
    return None if found is None else NodeFile(f"{folder}/{found[1]}", int(found[2]))


def journal_files(root: Path) -> list[JournalFile]:
    """Return every journal file in a directory and its subdirectories, or `root` if it is a file, sorted by path.

    Directories whose names begin with `_` or `.` are skipped: they are the pipeline's own, or hidden.
    """
    if root.is_file():
        # A single file is a history. The suffix of its name distinguishes its rows from those of a cluster.
        return [JournalFile(f"{root.name.removesuffix('.jsonl')}.jsonl", root.name, root)]
    keys = (path.relative_to(root).as_posix() for path in root.rglob("*.jsonl") if path.is_file())
    return [placed(root, key) for key in sorted(keys) if is_journal(key)]


def is_journal(key: str) -> bool:
    """Return whether a JSON Lines file is a journal. `key` is its path relative to the root."""
    return not _NO_JOURNAL.search(key)


def run_of(key: str) -> str:
    """Return the run of a file. `key` is its path relative to the root."""
    return _home(key) or "."


def placed(root: Path, key: str) -> JournalFile:
    """Return the journal file at the path `key`, which is relative to the root."""
    home = _home(key)
    if home == key:
        return JournalFile(key, key.rpartition("/")[2], root / key)
    return JournalFile(home or ".", key[len(home) + 1 :] if home else key, root / key)


def _home(key: str) -> str:
    """Return the directory of the run to which a node's journal file belongs; "" for the root.

    If the file is not a node's journal, return its own path.
    """
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

    Two runs are equal if they share files, and if one of each pair of shared files is a prefix of the other; the longer
    file is kept. Two runs with the same beginning that differ later are two runs.
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
        # Ignore the file names of separate histories, because a history and its copy have different names.
        name = "" if _NODE_FILE.fullmatch(file.path.name) is None else file.name
        runs.setdefault(file.run, {})[name] = file.path
    return runs


def _is_copy(one: dict[str, Path], other: dict[str, Path]) -> bool:
    shared = [name for name in one if name in other]
    try:
        return bool(shared) and all(_begins_alike(one[name], other[name]) for name in shared)
    except OSError:
        # A file cannot be read or was removed, so do not treat this history as a copy.
        return False


def _size(path: Path) -> int:
    """Return the size of a file, or 0 if it was removed. A node removes its oldest journal files."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _begins_alike(one: Path, other: Path) -> bool:
    """Return whether one file is a prefix of the other. The result is false if one of them is empty."""
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

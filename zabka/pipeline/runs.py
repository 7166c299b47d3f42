"""Which run a journal file belongs to, and which files are copies of others.

A run is one history: a cluster's journals, or one simulated run.  Nothing in an event says which, and so the place
does.  Files of a node, `<node>.<first number>.jsonl`, belong to the cluster's directory that holds
`<node>/journal/`, or to their own directory where they lie otherwise; any other `*.jsonl` is a history of its own, as
`zabka replay --out` writes them.  A run is named by that path, from the directory that is read (`.` is that directory).
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

_NODE_FILE = re.compile(r"(?P<node>[a-z]+(-[0-9]+)?)\.(?P<number>[0-9]{12})\.jsonl")
_NO_JOURNAL = re.compile(r"(^|/)[._]|\.messages\.[^/]*$")
"""What is the pipeline's own or nobody's, and what nodes write of their messages beside their journals."""
_COMPARED_BYTES = 1024 * 1024
_COMPARED_FIRST_BYTES = 4096
"""Histories that are none of each other nearly always differ in so much."""


class JournalFile(NamedTuple):
    """A journal file: its run, where it lies within the run, and its path."""

    run: str
    name: str
    path: Path


class NodeFile(NamedTuple):
    """What the name of a node's file says: the directory and node that it belongs to, and its first line's number."""

    place: str
    number: int


def node_of(key: str) -> NodeFile | None:
    """What a file's path says of its node; None of a file that is a history of its own."""
    folder, _, name = key.rpartition("/")
    found = _NODE_FILE.fullmatch(name)
    return None if found is None else NodeFile(f"{folder}/{found['node']}", int(found["number"]))


def journal_files(root: Path) -> list[JournalFile]:
    """Every journal file below a directory, or the one that `root` itself is, in the order of their paths.

    What lies in directories whose names begin with `_` or `.` belongs to the pipeline or to nobody.
    """
    if root.is_file():
        return [JournalFile(root.name, root.name, root)]
    keys = (path.relative_to(root).as_posix() for path in root.rglob("*.jsonl") if path.is_file())
    return [placed(root, key) for key in sorted(keys) if is_journal(key)]


def is_journal(key: str) -> bool:
    """Is a file of lines a journal, by its path from the root?"""
    return not _NO_JOURNAL.search(key)


def run_of(key: str) -> str:
    """The run that a file belongs to, by its path from the root."""
    return _home(key) or "."


def placed(root: Path, key: str) -> JournalFile:
    """The file at that path from the root."""
    home = _home(key)
    if home == key:
        return JournalFile(key, key.rpartition("/")[2], root / key)
    return JournalFile(home or ".", key[len(home) + 1 :] if home else key, root / key)


def _home(key: str) -> str:
    """The directory of a node's run, "" for the root; another file is itself its run."""
    folder, _, name = key.rpartition("/")
    found = _NODE_FILE.fullmatch(name)
    if found is None:
        return key
    parts = folder.split("/")
    if len(parts) > 1 and parts[-2:] == [found["node"], "journal"]:
        return "/".join(parts[:-2])
    return folder


def without_copies(files: list[JournalFile]) -> list[JournalFile]:
    """The same files, each once: a run that is a copy of another one is taken as that one.

    Two runs are the same where they share files, and of each file that they share one goes on as the other begins;
    the longer one counts.  Two that were one and went on differently are two.
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
        # Two histories lie under different names, which is no reason for them to differ.
        name = "" if _NODE_FILE.fullmatch(file.path.name) is None else file.name
        runs.setdefault(file.run, {})[name] = file.path
    return runs


def _is_copy(one: dict[str, Path], other: dict[str, Path]) -> bool:
    shared = [name for name in one if name in other]
    try:
        return bool(shared) and all(_begins_alike(one[name], other[name]) for name in shared)
    except OSError:
        # What cannot be read, or has gone, is no evidence.
        return False


def _size(path: Path) -> int:
    """A file's bytes; 0 of one that went while it was looked at, as a journal's oldest file does."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _begins_alike(one: Path, other: Path) -> bool:
    """Is either file what the other one begins with?  Files that tell nothing yet are no evidence."""
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

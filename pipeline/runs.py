"""Which run a journal file belongs to, and which files are copies of others.

A run is one history: a cluster's journals, or one simulated run.  Nothing in an event says which, and so the place
does.  Files of a node, `<node>.<first number>.jsonl`, belong to the cluster's directory that holds
`<node>/journal/`, or to their own directory where they lie otherwise; any other `*.jsonl` is a history of its own, as
`zabka replay --out` writes them.  A run is named by that path, from the directory that is read (`.` is that directory).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_NODE_FILE = re.compile(r"(?P<node>[a-z]+-[0-9]+)\.[0-9]{12}\.jsonl")
_COMPARED_BYTES = 1024 * 1024


class JournalFile(NamedTuple):
    """A journal file: its run, where it lies within the run, and its path."""

    run: str
    name: str
    path: Path


def journal_files(root: Path) -> list[JournalFile]:
    """Every journal file below a directory, or the one that `root` itself is, in the order of their paths."""
    if root.is_file():
        return [JournalFile(root.name, root.name, root)]
    return [_placed(root, path) for path in sorted(root.rglob("*.jsonl")) if path.is_file()]


def _placed(root: Path, path: Path) -> JournalFile:
    found = _NODE_FILE.fullmatch(path.name)
    if found is None:
        return JournalFile(path.relative_to(root).as_posix(), path.name, path)
    home = path.parent
    if home != root and home.name == "journal" and home.parent != root and home.parent.name == found["node"]:
        home = home.parent.parent
    return JournalFile(home.relative_to(root).as_posix(), path.relative_to(home).as_posix(), path)


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
            if name not in target or path.stat().st_size > target[name].stat().st_size:
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
    return bool(shared) and all(_begins_alike(one[name], other[name]) for name in shared)


def _begins_alike(one: Path, other: Path) -> bool:
    """Is either file what the other one begins with?  Files that tell nothing yet are no evidence."""
    left = min(one.stat().st_size, other.stat().st_size)
    if not left:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while left:
            step = min(left, _COMPARED_BYTES)
            if first.read(step) != second.read(step):
                return False
            left -= step
    return True

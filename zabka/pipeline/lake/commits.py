"""The lake's commit log: one file per complete batch, or one file for all batches so far, and the gaps between lines.

`_commits/000012.json` appears atomically. It lists the files of its batch, and for every node the lines (`node_seq`,
from and to) in the batch. A node numbers its lines without a gap, also over restarts and rotation. So a line that is
missing between the lines of all batches was removed before the stream read it, or was quarantined because it is not an
entry.

`compaction` replaces the commit of the newest batch by one commit for all batches so far, whose files are fewer and
larger: a commit with `first` supersedes all commits of earlier batches, even before they are removed.

A commit contains the version of the lake's format, that is, of file names, columns, and the content of a commit. A lake
of a newer format is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

COMMITS = "_commits"
MERGING, REPLACED = "_merging", "_replaced"
"""Directories of merged files that are not in their final directory yet, and of replaced files; see `compaction`."""
FORMAT = 2
_READS_MAX = 10
Result = TypeVar("Result")


class NewerLake(ValueError):
    """A newer zabka wrote the lake. The message is shown to the user."""


class Lines(msgspec.Struct, frozen=True, order=True):
    """Lines of a node's journal, from the first to the last sequence number (inclusive)."""

    run: str
    node: str
    first: int
    last: int


class Commit(msgspec.Struct, kw_only=True):
    """One batch, or all batches from number `first` to number `batch`."""

    batch: int
    first: int | None = None
    files: dict[str, int]
    """Number of rows of every file, by the file's path in the lake's directory."""
    lines: list[Lines]
    quarantined: int = msgspec.field(name="set_aside")
    latest_us: int
    """Latest wall-clock time of the entries in the commit; 0 if it has none."""
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Number of lines in the commit."""
        return sum(rows for name, rows in self.files.items() if name.startswith("bronze/"))

    @property
    def types(self) -> set[str]:
        """Event types in the commit."""
        return {name.split("/")[1] for name in self.files if name.startswith("silver/")}


class _Format(msgspec.Struct):
    format: int = FORMAT


class Gap(NamedTuple):
    """A range of lines of a node that are missing in the lake.

    The lines were removed before they were read, or are not valid entries.
    """

    run: str
    node: str
    first: int
    last: int


def path_of(lake: Path, batch: int) -> Path:
    """Return the path of the commit of a batch."""
    return lake / COMMITS / f"{batch:09d}.json"


def write(lake: Path, commit: Commit) -> None:
    """Commit a batch to the lake, atomically."""
    path = path_of(lake, commit.batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    aside.write_bytes(msgspec.json.encode(commit))
    aside.replace(path)


def read(lake: Path) -> list[Commit]:
    """Return every commit, oldest first, without superseded commits.

    Raises ValueError with the path of a damaged commit. Commits may be replaced during the call; the result is the
    state of the lake at one point in time.
    """
    for _ in range(_READS_MAX - 1):
        try:
            return _read(lake)
        except FileNotFoundError:
            continue
    return _read(lake)


def _read(lake: Path) -> list[Commit]:
    found: list[Commit] = []
    # Read the newest commit first, because it shows whether the older ones are superseded.
    for path in sorted((lake / COMMITS).glob("*.json"), reverse=True):
        found.append(decoded(path))
        if found[-1].first is not None:
            break
    return found[::-1]


def combined(known: Sequence[Commit]) -> Commit:
    """Combine commits, which must be ordered from the oldest, into one commit for all their batches."""
    return Commit(
        batch=known[-1].batch,
        first=known[0].batch if known[0].first is None else known[0].first,
        files={name: rows for commit in known for name, rows in commit.files.items()},
        lines=merged(each for commit in known for each in commit.lines),
        quarantined=sum(commit.quarantined for commit in known),
        latest_us=max(commit.latest_us for commit in known),
    )


def are_complete(known: Sequence[Commit]) -> bool:
    """Return whether the commits contain every batch from the first to the last one."""
    firsts = [commit.batch if commit.first is None else commit.first for commit in known]
    return firsts == [0, *(commit.batch + 1 for commit in known)][: len(firsts)]


def read_file(lake: Path, name: str, read_path: Callable[[Path], Result]) -> Result:
    """Read a file of a commit with `read_path`, even if compaction moves the file during the call.

    `name` is the file's path in the lake. Raises FileNotFoundError, and the exceptions of `read_path`.
    """
    for _ in range(_READS_MAX):
        for place in (lake / name, lake / MERGING / name, lake / REPLACED / name):
            try:
                return read_path(place)
            except FileNotFoundError:
                continue
    raise FileNotFoundError(f"{lake / name} was removed")


def decoded(path: Path) -> Commit:
    """Read a commit.

    Raises ValueError, with the path, if the commit is damaged, and NewerLake if a newer version of zabka wrote it.
    """
    raw = path.read_bytes()
    try:
        # Check the format first, because commits of a newer format may have different content.
        if (number := msgspec.json.decode(raw, type=_Format).format) > FORMAT:
            raise NewerLake(
                f"{path} is of a lake of format {number}, and this zabka reads formats up to {FORMAT}. Use the newer "
                "zabka, or name another --out."
            )
        return msgspec.json.decode(raw, type=Commit)
    except msgspec.MsgspecError as reason:
        raise ValueError(f"{path} is not a commit of a lake: {reason}") from None


def check_format(lake: Path) -> None:
    """Read the newest commit, if there is one, to check the lake's format. Raises the exceptions of `decoded`."""
    if paths := sorted((lake / COMMITS).glob("*.json")):
        decoded(paths[-1])


def merged(lines: Iterable[Lines]) -> list[Lines]:
    """Return the same lines without duplicates, in as few ranges as possible."""
    spans: list[Lines] = []
    for each in sorted(lines):
        if spans and (spans[-1].run, spans[-1].node) == (each.run, each.node) and each.first <= spans[-1].last + 1:
            spans[-1] = Lines(each.run, each.node, spans[-1].first, max(spans[-1].last, each.last))
        else:
            spans.append(each)
    return spans


def gaps(lines: Iterable[Lines]) -> list[Gap]:
    """Return, for each node, the ranges of lines that are missing before its last line."""
    found = []
    before = Lines("", "", 0, 0)
    for span in merged(lines):
        reached = before.last if (before.run, before.node) == (span.run, span.node) else 0
        if span.first > reached + 1:
            found.append(Gap(span.run, span.node, reached + 1, span.first - 1))
        before = span
    return found

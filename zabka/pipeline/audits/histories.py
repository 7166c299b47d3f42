"""Finds the histories to audit: one per run, with its files, its size, and the command that replays it.

A simulated run is one file in its own order. A cluster's run consists of the files of its nodes, merged by their clocks
as `zabka.journal.reader` does. The seed is read from the file's name, if it has the form that the documents use
(`seed-7.jsonl`, `ensemble-seed-7.jsonl`), or from a file `NAME.command` next to it. Otherwise the seed is unknown.

The histories of a lake are the runs in its bronze table, from committed batches only. Histories in a topic, or at a
URI, are read as a journal's rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zabka.journal.events import Entry
from zabka.journal.reader import BadLine, decode_line, merge, read_file
from zabka.pipeline.lake import commits
from zabka.pipeline.lake.commits import COMMITS
from zabka.pipeline.runs import journal_files, without_copies

_SEED = re.compile(r"(?:(?P<scenario>[a-z0-9-]+?)-)?seed-(?P<seed>[0-9]+)")
_ONE_FILE = re.compile(r".*\.jsonl(~[0-9]+)?", re.DOTALL)
"""Matches the name of a run that is a single file.

A stream appends `~N` if a run was created again under the same name (`zabka.pipeline.positions`).
"""
COMMAND = ".command"
_DEPTH = 3
"""Number of directory levels between a lake and one of its files: bronze, the type, and the day."""
LINE = ["file", "position", "body", "problem"]
"""Columns of a journal's rows that contain a line and its position."""


class History(msgspec.Struct, frozen=True):
    """One run: its name, its files in order, their total size, and the command that replays it, if known."""

    run: str
    files: tuple[str, ...]
    size_bytes: int
    command: str | None
    of_lake: bool = False
    """Whether `files` are files of a lake's bronze table, which also contain lines of other runs."""


def histories(root: Path) -> list[History]:
    """Return the histories at a path: every run below a directory, a single file, or the runs of a lake.

    A copy of a run is ignored. Raises OSError, and ValueError if a commit of the lake is damaged.
    """
    if (root / COMMITS).is_dir():
        return _of_lake(root)
    files: dict[str, list[Path]] = {}
    for file in without_copies(journal_files(root)):
        files.setdefault(file.run, []).append(file.path)
    return [
        History(
            run=run,
            files=tuple(str(path) for path in paths),
            size_bytes=sum(path.stat().st_size for path in paths),
            command=replay_command(paths[0]) if len(paths) == 1 else None,
        )
        for run, paths in files.items()
    ]


def _of_lake(lake: Path) -> list[History]:
    files: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for commit in commits.read(lake):
        for name in commit.files:
            if name.startswith("bronze/"):
                table = commits.read_file(lake, name, _runs_and_bodies)
                table = table.set_column(1, "size", pc.binary_length(table["body"]))
                for row in table.group_by("run").aggregate([("size", "sum")]).to_pylist():
                    files.setdefault(row["run"], []).append(str(lake / name))
                    sizes[row["run"]] = sizes.get(row["run"], 0) + row["size_sum"]
    return [
        History(
            run, tuple(files[run]), sizes[run], replay_command(lake.parent / run) if is_one_file(run) else None, True
        )
        for run in sorted(files)
    ]


def _runs_and_bodies(path: Path) -> pa.Table:
    return pq.read_table(path, columns=["run", "body"], partitioning=None)


def is_one_file(run: str) -> bool:
    """Return whether the name of a run is that of a single file, whose lines are in order."""
    return _ONE_FILE.fullmatch(run) is not None


def _lines_of_lake(history: History, bad: list[BadLine]) -> Iterator[Entry]:
    """Yield the entries of a run in a lake, file by file. Append lines that are not entries to `bad`."""
    is_own = pc.field("run") == history.run

    def lines(path: Path) -> pa.Table:
        return pq.read_table(path, columns=LINE, filters=is_own, partitioning=None)

    places = [(Path(file).parents[_DEPTH], Path(file)) for file in history.files]
    parts = [commits.read_file(lake, path.relative_to(lake).as_posix(), lines) for lake, path in places]
    return lines_of(pa.concat_tables(parts), bad)


def lines_of(rows: pa.Table, bad: list[BadLine]) -> Iterator[Entry]:
    """Yield the entries in the rows of one run, file by file. Append lines that are not entries to `bad`."""
    for row in rows.select(LINE).sort_by([("file", "ascending"), ("position", "ascending")]).to_pylist():
        try:
            if row["problem"] is not None:
                raise ValueError(row["problem"])
            # This also checks fields that no table uses, so it is stricter than `zabka.pipeline.entries`.
            entry = decode_line(row["body"].encode())
        except ValueError as reason:
            bad.append(BadLine(row["file"], row["position"], str(reason)))
        else:
            yield entry


def replay_command(path: Path) -> str | None:
    """Return the command that replays the simulated run in a file, or None if it is unknown."""
    sibling = path.with_name(path.name + COMMAND)
    if sibling.is_file():
        return sibling.read_text().strip()
    return seed_command(path.stem)


def seed_command(name: str) -> str | None:
    """Return the command that replays the seed in a file's name, or None if the name contains no seed."""
    found = _SEED.fullmatch(name)
    if found is None:
        return None
    scenario = found["scenario"]
    return f"zabka replay --seed {found['seed']}" + (
        f" --scenario {scenario}" if scenario not in (None, "chaos") else ""
    )


def entries_of(history: History, bad: list[BadLine]) -> Iterator[Entry]:
    """Yield the entries of a history in order. Append lines that are not entries to `bad`."""
    if history.of_lake:
        return in_order(history.run, _lines_of_lake(history, bad))
    if len(history.files) == 1:
        return read_file(Path(history.files[0]), bad)
    return iter(merge(entry for path in history.files for entry in read_file(Path(path), bad)))


def in_order(run: str, lines: Iterator[Entry]) -> Iterator[Entry]:
    """Bring the entries of a run, which are sorted by file, into the order of the history."""
    return lines if is_one_file(run) else iter(merge(lines))

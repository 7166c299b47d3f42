"""Compaction: many small files of the lake are merged into fewer, larger ones, and all commits into one.

Theory of operation
===================

Every batch adds a commit, and a file to each directory for which it has rows. Eight files of one level in a directory
are merged into one file of the next level; files of batches have level 0. So a row is written again at most once for
each level, and a directory has at most seven small files of each level. Files of 16 MiB or more are not merged.

| step | on disk | files that a reader of commits sees |
|---|---|---|
| 1 | the merged files are written to `_merging/` | the old files |
| 2 | one rename replaces the newest commit by one commit of all batches, with the merged files | the merged files |
| 3 | merged files are moved to their place, replaced files to `_replaced/`, and older commits are removed | the same |

A process that is killed before step 2 has changed nothing, and leaves files in `_merging/`. A process that is killed
during step 3 leaves the rest of it to `settle`, which the next stream calls before it starts. A reader of commits finds
each file in its place, in `_merging/`, or in `_replaced/` (`commits.read_file`), and so sees every row exactly once at
any time. A reader of the directories that does not know commits may see the rows of a merge twice during step 3.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from zabka.pipeline.lake import commits
from zabka.pipeline.lake.commits import MERGING, REPLACED, Commit

FAN_IN = 8
"""Number of files that are merged into one."""
SMALL_BYTES = 16 * 1024 * 1024
"""Minimum size of a file that is not merged."""
MERGES_MAX = 32
"""Maximum number of merges in one compaction, so that it does not stop a stream for long."""
BYTES_MAX = 64 * 1024 * 1024
"""Maximum number of bytes that one compaction reads."""
COMMITS_MAX = 64
"""Number of commits that are combined even if no files are merged."""
REPLACED_KEPT_S = 600.0
"""Time after which replaced files are removed. Until then, readers of these files can finish."""
TREES = ("bronze", "silver")
_NAME = re.compile(r"(?:merged-(?P<level>[0-9]{2})-)?(?P<base>batch-(?P<batch>[0-9]{9})-[0-9]{5})\.parquet")


class _Name(NamedTuple):
    """Parts of the name of a lake file.

    `level` is 0 if the file was never merged. `base` is the name of the first merged file, and `batch` the number of
    the batch that wrote that file.
    """

    level: int
    base: str
    batch: int


class Merge(NamedTuple):
    """Files of one directory that are merged into one file. All are paths in the lake."""

    sources: tuple[str, ...]
    target: str


def compact(lake: Path) -> int:
    """Merge small files; return how many were replaced.

    Call it only while holding the lake's lock, and between batches. A lake with missing commits is not changed. Raises
    OSError, and ValueError if a commit is damaged.
    """
    known = commits.read(lake)
    if not known or not commits.are_complete(known):
        return 0
    whole = commits.combined(known)
    merges = _due(lake, whole.files)
    if not merges and len(known) < COMMITS_MAX:
        return 0
    files = dict(whole.files)
    for merge in merges:
        _write_merged(lake, merge)
        files[merge.target] = sum(files.pop(source) for source in merge.sources)
    commits.write(lake, msgspec.structs.replace(whole, files=files))
    settle(lake)
    return sum(len(merge.sources) for merge in merges)


def settle(lake: Path) -> None:
    """Complete a committed compaction, and remove the files of an uncommitted one.

    Call it only while holding the lake's lock. Raises OSError, and ValueError if a commit is damaged.
    """
    known = commits.read(lake)
    named = {name for commit in known for name in commit.files}
    for path in _parquet_files(lake / MERGING):
        name = path.relative_to(lake / MERGING).as_posix()
        if name in named and path.suffix == ".parquet":
            path.replace(lake / name)
        else:
            path.unlink()
    if known and known[0].first is not None:
        _remove_superseded(lake, known[0], named)
    remove_replaced(lake, REPLACED_KEPT_S)


def _remove_superseded(lake: Path, whole: Commit, named: set[str]) -> None:
    for tree in TREES:
        for path in _parquet_files(lake / tree):
            name, parts = path.relative_to(lake).as_posix(), _parsed(path.name)
            if name not in named and parts is not None and parts.batch <= whole.batch:
                aside = lake / REPLACED / name
                aside.parent.mkdir(parents=True, exist_ok=True)
                path.replace(aside)
    for path in sorted((lake / commits.COMMITS).glob("*.json")):
        if path < commits.path_of(lake, whole.batch):
            path.unlink()


def remove_replaced(lake: Path, older_than_s: float) -> int:
    """Remove files that were replaced longer ago than `older_than_s`; return how many."""
    # Use ctime, because the rename that replaced a file has set it.
    removed = [path for path in _parquet_files(lake / REPLACED) if time.time() - path.stat().st_ctime >= older_than_s]
    for path in removed:
        path.unlink()
    return len(removed)


def _due(lake: Path, files: Mapping[str, int]) -> list[Merge]:
    """Return the merges that this compaction makes within its limits, those of the fullest directories first."""
    small: dict[tuple[str, int], list[str]] = {}
    sizes: dict[str, int] = {}
    for name in sorted(files):
        directory, _, file = name.rpartition("/")
        parts = _parsed(file)
        with suppress(FileNotFoundError):
            sizes[name] = (lake / name).stat().st_size
            if parts is not None and sizes[name] < SMALL_BYTES:
                small.setdefault((directory, parts.level), []).append(name)
    merges: list[Merge] = []
    left = BYTES_MAX
    for (directory, level), names in sorted(small.items(), key=lambda item: (-len(item[1]), item[0])):
        for begin in range(0, len(names) - FAN_IN + 1, FAN_IN):
            sources = tuple(names[begin : begin + FAN_IN])
            left -= sum(sizes[source] for source in sources)
            if (left < 0 and merges) or len(merges) == MERGES_MAX:
                return merges
            merges.append(Merge(sources, f"{directory}/{_merged_name(level + 1, sources[0])}"))
    return merges


def _merged_name(level: int, first: str) -> str:
    parts = _parsed(first.rpartition("/")[2])
    assert parts is not None
    return f"merged-{level:02d}-{parts.base}.parquet"


def _parsed(file: str) -> _Name | None:
    found = _NAME.fullmatch(file)
    return None if found is None else _Name(int(found["level"] or 0), found["base"], int(found["batch"]))


def _write_merged(lake: Path, merge: Merge) -> None:
    """Write the rows of all source files to one file in `_merging/`, one source after another."""
    target = lake / MERGING / merge.target
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f"{target.name}.new")
    # Files of an older version may lack columns.
    schema = pa.unify_schemas([pq.read_schema(lake / source) for source in merge.sources])
    with pq.ParquetWriter(aside, schema, compression="zstd") as writer:
        for source in merge.sources:
            rows = pa.concat_tables(
                [schema.empty_table(), pq.ParquetFile(lake / source).read()], promote_options="default"
            )
            writer.write_table(rows.select(schema.names))
    aside.replace(target)


def _parquet_files(directory: Path) -> Iterator[Path]:
    yield from sorted(path for path in directory.rglob("*.parquet*") if path.is_file())

"""The layout of tables on disk: every run of a job is a version, and a reader sees exactly one complete version.

`OUT/_versions/000007/TABLE/` contains the Parquet files of version 7. `OUT/_current` is a symbolic link to the current
version, and `OUT/TABLE` is a link into `_current`. So any reader of Parquet can read `OUT/TABLE`, and all tables change
at once, by one rename. Older versions stay until they are vacuumed, for readers that still use them and for comparison.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSIONS, CURRENT, LOCK = "_versions", "_current", "_lock"
OLDER_NAMES = {"controller_reigns": "controller_terms"}
"""Older names of tables. For one release, each of them is a link to the table."""
KEPT_S = 60.0
"""Time for which replaced versions are kept for their readers."""


class InUse(Exception):
    """Another job is writing to this directory."""


class NoTable(OSError):
    """A table's path contains something other than a table, which must not be removed."""


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Prevent other jobs from writing to `out`.

    Raises InUse if another job is writing, and OSError if the directory is not writable.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"another job writes to {out}: wait until it has ended, or name another --out") from None
        yield


def numbers(out: Path) -> list[int]:
    """Return the numbers of the existing versions, complete or not, oldest first."""
    if not (out / VERSIONS).is_dir():
        return []
    return sorted(int(path.name) for path in (out / VERSIONS).iterdir() if path.name.isdigit())


def directory_of(out: Path, number: int) -> Path:
    """Return the directory of a version."""
    return out / VERSIONS / f"{number:06d}"


def current(out: Path) -> int:
    """Return the number of the version that readers see; 0 if there is none."""
    link = out / CURRENT
    return int(link.readlink().name) if link.is_symlink() else 0


def new_version(out: Path) -> tuple[int, Path]:
    """Create a new version that readers do not see yet. Return its number and directory.

    Versions that a killed job left incomplete are removed first.
    """
    newest = current(out)
    for number in numbers(out):
        if number > newest:
            shutil.rmtree(directory_of(out, number))
    directory = directory_of(out, newest + 1)
    directory.mkdir(parents=True)
    return newest + 1, directory


def keep(out: Path, number: int, table: str) -> None:
    """Copy the rows of a table from the previous version to this version, by linking the files."""
    before = directory_of(out, number - 1) / table
    if before.is_dir():
        shutil.copytree(before, directory_of(out, number) / table, copy_function=os.link)


def publish(out: Path, number: int) -> None:
    """Make this version the current one. Raises NoTable if a table's path exists and is not a table."""
    links = {table.name: table.name for table in directory_of(out, number).iterdir()}
    links |= {older: name for older, name in OLDER_NAMES.items() if name in links}
    for link in links:
        check_table(out / link)
    _point(out / CURRENT, f"{VERSIONS}/{number:06d}")
    for link, name in links.items():
        lead(out / link, f"{CURRENT}/{name}")


def lead(place: Path, target: str) -> None:
    """Make the table's path a symbolic link to `target`. Raises NoTable if the path exists and is not a table."""
    check_table(place)
    if place.is_dir() and not place.is_symlink():
        # An older version of zabka wrote this table as a directory.
        shutil.rmtree(place)
    if not place.is_symlink() or str(place.readlink()) != target:
        _point(place, target)


def check_table(place: Path) -> None:
    """Raise NoTable if the path exists and contains anything other than a table."""
    if place.is_symlink() or not place.exists():
        return
    if not place.is_dir() or not all(_is_of_a_table(path) for path in place.rglob("*") if not path.is_dir()):
        raise NoTable(f"{place} is no table, and would have to give way to one: name another --out")


def _is_of_a_table(path: Path) -> bool:
    return path.suffix in (".parquet", ".crc") or path.name == "_SUCCESS"


def _point(link: Path, target: str) -> None:
    aside = link.with_name(f"{link.name}.new")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.replace(link)


def vacuum(out: Path, older_than_s: float) -> list[int]:
    """Remove versions that were replaced more than `older_than_s` ago; return their numbers."""
    newest = current(out)
    removed = []
    for number in numbers(out):
        replaced = directory_of(out, number + 1)
        if number < newest and replaced.is_dir() and time.time() - replaced.stat().st_mtime >= older_than_s:
            removed.append(number)
    for number in removed:
        shutil.rmtree(directory_of(out, number))
    return removed

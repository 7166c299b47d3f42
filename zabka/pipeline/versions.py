"""Where tables lie: every run of a job is a version, and readers see one whole version or another.

`OUT/_versions/000007/TABLE/` holds the Parquet files of version 7.  `OUT/_current` is a symbolic link to the version
that counts, and `OUT/TABLE` one into `_current`: so any reader of Parquet takes `OUT/TABLE`, and all tables change at
once, by one rename.  Older versions stay until they are vacuumed, for whoever still reads them or wants to look back.
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
KEPT_S = 60.0
"""Versions stay so long after they were replaced, for whoever reads them."""


class InUse(Exception):
    """Another job writes here."""


class NoTable(OSError):
    """Where a table is to lie there is something else, which is nobody's to remove."""


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other jobs from writing to `out`.  Raises InUse where one does, and OSError where nobody may."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"another job writes to {out}: wait until it has ended, or name another --out") from None
        yield


def numbers(out: Path) -> list[int]:
    """The versions that are there, whole or not, oldest first."""
    if not (out / VERSIONS).is_dir():
        return []
    return sorted(int(path.name) for path in (out / VERSIONS).iterdir() if path.name.isdigit())


def directory_of(out: Path, number: int) -> Path:
    """Where a version lies."""
    return out / VERSIONS / f"{number:06d}"


def current(out: Path) -> int:
    """The version that readers see; 0 while there is none."""
    link = out / CURRENT
    return int(link.readlink().name) if link.is_symlink() else 0


def new_version(out: Path) -> tuple[int, Path]:
    """A new version and its directory, which nobody sees yet.  What a job that died left behind goes first."""
    newest = current(out)
    for number in numbers(out):
        if number > newest:
            shutil.rmtree(directory_of(out, number))
    directory = directory_of(out, newest + 1)
    directory.mkdir(parents=True)
    return newest + 1, directory


def keep(out: Path, number: int, table: str) -> None:
    """Let a version have the same rows of a table as the one before it.  The files are linked, not copied."""
    before = directory_of(out, number - 1) / table
    if before.is_dir():
        shutil.copytree(before, directory_of(out, number) / table, copy_function=os.link)


def publish(out: Path, number: int) -> None:
    """From now on readers see this version.  Raises NoTable where a table's place is taken by something else."""
    tables = list(directory_of(out, number).iterdir())
    for table in tables:
        check_table(out / table.name)
    _point(out / CURRENT, f"{VERSIONS}/{number:06d}")
    for table in tables:
        lead(out / table.name, f"{CURRENT}/{table.name}")


def lead(place: Path, target: str) -> None:
    """Let a table's place lead there.  Raises NoTable where it is taken by something else."""
    check_table(place)
    if place.is_dir() and not place.is_symlink():
        # A table that an older zabka wrote.
        shutil.rmtree(place)
    if not place.is_symlink():
        _point(place, target)


def check_table(place: Path) -> None:
    """Raises NoTable where what lies there is no table, but somebody's own: then nothing may replace it."""
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
    """Remove versions that were replaced longer ago than that; which ones."""
    newest = current(out)
    removed = []
    for number in numbers(out):
        replaced = directory_of(out, number + 1)
        if number < newest and replaced.is_dir() and time.time() - replaced.stat().st_mtime >= older_than_s:
            removed.append(number)
    for number in removed:
        shutil.rmtree(directory_of(out, number))
    return removed

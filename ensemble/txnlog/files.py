"""Small file operations whose effect must survive a power loss, and the names of a data directory's files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOG_PREFIX = "log"
SNAPSHOT_PREFIX = "snapshot"
GZIP_SUFFIX, SNAPPY_SUFFIX = ".gz", ".snappy"
COMPRESSED_SUFFIXES = (GZIP_SUFFIX, SNAPPY_SUFFIX)
WRITE_BYTES_MAX = 1 << 24


def sync_directory(directory: Path) -> None:
    """Make file creations, renames and removals in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make a file's bytes durable, whoever wrote them."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def forget_pages(descriptor: int, start: int, end: int) -> None:
    """Have the kernel drop what it keeps in memory of a part of a file that is on the disk, and will hardly be read.

    A file that is only ever written takes new pages without end, and pages that were never used cost the most: in a
    virtual machine the host has to find them.  These are used again for what is written next.
    """
    with suppress(OSError):  # It is advice, which a file system need not take.
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def write_again(path: Path) -> None:
    """Write a file's bytes over themselves, and make them durable.

    A sync that fails leaves its pages in the kernel, marked clean: a process that begins after it reads them, and its
    own sync has nothing to write.  What it then promises, a power loss takes.
    """
    data = memoryview(read_used(path))
    descriptor = os.open(path, os.O_RDWR)
    try:
        position = 0
        while position < len(data):
            position += os.pwrite(descriptor, data[position : position + WRITE_BYTES_MAX], position)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, temporary: str) -> None:
    """Put `data` at `path` atomically and durably: written as `temporary` beside it, synced, renamed."""
    staging = path.with_name(temporary)
    with staging.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    staging.rename(path)
    sync_directory(path.parent)


def zxid_of(path: Path, prefix: str) -> int | None:
    """The zxid in a name such as log.1a, snapshot.1a, snapshot.1a.gz or snapshot.1a.snappy; None where it is none."""
    head, dot, tail = path.name.removesuffix(GZIP_SUFFIX).removesuffix(SNAPPY_SUFFIX).partition(".")
    if head != prefix or not dot:
        return None
    try:
        return int(tail, 16)
    except ValueError:
        return None


def by_zxid(directory: Path, prefix: str) -> list[tuple[int, Path]]:
    """Files of that prefix, lowest zxid first."""
    found = [(zxid, path) for path in directory.iterdir() if (zxid := zxid_of(path, prefix)) is not None]
    found.sort()
    return found


def read_used(path: Path) -> bytes:
    """A file's bytes without the hole that preallocation leaves at its end (where the file system can tell)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        end = _data_end(descriptor, size)
        out = bytearray()
        while len(out) < end and (part := os.pread(descriptor, min(end - len(out), 1 << 24), len(out))):
            out += part
        return bytes(out)
    finally:
        os.close(descriptor)


def _data_end(descriptor: int, size: int) -> int:
    end = 0
    try:
        while end < size:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
    except OSError:
        # ENXIO: only a hole is left.  EINVAL: the file system keeps no such map, so everything counts as data.
        if end == 0:
            return size
    return min(end, size)


def remove_all(paths: list[Path], before_each: Callable[[Path], None] | None = None) -> None:
    """Remove files, and make that durable."""
    for path in paths:
        if before_each is not None:
            before_each(path)
        path.unlink(missing_ok=True)
    for directory in sorted({path.parent for path in paths}):
        sync_directory(directory)

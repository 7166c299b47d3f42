"""Small file operations whose results survive a power loss, and the names of a data directory's files."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from zabka.ensemble.runtime.files import HOST, Files

LOG_PREFIX = "log"
SNAPSHOT_PREFIX = "snapshot"
GZIP_SUFFIX, SNAPPY_SUFFIX = ".gz", ".snappy"
COMPRESSED_SUFFIXES = (GZIP_SUFFIX, SNAPPY_SUFFIX)
WRITE_BYTES_MAX = 1 << 24


def exists(path: Path, files: Files = HOST) -> bool:
    """Return whether a file or directory of this name exists. Raises OSError if that cannot be determined."""
    try:
        files.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_directory(path: Path, files: Files = HOST) -> bool:
    """Return whether a directory of this name exists. Raises OSError."""
    try:
        return stat.S_ISDIR(files.stat(path).st_mode)
    except FileNotFoundError:
        return False


def make_directories(path: Path, files: Files = HOST) -> None:
    """Create a directory and its missing parents, durably. Raises OSError."""
    if not is_directory(path, files):
        make_directories(path.parent, files)
        with suppress(FileExistsError):
            files.mkdir(path)
        sync_directory(path.parent, files)


def read_bytes(path: Path, files: Files = HOST) -> bytes:
    """Return a file's content. Raises OSError."""
    with files.stream(path, "rb") as file:
        return file.read()


def read_text(path: Path, files: Files = HOST) -> str:
    """Return a text file's content, with line ends converted to newlines.

    Raises OSError and UnicodeDecodeError.
    """
    return read_bytes(path, files).decode().replace("\r\n", "\n").replace("\r", "\n")


def write_bytes(path: Path, data: bytes, files: Files = HOST) -> None:
    """Write a file, replacing its content, without fsync. Raises OSError."""
    with files.stream(path, "wb") as file:
        file.write(data)


def sync_directory(directory: Path, files: Files = HOST) -> None:
    """Make file creations, renames and removals in `directory` durable."""
    descriptor = files.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def sync_file(path: Path, files: Files = HOST) -> None:
    """Make a file's bytes durable, including bytes written by another process."""
    descriptor = files.open(path, os.O_RDWR)
    try:
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def forget_pages(descriptor: int, start: int, end: int, files: Files = HOST) -> None:
    """Drop a part of a file from the kernel's page cache, because it is on the disk and is rarely read.

    Otherwise a file that is only written uses more and more new pages, and pages that were never used before are the
    most expensive: in a virtual machine the host has to provide them. Dropped pages are reused for the next writes.
    """
    with suppress(OSError):  # The call is only advice, which a file system may ignore.
        files.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def write_again(path: Path, files: Files = HOST) -> None:
    """Write a file's bytes again over themselves, and make them durable.

    After a failed fsync the kernel keeps the pages and marks them as clean. A process that starts later reads these
    pages, but its fsync does not write them, so a power loss would lose data that the process has acknowledged.
    """
    data = memoryview(read_used(path, files))
    descriptor = files.open(path, os.O_RDWR)
    try:
        position = 0
        while position < len(data):
            position += files.pwrite(descriptor, data[position : position + WRITE_BYTES_MAX], position)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def replace_file(path: Path, data: bytes, temporary: str, files: Files = HOST) -> None:
    """Replace the content of `path` by `data`, atomically and durably.

    Write `temporary` in the same directory, fsync it, and rename it.
    """
    staging = path.with_name(temporary)
    with files.stream(staging, "wb") as file:
        file.write(data)
        file.flush()
        files.fsync(file.fileno())
    files.rename(staging, path)
    sync_directory(path.parent, files)


def zxid_of(path: Path, prefix: str) -> int | None:
    """Return the zxid in the name of a log or snapshot file, or None if the name has none.

    Examples: log.1a, snapshot.1a, snapshot.1a.gz, snapshot.1a.snappy.
    """
    head, dot, tail = path.name.removesuffix(GZIP_SUFFIX).removesuffix(SNAPPY_SUFFIX).partition(".")
    if head != prefix or not dot:
        return None
    try:
        return int(tail, 16)
    except ValueError:
        return None


def by_zxid(directory: Path, prefix: str, files: Files = HOST) -> list[tuple[int, Path]]:
    """Return the files whose names consist of this prefix and a zxid, as (zxid, path), lowest zxid first."""
    paths = [directory / name for name in files.listdir(directory) if name.startswith(prefix)]
    found = [(zxid, path) for path in paths if (zxid := zxid_of(path, prefix)) is not None]
    found.sort()
    return found


def read_used(path: Path, files: Files = HOST) -> bytes:
    """Return a file's bytes without the trailing hole that preallocation left, if the file system reports holes."""
    descriptor = files.open(path, os.O_RDONLY)
    try:
        size = files.fstat(descriptor).st_size
        end = _data_end(descriptor, size, files)
        out = bytearray()
        while len(out) < end and (part := files.pread(descriptor, min(end - len(out), 1 << 24), len(out))):
            out += part
        return bytes(out)
    finally:
        files.close(descriptor)


def _data_end(descriptor: int, size: int, files: Files) -> int:
    end = 0
    try:
        while end < size:
            begin = files.lseek(descriptor, end, os.SEEK_DATA)
            end = files.lseek(descriptor, begin, os.SEEK_HOLE)
    except OSError:
        # ENXIO: only a hole follows `end`. EINVAL: the file system does not report holes, so treat everything as data.
        if end == 0:
            return size
    return min(end, size)


def unlink(path: Path, files: Files = HOST) -> None:
    """Remove a file if it exists, without fsync: after a power loss the file may exist again. Raises OSError."""
    with suppress(FileNotFoundError):
        files.unlink(path)


def remove_all(paths: list[Path], files: Files = HOST) -> None:
    """Remove files durably, that is with fsync of their directories."""
    for path in paths:
        unlink(path, files)
    for directory in sorted({path.parent for path in paths}):
        sync_directory(directory, files)


def remove_tree(path: Path, files: Files = HOST) -> None:
    """Remove a directory and its content. Ignore errors, and remove as much as possible."""
    with suppress(OSError):
        for name in files.listdir(path):
            if is_directory(path / name, files):
                remove_tree(path / name, files)
            else:
                files.unlink(path / name)
        files.rmdir(path)

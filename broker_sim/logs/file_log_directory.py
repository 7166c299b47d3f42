"""A log directory on a real disk. Does real I/O."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from zabka.broker_sim.logs.background_sync import BackgroundSync
from zabka.broker_sim.ports import DiskSpace
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.workers import THREADS, Workers
from zabka.ensemble.txnlog.files import (
    exists,
    is_directory,
    make_directories,
    read_bytes,
    read_text,
    remove_tree,
    replace_file,
    sync_directory,
    sync_file,
    unlink,
    write_bytes,
)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Names:
    """The file names in one directory, and whether the directory is synced to disk.

    A new process must assume that no name is synced, because an earlier process may have created a name just before it
    was killed. Changes are counted, so that a name that changes during a sync does not count as synced.
    """

    __slots__ = ("_changes", "_synced", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changes = 1
        self._synced = 0

    def change(self) -> None:
        """Record that a name was created or removed, so that the directory must be synced."""
        self._changes += 1

    def sync(self, files: Files) -> None:
        """Sync the directory, so that the names survive a power loss. Raises OSError."""
        changes = self._changes
        if self._synced < changes:
            sync_directory(self.path, files)
            self._synced = max(self._synced, changes)


class DiskLogFile:
    """One append-only file. Every append is immediately written to the operating system."""

    __slots__ = ("_descriptor", "_files", "_names", "_pread", "_pwrite", "_size")

    def __init__(self, path: Path, names: Sequence[_Names], files: Files = HOST) -> None:
        """`names` are the `_Names` of the file's directory and of the parent directory."""
        self._names = names
        self._files = files
        # Store the functions themselves, because they are called for every append and read.
        self._pwrite = files.pwrite
        self._pread = files.pread
        self._descriptor = files.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = files.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> int:
        """Append data to the file; return the position at which the data starts.

        Raises OSError if the disk is full or broken. In that case, partly written data are removed again as far as the
        disk permits, so that the log contains only whole batches.
        """
        start = self._size
        rest = memoryview(data)
        position = start
        try:
            while rest:
                written = self._pwrite(self._descriptor, rest, position)
                position += written
                rest = rest[written:]
        except OSError:
            self._files.ftruncate(self._descriptor, start)
            raise
        self._size = position
        return start

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        data = self._pread(self._descriptor, size, position)
        if len(data) == size or position + len(data) >= self._size:
            return data
        parts = [data]
        got = len(data)
        while got < size and position + got < self._size:
            more = self._pread(self._descriptor, size - got, position + got)
            if not more:
                break
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def size(self) -> int:
        """Number of bytes written."""
        return self._size

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._files.ftruncate(self._descriptor, size)
        self._size = size

    def flush(self) -> None:
        """Make the written data and the file's names survive a power loss."""
        self._files.fdatasync(self._descriptor)
        for names in self._names:
            names.sync(self._files)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._descriptor >= 0:
            self._files.close(self._descriptor)
            self._descriptor = -1


def _boot_id(files: Files) -> str:
    """Return Linux's boot id (random(4)), or an empty string on other systems, which have no reliable boot id."""
    try:
        return read_bytes(BOOT_ID, files).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class FileLogDirectory:
    """Implements `zabka.broker_sim.ports.LogDirectory` on disk. Creates the directory if it is missing."""

    def __init__(self, root: Path, files: Files = HOST, workers: Workers = THREADS) -> None:
        make_directories(root, files)
        self._root = root
        self._files = files
        self._workers = workers
        self._sync = BackgroundSync(root, files, workers)
        self._names = _Names(root)
        self._replica_names: dict[str, _Names] = {}
        self.boot_id = _boot_id(files)

    def _path(self, name: str, file: str = "") -> Path:
        if "/" in name or "/" in file or name in (".", "..") or file in (".", ".."):
            raise ValueError(f"not a name within the log directory: {name!r} {file!r}")
        return self._root / name / file

    def finish(self, within_s: float) -> None:
        """Wait, for at most `within_s`, until every file replaced by `exchange_text` is synced to disk."""
        self._sync.finish(within_s)

    def space(self) -> DiskSpace:
        """Return the total and usable space of the file system. Raises OSError."""
        return DiskSpace(self._files.capacity(self._root), self._files.room(self._root))

    def partitions(self) -> list[str]:
        """Return the names of the replica directories, sorted."""
        return sorted(name for name in self._files.listdir(self._root) if is_directory(self._root / name, self._files))

    def create_partition(self, name: str) -> None:
        """Create a replica directory if it is missing."""
        with suppress(FileExistsError):
            self._files.mkdir(self._path(name))
            self._names.change()

    def delete_partition(self, name: str) -> None:
        """Delete a replica directory and its content, if it exists."""
        if name:
            remove_tree(self._path(name), self._files)
            self._replica_names.pop(name, None)

    def _names_in(self, name: str) -> _Names:
        return self._replica_names.setdefault(name, _Names(self._path(name)))

    def sync_names(self, name: str) -> None:
        """Sync a replica directory and its entry in the log directory, so that all their names survive a power loss."""
        self._names_in(name).sync(self._files)
        self._names.sync(self._files)

    async def sync_in_background(self, files: Sequence[tuple[str, str]]) -> None:
        """Sync these files and their names in the background. When the call returns, the files survive a power loss.

        Raises OSError.
        """
        if files:
            self._sync.leave_out(files)
            await self._workers.call(self._sync_each, [self._path(name, file) for name, file in files])

    def _sync_each(self, paths: Sequence[Path]) -> None:
        for path in paths:
            # Ignore a missing file: the replica may have been deleted or renamed in the meantime.
            with suppress(FileNotFoundError):
                sync_file(path, self._files)
                sync_directory(path.parent, self._files)
        self._names.sync(self._files)

    def rename_partition(self, name: str, to: str) -> None:
        """Rename a replica directory durably."""
        self._files.rename(self._path(name), self._path(to))
        self._sync.renamed(name, to)
        names = self._names_in(name)
        names.path = self._path(to)
        self._replica_names[to] = self._replica_names.pop(name)
        self._names.change()
        self._names.sync(self._files)

    def list_files(self, name: str) -> list[str]:
        """Return the file names in a replica directory, sorted."""
        path = self._path(name)
        return sorted(file for file in self._files.listdir(path) if not is_directory(path / file, self._files))

    def open(self, name: str, file: str) -> DiskLogFile:
        """Open or create a file in a replica directory."""
        path, names = self._path(name, file), self._names_in(name)
        is_new = not exists(path, self._files)
        opened = DiskLogFile(path, (names, self._names), self._files)
        if is_new:
            names.change()
        return opened

    def remove(self, name: str, file: str) -> None:
        """Remove a file if it exists; a power loss may restore it."""
        unlink(self._path(name, file), self._files)
        self._names_in(name).change()

    def replace(self, name: str, file: str, by: str) -> None:
        """Replace `file` with the file `by` atomically."""
        self._files.rename(self._path(name, by), self._path(name, file))
        self._names_in(name).change()

    def read_text(self, name: str, file: str) -> str | None:
        """Return a small file's content, or None if the file does not exist or is not valid text."""
        try:
            return read_text(self._path(name, file), self._files)
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically, and sync it to disk later.

        Raises OSError if this write fails, or if syncing an earlier file has failed.
        """
        path = self._path(name, file)
        aside = path.with_name(path.name + ".tmp")
        write_bytes(aside, text.encode(), self._files)
        self._files.rename(aside, path)
        self._sync.add(name, file)

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically: write a temporary file, fsync, rename."""
        path = self._path(name, file)
        replace_file(path, text.encode(), path.name + ".tmp", self._files)

"""A log directory on a real disk (shell)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from broker_sim.logs.background_sync import BackgroundSync
from ensemble.txnlog.files import sync_directory

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class DiskLogFile:
    """One append-only file, written through to the operating system with every append."""

    __slots__ = ("_descriptor", "_path", "_size", "_unnamed")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unnamed = not path.exists()
        """New, and its directory entry does not survive a power loss yet."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> int:
        """Append; returns the position the data starts at.

        Raises OSError where the disk is full or broken; what was written of the data is taken back as far as the
        disk lets us, so that the log stays whole.
        """
        start = self._size
        rest = memoryview(data)
        position = start
        try:
            while rest:
                written = os.pwrite(self._descriptor, rest, position)
                position += written
                rest = rest[written:]
        except OSError:
            os.ftruncate(self._descriptor, start)
            raise
        self._size = position
        return start

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end."""
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or position + len(data) >= self._size:
            return data
        parts = [data]
        got = len(data)
        while got < size and position + got < self._size:
            more = os.pread(self._descriptor, size - got, position + got)
            if not more:
                break
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def size(self) -> int:
        """Bytes written."""
        return self._size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self._descriptor, size)
        self._size = size

    def flush(self) -> None:
        """What was written so far survives a power loss."""
        os.fdatasync(self._descriptor)
        if self._unnamed:
            sync_directory(self._path.parent)
            sync_directory(self._path.parent.parent)
            self._unnamed = False

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _boot_id() -> str:
    """Linux's (random(4)); other systems have none that a process could trust."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class FileLogDirectory:
    """`broker_sim.ports.LogDirectory` under a directory, which is created where it is missing."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._sync = BackgroundSync(root)
        self.boot_id = _boot_id()

    def _path(self, name: str, file: str = "") -> Path:
        if "/" in name or "/" in file or name in (".", "..") or file in (".", ".."):
            raise ValueError(f"not a name within the log directory: {name!r} {file!r}")
        return self._root / name / file

    def finish(self, within_s: float) -> None:
        """Wait until every text that was exchanged is on the disk, for so long at most."""
        self._sync.finish(within_s)

    def partitions(self) -> list[str]:
        """Names of the replica directories, sorted."""
        return sorted(entry.name for entry in self._root.iterdir() if entry.is_dir())

    def create_partition(self, name: str) -> None:
        """Make a replica directory, if it is not there."""
        self._path(name).mkdir(exist_ok=True)

    def delete_partition(self, name: str) -> None:
        """Remove a replica directory and all in it, if it is there."""
        if name:
            shutil.rmtree(self._path(name), ignore_errors=True)

    def rename_partition(self, name: str, to: str) -> None:
        """Give a replica directory another name, durably."""
        self._path(name).rename(self._path(to))
        self._sync.renamed(name, to)
        sync_directory(self._root)

    def list_files(self, name: str) -> list[str]:
        """File names in a replica directory, sorted."""
        return sorted(entry.name for entry in self._path(name).iterdir() if entry.is_file())

    def open(self, name: str, file: str) -> DiskLogFile:
        """Open or create a file in a replica directory."""
        return DiskLogFile(self._path(name, file))

    def remove(self, name: str, file: str) -> None:
        """Remove a file, if it is there."""
        self._path(name, file).unlink(missing_ok=True)

    def replace(self, name: str, file: str, by: str) -> None:
        """Put the file `by` in the place of `file`, atomically and durably."""
        path = self._path(name, file)
        self._path(name, by).replace(path)
        sync_directory(path.parent)

    def read_text(self, name: str, file: str) -> str | None:
        """A small file's content; None where it does not exist or is not text."""
        try:
            return self._path(name, file).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically; a thread brings it to the disk.

        Raises OSError, also where that thread could not sync one before.
        """
        path = self._path(name, file)
        aside = path.with_name(path.name + ".tmp")
        aside.write_text(text, encoding="utf-8", newline="\n")
        aside.replace(path)
        self._sync.add(name, file)

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically: written aside, fsynced, renamed."""
        path = self._path(name, file)
        aside = path.with_name(path.name + ".tmp")
        with aside.open("w", encoding="utf-8", newline="\n") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        aside.replace(path)
        sync_directory(path.parent)

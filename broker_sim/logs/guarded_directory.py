"""A log directory that is given up at its first failure (Kafka's LogDirFailureChannel).

A disk that failed once cannot be trusted with records any more: whatever touches it afterwards is refused, and the
broker goes on with its other directories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn, TypeVar

from zabka.broker_sim.ports import DiskSpace, LogDirectory, LogFile

T = TypeVar("T")


class LogDirFailed(Exception):
    """The log directory is offline (KAFKA_STORAGE_ERROR)."""


class GuardedDirectory:
    """`zabka.broker_sim.ports.LogDirectory` over another one; every method raises LogDirFailed once that has failed."""

    def __init__(self, inner: LogDirectory, failed: Callable[[GuardedDirectory, OSError], None]) -> None:
        self.is_online = True
        self._inner = inner
        self._failed = failed

    @property
    def boot_id(self) -> str:
        """Names this run of the operating system."""
        return self._inner.boot_id

    def attempt(self, action: Callable[[], T]) -> T:
        """Do something with the disk."""
        if not self.is_online:
            raise LogDirFailed
        try:
            return action()
        except OSError as failure:
            self.give_up(failure)

    def give_up(self, failure: OSError) -> NoReturn:
        """The directory has failed just now."""
        if self.is_online:
            self.is_online = False
            self._failed(self, failure)
        raise LogDirFailed from failure

    def space(self) -> DiskSpace:
        """The space of the file system.  Raises OSError, which does not take the directory offline, as in Kafka."""
        return self._inner.space()

    def partitions(self) -> list[str]:
        """Names of the replica directories, sorted."""
        return self.attempt(self._inner.partitions)

    def create_partition(self, name: str) -> None:
        """Make a replica directory, if it is not there."""
        self.attempt(lambda: self._inner.create_partition(name))

    def delete_partition(self, name: str) -> None:
        """Remove a replica directory and all in it."""
        self.attempt(lambda: self._inner.delete_partition(name))

    def rename_partition(self, name: str, to: str) -> None:
        """Give a replica directory another name."""
        self.attempt(lambda: self._inner.rename_partition(name, to))

    def list_files(self, name: str) -> list[str]:
        """File names in a replica directory, sorted."""
        return self.attempt(lambda: self._inner.list_files(name))

    def open(self, name: str, file: str) -> LogFile:
        """Open or create a file in a replica directory."""
        return _GuardedFile(self, self.attempt(lambda: self._inner.open(name, file)))

    def remove(self, name: str, file: str) -> None:
        """Remove a file, if it is there."""
        self.attempt(lambda: self._inner.remove(name, file))

    def sync_names(self, name: str) -> None:
        """What files a replica directory has survives a power loss."""
        self.attempt(lambda: self._inner.sync_names(name))

    async def sync_beside(self, files: Sequence[tuple[str, str]]) -> None:
        """These files, and their names, survive a power loss once this returns."""
        if not self.is_online:
            raise LogDirFailed
        try:
            await self._inner.sync_beside(files)
        except OSError as failure:
            self.give_up(failure)

    def forget(self, name: str, file: str) -> None:
        """Remove a file even where the directory has failed, if its disk lets that be done."""
        with suppress(OSError):
            self._inner.remove(name, file)

    def replace(self, name: str, file: str, by: str) -> None:
        """Put the file `by` in the place of `file`, atomically."""
        self.attempt(lambda: self._inner.replace(name, file, by))

    def read_text(self, name: str, file: str) -> str | None:
        """A small file's content; None where it does not exist."""
        return self.attempt(lambda: self._inner.read_text(name, file))

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically, durable some time later."""
        self.attempt(lambda: self._inner.exchange_text(name, file, text))

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically."""
        self.attempt(lambda: self._inner.write_text(name, file, text))


class _GuardedFile:
    """One file of a guarded directory."""

    __slots__ = ("_append", "_directory", "_file", "_read")

    def __init__(self, directory: GuardedDirectory, file: LogFile) -> None:
        self._directory = directory
        self._file = file
        # Every record passes through these two.
        self._append = file.append
        self._read = file.read

    def append(self, data: bytes) -> int:
        """Append; returns the position the data starts at."""
        if not self._directory.is_online:
            raise LogDirFailed
        try:
            return self._append(data)
        except OSError as failure:
            self._directory.give_up(failure)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        if not self._directory.is_online:
            raise LogDirFailed
        try:
            return self._read(position, size)
        except OSError as failure:
            self._directory.give_up(failure)

    def size(self) -> int:
        """Bytes written."""
        return self._file.size()

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._directory.attempt(lambda: self._file.truncate(size))

    def flush(self) -> None:
        """What was written so far survives a power loss."""
        self._directory.attempt(self._file.flush)

    def close(self) -> None:
        """Give the file back, failed or not."""
        self._file.close()

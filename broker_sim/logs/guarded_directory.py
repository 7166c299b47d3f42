"""A log directory that goes offline at its first failure (Kafka's LogDirFailureChannel).

A disk that failed once cannot be trusted with records again. So all later operations raise LogDirFailed, and the broker
continues with its other directories.
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
    """Wraps another `zabka.broker_sim.ports.LogDirectory`, and takes it offline at its first failure.

    After this failure, every method raises LogDirFailed.
    """

    def __init__(self, inner: LogDirectory, failed: Callable[[GuardedDirectory, OSError], None]) -> None:
        self.is_online = True
        self._inner = inner
        self._failed = failed

    @property
    def boot_id(self) -> str:
        """The id of the current boot of the operating system."""
        return self._inner.boot_id

    def attempt(self, action: Callable[[], T]) -> T:
        """Run an operation on the disk. If it raises OSError, take the directory offline."""
        if not self.is_online:
            raise LogDirFailed
        try:
            return action()
        except OSError as failure:
            self.give_up(failure)

    def give_up(self, failure: OSError) -> NoReturn:
        """Take the directory offline after a failure."""
        if self.is_online:
            self.is_online = False
            self._failed(self, failure)
        raise LogDirFailed from failure

    def space(self) -> DiskSpace:
        """Return the total and usable space of the file system.

        Raises OSError, which does not take the directory offline, as in Kafka.
        """
        return self._inner.space()

    def partitions(self) -> list[str]:
        """Return the names of the replica directories, sorted."""
        return self.attempt(self._inner.partitions)

    def create_partition(self, name: str) -> None:
        """Create a replica directory if it is missing."""
        self.attempt(lambda: self._inner.create_partition(name))

    def delete_partition(self, name: str) -> None:
        """Delete a replica directory and its content."""
        self.attempt(lambda: self._inner.delete_partition(name))

    def rename_partition(self, name: str, to: str) -> None:
        """Rename a replica directory."""
        self.attempt(lambda: self._inner.rename_partition(name, to))

    def list_files(self, name: str) -> list[str]:
        """Return the file names in a replica directory, sorted."""
        return self.attempt(lambda: self._inner.list_files(name))

    def open(self, name: str, file: str) -> LogFile:
        """Open or create a file in a replica directory."""
        return _GuardedFile(self, self.attempt(lambda: self._inner.open(name, file)))

    def remove(self, name: str, file: str) -> None:
        """Remove a file if it exists."""
        self.attempt(lambda: self._inner.remove(name, file))

    def sync_names(self, name: str) -> None:
        """Make the file names of a replica directory survive a power loss."""
        self.attempt(lambda: self._inner.sync_names(name))

    async def sync_in_background(self, files: Sequence[tuple[str, str]]) -> None:
        """Sync these files and their names in the background. When the call returns, the files survive a power loss."""
        if not self.is_online:
            raise LogDirFailed
        try:
            await self._inner.sync_in_background(files)
        except OSError as failure:
            self.give_up(failure)

    def forget(self, name: str, file: str) -> None:
        """Remove a file even if the directory is offline, as far as the disk permits."""
        with suppress(OSError):
            self._inner.remove(name, file)

    def replace(self, name: str, file: str, by: str) -> None:
        """Replace `file` with the file `by` atomically."""
        self.attempt(lambda: self._inner.replace(name, file, by))

    def read_text(self, name: str, file: str) -> str | None:
        """Return a small file's content, or None if it does not exist."""
        return self.attempt(lambda: self._inner.read_text(name, file))

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically. It is synced to disk later."""
        self.attempt(lambda: self._inner.exchange_text(name, file, text))

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically."""
        self.attempt(lambda: self._inner.write_text(name, file, text))


class _GuardedFile:
    """One file of a guarded directory. An OSError takes the whole directory offline."""

    __slots__ = ("_append", "_directory", "_file", "_read")

    def __init__(self, directory: GuardedDirectory, file: LogFile) -> None:
        self._directory = directory
        self._file = file
        # Store the methods themselves, because they are called for every append and read.
        self._append = file.append
        self._read = file.read

    def append(self, data: bytes) -> int:
        """Append data to the file; return the position at which the data starts."""
        if not self._directory.is_online:
            raise LogDirFailed
        try:
            return self._append(data)
        except OSError as failure:
            self._directory.give_up(failure)

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        if not self._directory.is_online:
            raise LogDirFailed
        try:
            return self._read(position, size)
        except OSError as failure:
            self._directory.give_up(failure)

    def size(self) -> int:
        """Number of bytes written."""
        return self._file.size()

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._directory.attempt(lambda: self._file.truncate(size))

    def flush(self) -> None:
        """Make everything written so far survive a power loss."""
        self._directory.attempt(self._file.flush)

    def close(self) -> None:
        """Close the file, even if the directory has failed."""
        self._file.close()

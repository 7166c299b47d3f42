"""A broker's log directories on disks that fail: what the scenario `disks` gives to its brokers."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from random import Random

from zabka.broker_sim.logs.memory_log_directory import MemoryLogDirectory, MemoryLogFile
from zabka.broker_sim.ports import DiskSpace, LogFile

READ, WRITE, FLUSH, TEXT = "read", "write", "flush", "text"
"""What can fail: reading records, writing them, flushing them, the small files (checkpoints, meta.properties)."""
OPERATIONS = (READ, WRITE, FLUSH, TEXT)


class FaultyLogDirectory:
    """`zabka.broker_sim.ports.LogDirectory` on a `disk` that raises OSError while it fails or is full."""

    def __init__(self, random: Random) -> None:
        self.disk = MemoryLogDirectory()
        self._random = random
        self._broken: tuple[str, ...] = ()
        self._errno = 0
        self._once = False
        self._has_refused = False
        """Has anybody met a fault since the disk was mended?"""

    # -- faults ------------------------------------------------------------------------------------------------------

    def fail(self, operations: tuple[str, ...], *, once: bool = False) -> None:
        """From now on these are answered with EIO, or the first of them is."""
        self._broken, self._errno = operations, errno.EIO
        self._once = once

    def fill(self) -> None:
        """From now on there is no room for anything more."""
        self._broken, self._errno = (WRITE, TEXT), errno.ENOSPC
        self._once = False

    def mend(self) -> bool:
        """All is well again; has anybody met a fault since it was so last?"""
        self._broken = ()
        has_refused, self._has_refused = self._has_refused, False
        return has_refused

    def _check(self, operation: str) -> None:
        if operation in self._broken:
            self._has_refused = True
            if self._once:
                self._broken = ()
            raise OSError(self._errno, os.strerror(self._errno))

    # -- its files ---------------------------------------------------------------------------------------------------

    @property
    def boot_id(self) -> str:
        """The disk's machine's."""
        return self.disk.boot_id

    def append(self, file: MemoryLogFile, data: bytes) -> int:
        """Append to a file.  A full disk lets what it took of that be taken back, a broken one does not."""
        if WRITE in self._broken and self._errno == errno.EIO:
            file.append(data[: self._random.randrange(0, len(data))])
        self._check(WRITE)
        return file.append(data)

    def read(self, file: MemoryLogFile, position: int, size: int) -> bytes:
        """Read from a file."""
        self._check(READ)
        return file.read(position, size)

    def flush(self, file: MemoryLogFile) -> None:
        """Flush a file."""
        self._check(FLUSH)
        file.flush()

    def truncate(self, file: MemoryLogFile, size: int) -> None:
        """Cut a file; a full disk does."""
        if self._errno != errno.ENOSPC:
            self._check(WRITE)
        file.truncate(size)

    # -- the directory -------------------------------------------------------------------------------------------------

    def space(self) -> DiskSpace:
        """The disk's."""
        return self.disk.space()

    def partitions(self) -> list[str]:
        """Names of the replica directories, sorted."""
        self._check(READ)
        return self.disk.partitions()

    def create_partition(self, name: str) -> None:
        """Make a replica directory, if it is not there."""
        self._check(WRITE)
        self.disk.create_partition(name)

    def delete_partition(self, name: str) -> None:
        """Remove a replica directory and all in it."""
        self.disk.delete_partition(name)

    def rename_partition(self, name: str, to: str) -> None:
        """Give a replica directory another name, durably."""
        self._check(WRITE)
        self.disk.rename_partition(name, to)

    def list_files(self, name: str) -> list[str]:
        """File names in a replica directory, sorted."""
        self._check(READ)
        return self.disk.list_files(name)

    def open(self, name: str, file: str) -> LogFile:
        """Open or create a file in a replica directory."""
        self._check(READ if file in self.disk.files(name) else WRITE)
        return _FaultyFile(self, self.disk.open(name, file))

    def remove(self, name: str, file: str) -> None:
        """Remove a file, if it is there."""
        self.disk.remove(name, file)

    def sync_names(self, name: str) -> None:
        """What files a replica directory has survives a power loss."""
        self._check(FLUSH)
        self.disk.sync_names(name)

    async def sync_in_background(self, files: Sequence[tuple[str, str]]) -> None:
        """These files survive a power loss, at once."""
        for name, file in files:
            self._check(FLUSH if file in self.disk.files(name) else TEXT)
        await self.disk.sync_in_background(files)

    def replace(self, name: str, file: str, by: str) -> None:
        """Put the file `by` in the place of `file`, atomically."""
        self._check(WRITE)
        self.disk.replace(name, file, by)

    def read_text(self, name: str, file: str) -> str | None:
        """A small file's content; None where it does not exist."""
        self._check(READ)
        return self.disk.read_text(name, file)

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file; a power loss undoes the last time."""
        self._check(TEXT)
        self.disk.exchange_text(name, file, text)

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file, durably."""
        self._check(TEXT)
        self.disk.write_text(name, file, text)


class _FaultyFile:
    """One file in such a directory."""

    __slots__ = ("_directory", "_file")

    def __init__(self, directory: FaultyLogDirectory, file: MemoryLogFile) -> None:
        self._directory = directory
        self._file = file

    def append(self, data: bytes) -> int:
        """Append; returns the position the data starts at."""
        return self._directory.append(self._file, data)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        return self._directory.read(self._file, position, size)

    def size(self) -> int:
        """Bytes written."""
        return self._file.size()

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._directory.truncate(self._file, size)

    def flush(self) -> None:
        """What was written so far survives a power loss."""
        self._directory.flush(self._file)

    def close(self) -> None:
        """The file can be opened again through its directory."""
        self._file.close()


class BrokerDisks:
    """All disks of one broker, as its machine keeps them: they crash and lose their power together."""

    def __init__(self, random: Random, count: int) -> None:
        self.directories = [FaultyLogDirectory(random) for _ in range(count)]
        self._random = random

    @property
    def paths(self) -> str:
        """Their names, for log.dirs."""
        return ",".join(f"/simulated/{number}" for number in range(len(self.directories)))

    def files(self, name: str) -> Mapping[str, MemoryLogFile]:
        """A replica's segment files, in whichever directory they lie."""
        lying = (directory.disk.files(name) for directory in self.directories)
        return next((files for files in lying if files), {})

    def crash(self) -> None:
        """The process was killed: everything written stays."""
        for directory in self.directories:
            directory.disk.crash()

    def power_loss(self) -> None:
        """The machine lost its power: of what was not flushed a part of each file is left, torn anywhere."""
        for directory in self.directories:
            directory.disk.power_loss(lambda unflushed: self._random.randrange(0, unflushed + 1))

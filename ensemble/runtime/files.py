"""Interface of the file system for code that does I/O, and its implementation with the host's file system.

The methods are POSIX calls with the names from `os`, and raise OSError in the same situations. Compound operations (for
example replacing a small file so that it survives a power loss) are in `zabka.ensemble.txnlog.files`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO, Protocol


class FileStat(Protocol):
    """The fields of a `stat` result that this package uses."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_blocks(self) -> int:
        """Number of allocated blocks of 512 bytes; a hole has none."""
        ...

    @property
    def st_mtime(self) -> float: ...


class Files(Protocol):
    """A file system, as one process sees it."""

    def open(self, path: Path, flags: int, mode: int = 0o777, /) -> int:
        """Open a file; return its descriptor."""
        ...

    def close(self, descriptor: int, /) -> None: ...
    def pread(self, descriptor: int, size: int, position: int, /) -> bytes: ...
    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, position: int, /) -> int: ...
    def ftruncate(self, descriptor: int, size: int, /) -> None: ...
    def fsync(self, descriptor: int, /) -> None: ...
    def fdatasync(self, descriptor: int, /) -> None: ...
    def fstat(self, descriptor: int, /) -> FileStat: ...
    def lseek(self, descriptor: int, position: int, whence: int, /) -> int: ...
    def posix_fadvise(self, descriptor: int, start: int, length: int, advice: int, /) -> None: ...
    def flock(self, descriptor: int, operation: int, /) -> None: ...
    def stream(self, path: Path, mode: str, /) -> IO[bytes]:
        """Open a file with a buffer, to read ("rb") or to overwrite ("wb") it; `fileno()` is supported."""
        ...

    def stat(self, path: Path, /) -> FileStat: ...
    def listdir(self, path: Path, /) -> list[str]:
        """Return the names of the entries, unordered."""
        ...

    def rename(self, path: Path, to: Path, /) -> None:
        """Rename a file, replacing any file with the new name."""
        ...

    def unlink(self, path: Path, /) -> None: ...
    def mkdir(self, path: Path, /) -> None: ...
    def rmdir(self, path: Path, /) -> None: ...
    def resolve(self, path: Path, /) -> Path:
        """Return the path without symbolic links."""
        ...

    def room(self, path: Path, /) -> int:
        """Return the number of free bytes on the file system that contains the path."""
        ...

    def capacity(self, path: Path, /) -> int:
        """Return the size in bytes of the file system that contains the path."""
        ...


class HostFiles:
    """The host's file system.

    The methods are the functions of `os` themselves, so the interface costs no additional call.
    """

    def __init__(self) -> None:
        self.open = os.open
        self.close = os.close
        self.pread = os.pread
        self.pwrite = os.pwrite
        self.ftruncate = os.ftruncate
        self.fsync = os.fsync
        self.fdatasync = os.fdatasync
        self.fstat = os.fstat
        self.lseek = os.lseek
        self.posix_fadvise = os.posix_fadvise
        self.flock = fcntl.flock
        self.stat = os.stat
        self.listdir = os.listdir
        self.rename = os.rename
        self.unlink = os.unlink
        self.mkdir = os.mkdir
        self.rmdir = os.rmdir

    def stream(self, path: Path, mode: str, /) -> IO[bytes]:
        """Open a file to read ("rb") or to overwrite ("wb")."""
        opened: IO[bytes] = path.open(mode)
        return opened

    def resolve(self, path: Path, /) -> Path:
        """Return the path without symbolic links."""
        return path.resolve()

    def room(self, path: Path, /) -> int:
        """Return the number of free bytes on the file system that contains the path."""
        return shutil.disk_usage(path).free

    def capacity(self, path: Path, /) -> int:
        """Return the size in bytes of the file system that contains the path."""
        return shutil.disk_usage(path).total


HOST = HostFiles()

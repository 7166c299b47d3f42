"""Files on the disk of a program's machine, with the interface of `pathlib.Path`.

SIGKILL loses no written data. After a power loss of the machine, its disk has all synced data and a random part of the
unsynced data. The name of a new or renamed file is durable only after a sync of its directory. Files that a program
opens with aiofiles are on the same disk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.testing.worlds.host import SimHost

ROOT = Path("/")


class SimPath:
    """A path on the disk of `machine`, by default the machine of the program that is running."""

    def __init__(self, host: SimHost, path: str | Path = "/", machine: str | None = None) -> None:
        self._host = host
        self._path = ROOT / path
        self._machine = machine

    def __truediv__(self, name: str) -> SimPath:
        return SimPath(self._host, self._path / name, self._machine)

    def __str__(self) -> str:
        return str(self._path)

    def __repr__(self) -> str:
        return f"SimPath({str(self)!r})"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._path.name

    @property
    def parent(self) -> SimPath:
        """The directory that contains the path."""
        return SimPath(self._host, self._path.parent, self._machine)

    def _files(self) -> ProcessFiles:
        if self._machine is not None:
            return ProcessFiles(self._host.world.machine(self._machine).volume)
        turn: Any = self._host.world.ground.turn.taker
        files = None if turn is None else turn.disk
        if not isinstance(files, ProcessFiles):
            raise RuntimeError(
                f"{self!r} is used outside the world's programs: it is on the disk of a program's machine"
            )
        return files

    def open(self, mode: str = "r", encoding: str = "utf-8") -> IO[Any]:
        """Open the file like the built-in `open`.  `os.fsync` syncs it.  Raises OSError."""
        binary = self._files().stream(self._path, mode.replace("t", "").replace("b", "") + "b")
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, write_through=True)

    def sync(self) -> None:
        """Sync the file's data, or the names in the directory, to the disk (fsync(2)).  Raises OSError."""
        files = self._files()
        descriptor = files.open(self._path, os.O_RDONLY)
        try:
            files.fsync(descriptor)
        finally:
            files.close(descriptor)

    def read_bytes(self) -> bytes:
        """Return the content of the file.  Raises OSError."""
        with self.open("rb") as file:
            data: bytes = file.read()
        return data

    def read_text(self) -> str:
        """Return the content of the file, decoded as UTF-8. Raises OSError."""
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        """Replace the content of the file, without a sync.  Raises OSError."""
        with self.open("wb") as file:
            file.write(data)

    def write_text(self, text: str) -> None:
        """Replace the content of the file by a string, encoded as UTF-8, without a sync. Raises OSError."""
        self.write_bytes(text.encode())

    def exists(self) -> bool:
        """Return whether the file or directory exists."""
        try:
            self._files().stat(self._path)
        except FileNotFoundError:
            return False
        return True

    def iterdir(self) -> Iterator[SimPath]:
        """Yield the paths in a directory, in a random order that depends on the seed. Raises OSError."""
        for name in self._files().listdir(self._path):
            yield self / name

    def mkdir(self) -> None:
        """Create a directory.  Raises OSError."""
        self._files().mkdir(self._path)

    def rename(self, target: SimPath) -> None:
        """Rename the file within its directory, replacing `target` if it exists. Raises OSError."""
        self._files().rename(self._path, target._path)

    def unlink(self) -> None:
        """Remove the file.  Raises OSError."""
        self._files().unlink(self._path)

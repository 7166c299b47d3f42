"""A log directory in memory for the simulated world. Tests can simulate a crash or a power loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zabka.broker_sim.ports import DiskSpace


def _nothing(unflushed: int) -> int:
    return 0


class MemoryLogFile:
    """One file in memory: its content, and how many of its bytes are flushed."""

    __slots__ = ("_content", "_flushed", "is_open")

    def __init__(self) -> None:
        self._content = bytearray()
        self._flushed = 0
        self.is_open = True

    def append(self, data: bytes) -> int:
        """Append data, and return its start position."""
        assert self.is_open, "the file is closed"
        position = len(self._content)
        self._content += data
        return position

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        return bytes(memoryview(self._content)[position : position + size])

    def size(self) -> int:
        """Number of bytes written."""
        return len(self._content)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        del self._content[size:]
        self._flushed = min(self._flushed, size)

    def flush(self) -> None:
        """Make all data written so far durable."""
        self._flushed = len(self._content)

    def close(self) -> None:
        """Mark the file as closed. Its content stays, and the directory can open it again."""
        self.is_open = False

    def lose_power(self, left_of: Callable[[int], int]) -> int:
        """Keep the flushed bytes and `left_of(n)` of the n unflushed bytes. Return the number of lost bytes."""
        unflushed = len(self._content) - self._flushed
        lost = unflushed - left_of(unflushed)
        del self._content[len(self._content) - lost :]
        return lost


class MemoryLogDirectory:
    """One of a broker's log.dirs in memory (`zabka.broker_sim.ports.LogDirectory`).

    `crash()` simulates a killed process: all written data remains. `power_loss()` simulates a power loss: only flushed
    data remains. Small text files that `write_text` replaces are durable at once, because it fsyncs them. If a file was
    replaced by `exchange_text` and not synced, a power loss restores its previous content.
    """

    def __init__(self) -> None:
        self._files: dict[str, dict[str, MemoryLogFile]] = {}
        self._texts: dict[str, dict[str, str]] = {"": {}}
        self._before: dict[tuple[str, str], str | None] = {}
        """Content on disk of files that `exchange_text` has replaced and that are not synced yet."""
        self._power_losses = 0

    @property
    def boot_id(self) -> str:
        """Boot id of the machine. It changes at every power loss."""
        return f"boot-{self._power_losses}"

    def space(self) -> DiskSpace:
        """Return an unknown disk space, because memory has no file system limit."""
        return DiskSpace()

    def partitions(self) -> list[str]:
        """Names of the replica directories, in order."""
        return sorted(self._files)

    def create_partition(self, name: str) -> None:
        """Create a replica directory if it is missing."""
        self._files.setdefault(name, {})
        self._texts.setdefault(name, {})

    def delete_partition(self, name: str) -> None:
        """Delete a replica directory and its contents."""
        for file in self._files.pop(name, {}).values():
            file.close()
        self._texts.pop(name, None)
        self._before = {key: text for key, text in self._before.items() if key[0] != name}

    def rename_partition(self, name: str, to: str) -> None:
        """Rename a replica directory durably."""
        assert name in self._files and to not in self._files, (name, to)
        self._files[to] = self._files.pop(name)
        self._texts[to] = self._texts.pop(name)
        self._before = {(to if key[0] == name else key[0], key[1]): text for key, text in self._before.items()}

    def list_files(self, name: str) -> list[str]:
        """File names in a replica directory, in order."""
        return sorted([*self._files.get(name, {}), *self._texts.get(name, {})])

    def files(self, name: str) -> Mapping[str, MemoryLogFile]:
        """Return a replica's segment files on disk, whether open or not."""
        return self._files.get(name, {})

    def open(self, name: str, file: str) -> MemoryLogFile:
        """Open or create a file in a replica directory."""
        opened = self._files[name].setdefault(file, MemoryLogFile())
        opened.is_open = True
        return opened

    def remove(self, name: str, file: str) -> None:
        """Remove a file if it exists."""
        self._files.get(name, {}).pop(file, None)
        self._texts.get(name, {}).pop(file, None)

    def sync_names(self, name: str) -> None:
        """Do nothing, because changes of file names are durable immediately."""

    async def sync_in_background(self, files: Sequence[tuple[str, str]]) -> None:
        """Make these files durable immediately."""
        for name, file in files:
            self._before.pop((name, file), None)
            if file in self._files.get(name, {}):
                self._files[name][file].flush()

    def replace(self, name: str, file: str, by: str) -> None:
        """Replace `file` with the file `by`."""
        files = self._files[name]
        files[file] = files.pop(by)

    def read_text(self, name: str, file: str) -> str | None:
        """Return a small file's content, or None if it does not exist."""
        return self._texts.get(name, {}).get(file)

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file; a power loss undoes the last replacement."""
        before = self.read_text(name, file)
        self.write_text(name, file, text)
        self._before[name, file] = before

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file durably."""
        self._texts.setdefault(name, {})[file] = text
        self._before.pop((name, file), None)

    def crash(self) -> None:
        """Simulate a killed process: handles are closed, and all written data is on disk at the next start."""
        self._before.clear()
        for files in self._files.values():
            for file in files.values():
                file.close()

    def wipe(self) -> None:
        """Simulate a disk replacement: all data is lost."""
        self._files = {}
        self._texts = {"": {}}
        self._before.clear()

    def power_loss(self, left_of: Callable[[int], int] = _nothing) -> dict[str, int]:
        """Simulate a power loss: keep flushed bytes, and as many of each file's unflushed bytes as `left_of` returns.

        Return the number of bytes lost per replica that lost any.
        """
        for (name, file), text in self._before.items():
            if text is None:
                self._texts[name].pop(file, None)
            else:
                self._texts[name][file] = text
        lost: dict[str, int] = {}
        for name in sorted(self._files):
            gone = sum(file.lose_power(left_of) for file in self._files[name].values())
            if gone:
                lost[name] = gone
        self.crash()
        self._power_losses += 1
        return lost

"""The simulated file system of a host, shared by all its processes, and the effects of a power loss.

Processes can read what other processes have written, even if the writer was killed. Synced data survives a power loss.
Of unsynced data, a random part survives:

a file's blocks     each in any version since the last sync, in a mix of sectors of versions, or unchanged
a file's size       any size since the last sync; a missing block before that size reads as zeros
names               any subset of the directory operations or, on a file system with a journal, all operations before
                    some point in time; a sync of the directory, or with a journal any sync, makes them durable

A failed sync leaves clean blocks that are not on the platter: the next sync succeeds and writes nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import PurePath
from random import Random
from typing import NamedTuple

from zabka.simulation.draws import draw_below
from zabka.simulation.filesystem.inode import BLOCK_BYTES, DirectoryNode, FileNode, Node, reached_from

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SYNC_US_MIN = 80
SYNC_US_MAX = 900
OPERATION_US = 3
EVERYWHERE = ""


class PowerLost(BaseException):
    """The host lost power during a file operation.  Simulated processes must not catch this exception."""


class _Fault(NamedTuple):
    operation: str
    number: int
    within: str


def trouble(number: int, path: object = None) -> OSError:
    """Return the OSError with that error number."""
    return OSError(number, os.strerror(number), None if path is None else str(path))


class Volume:
    """The file system of one host; it persists across processes and power losses."""

    def __init__(self, random: Random, now_us: Callable[[], int] = lambda: 0) -> None:
        self.random = self.latencies = random
        self.now_us = now_us
        self.has_journal = random.random() < 0.5
        """Whether directory operations become durable in order, and all of them at every sync (as on ext4 and XFS)."""
        self.slow_factor = 1
        self.room_bytes: int | None = None
        """Free space in bytes; None means unlimited."""
        self.operations = 0
        """Number of operations started so far."""
        self.locks: dict[Node, object] = {}
        """The holder of the lock on each locked file."""
        self.failed_syncs = 0
        self.platter_changes = 0
        """Number of times that the content of the platter can have changed so far."""
        self.faults_met = 0
        """Number of operations that failed because of an injected fault or a full disk."""
        self._root = DirectoryNode(0)
        self.changes = 0
        """Number of directory operations and power losses so far.

        A cached lookup is outdated if this number has increased since then.
        """
        self._changed: dict[int, DirectoryNode] = {}
        """Directories with unsynced operations."""
        self._faults: list[_Fault] = []
        self._broken: list[str] = []
        self._stall_us = 0
        self._power_until: int | None = None
        self._killed_with_power: list[Callable[[], None]] = []
        self._start()

    def _start(self) -> None:
        """Boot the host: generate a new boot id."""
        directory = self._root
        *parents, name = parts_of(BOOT_ID)
        for parent in parents:
            found = directory.entries.setdefault(parent, DirectoryNode(0))
            directory.platter[parent] = found
            assert isinstance(found, DirectoryNode)
            directory = found
        node = FileNode(0)
        node.write(0, b"%032x\n" % self.random.getrandbits(128))
        node.sync()
        directory.entries[name] = directory.platter[name] = node

    # -- faults ------------------------------------------------------------------------------------------------------

    def fail_next(self, operation: str, number: int = errno.EIO, within: str = EVERYWHERE) -> None:
        """Make the next operation of one kind fail with error number `number`.

        Kinds are read, write, sync, open, rename, unlink and others. Only operations on paths that contain `within`
        fail.
        """
        self._faults.append(_Fault(operation, number, within))

    def break_path(self, within: str) -> None:
        """Until `repair` is called, make every operation on paths that contain `within` fail with EIO."""
        self._broken.append(within)

    def repair(self) -> None:
        """Cancel all faults, and remove the limit on free space."""
        self._faults.clear()
        self._broken.clear()
        self._stall_us = 0
        self.room_bytes = None

    def stall_next_sync(self, for_us: int) -> None:
        """Make the next sync take `for_us` longer."""
        self._stall_us = for_us

    def lose_power_after(self, operations: int) -> None:
        """Lose power after this number of further operations: the next operation raises PowerLost.

        The caller must then call `lose_power`.
        """
        self._power_until = self.operations + operations

    def rot(self, path: PurePath, bit: int) -> None:
        """Flip a bit of a file on the platter. Raises OSError if the file does not exist."""
        node = self.find(path)
        if not isinstance(node, FileNode):
            raise trouble(errno.EISDIR, path)
        self.platter_changes += 1
        node.flip(bit)

    # -- processes and power -----------------------------------------------------------------------------------------

    def attach(self, kill: Callable[[], None]) -> None:
        """Register a function that kills a process when the host loses power."""
        self._killed_with_power.append(kill)

    def lose_power(self) -> None:
        """Kill all processes, lose the data that is not on the platter, and reboot the host."""
        for kill in self._killed_with_power:
            kill()
        self._killed_with_power.clear()
        self.locks.clear()
        self._power_until = None
        self.changes += 1
        self.platter_changes += 1
        self._changed.clear()
        directories, files = reached_from(self._root)
        for file in files:
            file.lose_power(self.random)
        self._lose_names(directories)
        directories, files = reached_from(self._root)
        for file in files:
            file.names = 0
        for directory in directories:
            for node in directory.entries.values():
                if isinstance(node, FileNode):
                    node.names += 1
        self._start()

    def _lose_names(self, directories: list[DirectoryNode]) -> None:
        random = self.random
        numbers = sorted({change.number for directory in directories for change in directory.unsynced})
        until = random.choice([0, *numbers])
        for directory in directories:
            unsynced = directory.unsynced
            if self.has_journal:
                directory.lose_power([change.number <= until for change in unsynced])
            else:
                directory.lose_power([random.random() < 0.5 for _ in unsynced])

    # -- operations of processes -------------------------------------------------------------------------------------

    def begin_operation(self, operation: str, path: str) -> int:
        """Start an operation and return its duration in µs.

        Raises OSError or PowerLost if a fault is injected for it.
        """
        if self._power_until is not None and self.operations >= self._power_until:
            raise PowerLost
        self.operations += 1
        for fault in self._faults:
            if fault.operation == operation and fault.within in path:
                self._faults.remove(fault)
                self.faults_met += 1
                raise trouble(fault.number, path)
        for within in self._broken:
            if within in path:
                self.faults_met += 1
                raise trouble(errno.EIO, path)
        return OPERATION_US * self.slow_factor

    def sync_us(self) -> int:
        """Return the duration of a sync in µs."""
        stall_us, self._stall_us = self._stall_us, 0
        return (SYNC_US_MIN + draw_below(self.latencies, SYNC_US_MAX - SYNC_US_MIN)) * self.slow_factor + stall_us

    def sync(self, node: Node) -> None:
        """Sync a file or a directory to the platter."""
        self.platter_changes += 1
        node.sync()
        if self.has_journal:
            for directory in self._changed.values():
                directory.sync()
            self._changed.clear()

    def fail_to_sync(self, node: FileNode) -> None:
        """Write only some blocks of a file to the platter, although all count as clean afterwards."""
        self.platter_changes += 1
        node.fail_to_sync(self.random)

    def find(self, path: PurePath) -> Node:
        """Return the file or directory with that path. Raises OSError."""
        node: Node = self._root
        for part in parts_of(path):
            if not isinstance(node, DirectoryNode):
                raise trouble(errno.ENOTDIR, path)
            if part not in node.entries:
                raise trouble(errno.ENOENT, path)
            node = node.entries[part]
        return node

    def parent(self, path: PurePath) -> DirectoryNode:
        """Return the parent directory of a path; the path itself need not exist. Raises OSError."""
        node = self.find(path.parent)
        if not isinstance(node, DirectoryNode):
            raise trouble(errno.ENOTDIR, path)
        return node

    def change(self, directory: DirectoryNode, means: dict[str, Node | None]) -> None:
        """Apply an operation to a directory: `means` maps names to their new nodes (None: removed)."""
        before = [directory.entries.get(name) for name in means]
        self.changes += 1
        self._changed[id(directory)] = directory
        directory.change(self.changes, means)
        directory.mtime_s = self.now_us() / 1e6
        for node in before:
            if isinstance(node, FileNode):
                node.names -= 1
                self.free(node)
        for after in means.values():
            if isinstance(after, FileNode):
                after.names += 1

    def allocate(self, size: int) -> int:
        """Reserve space for new blocks. Return how many of `size` bytes are available."""
        if self.room_bytes is None:
            return size
        taken = min(size, self.room_bytes // BLOCK_BYTES * BLOCK_BYTES)
        self.room_bytes -= taken
        return taken

    def free(self, node: FileNode) -> None:
        """Free the space of a file, if it has no name and is not open."""
        if not node.names and not node.opened and self.room_bytes is not None:
            self.room_bytes += len(node.blocks) * BLOCK_BYTES

    def files(self) -> Iterator[tuple[str, FileNode]]:
        """Yield every file that has a name, with its path.  The files of each directory are sorted by name."""
        waiting: list[tuple[str, DirectoryNode]] = [("", self._root)]
        while waiting:
            path, directory = waiting.pop()
            for name, node in sorted(directory.entries.items()):
                if isinstance(node, FileNode):
                    yield f"{path}/{name}", node
                else:
                    waiting.append((f"{path}/{name}", node))

    def platter_directory(self, path: PurePath) -> dict[str, bytes]:
        """Return a directory's files as they would be after a power loss from which no unsynced data survived."""
        directory = self._root
        for part in parts_of(path):
            node = directory.platter.get(part)
            if not isinstance(node, DirectoryNode):
                return {}
            directory = node
        return {name: node.on_platter() for name, node in directory.platter.items() if isinstance(node, FileNode)}


def parts_of(path: PurePath | str) -> list[str]:
    """Return the names in a path."""
    return [part for part in str(path).split("/") if part not in ("", ".")]

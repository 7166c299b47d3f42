"""A host's file system: what all its processes see, and what a power loss makes of it.

What a process wrote is there for whoever reads it afterwards, also when the process was killed.  What survives the
loss of power was synced, or is a part of the rest that a seed chooses:

a file's blocks     each in any version since the last sync, or torn at sectors, or as it was
a file's size       any that it had since then; where a block behind it is missing, zeros are read
names               of the operations on directories any subset or, on a file system with a journal, those before a
                    moment; a sync of the directory, and with a journal any sync, brings them to the platter

A sync that fails leaves clean blocks behind that are not on the platter: the next one succeeds, and writes nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import PurePath
from random import Random
from typing import NamedTuple

from zabka.simulation.filesystem.inode import BLOCK_BYTES, DirectoryNode, FileNode, Node, reached_from
from zabka.simulation.kernel.draws import draw_below

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SYNC_US_MIN = 80
SYNC_US_MAX = 900
OPERATION_US = 3
EVERYWHERE = ""


class PowerLost(BaseException):
    """The host lost its power in the midst of an operation; no code of its processes may catch it."""


class _Fault(NamedTuple):
    operation: str
    number: int
    within: str


def trouble(number: int, path: object = None) -> OSError:
    """What the system says."""
    return OSError(number, os.strerror(number), None if path is None else str(path))


class Volume:
    """The file system of one host; outlives its processes and its power."""

    def __init__(self, random: Random, now_us: Callable[[], int] = lambda: 0) -> None:
        self.random = random
        self.now_us = now_us
        self.has_journal = random.random() < 0.5
        """Whether the operations on directories reach the platter in order, and with every sync (ext4, XFS)."""
        self.slow_factor = 1
        self.room_bytes: int | None = None
        """How much more can be written; None: enough."""
        self.operations = 0
        """How many were begun so far."""
        self.locks: dict[Node, object] = {}
        """Who holds the lock of a file."""
        self.failed_syncs = 0
        self.faults_met = 0
        """How many operations ended with an error that was ordered, or for want of room."""
        self._root = DirectoryNode(0)
        self._changes = 0
        self._changed: dict[int, DirectoryNode] = {}
        """Directories with operations that are not synced, where there is a journal for them."""
        self._faults: list[_Fault] = []
        self._stall_us = 0
        self._power_until: int | None = None
        self._killed_with_power: list[Callable[[], None]] = []
        self._start()

    def _start(self) -> None:
        """The system comes up, with an id of its own."""
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
        """The next operation of that kind (read, write, sync, open, rename, unlink, …) on a path in which `within` is
        found ends with that error."""
        self._faults.append(_Fault(operation, number, within))

    def mend(self) -> None:
        """No fault that was ordered and not met yet comes any more, and there is room."""
        self._faults.clear()
        self._stall_us = 0
        self.room_bytes = None

    def stall_next_sync(self, for_us: int) -> None:
        """The next sync takes that much longer."""
        self._stall_us = for_us

    def lose_power_after(self, operations: int) -> None:
        """When so many more were carried out whole, the next one raises PowerLost; `lose_power` is to follow."""
        self._power_until = self.operations + operations

    def rot(self, path: PurePath, bit: int) -> None:
        """A bit of a file flips on the platter.  Raises OSError where there is no such file."""
        node = self.find(path)
        if not isinstance(node, FileNode):
            raise trouble(errno.EISDIR, path)
        node.flip(bit)

    # -- processes and power -----------------------------------------------------------------------------------------

    def attach(self, kill: Callable[[], None]) -> None:
        """A process has begun; it is to be killed when the power goes."""
        self._killed_with_power.append(kill)

    def lose_power(self) -> None:
        """All processes end, and what is not on the platter is gone; the host starts again."""
        for kill in self._killed_with_power:
            kill()
        self._killed_with_power.clear()
        self.locks.clear()
        self._power_until = None
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

    # -- what its processes do ---------------------------------------------------------------------------------------

    def begin_operation(self, operation: str, path: str) -> int:
        """An operation is about to be carried out; how long it takes, in µs.  Raises OSError and PowerLost as the
        faults have it."""
        if self._power_until is not None and self.operations >= self._power_until:
            raise PowerLost
        self.operations += 1
        for fault in self._faults:
            if fault.operation == operation and fault.within in path:
                self._faults.remove(fault)
                self.faults_met += 1
                raise trouble(fault.number, path)
        return OPERATION_US * self.slow_factor

    def sync_us(self) -> int:
        """How long the sync takes that is carried out now."""
        stall_us, self._stall_us = self._stall_us, 0
        return (SYNC_US_MIN + draw_below(self.random, SYNC_US_MAX - SYNC_US_MIN)) * self.slow_factor + stall_us

    def sync(self, node: Node) -> None:
        """A file or a directory is brought to the platter."""
        node.sync()
        if self.has_journal:
            for directory in self._changed.values():
                directory.sync()
            self._changed.clear()

    def find(self, path: PurePath) -> Node:
        """What has that name.  Raises OSError."""
        node: Node = self._root
        for part in parts_of(path):
            if not isinstance(node, DirectoryNode):
                raise trouble(errno.ENOTDIR, path)
            if part not in node.entries:
                raise trouble(errno.ENOENT, path)
            node = node.entries[part]
        return node

    def parent(self, path: PurePath) -> DirectoryNode:
        """The directory in which that name is, or would be.  Raises OSError."""
        node = self.find(path.parent)
        if not isinstance(node, DirectoryNode):
            raise trouble(errno.ENOTDIR, path)
        return node

    def change(self, directory: DirectoryNode, means: dict[str, Node | None]) -> None:
        """Carry out an operation on a directory."""
        before = [directory.entries.get(name) for name in means]
        self._changes += 1
        self._changed[id(directory)] = directory
        directory.change(self._changes, means)
        directory.mtime_s = self.now_us() / 1e6
        for node in before:
            if isinstance(node, FileNode):
                node.names -= 1
                self.free(node)
        for after in means.values():
            if isinstance(after, FileNode):
                after.names += 1

    def allocate(self, size: int) -> int:
        """Take room for new blocks: for how many bytes of `size` there is any."""
        if self.room_bytes is None:
            return size
        taken = min(size, self.room_bytes // BLOCK_BYTES * BLOCK_BYTES)
        self.room_bytes -= taken
        return taken

    def free(self, node: FileNode) -> None:
        """Give a file's room back, where it has no name any more and nobody has it open."""
        if not node.names and not node.opened and self.room_bytes is not None:
            self.room_bytes += len(node.blocks) * BLOCK_BYTES

    def files(self) -> Iterator[tuple[str, FileNode]]:
        """Every file that has a name, with its path, in the order of the names."""
        waiting: list[tuple[str, DirectoryNode]] = [("", self._root)]
        while waiting:
            path, directory = waiting.pop()
            for name, node in sorted(directory.entries.items()):
                if isinstance(node, FileNode):
                    yield f"{path}/{name}", node
                else:
                    waiting.append((f"{path}/{name}", node))

    def platter_files(self) -> Iterator[tuple[str, bytes]]:
        """Every file that would have a name if the power went now and nothing else reached the platter, with the bytes
        that would be in it."""
        waiting: list[tuple[str, DirectoryNode]] = [("", self._root)]
        while waiting:
            path, directory = waiting.pop()
            for name, node in sorted(directory.platter.items()):
                if isinstance(node, FileNode):
                    yield f"{path}/{name}", node.on_platter()
                else:
                    waiting.append((f"{path}/{name}", node))


def parts_of(path: PurePath | str) -> list[str]:
    """The names in a path."""
    return [part for part in str(path).split("/") if part not in ("", ".")]

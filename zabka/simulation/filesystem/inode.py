"""Files and directories of a simulated file system, as processes read them and as they are on the platter.

Content consists of blocks; a block that was never written is a hole and reads as zeros. The module stores all versions
of a block since the last sync, because the system may have written any of them to the platter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

BLOCK_BYTES = 4096
"""Block size: the unit in which file content is stored in memory and synced."""
SECTOR_BYTES = 512
"""Sector size: the unit that a disk writes atomically.

After a power loss, a block can consist of sectors of different versions.
"""
HOLE = bytes(BLOCK_BYTES)


class FileNode:
    """One file of a simulated file system."""

    def __init__(self, mtime_s: float) -> None:
        self.blocks: dict[int, bytes] = {}
        self.size = 0
        self.mtime_s = mtime_s
        self.names = 0
        """Number of directory entries in memory that refer to the file. `opened` is the number of open descriptors."""
        self.opened = 0
        self.platter: dict[int, bytes] = {}
        self.platter_size = 0
        self._versions: dict[int, list[bytes]] = {}
        """Versions of each block since the last sync, oldest first."""
        self._sizes: list[int] = []
        self._on_platter: bytes | None = None
        """Cached result of `on_platter`, or None after the platter has changed."""

    # -- content that processes read ---------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        end = min(position + size, self.size)
        parts: list[bytes] = []
        while position < end:
            number, offset = divmod(position, BLOCK_BYTES)
            part = self.blocks.get(number, HOLE)[offset : offset + end - position]
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def new_blocks(self, position: int, size: int) -> list[int]:
        """Return the numbers of the blocks that a write would allocate because they are holes, in order."""
        return [number for number in _touched(position, size) if number not in self.blocks]

    def write(self, position: int, data: bytes) -> None:
        """Write bytes at `position`."""
        end = position + len(data)
        for number in _touched(position, len(data)):
            start = number * BLOCK_BYTES
            before = self.blocks.get(number, HOLE)
            low, high = max(position, start), min(end, start + BLOCK_BYTES)
            self._put(number, before[: low - start] + data[low - position : high - position] + before[high - start :])
        if end > self.size:
            self._resize(end)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size`, or extend it with a hole."""
        if size < self.size:
            for number in [number for number in self.blocks if number * BLOCK_BYTES >= size]:
                self._put(number, HOLE)
                del self.blocks[number]
            number, offset = divmod(size, BLOCK_BYTES)
            if offset and number in self.blocks:
                self._put(number, self.blocks[number][:offset] + bytes(BLOCK_BYTES - offset))
        if size != self.size:
            self._resize(size)

    def next_data(self, position: int) -> int | None:
        """Return the next position at or after `position` that has data, or None if only a hole follows."""
        later = [number for number in self.blocks if (number + 1) * BLOCK_BYTES > position]
        return max(min(later) * BLOCK_BYTES, position) if later and position < self.size else None

    def next_hole(self, position: int) -> int:
        """Return the next position at or after `position` that is in a hole.  The end of the file counts as a hole."""
        number = position // BLOCK_BYTES
        while number in self.blocks:
            number += 1
        return min(max(number * BLOCK_BYTES, position), self.size)

    def _put(self, number: int, block: bytes) -> None:
        self.blocks[number] = block
        self._versions.setdefault(number, []).append(block)

    def _resize(self, size: int) -> None:
        self.size = size
        self._sizes.append(size)

    # -- content on the platter --------------------------------------------------------------------------------------

    def on_platter(self) -> bytes:
        """Return the content that is on the platter, without the zeros after the last block."""
        if self._on_platter is None:
            last = max(self.platter, default=-1)
            blocks = [self.platter.get(number, HOLE) for number in range(last + 1)]
            self._on_platter = b"".join(blocks)[: self.platter_size]
        return self._on_platter

    @property
    def is_dirty(self) -> bool:
        """Whether the file has changes that are not on the platter."""
        return bool(self._versions or self._sizes)

    def sync(self) -> None:
        """Write all unsynced blocks and the file size to the platter."""
        self._on_platter = None
        for number in self._versions:
            self._bring(number)
        self.platter_size = self.size
        self._versions.clear()
        self._sizes.clear()

    def fail_to_sync(self, random: Random) -> None:
        """Simulate a failed sync: only some blocks reach the platter, but all count as clean afterwards.

        The next sync writes the file size.
        """
        self._on_platter = None
        for number in self._versions:
            if random.random() < 0.5:
                self._bring(number)
        self._versions.clear()

    def _bring(self, number: int) -> None:
        if number in self.blocks:
            self.platter[number] = self.blocks[number]
        else:
            self.platter.pop(number, None)

    def evict(self, position: int, size: int) -> None:
        """Drop clean blocks from the page cache, so that the next read returns the content of the platter."""
        for number in range(position // BLOCK_BYTES, -(-(position + size) // BLOCK_BYTES)):
            if number in self.blocks and number not in self._versions and (number + 1) * BLOCK_BYTES <= self.size:
                self.blocks[number] = self.platter.get(number, HOLE)

    def flip(self, bit: int) -> None:
        """Flip a bit on the platter.  If the block is clean, later reads return the flipped bit."""
        self._on_platter = None
        number, inside = divmod(bit, 8 * BLOCK_BYTES)
        clean = number not in self._versions and self.blocks.get(number, HOLE) == self.platter.get(number, HOLE)
        block = bytearray(self.platter.get(number, HOLE))
        block[inside // 8] ^= 1 << inside % 8
        self.platter[number] = bytes(block)
        if clean and number in self.blocks:
            self.blocks[number] = self.platter[number]

    def lose_power(self, random: Random) -> None:
        """Simulate a power loss: each unsynced block keeps one version, or sectors of several versions, or is lost."""
        self._on_platter = None
        for number, versions in self._versions.items():
            self.platter[number] = _remains([self.platter.get(number, HOLE), *versions], random)
        self.platter_size = random.choice([self.platter_size, *self._sizes])
        self._versions.clear()
        self._sizes.clear()
        self.size = self.platter_size
        last, offset = divmod(self.size, BLOCK_BYTES)
        self.platter = {
            number: block for number, block in self.platter.items() if number < last or (number == last and offset)
        }
        if last in self.platter:
            # Bytes beyond the end of a truncated file read as zeros, even after the file grows again.
            self.platter[last] = self.platter[last][:offset] + bytes(BLOCK_BYTES - offset)
        self.blocks = dict(self.platter)
        self.opened = 0


def _touched(position: int, size: int) -> range:
    return range(position // BLOCK_BYTES, -(-(position + size) // BLOCK_BYTES))


def _remains(versions: list[bytes], random: Random) -> bytes:
    """Return a block's content after a power loss: one of its versions, or a mix of sectors of several versions."""
    if random.random() < 0.7:
        return random.choice(versions)
    return b"".join(
        random.choice(versions)[start : start + SECTOR_BYTES] for start in range(0, BLOCK_BYTES, SECTOR_BYTES)
    )


class NameChange(NamedTuple):
    """One atomic operation on a directory.

    `means` maps names to their nodes after the operation (None: no node). `number` is the sequence number of this
    operation among the operations on all directories.
    """

    number: int
    means: dict[str, Node | None]


class DirectoryNode:
    """One directory of a simulated file system."""

    def __init__(self, mtime_s: float) -> None:
        self.entries: dict[str, Node] = {}
        self.mtime_s = mtime_s
        self.platter: dict[str, Node] = {}
        self.unsynced: list[NameChange] = []

    def change(self, number: int, means: dict[str, Node | None]) -> None:
        """Apply an operation to the directory: `means` maps names to their new nodes (None: removed)."""
        _apply(self.entries, means)
        self.unsynced.append(NameChange(number, means))

    @property
    def is_dirty(self) -> bool:
        """Whether the directory has operations that are not on the platter."""
        return bool(self.unsynced)

    def sync(self) -> None:
        """Write all operations to the platter."""
        for operation in self.unsynced:
            _apply(self.platter, operation.means)
        self.unsynced.clear()

    def lose_power(self, keeps: Iterable[bool]) -> None:
        """Simulate a power loss.  `keeps` states for each unsynced operation, in order, whether it survives."""
        for operation, is_kept in zip(self.unsynced, keeps, strict=False):
            if is_kept:
                _apply(self.platter, operation.means)
        self.unsynced.clear()
        self.entries = dict(self.platter)


Node = FileNode | DirectoryNode


def _apply(entries: dict[str, Node], means: dict[str, Node | None]) -> None:
    for name, node in means.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def reached_from(root: DirectoryNode) -> tuple[list[DirectoryNode], list[FileNode]]:
    """Return all directories and files that have a name in memory or on the platter, each once."""
    directories: dict[int, DirectoryNode] = {id(root): root}
    files: dict[int, FileNode] = {}
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        meant = [node for operation in directory.unsynced for node in operation.means.values() if node is not None]
        for node in itertools.chain(directory.entries.values(), directory.platter.values(), meant):
            if isinstance(node, FileNode):
                files[id(node)] = node
            elif id(node) not in directories:
                directories[id(node)] = node
                waiting.append(node)
    return list(directories.values()), list(files.values())

"""Files and directories of a simulated file system, each as it is read and as it lies on the platter.

Content is kept in blocks; a block that was never written is a hole and reads as zeros.  What was written since the last
sync is kept in all its versions, for the system may have brought any of them to the platter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

BLOCK_BYTES = 4096
"""The unit in which a file is kept in memory and brought to the platter."""
SECTOR_BYTES = 512
"""The unit that a disk writes whole: a block may be torn at these borders."""
HOLE = bytes(BLOCK_BYTES)


class FileNode:
    """One file."""

    def __init__(self, mtime_s: float) -> None:
        self.blocks: dict[int, bytes] = {}
        self.size = 0
        self.mtime_s = mtime_s
        self.names = 0
        """How many names it has for those who read, and by how many descriptors it is open."""
        self.opened = 0
        self.platter: dict[int, bytes] = {}
        self.platter_size = 0
        self._versions: dict[int, list[bytes]] = {}
        """What was written since the last sync, by block, oldest first."""
        self._sizes: list[int] = []

    # -- as it is read -----------------------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from there."""
        end = min(position + size, self.size)
        parts: list[bytes] = []
        while position < end:
            number, offset = divmod(position, BLOCK_BYTES)
            part = self.blocks.get(number, HOLE)[offset : offset + end - position]
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def new_blocks(self, position: int, size: int) -> list[int]:
        """Of the blocks that a write would touch those that are holes, in order."""
        return [number for number in _touched(position, size) if number not in self.blocks]

    def write(self, position: int, data: bytes) -> None:
        """Put bytes there."""
        end = position + len(data)
        for number in _touched(position, len(data)):
            start = number * BLOCK_BYTES
            before = self.blocks.get(number, HOLE)
            low, high = max(position, start), min(end, start + BLOCK_BYTES)
            self._put(number, before[: low - start] + data[low - position : high - position] + before[high - start :])
        if end > self.size:
            self._resize(end)

    def truncate(self, size: int) -> None:
        """Cut it, or make it longer by a hole."""
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
        """Where data begins, from there on; None where only a hole is left."""
        later = [number for number in self.blocks if (number + 1) * BLOCK_BYTES > position]
        return max(min(later) * BLOCK_BYTES, position) if later and position < self.size else None

    def next_hole(self, position: int) -> int:
        """Where a hole begins, from there on; at the latest at its end."""
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

    # -- the platter -------------------------------------------------------------------------------------------------

    def on_platter(self) -> bytes:
        """What was synced; behind its last block there are zeros up to its size, which are left out."""
        last = max(self.platter, default=-1)
        blocks = [self.platter.get(number, HOLE) for number in range(last + 1)]
        return b"".join(blocks)[: self.platter_size]

    @property
    def is_dirty(self) -> bool:
        """Is there anything to sync?"""
        return bool(self._versions or self._sizes)

    def sync(self) -> None:
        """Everything that was written is on the platter."""
        for number in self._versions:
            self._bring(number)
        self.platter_size = self.size
        self._versions.clear()
        self._sizes.clear()

    def fail_to_sync(self, random: Random) -> None:
        """A sync that failed: some blocks were written and some were not, and all count as clean from now on.  What the
        size is waits for the next sync."""
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
        """The system forgets clean blocks; who reads them next gets what the platter has."""
        for number in range(position // BLOCK_BYTES, -(-(position + size) // BLOCK_BYTES)):
            if number in self.blocks and number not in self._versions and (number + 1) * BLOCK_BYTES <= self.size:
                self.blocks[number] = self.platter.get(number, HOLE)

    def flip(self, bit: int) -> None:
        """A bit rots on the platter, and is read so from now on where it was clean."""
        number, inside = divmod(bit, 8 * BLOCK_BYTES)
        clean = number not in self._versions and self.blocks.get(number, HOLE) == self.platter.get(number, HOLE)
        block = bytearray(self.platter.get(number, HOLE))
        block[inside // 8] ^= 1 << inside % 8
        self.platter[number] = bytes(block)
        if clean and number in self.blocks:
            self.blocks[number] = self.platter[number]

    def lose_power(self, random: Random) -> None:
        """Of what was not synced each block is on the platter in any version, torn at sectors, or not at all."""
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
            # Behind its end a file reads as zeros, also when it grows again.
            self.platter[last] = self.platter[last][:offset] + bytes(BLOCK_BYTES - offset)
        self.blocks = dict(self.platter)
        self.opened = 0


def _touched(position: int, size: int) -> range:
    return range(position // BLOCK_BYTES, -(-(position + size) // BLOCK_BYTES))


def _remains(versions: list[bytes], random: Random) -> bytes:
    """A block after a power loss: one of the versions, or sectors of several."""
    if random.random() < 0.7:
        return random.choice(versions)
    return b"".join(
        random.choice(versions)[start : start + SECTOR_BYTES] for start in range(0, BLOCK_BYTES, SECTOR_BYTES)
    )


class NameChange(NamedTuple):
    """One operation on a directory, which happens as a whole or not at all: what names mean behind it (None: nothing).
    `number` tells in which order the operations of all directories came."""

    number: int
    means: dict[str, Node | None]


class DirectoryNode:
    """One directory."""

    def __init__(self, mtime_s: float) -> None:
        self.entries: dict[str, Node] = {}
        self.mtime_s = mtime_s
        self.platter: dict[str, Node] = {}
        self.unsynced: list[NameChange] = []

    def change(self, number: int, means: dict[str, Node | None]) -> None:
        """Carry out an operation."""
        _apply(self.entries, means)
        self.unsynced.append(NameChange(number, means))

    @property
    def is_dirty(self) -> bool:
        """Is there anything to sync?"""
        return bool(self.unsynced)

    def sync(self) -> None:
        """What was done is on the platter."""
        for operation in self.unsynced:
            _apply(self.platter, operation.means)
        self.unsynced.clear()

    def lose_power(self, keeps: Iterable[bool]) -> None:
        """Of the operations that were not synced those are on the platter for which it says so."""
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
    """Everything that has a name, for those who read or on the platter; each once."""
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

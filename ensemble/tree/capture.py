"""Snapshot of a tree in use, taken block by block while the tree continues to change.

Nothing is copied at the beginning of a capture. A block's records are encoded in their turn, or earlier if the block is
about to change. A block that has not changed since the previous snapshot is omitted: its records are in that snapshot's
file.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import NamedTuple
from zlib import adler32

from zabka.ensemble.tree.blocks import Block, Blocks
from zabka.ensemble.tree.nodes import Nodes
from zabka.ensemble.tree.stored import AclTable, RecordParts


class Piece(NamedTuple):
    """Encoded records of a block, their total length and Adler32 checksum.

    The records are a list of parts, so that large ones are not copied.
    """

    number: int
    parts: list[bytes | memoryview]
    size: int
    checksum: int


class Capture:
    """A snapshot in progress.

    `pieces` contains the numbers of the blocks that it will encode; `order` contains those of all blocks, oldest first.

    `known` contains the blocks in the file of snapshot number `since`. `table` contains that file's ACLs; the ACLs of
    the blocks to encode are added to it at once. Each encoded block is passed to `sink`.
    """

    def __init__(
        self,
        nodes: Nodes,
        blocks: Blocks,
        known: Container[int],
        since: int,
        table: AclTable,
        sink: Callable[[Piece], None],
    ) -> None:
        self.order = [block.number for block in blocks]
        self.table = table
        self._nodes = nodes
        self._blocks = blocks
        self._sink = sink
        self._pending = {
            block.number: block for block in blocks if block.changed_in > since or block.number not in known
        }
        self.pieces = frozenset(self._pending)
        self._next: Iterator[Block] = iter(list(self._pending.values()))
        for block in self._pending.values():
            for acl in block.acls or ():
                table.index(acl)
        blocks.keeper = self._keep

    def step(self, count: int) -> None:
        """Encode the next `count` blocks."""
        for block in self._next:
            if self._pending.pop(block.number, None) is not None:
                self._make(block)
                count -= 1
                if not count:
                    return
        self.stop_capture()

    def stop_capture(self) -> None:
        """Stop the capture, because the remaining blocks are not needed."""
        self._pending.clear()
        if self._blocks.keeper == self._keep:
            self._blocks.keeper = None

    def _keep(self, block: Block) -> None:
        if self._pending.pop(block.number, None) is not None:
            self._make(block)

    def _make(self, block: Block) -> None:
        nodes, paths = self._nodes, list(block.paths)
        records = RecordParts(self.table)
        records.add(zip(paths, nodes.values_of(paths), strict=True), nodes.acls)
        if block.acls:
            block.forget_acls(nodes.acls)
        parts = records.take_parts()
        size, checksum = 0, adler32(b"")
        for part in parts:
            size += len(part)
            checksum = adler32(part, checksum)
        self._sink(Piece(block.number, parts, size, checksum))

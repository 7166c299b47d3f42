"""The znodes of a tree in blocks of those that were made one after another, and when each block last changed.

So a snapshot of a large tree costs what changed since the one before: a block in which nothing did is taken over from
that one's file.  Whoever is taking a snapshot (`ensemble.tree.capture`) hears of a block before it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat

from ensemble.records import ACL, OPEN_ACL

BLOCK_ZNODES = 170
"""As many keys as a dict of 256 slots holds."""


class Block:
    """Paths in the order in which their znodes were made.

    `changed_in` is the number of the first snapshot that shows the last change.  `acls` are the lists that its znodes
    have, or had, apart from the open one.
    """

    __slots__ = ("acls", "changed_in", "number", "paths")

    def __init__(self, number: int, changed_in: int, paths: Iterable[str] = ()) -> None:
        self.number = number
        self.changed_in = changed_in
        self.paths = dict.fromkeys(paths)
        self.acls: dict[Sequence[ACL], None] | None = None

    def note_acl(self, acl: Sequence[ACL]) -> None:
        """Note that one of the block's znodes has this ACL."""
        if self.acls is None:
            self.acls = {}
        self.acls[acl] = None


class Blocks:
    """A tree's blocks, oldest first: no znode comes before its parent.

    `turn` is the number of the next snapshot, which will show what changes now.  `keeper` is called with a block that
    is about to change for the first time in a turn.
    """

    __slots__ = ("__weakref__", "_by_number", "_newest", "keeper", "turn")

    def __init__(self) -> None:
        self.turn = 1
        self.keeper: Callable[[Block], None] | None = None
        self._by_number: dict[int, Block] = {}
        self._newest = self._open(0, ())

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._by_number.values())

    def _open(self, number: int, paths: Iterable[str]) -> Block:
        block = self._by_number[number] = Block(number, self.turn, paths)
        return block

    def change(self, block: Block) -> None:
        """To be called before a znode of the block changes, unless the block's `changed_in` is this turn already."""
        if self.keeper is not None:
            self.keeper(block)
        block.changed_in = self.turn

    def add(self, path: str) -> Block:
        """The block of a znode that is being made."""
        block = self._newest
        if len(block.paths) >= BLOCK_ZNODES:
            block = self._newest = self._open(block.number + 1, ())
        elif block.changed_in != self.turn:
            self.change(block)
        block.paths[path] = None
        return block

    def load(self, paths: Sequence[str], acls: Sequence[Sequence[ACL]]) -> Iterable[Block]:
        """The block of each of these znodes, which are the first ones."""
        self._by_number.clear()
        for number, at in enumerate(range(0, len(paths), BLOCK_ZNODES)):
            end = at + BLOCK_ZNODES
            block = self._newest = self._open(number, paths[at:end])
            theirs = acls[at:end]
            if theirs.count(OPEN_ACL) < len(theirs):
                block.acls = dict.fromkeys(acl for acl in theirs if acl is not OPEN_ACL)
        return chain.from_iterable(repeat(block, len(block.paths)) for block in self)

    def remove(self, path: str, block: Block) -> None:
        """A znode is about to go; an empty block goes too, unless further znodes will come into it."""
        if block.changed_in != self.turn:
            self.change(block)
        del block.paths[path]
        if not block.paths and block is not self._newest:
            del self._by_number[block.number]

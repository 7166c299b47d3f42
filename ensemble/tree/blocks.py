"""The znodes of a tree in blocks of those that were made one after another, and when each block last changed.

So a snapshot of a large tree costs what changed since the one before: a block in which nothing did is taken over from
that one's file.  Whoever is taking a snapshot (`zabka.ensemble.tree.capture`) hears of a block before it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from zabka.ensemble.records import ACL, OPEN_ACL

BLOCK_ZNODES = 170
"""As many keys as a dict of 256 slots holds."""
ACLS_MAX = 2 * BLOCK_ZNODES
"""So many lists are noted of a block until it is looked which of them its znodes still have."""


class Block:
    """Paths in the order in which their znodes were made: a dict while more are coming, then a list, which is smaller.

    `changed_in` is the number of the first snapshot that shows the last change.  `acls` are the lists that its znodes
    have, or had, apart from the open one.
    """

    __slots__ = ("acls", "changed_in", "number", "paths")

    def __init__(self, number: int, changed_in: int, paths: dict[str, None] | list[str]) -> None:
        self.number = number
        self.changed_in = changed_in
        self.paths = paths
        self.acls: dict[Sequence[ACL], None] | None = None

    def note_acl(self, acl: Sequence[ACL], lists: Mapping[str, Sequence[ACL]]) -> None:
        """Note that one of the block's znodes has this ACL, as the tree's `lists` say already."""
        if self.acls is None:
            self.acls = {}
        self.acls[acl] = None
        if len(self.acls) > ACLS_MAX:
            self.forget_acls(lists)

    def forget_acls(self, lists: Mapping[str, Sequence[ACL]]) -> None:
        """Forget those that no znode of the block has any more."""
        self.acls = dict.fromkeys(lists[path] for path in self.paths if path in lists)

    def remove(self, path: str) -> None:
        """A znode goes."""
        if isinstance(self.paths, dict):
            del self.paths[path]
        else:
            self.paths.remove(path)


class Blocks:
    """A tree's blocks, oldest first: no znode comes before its parent.

    `turn` is the number of the next snapshot, which will show what changes now, and `fresh` the numbers of the blocks
    in which something did.  `keeper` is called with a block that is about to change for the first time in a turn.
    """

    __slots__ = ("__weakref__", "_newest", "by_number", "fresh", "keeper", "newest_paths", "turn")

    def __init__(self) -> None:
        self.turn = 1
        self.keeper: Callable[[Block], None] | None = None
        self.by_number: dict[int, Block] = {}
        self.fresh: set[int] = set()
        self.newest_paths: dict[str, None] = {}
        self._newest = self._open(0)

    def __len__(self) -> int:
        return len(self.by_number)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.by_number.values())

    def _open(self, number: int) -> Block:
        self.newest_paths = {}
        block = self._newest = self.by_number[number] = Block(number, self.turn, self.newest_paths)
        self.fresh.add(number)
        return block

    def next_turn(self) -> int:
        """The number of a snapshot that is being taken; what changes from now on shows in the next one."""
        turn = self.turn
        self.turn += 1
        self.fresh.clear()
        return turn

    def change(self, number: int) -> None:
        """To be called before a znode of the block changes, unless the block is `fresh` already."""
        block = self.by_number[number]
        if self.keeper is not None:
            self.keeper(block)
        block.changed_in = self.turn
        self.fresh.add(number)

    def add(self, path: str) -> int:
        """The number of the block of a znode that is being made."""
        block = self._newest
        if len(self.newest_paths) >= BLOCK_ZNODES:
            block.paths = list(self.newest_paths)
            block = self._open(block.number + 1)
        elif block.number not in self.fresh:
            self.change(block.number)
        self.newest_paths[path] = None
        return block.number

    def load(self, paths: Sequence[str], acls: Sequence[Sequence[ACL]]) -> None:
        """These znodes are the first ones; that at index n is of block n // BLOCK_ZNODES."""
        self.by_number.clear()
        self.fresh.clear()
        block = self._newest
        for number, at in enumerate(range(0, len(paths), BLOCK_ZNODES)):
            end = at + BLOCK_ZNODES
            block = self.by_number[number] = Block(number, self.turn, list(paths[at:end]))
            self.fresh.add(number)
            theirs = acls[at:end]
            if theirs.count(OPEN_ACL) < len(theirs):
                block.acls = dict.fromkeys(acl for acl in theirs if acl is not OPEN_ACL)
        self._newest = block
        block.paths = self.newest_paths = dict.fromkeys(block.paths)

    def note_acl(self, number: int, acl: Sequence[ACL], lists: Mapping[str, Sequence[ACL]]) -> None:
        """A znode of the block has this ACL, which a snapshot of the block must know; `lists` has those of all."""
        self.by_number[number].note_acl(acl, lists)

    def remove(self, path: str, number: int) -> None:
        """A znode is about to go; an empty block goes too, unless further znodes will come into it."""
        if number not in self.fresh:
            self.change(number)
        block = self.by_number[number]
        block.remove(path)
        if not block.paths and block is not self._newest:
            del self.by_number[number]

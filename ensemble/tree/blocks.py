"""A tree's znodes, grouped into blocks in the order of creation; records when each block last changed.

The cost of a snapshot of a large tree then depends only on the changes since the previous snapshot: an unchanged block
is copied from the previous snapshot's file. A snapshot in progress (`zabka.ensemble.tree.capture`) is notified before a
block changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from zabka.ensemble.records import ACL, OPEN_ACL

BLOCK_ZNODES = 170
"""Maximum number of znodes in a block: as many as a dict with 256 slots can hold."""
ACLS_MAX = 2 * BLOCK_ZNODES
"""Number of ACLs recorded for a block. When it is exceeded, the unused ACLs are removed."""


class Block:
    """Paths of a block's znodes, oldest first: a dict while znodes are added, then a list, which is smaller.

    `changed_in` is the number of the first snapshot that contains the last change. `acls` contains the current and
    former ACLs of the block's znodes, except the open ACL.
    """

    __slots__ = ("acls", "changed_in", "number", "paths")

    def __init__(self, number: int, changed_in: int, paths: dict[str, None] | list[str]) -> None:
        self.number = number
        self.changed_in = changed_in
        self.paths = paths
        self.acls: dict[Sequence[ACL], None] | None = None

    def note_acl(self, acl: Sequence[ACL], lists: Mapping[str, Sequence[ACL]]) -> None:
        """Record that a znode of the block has this ACL, which the tree's `lists` contain already."""
        if self.acls is None:
            self.acls = {}
        self.acls[acl] = None
        if len(self.acls) > ACLS_MAX:
            self.forget_acls(lists)

    def forget_acls(self, lists: Mapping[str, Sequence[ACL]]) -> None:
        """Remove the ACLs that no znode of the block has any more."""
        self.acls = dict.fromkeys(lists[path] for path in self.paths if path in lists)

    def remove(self, path: str) -> None:
        """Remove a znode from the block."""
        if isinstance(self.paths, dict):
            del self.paths[path]
        else:
            self.paths.remove(path)


class Blocks:
    """A tree's blocks, oldest first; a znode comes after its parent.

    `turn` is the number of the next snapshot, which will contain the current changes; `fresh` contains the numbers of
    the blocks that changed since the previous snapshot. `keeper` is called with a block before its first change after a
    snapshot.
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
        """Begin a snapshot and return its number. Later changes belong to the next snapshot."""
        turn = self.turn
        self.turn += 1
        self.fresh.clear()
        return turn

    def change(self, number: int) -> None:
        """Record that a znode of the block is about to change; not needed if the block is already in `fresh`."""
        block = self.by_number[number]
        if self.keeper is not None:
            self.keeper(block)
        block.changed_in = self.turn
        self.fresh.add(number)

    def add(self, path: str) -> int:
        """Add a new znode; return the number of its block."""
        block = self._newest
        if len(self.newest_paths) >= BLOCK_ZNODES:
            block.paths = list(self.newest_paths)
            block = self._open(block.number + 1)
        elif block.number not in self.fresh:
            self.change(block.number)
        self.newest_paths[path] = None
        return block.number

    def load(self, paths: Sequence[str], acls: Sequence[Sequence[ACL]]) -> None:
        """Set the initial znodes; the znode at index n is in block n // BLOCK_ZNODES."""
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
        """Record that a znode of the block has this ACL, for snapshots; `lists` contains all ACLs of the tree."""
        self.by_number[number].note_acl(acl, lists)

    def remove(self, path: str, number: int) -> None:
        """Remove a znode that is about to be deleted.

        If its block is then empty, remove the block too, except the newest one, to which znodes are still added.
        """
        if number not in self.fresh:
            self.change(number)
        block = self.by_number[number]
        block.remove(path)
        if not block.paths and block is not self._newest:
            del self.by_number[number]

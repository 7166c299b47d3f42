"""The nodes of a living tree as those of a snapshot.

Taking a snapshot must not stall a peer with a million znodes.  So `SharedNodes` begins as the tree's own dict, and is
parted from it by whoever comes first: the tree, when it is about to change, or somebody who reads the snapshot.  Then
the dict is copied, and from there on the tree clones a znode before it changes it.  A snapshot that is used up
before the next change costs nothing, and neither does the beginning of a `capture`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import overload

from ensemble.records import ACL
from ensemble.tree.blocks import Blocks
from ensemble.tree.capture import Capture, Piece
from ensemble.tree.paths import ROOT, join
from ensemble.tree.stored import AclTable, records_of
from ensemble.tree.znode import Znode
from ensemble.tree_snapshot import NodeImage


class SharedNodes(Sequence[NodeImage]):
    """The nodes of a snapshot, depth first from the root: the tree's own, which it clones before changing them.

    `turn` is the snapshot's number among the tree's (`Blocks.turn`); `parted` says whether the dict is its own.
    """

    __slots__ = ("__weakref__", "_blocks", "_images", "_nodes", "parted", "turn")

    def __init__(self, nodes: dict[str, Znode], blocks: Blocks) -> None:
        self._nodes = nodes
        self._blocks = blocks
        self.turn = blocks.turn
        blocks.turn += 1
        self.parted = False
        self._images: list[NodeImage] | None = None

    def part(self) -> None:
        """No longer share the dict with the tree; the znodes still are, until the tree changes them."""
        if not self.parted:
            self._nodes = self._nodes.copy()
            self.parted = True

    @property
    def tree(self) -> Blocks:
        """What tells one tree's snapshots from another's."""
        return self._blocks

    def capture(self, known: Container[int], since: int, table: AclTable, sink: Callable[[Piece], None]) -> Capture:
        """Have the nodes come in pieces while the tree goes on, which must not have changed since the snapshot."""
        assert not self.parted, "the tree has changed since"
        return Capture(self._nodes, self._blocks, known, since, table, sink)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[NodeImage]:
        self.part()
        stack = [ROOT]
        while stack:
            path = stack.pop()
            node = self._nodes[path]
            yield node.image(path)
            if node.children:
                stack.extend(join(path, name) for name in reversed(node.children))

    @overload
    def __getitem__(self, index: int) -> NodeImage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeImage]: ...
    def __getitem__(self, index: int | slice) -> NodeImage | Sequence[NodeImage]:
        if self._images is None:
            self._images = list(self)
        return self._images[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def used_acls(self) -> Iterable[Sequence[ACL]]:
        """Every node's ACL."""
        self.part()
        return [node.acl for node in self._nodes.values()]

    def encoded(self, table: AclTable) -> Iterator[bytes | memoryview]:
        """The nodes' records, in parts; parents before children, since they are older."""
        self.part()
        return records_of(self._nodes.keys(), self._nodes.values(), table)

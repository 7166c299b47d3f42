"""Znodes of a snapshot that shares them with a tree in use.

Taking a snapshot must not stall a peer with a million znodes. So `SharedNodes` uses the tree's own table of znodes at
first. The table is copied when the tree is about to change, or when the snapshot is read, whichever comes first; the
bytes of its znodes never change. A snapshot that is used before the tree's next change needs no copy, and neither does
the beginning of a `capture`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import overload

from zabka.ensemble.records import ACL
from zabka.ensemble.tree.blocks import Blocks
from zabka.ensemble.tree.capture import Capture, Piece
from zabka.ensemble.tree.nodes import Nodes
from zabka.ensemble.tree.paths import ROOT
from zabka.ensemble.tree.stored import AclTable, records_of
from zabka.ensemble.tree_snapshot import NodeImage


class SharedNodes(Sequence[NodeImage]):
    """Znodes of a snapshot, depth first from the root. They are in the tree's own table until the tree changes.

    `turn` is the snapshot's number in its tree (`Blocks.turn`); `parted` is set when the snapshot has its own table.
    """

    __slots__ = ("__weakref__", "_blocks", "_images", "_nodes", "parted", "turn")

    def __init__(self, nodes: Nodes, blocks: Blocks) -> None:
        self._nodes = nodes
        self._blocks = blocks
        self.turn = blocks.next_turn()
        self.parted = False
        self._images: list[NodeImage] | None = None

    def part(self) -> None:
        """Copy the table, so that it is no longer shared with the tree."""
        if not self.parted:
            self._nodes = self._nodes.copy()
            self.parted = True

    @property
    def tree(self) -> Blocks:
        """Object that identifies the tree, to distinguish its snapshots from those of other trees."""
        return self._blocks

    def capture(self, known: Container[int], since: int, table: AclTable, sink: Callable[[Piece], None]) -> Capture:
        """Begin to capture the znodes block by block while the tree continues to change.

        The tree must not have changed since this object was created.
        """
        assert not self.parted, "the tree has changed since"
        return Capture(self._nodes, self._blocks, known, since, table, sink)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[NodeImage]:
        self.part()
        nodes, stack = self._nodes, [ROOT]
        while stack:
            path = stack.pop()
            yield nodes[path].image(path)
            stack.extend(child for child in reversed(list(nodes.children_of(path))) if child != ROOT)

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
        """Return the ACL of every znode."""
        self.part()
        return self._nodes.acls.values()

    def encoded(self, table: AclTable) -> Iterator[bytes | memoryview]:
        """Yield the znodes' records in parts; parents come before children, because they are older."""
        self.part()
        return records_of(self._nodes.pairs(), self._nodes.acls, table)

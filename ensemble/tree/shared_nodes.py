"""The nodes of a living tree as those of a snapshot.

Taking a snapshot must not stall a peer with a million znodes.  So `SharedNodes` begins as the tree's own dict, and is
parted from it by whoever comes first: the tree, when it is about to change, or somebody who reads the snapshot.  Then
the dict is copied, and from there on the tree clones a znode before it changes it.  A snapshot that is used up
before the next change (a forked child has its own memory) costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from ensemble.records import ACL
from ensemble.tree.paths import ROOT, join
from ensemble.tree.snapshot import NodeImage
from ensemble.tree.stored import StoredZnode, encode_record
from ensemble.tree.znode import Znode


class SharedNodes(Sequence[NodeImage]):
    """The nodes of a snapshot, depth first from the root: the tree's own, which it clones before changing them."""

    __slots__ = ("__weakref__", "_images", "_nodes", "_parted")

    def __init__(self, nodes: dict[str, Znode]) -> None:
        self._nodes = nodes
        self._parted = False
        self._images: list[NodeImage] | None = None

    def part(self) -> None:
        """No longer share the dict with the tree; the znodes still are, until the tree changes them."""
        if not self._parted:
            self._nodes = self._nodes.copy()
            self._parted = True

    def claim(self) -> None:
        """Keep the tree's own dict: whoever calls this knows that the tree will not change (a forked child)."""
        self._parted = True

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

    def encoded(self) -> Iterator[tuple[bytes, Sequence[ACL]]]:
        """Each node's record, with any ACL index, and its ACL; parents before children, since they are older."""
        self.part()
        for path, node in self._nodes.items():
            if node.__class__ is StoredZnode:
                yield node.stored, node.acl
            else:
                yield encode_record("" if path == ROOT else path, node), node.acl

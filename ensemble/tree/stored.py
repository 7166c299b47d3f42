"""Znodes in snapshot format: one record per znode, with the same counters as in the tree, but in another order.

A peer with a million znodes must restart before its clients' sessions expire, and most znodes do not change for a long
time. So loading a snapshot computes no digests: a znode's digest is computed when the znode changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from struct import Struct
from typing import overload

from zabka.ensemble.records import ACL, OPEN_ACL
from zabka.ensemble.tree.blocks import BLOCK_ZNODES, Blocks
from zabka.ensemble.tree.nodes import Nodes
from zabka.ensemble.tree.paths import ROOT
from zabka.ensemble.tree.znode import HEAD_BYTES, LISTED, NO_DATA, image_of
from zabka.ensemble.tree_snapshot import NodeImage

STAT = Struct(">qqqqqiiiqq")
"""Part of a record after path and data: ACL index, then the fields of StatPersisted."""
RECORD_BYTES = 8 + STAT.size
"""Size of a record without path and data."""
LARGE_BYTES = 16 * 1024
OPEN_ACL_INDEX = -1
"""ACL index of the open ACL (world:anyone with every permission), which is never in the table."""
_cut = Struct(">16s8s36s12xB").unpack_from
"""Split a znode's bytes into the counters before its pzxid, the pzxid, the counters after it, and its flags.

In a record, the pzxid comes last.
"""
_INT = Struct(">i")
_LONG = Struct(">q")
_OPEN_ACL_MARK = _LONG.pack(OPEN_ACL_INDEX)
_NOT_COMMON = LISTED | NO_DATA
_LENGTHS = [_INT.pack(length) for length in range(1024)]


class AclTable:
    """The distinct ACLs of a serialised tree, keyed by index (ReferenceCountedACLCache)."""

    def __init__(self, rows: dict[tuple[ACL, ...], int] | None = None) -> None:
        self.rows = {OPEN_ACL: OPEN_ACL_INDEX} if rows is None else rows
        self._acl: Sequence[ACL] = OPEN_ACL
        self._index = self.rows[OPEN_ACL]

    def index(self, acl: Sequence[ACL]) -> int:
        """Return the index of an ACL; add the ACL if it is new. In most cases it is the ACL of the previous znode."""
        if acl is not self._acl:
            self._acl = acl
            self._index = self.rows.setdefault(tuple(acl), len(self.rows))
        return self._index


class RecordParts:
    """Encoded records of znodes, in as few parts as possible without copying large data. The root's path is "/"."""

    def __init__(self, table: AclTable) -> None:
        self._table = table
        self._whole: list[bytes | memoryview] = []
        self._small: list[bytes | memoryview] = []

    def add(self, pairs: Iterable[tuple[str, bytes]], acls: Mapping[str, Sequence[ACL]]) -> None:
        """Add a record for each path and znode; `acls` contains the ACLs of znodes that do not have the open ACL.

        This runs in the event loop of a busy peer, for znodes that are not in the CPU cache. In the common case it
        creates only one tuple per znode.
        """
        extend, lengths, common, index = self._small.extend, _LENGTHS, len(_LENGTHS), self._table.index
        for path, value in pairs:
            name = path.encode("utf-8", "surrogatepass") if path != ROOT else b""
            size = len(value) - HEAD_BYTES
            before, pzxid, behind, flags = _cut(value)
            if not flags & _NOT_COMMON and size < common and len(name) < common:
                data = value[HEAD_BYTES:]
                extend((lengths[len(name)], name, lengths[size], data, _OPEN_ACL_MARK, before, behind, pzxid))
            else:
                mark = _LONG.pack(index(acls[path])) if flags & LISTED else _OPEN_ACL_MARK
                extend((_INT.pack(len(name)), name, _INT.pack(-1 if flags & NO_DATA else size)))
                self._add_data(value)
                extend((mark, before, behind, pzxid))

    def _add_data(self, value: bytes) -> None:
        if len(value) < LARGE_BYTES:
            self._small.append(value[HEAD_BYTES:])
        else:
            self._whole += (b"".join(self._small), memoryview(value)[HEAD_BYTES:])
            self._small.clear()

    def take_parts(self) -> list[bytes | memoryview]:
        """Remove and return all parts."""
        return [*self._whole, b"".join(self._small)]


def records_of(
    pairs: Iterable[tuple[str, bytes]], acls: Mapping[str, Sequence[ACL]], table: AclTable
) -> Iterator[bytes | memoryview]:
    """Yield the encoded records of any number of znodes, a few at a time."""
    left = iter(pairs)
    while some := list(islice(left, BLOCK_ZNODES)):
        records = RecordParts(table)
        records.add(some, acls)
        yield from records.take_parts()


class StoredNodes(Sequence[NodeImage]):
    """Znodes read from a snapshot: parallel lists of paths, znode bytes and ACLs, parents before children.

    `owned` contains the paths of znodes with an ephemeralOwner; `data_bytes` is the total length of the data.
    """

    __slots__ = ("acls", "data_bytes", "owned", "paths", "values")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.values: list[bytes] = []
        self.acls: list[Sequence[ACL]] = []
        self.owned: list[tuple[str, int]] = []
        self.data_bytes = 0

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[NodeImage]:
        return map(image_of, self.paths, self.values, self.acls)

    @overload
    def __getitem__(self, index: int) -> NodeImage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeImage]: ...
    def __getitem__(self, index: int | slice) -> NodeImage | Sequence[NodeImage]:
        if isinstance(index, slice):
            return list(self)[index]
        return image_of(self.paths[index], self.values[index], self.acls[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def used_acls(self) -> Iterable[Sequence[ACL]]:
        """Return the ACL of every znode."""
        return self.acls

    def encoded(self, table: AclTable) -> Iterator[bytes | memoryview]:
        """Yield the znodes' records in parts."""
        paths = [path or ROOT for path in self.paths]
        return records_of(zip(paths, self.values, strict=True), dict(zip(paths, self.acls, strict=True)), table)

    def take_into(self, blocks: Blocks) -> Nodes:
        """Convert the znodes to the form that a tree uses, and fill the tree's blocks.

        Raises ValueError if a parent is missing.
        """
        if not self.paths or self.paths[0]:
            raise ValueError("snapshot does not begin with its root")
        paths = ["/", *self.paths[1:]]
        blocks.load(paths, self.acls)
        below: dict[str, dict[str, bytes]] = {"": {}}
        siblings, parent = below[""], ""
        for path, value in zip(paths, self.values, strict=True):
            slash = path.rfind("/")
            if path[:slash] != parent:
                parent = path[:slash]
                siblings = below.setdefault(parent, {})
            siblings[path] = value
        nodes = Nodes(below)
        for parent, children in below.items():
            if parent and (parent == ROOT or parent not in nodes):
                raise ValueError(f"snapshot holds {next(iter(children))} without its parent")
        if self.acls.count(OPEN_ACL) < len(paths):
            nodes.acls.update((path, acl) for path, acl in zip(paths, self.acls, strict=True) if acl is not OPEN_ACL)
        return nodes

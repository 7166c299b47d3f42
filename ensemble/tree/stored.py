"""Znodes as a snapshot stores them, kept in that form until somebody asks for one.

A peer with a million znodes must be back before its clients give up, and most of what it holds nobody will touch for a
long time.  So loading a snapshot keeps each znode's record as it is, and decodes it at the first access.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from struct import Struct
from typing import Any, overload

from ensemble.records import ACL, OPEN_ACL
from ensemble.tree.blocks import BLOCK_ZNODES, Blocks
from ensemble.tree.paths import ROOT
from ensemble.tree.znode import Znode, digest_seed
from ensemble.tree_snapshot import NodeImage

STAT = Struct(">qqqqqiiiqq")
"""Behind path and data in a record: ACL index, then StatPersisted."""
LARGE_BYTES = 16 * 1024
OPEN_ACL_INDEX = -1
"""Stands for world:anyone with every permission; never in the table."""
_INDEX_FROM, _INDEX_TO = -STAT.size, -STAT.size + 8
_INT = Struct(">i")
_LONG = Struct(">q")
_LENGTHS = [_INT.pack(length) for length in range(1024)]


class StoredZnode(Znode):
    """A znode of which the record alone is known; any other attribute turns it into an ordinary one."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        self._decode()
        return getattr(self, name)

    def _decode(self) -> None:
        image = decode_record(self.stored, self.acl)
        self.__class__ = Znode  # type: ignore[assignment]
        self.stored = b""
        self.data = image.data
        self.children = None
        self.generation = 0
        seed = digest_seed(image.path or "/", image.data)
        self.born(image.czxid, image.ctime, image.ephemeral_owner, self.acl, seed)
        self.mzxid, self.mtime, self.pzxid = image.mzxid, image.mtime, image.pzxid
        self.version, self.cversion, self.aversion = image.version, image.cversion, image.aversion
        self.digest = 0
        self.redigest()


def decode_record(record: bytes, acl: Sequence[ACL]) -> NodeImage:
    """The znode in a record that was checked when it was read; `acl` is what its ACL index stands for."""
    path_end = 4 + _INT.unpack_from(record)[0]
    (size,) = _INT.unpack_from(record, path_end)
    data = record[path_end + 4 : path_end + 4 + size] if size >= 0 else None
    _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = STAT.unpack_from(
        record, len(record) - STAT.size
    )
    path = record[4:path_end].decode("utf-8", "surrogatepass")
    return NodeImage(
        path, data, acl, czxid, mzxid, ctime, mtime=mtime, version=version, cversion=cversion, aversion=aversion,
        ephemeral_owner=owner, pzxid=pzxid,
    )  # fmt: skip


def data_size_of(record: bytes) -> int:
    """The length of a record's data, 0 for none, without decoding the rest."""
    size: int = _INT.unpack_from(record, 4 + _INT.unpack_from(record)[0])[0]
    return max(size, 0)


class AclTable:
    """The ACL lists of a serialised tree by their indices there (ReferenceCountedACLCache)."""

    def __init__(self, rows: dict[tuple[ACL, ...], int] | None = None) -> None:
        self.rows = {OPEN_ACL: OPEN_ACL_INDEX} if rows is None else rows
        self._acl: Sequence[ACL] = OPEN_ACL
        self._index = self.rows[OPEN_ACL]

    def index(self, acl: Sequence[ACL]) -> int:
        """The index of a list, which is a new one where it has none yet; mostly it is that of the node before."""
        if acl is not self._acl:
            self._acl = acl
            self._index = self.rows.setdefault(tuple(acl), len(self.rows))
        return self._index


def with_acl_index(record: bytes, index: int) -> bytes:
    """A record as it is where its ACL has that index."""
    mark = _LONG.pack(index)
    return record if record[_INDEX_FROM:_INDEX_TO] == mark else record[:_INDEX_FROM] + mark + record[_INDEX_TO:]


class RecordParts:
    """The records of znodes, in as few parts as that takes without copying large data.  The root is "/", or empty."""

    def __init__(self, table: AclTable) -> None:
        self._table = table
        self._whole: list[bytes | memoryview] = []
        self._small: list[bytes | memoryview] = []

    def add(self, paths: Iterable[str], nodes: Iterable[Znode | NodeImage]) -> None:
        """Add a record for each.  It is done in the event loop of a busy peer, of znodes that no cache holds any more:
        the common case is one tuple."""
        extend, lengths, common, index, pack = self._small.extend, _LENGTHS, len(_LENGTHS), self._table.index, STAT.pack
        for path, node in zip(paths, nodes, strict=True):
            if node.__class__ is StoredZnode:
                self._add_stored(node.stored, index(node.acl))
                continue
            name = path.encode("utf-8", "surrogatepass") if path != ROOT else b""
            data = node.data
            stat = pack(
                index(node.acl), node.czxid, node.mzxid, node.ctime, node.mtime, node.version, node.cversion,
                node.aversion, node.ephemeral_owner, node.pzxid,
            )  # fmt: skip
            if data is not None and len(data) < common and len(name) < common:
                extend((lengths[len(name)], name, lengths[len(data)], data, stat))
            else:
                extend((_INT.pack(len(name)), name, _INT.pack(-1 if data is None else len(data))))
                self._add_data(data or b"")
                self._small.append(stat)

    def _add_stored(self, record: bytes, acl_index: int) -> None:
        view = memoryview(record)
        self._add_data(view[:_INDEX_FROM])
        self._small += (_LONG.pack(acl_index), view[_INDEX_TO:])

    def _add_data(self, data: bytes | memoryview) -> None:
        if len(data) < LARGE_BYTES:
            self._small.append(data)
        else:
            self._whole += (b"".join(self._small), data)
            self._small.clear()

    def take(self) -> list[bytes | memoryview]:
        """All of them."""
        return [*self._whole, b"".join(self._small)]


def records_of(
    paths: Iterable[str], nodes: Iterable[Znode | NodeImage], table: AclTable
) -> Iterator[bytes | memoryview]:
    """The records of any number of znodes, a few at a time."""
    those, these = iter(paths), iter(nodes)
    while some := list(islice(those, BLOCK_ZNODES)):
        records = RecordParts(table)
        records.add(some, islice(these, len(some)))
        yield from records.take()


class StoredNodes(Sequence[NodeImage]):
    """The nodes of a snapshot that was read: paths, records and ACLs side by side, parents before children.

    `owned` are the paths with an ephemeralOwner; `data_bytes` is the sum of the data's lengths.
    """

    __slots__ = ("acls", "data_bytes", "owned", "paths", "records")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.records: list[bytes] = []
        self.acls: list[Sequence[ACL]] = []
        self.owned: list[tuple[str, int]] = []
        self.data_bytes = 0

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[NodeImage]:
        return map(decode_record, self.records, self.acls)

    @overload
    def __getitem__(self, index: int) -> NodeImage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeImage]: ...
    def __getitem__(self, index: int | slice) -> NodeImage | Sequence[NodeImage]:
        if isinstance(index, slice):
            return list(self)[index]
        return decode_record(self.records[index], self.acls[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def used_acls(self) -> Iterable[Sequence[ACL]]:
        """Every node's ACL."""
        return self.acls

    def encoded(self, table: AclTable) -> Iterator[bytes]:
        """Each node's record."""
        return map(with_acl_index, self.records, map(table.index, self.acls))

    def znodes(self, blocks: Blocks) -> dict[str, Znode]:
        """A znode for each record, by its path in a tree.  ValueError where a parent is missing.

        A million pass here at start: what can be done without a line of Python for each is done so.
        """
        if not self.paths or self.paths[0]:
            raise ValueError("snapshot does not begin with its root")
        made = list(map(StoredZnode.__new__, repeat(StoredZnode, len(self.paths))))
        slots: Any = StoredZnode
        deque(map(slots.stored.__set__, made, self.records), maxlen=0)
        deque(map(slots.acl.__set__, made, self.acls), maxlen=0)
        paths = ["/", *self.paths[1:]]
        deque(map(slots.block.__set__, made, blocks.load(paths, self.acls)), maxlen=0)
        nodes: dict[str, Znode] = dict(zip(paths, made, strict=True))
        parent_path: str | None = None
        siblings: dict[str, None] = {}
        del paths[0]
        for path in paths:
            slash = path.rfind("/")
            if path[:slash] != parent_path:
                parent_path = path[:slash]
                parent = nodes.get(parent_path or "/")
                if parent is None:
                    raise ValueError(f"snapshot holds {path} without its parent")
                if parent.children is None:
                    parent.children = {}
                siblings = parent.children
            siblings[path[slash + 1 :]] = None
        return nodes

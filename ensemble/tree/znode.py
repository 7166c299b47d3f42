"""A znode as bytes: its counters, the parts of its digest, the number of its block, and its data.

A tree with millions of znodes consists of a few large dicts of strings and bytes: access to a znode touches three
places in memory, and the garbage collector does not traverse the znodes. The bytes of a znode never change: a change
creates new bytes, so that a snapshot can share them with the tree. `Znode` gives access to a znode's fields by name.

Source: org.apache.zookeeper.server.DataNode, StatPersisted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from struct import Struct
from typing import Any
from zlib import crc32

from zabka.ensemble.records import ACL, Stat
from zabka.ensemble.tree.create_modes import is_ephemeral
from zabka.ensemble.tree_snapshot import NodeImage

COUNTERS = Struct(">qqqqqiiiq")
"""Counters included in the digest: czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, ephemeralOwner."""
TAIL = Struct(">IIIB")
"""Fields between the counters and the data: seed (`digest_seed`), digest, the znode's block number, flags."""
HEAD = Struct(">qqqqqiiiqIIIB")
COUNTERS_BYTES = COUNTERS.size
HEAD_BYTES = HEAD.size
FLAGS_AT = HEAD_BYTES - 1
NO_DATA = 1
"""Flag: the data is null, which differs from empty data."""
LISTED = 2
"""Flag: the ACL is not the open ACL; it is in the separate table `Nodes.acls`."""
UNSEALED = 4
"""Flag: seed and digest are not computed yet, because the znode is from a snapshot."""
UNCOUNTED = 8
"""Flag: the tree's digest does not include the znode; the znode's own digest is 0."""
ODD = UNSEALED | UNCOUNTED
"""Flags of znodes whose seed and digest fields are not valid."""

_NOT_IN_DIGEST = -1
_unpack_head, _counters_of = HEAD.unpack_from, COUNTERS.unpack_from
_pack_digested, _pack_tail = COUNTERS.pack, TAIL.pack


def next_version(version: int) -> int:
    """Return the next version number.

    Versions are signed 32-bit counters that skip -1, which means "any version" (ZOOKEEPER-4743).
    """
    if version == 0x7FFFFFFF:
        return -0x80000000
    return 0 if version == -2 else version + 1


def digest_seed(path: str, data: bytes | None) -> int:
    """Return the seed of a znode's digest, which is computed from its path and data.

    Return -1 for znodes under /zookeeper, which are excluded from digests.
    """
    if path[:11] == "/zookeeper/":  # This runs at every change, and a slice is faster than a call.
        return _NOT_IN_DIGEST
    if path == "/":
        seed = 0
    else:
        seed = crc32(path.encode() if path.isascii() else path.encode("utf-8", "surrogatepass"))
    return crc32(data, seed) if data else seed


def data_of(value: bytes) -> bytes | None:
    """Return a znode's data."""
    return value[HEAD_BYTES:] if not value[FLAGS_AT] & NO_DATA else None


def block_of(value: bytes) -> int:
    """Return the number of a znode's block."""
    block: int = _unpack_head(value)[11]
    return block


def owner_of(value: bytes) -> int:
    """Return a znode's ephemeralOwner."""
    owner: int = _unpack_head(value)[8]
    return owner


def sealed(path: str, value: bytes) -> tuple[int, int]:
    """Compute a znode's seed (-1 if excluded from digests) and its digest (DigestCalculator, digest version 2)."""
    head = _unpack_head(value)
    seed = head[9]
    if head[12] & UNSEALED:
        seed = digest_seed(path, data_of(value))
        return seed, crc32(value[:COUNTERS_BYTES], seed) if seed >= 0 else 0
    return (_NOT_IN_DIGEST, 0) if head[12] & UNCOUNTED else (seed, head[10])


def made(path: str, counters: Sequence[int], data: bytes | None, *, block: int, listed: bool) -> bytes:
    """Return the bytes of a znode with these counters, which are in the order of COUNTERS."""
    packed = _pack_digested(*counters)
    seed = digest_seed(path, data)
    flags = (LISTED if listed else 0) | (NO_DATA if data is None else 0)
    return b"".join((packed, tail_of(seed, packed, block, flags)[0], data or b""))


def tail_of(seed: int, counters: bytes, block: int, flags: int) -> tuple[bytes, int]:
    """Return the encoded TAIL for a znode's counters, and the znode's digest; `seed` is from `digest_seed`."""
    if seed < 0:
        return _pack_tail(0, 0, block, flags | UNCOUNTED), 0
    digest = crc32(counters, seed)
    return _pack_tail(seed, digest, block, flags), digest


def restated(
    path: str, value: bytes, *, pzxid: int | None = None, cversion: int | None = None, aversion: int | None = None,
    listed: bool | None = None,
) -> tuple[bytes, int]:  # fmt: skip
    """Change some counters of a znode; return its new bytes and the change of its digest."""
    czxid, mzxid, pzxid_was, ctime, mtime, version, cversion_was, aversion_was, owner, _, _, block, flags = (
        _unpack_head(value)
    )
    seed, before = sealed(path, value)
    packed = _pack_digested(
        czxid, mzxid, pzxid_was if pzxid is None else pzxid, ctime, mtime, version,
        cversion_was if cversion is None else cversion, aversion_was if aversion is None else aversion, owner,
    )  # fmt: skip
    flags &= ~UNSEALED
    if listed is not None:
        flags = flags | LISTED if listed else flags & ~LISTED
    tail, after = tail_of(seed, packed, block, flags)
    return b"".join((packed, tail, value[HEAD_BYTES:])), after - before


def rewritten(value: bytes, data: bytes, mzxid: int | None = None, mtime: int = 0) -> bytes:
    """Return the bytes of a znode with other data; the znode is one that digests exclude.

    If `mzxid` is given, the znode looks as if that transaction had set the data, and its version is -1.
    """
    flags = value[FLAGS_AT] & ~NO_DATA
    counters = value[:COUNTERS_BYTES]
    if mzxid is not None:
        czxid, _, pzxid, ctime, _, _, *others = COUNTERS.unpack(counters)
        counters = _pack_digested(czxid, mzxid, pzxid, ctime, mtime, -1, *others)
    return b"".join((counters, value[COUNTERS_BYTES:FLAGS_AT], bytes((flags,)), data))


def stat_fields(value: bytes, child_count: int) -> tuple[int, ...]:
    """Return the fields of a znode's Stat, as clients see them (DataNode.copyStat).

    `cversion` counts creates and deletes of children. Most znodes have no children and no owner, so that their counters
    need no conversion.
    """
    czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner = _counters_of(value)
    if child_count or cversion or owner:
        cversion = ((cversion * 2 - child_count + 0x80000000) & 0xFFFFFFFF) - 0x80000000
        owner = owner if is_ephemeral(owner) else 0
    size = len(value) - HEAD_BYTES
    return czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, size, child_count, pzxid


def _counter(form: str, offset: int) -> Any:
    unpack = Struct(form).unpack_from
    return property(lambda node: unpack(node.value, offset)[0])


class Znode:
    """View of a znode as it was at the time of the access."""

    __slots__ = ("_below", "acl", "path", "value")

    czxid: int = _counter(">q", 0)
    mzxid: int = _counter(">q", 8)
    pzxid: int = _counter(">q", 16)
    ctime: int = _counter(">q", 24)
    mtime: int = _counter(">q", 32)
    version: int = _counter(">i", 40)
    cversion: int = _counter(">i", 44)
    aversion: int = _counter(">i", 48)
    ephemeral_owner: int = _counter(">q", 52)
    block: int = _counter(">I", 68)

    def __init__(self, path: str, value: bytes, acl: Sequence[ACL], below: Collection[str]) -> None:
        self.path = path
        self.value = value
        self.acl = acl
        self._below = below

    @property
    def data(self) -> bytes | None:
        """The znode's data."""
        return data_of(self.value)

    @property
    def data_length(self) -> int:
        """Length of the znode's data; 0 if there is none."""
        return len(self.value) - HEAD_BYTES

    @property
    def digest(self) -> int:
        """The znode's digest, which is part of the tree's digest."""
        return sealed(self.path, self.value)[1]

    @property
    def child_count(self) -> int:
        """Number of the znode's children."""
        return len(self._below) - (self.path == "/" and "/" in self._below)

    @property
    def children(self) -> list[str]:
        """Names of the znode's children, oldest first."""
        if self.path == "/":
            return [path[1:] for path in self._below if path != "/"]
        begin = len(self.path) + 1
        return [path[begin:] for path in self._below]

    def image(self, path: str) -> NodeImage:
        """Return the znode in its snapshot form."""
        return image_of(path, self.value, self.acl)

    def stat(self) -> Stat:
        """Return the Stat that clients see."""
        return Stat._make(stat_fields(self.value, self.child_count))


def image_of(path: str, value: bytes, acl: Sequence[ACL]) -> NodeImage:
    """Return a znode in its snapshot form, where the root's path is empty."""
    czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner = _counters_of(value)
    return NodeImage(
        "" if path == "/" else path, data_of(value), acl, czxid, mzxid, ctime, mtime=mtime, version=version,
        cversion=cversion, aversion=aversion, ephemeral_owner=owner, pzxid=pzxid,
    )  # fmt: skip


def value_of(image: NodeImage, *, block: int, listed: bool) -> bytes:
    """Return the bytes of a znode, given its snapshot form."""
    counters = (
        image.czxid, image.mzxid, image.pzxid, image.ctime, image.mtime, image.version, image.cversion,
        image.aversion, image.ephemeral_owner,
    )  # fmt: skip
    return made(image.path or "/", counters, image.data, block=block, listed=listed)

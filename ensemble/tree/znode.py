"""One znode: its data, its children's names and the counters behind its Stat (DataNode, StatPersisted).

`NodeState` is what a znode and an outstanding change of one have in common, and what the tree's digest covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from zlib import crc32

from ensemble.records import ACL, OPEN_ACL, Stat, pack_stat
from ensemble.tree.blocks import Block
from ensemble.tree.create_modes import is_ephemeral
from ensemble.tree_snapshot import NodeImage

_NOT_IN_DIGEST = -1
_pack_digested = Struct(">qqqqqiiiq").pack
_new = object.__new__


def next_version(version: int) -> int:
    """The version after this one: a signed 32-bit counter that never becomes -1, which means "any" (ZOOKEEPER-4743)."""
    if version == 0x7FFFFFFF:
        return -0x80000000
    return 0 if version == -2 else version + 1


def digest_seed(path: str, data: bytes | None) -> int:
    """The part of a node's digest that its path and data make; nodes under /zookeeper are left out of digests."""
    if path[:11] == "/zookeeper/":  # at every change: a slice is quicker than a call
        return _NOT_IN_DIGEST
    if path == "/":
        seed = 0
    else:
        seed = crc32(path.encode() if path.isascii() else path.encode("utf-8", "surrogatepass"))
    return crc32(data, seed) if data else seed


class NodeState:
    """A znode's counters.  `cversion` counts creates below it only, as it is persisted; Stat shows another number."""

    __slots__ = (
        "acl", "aversion", "ctime", "cversion", "czxid", "digest", "ephemeral_owner", "mtime", "mzxid", "pzxid",
        "seed", "version",
    )  # fmt: skip

    acl: Sequence[ACL]
    aversion: int
    ctime: int
    cversion: int
    czxid: int
    digest: int
    ephemeral_owner: int
    mtime: int
    mzxid: int
    pzxid: int
    seed: int
    version: int

    def born(self, zxid: int, time_ms: int, owner: int, acl: Sequence[ACL], seed: int) -> None:
        """Set the counters of a node that was just created."""
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.cversion = self.aversion = 0
        self.ephemeral_owner = owner
        self.acl = acl
        self.seed = seed

    def appear(self, zxid: int, time_ms: int, owner: int, acl: Sequence[ACL], seed: int) -> int:
        """`born` and the first digest, which it returns, in one step."""
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.cversion = self.aversion = 0
        self.ephemeral_owner = owner
        self.acl = acl
        self.seed = seed
        self.digest = digest = (
            crc32(_pack_digested(zxid, zxid, zxid, time_ms, time_ms, 0, 0, 0, owner), seed) if seed >= 0 else 0
        )
        return digest

    def written(self, version: int, zxid: int, time_ms: int, seed: int) -> int:
        """The counters and the digest after other data was set, in one step; returns what `redigest` does."""
        self.version = version
        self.mzxid = zxid
        self.mtime = time_ms
        self.seed = seed
        if seed < 0:
            return self.redigest()
        before = self.digest
        after = self.digest = crc32(
            _pack_digested(
                self.czxid, zxid, self.pzxid, self.ctime, time_ms,
                version, self.cversion, self.aversion, self.ephemeral_owner,
            ),
            seed,
        )  # fmt: skip
        return after - before

    def copy_state(self, other: NodeState) -> None:
        """Take over another's counters."""
        self.acl = other.acl
        self.aversion = other.aversion
        self.ctime = other.ctime
        self.cversion = other.cversion
        self.czxid = other.czxid
        self.digest = other.digest
        self.ephemeral_owner = other.ephemeral_owner
        self.mtime = other.mtime
        self.mzxid = other.mzxid
        self.pzxid = other.pzxid
        self.seed = other.seed
        self.version = other.version

    def redigest(self) -> int:
        """Recompute `digest` after a change and say by how much it differs (DigestCalculator, digest version 2)."""
        if self.seed < 0:
            self.digest = 0
            return 0
        before = self.digest
        after = self.digest = crc32(
            _pack_digested(
                self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime,
                self.version, self.cversion, self.aversion, self.ephemeral_owner,
            ),
            self.seed,
        )  # fmt: skip
        return after - before


class Znode(NodeState):
    """A znode in the tree.  `generation` tells whether a snapshot still shares it: then it is cloned before a change.

    `block` is where it lies among the tree's `Blocks`; `stored` is for `ensemble.tree.stored` alone.

    `children` is a dict for its order of insertion; None while there are none, since most nodes are leaves.
    """

    __slots__ = ("block", "children", "data", "generation", "stored")

    block: Block
    children: dict[str, None] | None
    data: bytes | None
    generation: int
    stored: bytes

    def __init__(self, data: bytes | None, generation: int) -> None:
        self.data = data
        self.children = None
        self.generation = generation
        self.digest = 0

    @staticmethod
    def leaf(
        data: bytes | None, generation: int, zxid: int, time_ms: int, owner: int, acl: Sequence[ACL], seed: int,
        digest: int | None,
    ) -> Znode:  # fmt: skip
        """A node that was just created, in one step: the constructor, `born`, and its digest where nobody knows it."""
        node: Znode = _new(Znode)
        node.data = data
        node.children = None
        node.generation = generation
        node.czxid = node.mzxid = node.pzxid = zxid
        node.ctime = node.mtime = time_ms
        node.version = node.cversion = node.aversion = 0
        node.ephemeral_owner = owner
        node.acl = acl
        node.seed = seed
        if digest is None:
            packed = _pack_digested(zxid, zxid, zxid, time_ms, time_ms, 0, 0, 0, owner)
            digest = crc32(packed, seed) if seed >= 0 else 0
        node.digest = digest
        return node

    def set_acl(self, acl: Sequence[ACL]) -> None:
        """Have this list, which a snapshot of the block must know."""
        self.acl = acl
        if acl is not OPEN_ACL:
            self.block.note_acl(acl)

    def take_digest(self, digest: int) -> int:
        """Take over the digest of this very state, and say by how much it differs from before."""
        change = digest - self.digest
        self.digest = digest
        return change

    def clone(self, generation: int) -> Znode:
        """A copy of its own; the data is shared, being immutable."""
        twin = Znode(self.data, generation)
        twin.copy_state(self)
        twin.block = self.block
        if self.children is not None:
            twin.children = self.children.copy()
        return twin

    @classmethod
    def from_image(cls, image: NodeImage, acl: Sequence[ACL], generation: int) -> Znode:
        """Rebuild a node from a snapshot; its children announce themselves."""
        node = cls(image.data, generation)
        node.born(image.czxid, image.ctime, image.ephemeral_owner, acl, digest_seed(image.path or "/", image.data))
        node.mzxid, node.mtime, node.pzxid = image.mzxid, image.mtime, image.pzxid
        node.version, node.cversion, node.aversion = image.version, image.cversion, image.aversion
        return node

    def image(self, path: str) -> NodeImage:
        """This node as a snapshot holds it."""
        return NodeImage(
            "" if path == "/" else path, self.data, self.acl, self.czxid, self.mzxid, self.ctime, mtime=self.mtime,
            version=self.version, cversion=self.cversion, aversion=self.aversion,
            ephemeral_owner=self.ephemeral_owner, pzxid=self.pzxid,
        )  # fmt: skip

    def stat(self) -> Stat:
        """What clients see (DataNode.copyStat): `cversion` counts creates and deletes of children."""
        count = len(self.children) if self.children else 0
        owner = self.ephemeral_owner
        return Stat(
            self.czxid, self.mzxid, self.ctime, self.mtime, self.version,
            ((self.cversion * 2 - count + 0x80000000) & 0xFFFFFFFF) - 0x80000000,
            self.aversion, owner if is_ephemeral(owner) else 0, len(self.data) if self.data else 0, count, self.pzxid,
        )  # fmt: skip

    def packed_stat(self) -> bytes:
        """`stat` in its wire form; most nodes are plain leaves, whose numbers need no second thought."""
        if self.children or self.cversion or self.ephemeral_owner:
            return pack_stat(*self.stat())
        data = self.data
        return pack_stat(
            self.czxid, self.mzxid, self.ctime, self.mtime, self.version, 0, self.aversion, 0,
            len(data) if data else 0, 0, self.pzxid,
        )  # fmt: skip

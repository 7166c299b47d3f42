"""One znode: its data, its children's names and the counters behind its Stat (DataNode, StatPersisted).

`NodeState` is what a znode and an outstanding change of one have in common, and what the tree's digest covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from zlib import crc32

from ensemble.records import ACL, Stat
from ensemble.tree.snapshot import NodeImage

CONTAINER_OWNER = -(1 << 63)
"""The ephemeralOwner of a container node (EphemeralType.CONTAINER_EPHEMERAL_OWNER)."""
_TTL_MARK = 0xFF0000
_NOT_IN_DIGEST = -1
_DIGESTED = Struct(">qqqqqiiiq")


def ttl_owner(ttl_ms: int) -> int:
    """The ephemeralOwner of a node with a time to live (EphemeralType.TTL), as a signed 64-bit number."""
    return ((_TTL_MARK << 40) | ttl_ms) - (1 << 64)


def is_ephemeral(owner: int) -> bool:
    """Whether this ephemeralOwner is a session, not the mark of a container or of a time to live.

    A session of server 255 starts with the same byte as a time to live; it has the clock in the two bytes after it.
    """
    return owner != 0 and owner != CONTAINER_OWNER and (owner >> 40) & 0xFFFFFF != _TTL_MARK


def next_version(version: int) -> int:
    """The version after this one: a signed 32-bit counter that never becomes -1, which means "any" (ZOOKEEPER-4743)."""
    if version == 0x7FFFFFFF:
        return -0x80000000
    return 0 if version == -2 else version + 1


def digest_seed(path: str, data: bytes | None) -> int:
    """The part of a node's digest that its path and data make; nodes under /zookeeper are left out of digests."""
    if path.startswith("/zookeeper/"):
        return _NOT_IN_DIGEST
    seed = crc32(path.encode("utf-8", "surrogatepass")) if path != "/" else 0
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
            _DIGESTED.pack(
                self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime,
                self.version, self.cversion, self.aversion, self.ephemeral_owner,
            ),
            self.seed,
        )  # fmt: skip
        return after - before


class Znode(NodeState):
    """A znode in the tree.  `generation` tells whether a snapshot still shares it: then it is cloned before a change.

    `children` is a dict for its order of insertion; None while there are none, since most nodes are leaves.
    """

    __slots__ = ("children", "data", "generation")

    children: dict[str, None] | None
    data: bytes | None
    generation: int

    def __init__(self, data: bytes | None, generation: int) -> None:
        self.data = data
        self.children = None
        self.generation = generation
        self.digest = 0

    def clone(self, generation: int) -> Znode:
        """A copy of its own; the data is shared, being immutable."""
        twin = Znode(self.data, generation)
        twin.copy_state(self)
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
            "" if path == "/" else path, self.data, self.acl, self.czxid, self.mzxid, self.ctime, self.mtime,
            self.version, self.cversion, self.aversion, self.ephemeral_owner, self.pzxid,
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

"""Counters of a znode, decoded so that a leader can add its proposed changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

from zabka.ensemble.records import ACL, OPEN_ACL
from zabka.ensemble.tree.znode import COUNTERS, HEAD, LISTED, ODD, sealed

_unpack_head = HEAD.unpack_from
_pack_digested = COUNTERS.pack


class NodeState:
    """Counters of one znode, which can be changed.

    `cversion` counts only creates of children, as in the stored form; the Stat also counts deletes. `packed` contains
    the counters for which the current digest was computed, unless the digest was 0 from the start.
    """

    __slots__ = (
        "acl", "aversion", "ctime", "cversion", "czxid", "digest", "ephemeral_owner", "mtime", "mzxid", "packed",
        "pzxid", "seed", "version",
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
    packed: bytes
    pzxid: int
    seed: int
    version: int

    def born(self, zxid: int, time_ms: int, owner: int, acl: Sequence[ACL], seed: int) -> None:
        """Set the counters of a znode that the transaction with this zxid creates."""
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.cversion = self.aversion = 0
        self.ephemeral_owner = owner
        self.acl = acl
        self.seed = seed

    def appear(self, zxid: int, time_ms: int, owner: int, acl: Sequence[ACL], seed: int) -> int:
        """Call `born` and compute the first digest in one step; return the digest."""
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.cversion = self.aversion = 0
        self.ephemeral_owner = owner
        self.acl = acl
        self.seed = seed
        packed = self.packed = _pack_digested(zxid, zxid, zxid, time_ms, time_ms, 0, 0, 0, owner)
        digest = self.digest = crc32(packed, seed) if seed >= 0 else 0
        return digest

    def written(self, version: int, zxid: int, time_ms: int, seed: int) -> int:
        """Update the counters and the digest after a change of the data; return the change of the digest."""
        self.version = version
        self.mzxid = zxid
        self.mtime = time_ms
        self.seed = seed
        if seed < 0:
            return self.redigest()
        before = self.digest
        packed = self.packed = _pack_digested(
            self.czxid, zxid, self.pzxid, self.ctime, time_ms,
            version, self.cversion, self.aversion, self.ephemeral_owner,
        )  # fmt: skip
        after = self.digest = crc32(packed, seed)
        return after - before

    def read(self, path: str, value: bytes, acls: Mapping[str, Sequence[ACL]]) -> None:
        """Set the counters from a znode's bytes. `acls` contains its ACL if it is not the open ACL."""
        (
            self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime, self.version, self.cversion, self.aversion,
            self.ephemeral_owner, self.seed, self.digest, _, flags,
        ) = _unpack_head(value)  # fmt: skip
        self.acl = acls[path] if flags & LISTED else OPEN_ACL
        if flags & ODD:
            self.seed, self.digest = sealed(path, value)

    def copy_state(self, other: NodeState) -> None:
        """Copy another znode's counters."""
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
        """Recompute `digest` after a change; return by how much it changed (DigestCalculator, digest version 2)."""
        if self.seed < 0:
            self.digest = 0
            return 0
        before = self.digest
        packed = self.packed = _pack_digested(
            self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime,
            self.version, self.cversion, self.aversion, self.ephemeral_owner,
        )  # fmt: skip
        after = self.digest = crc32(packed, self.seed)
        return after - before

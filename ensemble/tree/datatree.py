"""The replicated tree: znodes by path, ephemerals by session, sessions, and the tree's digest (DataTree).

Transactions are applied in zxid order. If the tree already contains a transaction, applying it again does not change
the result. So a log can be replayed over a snapshot that is newer than the beginning of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref
from zlib import crc32

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import Record
from zabka.ensemble.records import ACL, CREATES, OPEN_ACL, EventType, OpCode, Stat
from zabka.ensemble.tree.acl import READ_ACL, interned
from zabka.ensemble.tree.blocks import Blocks
from zabka.ensemble.tree.create_modes import is_ephemeral, owner_made_by
from zabka.ensemble.tree.nodes import Nodes
from zabka.ensemble.tree.outcomes import Applied, Change, Foreseen, failed_multi
from zabka.ensemble.tree.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER, join, parent_of
from zabka.ensemble.tree.quota import QUOTA_PREFIX, Quotas
from zabka.ensemble.tree.shared_nodes import SharedNodes
from zabka.ensemble.tree.stored import RECORD_BYTES, StoredNodes
from zabka.ensemble.tree.znode import (
    COUNTERS,
    COUNTERS_BYTES,
    HEAD,
    HEAD_BYTES,
    LISTED,
    NO_DATA,
    ODD,
    TAIL,
    UNSEALED,
    Znode,
    block_of,
    data_of,
    digest_seed,
    made,
    next_version,
    owner_of,
    restated,
    rewritten,
    sealed,
    tail_of,
    value_of,
)
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    Txn,
)

DIGEST_MASK = 0xFFFFFFFFFFFFFFFF
_MULTI, _SET_DATA, _CREATE = int(OpCode.MULTI), int(OpCode.SET_DATA), int(OpCode.CREATE)
_pack_digested, _pack_tail, _unpack_head = COUNTERS.pack, TAIL.pack, HEAD.unpack_from
_counters_of, _tail_at = COUNTERS.unpack_from, TAIL.unpack_from
_OK = int(ErrorCode.OK)
_NO_NODE = int(ErrorCode.NO_NODE)
_NODE_EXISTS = int(ErrorCode.NODE_EXISTS)
_CREATED = EventType.CREATED
_DELETED = EventType.DELETED
_DATA_CHANGED = EventType.DATA_CHANGED


class DataTree:
    """The tree of one peer.

    `changes`: changes made by the last applied transaction, in order. `data_size_bytes`: the sum of path lengths and
    data lengths (approximateDataSize). `digest_sum`: the sum of the znodes' digests; `digest` is this sum modulo 2**64
    (AdHash). `lapsing`: the paths of containers and of znodes with a time to live. `quotas`: the limits on subtrees.
    `foreseen`: values that a leader has computed for its own plain writes, keyed by zxid, so that they are not computed
    again; always empty on learners. `blocks`: the znodes in blocks, which record the changes since the previous
    snapshot. `responses`: cached replies to getData, keyed by encoded path (ResponseCache); a change to a znode removes
    its reply.
    """

    __slots__ = (
        "_apply_by_type", "_lent", "blocks", "changes", "data_size_bytes", "digest_sum",
        "ephemeral_count", "ephemerals", "foreseen", "lapsing", "last_zxid", "nodes", "quotas", "responses", "sessions",
    )  # fmt: skip

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.blocks = Blocks()
        self.sessions: dict[SessionId, int] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.ephemeral_count = 0
        self.lapsing: dict[str, None] = {}
        self.quotas = Quotas()
        self.last_zxid = Zxid(0)
        self.changes: list[Change] = []
        self.responses: dict[bytes, bytes] = {}
        self.foreseen: dict[int, Foreseen] = {}
        self.data_size_bytes = 0
        self.digest_sum = 0
        self._lent: ref[SharedNodes] | None = None
        self._apply_by_type: dict[int, Callable[[Txn, int, Any, bool], Applied]] = {
            **dict.fromkeys(CREATES, self._create),
            OpCode.DELETE: self._delete_plain,
            OpCode.DELETE_CONTAINER: self._delete_plain,
            OpCode.SET_DATA: self._set_data,
            OpCode.RECONFIG: self._set_data,
            OpCode.SET_ACL: self._set_acl,
            OpCode.CHECK: self._check,
            OpCode.ERROR: self._error,
            OpCode.MULTI: self._multi,
            OpCode.CREATE_SESSION: self._create_session,
            OpCode.CLOSE_SESSION: self._close_session,
        }
        self._add_system_nodes()

    @property
    def digest(self) -> int:
        """The 64-bit digest of all znodes outside /zookeeper/ (DigestCalculator version 2), unsigned."""
        return self.digest_sum & DIGEST_MASK

    @property
    def snapshot_bytes(self) -> int:
        """Approximate size of a snapshot: one record per znode."""
        return self.data_size_bytes + len(self.nodes) * RECORD_BYTES

    # -- whole state -------------------------------------------------------------------------------------------------

    def to_snapshot(self) -> TreeSnapshot:
        """Return a snapshot of the state as of `last_zxid`.

        It costs one shallow copy of the znodes, or nothing if the snapshot is dropped before the tree's next change.
        """
        nodes = self._lent() if self._lent is not None else None
        if nodes is None or nodes.parted:
            nodes = SharedNodes(self.nodes, self.blocks)
            self._lent = ref(nodes)
        return TreeSnapshot(self.last_zxid, self.sessions.copy(), nodes, self.digest)

    def _part_from_snapshot(self, lent: ref[SharedNodes]) -> None:
        """Copy the znodes, so that a snapshot that is still in use does not change with the tree."""
        self._lent = None
        nodes = lent()
        if nodes is not None:
            nodes.part()

    @classmethod
    def from_snapshot(cls, snapshot: TreeSnapshot) -> DataTree:
        """Build the tree from a snapshot. Raises ValueError if a znode's parent is missing: the snapshot is damaged."""
        tree = cls()
        tree.nodes = Nodes()
        tree.blocks = Blocks()
        tree.digest_sum = tree.data_size_bytes = 0
        if isinstance(snapshot.nodes, StoredNodes):
            tree._put_stored(snapshot.nodes, snapshot.digest)
        else:
            for image in snapshot.nodes:
                path = image.path or ROOT
                if path != ROOT and parent_of(path) not in tree.nodes:
                    raise ValueError(f"snapshot holds {path} without its parent")
                acl, block = interned(image.acl), tree.blocks.add(path)
                tree._put(path, value_of(image, block=block, listed=acl is not OPEN_ACL), acl)
        tree._add_system_nodes()
        tree.quotas.load(tree)
        tree.sessions = dict(snapshot.sessions)
        tree.last_zxid = snapshot.zxid
        return tree

    def _put_stored(self, stored: StoredNodes, digest: int) -> None:
        """Add the znodes of a snapshot. `digest` is the snapshot's digest; if it has none, it is computed."""
        nodes = self.nodes = stored.take_into(self.blocks)
        self.data_size_bytes = stored.data_bytes + sum(map(len, nodes))
        for path, owner in stored.owned:
            self._owned(path, owner)
        self.digest_sum = digest or sum(sealed(path, value)[1] for path, value in nodes.pairs())

    def _add_system_nodes(self) -> None:
        for path in (ROOT, ZOOKEEPER, QUOTA, CONFIG):
            if path in self.nodes:
                continue
            # ZooKeeper makes the config znode read-only by a setACL with version -1, so the znode's aversion is -1.
            acl = READ_ACL if path == CONFIG else OPEN_ACL
            counters = (0, 0, 0, 0, 0, 0, 0, -1 if path == CONFIG else 0, 0)
            self._put(path, made(path, counters, b"", block=self.blocks.add(path), listed=path == CONFIG), acl)

    def _put(self, path: str, value: bytes, acl: Sequence[ACL]) -> None:
        """Add a znode that is already in a block, when a snapshot is loaded."""
        self.digest_sum += sealed(path, value)[1]
        self.nodes.put(path, value)
        self._list_acl(path, block_of(value), acl)
        self.data_size_bytes += len(path) + len(value) - HEAD_BYTES
        if owner := owner_of(value):
            self._owned(path, owner)

    def _list_acl(self, path: str, block: int, acl: Sequence[ACL]) -> None:
        """Set a znode's ACL, and record it for snapshots of the znode's block."""
        if acl is not OPEN_ACL:
            self.nodes.acls[path] = acl
            self.blocks.note_acl(block, acl, self.nodes.acls)
        elif self.nodes.acls:
            self.nodes.acls.pop(path, None)

    def _owned(self, path: str, owner: int) -> None:
        if is_ephemeral(owner):
            self.ephemerals.setdefault(owner, {})[path] = None
            self.ephemeral_count += 1
        else:
            self.lapsing[path] = None

    def rewrite(self, path: str, data: bytes) -> None:
        """Replace the data of a znode, if it exists, without a transaction, as every server does independently.

        No watch fires, and the Stat does not change. Allowed only for znodes outside the digest.
        """
        value = self.nodes.value(path)
        if value is not None:
            self._rewrite(path, value, rewritten(value, data))

    def _rewrite(self, path: str, before: bytes, value: bytes) -> None:
        self._touch(path, block_of(before))
        self.data_size_bytes += len(value) - len(before)
        self.nodes.put(path, value)

    def describe_membership(self, text: bytes, version: int, time_ms: int) -> None:
        """Write the ensemble's membership to /zookeeper/config (ZKDatabase.initConfigInZKDatabase).

        Every server does this independently, without a transaction, when it begins to accept clients; the znode is not
        included in the digest.
        """
        node = self.nodes[CONFIG]
        if node.data == text and node.mzxid == version:
            return
        self._rewrite(CONFIG, node.value, rewritten(node.value, text, version, time_ms))

    # -- reading -----------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> Stat | None:
        """Return the Stat of a node, or None if it does not exist."""
        return node.stat() if (node := self.nodes.get(path)) is not None else None

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, oldest first; empty if the node does not exist."""
        node = self.nodes.get(path)
        return node.children if node is not None else []

    # -- transactions ------------------------------------------------------------------------------------------------

    def apply(self, txn: Txn, with_stats: bool = True) -> Applied:
        """Apply a transaction and set `changes`. `with_stats` requests the Stats for the reply to a multi."""
        self.changes = []
        kind = txn.type
        applied = self._apply_by_type[kind](txn, kind, txn.body, with_stats and kind == _MULTI)
        if txn.zxid > self.last_zxid:
            self.last_zxid = txn.zxid
        return applied

    def apply_plain(self, txn: Txn) -> bytes | None:
        """Apply a setData, or a create of an ordinary znode, without setting `changes`; return the znode's new bytes.

        Return None, without any change, for any other transaction, and for one that fails or was applied before. The
        caller then calls `apply`.
        """
        body, zxid = txn.body, txn.zxid
        if zxid <= self.last_zxid or self.quotas.by_path:
            return None
        if txn.type == _SET_DATA and type(body) is SetDataTxn:
            value = self._write(txn, body)
            if value is not None:
                self.last_zxid = zxid
            return value
        if txn.type != _CREATE or type(body) is not CreateTxn or body.ephemeral:
            return None
        if body.path.startswith(QUOTA_PREFIX):
            return None
        made = self._make(txn, body, 0)
        if isinstance(made, int):
            return None
        self.last_zxid = zxid
        return made

    def _touch(self, path: str, block: int) -> None:
        """Prepare for a change to a znode: copy the znodes if a snapshot shares them, and remove the znode's cached
        reply.
        """
        if self.responses:
            self.responses.pop(path.encode("utf-8", "surrogatepass"), None)
        if self._lent is not None:
            self._part_from_snapshot(self._lent)
        if block not in self.blocks.fresh:
            self.blocks.change(block)

    def _restate(
        self, path: str, value: bytes, *, pzxid: int | None = None, cversion: int | None = None,
        aversion: int | None = None, listed: bool | None = None,
    ) -> bytes:  # fmt: skip
        """Set some counters of a znode, and return the znode's new bytes. Call `_touch` first."""
        value, change = restated(path, value, pzxid=pzxid, cversion=cversion, aversion=aversion, listed=listed)
        self.digest_sum += change
        self.nodes.put(path, value)
        return value

    def _create(
        self, txn: Txn, kind: int, body: CreateTxn | CreateContainerTxn | CreateTTLTxn, with_stats: bool
    ) -> Applied:
        owner = owner_made_by(body, txn.session_id)
        path = body.path
        value = self._make(txn, body, owner)
        if isinstance(value, int):
            return Applied(kind, value, path)
        parent_path = path[: path.rfind("/")] or ROOT
        node = self.nodes.view(path, value)
        self.changes.append(Change(_CREATED, path, node.acl, owner, parent_path, self.nodes[parent_path].acl))
        return Applied(kind, _OK, path, node, node.stat() if with_stats and kind != _CREATE else None)

    def _make(self, txn: Txn, body: CreateTxn | CreateContainerTxn | CreateTTLTxn, owner: int) -> bytes | int:
        """Create a znode; return its bytes, or an error code."""
        nodes, path, data, zxid = self.nodes, body.path, body.data, txn.zxid
        below, above = nodes.below, path[: path.rfind("/")]
        parent_path = above or ROOT
        parent = nodes.value(parent_path)
        if parent is None or above == ROOT:  # the path begins with "//", so it is not valid
            return _NO_NODE
        foreseen = self.foreseen.pop(zxid, None) if self.foreseen else None
        self._count_child(parent_path, parent, zxid, body.parent_cversion, foreseen)
        acl = body.acl if body.acl is OPEN_ACL else interned(body.acl)
        siblings = below.get(above)
        if siblings is None:
            siblings = below[above] = {}
        elif path in siblings:
            self._set_list(path, siblings[path], acl)
            return _NODE_EXISTS
        time_ms, block = txn.time_ms, self.blocks.add(path)
        flags = (NO_DATA if data is None else 0) | (LISTED if acl is not OPEN_ACL else 0)
        if foreseen is not None:
            seed, digest, counters, _, _ = foreseen
            tail = _pack_tail(seed, digest, block, flags)
        else:
            counters = _pack_digested(zxid, zxid, zxid, time_ms, time_ms, 0, 0, 0, owner)
            seed = txn.seed if txn.seed is not None else digest_seed(path, data)
            tail, digest = tail_of(seed, counters, block, flags)
        value = siblings[path] = b"".join((counters, tail, data or b""))
        nodes.count += 1
        if acl is not OPEN_ACL:
            self._list_acl(path, block, acl)
        self.digest_sum += digest
        self.data_size_bytes += len(path) + (len(data) if data else 0)
        if owner:
            self._owned(path, owner)
        if self.quotas.by_path or path.startswith(QUOTA_PREFIX):
            self.quotas.created(self, path, data)
        return value

    def _count_child(self, path: str, value: bytes, zxid: int, cversion: int, foreseen: Foreseen | None) -> None:
        """Update a parent's counters for a new child; `cversion` is from the transaction, or -1.

        When a create is replayed over a newer snapshot, the parent's counters must not decrease. So the larger cversion
        is used; the comparison allows for overflow.
        """
        czxid, mzxid, _, ctime, mtime, version, known, aversion, owner, seed, before, block, flags = _unpack_head(value)
        if self._lent is not None or self.responses or block not in self.blocks.fresh:
            self._touch(path, block)
        cversion = next_version(known) if cversion == -1 else cversion
        if (known - cversion) & 0xFFFFFFFF < 0x80000000:
            return
        if flags & ODD:
            self._restate(path, value, pzxid=zxid, cversion=cversion)
            return
        if foreseen is not None:
            digest, counters = foreseen[3], foreseen[4]
        else:
            counters = _pack_digested(czxid, mzxid, zxid, ctime, mtime, version, cversion, aversion, owner)
            digest = crc32(counters, seed)
        tail = _pack_tail(seed, digest, block, flags)
        self.nodes.below[path[: path.rfind("/")]][path] = b"".join((counters, tail, value[HEAD_BYTES:]))
        self.digest_sum += digest - before

    def _set_list(self, path: str, value: bytes, acl: Sequence[ACL], aversion: int | None = None) -> bytes:
        """Replace the ACL of an existing znode."""
        block = block_of(value)
        self._touch(path, block)
        value = self._restate(path, value, aversion=aversion, listed=acl is not OPEN_ACL)
        self._list_acl(path, block, acl)
        return value

    def _delete_plain(self, txn: Txn, kind: int, body: DeleteTxn, with_stats: bool) -> Applied:
        return Applied(kind, self._delete(body.path, txn.zxid), body.path)

    def _delete(self, path: str, zxid: Zxid) -> int:
        slash = path.rfind("/")
        parent_path = path[:slash] or ROOT
        parent = self.nodes.get(parent_path)
        if parent is None:
            return _NO_NODE
        self._touch(parent_path, parent.block)
        if zxid > parent.pzxid:
            self._restate(parent_path, parent.value, pzxid=zxid)
        node = self.nodes.get(path)
        if node is None:
            return _NO_NODE
        if node.child_count:
            self._delete_newer_children(path, node, zxid)
        self.blocks.remove(path, node.block)
        self.nodes.remove(path)
        self.responses.pop(path.encode("utf-8", "surrogatepass"), None)
        self.digest_sum -= node.digest
        self.data_size_bytes -= len(path) + node.data_length
        owner = node.ephemeral_owner
        if owner:
            self._disown(owner, path)
        self.changes.append(Change(_DELETED, path, node.acl, owner, parent_path, parent.acl))
        if self.quotas.by_path:
            self.quotas.deleted(self, path, node.data)
        return _OK

    def _delete_newer_children(self, path: str, node: Znode, zxid: Zxid) -> None:
        """Delete the children that a znode has when its deletion is replayed over a newer snapshot.

        Later transactions create them again.
        """
        for name in node.children:
            child = join(path, name)
            assert self.nodes[child].czxid > zxid, f"{path} deleted by 0x{zxid:x} while it had the child {name}"
            self._delete(child, zxid)

    def _disown(self, owner: int, path: str) -> None:
        if not is_ephemeral(owner):
            del self.lapsing[path]
            return
        owned = self.ephemerals[owner]
        del owned[path]
        self.ephemeral_count -= 1
        if not owned:
            del self.ephemerals[owner]

    def _set_data(self, txn: Txn, kind: int, body: SetDataTxn, with_stats: bool) -> Applied:
        path = body.path
        value = self._write(txn, body)
        if value is None:
            return Applied(kind, _NO_NODE, path)
        node = self.nodes.view(path, value)
        self.changes.append(Change(_DATA_CHANGED, path, node.acl, node.ephemeral_owner, None, None))
        return Applied(kind, _OK, path, node, node.stat() if with_stats else None)

    def _write(self, txn: Txn, body: SetDataTxn) -> bytes | None:
        """Set a znode's data; return the znode's new bytes, or None if the znode does not exist."""
        path, data, zxid = body.path, body.data, txn.zxid
        siblings = self.nodes.below.get(path[: path.rfind("/")])
        before = siblings.get(path) if siblings is not None else None
        if siblings is None or before is None:
            return None
        _, digest_before, block, flags = _tail_at(before, COUNTERS_BYTES)
        if self._lent is not None or self.responses or block not in self.blocks.fresh:
            self._touch(path, block)
        if self.quotas.by_path:
            self.quotas.resized(self, path, data_of(before), data)
        if flags:
            if flags & UNSEALED:
                digest_before = sealed(path, before)[1]
            flags &= LISTED
        if data is None:
            data = b""
            flags |= NO_DATA
        foreseen = self.foreseen.pop(zxid, None) if self.foreseen else None
        if foreseen is not None:
            seed, digest, counters, _, _ = foreseen
            tail = _pack_tail(seed, digest, block, flags)
        else:
            czxid, _, pzxid, ctime, _, _, cversion, aversion, owner = _counters_of(before)
            counters = _pack_digested(czxid, zxid, pzxid, ctime, txn.time_ms, body.version, cversion, aversion, owner)
            seed = txn.seed if txn.seed is not None else digest_seed(path, data)
            tail, digest = tail_of(seed, counters, block, flags)
        self.data_size_bytes += len(data) - len(before) + HEAD_BYTES
        self.digest_sum += digest - digest_before
        value = siblings[path] = b"".join((counters, tail, data))
        return value

    def _set_acl(self, txn: Txn, kind: int, body: SetACLTxn, with_stats: bool) -> Applied:
        path = body.path
        value = self.nodes.value(path)
        if value is None:
            return Applied(kind, _NO_NODE, path)
        node = self.nodes.view(path, self._set_list(path, value, interned(body.acl), body.version))
        return Applied(kind, _OK, path, node, node.stat() if with_stats else None)

    def _check(self, txn: Txn, kind: int, body: Record, with_stats: bool) -> Applied:
        return Applied(kind, _OK, getattr(body, "path", ""))

    def _error(self, txn: Txn, kind: int, body: ErrorTxn, with_stats: bool) -> Applied:
        return Applied(kind, body.err, "")

    def _multi(self, txn: Txn, kind: int, body: MultiTxn, with_stats: bool) -> Applied:
        subs = body.txns
        failed_at = next((i for i, sub in enumerate(subs) if sub.type == OpCode.ERROR), None)
        if failed_at is not None:
            return failed_multi(subs, failed_at)
        results = [self._apply_by_type[sub.type](txn, sub.type, sub.body(), with_stats) for sub in subs]
        error = next((result.error for result in results if result.error), _OK)
        return Applied(kind, error, results[0].path if results else "", results=results)

    def _create_session(self, txn: Txn, kind: int, body: CreateSessionTxn, with_stats: bool) -> Applied:
        self.sessions[txn.session_id] = body.timeout_ms
        return Applied(kind, _OK, "")

    def _close_session(self, txn: Txn, kind: int, body: CloseSessionTxn, with_stats: bool) -> Applied:
        self.sessions.pop(txn.session_id, None)
        for path in body.paths:
            self._delete(path, txn.zxid)
        # Transactions from before ZooKeeper 3.6 have no list of paths. In a replay, the session may also own more
        # ephemerals than the list contains.
        for path in sorted(self.ephemerals.get(txn.session_id, ())):
            self._delete(path, txn.zxid)
        return Applied(kind, _OK, "")

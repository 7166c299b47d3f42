"""The replicated tree: znodes by path, ephemerals by session, sessions, and the digest over it all (DataTree).

Transactions are applied in zxid order.  Applying one that the tree holds already changes nothing that matters, so that
a log may be replayed over a snapshot that is newer than its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import msgspec

from ensemble.errors import ErrorCode
from ensemble.ids import SessionId, Zxid
from ensemble.jute import Record
from ensemble.records import ACL, CREATES, OPEN_ACL, EventType, OpCode, Stat
from ensemble.tree.acl import READ_ACL, interned
from ensemble.tree.blocks import Blocks
from ensemble.tree.create_modes import is_ephemeral, owner_made_by
from ensemble.tree.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER, join
from ensemble.tree.quota import QUOTA_PREFIX, Quotas
from ensemble.tree.shared_nodes import SharedNodes
from ensemble.tree.stored import StoredNodes
from ensemble.tree.znode import Znode, digest_seed
from ensemble.tree_snapshot import TreeSnapshot
from ensemble.txn import (
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
    SubTxn,
    Txn,
)

DIGEST_MASK = 0xFFFFFFFFFFFFFFFF
_MULTI, _SET_DATA, _CREATE = int(OpCode.MULTI), int(OpCode.SET_DATA), int(OpCode.CREATE)
_OK = int(ErrorCode.OK)
_NO_NODE = int(ErrorCode.NO_NODE)
_NODE_EXISTS = int(ErrorCode.NODE_EXISTS)
_CREATED = EventType.CREATED
_DELETED = EventType.DELETED
_DATA_CHANGED = EventType.DATA_CHANGED


class Change(msgspec.Struct, frozen=True, gc=False):
    """What a transaction did to one znode, for watches; the parent's fields are None where no child came or went."""

    event: EventType
    path: str
    acl: Sequence[ACL]
    owner: int
    parent: str | None
    parent_acl: Sequence[ACL] | None


class Applied(msgspec.Struct):
    """A transaction's outcome (ProcessTxnResult): `type` is ERROR for what failed; `results` are those of a multi.

    `node` is the znode as it now is, `stat` its Stat where the transaction goes on and may change it again: in a multi.
    """

    type: int
    error: int
    path: str
    node: Znode | None = None
    stat: Stat | None = None
    results: list[Applied] | None = None

    def final_stat(self) -> Stat:
        """The Stat to answer with."""
        if self.stat is not None:
            return self.stat
        assert self.node is not None, f"no znode for the answer to op {self.type}"
        return self.node.stat()


class DataTree:
    """The tree of one peer.

    `changes` holds what the last applied transaction did, in order.  `data_size_bytes` is the sum of path lengths and
    data lengths (approximateDataSize).  `digest_sum` adds up the nodes' digests; `digest` is it modulo 2**64 (AdHash).
    `lapsing` are the paths of containers and of nodes with a time to live, `quotas` the limits on subtrees.
    `foreseen` has, by zxid, what a leader has worked out for a plain write that it proposed: the node's seed and its
    digest, and its parent's digest.  So it need not do so a second time, as its learners must.  Empty elsewhere.
    `blocks` are the znodes in groups, which tell a snapshot what has changed since the one before.
    `responses` keeps ready answers to getData by encoded path (ResponseCache): whoever changes a node drops its own.
    """

    __slots__ = (
        "_apply_by_type", "_generation", "_lent", "blocks", "changes", "data_size_bytes", "digest_sum",
        "ephemeral_count", "ephemerals", "foreseen", "lapsing", "last_zxid", "nodes", "quotas", "responses", "sessions",
    )  # fmt: skip

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}
        self.blocks = Blocks()
        self.sessions: dict[SessionId, int] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.ephemeral_count = 0
        self.lapsing: dict[str, None] = {}
        self.quotas = Quotas()
        self.last_zxid = Zxid(0)
        self.changes: list[Change] = []
        self.responses: dict[bytes, bytes] = {}
        self.foreseen: dict[int, tuple[int, int, int]] = {}
        self.data_size_bytes = 0
        self.digest_sum = 0
        self._generation = 0
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
        """The 64-bit digest of every node outside /zookeeper/ (DigestCalculator version 2), unsigned."""
        return self.digest_sum & DIGEST_MASK

    # -- whole state -------------------------------------------------------------------------------------------------

    def to_snapshot(self) -> TreeSnapshot:
        """The state as of `last_zxid`.  Costs one shallow copy, or none where it is gone before the next change; a node
        changed later is cloned once."""
        nodes = self._lent() if self._lent is not None else None
        if nodes is not None and nodes.parted:
            # It has a dict of its own; its znodes are the tree's still, which therefore clones them from now on.
            self._generation += 1
            nodes = None
        if nodes is None:
            nodes = SharedNodes(self.nodes, self.blocks)
            self._lent = ref(nodes)
        return TreeSnapshot(self.last_zxid, self.sessions.copy(), nodes, self.digest)

    def _part_from_snapshot(self, lent: ref[SharedNodes]) -> None:
        """The tree is about to change: a snapshot that is still wanted keeps what it shows."""
        self._lent = None
        nodes = lent()
        if nodes is not None:
            nodes.part()
            self._generation += 1

    @classmethod
    def from_snapshot(cls, snapshot: TreeSnapshot) -> DataTree:
        """The tree that a snapshot describes.  Nodes whose parent is missing are a damaged snapshot: ValueError."""
        tree = cls()
        tree.nodes.clear()
        tree.blocks = Blocks()
        tree.digest_sum = tree.data_size_bytes = 0
        if isinstance(snapshot.nodes, StoredNodes):
            tree._put_stored(snapshot.nodes, snapshot.digest)
        else:
            for image in snapshot.nodes:
                path = image.path or ROOT
                tree._put(path, Znode.from_image(image, interned(image.acl), 0))
                if path != ROOT:
                    tree._announce(path)
        tree._add_system_nodes()
        tree.quotas.load(tree)
        tree.sessions = dict(snapshot.sessions)
        tree.last_zxid = snapshot.zxid
        return tree

    def _put_stored(self, stored: StoredNodes, digest: int) -> None:
        """Take over records as they are; the digest is the snapshot's own, unless it carries none."""
        nodes = self.nodes = stored.znodes(self.blocks)
        self.data_size_bytes = stored.data_bytes + sum(map(len, nodes))
        for path, owner in stored.owned:
            self._owned(path, owner)
        self.digest_sum = digest or sum(node.digest for node in nodes.values())

    def _announce(self, path: str) -> None:
        slash = path.rfind("/")
        parent = self.nodes.get(path[:slash] or ROOT)
        if parent is None:
            raise ValueError(f"snapshot holds {path} without its parent")
        if parent.children is None:
            parent.children = {}
        parent.children[path[slash + 1 :]] = None

    def _add_system_nodes(self) -> None:
        for path in (ROOT, ZOOKEEPER, QUOTA, CONFIG):
            if path in self.nodes:
                continue
            node = Znode(b"", self._generation)
            # ZooKeeper makes the config node readable only, by a setACL with version -1, which stays visible.
            node.born(0, 0, 0, READ_ACL if path == CONFIG else OPEN_ACL, digest_seed(path, b""))
            node.aversion = -1 if path == CONFIG else 0
            self._put(path, node)
            if path != ROOT:
                self._announce(path)

    def _put(self, path: str, node: Znode) -> None:
        self.digest_sum += node.redigest()
        node.block = self.blocks.add(path)
        node.set_acl(node.acl)
        self.nodes[path] = node
        self.data_size_bytes += len(path) + (len(node.data) if node.data else 0)
        if node.ephemeral_owner:
            self._owned(path, node.ephemeral_owner)

    def _owned(self, path: str, owner: int) -> None:
        if is_ephemeral(owner):
            self.ephemerals.setdefault(owner, {})[path] = None
            self.ephemeral_count += 1
        else:
            self.lapsing[path] = None

    def rewrite(self, path: str, data: bytes) -> None:
        """Put other data into a node, if there is one, as every server does by itself: no transaction says so, no watch
        fires, and its Stat stays.  Only for nodes that the digest leaves out."""
        node = self.nodes.get(path)
        if node is not None:
            node = self._own(path, node)
            self.data_size_bytes += len(data) - (len(node.data) if node.data else 0)
            node.data = data

    def describe_membership(self, text: bytes, version: int, time_ms: int) -> None:
        """Show the ensemble's membership in /zookeeper/config, as every server does by itself when it starts to serve
        (ZKDatabase.initConfigInZKDatabase); no transaction says so, and the digest leaves the node out."""
        node = self.nodes[CONFIG]
        if node.data == text and node.mzxid == version:
            return
        node = self._own(CONFIG, node)
        self.data_size_bytes += len(text) - len(node.data or b"")
        node.data, node.version, node.mzxid, node.mtime = text, -1, version, time_ms

    # -- reading -----------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> Stat | None:
        """The Stat of a node, None where there is none."""
        node = self.nodes.get(path)
        return node.stat() if node is not None else None

    def children(self, path: str) -> list[str]:
        """The names of a node's children, oldest first; none where there is no such node."""
        node = self.nodes.get(path)
        return list(node.children) if node is not None and node.children else []

    # -- transactions ------------------------------------------------------------------------------------------------

    def apply(self, txn: Txn, with_stats: bool = True) -> Applied:
        """Apply a transaction and fill `changes`.  `with_stats` asks for the Stats that an answer to a multi needs."""
        self.changes = []
        kind = txn.type
        applied = self._apply_by_type[kind](txn, kind, txn.body, with_stats and kind == _MULTI)
        if txn.zxid > self.last_zxid:
            self.last_zxid = txn.zxid
        return applied

    def apply_plain(self, txn: Txn) -> Znode | None:
        """Apply a setData, or a create of an ordinary node, as `apply` does, where nobody asks for `changes`: the node.
        None for any other transaction, and for one that the tree has seen or that fails: these are left to `apply`."""
        body, zxid = txn.body, txn.zxid
        if zxid <= self.last_zxid or self.quotas.by_path:
            return None
        if txn.type == _SET_DATA and type(body) is SetDataTxn:
            node = self._write(txn, body)
            if node is not None:
                self.last_zxid = zxid
            return node
        if txn.type != _CREATE or type(body) is not CreateTxn or body.ephemeral:
            return None
        if body.path.startswith(QUOTA_PREFIX):
            return None
        made = self._make(txn, body, 0)
        if isinstance(made, int):
            return None
        self.last_zxid = zxid
        return made

    def _own(self, path: str, node: Znode) -> Znode:
        """The node to change: no snapshot holds it, and no ready answer tells of it."""
        if self.responses:
            self.responses.pop(path.encode("utf-8", "surrogatepass"), None)
        if self._lent is not None:
            self._part_from_snapshot(self._lent)
        if node.generation != self._generation:
            node = self.nodes[path] = node.clone(self._generation)
        if node.block.changed_in != self.blocks.turn:
            self.blocks.change(node.block)
        return node

    def _create(
        self, txn: Txn, kind: int, body: CreateTxn | CreateContainerTxn | CreateTTLTxn, with_stats: bool
    ) -> Applied:
        owner = owner_made_by(body, txn.session_id)
        path = body.path
        node = self._make(txn, body, owner)
        if isinstance(node, int):
            return Applied(kind, node, path)
        parent_path = path[: path.rfind("/")] or ROOT
        self.changes.append(Change(_CREATED, path, node.acl, owner, parent_path, self.nodes[parent_path].acl))
        return Applied(kind, _OK, path, node, node.stat() if with_stats and kind != _CREATE else None)

    def _make(self, txn: Txn, body: CreateTxn | CreateContainerTxn | CreateTTLTxn, owner: int) -> Znode | int:
        """A znode appears; or the error why not."""
        nodes, path, data, zxid = self.nodes, body.path, body.data, txn.zxid
        parent_path, _, name = path.rpartition("/")
        parent = nodes.get(parent_path or ROOT)
        if parent is None:
            return _NO_NODE
        if parent.generation != self._generation or self._lent is not None or self.responses:
            parent = self._own(parent_path or ROOT, parent)
        elif parent.block.changed_in != self.blocks.turn:
            self.blocks.change(parent.block)
        foreseen = self.foreseen.pop(zxid, None) if self.foreseen else None
        # A replayed create must not turn back what the snapshot already knows of the parent.
        cversion = body.parent_cversion if body.parent_cversion != -1 else parent.cversion + 1
        if cversion > parent.cversion:
            parent.cversion = cversion
            parent.pzxid = zxid
            self.digest_sum += parent.redigest() if foreseen is None else parent.take_digest(foreseen[2])
        acl = body.acl if body.acl is OPEN_ACL else interned(body.acl)
        existing = nodes.get(path)
        if existing is not None:
            self._own(path, existing).set_acl(acl)
            return _NODE_EXISTS
        if parent.children is None:
            parent.children = {}
        parent.children[name] = None
        if foreseen is not None:
            seed, digest, _ = foreseen
        else:
            seed, digest = txn.seed if txn.seed is not None else digest_seed(path, data), None
        node = Znode.leaf(data, self._generation, zxid, txn.time_ms, owner, acl, seed, digest)
        node.block = block = self.blocks.add(path)
        nodes[path] = node
        if acl is not OPEN_ACL:
            block.note_acl(acl)
        self.digest_sum += node.digest
        self.data_size_bytes += len(path) + (len(data) if data else 0)
        if owner:
            self._owned(path, owner)
        if self.quotas.by_path or path.startswith(QUOTA_PREFIX):
            self.quotas.created(self, path, data)
        return node

    def _delete_plain(self, txn: Txn, kind: int, body: DeleteTxn, with_stats: bool) -> Applied:
        return Applied(kind, self._delete(body.path, txn.zxid), body.path)

    def _delete(self, path: str, zxid: Zxid) -> int:
        slash = path.rfind("/")
        parent_path = path[:slash] or ROOT
        parent = self.nodes.get(parent_path)
        if parent is None:
            return _NO_NODE
        parent = self._own(parent_path, parent)
        if zxid > parent.pzxid:
            parent.pzxid = zxid
            self.digest_sum += parent.redigest()
        node = self.nodes.get(path)
        if node is None:
            return _NO_NODE
        if node.children:
            self._delete_newer_children(path, node, zxid)
        assert parent.children is not None, f"{path} is not among its parent's children"
        del parent.children[path[slash + 1 :]]
        self.blocks.remove(path, node.block)
        del self.nodes[path]
        self.responses.pop(path.encode("utf-8", "surrogatepass"), None)
        self.digest_sum -= node.digest
        self.data_size_bytes -= len(path) + (len(node.data) if node.data else 0)
        owner = node.ephemeral_owner
        if owner:
            self._disown(owner, path)
        self.changes.append(Change(_DELETED, path, node.acl, owner, parent_path, parent.acl))
        if self.quotas.by_path:
            self.quotas.deleted(self, path, node.data)
        return _OK

    def _delete_newer_children(self, path: str, node: Znode, zxid: Zxid) -> None:
        """Only a replay over a newer snapshot meets children here; the transactions that follow make them again."""
        for name in list(node.children or ()):
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
        node = self._write(txn, body)
        if node is None:
            return Applied(kind, _NO_NODE, path)
        self.changes.append(Change(_DATA_CHANGED, path, node.acl, node.ephemeral_owner, None, None))
        return Applied(kind, _OK, path, node, node.stat() if with_stats else None)

    def _write(self, txn: Txn, body: SetDataTxn) -> Znode | None:
        """A znode gets other data; None where there is no such node."""
        path, data = body.path, body.data
        node = self.nodes.get(path)
        if node is None:
            return None
        if node.generation != self._generation or self._lent is not None or self.responses:
            node = self._own(path, node)
        elif node.block.changed_in != self.blocks.turn:
            self.blocks.change(node.block)
        before = node.data
        if self.quotas.by_path:
            self.quotas.resized(self, path, before, data)
        self.data_size_bytes += (len(data) if data else 0) - (len(before) if before else 0)
        node.data = data
        foreseen = self.foreseen.pop(txn.zxid, None) if self.foreseen else None
        if foreseen is not None:
            node.version = body.version
            node.mzxid = txn.zxid
            node.mtime = txn.time_ms
            node.seed = foreseen[0]
            self.digest_sum += node.take_digest(foreseen[1])
        else:
            seed = txn.seed if txn.seed is not None else digest_seed(path, data)
            self.digest_sum += node.written(body.version, txn.zxid, txn.time_ms, seed)
        return node

    def _set_acl(self, txn: Txn, kind: int, body: SetACLTxn, with_stats: bool) -> Applied:
        node = self.nodes.get(body.path)
        if node is None:
            return Applied(kind, _NO_NODE, body.path)
        node = self._own(body.path, node)
        node.set_acl(interned(body.acl))
        node.aversion = body.version
        self.digest_sum += node.redigest()
        return Applied(kind, _OK, body.path, node, node.stat() if with_stats else None)

    def _check(self, txn: Txn, kind: int, body: Record, with_stats: bool) -> Applied:
        return Applied(kind, _OK, getattr(body, "path", ""))

    def _error(self, txn: Txn, kind: int, body: ErrorTxn, with_stats: bool) -> Applied:
        return Applied(kind, body.err, "")

    def _multi(self, txn: Txn, kind: int, body: MultiTxn, with_stats: bool) -> Applied:
        subs = body.txns
        failed_at = next((i for i, sub in enumerate(subs) if sub.type == OpCode.ERROR), None)
        if failed_at is not None:
            return self._failed_multi(subs, failed_at)
        results = [self._apply_by_type[sub.type](txn, sub.type, sub.body(), with_stats) for sub in subs]
        error = next((result.error for result in results if result.error), _OK)
        return Applied(kind, error, results[0].path if results else "", results=results)

    def _failed_multi(self, subs: list[SubTxn], failed_at: int) -> Applied:
        """Nothing of it is applied: 0 for what was rolled back, then the error, then what was never tried."""
        results = [Applied(OpCode.ERROR, _OK, "") for _ in subs[:failed_at]]
        for sub in subs[failed_at:]:
            body = sub.body()
            assert isinstance(body, ErrorTxn), f"{body!r} after the failed operation of a multi"
            results.append(Applied(OpCode.ERROR, body.err, ""))
        return Applied(OpCode.MULTI, results[failed_at].error, "", results=results)

    def _create_session(self, txn: Txn, kind: int, body: CreateSessionTxn, with_stats: bool) -> Applied:
        self.sessions[txn.session_id] = body.timeout_ms
        return Applied(kind, _OK, "")

    def _close_session(self, txn: Txn, kind: int, body: CloseSessionTxn, with_stats: bool) -> Applied:
        self.sessions.pop(txn.session_id, None)
        for path in body.paths:
            self._delete(path, txn.zxid)
        # Transactions older than ZooKeeper 3.6 list no paths, and a replay may meet more than the list.
        for path in sorted(self.ephemerals.get(txn.session_id, ())):
            self._delete(path, txn.zxid)
        return Applied(kind, _OK, "")

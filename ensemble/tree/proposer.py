"""Requests become transactions (PrepRequestProcessor): checked against the latest proposed state, then idempotent.

A request that is refused becomes an ErrorTxn and still takes its zxid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ensemble.errors import ErrorCode
from ensemble.ids import LinkId, SessionId, Zxid
from ensemble.jute import MalformedRecord, Reader, Record
from ensemble.ports import Instant
from ensemble.records import (
    CheckVersionRequest,
    CreateFlag,
    CreateRequest,
    DeleteRequest,
    EmptyRequest,
    MultiRequest,
    OpCode,
    Permission,
    SetACLRequest,
    SetDataRequest,
)
from ensemble.tree.acl import AuthId, allows, fixed_up
from ensemble.tree.datatree import DataTree
from ensemble.tree.outstanding import Outstanding, child_count_of
from ensemble.tree.paths import ROOT, SYSTEM_PATHS, is_valid_path
from ensemble.tree.sessions import Owner, SessionTracker, owner_of
from ensemble.tree.znode import digest_seed, is_ephemeral, next_version
from ensemble.txn import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    SubTxn,
    Txn,
)
from ensemble.zab.messages import ForwardedRequest

_DIGEST_MASK = 0xFFFFFFFFFFFFFFFF
_CREATE, _WRITE, _READ = int(Permission.CREATE), int(Permission.WRITE), int(Permission.READ)
_DELETE, _ADMIN = int(Permission.DELETE), int(Permission.ADMIN)
_EPHEMERAL = frozenset({int(CreateFlag.EPHEMERAL), int(CreateFlag.EPHEMERAL_SEQUENTIAL)})
_SEQUENTIAL = frozenset({int(CreateFlag.PERSISTENT_SEQUENTIAL), int(CreateFlag.EPHEMERAL_SEQUENTIAL)})
_PLAIN = _EPHEMERAL | _SEQUENTIAL | {int(CreateFlag.PERSISTENT)}

Prepared = Record | ErrorCode
"""A transaction's body, or why the request is refused."""


class Proposer:
    """A leader's maker of transactions.  Requests must be prepared in the order of their zxids."""

    __slots__ = ("_auth", "_by_op", "_now", "_owner", "_session_id", "_zxid", "outstanding", "tracker")

    def __init__(self, tree: DataTree, tracker: SessionTracker) -> None:
        self.outstanding = Outstanding(tree)
        self.tracker = tracker
        # The request that is being prepared.
        self._now = Instant(0, 0)
        self._zxid = Zxid(0)
        self._session_id = SessionId(0)
        self._owner: Owner = 0
        self._auth: Sequence[AuthId] = ()
        self._by_op: dict[int, tuple[type[Record], Callable[[Any], Prepared]]] = {
            OpCode.CREATE: (CreateRequest, self._create),
            OpCode.CREATE2: (CreateRequest, self._create),
            OpCode.DELETE: (DeleteRequest, self._delete),
            OpCode.SET_DATA: (SetDataRequest, self._set_data),
            OpCode.SET_ACL: (SetACLRequest, self._set_acl),
            OpCode.CHECK: (CheckVersionRequest, self._check),
            OpCode.CREATE_SESSION: (CreateSessionTxn, self._create_session),
            OpCode.CLOSE_SESSION: (EmptyRequest, self._close_session),
        }

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        """The transaction of a request; see `Application.prepare`."""
        self._now = now
        self._zxid = zxid
        self._session_id = request.session_id
        self._owner = owner_of(origin)
        self._auth = request.auth
        op = request.op
        self.outstanding.catch_up()
        try:
            prepared = self._multi(request.body) if op == OpCode.MULTI else self._single(op, request.body)
        except MalformedRecord:
            prepared = ErrorCode.MARSHALLING_ERROR
        if isinstance(prepared, ErrorCode):
            error = ErrorTxn(int(prepared))
            return Txn(request.session_id, request.cxid, zxid, now.wall_ms, OpCode.ERROR, error)
        digest = self.outstanding.digest & _DIGEST_MASK
        return Txn(request.session_id, request.cxid, zxid, now.wall_ms, op, prepared, digest)

    def applied(self, zxid: Zxid) -> None:
        """A transaction of ours is in the tree now."""
        self.outstanding.applied(zxid)

    def _single(self, op: int, body: bytes) -> Prepared:
        known = self._by_op.get(op)
        if known is None:
            return ErrorCode.RECONFIG_DISABLED if op == OpCode.RECONFIG else ErrorCode.UNIMPLEMENTED
        kind, handler = known
        if op > 0:
            refusal = self._session_refusal()
            if refusal is not None:
                return refusal
        return handler(kind.read_from(Reader(body)))

    def _session_refusal(self) -> ErrorCode | None:
        if not self.tracker.is_alive(self._session_id):
            return ErrorCode.SESSION_EXPIRED
        return None if self.tracker.owned_by(self._session_id, self._owner) else ErrorCode.SESSION_MOVED

    # -- one operation -----------------------------------------------------------------------------------------------

    def _create(self, request: CreateRequest) -> Prepared:
        flags = request.flags
        if flags not in _PLAIN:
            known = flags in CreateFlag.__members__.values()
            return ErrorCode.UNIMPLEMENTED if known else ErrorCode.BAD_ARGUMENTS
        path = request.path
        slash = path.rfind("/")
        if slash == -1 or "\0" in path:
            return ErrorCode.BAD_ARGUMENTS
        acl = fixed_up(request.acl, self._auth)
        if acl is None:
            return ErrorCode.INVALID_ACL
        outstanding = self.outstanding
        parent_path = path[:slash] or ROOT
        parent = outstanding.find(parent_path)
        if parent is None:
            return ErrorCode.NO_NODE
        if not allows(parent.acl, _CREATE, self._auth):
            return ErrorCode.NO_AUTH
        if flags in _SEQUENTIAL:
            path = f"{path}{parent.cversion:010d}"
        if not is_valid_path(path):
            return ErrorCode.BAD_ARGUMENTS
        if outstanding.find(path) is not None:
            return ErrorCode.NODE_EXISTS
        if is_ephemeral(parent.ephemeral_owner):
            return ErrorCode.NO_CHILDREN_FOR_EPHEMERALS
        zxid = self._zxid
        above = outstanding.change(parent_path, parent, zxid)
        above.child_count += 1
        cversion = above.cversion = next_version(above.cversion)
        above.pzxid = zxid
        outstanding.changed(above)
        ephemeral = flags in _EPHEMERAL
        owner = self._session_id if ephemeral else 0
        node = outstanding.create(path, zxid, owner)
        node.born(zxid, self._now.wall_ms, owner, acl, digest_seed(path, request.data))
        outstanding.changed(node)
        return CreateTxn(path, request.data, acl, ephemeral, cversion)

    def _delete(self, request: DeleteRequest) -> Prepared:
        path = request.path
        slash = path.rfind("/")
        if slash == -1 or "\0" in path or path in SYSTEM_PATHS:
            return ErrorCode.BAD_ARGUMENTS
        outstanding = self.outstanding
        parent_path = path[:slash] or ROOT
        parent = outstanding.find(parent_path)
        if parent is None:
            return ErrorCode.NO_NODE
        if not allows(parent.acl, _DELETE, self._auth):
            return ErrorCode.NO_AUTH
        node = outstanding.find(path)
        if node is None:
            return ErrorCode.NO_NODE
        if request.version != -1 and request.version != node.version:
            return ErrorCode.BAD_VERSION
        if child_count_of(node):
            return ErrorCode.NOT_EMPTY
        self._remove(path, parent_path)
        return DeleteTxn(path)

    def _remove(self, path: str, parent_path: str) -> None:
        outstanding = self.outstanding
        parent, node = outstanding.find(parent_path), outstanding.find(path)
        assert parent is not None and node is not None, f"{path} was found a moment ago"
        above = outstanding.change(parent_path, parent, self._zxid)
        above.child_count -= 1
        above.pzxid = self._zxid
        outstanding.changed(above)
        outstanding.delete(path, node, self._zxid)

    def _set_data(self, request: SetDataRequest) -> Prepared:
        path = request.path
        if not is_valid_path(path):
            return ErrorCode.BAD_ARGUMENTS
        outstanding = self.outstanding
        node = outstanding.find(path)
        if node is None:
            return ErrorCode.NO_NODE
        if not allows(node.acl, _WRITE, self._auth):
            return ErrorCode.NO_AUTH
        if request.version != -1 and request.version != node.version:
            return ErrorCode.BAD_VERSION
        record = outstanding.change(path, node, self._zxid)
        record.version = next_version(record.version)
        record.mzxid = self._zxid
        record.mtime = self._now.wall_ms
        record.seed = digest_seed(path, request.data)
        outstanding.changed(record)
        return SetDataTxn(path, request.data, record.version)

    def _set_acl(self, request: SetACLRequest) -> Prepared:
        path = request.path
        if not is_valid_path(path):
            return ErrorCode.BAD_ARGUMENTS
        acl = fixed_up(request.acl, self._auth)
        if acl is None:
            return ErrorCode.INVALID_ACL
        node = self.outstanding.find(path)
        if node is None:
            return ErrorCode.NO_NODE
        if not allows(node.acl, _ADMIN, self._auth):
            return ErrorCode.NO_AUTH
        if request.version != -1 and request.version != node.aversion:
            return ErrorCode.BAD_VERSION
        record = self.outstanding.change(path, node, self._zxid)
        record.aversion = next_version(record.aversion)
        # Requests behind this one must already be judged by the new list, or a revocation could be overtaken.
        record.acl = acl
        self.outstanding.changed(record)
        return SetACLTxn(path, acl, record.aversion)

    def _check(self, request: CheckVersionRequest) -> Prepared:
        path = request.path
        if not is_valid_path(path):
            return ErrorCode.BAD_ARGUMENTS
        node = self.outstanding.find(path)
        if node is None:
            return ErrorCode.NO_NODE
        if not allows(node.acl, _READ, self._auth):
            return ErrorCode.NO_AUTH
        if request.version != -1 and request.version != node.version:
            return ErrorCode.BAD_VERSION
        return CheckVersionTxn(path, next_version(node.version))

    # -- several operations ------------------------------------------------------------------------------------------

    def _multi(self, body: bytes) -> Prepared:
        """One refused operation takes everything back; those before it stay in the transaction, as in ZooKeeper, and
        are told apart when it is applied."""
        request = MultiRequest.read_from(Reader(body))
        refusal = self._session_refusal()
        mark = self.outstanding.begin()
        failed = False
        txns: list[SubTxn] = []
        for op, operation in request.ops:
            if failed:
                prepared: Prepared = ErrorCode.RUNTIME_INCONSISTENCY
            else:
                known = self._by_op.get(op)
                prepared = refusal or (known[1](operation) if known else ErrorCode.UNIMPLEMENTED)
            if isinstance(prepared, ErrorCode):
                if not failed:
                    self.outstanding.roll_back(mark)
                    failed = True
                txns.append(SubTxn(OpCode.ERROR, ErrorTxn(int(prepared)).encode()))
            else:
                txns.append(SubTxn(int(op), prepared.encode()))
        if not failed:
            self.outstanding.commit()
        return MultiTxn(txns)

    # -- sessions ----------------------------------------------------------------------------------------------------

    def _create_session(self, request: CreateSessionTxn) -> Prepared:
        self.tracker.track(self._now, self._session_id, request.timeout_ms)
        self.tracker.set_owner(self._session_id, self._owner)
        return request

    def _close_session(self, request: EmptyRequest) -> Prepared:
        paths = self.outstanding.ephemerals_of(self._session_id)
        for path in paths:
            self._remove(path, path[: path.rfind("/")] or ROOT)
        self.tracker.close(self._session_id)
        return CloseSessionTxn(paths)

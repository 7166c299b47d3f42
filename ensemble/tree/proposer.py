"""Converts client requests to transactions, on the leader (PrepRequestProcessor).

Requests are checked against the latest proposed state; the transactions are idempotent. A rejected request becomes an
ErrorTxn, which uses a zxid too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from zabka.ensemble.auth.policy import OPEN_POLICY, AuthPolicy
from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import LinkId, SessionId, Zxid
from zabka.ensemble.jute import MalformedRecord, Reader, Record
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import (
    CREATES,
    CheckVersionRequest,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    EmptyRequest,
    MultiRequest,
    OpCode,
    PathRequest,
    Permission,
    ReconfigRequest,
    SetACLRequest,
    SetDataRequest,
)
from zabka.ensemble.tree.acl import allows, fixed_up
from zabka.ensemble.tree.containers import has_lapsed
from zabka.ensemble.tree.create_modes import as_in_a_multi, create_mode, is_ephemeral
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.local_sessions import LocalSessions
from zabka.ensemble.tree.outstanding import Outstanding
from zabka.ensemble.tree.paths import CONFIG, ROOT, SYSTEM_PATHS
from zabka.ensemble.tree.plain_proposals import PlainProposals
from zabka.ensemble.tree.quota_guard import QuotaGuard
from zabka.ensemble.tree.reconfig import can_start, new_membership
from zabka.ensemble.tree.sessions import LOCAL, Owner, SessionTracker
from zabka.ensemble.tree.znode import digest_seed, next_version
from zabka.ensemble.tree_rules import DEFAULT_RULES, TreeRules
from zabka.ensemble.txn import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateSessionTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    SubTxn,
    Txn,
)
from zabka.ensemble.zab.application import EnsembleView
from zabka.ensemble.zab.messages import ForwardedRequest
from zabka.ensemble.znode_paths import is_valid_path

_DIGEST_MASK = 0xFFFFFFFFFFFFFFFF
_CREATE, _WRITE, _READ = int(Permission.CREATE), int(Permission.WRITE), int(Permission.READ)
_DELETE, _ADMIN = int(Permission.DELETE), int(Permission.ADMIN)
_DELETE_CONTAINER, _MULTI = int(OpCode.DELETE_CONTAINER), int(OpCode.MULTI)

MULTI_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of a transaction.

It is far above the size of any request, because each `auth` entry in an ACL is replaced by many entries.
"""
LISTED_CHARS_MAX = 4 * 1024 * 1024

Prepared = Record | ErrorCode
"""A transaction's body, or the error if the request is rejected."""


class Proposer:
    """Converts client requests to transactions on the leader. Requests must be prepared in the order of their zxids."""

    __slots__ = (
        "_auth", "_by_op", "_ensemble", "_now", "_owner", "_plain", "_policy", "_quotas", "_rights", "_rules",
        "_session_id", "_zxid", "local", "outstanding", "tracker",
    )  # fmt: skip

    def __init__(
        self, tree: DataTree, tracker: SessionTracker, policy: AuthPolicy = OPEN_POLICY,
        rules: TreeRules = DEFAULT_RULES, quotas: QuotaGuard | None = None,
    ) -> None:  # fmt: skip
        """Create a proposer; `quotas` is given if hard quotas are enforced."""
        self.outstanding = Outstanding(tree)
        self.tracker = tracker
        self.local: LocalSessions | None = None
        """The leader's local sessions; None if local sessions are not enabled."""
        self._policy = policy
        self._rules = rules
        self._quotas = quotas
        special = policy.skip_acl or quotas is not None
        self._plain = None if special else PlainProposals(self.outstanding, tracker).prepare
        self._ensemble: EnsembleView | None = None
        # The following fields are about the request that is being prepared.
        self._now = Instant(0, 0)
        self._zxid = Zxid(0)
        self._session_id = SessionId(0)
        self._owner: Owner = 0
        self._auth: Sequence[AuthId] = ()
        self._rights: Sequence[AuthId] = ()
        self._by_op: dict[int, tuple[type[Record], Callable[[Any], Prepared]]] = {
            **{op: (made.request, partial(self._create, op)) for op, made in CREATES.items()},
            OpCode.DELETE: (DeleteRequest, self._delete),
            OpCode.DELETE_CONTAINER: (PathRequest, self._delete_container),
            OpCode.SET_DATA: (SetDataRequest, self._set_data),
            OpCode.SET_ACL: (SetACLRequest, self._set_acl),
            OpCode.CHECK: (CheckVersionRequest, self._check),
            OpCode.CREATE_SESSION: (CreateSessionTxn, self._create_session),
            OpCode.CLOSE_SESSION: (EmptyRequest, self._close_session),
        }

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        """Return the transaction for a request; see `Application.prepare_all`."""
        return self.prepare_all(now, (request,), zxid, origin)[0]

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        """Return the transactions for requests that arrived together; see `Application.prepare_all`."""
        self.outstanding.catch_up()
        owner = LOCAL if origin is None else origin
        plain, time_ms = self._plain, now.wall_ms
        txns: list[Txn] = []
        for request in requests:
            txn = plain(time_ms, request, zxid, owner) if plain is not None else None
            txns.append(txn or self._prepare_any(now, request, zxid, origin))
            zxid = Zxid(zxid + 1)
        return txns

    def _prepare_any(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        self._now = now
        self._zxid = zxid
        self._session_id = request.session_id
        self._owner = LOCAL if origin is None else origin
        self._auth = request.auth
        self._rights = self._policy.rights_of(request.auth)
        op = request.op
        try:
            prepared = self._multi(request.body) if op == _MULTI else self._single(op, request.body)
        except MalformedRecord:
            prepared = ErrorCode.MARSHALLING_ERROR
        if isinstance(prepared, ErrorCode):
            error = ErrorTxn(int(prepared))
            return Txn(request.session_id, request.cxid, zxid, now.wall_ms, OpCode.ERROR, error)
        digest = self.outstanding.digest & _DIGEST_MASK
        return Txn(request.session_id, request.cxid, zxid, now.wall_ms, op, prepared, digest=digest)

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """Return the transaction for a reconfiguration; see `Application.prepare_reconfig`."""
        self._ensemble = ensemble
        return self.prepare(now, request, zxid, origin)

    def applied(self, zxid: Zxid) -> None:
        """Remove the outstanding changes of a transaction that has been applied, because the tree contains them now."""
        self.outstanding.applied(zxid)
        if self._quotas is not None:
            self._quotas.applied(zxid)

    def _single(self, op: int, body: bytes) -> Prepared:
        known = self._by_op.get(op)
        if known is None:
            return self._reconfig(body) if op == OpCode.RECONFIG else ErrorCode.UNIMPLEMENTED
        kind, handler = known
        if op > 0 and op not in CREATES and (self._session_id or op != _DELETE_CONTAINER):
            refusal = self._session_refusal()
            if refusal is not None:
                return refusal
        return handler(kind.decode(body))

    def _session_refusal(self) -> ErrorCode | None:
        owned = self.tracker.standing(self._session_id, self._owner)
        if owned is None:
            return None if self._is_local() else ErrorCode.SESSION_EXPIRED
        return None if owned else ErrorCode.SESSION_MOVED

    def _is_local(self) -> bool:
        """Return whether the request is from a local session of this or another server."""
        local = self.local
        return local is not None and self._session_id not in self.tracker and local.admits(self._session_id)

    def _ephemeral_refusal(self) -> ErrorCode | None:
        """Return the error if the request's session cannot own ephemerals, otherwise None.

        Only a global session can own them (validateCreateRequest).
        """
        local = self.local
        if local is None or self.tracker.is_alive(self._session_id):
            return None
        return ErrorCode.SESSION_EXPIRED if local.upgrading else ErrorCode.EPHEMERAL_ON_LOCAL_SESSION

    # -- single operations -------------------------------------------------------------------------------------------

    def _create(self, op: int, request: CreateRequest | CreateTTLRequest) -> Prepared:
        # Reject invalid flags first, even if the session has moved to another server (validateCreateRequest).
        mode = create_mode(op, request, self._rules)
        if isinstance(mode, ErrorCode):
            return mode
        refusal = self._session_refusal() or (self._ephemeral_refusal() if mode.ephemeral else None)
        if refusal is not None:
            return refusal
        path = request.path
        slash = path.rfind("/")
        if slash == -1 or "\0" in path:
            return ErrorCode.BAD_ARGUMENTS
        acl = fixed_up(request.acl, self._auth, self._policy.schemes)
        if acl is None:
            return ErrorCode.INVALID_ACL
        outstanding = self.outstanding
        parent_path = path[:slash] or ROOT
        parent = outstanding.find(parent_path)
        if parent is None:
            return ErrorCode.NO_NODE
        if not allows(parent.acl, _CREATE, self._rights):
            return ErrorCode.NO_AUTH
        if mode.sequential:
            path = f"{path}{parent.cversion:010d}"
        if not is_valid_path(path):
            return ErrorCode.BAD_ARGUMENTS
        if outstanding.find(path) is not None:
            return ErrorCode.NODE_EXISTS
        if parent.ephemeral_owner and is_ephemeral(parent.ephemeral_owner):
            return ErrorCode.NO_CHILDREN_FOR_EPHEMERALS
        zxid = self._zxid
        if self._quotas is not None:
            if not self._quotas.admits_create(path, request.data):
                return ErrorCode.QUOTA_EXCEEDED
            self._quotas.created(zxid, path, request.data)
        above = outstanding.change(parent_path, parent, zxid)
        above.child_count += 1
        cversion = above.cversion = next_version(above.cversion)
        above.pzxid = zxid
        outstanding.changed(above)
        owner = self._session_id if mode.ephemeral and not mode.lasting_owner else 0
        node = outstanding.create(path, zxid, owner)
        node.born(zxid, self._now.wall_ms, mode.lasting_owner or owner, acl, digest_seed(path, request.data))
        outstanding.changed(node)
        return mode.txn(path, request.data, acl, cversion)

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
        if not allows(parent.acl, _DELETE, self._rights):
            return ErrorCode.NO_AUTH
        node = outstanding.find(path)
        if node is None:
            return ErrorCode.NO_NODE
        if request.version != -1 and request.version != node.version:
            return ErrorCode.BAD_VERSION
        if node.child_count:
            return ErrorCode.NOT_EMPTY
        self._remove(path, parent_path)
        return DeleteTxn(path)

    def _delete_container(self, request: PathRequest) -> Prepared:
        """Prepare the deletion of a container, for the leader itself or for a client with delete permission.

        ZooKeeper checks neither the session nor the ACL, so that in ZooKeeper any client can delete any znode without
        children.

        The leader finds empty containers and expired TTL znodes in the tree. A later proposal may have renewed the time
        to live or replaced the znode; then the deletion is rejected here. ZooKeeper would delete the znode anyway.
        """
        path = request.path
        slash = path.rfind("/")
        if slash == -1 or "\0" in path or path in SYSTEM_PATHS:
            return ErrorCode.BAD_ARGUMENTS
        parent_path = path[:slash] or ROOT
        parent, node = self.outstanding.find(parent_path), self.outstanding.find(path)
        if parent is None:
            return ErrorCode.NO_NODE
        if self._session_id and not allows(parent.acl, _DELETE, self._rights):
            return ErrorCode.NO_AUTH
        if node is None:
            return ErrorCode.NO_NODE
        if node.child_count:
            return ErrorCode.NOT_EMPTY
        if not self._session_id and not has_lapsed(self._now, node, self._rules):
            return ErrorCode.BAD_VERSION
        if is_ephemeral(node.ephemeral_owner):
            return ErrorCode.BAD_VERSION
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
        if self._quotas is not None:
            self._quotas.deleted(self._zxid, path)

    def _set_data(self, request: SetDataRequest) -> Prepared:
        path = request.path
        outstanding = self.outstanding
        node = outstanding.find(path)
        if node is None:
            # Check the path only if the znode does not exist, because the path of an existing znode is valid.
            return ErrorCode.NO_NODE if is_valid_path(path) else ErrorCode.BAD_ARGUMENTS
        if not allows(node.acl, _WRITE, self._rights):
            return ErrorCode.NO_AUTH
        # Check the quota before the version, as PrepRequestProcessor does.
        if self._quotas is not None and not self._quotas.admits_data(path, request.data):
            return ErrorCode.QUOTA_EXCEEDED
        if request.version != -1 and request.version != node.version:
            return ErrorCode.BAD_VERSION
        if self._quotas is not None:
            self._quotas.data_set(self._zxid, path, request.data)
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
        acl = fixed_up(request.acl, self._auth, self._policy.schemes)
        if acl is None:
            return ErrorCode.INVALID_ACL
        node = self.outstanding.find(path)
        if node is None:
            return ErrorCode.NO_NODE
        if not allows(node.acl, _ADMIN, self._rights):
            return ErrorCode.NO_AUTH
        if request.version != -1 and request.version != node.aversion:
            return ErrorCode.BAD_VERSION
        record = self.outstanding.change(path, node, self._zxid)
        record.aversion = next_version(record.aversion)
        # Record the new ACL at once, so that later requests are checked against it before it is committed.
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
        if not allows(node.acl, _READ, self._rights):
            return ErrorCode.NO_AUTH
        if request.version != -1 and request.version != node.version:
            return ErrorCode.BAD_VERSION
        return CheckVersionTxn(path, next_version(node.version))

    def _reconfig(self, body: bytes) -> Prepared:
        """Prepare a reconfiguration.

        The ACL is checked after all other checks that ZooKeeper makes, as in ZooKeeper: a client without permission
        still gets the errors about its request. Checks that only zabka makes come after the ACL check, so a client
        without permission gets the same error as from ZooKeeper.
        """
        ensemble = self._ensemble
        if ensemble is None or not ensemble.enabled:
            return ErrorCode.RECONFIG_DISABLED
        refusal = self._session_refusal()
        if refusal is not None:
            return refusal
        if not ensemble.current.lines:
            return ErrorCode.UNIMPLEMENTED
        membership = new_membership(ReconfigRequest.read_from(Reader(body)), self._zxid, ensemble)
        if isinstance(membership, ErrorCode):
            return membership
        node = self.outstanding.find(CONFIG)
        assert node is not None, "every tree shows its membership"
        if not allows(node.acl, _WRITE, self._rights):
            return ErrorCode.NO_AUTH
        if not can_start(membership, ensemble):
            return ErrorCode.BAD_ARGUMENTS
        record = self.outstanding.change(CONFIG, node, self._zxid)
        record.version, record.mzxid, record.mtime = -1, self._zxid, self._now.wall_ms
        self.outstanding.changed(record)
        return SetDataTxn(CONFIG, membership.text.encode(), -1)

    # -- several operations ------------------------------------------------------------------------------------------

    def _multi(self, body: bytes) -> Prepared:
        """Prepare a multi; if one operation is rejected, roll back all changes.

        The operations before the rejected one remain in the transaction, as in ZooKeeper; a server that applies it
        finds the error and applies none of them.
        """
        ops = [as_in_a_multi(operation) for operation in MultiRequest.read_from(Reader(body)).ops]
        refusal = self._session_refusal()
        mark = self.outstanding.begin_changes()
        quota_mark = self._quotas.mark() if self._quotas is not None else 0
        failed = False
        size = 0
        txns: list[SubTxn] = []
        for op, operation in ops:
            if failed:
                prepared: Prepared = ErrorCode.RUNTIME_INCONSISTENCY
            else:
                known = self._by_op.get(op)
                rejected = None if op in CREATES else refusal
                prepared = rejected or (known[1](operation) if known else ErrorCode.UNIMPLEMENTED)
            data = b"" if isinstance(prepared, ErrorCode) else prepared.encode()
            size += len(data)
            if size > MULTI_BYTES_MAX and not failed:
                prepared = ErrorCode.MARSHALLING_ERROR
            if isinstance(prepared, ErrorCode):
                if not failed:
                    self.outstanding.roll_back(mark)
                    if self._quotas is not None:
                        self._quotas.roll_back(quota_mark)
                    failed = True
                txns.append(SubTxn(OpCode.ERROR, ErrorTxn(int(prepared)).encode()))
            else:
                txns.append(SubTxn(int(op), data))
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
        # Omit a list of ephemerals that is too long for the log and the quorum connections. Ephemerals that are not
        # listed are deleted too.
        return CloseSessionTxn(paths if sum(map(len, paths)) <= LISTED_CHARS_MAX else [])

"""Rules for creating znodes: valid create requests, the owner of the new znode, and its transaction.

Source: CreateMode, EphemeralType, PrepRequestProcessor.pRequest2TxnCreate, MultiOperationRecord. This is the only
module with these rules. The leader uses them for each create (`zabka.ensemble.tree.proposer`), and each server when it
applies one (`zabka.ensemble.tree.datatree`). The fast path (`zabka.ensemble.tree.plain_proposals`) accepts only the
flag PERSISTENT, and a test compares it with the general path. A new kind of znode needs its op and flag
(`zabka.ensemble.records.op_codes`), its request (`zabka.ensemble.records.creates`), its transaction
(`zabka.ensemble.txn`), and its rule here: a flag without a rule is rejected.
"""

from __future__ import annotations

from typing import NamedTuple

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId
from zabka.ensemble.jute import MalformedRecord, Record
from zabka.ensemble.records import (
    ACL,
    CreateFlag,
    CreateRequest,
    CreateTTLRequest,
    MultiOp,
    MultiRequest,
    OpCode,
    Request,
)
from zabka.ensemble.tree_rules import TreeRules
from zabka.ensemble.txn import CreateContainerTxn, CreateTTLTxn, CreateTxn

PERSISTENT = int(CreateFlag.PERSISTENT)
EPHEMERAL = frozenset({int(CreateFlag.EPHEMERAL), int(CreateFlag.EPHEMERAL_SEQUENTIAL)})
_CONTAINER = int(CreateFlag.CONTAINER)
_WITH_TTL = {int(CreateFlag.PERSISTENT_WITH_TTL): False, int(CreateFlag.PERSISTENT_SEQUENTIAL_WITH_TTL): True}
"""Flags of creates with a time to live, and whether the name is sequential."""

# -- owners ----------------------------------------------------------------------------------------------------

CONTAINER_OWNER = -(1 << 63)
"""ephemeralOwner of a container (EphemeralType.CONTAINER_EPHEMERAL_OWNER)."""
_TTL_MARK = 0xFF0000
TTL_MAX_MS = (1 << 40) - 1
"""Maximum time to live, 12,725 days: the ephemeralOwner contains it next to the byte that marks its type."""


def ttl_owner(ttl_ms: int) -> int:
    """Return the ephemeralOwner of a znode with a time to live (EphemeralType.TTL), as a signed 64-bit number.

    Return 0 for an invalid time. ZooKeeper logs such a transaction, crashes on it, and crashes again at every start.
    This server creates a plain znode instead, which agrees with the transaction's digest.
    """
    return ((_TTL_MARK << 40) | ttl_ms) - (1 << 64) if 0 < ttl_ms <= TTL_MAX_MS else 0


def is_ephemeral(owner: int) -> bool:
    """Return whether this ephemeralOwner is a session id, not the mark of a container or of a time to live.

    Session ids of server 255 start with the same byte as a time to live; their next two bytes, which are part of the
    clock, distinguish them.
    """
    return owner != 0 and owner != CONTAINER_OWNER and (owner >> 40) & 0xFFFFFF != _TTL_MARK


_CREATE_REQUESTS = (CreateRequest, CreateTTLRequest)

# -- create modes ------------------------------------------------------------------------------------------------------


class CreateMode(NamedTuple):
    """How a znode is created: whether the client's session owns it, and whether its name is sequential.

    For a container or a znode with a time to live, it also contains the ephemeralOwner that marks the znode (0 for
    others).
    """

    ephemeral: bool
    sequential: bool
    lasting_owner: int

    def txn(self, path: str, data: bytes | None, acl: tuple[ACL, ...], cversion: int) -> Record:
        """Return the transaction that creates the znode. `cversion` is the parent's cversion after the create."""
        owner = self.lasting_owner
        if not owner:
            return CreateTxn(path, data, acl, self.ephemeral, cversion)
        if owner == CONTAINER_OWNER:
            return CreateContainerTxn(path, data, acl, cversion)
        return CreateTTLTxn(path, data, acl, cversion, owner & TTL_MAX_MS)


_ORDINARY = {
    PERSISTENT: CreateMode(ephemeral=False, sequential=False, lasting_owner=0),
    int(CreateFlag.EPHEMERAL): CreateMode(ephemeral=True, sequential=False, lasting_owner=0),
    int(CreateFlag.PERSISTENT_SEQUENTIAL): CreateMode(ephemeral=False, sequential=True, lasting_owner=0),
    int(CreateFlag.EPHEMERAL_SEQUENTIAL): CreateMode(ephemeral=True, sequential=True, lasting_owner=0),
    _CONTAINER: CreateMode(ephemeral=False, sequential=False, lasting_owner=0),
}
"""Create modes of the ops create and create2, keyed by flags; all other flags are rejected.

The flag CONTAINER is accepted in a plain create, and creates an ordinary persistent znode, as in ZooKeeper.
"""


def create_mode(op: int, request: CreateRequest | CreateTTLRequest, rules: TreeRules) -> CreateMode | ErrorCode:
    """Return the create mode that a request asks for, or the error if the request is rejected."""
    flags = request.flags
    if isinstance(request, CreateTTLRequest):
        owner = _owner_with_ttl(request, rules)
        return owner if isinstance(owner, ErrorCode) else CreateMode(False, _WITH_TTL[flags], owner)
    ordinary = _ORDINARY.get(flags)
    if ordinary is None:
        refused_kind = flags in _WITH_TTL and not rules.extended_types
        return ErrorCode.UNIMPLEMENTED if refused_kind else ErrorCode.BAD_ARGUMENTS
    return ordinary._replace(lasting_owner=CONTAINER_OWNER) if op == OpCode.CREATE_CONTAINER else ordinary


def _owner_with_ttl(request: CreateTTLRequest, rules: TreeRules) -> int | ErrorCode:
    """Return the ephemeralOwner of the znode that a createTTL request creates, or the error.

    A createTTL whose flags are for znodes without time to live is always rejected. ZooKeeper accepts it if the time is
    negative, and every server then crashes on the transaction.
    """
    if request.flags not in _WITH_TTL:
        return ErrorCode.BAD_ARGUMENTS
    if not rules.extended_types:
        return ErrorCode.UNIMPLEMENTED
    return ttl_owner(request.ttl_ms) or ErrorCode.BAD_ARGUMENTS


def owner_made_by(body: CreateTxn | CreateContainerTxn | CreateTTLTxn, session_id: SessionId) -> int:
    """Return the ephemeralOwner of the znode that this transaction of the session creates."""
    if isinstance(body, CreateTxn):
        return session_id if body.ephemeral else 0
    return CONTAINER_OWNER if isinstance(body, CreateContainerTxn) else ttl_owner(body.ttl_ms)


def as_in_a_multi(operation: MultiOp) -> MultiOp:
    """Convert a create operation to the form in which a multi contains it (MultiOperationRecord, Op.create).

    The flags take precedence over the op code. Raises MalformedRecord for flags that a multi cannot contain.
    """
    body = operation.body
    if isinstance(body, CreateTTLRequest):
        if body.flags in _WITH_TTL:
            return operation
        op = OpCode.CREATE_CONTAINER if body.flags == _CONTAINER else OpCode.CREATE
        return MultiOp(op, CreateRequest(body.path, body.data, body.acl, body.flags))
    if not isinstance(body, CreateRequest):
        return operation
    if body.flags not in _ORDINARY:
        raise MalformedRecord(f"multi cannot hold a create with the flags {body.flags}")
    return MultiOp(OpCode.CREATE_CONTAINER, body) if body.flags == _CONTAINER else operation


def wants_ephemeral(request: Request) -> bool:
    """Return whether a request would create an ephemeral znode (QuorumZooKeeperServer.checkUpgradeSession)."""
    body = request.body
    if request.op in (OpCode.CREATE, OpCode.CREATE2):
        return isinstance(body, CreateRequest) and body.flags in EPHEMERAL
    if not isinstance(body, MultiRequest):
        return False
    creates = [op.body for op in body.ops if op.op in (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_TTL)]
    return any(isinstance(create, _CREATE_REQUESTS) and create.flags in EPHEMERAL for create in creates)

"""Znodes that go by themselves: containers, once their children are gone, and nodes with a time to live.

What a create may ask for (CreateMode, EphemeralType.validateTTL), and when the leader deletes what has had its time
(ContainerManager).
"""

from __future__ import annotations

from collections import deque

from ensemble.errors import ErrorCode
from ensemble.jute import MalformedRecord, Record
from ensemble.ports import Instant
from ensemble.records import ACL, CreateFlag, CreateRequest, CreateTTLRequest, MultiOp, OpCode
from ensemble.tree.datatree import DataTree
from ensemble.tree.znode import CONTAINER_OWNER, TTL_MAX_MS, Znode, ttl_owner
from ensemble.tree_rules import TreeRules
from ensemble.txn import CreateContainerTxn, CreateTTLTxn

_MINUTE_MS = 60_000
_CONTAINER = int(CreateFlag.CONTAINER)
_WITH_TTL = frozenset({int(CreateFlag.PERSISTENT_WITH_TTL), int(CreateFlag.PERSISTENT_SEQUENTIAL_WITH_TTL)})
_KNOWN = frozenset(int(flag) for flag in CreateFlag)


def refused_flags(flags: int, rules: TreeRules) -> ErrorCode | None:
    """Why a create, create2 or createContainer with these flags is refused; None where it is not.  CONTAINER in a
    plain create passes, and makes a plain node, as in ZooKeeper."""
    if flags in _WITH_TTL and not rules.extended_types:
        return ErrorCode.UNIMPLEMENTED
    return ErrorCode.BAD_ARGUMENTS if flags in _WITH_TTL or flags not in _KNOWN else None


def owner_with_ttl(request: CreateTTLRequest, rules: TreeRules) -> int | ErrorCode:
    """The ephemeralOwner of a node that a createTTL makes, or why it is refused.

    A createTTL whose flags ask for no time to live is refused always.  ZooKeeper lets it pass where the time is
    negative, and every server then dies of the transaction.
    """
    if request.flags not in _WITH_TTL:
        return ErrorCode.BAD_ARGUMENTS
    if not rules.extended_types:
        return ErrorCode.UNIMPLEMENTED
    return ttl_owner(request.ttl_ms) or ErrorCode.BAD_ARGUMENTS


def lasting_txn(path: str, data: bytes | None, acl: tuple[ACL, ...], cversion: int, owner: int) -> Record:
    """The transaction that makes a node with such an ephemeralOwner."""
    if owner == CONTAINER_OWNER:
        return CreateContainerTxn(path, data, acl, cversion)
    return CreateTTLTxn(path, data, acl, cversion, owner & TTL_MAX_MS)


def as_in_a_multi(operation: MultiOp) -> MultiOp:
    """What a multi makes of a create (MultiOperationRecord, Op.create): the flags decide, more than the op code.

    Raises MalformedRecord for flags that a multi cannot hold.
    """
    body = operation.body
    if isinstance(body, CreateTTLRequest):
        if body.flags in _WITH_TTL:
            return operation
        return MultiOp(OpCode.CREATE, CreateRequest(body.path, body.data, body.acl, body.flags))
    if not isinstance(body, CreateRequest):
        return operation
    if body.flags in _WITH_TTL or body.flags not in _KNOWN:
        raise MalformedRecord(f"multi cannot hold a create with the flags {body.flags}")
    return MultiOp(OpCode.CREATE_CONTAINER, body) if body.flags == _CONTAINER else operation


class ContainerCheck:
    """The leader's look at containers and times to live, from time to time; it is asked every `tick_ms`.

    Where many have had their time, they go a few each tick, no more in a minute than the rules allow.
    """

    __slots__ = ("_due", "_each_tick", "_next_ms", "_rules")

    def __init__(self, now: Instant, rules: TreeRules, tick_ms: int) -> None:
        self._rules = rules
        self._next_ms = now.mono_ms + rules.container_check_interval_ms
        self._each_tick = max(1, tick_ms * rules.container_deletes_per_minute // _MINUTE_MS)
        self._due: deque[str] = deque()

    def lapsed(self, now: Instant, tree: DataTree) -> list[str]:
        """Paths to delete now."""
        if now.mono_ms >= self._next_ms:
            interval_ms = self._rules.container_check_interval_ms
            self._next_ms += interval_ms * ((now.mono_ms - self._next_ms) // interval_ms + 1)
            if not self._due:
                self._due.extend(sorted(path for path in tree.lapsing if self._has_lapsed(now, tree.nodes[path])))
        paths: list[str] = []
        while self._due and len(paths) < self._each_tick:
            path = self._due.popleft()
            node = tree.nodes.get(path)
            if node is not None and path in tree.lapsing and self._has_lapsed(now, node):
                paths.append(path)
        return paths

    def _has_lapsed(self, now: Instant, node: Znode) -> bool:
        if node.children:
            return False
        age_ms = now.wall_ms - node.mtime
        if node.ephemeral_owner == CONTAINER_OWNER:
            # One that had no child yet is only waiting for its first.
            return node.cversion > 0 or 0 < self._rules.container_never_used_max_ms < age_ms
        return self._rules.extended_types and age_ms > node.ephemeral_owner & TTL_MAX_MS

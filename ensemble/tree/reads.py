"""Reads, answered from this server's tree (FinalRequestProcessor): what each op says, and which watch it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ensemble.errors import ErrorCode
from ensemble.ids import ConnectionId
from ensemble.records import (
    AnyBody,
    AnyResponse,
    EventType,
    GetACLResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetDataResponse,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Permission,
    SetWatches,
    StatResponse,
)
from ensemble.tree.acl import AuthId, allows, masked
from ensemble.tree.connections import Connection
from ensemble.tree.datatree import DataTree
from ensemble.tree.watches import Watches
from ensemble.tree.znode import Znode

_READ, _ADMIN = int(Permission.READ), int(Permission.ADMIN)

Outcome = tuple[int, AnyResponse | None]
"""(error, response)."""
_OK = int(ErrorCode.OK)
_NO_NODE: Outcome = (int(ErrorCode.NO_NODE), None)
_NO_AUTH: Outcome = (int(ErrorCode.NO_AUTH), None)
_DONE: Outcome = (_OK, None)


def answer_read(tree: DataTree, watches: Watches, connection: Connection, op: int, body: AnyBody) -> Outcome:
    """Work out exists, getData, getChildren, getChildren2 or getACL; a refused read leaves no watch, but for exists."""
    if op == OpCode.GET_ACL:
        return _get_acl(tree.nodes.get(cast(PathRequest, body).path), connection.auth)
    request = cast(PathWatchRequest, body)
    path = request.path
    if op == OpCode.EXISTS:
        if "\0" in path:
            return int(ErrorCode.BAD_ARGUMENTS), None
        if request.watch:
            watches.add_data(path, connection.id)
        node = tree.nodes.get(path)
        return (_OK, StatResponse(node.stat())) if node is not None else _NO_NODE
    node = tree.nodes.get(path)
    if node is None:
        return _NO_NODE
    if not allows(node.acl, _READ, connection.auth):
        return _NO_AUTH
    if op == OpCode.GET_DATA:
        if request.watch:
            watches.add_data(path, connection.id)
        return _OK, GetDataResponse(node.data, node.stat())
    if request.watch:
        watches.add_children(path, connection.id)
    children = list(node.children) if node.children else []
    if op == OpCode.GET_CHILDREN2:
        return _OK, GetChildren2Response(children, node.stat())
    assert op == OpCode.GET_CHILDREN, f"op {op} is no read"
    return _OK, GetChildrenResponse(children)


def _get_acl(node: Znode | None, auth: Sequence[AuthId]) -> Outcome:
    if node is None:
        return _NO_NODE
    if not allows(node.acl, _READ | _ADMIN, auth):
        return _NO_AUTH
    acl = node.acl if allows(node.acl, _ADMIN, auth) else masked(node.acl)
    return _OK, GetACLResponse(acl, node.stat())


def rearm(
    tree: DataTree, watches: Watches, connection: ConnectionId, request: SetWatches
) -> list[tuple[EventType, str]]:
    """setWatches after a reconnect: what the client missed since `relative_zxid`, as events; all else is armed again
    (DataTree.setWatches)."""
    missed: list[tuple[EventType, str]] = []
    since = request.relative_zxid
    for path in request.data_watches:
        node = tree.nodes.get(path)
        if node is None:
            missed.append((EventType.DELETED, path))
        elif node.mzxid > since:
            missed.append((EventType.DATA_CHANGED, path))
        else:
            watches.add_data(path, connection)
    for path in request.exist_watches:
        if path in tree.nodes:
            missed.append((EventType.CREATED, path))
        else:
            watches.add_data(path, connection)
    for path in request.child_watches:
        node = tree.nodes.get(path)
        if node is None:
            missed.append((EventType.DELETED, path))
        elif node.pzxid > since:
            missed.append((EventType.CHILDREN_CHANGED, path))
        else:
            watches.add_children(path, connection)
    return missed

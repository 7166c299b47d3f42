"""Reads from this server's tree (FinalRequestProcessor): return the response of each op, and set its watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import (
    AnyBody,
    AnyResponse,
    GetACLResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetDataResponse,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Permission,
    StatResponse,
)
from zabka.ensemble.tree.acl import allows, masked
from zabka.ensemble.tree.connections import Connection
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.paths import asked_for
from zabka.ensemble.tree.watches import Watches
from zabka.ensemble.tree.znode import Znode

_READ, _ADMIN = int(Permission.READ), int(Permission.ADMIN)

Outcome = tuple[int, AnyResponse | None]
"""(error, response) of a request."""
_OK = int(ErrorCode.OK)
_NO_NODE: Outcome = (int(ErrorCode.NO_NODE), None)
_NO_AUTH: Outcome = (int(ErrorCode.NO_AUTH), None)


def answer_read(tree: DataTree, watches: Watches, connection: Connection, op: int, body: AnyBody) -> Outcome:
    """Return the outcome of exists, getData, getChildren, getChildren2 or getACL.

    A failed exists sets a watch; no other failed read does.
    """
    if op == OpCode.GET_ACL:
        return _get_acl(tree.nodes.get(asked_for(cast(PathRequest, body).path)), connection.rights)
    request = cast(PathWatchRequest, body)
    path = request.path
    if op == OpCode.EXISTS:
        if "\0" in path:
            return int(ErrorCode.BAD_ARGUMENTS), None
        node = tree.nodes.get(asked_for(path))
        if node is not None and not allows(node.acl, _READ, connection.rights):
            return _NO_AUTH
        if request.watch:
            watches.add_data(path, connection.id)
        return (_OK, StatResponse(node.stat())) if node is not None else _NO_NODE
    node = tree.nodes.get(asked_for(path))
    if node is None:
        return _NO_NODE
    if not allows(node.acl, _READ, connection.rights):
        return _NO_AUTH
    if op == OpCode.GET_DATA:
        if request.watch:
            watches.add_data(path, connection.id)
        return _OK, GetDataResponse(node.data, node.stat())
    if request.watch:
        watches.add_children(path, connection.id)
    children = node.children
    if op == OpCode.GET_CHILDREN2:
        return _OK, GetChildren2Response(children, node.stat())
    assert op == OpCode.GET_CHILDREN, f"op {op} is no read"
    return _OK, GetChildrenResponse(children)


def _get_acl(node: Znode | None, rights: Sequence[AuthId]) -> Outcome:
    if node is None:
        return _NO_NODE
    if not allows(node.acl, _READ | _ADMIN, rights):
        return _NO_AUTH
    acl = node.acl if allows(node.acl, _ADMIN, rights) else masked(node.acl)
    return _OK, GetACLResponse(acl, node.stat())

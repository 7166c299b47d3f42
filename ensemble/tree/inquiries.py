"""Replies to rare requests without a transaction: watches, multiRead, ephemerals, subtree sizes, identities.

They are computed from this server's tree, in the order of the session's requests (FinalRequestProcessor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zabka.ensemble.auth.schemes import DIGEST, SUPER
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.jute import Record
from zabka.ensemble.records import (
    AddWatchRequest,
    AnyBody,
    ClientInfo,
    EmptyRequest,
    ErrorResponse,
    GetAllChildrenNumberResponse,
    GetEphemeralsResponse,
    MultiReadRequest,
    MultiResponse,
    MultiResult,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Permission,
    WatchesRequest,
    WhoAmIResponse,
)
from zabka.ensemble.tree.acl import allows
from zabka.ensemble.tree.backlog import MULTI_READ_BYTES_MAX, bytes_of
from zabka.ensemble.tree.connections import Connection
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.paths import ROOT, asked_for
from zabka.ensemble.tree.reads import Outcome, answer_read
from zabka.ensemble.tree.watch_requests import add_watch, check_watches, remove_watches
from zabka.ensemble.tree.watches import Watches

_READ = int(Permission.READ)
_OK, _NO_NODE, _NO_AUTH = int(ErrorCode.OK), int(ErrorCode.NO_NODE), int(ErrorCode.NO_AUTH)


def answer_inquiry(tree: DataTree, watches: Watches, client: Connection, op: int, body: AnyBody) -> Outcome:
    """Return the outcome of a request whose op is in `INQUIRIES`."""
    return INQUIRIES[op](tree, watches, client, body)


def _add_watch(tree: DataTree, watches: Watches, client: Connection, body: AddWatchRequest) -> Outcome:
    error = add_watch(watches, client.id, body)
    return error, ErrorResponse(0) if error == _OK else None


def _check_watches(tree: DataTree, watches: Watches, client: Connection, body: WatchesRequest) -> Outcome:
    return check_watches(watches, client.id, body), None


def _remove_watches(tree: DataTree, watches: Watches, client: Connection, body: WatchesRequest) -> Outcome:
    return remove_watches(watches, client.id, body), None


def _multi_read(tree: DataTree, watches: Watches, client: Connection, body: MultiReadRequest) -> Outcome:
    """Run each read of a multiRead separately, without watches; a failed read does not affect the others.

    Reads that would exceed the size limit of the reply fail; ZooKeeper would run out of memory.
    """
    results: list[MultiResult] = []
    size = 0
    for op, read in body.ops:
        assert isinstance(read, PathWatchRequest)
        if size < MULTI_READ_BYTES_MAX:
            error, response = answer_read(tree, watches, client, op, PathWatchRequest(read.path, False))
            size += bytes_of(response)
        else:
            error, response = int(ErrorCode.MARSHALLING_ERROR), None
        if error:
            results.append(MultiResult(OpCode.ERROR, error, None))
        else:
            results.append(MultiResult(op, _OK, response if isinstance(response, Record) else EmptyRequest()))
    return _OK, MultiResponse(results)


def _get_ephemerals(tree: DataTree, watches: Watches, client: Connection, body: PathRequest) -> Outcome:
    """Return the ephemerals of the client's session whose paths begin with the given prefix."""
    owned = sorted(tree.ephemerals.get(client.session_id, ()))
    prefix = body.path
    if prefix.strip() not in ("", ROOT):
        owned = [path for path in owned if path.startswith(prefix)]
    return _OK, GetEphemeralsResponse(owned)


def _get_all_children_number(tree: DataTree, watches: Watches, client: Connection, body: PathRequest) -> Outcome:
    path = asked_for(body.path)
    node = tree.nodes.get(path)
    if node is None:
        return _NO_NODE, None
    if not allows(node.acl, _READ, client.rights):
        return _NO_AUTH, None
    # With the empty path, the root itself is counted too, because its path begins with the empty path and a slash
    # (DataTree.getAllChildrenNumber).
    return _OK, GetAllChildrenNumberResponse(subtree_size(tree, path) - (1 if body.path else 0))


def subtree_size(tree: DataTree, path: str) -> int:
    """Return the number of znodes at and below a path; 0 if the path does not exist."""
    if path == ROOT:
        return len(tree.nodes)
    return (path in tree.nodes) + sum(map(len, tree.nodes.subtree(path)))


def _who_am_i(tree: DataTree, watches: Watches, client: Connection, body: EmptyRequest) -> Outcome:
    """Return the identities of the connection. A digest identity has only its user name (AuthUtil.getClientInfos)."""
    infos = [
        ClientInfo(scheme, identity.partition(":")[0] if scheme == DIGEST else "" if scheme == SUPER else identity)
        for scheme, identity in client.auth
    ]
    return _OK, WhoAmIResponse(infos)


INQUIRIES: dict[int, Callable[[DataTree, Watches, Connection, Any], Outcome]] = {
    OpCode.ADD_WATCH: _add_watch,
    OpCode.CHECK_WATCHES: _check_watches,
    OpCode.REMOVE_WATCHES: _remove_watches,
    OpCode.MULTI_READ: _multi_read,
    OpCode.GET_EPHEMERALS: _get_ephemerals,
    OpCode.GET_ALL_CHILDREN_NUMBER: _get_all_children_number,
    OpCode.WHO_AM_I: _who_am_i,
}

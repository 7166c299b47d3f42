"""Requests about watches: set them again after a reconnect, add persistent ones, check and remove them.

Source: FinalRequestProcessor and DataTree (setWatches, addWatch, containsWatcher, removeWatch).
"""

from __future__ import annotations

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import (
    AddWatchMode,
    AddWatchRequest,
    EventType,
    SetWatches,
    SetWatches2,
    WatcherType,
    WatchesRequest,
)
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.paths import asked_for
from zabka.ensemble.tree.watches import Watches

_OK, _NO_WATCHER = int(ErrorCode.OK), int(ErrorCode.NO_WATCHER)
_MARSHALLING_ERROR = int(ErrorCode.MARSHALLING_ERROR)
_MODES = frozenset(int(mode) for mode in AddWatchMode)
_TYPES = frozenset(int(kind) for kind in WatcherType)

Missed = list[tuple[EventType, str]]


def rearm(tree: DataTree, watches: Watches, connection: ConnectionId, request: SetWatches | SetWatches2) -> Missed:
    """Process setWatches after a reconnect: return the events missed since `relative_zxid`; set the other watches.

    A persistent watch is always set, and the events that it missed are not sent.
    """
    missed: Missed = []
    since = request.relative_zxid
    for path in request.data_watches:
        node = tree.nodes.get(asked_for(path))
        if node is None:
            missed.append((EventType.DELETED, path))
        elif node.mzxid > since:
            missed.append((EventType.DATA_CHANGED, path))
        else:
            watches.add_data(path, connection)
    for path in request.exist_watches:
        if asked_for(path) in tree.nodes:
            missed.append((EventType.CREATED, path))
        else:
            watches.add_data(path, connection)
    for path in request.child_watches:
        node = tree.nodes.get(asked_for(path))
        if node is None:
            missed.append((EventType.DELETED, path))
        elif node.pzxid > since:
            missed.append((EventType.CHILDREN_CHANGED, path))
        else:
            watches.add_children(path, connection)
    if isinstance(request, SetWatches2):
        for path in request.persistent_watches:
            watches.add_persistent(path, connection)
        for path in request.persistent_recursive_watches:
            watches.add_recursive(path, connection)
    return missed


def add_watch(watches: Watches, connection: ConnectionId, request: AddWatchRequest) -> int:
    """Process addWatch; return an error code, or 0.

    The client needs no read permission, because a client that cannot read the znode gets no events. The znode need not
    exist. A request with an unknown mode is malformed, as in ZooKeeper.
    """
    if request.mode not in _MODES:
        return _MARSHALLING_ERROR
    if request.mode == AddWatchMode.PERSISTENT:
        watches.add_persistent(request.path, connection)
    else:
        watches.add_recursive(request.path, connection)
    return _OK


def check_watches(watches: Watches, connection: ConnectionId, request: WatchesRequest) -> int:
    """Process checkWatches: return OK if the connection has a watch of this kind on the path, otherwise NO_WATCHER."""
    if request.type not in _TYPES:
        return _MARSHALLING_ERROR
    return _OK if watches.has(request.path, WatcherType(request.type), connection) else _NO_WATCHER


def remove_watches(watches: Watches, connection: ConnectionId, request: WatchesRequest) -> int:
    """Process removeWatches.

    No event is sent: the client itself determines which of its watchers were removed.
    """
    if request.type not in _TYPES:
        return _MARSHALLING_ERROR
    return _OK if watches.remove(request.path, WatcherType(request.type), connection) else _NO_WATCHER

"""One-shot watches (WatchManager): data and exists watches share one table, child watches have another.

A watch belongs to a connection and fires once.  Connections are told in the order in which they set their watches.
"""

from __future__ import annotations

from typing import NamedTuple

from ensemble.ids import ConnectionId
from ensemble.records import EventType
from ensemble.tree.datatree import Change


class WatchCounts(NamedTuple):
    """What `wchs` and `mntr` say."""

    watches: int
    connections: int
    paths: int


class _Table:
    """Watches of one kind: by path and, so that a connection's end costs only its own, by connection."""

    __slots__ = ("by_connection", "by_path", "count")

    def __init__(self) -> None:
        self.by_path: dict[str, dict[ConnectionId, None]] = {}
        self.by_connection: dict[ConnectionId, dict[str, None]] = {}
        self.count = 0

    def add(self, path: str, connection: ConnectionId) -> None:
        watchers = self.by_path.setdefault(path, {})
        if connection not in watchers:
            watchers[connection] = None
            self.by_connection.setdefault(connection, {})[path] = None
            self.count += 1

    def take(self, path: str) -> dict[ConnectionId, None]:
        watchers = self.by_path.pop(path, None)
        if watchers is None:
            return {}
        for connection in watchers:
            paths = self.by_connection[connection]
            del paths[path]
            if not paths:
                del self.by_connection[connection]
        self.count -= len(watchers)
        return watchers

    def forget(self, connection: ConnectionId) -> None:
        paths = self.by_connection.pop(connection, None)
        if paths is None:
            return
        self.count -= len(paths)
        for path in paths:
            watchers = self.by_path[path]
            del watchers[connection]
            if not watchers:
                del self.by_path[path]


class Fired(NamedTuple):
    """Connections to tell about one event.  `of_parent` says that the event is about the changed node's parent."""

    event: EventType
    path: str
    connections: dict[ConnectionId, None]
    of_parent: bool


class Watches:
    """All watches of one server."""

    __slots__ = ("_children", "_data")

    def __init__(self) -> None:
        self._data = _Table()
        self._children = _Table()

    def __len__(self) -> int:
        return self._data.count + self._children.count

    def add_data(self, path: str, connection: ConnectionId) -> None:
        """Left by getData and exists."""
        self._data.add(path, connection)

    def add_children(self, path: str, connection: ConnectionId) -> None:
        """Left by getChildren."""
        self._children.add(path, connection)

    def forget(self, connection: ConnectionId) -> None:
        """The connection is gone."""
        self._data.forget(connection)
        self._children.forget(connection)

    def clear(self) -> None:
        """Forget every watch."""
        self._data = _Table()
        self._children = _Table()

    def fire(self, change: Change) -> list[Fired]:
        """Take the watches that a change to a znode sets off: those on the node, then those on its parent's children.
        A connection that watched a deleted node's data and children hears of it once."""
        fired: list[Fired] = []
        event, path, parent = change.event, change.path, change.parent
        watchers = self._data.take(path)
        if event is EventType.DELETED and path in self._children.by_path:
            watchers = watchers | self._children.take(path)
        if watchers:
            fired.append(Fired(event, path, watchers, False))
        if parent is not None and parent in self._children.by_path:
            fired.append(Fired(EventType.CHILDREN_CHANGED, parent, self._children.take(parent), True))
        return fired

    def watchers_of(self, path: str) -> list[tuple[ConnectionId, str]]:
        """Who watches a path: (connection, "data" or "children")."""
        data = [(connection, "data") for connection in self._data.by_path.get(path, ())]
        return data + [(connection, "children") for connection in self._children.by_path.get(path, ())]

    def counts(self) -> WatchCounts:
        """How many watches, of how many connections, on how many paths."""
        connections = len(self._data.by_connection.keys() | self._children.by_connection.keys())
        return WatchCounts(len(self), connections, len(self._data.by_path.keys() | self._children.by_path.keys()))

    def by_path(self) -> dict[str, list[ConnectionId]]:
        """Every watched path, sorted, with its watchers (`wchp`)."""
        found: dict[str, dict[ConnectionId, None]] = {}
        for table in (self._data, self._children):
            for path, watchers in table.by_path.items():
                found.setdefault(path, {}).update(watchers)
        return {path: list(found[path]) for path in sorted(found)}

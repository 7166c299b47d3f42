"""Watches (WatchManager): one-shot watches on data and on children, and persistent watches set by addWatch.

A watch is set by one connection. A one-shot watch fires once: data and exists watches are in one table, child watches
in another. A persistent watch remains after it fires, and gets both data and child events. A recursive watch gets the
events of its whole subtree, but no CHILDREN_CHANGED. A connection gets each event once, even if several of its watches
match. Connections are notified in the order of their watches: first one-shot, then persistent, then recursive watches
from the znode upwards.
"""

from __future__ import annotations

from typing import NamedTuple

from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import EventType, WatcherType
from zabka.ensemble.tree.outcomes import Change


class WatchCounts(NamedTuple):
    """Counts of watches, connections and paths, for `wchs` and `mntr`."""

    watches: int
    connections: int
    paths: int


class _Shared(dict[ConnectionId, None]):
    """Connections that watch a path, if there is more than one.

    `path` is the string object that the tables of all these connections share, so that ten thousand watches on a path
    do not store ten thousand copies of it.
    """

    __slots__ = ("path",)

    path: str


_Watchers = ConnectionId | _Shared


class _Table:
    """Watches of one kind, keyed by path and also by connection.

    Because of the second key, the time to remove a closed connection depends only on the number of its own watches.
    Most paths have one watcher, which is stored directly, without a dict.
    """

    __slots__ = ("by_connection", "by_path", "count")

    def __init__(self) -> None:
        self.by_path: dict[str, _Watchers] = {}
        self.by_connection: dict[ConnectionId, dict[str, None]] = {}
        self.count = 0

    def add(self, path: str, connection: ConnectionId) -> None:
        watchers = self.by_path.get(path)
        if watchers is None:
            self.by_path[path] = connection
        elif isinstance(watchers, _Shared):
            if connection in watchers:
                return
            watchers[connection] = None
            path = watchers.path
        elif watchers == connection:
            return
        else:
            shared = self.by_path[path] = _Shared({watchers: None, connection: None})
            shared.path = path
        self.by_connection.setdefault(connection, {})[path] = None
        self.count += 1

    def has(self, path: str, connection: ConnectionId) -> bool:
        return path in self.by_connection.get(connection, ())

    def watchers(self, path: str) -> dict[ConnectionId, None]:
        """Return the connections that watch a path, oldest watch first; the result must not be changed."""
        watchers = self.by_path.get(path)
        if watchers is None:
            return {}
        return watchers if isinstance(watchers, _Shared) else {watchers: None}

    def remove_watchers(self, path: str) -> dict[ConnectionId, None]:
        """Remove all watches on a path; return their connections."""
        taken = self.by_path.pop(path, None)
        if taken is None:
            return {}
        watchers: dict[ConnectionId, None] = taken if isinstance(taken, _Shared) else {taken: None}
        for connection in watchers:
            paths = self.by_connection[connection]
            del paths[path]
            if not paths:
                del self.by_connection[connection]
        self.count -= len(watchers)
        return watchers

    def remove(self, path: str, connection: ConnectionId) -> bool:
        """Remove one watch; return whether it existed."""
        paths = self.by_connection.get(connection)
        if paths is None or path not in paths:
            return False
        del paths[path]
        if not paths:
            del self.by_connection[connection]
        self._unlist(path, connection)
        return True

    def forget(self, connection: ConnectionId) -> None:
        """Remove every watch of a connection."""
        for path in self.by_connection.pop(connection, ()):
            self._unlist(path, connection)

    def _unlist(self, path: str, connection: ConnectionId) -> None:
        watchers = self.by_path[path]
        if isinstance(watchers, _Shared):
            del watchers[connection]
        if not isinstance(watchers, _Shared) or not watchers:
            del self.by_path[path]
        self.count -= 1


class Fired(NamedTuple):
    """Connections to notify of one event. `of_parent`: the event is about the parent of the changed znode."""

    event: EventType
    path: str
    connections: dict[ConnectionId, None]
    of_parent: bool


class Watches:
    """All watches of one server."""

    __slots__ = ("_children", "_data", "_persistent", "_recursive", "watched")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove every watch."""
        self._data = _Table()
        self._children = _Table()
        self._persistent = _Table()
        self._recursive = _Table()
        self.watched = tuple(table.by_path for table in self._tables())
        """Watches of each kind, keyed by path. All dicts are empty while there are no watches."""

    def __len__(self) -> int:
        """Return the number of watches as ZooKeeper counts them.

        A persistent watch counts twice, for data and for children.
        """
        return self._data.count + self._children.count + 2 * self._persistent.count + self._recursive.count

    def _tables(self) -> tuple[_Table, ...]:
        return self._data, self._children, self._persistent, self._recursive

    def add_data(self, path: str, connection: ConnectionId) -> None:
        """Add a watch set by getData or exists."""
        self._data.add(path, connection)

    def add_children(self, path: str, connection: ConnectionId) -> None:
        """Add a watch set by getChildren."""
        self._children.add(path, connection)

    def add_persistent(self, path: str, connection: ConnectionId) -> None:
        """Add a persistent watch set by addWatch, which remains after it fires."""
        self._persistent.add(path, connection)

    def add_recursive(self, path: str, connection: ConnectionId) -> None:
        """Add a recursive watch set by addWatch, which remains after it fires and covers the whole subtree."""
        self._recursive.add(path, connection)

    def has(self, path: str, kind: WatcherType, connection: ConnectionId) -> bool:
        """Return whether a connection has a watch of this kind on a path."""
        return any(table.has(path, connection) for table in self._of(kind))

    def remove(self, path: str, kind: WatcherType, connection: ConnectionId) -> bool:
        """Remove a connection's watches of this kind on a path; return whether there were any."""
        removed = [table.remove(path, connection) for table in self._of(kind)]
        return True in removed

    def _of(self, kind: WatcherType) -> tuple[_Table, ...]:
        match kind:
            case WatcherType.CHILDREN:
                return (self._children,)
            case WatcherType.DATA:
                return (self._data,)
            case WatcherType.PERSISTENT:
                return (self._persistent,)
            case WatcherType.PERSISTENT_RECURSIVE:
                return (self._recursive,)
            case WatcherType.ANY:
                return self._tables()

    def forget(self, connection: ConnectionId) -> None:
        """Remove the watches of a closed connection."""
        for table in self._tables():
            table.forget(connection)

    def fire(self, change: Change) -> list[Fired]:
        """Return the connections to notify of a change, first for the znode's own event, then for its parent's child
        event.

        A connection that watches both data and children of a deleted znode is notified once. One-shot watches are
        removed.
        """
        fired: list[Fired] = []
        event, path, parent = change.event, change.path, change.parent
        watchers = self._data.remove_watchers(path)
        if event is EventType.DELETED and path in self._children.by_path:
            watchers = watchers | self._children.remove_watchers(path)
        persistent = self._persistent
        if persistent.count:
            watchers = watchers | persistent.watchers(path)
        if self._recursive.count:
            watchers = watchers | self._recursive_watchers(path)
        if watchers:
            fired.append(Fired(event, path, watchers, False))
        if parent is not None:
            watchers = self._children.remove_watchers(parent)
            if persistent.count:
                watchers = watchers | persistent.watchers(parent)
            if watchers:
                fired.append(Fired(EventType.CHILDREN_CHANGED, parent, watchers, True))
        return fired

    def _recursive_watchers(self, path: str) -> dict[ConnectionId, None]:
        """Return the connections with a recursive watch on this path or on a path above it.

        It takes one look-up per path component.
        """
        found: dict[ConnectionId, None] = {}
        by_path = self._recursive.by_path
        while path:
            if path in by_path:
                found.update(self._recursive.watchers(path))
            path = path[: path.rfind("/")]
        if "/" in by_path:
            found.update(self._recursive.watchers("/"))
        return found

    def watchers_of(self, path: str) -> list[tuple[ConnectionId, str]]:
        """Return the watchers of a path as (connection, kind): "data", "children", "persistent" or "recursive"."""
        kinds = ("data", "children", "persistent", "recursive")
        return [
            (connection, kind)
            for kind, table in zip(kinds, self._tables(), strict=True)
            for connection in table.watchers(path)
        ]

    def counts(self) -> WatchCounts:
        """Return the number of watches, of connections that have watches, and of watched paths."""
        connections: dict[ConnectionId, dict[str, None]] = {}
        paths: dict[str, _Watchers] = {}
        for table in self._tables():
            connections |= table.by_connection
            paths |= table.by_path
        return WatchCounts(len(self), len(connections), len(paths))

    def by_path(self) -> dict[str, list[ConnectionId]]:
        """Return every watched path, sorted, with the connections that watch it (`wchp`)."""
        found: dict[str, dict[ConnectionId, None]] = {}
        for table in self._tables():
            for path in table.by_path:
                found.setdefault(path, {}).update(table.watchers(path))
        return {path: list(found[path]) for path in sorted(found)}

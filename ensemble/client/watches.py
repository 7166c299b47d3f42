"""Watches of a session: finds the watchers of an event, and sets the watches again after a reconnect.

Source: org.apache.zookeeper.ZKWatchManager and ClientCnxn.SendThread.primeConnection. Paths include the chroot, as on
the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain

from zabka.ensemble.client.service import Watcher, WatchEvent
from zabka.ensemble.records import EventType, SetWatches, SetWatches2, WatcherType

SET_WATCHES_BYTES_MAX = 128 * 1024
"""Maximum size of all paths in one setWatches request, as in ClientCnxn; well below the servers' packet limit."""


class WatchKind(Enum):
    """Kinds of watches, by the operation that sets them."""

    DATA = "data"
    EXISTS = "exists"
    CHILDREN = "children"
    PERSISTENT = "persistent"
    RECURSIVE = "recursive"


Left = tuple[WatchKind, str, Watcher]
"""A watch that takes effect when the reply to its request arrives: (kind, path including the chroot, watcher)."""
_Table = dict[str, dict[Watcher, None]]
_ONE_SHOT_DATA = (WatchKind.DATA, WatchKind.EXISTS)
_KINDS: dict[WatcherType, tuple[WatchKind, ...]] = {
    WatcherType.CHILDREN: (WatchKind.CHILDREN,),
    WatcherType.DATA: _ONE_SHOT_DATA,
    WatcherType.ANY: tuple(WatchKind),
    WatcherType.PERSISTENT: (WatchKind.PERSISTENT,),
    WatcherType.PERSISTENT_RECURSIVE: (WatchKind.RECURSIVE,),
}


class Watches:
    """One-shot and persistent watches, keyed by kind and path.

    Adding the same watcher to a path twice results in one watch, as in ZooKeeper.
    """

    __slots__ = ("_children", "_data", "_exists", "_persistent", "_recursive")

    def __init__(self) -> None:
        self._data: _Table = {}
        self._exists: _Table = {}
        self._children: _Table = {}
        self._persistent: _Table = {}
        self._recursive: _Table = {}

    def __len__(self) -> int:
        return sum(len(watchers) for table in self._tables() for watchers in table.values())

    def _tables(self) -> tuple[_Table, ...]:
        """Return the watch tables in the order of setWatches2's lists."""
        return self._data, self._exists, self._children, self._persistent, self._recursive

    def add(self, kind: WatchKind, path: str, watcher: Watcher, *, exists: bool) -> None:
        """Add a watch; an EXISTS watch is stored as a data watch if the znode exists."""
        if kind is WatchKind.CHILDREN:
            table = self._children
        elif kind is WatchKind.PERSISTENT:
            table = self._persistent
        elif kind is WatchKind.RECURSIVE:
            table = self._recursive
        else:
            table = self._data if exists else self._exists
        table.setdefault(path, {})[watcher] = None

    def take_watchers(self, event: WatchEvent) -> list[Watcher]:
        """Return the watchers of an event, each once, and remove their one-shot watches.

        The event's path includes the chroot.
        """
        if event.type in (EventType.CREATED, EventType.DATA_CHANGED):
            tables: tuple[_Table, ...] = (self._data, self._exists)
        elif event.type is EventType.CHILDREN_CHANGED:
            tables = (self._children,)
        elif event.type is EventType.DELETED:
            tables = (self._data, self._exists, self._children)
        else:
            return []
        found: dict[Watcher, None] = {}
        for table in tables:
            found.update(table.pop(event.path, {}))
        found.update(self._persistent.get(event.path, {}))
        # Recursive watches get no CHILDREN_CHANGED events; other watches on the same path do.
        if self._recursive and event.type is not EventType.CHILDREN_CHANGED:
            path = event.path
            while path:
                found.update(self._recursive.get(path, {}))
                path = path[: path.rfind("/")]
            found.update(self._recursive.get("/", {}))
        return list(found)

    def take_all(self) -> list[tuple[str, Watcher]]:
        """Remove all watches; return each (path, watcher) once."""
        found: dict[tuple[str, Watcher], None] = {}
        for table in self._tables():
            for path, watchers in table.items():
                found.update({(path, watcher): None for watcher in watchers})
            table.clear()
        return list(found)

    def remove(self, kind: WatcherType, path: str, watcher: Watcher | None) -> list[tuple[EventType, Watcher]]:
        """Remove one watcher (or all, if None) of this kind from a path.

        Return each removed watcher with the event type to notify it of.
        """
        removed: dict[tuple[EventType, Watcher], None] = {}
        for event, table in self._of(kind):
            watchers = table.get(path, {})
            for each in list(watchers) if watcher is None else [watcher] if watcher in watchers else []:
                del watchers[each]
                removed[event, each] = None
            if not watchers:
                table.pop(path, None)
        return list(removed)

    def has(self, kind: WatcherType, path: str, watcher: Watcher) -> bool:
        """Return whether this watcher has a watch of this kind on the path."""
        return any(watcher in table.get(path, ()) for _, table in self._of(kind))

    def others(self, kind: WatcherType, path: str, watcher: Watcher, under_way: Iterable[Left]) -> bool:
        """Return whether the path has, or will have, a watch of this kind by another watcher.

        `under_way`: the watches that requests in flight will set.
        """
        asked = (other for left, at, other in under_way if at == path and left in _KINDS[kind])
        have = (other for _, table in self._of(kind) for other in table.get(path, ()))
        return any(other is not watcher for other in chain(have, asked))

    def _of(self, kind: WatcherType) -> list[tuple[EventType, _Table]]:
        found: list[tuple[EventType, _Table]] = []
        if kind in (WatcherType.CHILDREN, WatcherType.ANY):
            found.append((EventType.CHILD_WATCH_REMOVED, self._children))
        if kind in (WatcherType.DATA, WatcherType.ANY):
            found += [(EventType.DATA_WATCH_REMOVED, table) for table in (self._data, self._exists)]
        if kind in (WatcherType.PERSISTENT, WatcherType.ANY):
            found.append((EventType.PERSISTENT_WATCH_REMOVED, self._persistent))
        if kind in (WatcherType.PERSISTENT_RECURSIVE, WatcherType.ANY):
            found.append((EventType.PERSISTENT_WATCH_REMOVED, self._recursive))
        return found

    def rearm(self, last_zxid: int, bytes_max: int = SET_WATCHES_BYTES_MAX) -> list[SetWatches | SetWatches2]:
        """Return setWatches requests for all watches, each with at most `bytes_max` bytes of paths (ZOOKEEPER-706).

        setWatches2 is used only for persistent watches, because only a server that supports setWatches2 can have set
        them.
        """
        batches: list[SetWatches2] = []
        size = bytes_max + 1
        for kind, path in self._paths():
            needed = 4 + 3 * len(path)  # at most three bytes per UTF-16 unit; exactness matters only near the limit
            if size + needed > bytes_max:
                batches.append(SetWatches2(last_zxid, [], [], [], [], []))
                size = 0
            size += needed
            batch = batches[-1]
            lists = (
                batch.data_watches, batch.exist_watches, batch.child_watches, batch.persistent_watches,
                batch.persistent_recursive_watches,
            )  # fmt: skip
            lists[kind].append(path)
        return [_simplest(batch) for batch in batches]

    def _paths(self) -> Iterator[tuple[int, str]]:
        for kind, table in enumerate(self._tables()):
            for path in table:
                yield kind, path


def _simplest(batch: SetWatches2) -> SetWatches | SetWatches2:
    if batch.persistent_watches or batch.persistent_recursive_watches:
        return batch
    return SetWatches(batch.relative_zxid, batch.data_watches, batch.exist_watches, batch.child_watches)

"""The watches a session has left: who to call for which event, and how to re-arm them on another server.

Source: org.apache.zookeeper.ZKWatchManager and ClientCnxn.SendThread.primeConnection.  Paths are the server's (with the
chroot).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from ensemble.client.service import Watcher, WatchEvent
from ensemble.records import EventType, SetWatches

SET_WATCHES_BYTES_MAX = 128 * 1024
"""Paths in one setWatches, as in ClientCnxn: well below the servers' packet limit."""


class WatchKind(Enum):
    """What left the watch."""

    DATA = "data"
    EXISTS = "exists"
    CHILDREN = "children"


_Table = dict[str, dict[Watcher, None]]


class Watches:
    """One-shot watches by kind and path.  The same watcher twice on a path is one watch, as in ZooKeeper."""

    __slots__ = ("_children", "_data", "_exists")

    def __init__(self) -> None:
        self._data: _Table = {}
        self._exists: _Table = {}
        self._children: _Table = {}

    def __len__(self) -> int:
        return sum(len(watchers) for table in self._tables() for watchers in table.values())

    def _tables(self) -> tuple[_Table, _Table, _Table]:
        return self._data, self._exists, self._children

    def add(self, kind: WatchKind, path: str, watcher: Watcher, *, exists: bool) -> None:
        """Leave a watch; an EXISTS one is a data watch where the znode exists."""
        if kind is WatchKind.CHILDREN:
            table = self._children
        elif exists:
            table = self._data
        else:
            table = self._exists
        table.setdefault(path, {})[watcher] = None

    def take(self, event: WatchEvent) -> list[Watcher]:
        """Remove and return the watchers that an event (path as on the server) calls, each once."""
        if event.type in (EventType.CREATED, EventType.DATA_CHANGED):
            tables: tuple[_Table, ...] = (self._data, self._exists)
        elif event.type is EventType.CHILDREN_CHANGED:
            tables = (self._children,)
        elif event.type is EventType.DELETED:
            tables = self._tables()
        else:
            return []
        found: dict[Watcher, None] = {}
        for table in tables:
            found.update(table.pop(event.path, {}))
        return list(found)

    def take_all(self) -> list[tuple[str, Watcher]]:
        """Remove and return every watcher, once for each path."""
        found: dict[tuple[str, Watcher], None] = {}
        for table in self._tables():
            for path, watchers in table.items():
                found.update({(path, watcher): None for watcher in watchers})
            table.clear()
        return list(found)

    def rearm(self, last_zxid: int, bytes_max: int = SET_WATCHES_BYTES_MAX) -> list[SetWatches]:
        """setWatches requests for everything left, each below `bytes_max` of paths."""
        batches: list[SetWatches] = []
        size = bytes_max + 1
        for kind, path in self._paths():
            needed = 4 + 3 * len(path)  # at most three bytes a UTF-16 unit; exact only matters near the limit
            if size + needed > bytes_max:
                batches.append(SetWatches(last_zxid, [], [], []))
                size = 0
            size += needed
            batch = batches[-1]
            (batch.data_watches, batch.exist_watches, batch.child_watches)[kind].append(path)
        return batches

    def _paths(self) -> Iterator[tuple[int, str]]:
        for kind, table in enumerate(self._tables()):
            for path in table:
                yield kind, path

"""Records for watch requests, and for the small query requests added after ZooKeeper 3.4.

Source: zookeeper.jute (SetWatches2, AddWatchRequest, CheckWatchesRequest, WhoAmIResponse, ...), ZooDefs.AddWatchModes
and Watcher.WatcherType.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from zabka.ensemble.jute import INT, LONG, STRING, Codec, Record, record, vector
from zabka.ensemble.records.data import STRINGS


class AddWatchMode(IntEnum):
    """The `mode` of an addWatch. A recursive watch covers the whole subtree and gets no CHILDREN_CHANGED events."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class WatcherType(IntEnum):
    """Type of watches that checkWatches and removeWatches apply to; CHILDREN and DATA are the one-shot watches."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class SetWatches(Record):
    """Request body of setWatches: set watches again after a reconnect."""

    relative_zxid: int
    data_watches: list[str]
    exist_watches: list[str]
    child_watches: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (LONG, STRINGS, STRINGS, STRINGS)


class SetWatches2(Record):
    """Request body of setWatches2: set watches again after a reconnect, including persistent watches."""

    relative_zxid: int
    data_watches: list[str]
    exist_watches: list[str]
    child_watches: list[str]
    persistent_watches: list[str]
    persistent_recursive_watches: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (LONG, STRINGS, STRINGS, STRINGS, STRINGS, STRINGS)


class AddWatchRequest(Record):
    """Request body of addWatch: set a persistent watch; the znode need not exist."""

    path: str
    mode: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class WatchesRequest(Record):
    """Request body of checkWatches and removeWatches: a path and a WatcherType."""

    path: str
    type: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class ErrorResponse(Record):
    """Reply to addWatch: an error code, always 0."""

    err: int
    layout: ClassVar[tuple[Codec, ...]] = (INT,)


class GetEphemeralsResponse(Record):
    """Reply to getEphemerals: the paths of the session's ephemerals."""

    ephemerals: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (STRINGS,)


class GetAllChildrenNumberResponse(Record):
    """Reply to getAllChildrenNumber: the number of znodes below the path, at any depth."""

    total_number: int
    layout: ClassVar[tuple[Codec, ...]] = (INT,)


class ClientInfo(Record, frozen=True):  # type: ignore[misc]  # a value
    """One identity of a connection: scheme and user, without the password hash."""

    auth_scheme: str
    user: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING, STRING)


class WhoAmIResponse(Record):
    """Reply to whoAmI: the connection's identities."""

    client_info: list[ClientInfo]
    layout: ClassVar[tuple[Codec, ...]] = (vector(record(ClientInfo)),)

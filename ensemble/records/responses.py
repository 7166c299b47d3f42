"""The bodies of replies about znodes, and the event of a watch that fired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from zabka.ensemble.jute import BUFFER, INT, STRING, Codec, Record
from zabka.ensemble.records.data import ACL, ACLS, STAT, STRINGS, Stat


class StatResponse(Record):
    """Reply to exists, setData and setACL."""

    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (STAT,)


class GetDataResponse(Record):
    """Reply to getData."""

    data: bytes | None
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER, STAT)


class GetACLResponse(Record):
    """Reply to getACL."""

    acl: Sequence[ACL]
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (ACLS, STAT)


class GetChildrenResponse(Record):
    """Reply to getChildren."""

    children: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (STRINGS,)


class GetChildren2Response(Record):
    """Reply to getChildren2."""

    children: list[str]
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (STRINGS, STAT)


class SyncResponse(Record):
    """Reply to sync: the path of the request."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class WatcherEvent(Record):
    """Event of a watch that fired (sent with xid -1)."""

    type: int
    state: int
    path: str
    layout: ClassVar[tuple[Codec, ...]] = (INT, INT, STRING)

"""Snapshot of the replicated state: all data that a peer needs to continue from a zxid."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import ACL


class NodeImage(msgspec.Struct, frozen=True):
    """One znode in its persisted form (StatPersisted), without fields that are derived from others."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    pzxid: int


class TreeSnapshot(msgspec.Struct, frozen=True):
    """The tree as of `zxid`: znodes in depth-first order from the root (path ""), and the session table."""

    zxid: Zxid
    sessions: dict[SessionId, int]
    nodes: Sequence[NodeImage]
    digest: int

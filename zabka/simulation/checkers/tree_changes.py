"""Znode changes made by committed transactions, for checkers that need the state of a znode at an earlier zxid.

The changes are derived from each transaction when the first peer commits it, so they do not depend on the tree of any
server.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zabka.ensemble.jute import Record
from zabka.ensemble.records import ACL, OPEN_ACL, EventType, OpCode
from zabka.ensemble.txn import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    Txn,
)

SYSTEM_ZNODES = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
"""Znodes that exist before the first transaction."""
_CREATES = CreateTxn | CreateContainerTxn | CreateTTLTxn


class ZnodeChange(NamedTuple):
    """One change of a znode.  `parent` is the parent znode if the change adds or removes a child of it, else None."""

    event: EventType
    path: str
    parent: str | None


class Changes(NamedTuple):
    """Znode changes of one transaction."""

    zxid: int
    changes: tuple[ZnodeChange, ...]
    ends_session: bool


class ZnodeAt(NamedTuple):
    """State of a znode at some zxid: whether it exists, and the zxids of its last changes of data and children."""

    exists: bool
    mzxid: int
    pzxid: int


class TreeChanges:
    """Znode changes of all committed transactions, in zxid order."""

    def __init__(self) -> None:
        self.log: list[Changes] = []
        """The transactions that changed a znode."""
        self.last_zxid = 0
        self.restricted: dict[str, None] = {}
        """Znodes that have had, at any time, an ACL other than `world:anyone` with all permissions."""
        self._zxids: list[int] = []
        self._of_path: dict[str, list[tuple[int, EventType]]] = {
            path: [(0, EventType.CREATED)] for path in SYSTEM_ZNODES
        }
        self._of_children: dict[str, list[int]] = {}
        self._owned: dict[int, dict[str, None]] = {}
        """The ephemeral znodes of each session."""
        self._owner: dict[str, int] = {}

    def committed(self, txn: Txn) -> None:
        """Add the changes of the next committed transaction."""
        self.last_zxid = int(txn.zxid)
        changes = tuple(self._apply(int(txn.session_id), txn.body))
        if changes:
            self.log.append(Changes(self.last_zxid, changes, txn.type == OpCode.CLOSE_SESSION))
            self._zxids.append(self.last_zxid)

    def number_after(self, zxid: int) -> int:
        """Return the index in `log` of the first transaction with a zxid greater than `zxid`."""
        return bisect_right(self._zxids, zxid)

    def znode_at(self, path: str, zxid: int) -> ZnodeAt:
        """Return the state of a znode after the transaction with that zxid was applied."""
        events = self._of_path.get(path, [])
        known = events[: bisect_right(events, (zxid, EventType.CHILDREN_CHANGED))]
        if not known or known[-1][1] is EventType.DELETED:
            return ZnodeAt(False, -1, -1)
        created = next(at for at, event in reversed(known) if event is EventType.CREATED)
        children = self._of_children.get(path, [])
        before = bisect_right(children, zxid)
        return ZnodeAt(True, known[-1][0], max(created, children[before - 1] if before else 0))

    def _apply(self, session_id: int, body: Record) -> Iterator[ZnodeChange]:
        if isinstance(body, MultiTxn):
            # A rejected multi still lists the operations that precede the rejected operation, but none of them takes
            # effect.
            refused = any(sub.type == OpCode.ERROR for sub in body.txns)
            for sub in () if refused else body.txns:
                yield from self._apply(session_id, sub.body())
        elif isinstance(body, _CREATES):
            if isinstance(body, CreateTxn) and body.ephemeral:
                self._owned.setdefault(session_id, {})[body.path] = None
                self._owner[body.path] = session_id
            self._restrict(body.path, body.acl)
            yield self._change(EventType.CREATED, body.path)
        elif isinstance(body, SetDataTxn):
            yield self._change(EventType.DATA_CHANGED, body.path)
        elif isinstance(body, SetACLTxn):
            self._restrict(body.path, body.acl)
        elif isinstance(body, DeleteTxn):
            yield self._delete(body.path)
        elif isinstance(body, CloseSessionTxn):
            for path in list(self._owned.get(session_id, ())):
                yield self._delete(path)

    def _restrict(self, path: str, acl: Sequence[ACL]) -> None:
        if tuple(acl) != OPEN_ACL:
            self.restricted[path] = None

    def _delete(self, path: str) -> ZnodeChange:
        owner = self._owner.pop(path, None)
        if owner is not None:
            del self._owned[owner][path]
        return self._change(EventType.DELETED, path)

    def _change(self, event: EventType, path: str) -> ZnodeChange:
        self._of_path.setdefault(path, []).append((self.last_zxid, event))
        if event is EventType.DATA_CHANGED:
            return ZnodeChange(event, path, None)
        parent = path[: path.rfind("/")] or "/"
        self._of_children.setdefault(parent, []).append(self.last_zxid)
        return ZnodeChange(event, path, parent)

"""Checks the watch contract of every server, using the frames on its connections and the committed transactions.

The contract is in ZooKeeper's programmer's guide ("ZooKeeper Watches").  For each change that a watch covers, the
server sends exactly one event on the connection that set the watch, with the zxid of the change.  It sends the event
before any reply with that zxid or a later one.  A one-shot watch fires once, a persistent watch at every change.

The header of a reply contains the zxid of the last transaction that the server had applied.  A watch covers the changes
after the zxid in the reply to the read that set it.  Before it sends a later reply, including a reply to a ping, the
server must have sent all events up to the zxid of that reply.

The checker does not use the server's watch tables, only the requests of clients and the server's replies.  It ignores
connections to a read-only server, which can return data of transactions that no quorum has committed.  A server may
withhold events for znodes with an ACL.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import zxid_text
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    AddWatchMode,
    AddWatchRequest,
    ConnectResponse,
    EventType,
    OpCode,
    PathWatchRequest,
    Request,
    SetWatches,
    SetWatches2,
    WatcherEvent,
    WatcherType,
    WatchesRequest,
)
from zabka.ensemble.txn import Txn
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import InvariantViolated
from zabka.simulation.checkers.tree_changes import Changes, TreeChanges, ZnodeChange
from zabka.simulation.engine.observed import FrameReader

NAME = "watches fire once for each change"
AT_SESSION_END = "watches fire when a session ends"
_REQUEST, _REPLY = struct.Struct(">ii"), struct.Struct(">iqi")
_READS = frozenset({OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2})
_ABOUT_WATCHES = frozenset({*_READS, OpCode.SET_WATCHES, OpCode.SET_WATCHES2, OpCode.ADD_WATCH, OpCode.REMOVE_WATCHES})
_NO_NODE = int(ErrorCode.NO_NODE)
_AT_ANY_ZXID = -1
"""Zxid in events that a server sends because of setWatches: the changes happened before the connection was opened."""

_Event = tuple[EventType, str]


class _Answer(NamedTuple):
    """A reply or an event that the server sent."""

    xid: int
    zxid: int
    error: int
    event: _Event | None


class WatchContract:
    """Checks the watch contract of all servers in one world."""

    def __init__(self, checked: CheckCounts, emit: Callable[[InvariantViolated], object]) -> None:
        self.tree = TreeChanges()
        self.checked = checked
        self._emit = emit
        self._waiting: dict[WatchedConnection, None] = {}

    def connection(self, server: str) -> WatchedConnection:
        """Return the observer of a new client connection to that server."""
        return WatchedConnection(self, server)

    def committed(self, txn: Txn) -> None:
        """Handle a transaction when the first peer applies it."""
        self.tree.committed(txn)
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.check_answers()

    def wait(self, connection: WatchedConnection) -> None:
        """Check the connection again after the next commit, because the server sent a zxid that is not known as
        committed yet.
        """
        self._waiting[connection] = None

    def violated(self, detail: str) -> None:
        """Report a violation."""
        self._emit(InvariantViolated(NAME, detail))


class _Armed:
    """The watches of one connection."""

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.children: dict[str, None] = {}
        self.persistent: dict[str, None] = {}
        self.recursive: dict[str, None] = {}

    def any(self) -> bool:
        """Return whether any watch is set."""
        return bool(self.data or self.children or self.persistent or self.recursive)

    def fire(self, change: ZnodeChange) -> Iterator[_Event]:
        """Yield the events that the watches produce for a change, and remove the one-shot watches that fire."""
        event, path, parent = change
        triggers = path in self.data or path in self.persistent or self._covered(path)
        self.data.pop(path, None)
        if event is EventType.DELETED and path in self.children:
            triggers = True
            del self.children[path]
        if triggers:
            yield event, path
        if parent is not None and (parent in self.children or parent in self.persistent):
            self.children.pop(parent, None)
            yield EventType.CHILDREN_CHANGED, parent

    def _covered(self, path: str) -> bool:
        """Return whether a recursive watch on the znode or on an ancestor covers the znode."""
        return bool(self.recursive) and any(
            watched in (path, "/") or path.startswith(f"{watched}/") for watched in self.recursive
        )

    def add(self, request: AddWatchRequest) -> None:
        """Add the watch of a successful addWatch."""
        kind = self.persistent if request.mode == AddWatchMode.PERSISTENT else self.recursive
        kind[request.path] = None

    def remove(self, request: WatchesRequest) -> None:
        """Remove the watches of a successful removeWatches."""
        kinds = {
            WatcherType.CHILDREN: self.children,
            WatcherType.DATA: self.data,
            WatcherType.PERSISTENT: self.persistent,
            WatcherType.PERSISTENT_RECURSIVE: self.recursive,
        }
        for kind, watches in kinds.items():
            if request.type in (kind, WatcherType.ANY):
                watches.pop(request.path, None)


class WatchedConnection:
    """One connection of a client: its watches, and the events that the server must still send."""

    def __init__(self, contract: WatchContract, server: str) -> None:
        self._contract = contract
        self._tree = contract.tree
        self._server = server
        self._requests, self._replies = FrameReader(), FrameReader()
        self._asked: deque[Request] = deque()
        """Requests about watches that have no reply yet.  Replies arrive in the order of the requests."""
        self._answers: deque[_Answer] = deque()
        """Replies and events that are not checked yet, because their zxid is not known to be committed."""
        self._armed = _Armed()
        self._next = 0
        """Index in the transaction log of the first transaction that this server may not have applied yet."""
        self._due: Counter[_Event] = Counter()
        """Events for transaction `_due_zxid` that the server must still send."""
        self._due_zxid = 0
        self._missed: list[_Event] = []
        """Events that the server sent because of setWatches, before the setWatches reply."""
        self._is_attached = False
        self._has_asked = False
        self._is_checked = True

    # -- frames of the connection ------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Record the requests about watches in these bytes.  The first frame is the ConnectRequest."""
        for frame in self._requests.read(data) if self._is_checked else ():
            if not self._has_asked:
                self._has_asked = True
            elif len(frame) >= _REQUEST.size and _REQUEST.unpack_from(frame)[1] in _ABOUT_WATCHES:
                request = Request.decode(frame)
                if not isinstance(request.body, PathWatchRequest) or request.body.watch:
                    self._asked.append(request)

    def sent(self, data: bytes) -> None:
        """Check the replies and events in these bytes.  The first frame is the ConnectResponse."""
        for frame in self._replies.read(data) if self._is_checked else ():
            if not self._is_attached:
                self._is_attached = True
                self._is_checked = not ConnectResponse.decode(frame).read_only
                continue
            xid, zxid, error = _REPLY.unpack_from(frame)
            event = None
            if xid == NOTIFICATION_XID:
                body = WatcherEvent.decode(frame[_REPLY.size :])
                event = EventType(body.type), body.path
            self._answers.append(_Answer(xid, zxid, error, event))
        if self._answers:
            self.check_answers()

    def check_answers(self) -> None:
        """Check the replies and events up to the last committed transaction."""
        while self._answers and self._is_checked:
            if self._answers[0].zxid > self._tree.last_zxid:
                self._contract.wait(self)
                return
            answer = self._answers.popleft()
            if answer.event is None:
                self._check_reply(answer)
            elif answer.zxid == _AT_ANY_ZXID:
                self._missed.append(answer.event)
            else:
                self._check_event(answer.zxid, answer.event)

    # -- checks of replies and events --------------------------------------------------------------------------------

    def _check_event(self, zxid: int, event: _Event) -> None:
        self._pass(zxid - 1)
        log = self._tree.log
        if zxid > self._due_zxid and self._next < len(log) and log[self._next].zxid == zxid:
            self._begin(log[self._next])
        if zxid == self._due_zxid and self._due[event] > 0:
            self._due[event] -= 1
        elif event[1] not in self._tree.restricted:
            self._violated(f"sent {_text(event, zxid)}, which no watch covers or which was sent before")

    def _check_reply(self, answer: _Answer) -> None:
        if answer.zxid > 0:
            self._pass(answer.zxid)
            self._check_due(f"and then a reply at {zxid_text(answer.zxid)}")
        if self._asked and self._asked[0].xid == answer.xid:
            self._arm(self._asked.popleft(), answer)

    def _pass(self, zxid: int) -> None:
        """Check that all events for changes up to that zxid were sent."""
        if zxid > self._due_zxid:
            self._check_due(f"and then an answer after {zxid_text(self._due_zxid)}")
        log = self._tree.log
        if not self._armed.any():
            self._next = max(self._next, self._tree.number_after(zxid))
        while self._next < len(log) and log[self._next].zxid <= zxid and self._is_checked:
            self._begin(log[self._next])
            self._check_due(f"and then an answer at {zxid_text(zxid)} or later")

    def _begin(self, changes: Changes) -> None:
        """Compute the events that the server must send for the next transaction, and remove watches that fire once."""
        self._next += 1
        fired = [event for change in changes.changes for event in self._armed.fire(change)]
        self._due, self._due_zxid = Counter(fired), changes.zxid
        self._contract.checked.note(NAME, len(fired))
        if changes.ends_session:
            self._contract.checked.note(AT_SESSION_END, len(fired))

    def _check_due(self, then: str) -> None:
        for event, times in self._due.items():
            if times > 0 and event[1] not in self._tree.restricted:
                self._violated(f"did not send {_text(event, self._due_zxid)}, {then}")
        self._due.clear()

    def _arm(self, request: Request, answer: _Answer) -> None:
        """Add or remove watches for a request that succeeded."""
        body = request.body
        if isinstance(body, SetWatches | SetWatches2):
            self._set_again(body, answer.zxid)
        elif isinstance(body, PathWatchRequest):
            if request.op in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
                watches = self._armed.children
            else:
                watches = self._armed.data
            if answer.error == 0 or (request.op == OpCode.EXISTS and answer.error == _NO_NODE):
                watches[body.path] = None
        elif answer.error == 0 and isinstance(body, AddWatchRequest):
            self._armed.add(body)
        elif answer.error == 0 and isinstance(body, WatchesRequest):
            self._armed.remove(body)

    def _set_again(self, request: SetWatches | SetWatches2, zxid: int) -> None:
        """Handle setWatches: a znode that changed after the client's last zxid gets an event instead of a watch."""
        armed, since = self._armed, request.relative_zxid
        due: list[_Event] = []
        for path in request.data_watches:
            znode = self._tree.znode_at(path, zxid)
            if not znode.exists:
                due.append((EventType.DELETED, path))
            elif znode.mzxid > since:
                due.append((EventType.DATA_CHANGED, path))
            else:
                armed.data[path] = None
        for path in request.exist_watches:
            if self._tree.znode_at(path, zxid).exists:
                due.append((EventType.CREATED, path))
            else:
                armed.data[path] = None
        for path in request.child_watches:
            znode = self._tree.znode_at(path, zxid)
            if not znode.exists:
                due.append((EventType.DELETED, path))
            elif znode.pzxid > since:
                due.append((EventType.CHILDREN_CHANGED, path))
            else:
                armed.children[path] = None
        if isinstance(request, SetWatches2):
            armed.persistent.update(dict.fromkeys(request.persistent_watches))
            armed.recursive.update(dict.fromkeys(request.persistent_recursive_watches))
        self._contract.checked.note(NAME, len(due))
        missed, self._missed = self._missed, []
        if sorted(due) != sorted(missed):
            self._violated(f"sent {missed} for setWatches after {zxid_text(since)}, due is {due}")

    def _violated(self, detail: str) -> None:
        """Report the first violation on this connection.

        Later violations are not reported, because the client's watches are unknown after the first one.
        """
        self._is_checked = False
        self._contract.violated(f"{self._server} {detail}")


def _text(event: _Event, zxid: int) -> str:
    return f"{event[0].name} of {event[1]} at {zxid_text(zxid)}"

"""Guarantees about watches: each violation in the bytes of a connection is reported.

Every allowed order of frames is accepted.
"""

from __future__ import annotations

import struct

import pytest

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import Record
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    OPEN_ACL,
    PING_XID,
    SET_WATCHES_XID,
    AddWatchMode,
    AddWatchRequest,
    ConnectRequest,
    ConnectResponse,
    EventType,
    KeeperState,
    OpCode,
    PathWatchRequest,
    Permission,
    Reply,
    Request,
    SetWatches,
    WatcherEvent,
    WatcherType,
    WatchesRequest,
)
from zabka.ensemble.records.data import ACL
from zabka.ensemble.txn import CloseSessionTxn, CreateTxn, DeleteTxn, SetDataTxn, Txn
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.simulation.checkers.watch_contract import AT_SESSION_END, NAME, WatchContract

OWNER = SessionId(7)
NO_NODE = -101
CHANGED, CREATED, DELETED, CHILDREN = (
    EventType.DATA_CHANGED, EventType.CREATED, EventType.DELETED, EventType.CHILDREN_CHANGED,
)  # fmt: skip


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Server:
    """A server with one client connection. The test commits transactions and sends the server's messages."""

    def __init__(self, read_only: bool = False) -> None:
        self.said: list[str] = []
        self.checked = CheckCounts()
        self.contract = WatchContract(self.checked, lambda event: self.said.append(event.detail))
        self.connection = self.contract.connection("peer-1")
        self.connection.received(framed(ConnectRequest(0, 0, 4_000, 0, b"", False).encode()))
        self.connection.sent(framed(ConnectResponse(0, 4_000, 1, b"", read_only).encode()))
        self.zxid = 0
        self.commit(CreateTxn("/a", b"", OPEN_ACL, False, 1))
        self._xid = 0

    def commit(self, body: Record, kind: int = OpCode.CREATE) -> None:
        self.zxid += 1
        self.contract.committed(Txn(OWNER, 1, Zxid(self.zxid), 0, kind, body))

    def set(self, path: str = "/a") -> None:
        self.commit(SetDataTxn(path, b"", 1), OpCode.SET_DATA)

    def ask(self, op: int, body: Record, error: int = 0, xid: int = 0, missed: tuple[EventType, ...] = ()) -> None:
        """Send a request, then the watch events `missed` for /a, and then the reply with the last zxid."""
        self._xid += 1
        xid = xid or self._xid
        self.connection.received(framed(Request(xid, op, body).encode()))
        for event in missed:
            self.event(event, "/a", -1)
        self.connection.sent(framed(Reply(xid, self.zxid, error).encode()))

    def watch(self, path: str = "/a", op: int = OpCode.GET_DATA, error: int = 0) -> None:
        self.ask(op, PathWatchRequest(path, True), error)

    def event(self, event: EventType, path: str = "/a", zxid: int | None = None) -> None:
        body = WatcherEvent(int(event), int(KeeperState.SYNC_CONNECTED), path)
        self.connection.sent(framed(Reply(NOTIFICATION_XID, self.zxid if zxid is None else zxid, 0, body).encode()))

    def ping(self) -> None:
        self.connection.sent(framed(Reply(PING_XID, self.zxid, 0).encode()))


def test_watch_event_of_each_change_is_accepted_once() -> None:
    server = Server()
    server.watch()
    server.set()
    server.event(CHANGED)
    server.ping()
    assert server.said == []
    assert server.checked.counts == {NAME: 1}
    server.event(CHANGED)
    assert server.said == ["peer-1 sent DATA_CHANGED of /a at 0x2, which no watch covers or which was sent before"]


def test_missing_watch_event_is_detected_at_the_next_reply() -> None:
    server = Server()
    server.watch()
    server.set()
    assert server.said == []
    server.ping()
    assert server.said == ["peer-1 did not send DATA_CHANGED of /a at 0x2, and then an answer at 0x2 or later"]


def test_missing_watch_event_is_detected_at_a_later_event() -> None:
    server = Server()
    server.watch()
    server.watch("/", OpCode.GET_CHILDREN)
    server.set()
    server.commit(CreateTxn("/b", b"", OPEN_ACL, False, 1))
    server.event(CHILDREN, "/")
    assert "did not send DATA_CHANGED of /a at 0x2" in server.said[0]


def test_one_time_watch_fires_once_and_persistent_one_each_time() -> None:
    server = Server()
    server.watch()
    for _ in range(2):
        server.set()
        server.event(CHANGED)
    assert len(server.said) == 1

    server = Server()
    server.ask(OpCode.ADD_WATCH, AddWatchRequest("/", AddWatchMode.PERSISTENT_RECURSIVE))
    for _ in range(2):
        server.set()
        server.event(CHANGED)
    server.ask(OpCode.REMOVE_WATCHES, WatchesRequest("/", WatcherType.PERSISTENT_RECURSIVE))
    server.set()
    server.ping()
    assert server.said == []


def test_session_end_must_fire_child_watches_of_parent_znodes() -> None:
    server = Server()
    server.commit(CreateTxn("/a/e", b"", OPEN_ACL, True, 1))
    server.watch("/a/e")
    server.watch("/a", OpCode.GET_CHILDREN2)
    server.commit(CloseSessionTxn([]), OpCode.CLOSE_SESSION)
    server.event(DELETED, "/a/e")
    assert server.said == []
    server.ping()
    assert server.said == ["peer-1 did not send CHILDREN_CHANGED of /a at 0x3, and then a reply at 0x3"]
    assert server.checked.counts == {NAME: 2, AT_SESSION_END: 2}


def test_watch_on_a_missing_znode_is_set_only_by_exists() -> None:
    server = Server()
    server.watch("/b", OpCode.GET_DATA, NO_NODE)
    server.commit(CreateTxn("/b", b"", OPEN_ACL, False, 1))
    server.ping()
    server.watch("/c", OpCode.EXISTS, NO_NODE)
    server.commit(CreateTxn("/c", b"", OPEN_ACL, False, 1))
    server.event(CREATED, "/c")
    assert server.said == []


def test_deletion_fires_one_event_for_data_and_child_watches() -> None:
    server = Server()
    server.watch()
    server.watch("/a", OpCode.GET_CHILDREN)
    server.commit(DeleteTxn("/a"), OpCode.DELETE)
    server.event(DELETED)
    server.ping()
    assert server.said == []
    assert server.checked.counts == {NAME: 1}


@pytest.mark.parametrize(("since", "due"), [(1, CHANGED), (2, None)])
def test_set_watches_reports_changes_after_its_zxid(since: int, due: EventType | None) -> None:
    for sent in (CHANGED, None):
        server = Server()
        server.set()
        missed = () if sent is None else (sent,)
        server.ask(OpCode.SET_WATCHES, SetWatches(since, ["/a"], [], []), xid=SET_WATCHES_XID, missed=missed)
        assert (server.said == []) == (sent == due)


def test_reply_ahead_of_its_commit_event_is_checked_later() -> None:
    server = Server()
    server.watch()
    server.zxid += 1
    server.ping()
    assert server.said == []
    server.zxid -= 1
    server.set()
    assert "did not send DATA_CHANGED of /a at 0x2" in server.said[0]


def test_watch_event_of_a_restricted_znode_can_be_omitted() -> None:
    server = Server()
    server.commit(CreateTxn("/b", b"", [ACL(Permission.READ, "digest", "x")], False, 1))
    server.watch("/b")
    server.set("/b")
    server.ping()
    assert server.said == []


def test_connection_to_a_read_only_server_is_not_checked() -> None:
    server = Server(read_only=True)
    server.event(CHANGED)
    assert server.said == []
    assert server.checked.counts == {}

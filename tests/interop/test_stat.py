"""Sends the same requests to a real ZooKeeper (from PySpark's jars) and to our service.

Replies, watch events and digests must be equal. Zxids are equal too, because every write, even a rejected one, uses one
zxid on both sides. Times and session ids are masked.
"""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.ensemble.tree.tree_driver import (
    CLOSE,
    PING,
    Ensemble,
    children,
    create,
    delete,
    exists,
    get,
    multi,
    set_acl,
    set_data,
    sync,
)
from tests.interop.interop_servers import running
from zabka.ensemble.jute import Reader, Record
from zabka.ensemble.records import (
    ACL,
    NOTIFICATION_XID,
    OPEN_ACL,
    RESPONSE_BODIES,
    AuthPacket,
    CheckVersionRequest,
    ConnectRequest,
    ConnectResponse,
    GetChildren2Response,
    MultiResult,
    OpCode,
    PathRequest,
    Reply,
    Request,
    SetWatches,
    Stat,
    WatcherEvent,
)
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.sessions import password_of
from zabka.ensemble.txn import Txn

READ_ONLY = (ACL(1, "world", "anyone"),)


@pytest.fixture
def zookeeper(tmp_path):
    """Start a new standalone ZooKeeper. Yield its port and its log directory."""
    with running("zookeeper", 1, tmp_path) as ensemble:
        (server,) = ensemble.servers
        yield server.port, tmp_path / "1" / "data" / "version-2"


@pytest.fixture
def dial(zookeeper):
    """Yield a function that connects to this ZooKeeper. All connections are closed at the end."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(closing(RealClient(zookeeper[0], *args, **kwargs)))


class RealClient:
    """Connection to a ZooKeeper server, with one request in flight at a time."""

    def __init__(self, port: int, session=(0, bytes(16)), seen=0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.events: list[Reply] = []
        self.xid = 0
        self.send(ConnectRequest(0, seen, 10_000, session[0], session[1]).encode())
        try:
            self.response = ConnectResponse.decode(self.frame())
        except EOFError:
            self.close()
            raise

    def close(self) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def frame(self) -> bytes:
        return self._take(struct.unpack(">i", self._take(4))[0])

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def ask(self, op: int, body: Record) -> Reply:
        self.xid += op not in (OpCode.PING, OpCode.AUTH)
        self.send(Request({OpCode.PING: -2, OpCode.AUTH: -4}.get(op, self.xid), op, body).encode())
        while True:
            reader = Reader(self.frame())
            reply = Reply(reader.read_int(), reader.read_long(), reader.read_int())
            if reply.xid == NOTIFICATION_XID:
                reply.body = WatcherEvent.read_from(reader)
                self.events.append(reply)
                continue
            if reply.err == 0 and op in RESPONSE_BODIES:
                reply.body = RESPONSE_BODIES[op].read_from(reader)
            assert reader.left == 0
            return reply


def masked(value, session_id):
    """Return a value without clock times, session ids and the order of children, so that it can be compared."""
    if isinstance(value, Stat):
        owner = "me" if value.ephemeral_owner == session_id else value.ephemeral_owner
        return value._replace(ctime=bool(value.ctime), mtime=bool(value.mtime), ephemeral_owner=owner)
    if isinstance(value, GetChildren2Response):
        return sorted(value.children), masked(value.stat, session_id)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple, MultiResult):
        return [masked(item, session_id) for item in value]
    if hasattr(value, "__struct_fields__"):
        return type(value).__name__, [masked(getattr(value, name), session_id) for name in value.__struct_fields__]
    return value


def check(path, version=-1):
    return OpCode.CHECK, CheckVersionRequest(path, version)


def acl_of(path):
    return OpCode.GET_ACL, PathRequest(path)


DIGEST_ACL = (ACL(31, "digest", "u:p"), ACL(1, "world", "anyone"), ACL(1, "world", "anyone"))
SCRIPT = [
    exists("/"), exists("/zookeeper"), exists("/zookeeper/quota"), exists("/zookeeper/config"), children("/"),
    children("/zookeeper"), acl_of("/zookeeper/config"), acl_of("/"),
    create("/a", b"x"), create("/a", b"x"), create("/a/b"), create("/a/s-", b"", 2), create("/a/s-", b"", 2),
    create("/a/e", b"q", 1), create("/a/e/x"), create("/a/n", None), get("/a/n"), exists("/a"), delete("/a/b", 3),
    delete("/a/b"), exists("/a"), create("/a/s-", b"", 3), delete("/a"), delete("/"), delete("/zookeeper"),
    delete("nope"), delete("/nope/x"), delete("/nope"), set_data("/a", b"hello"), set_data("/a", b"hello", 0),
    set_data("/a", None, 1), get("/a"), set_data("/nope"), set_data("nope"), set_data("/a/"), set_data("/", b"root"),
    get("/"), set_data("/zookeeper/config", b"x"), create("nope"), create(""), create("/a//b"), create("/a/"),
    create("/a/./b"), create("/a/.."), create("/nope/b"), create("/"), create("/a\0"), create("/a/\x01"),
    create("/a/\u00e9\ue000"), create("/a/\u00e9"), create("/a/\U0001f600"), create("/a/..."), create("/x", b"", 0, ()),
    create("/x", b"", 0, (ACL(31, "digest", "bad"),)), create("/x", b"", 0, (ACL(31, "auth", ""),)),
    create("/x", b"", 0, (ACL(31, "foo", "anyone"),)), create("/x", b"", 0, (ACL(31, "world", "nobody"),)),
    create("/x", b"", 9), create("/x", b"", -1), create("/x", b"", 5), create("/x", b"", 6),
    create("/x", b"", 0, op=OpCode.CREATE), create("/ro", b"r", 0, READ_ONLY), get("/ro"), set_data("/ro"),
    create("/ro/x"), acl_of("/ro"), set_acl("/ro", OPEN_ACL), create("/d", b"r", 0, DIGEST_ACL), acl_of("/d"),
    set_acl("/x", READ_ONLY, 0), set_acl("/x", OPEN_ACL), exists("/x"), set_acl("/a", OPEN_ACL, 7), set_acl("/a", ()),
    set_acl("/nope", OPEN_ACL), acl_of("/x"), acl_of("/nope"), (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")),
    create("/mine", b"", 0, (ACL(31, "auth", ""),)), acl_of("/mine"), set_data("/mine", b"y"),
    multi(
        create("/m"), create("/m/s-", b"", 2), create("/m/s-", b"", 2, op=OpCode.CREATE), set_data("/m", b"1"),
        set_data("/m", b"2", 1), delete("/m/s-0000000000"), check("/m", 2),
    ),
    multi(create("/m2"), create("/m2/s-", b"", 2), set_data("/m", b"1", 9), delete("/zzz")),
    multi(create("/m2"), create("/m2", b"", 2)), create("/m2/t-", b"", 2), children("/m2"), exists("/m"),
    children("/m"),
    multi(), multi(check("/nope")), multi(check("/m")), multi(create("/bad\0")),
    multi(delete("/m2"), create("/m2"), delete("/m2/t-0000000000")),
    exists("/nope"), exists("nope"), exists("/a\0"), get("/nope"), get("nope"), children("/nope"), exists("/a/"),
    sync("/nope"), PING, exists("/a", True), get("/a", True), children("/a", True), children("/m", True),
    exists("/soon", True), set_data("/a", b"1"), create("/a/w"), create("/soon"), create("/m/w"), get("/m/w", True),
    children("/m/w", True), children("/m", True), delete("/m/w"),
    multi(create("/m/1"), set_data("/m/1", b"x"), delete("/m/1")),
    (OpCode.SET_WATCHES, SetWatches(0, ["/a", "/nope"], ["/a", "/later"], ["/a", "/m", "/nope"])), create("/later"),
    exists("/"), CLOSE,
]  # fmt: skip


def test_replies_events_and_digests_equal_those_of_zookeeper(zookeeper, dial):
    logs = zookeeper[1]
    real = dial()
    ours = Ensemble(tick_ms=500)
    ours.zxid = 0
    client = ours.connect()
    mine = ours.take(client)[0]
    assert real.response.password == password_of(real.response.session_id)
    for request in SCRIPT:
        theirs = real.ask(*request)
        ours.send(client, request, {OpCode.PING: -2, OpCode.AUTH: -4}.get(request[0]))
        if request[0] == OpCode.AUTH:
            ours._xids[client] = real.xid
        *events, reply = ours.take(client)
        assert masked(reply, mine.session_id) == masked(theirs, real.response.session_id), request
        assert [event.body for event in events] == [event.body for event in real.events], request
        assert [event.zxid for event in events] == [event.zxid for event in real.events], request
        real.events.clear()
    tree = DataTree()
    for txn in logged(logs):
        tree.apply(txn)
        assert txn.digest in (None, tree.digest), txn
    assert tree.last_zxid == ours.zxid > 60
    assert ours.services[0].tree.nodes.keys() == tree.nodes.keys()


def logged(folder: Path) -> list[Txn]:
    """Return the transactions in a ZooKeeper server's only log file."""
    (file,) = folder.glob("log.*")
    data, position, txns = file.read_bytes(), 16, []
    while True:
        (size,) = struct.unpack_from(">i", data, position + 8)
        if size <= 0:
            return txns
        txns.append(Txn.decode(data[position + 12 : position + 12 + size]))
        position += 13 + size


def test_connect_requests_get_the_same_replies_as_in_zookeeper(dial):
    session = dial().response
    gone = ConnectResponse(0, 0, 0, bytes(16))
    good = (session.session_id, session.password)
    assert dial(good).response == session
    assert dial((session.session_id, b"x" * 16)).response == gone
    assert dial((77, password_of(77))).response == gone
    with pytest.raises(EOFError):
        dial(good, seen=1 << 40)
    ours = Ensemble(tick_ms=500)
    mine = ours.take(first := ours.connect())[0]
    again = ours.connect(session=(mine.session_id, mine.password))
    assert ours.take(again) == [mine] and first in ours.closed
    assert ours.take(ours.connect(session=(mine.session_id, b"x" * 16))) == [gone]
    assert ours.take(ours.connect(session=(77, password_of(77)))) == [gone]
    assert ours.connect(seen=1 << 40) in ours.closed

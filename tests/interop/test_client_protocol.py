"""Rarely used operations: our server sends the same replies as Apache ZooKeeper 3.9.5 to the same frames."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.interop.interop_servers import running
from zabka.ensemble.jute import Reader
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    RESPONSE_BODIES,
    AnyBody,
    AuthPacket,
    ConnectRequest,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    EmptyRequest,
    GetChildrenResponse,
    MultiOp,
    MultiReadRequest,
    MultiRequest,
    MultiResponse,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Request,
    SetDataRequest,
    SetWatches,
    Stat,
    WatcherEvent,
)
from zabka.ensemble.records.watches import (
    AddWatchRequest,
    GetEphemeralsResponse,
    SetWatches2,
    WatchesRequest,
    WhoAmIResponse,
)

Step = tuple[int, int, AnyBody | bytes]
"""A request: the number of its connection, its op code and its body."""
SETTINGS = {"extendedTypesEnabled": "true", "enforceQuota": "true", "reconfigEnabled": "false"}


class Talk:
    """One connection to a server.

    Zxids, times and session ids are removed from its replies, because they differ between servers.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._send(ConnectRequest(0, 0, 10_000, 0, bytes(16)).encode())
        self._frame()
        self._xid = 0

    def ask(self, op: int, body: AnyBody | bytes) -> list[object]:
        """Send a request. Return the watch events received before its reply, and then the reply as (error, body)."""
        self._xid += 1
        header = struct.pack(">ii", self._xid, op)
        self._send(header + body if isinstance(body, bytes) else Request(self._xid, op, body).encode())
        received: list[object] = []
        while True:
            reader = Reader(self._frame())
            xid, _, error = reader.read_int(), reader.read_long(), reader.read_int()
            if xid == -1:
                event = WatcherEvent.read_from(reader)
                received.append((event.type, event.state, event.path))
                continue
            assert xid == self._xid
            kind = RESPONSE_BODIES.get(op)
            answer = _comparable(kind.read_from(reader)) if kind is not None and not error else reader.rest()
            return [*received, (error, b"" if error else answer)]

    def is_closed(self) -> bool:
        """Return whether the server has closed the connection, or closes it within a short time."""
        self._socket.settimeout(5)
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()

    def _send(self, data: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(data)) + data)

    def _frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "closed by the server"
            data += part
        return data


def _comparable(value: object) -> object:
    if isinstance(value, Stat):
        counts = value.version, value.cversion, value.aversion, value.data_length, value.num_children
        return (*counts, value.ephemeral_owner != 0)
    if isinstance(value, GetChildrenResponse):
        return sorted(value.children)
    if isinstance(value, GetEphemeralsResponse):
        return sorted(value.ephemerals)
    if isinstance(value, WhoAmIResponse):
        return sorted((info.auth_scheme, info.user) for info in value.client_info)
    if isinstance(value, MultiResponse):
        return [(int(op), error, _comparable(body)) for op, error, body in value.results]
    fields = getattr(value, "__struct_fields__", ())
    return [_comparable(getattr(value, name)) for name in fields] if fields else value


def create(path: str, data: bytes | None = b"", flags: int = 0, acl: tuple[ACL, ...] = OPEN_ACL) -> CreateRequest:
    return CreateRequest(path, data, acl, flags)


def ttl(path: str, ttl_ms: int, flags: int = 5) -> CreateTTLRequest:
    return CreateTTLRequest(path, b"", OPEN_ACL, flags, ttl_ms)


def multi(*ops: tuple[int, AnyBody]) -> MultiRequest:
    return MultiRequest([MultiOp(OpCode(op), body) for op, body in ops])  # type: ignore[arg-type]


def reads(*ops: tuple[int, str]) -> MultiReadRequest:
    return MultiReadRequest([MultiOp(OpCode(op), PathWatchRequest(path, True)) for op, path in ops])


GET, EXISTS, CHILDREN = OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_CHILDREN
LOOK = PathWatchRequest("/", False)
WATCHES: list[Step] = [
    (0, OpCode.CREATE, create("/p")),
    *((1, OpCode.ADD_WATCH, AddWatchRequest("/p", mode)) for mode in (0, 1, 2, -1)),
    (1, OpCode.ADD_WATCH, AddWatchRequest("p/", 0)),
    (1, OpCode.ADD_WATCH, AddWatchRequest("/zz/y", 1)),
    (1, OpCode.ADD_WATCH, b"\0\0\0\2/p"),
    *(
        step
        for op, body in (
            (OpCode.SET_DATA, SetDataRequest("/p", b"x", -1)),
            (OpCode.CREATE, create("/p/a")),
            (OpCode.CREATE, create("/p/a/b")),
            (OpCode.SET_DATA, SetDataRequest("/p/a", b"x", -1)),
            (OpCode.MULTI, multi((OpCode.DELETE, DeleteRequest("/p/a/b", -1)), (OpCode.CREATE, create("/p/c")))),
            (OpCode.DELETE, DeleteRequest("/p/c", -1)),
            (OpCode.DELETE, DeleteRequest("/p/a", -1)),
            (OpCode.DELETE, DeleteRequest("/p", -1)),
            (OpCode.CREATE, create("/p")),
            (OpCode.CREATE, create("/zz")),
            (OpCode.CREATE, create("/zz/y")),
            (OpCode.CREATE, create("/zz/y/q")),
        )
        for step in ((0, op, body), (1, EXISTS, LOOK))
    ),
    *((1, OpCode.CHECK_WATCHES, WatchesRequest("/p", kind)) for kind in range(7)),
    (1, GET, PathWatchRequest("/p", True)),
    *((1, op, WatchesRequest("/p", kind)) for kind in (2, 2, 4, 1, 3, 3, 0, 9) for op in (18, 17)),
    (1, OpCode.REMOVE_WATCHES, WatchesRequest("/none", 3)),
    (1, OpCode.SET_WATCHES, SetWatches(0, ["/p", "/gone"], ["/p", "/new"], ["/p", "/gone", "/zz"])),
    (1, OpCode.SET_WATCHES, SetWatches(1 << 60, ["/p", "/gone"], ["/p", "/new"], ["/p", "/gone"])),
    (1, OpCode.SET_WATCHES2, SetWatches2(1 << 60, ["/p"], [], [], ["/p", "/gone"], ["/zz"])),
    (1, OpCode.SET_WATCHES2, b"\0" * 12),
    (0, OpCode.CREATE, create("/gone")),
    (0, OpCode.CREATE, create("/zz/r")),
    (0, OpCode.SET_DATA, SetDataRequest("/p", b"y", -1)),
    (1, EXISTS, LOOK),
    (0, OpCode.AUTH, AuthPacket(0, "digest", b"u:p")),
    (0, OpCode.CREATE, create("/private", acl=(ACL(31, "auth", ""),))),
    (1, EXISTS, PathWatchRequest("/private", True)),
    (1, OpCode.ADD_WATCH, AddWatchRequest("/private", 1)),
    (0, OpCode.SET_DATA, SetDataRequest("/private", b"y", -1)),
    (1, OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/private")),
    (1, OpCode.SET_WATCHES, SetWatches(0, ["/private"], ["/private"], ["/private"])),
]
NODES: list[Step] = [
    (0, OpCode.CREATE, create("/r")),
    (0, OpCode.CREATE, b"\0\0\0\5ab"),
    (0, OpCode.SET_DATA, b"zz"),
    (0, OpCode.MULTI, b"\0"),
    (0, GET, b""),
    (0, OpCode.SET_DATA, SetDataRequest("/r", b"x", -1)),
    *((0, op, create(f"/{op}f{flags}-", b"", flags)) for op in (1, 15, 19) for flags in range(8)),
    *((0, OpCode.CREATE_TTL, ttl(f"/t{flags}", 5_000, flags)) for flags in range(8)),
    *((0, OpCode.CREATE_TTL, ttl(f"/t{value}", value)) for value in (0, -5, 1 << 40, (1 << 40) - 1)),
    *((0, OpCode.MULTI, multi((op, create(f"/m{op}f{f}-", b"", f)))) for op in (1, 15, 19) for f in range(8)),
    *((0, OpCode.MULTI, multi((21, ttl(f"/mt{flags}-", 9_999, flags)))) for flags in (0, 2, 5, 6, 9)),
    (0, OpCode.MULTI, multi((19, create("/mc", flags=4)), (1, create("/mc/x")), (21, ttl("/mc/t", 0)))),
    *((0, OpCode.MULTI, multi((21, ttl(f"/mf{flags}-", 9_999, flags)))) for flags in (1, 3, 4, 7)),
    (0, OpCode.MULTI, multi((4, PathWatchRequest("/r", False)))),
    (0, OpCode.MULTI, multi((20, PathRequest("/r")))),
    (0, OpCode.MULTI, multi()),
    (0, OpCode.DELETE_CONTAINER, PathRequest("/no")),
    (0, OpCode.DELETE_CONTAINER, PathRequest("/19f0-")),
    (0, OpCode.DELETE_CONTAINER, PathRequest("/1f1-")),
    (0, OpCode.DELETE_CONTAINER, PathRequest("/zookeeper")),
    (0, CHILDREN, LOOK),
]
QUESTIONS: list[Step] = [
    (0, OpCode.CREATE, create("/r", b"data")),
    (0, OpCode.MULTI_READ, reads((4, "/r"), (8, "/"), (4, "/no"), (8, "/no"))),
    (0, OpCode.MULTI_READ, reads()),
    (0, OpCode.MULTI_READ, reads((4, "/r"), (12, "/"))),
    (0, OpCode.WHO_AM_I, EmptyRequest()),
    (0, OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")),
    (0, OpCode.WHO_AM_I, EmptyRequest()),
    *((0, OpCode.CREATE, create(path, b"", 1)) for path in ("/e1", "/r/e1", "/r/e2", "/rr")),
    *((0, OpCode.GET_EPHEMERALS, PathRequest(path)) for path in ("/", " / ", "", "/r", "/r/", "/r/e1", "/zz")),
    (0, OpCode.GET_EPHEMERALS, b""),
    (1, OpCode.GET_EPHEMERALS, PathRequest("/")),
    *((0, OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest(path)) for path in ("/", "/r", "/no", "/zookeeper", "r", "")),
    *((0, op, PathWatchRequest("", True)) for op in (EXISTS, GET, CHILDREN)),
    *((0, op, b"\xff\xff\xff\xff\0") for op in (EXISTS, GET, CHILDREN, OpCode.GET_CHILDREN2)),
    (0, OpCode.GET_ACL, PathRequest("")),
    (0, OpCode.MULTI_READ, reads((4, ""), (4, "/"))),
    (0, OpCode.CREATE, create("/last")),
    (0, OpCode.SET_WATCHES, SetWatches(1 << 60, [""], [""], [""])),
]
LIMITS = "/zookeeper/quota/q/zookeeper_limits"
STATS = PathWatchRequest("/zookeeper/quota/q/zookeeper_stats", False)
QUOTAS: list[Step] = [
    (0, OpCode.CREATE, create("/q", b"12345")),
    (0, OpCode.CREATE, create("/q/a", b"abc")),
    (0, OpCode.CREATE, create("/zookeeper/quota/q")),
    (0, OpCode.CREATE, create(LIMITS, b"count=5,bytes=20=;byteHardLimit=30;countHardLimit=6")),
    (0, OpCode.CREATE, create("/zookeeper/quota/q/zookeeper_stats", b"count=0,bytes=0")),
    *(
        step
        for op, body in (
            (OpCode.SET_DATA, SetDataRequest("/q/a", b"abcdef", -1)),
            (OpCode.CREATE, create("/q/b", b"zz")),
            (OpCode.DELETE, DeleteRequest("/q/b", -1)),
            *((OpCode.CREATE, create(f"/q/x{i}", b"zz")) for i in range(6)),
            (OpCode.SET_DATA, SetDataRequest("/q/a", bytes(40), -1)),
            (OpCode.SET_DATA, SetDataRequest("/q/a", bytes(40), 77)),
            (OpCode.SET_DATA, SetDataRequest("/q/a", b"", 77)),
            (OpCode.CREATE, create("/qqq", bytes(40))),
            (OpCode.MULTI, multi((5, SetDataRequest("/q/a", bytes(40), -1)))),
            (OpCode.SET_DATA, SetDataRequest(LIMITS, b"count=2,bytes=3", -1)),
            (OpCode.CREATE, create("/q/soft", None)),
            (OpCode.SET_DATA, SetDataRequest(LIMITS, b"", -1)),
            (OpCode.CREATE, create("/q/free", bytes(99))),
            (OpCode.DELETE, DeleteRequest(LIMITS, -1)),
            (OpCode.CREATE, create("/q/uncounted")),
        )
        for step in ((0, op, body), (0, GET, STATS))
    ),
]  # fmt: skip
UNKNOWN = (0, -1, 10, 13, 23, 99, 108)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Return the client ports of our server and of ZooKeeper."""
    with (
        running("ours", 1, tmp_path_factory.mktemp("ours"), **SETTINGS) as ours,
        running("zookeeper", 1, tmp_path_factory.mktemp("theirs"), **SETTINGS) as theirs,
    ):
        yield ours.servers[0].port, theirs.servers[0].port


def transcript(port: int, steps: list[Step]) -> list[list[object]]:
    talks = [Talk(port), Talk(port)]
    try:
        return [talks[who].ask(op, body) for who, op, body in steps]
    finally:
        for talk in talks:
            talk.close()


@pytest.mark.parametrize("steps", [WATCHES, NODES, QUESTIONS, QUOTAS], ids=["watches", "nodes", "questions", "quotas"])
def test_same_frames_get_equal_replies_from_both_servers(ports: tuple[int, int], steps: list[Step]) -> None:
    ours, theirs = (transcript(port, steps) for port in ports)
    for step, our, their in zip(steps, ours, theirs, strict=True):
        assert our == their, step


@pytest.mark.parametrize("op", UNKNOWN)
def test_unknown_operation_gets_equal_errors_and_disconnects(ports: tuple[int, int], op: int) -> None:
    answers = []
    for port in ports:
        talk = Talk(port)
        answers.append((talk.ask(op, b"\0\0\0\2/a"), talk.is_closed()))
        talk.close()
    assert answers[0] == answers[1] == ([(-6, b"")], True)

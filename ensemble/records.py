"""The records of the ZooKeeper client protocol (zookeeper.jute, org.apache.zookeeper.proto and .data).

A client's first frame is a ConnectRequest; every later one is a request header (xid, op code) and the op's body.  A
reply frame is a header (xid, zxid, err) and, when err is 0, the op's response.  `Request` and `Reply` are those frames,
typed; the same objects travel on the simulated network.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import ClassVar, NamedTuple

import msgspec

from ensemble.errors import ErrorCode
from ensemble.jute import (
    BOOL,
    BUFFER,
    INT,
    LONG,
    STRING,
    Codec,
    MalformedRecord,
    Reader,
    Record,
    Writer,
    pack_int,
    pack_long,
    record,
    vector,
)


class OpCode(IntEnum):
    """org.apache.zookeeper.ZooDefs.OpCode."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


NOTIFICATION_XID = -1
PING_XID = -2
AUTH_XID = -4
SET_WATCHES_XID = -8


class CreateFlag(IntEnum):
    """The `flags` of a create."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


class EventType(IntEnum):
    """What a watch saw."""

    NONE = -1
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7


class KeeperState(IntEnum):
    """The connection state a watch event reports."""

    DISCONNECTED = 0
    SYNC_CONNECTED = 3
    AUTH_FAILED = 4
    CONNECTED_READ_ONLY = 5
    SASL_AUTHENTICATED = 6
    EXPIRED = -112


class Permission(IntFlag):
    """ACL permission bits."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Stat(NamedTuple):
    """A znode's metadata, in wire order.  `version` counts data changes, `cversion` children changes."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


_STAT = struct.Struct(">qqqqiiiqiiq")


def _write_stat(out: Writer, stat: Stat) -> None:
    out += _STAT.pack(*stat)


def _read_stat(reader: Reader) -> Stat:
    return Stat._make(_STAT.unpack_from(reader.data, reader.take(_STAT.size)))


STAT = Codec(_write_stat, _read_stat)


class ACL(Record, frozen=True):  # type: ignore[misc]  # one value many znodes share
    """One entry of an access control list."""

    perms: int
    scheme: str
    id: str
    layout: ClassVar[tuple[Codec, ...]] = (INT, STRING, STRING)


OPEN_ACL: tuple[ACL, ...] = (ACL(Permission.ALL, "world", "anyone"),)
ACLS = vector(record(ACL))
STRINGS = vector(STRING)


class ConnectRequest(Record):
    """A client's first frame.  Old clients leave `read_only` out."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool = False
    layout: ClassVar[tuple[Codec, ...]] = (INT, LONG, INT, LONG, BUFFER, BOOL)

    @classmethod
    def decode(cls, data: bytes) -> ConnectRequest:
        """Read either form; raises MalformedRecord."""
        r = Reader(data)
        parts = (r.read_int(), r.read_long(), r.read_int(), r.read_long(), r.read_buffer())
        return cls(*parts, read_only=r.read_bool() if r.left else False)


class ConnectResponse(Record):
    """The server's first frame.  timeout_ms <= 0 with session 0 says: that session is gone."""

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool = False
    layout: ClassVar[tuple[Codec, ...]] = (INT, INT, LONG, BUFFER, BOOL)


class CreateRequest(Record):
    """create, create2 and createContainer."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT)


class CreateTTLRequest(Record):
    """createTTL."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    ttl_ms: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT, LONG)


class DeleteRequest(Record):
    """delete."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class PathWatchRequest(Record):
    """exists, getData, getChildren and getChildren2: a path and whether to leave a watch."""

    path: str
    watch: bool
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BOOL)


class SetDataRequest(Record):
    """setData."""

    path: str
    data: bytes | None
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, INT)


class PathRequest(Record):
    """getACL, sync, getEphemerals, getAllChildrenNumber: a path alone."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class SetACLRequest(Record):
    """setACL."""

    path: str
    acl: Sequence[ACL]
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, ACLS, INT)


class CheckVersionRequest(Record):
    """check, inside a multi."""

    path: str
    version: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, INT)


class AuthPacket(Record):
    """auth (xid -4)."""

    type: int
    scheme: str
    auth: bytes | None
    layout: ClassVar[tuple[Codec, ...]] = (INT, STRING, BUFFER)


class SetWatches(Record):
    """setWatches: re-arm watches after a reconnect."""

    relative_zxid: int
    data_watches: list[str]
    exist_watches: list[str]
    child_watches: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (LONG, STRINGS, STRINGS, STRINGS)


class EmptyRequest(Record):
    """ping, closeSession: no body."""


class CreateResponse(Record):
    """create's answer: the path made."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class Create2Response(Record):
    """create2's answer."""

    path: str
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (STRING, STAT)


class StatResponse(Record):
    """exists, setData, setACL."""

    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (STAT,)


class GetDataResponse(Record):
    """getData."""

    data: bytes | None
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER, STAT)


class GetACLResponse(Record):
    """getACL."""

    acl: Sequence[ACL]
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (ACLS, STAT)


class GetChildrenResponse(Record):
    """getChildren."""

    children: list[str]
    layout: ClassVar[tuple[Codec, ...]] = (STRINGS,)


class GetChildren2Response(Record):
    """getChildren2."""

    children: list[str]
    stat: Stat
    layout: ClassVar[tuple[Codec, ...]] = (STRINGS, STAT)


class SyncResponse(Record):
    """sync: echoes the path."""

    path: str
    layout: ClassVar[tuple[Codec, ...]] = (STRING,)


class WatcherEvent(Record):
    """A watch that fired (xid -1)."""

    type: int
    state: int
    path: str
    layout: ClassVar[tuple[Codec, ...]] = (INT, INT, STRING)


class MultiOp(NamedTuple):
    """One operation of a multi request."""

    op: OpCode
    body: Record


class MultiRequest(msgspec.Struct):
    """multi: operations that succeed or fail together (org.apache.zookeeper.MultiOperationRecord)."""

    ops: list[MultiOp]

    def encode_into(self, out: Writer) -> None:
        """Append each op behind a header (type, done, err), then the closing header."""
        for op, body in self.ops:
            out += pack_int(op) + b"\0" + pack_int(-1)
            body.encode_into(out)
        out += pack_int(-1) + b"\1" + pack_int(-1)

    @classmethod
    def read_from(cls, reader: Reader) -> MultiRequest:
        """Read ops up to the closing header; raises MalformedRecord."""
        ops: list[MultiOp] = []
        while True:
            kind, done = reader.read_int(), reader.read_bool()
            reader.read_int()
            if done:
                return cls(ops)
            if kind not in MULTI_BODIES:
                raise MalformedRecord(f"multi cannot hold op {kind}")
            ops.append(MultiOp(OpCode(kind), MULTI_BODIES[kind].read_from(reader)))


class MultiResult(NamedTuple):
    """One operation's result: its op code and response, or OpCode.ERROR and the error code."""

    op: OpCode
    error: int
    body: Record | None


class MultiResponse(msgspec.Struct):
    """multi's answer, one result an operation."""

    results: list[MultiResult]

    def encode_into(self, out: Writer) -> None:
        """Append each result behind its header, then the closing header (org.apache.zookeeper.MultiResponse)."""
        for op, error, body in self.results:
            if op is OpCode.ERROR:
                out += pack_int(-1) + b"\0" + pack_int(error) + pack_int(error)
            else:
                out += pack_int(op) + b"\0" + pack_int(0)
                if body is not None:
                    body.encode_into(out)
        out += pack_int(-1) + b"\1" + pack_int(-1)

    @classmethod
    def read_from(cls, reader: Reader) -> MultiResponse:
        """Read results up to the closing header; raises MalformedRecord."""
        results: list[MultiResult] = []
        while True:
            kind, done, error = reader.read_int(), reader.read_bool(), reader.read_int()
            if done:
                return cls(results)
            if kind == OpCode.ERROR:
                results.append(MultiResult(OpCode.ERROR, reader.read_int(), None))
                continue
            if kind not in MULTI_RESPONSES:
                raise MalformedRecord(f"multi cannot answer op {kind}")
            results.append(MultiResult(OpCode(kind), error, MULTI_RESPONSES[kind].read_from(reader)))


MULTI_BODIES: dict[int, type[Record]] = {
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTTLRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.CHECK: CheckVersionRequest,
}
MULTI_RESPONSES: dict[int, type[Record]] = {
    OpCode.CREATE: CreateResponse,
    OpCode.CREATE2: Create2Response,
    OpCode.CREATE_CONTAINER: Create2Response,
    OpCode.CREATE_TTL: Create2Response,
    OpCode.DELETE: EmptyRequest,
    OpCode.SET_DATA: StatResponse,
    OpCode.CHECK: EmptyRequest,
}
REQUEST_BODIES: dict[int, type[Record] | type[MultiRequest]] = {
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTTLRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.EXISTS: PathWatchRequest,
    OpCode.GET_DATA: PathWatchRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.GET_ACL: PathRequest,
    OpCode.SET_ACL: SetACLRequest,
    OpCode.GET_CHILDREN: PathWatchRequest,
    OpCode.GET_CHILDREN2: PathWatchRequest,
    OpCode.SYNC: PathRequest,
    OpCode.PING: EmptyRequest,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.MULTI: MultiRequest,
    OpCode.AUTH: AuthPacket,
    OpCode.SET_WATCHES: SetWatches,
    OpCode.CLOSE_SESSION: EmptyRequest,
}
RESPONSE_BODIES: dict[int, type[Record] | type[MultiResponse]] = {
    OpCode.CREATE: CreateResponse,
    OpCode.CREATE2: Create2Response,
    OpCode.CREATE_CONTAINER: Create2Response,
    OpCode.CREATE_TTL: Create2Response,
    OpCode.EXISTS: StatResponse,
    OpCode.GET_DATA: GetDataResponse,
    OpCode.SET_DATA: StatResponse,
    OpCode.GET_ACL: GetACLResponse,
    OpCode.SET_ACL: StatResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
    OpCode.GET_CHILDREN2: GetChildren2Response,
    OpCode.SYNC: SyncResponse,
    OpCode.MULTI: MultiResponse,
}
WRITES = frozenset(
    {
        OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.DELETE, OpCode.SET_DATA,
        OpCode.SET_ACL, OpCode.MULTI, OpCode.CHECK, OpCode.RECONFIG, OpCode.DELETE_CONTAINER, OpCode.CREATE_SESSION,
        OpCode.CLOSE_SESSION,
    }
)  # fmt: skip
"""Ops that become transactions (PrepRequestProcessor)."""

AnyBody = Record | MultiRequest
AnyResponse = Record | MultiResponse


class Request(msgspec.Struct):
    """A client's frame: `body` is None where the op code is unknown or the body malformed (then `problem` says why)."""

    xid: int
    op: int
    body: AnyBody | None
    problem: ErrorCode = ErrorCode.OK

    def encode(self) -> bytes:
        """The frame's bytes, without its length."""
        out = bytearray(pack_int(self.xid) + pack_int(self.op))
        if self.body is not None:
            self.body.encode_into(out)
        return bytes(out)

    @classmethod
    def decode(cls, frame: bytes) -> Request:
        """Parse a frame.  An unknown op or a malformed body is a value; a missing header raises MalformedRecord."""
        reader = Reader(frame)
        xid, op = reader.read_int(), reader.read_int()
        kind = REQUEST_BODIES.get(op)
        if kind is None:
            return cls(xid, op, None, ErrorCode.UNIMPLEMENTED)
        try:
            return cls(xid, op, kind.read_from(reader))
        except MalformedRecord:
            return cls(xid, op, None, ErrorCode.MARSHALLING_ERROR)


class Reply(msgspec.Struct):
    """A server's frame: header and, when err is 0, the response."""

    xid: int
    zxid: int
    err: int
    body: AnyResponse | None = None

    def encode(self) -> bytes:
        """The frame's bytes, without its length."""
        out = bytearray(pack_int(self.xid) + pack_long(self.zxid) + pack_int(self.err))
        if self.body is not None:
            self.body.encode_into(out)
        return bytes(out)


ServerMessage = ConnectResponse | Reply
ClientMessage = ConnectRequest | Request

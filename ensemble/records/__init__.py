"""The records of the ZooKeeper client protocol (zookeeper.jute, org.apache.zookeeper.proto and .data).

A client's first frame is a ConnectRequest; every later one is a request header (xid, op code) and the op's body.  A
reply frame is a header (xid, zxid, err) and, when err is 0, the op's response.  `Request` and `Reply` are those frames,
typed; the same objects travel on the simulated network.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
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
from ensemble.records.auth import AuthPacket as AuthPacket
from ensemble.records.auth import SaslRequest as SaslRequest
from ensemble.records.auth import SaslResponse as SaslResponse
from ensemble.records.op_codes import AUTH_XID as AUTH_XID
from ensemble.records.op_codes import NOTIFICATION_XID as NOTIFICATION_XID
from ensemble.records.op_codes import PING_XID as PING_XID
from ensemble.records.op_codes import SET_WATCHES_XID as SET_WATCHES_XID
from ensemble.records.op_codes import CreateFlag as CreateFlag
from ensemble.records.op_codes import EventType as EventType
from ensemble.records.op_codes import KeeperState as KeeperState
from ensemble.records.op_codes import OpCode as OpCode
from ensemble.records.op_codes import Permission as Permission
from ensemble.records.watches import (
    AddWatchRequest,
    ErrorResponse,
    GetAllChildrenNumberResponse,
    GetEphemeralsResponse,
    SetWatches2,
    WatchesRequest,
    WhoAmIResponse,
)
from ensemble.records.watches import SetWatches as SetWatches


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


_int_at = struct.Struct(">i").unpack_from
_STAT = struct.Struct(">qqqqiiiqiiq")


pack_stat = _STAT.pack
STAT_SIZE = _STAT.size


def _write_stat(out: Writer, stat: Stat) -> None:
    out += pack_stat(*stat)


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
_ANY_ACLS = vector(record(ACL))
OPEN_ACL_BYTES = bytes.fromhex("00000001 0000001f") + b"\0\0\0\5world\0\0\0\6anyone"


def _write_acls(out: Writer, acl: Sequence[ACL]) -> None:
    if acl is OPEN_ACL:
        out += OPEN_ACL_BYTES
    else:
        _ANY_ACLS.write(out, acl)


def _read_acls(reader: Reader) -> Sequence[ACL]:
    """Nearly every list is the open one: it is known by its bytes, and by identity from here on."""
    if reader.data.startswith(OPEN_ACL_BYTES, reader.pos):
        reader.pos += len(OPEN_ACL_BYTES)
        return OPEN_ACL
    acl: Sequence[ACL] = _ANY_ACLS.read(reader)
    return acl


ACLS = Codec(_write_acls, _read_acls)
STRINGS = vector(STRING)


def _write_unless_none(out: Writer, value: bool | None) -> None:
    if value is not None:
        BOOL.write(out, value)


_BOOL_UNLESS_NONE = Codec(_write_unless_none, Reader.read_bool)


class ConnectRequest(Record):
    """A client's first frame.  Old clients leave `read_only` out: None."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool | None = False
    layout: ClassVar[tuple[Codec, ...]] = (INT, LONG, INT, LONG, BUFFER, _BOOL_UNLESS_NONE)

    @classmethod
    def decode(cls, data: bytes) -> ConnectRequest:
        """Read either form; raises MalformedRecord."""
        r = Reader(data)
        parts = (r.read_int(), r.read_long(), r.read_int(), r.read_long(), r.read_buffer())
        return cls(*parts, read_only=r.read_bool() if r.left else None)


class ConnectResponse(Record):
    """The server's first frame.  timeout_ms <= 0 with session 0 says: that session is gone.  `read_only` None is left
    out, for old clients."""

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None = False
    layout: ClassVar[tuple[Codec, ...]] = (INT, INT, LONG, BUFFER, _BOOL_UNLESS_NONE)


class CreateRequest(Record):
    """create, create2 and createContainer."""

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    layout: ClassVar[tuple[Codec, ...]] = (STRING, BUFFER, ACLS, INT)

    @classmethod
    def read_from(cls, reader: Reader) -> CreateRequest:
        """As `layout` says, written out; raises MalformedRecord."""
        path, data = reader.read_path_and_data()
        return cls(path, data, _read_acls(reader), reader.read_int())

    @classmethod
    def decode(cls, data: bytes) -> CreateRequest:
        """The record in `data`, in one step where nothing is odd about it; raises MalformedRecord."""
        try:
            size: int = _int_at(data, 0)[0]
            length: int = _int_at(data, 4 + size)[0]
            stop = 8 + size + length
            if size >= 0 and length >= 0 and data.startswith(OPEN_ACL_BYTES, stop):
                flags: int = _int_at(data, stop + len(OPEN_ACL_BYTES))[0]
                return cls(data[4 : 4 + size].decode(), data[8 + size : stop], OPEN_ACL, flags)
        except (struct.error, UnicodeDecodeError):
            pass
        return cls.read_from(Reader(data))


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

    @classmethod
    def read_from(cls, reader: Reader) -> SetDataRequest:
        """As `layout` says, written out; raises MalformedRecord."""
        path, data = reader.read_path_and_data()
        return cls(path, data, reader.read_int())

    @classmethod
    def decode(cls, data: bytes) -> SetDataRequest:
        """The record in `data`, in one step where nothing is odd about it; raises MalformedRecord."""
        try:
            size: int = _int_at(data, 0)[0]
            length: int = _int_at(data, 4 + size)[0]
            stop = 8 + size + length
            if size >= 0 and length >= 0:
                return cls(data[4 : 4 + size].decode(), data[8 + size : stop], _int_at(data, stop)[0])
        except (struct.error, UnicodeDecodeError):
            pass
        return cls.read_from(Reader(data))


class PathRequest(Record):
    """getACL, sync, getEphemerals, getAllChildrenNumber, deleteContainer: a path alone."""

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


class ReconfigRequest(Record):
    """reconfig: servers that join, ids that leave, or all new members, each text or null; and the version that they
    start from, -1 for any."""

    joining: bytes | None
    leaving: bytes | None
    new_members: bytes | None
    config_id: int
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER, BUFFER, BUFFER, LONG)


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


class MultiReadRequest(MultiRequest):
    """multiRead: getData and getChildren, each with its own outcome; what they say of watches is ignored."""

    @classmethod
    def read_from(cls, reader: Reader) -> MultiReadRequest:
        """Read ops up to the closing header; raises MalformedRecord."""
        ops: list[MultiOp] = []
        while True:
            kind, done = reader.read_int(), reader.read_bool()
            reader.read_int()
            if done:
                return cls(ops)
            if kind not in (OpCode.GET_DATA, OpCode.GET_CHILDREN):
                raise MalformedRecord(f"multiRead cannot hold op {kind}")
            ops.append(MultiOp(OpCode(kind), PathWatchRequest.read_from(reader)))


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
    OpCode.GET_DATA: GetDataResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
}
REQUEST_BODIES: dict[int, type[Record] | type[MultiRequest]] = {
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTTLRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.DELETE_CONTAINER: PathRequest,
    OpCode.EXISTS: PathWatchRequest,
    OpCode.GET_DATA: PathWatchRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.GET_ACL: PathRequest,
    OpCode.SET_ACL: SetACLRequest,
    OpCode.GET_CHILDREN: PathWatchRequest,
    OpCode.GET_CHILDREN2: PathWatchRequest,
    OpCode.SYNC: PathRequest,
    OpCode.PING: EmptyRequest,
    OpCode.RECONFIG: ReconfigRequest,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.MULTI: MultiRequest,
    OpCode.AUTH: AuthPacket,
    OpCode.SASL: SaslRequest,
    OpCode.SET_WATCHES: SetWatches,
    OpCode.SET_WATCHES2: SetWatches2,
    OpCode.ADD_WATCH: AddWatchRequest,
    OpCode.CHECK_WATCHES: WatchesRequest,
    OpCode.REMOVE_WATCHES: WatchesRequest,
    OpCode.MULTI_READ: MultiReadRequest,
    OpCode.GET_EPHEMERALS: PathRequest,
    OpCode.GET_ALL_CHILDREN_NUMBER: PathRequest,
    OpCode.WHO_AM_I: EmptyRequest,
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
    OpCode.RECONFIG: GetDataResponse,
    OpCode.MULTI: MultiResponse,
    OpCode.MULTI_READ: MultiResponse,
    OpCode.ADD_WATCH: ErrorResponse,
    OpCode.GET_EPHEMERALS: GetEphemeralsResponse,
    OpCode.GET_ALL_CHILDREN_NUMBER: GetAllChildrenNumberResponse,
    OpCode.WHO_AM_I: WhoAmIResponse,
    OpCode.SASL: SaslResponse,
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

    def encoded_body(self) -> bytes:
        """The body's bytes; none where there is no body."""
        out = bytearray()
        if self.body is not None:
            self.body.encode_into(out)
        return bytes(out)

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


class Frames(msgspec.Struct):
    """Requests of one connection as they came together: each one frame of at least xid and op, without its length.

    What came as bytes is answered in bytes, so that the common requests are neither built as objects nor taken apart.
    """

    frames: list[bytes]


REQUEST_HEADER_SIZE = 8
REPLY_HEADER_SIZE = 20
"""The length in front included."""
ReplyFrames = bytes
"""Replies ready to be sent, each behind its length."""
ServerMessage = ConnectResponse | Reply | ReplyFrames
ClientMessage = ConnectRequest | Request | Frames

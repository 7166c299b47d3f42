"""The frames of the client protocol after the first: a header and a body, typed, or as the bytes they came in."""

from __future__ import annotations

import msgspec

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.jute import MalformedRecord, Reader, pack_int, pack_long
from zabka.ensemble.records.bodies import REQUEST_BODIES, AnyBody, AnyResponse
from zabka.ensemble.records.connect import ConnectRequest, ConnectResponse


class Request(msgspec.Struct):
    """A client's frame.

    `body` is None if the op code is unknown or the body malformed; then `problem` gives the reason.
    """

    xid: int
    op: int
    body: AnyBody | None
    problem: ErrorCode = ErrorCode.OK

    def encoded_body(self) -> bytes:
        """The body's bytes; empty if there is no body."""
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
    """Requests that arrived together on one connection: each frame has at least xid and op, without its length.

    Requests that arrive as bytes are answered in bytes, so that common requests are not converted to objects and back.
    """

    frames: list[bytes]


REQUEST_HEADER_SIZE = 8
REPLY_HEADER_SIZE = 20
"""The size, including the length prefixes."""
ReplyFrames = bytes
"""Replies ready to be sent, each after its length."""
ServerMessage = ConnectResponse | Reply | ReplyFrames
ClientMessage = ConnectRequest | Request | Frames

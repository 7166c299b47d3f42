"""Frames of the client protocol after the first frame.

A frame is represented by its header and its decoded body, or by the received bytes.
"""

from __future__ import annotations

import msgspec

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.jute import MalformedRecord, Reader, pack_int, pack_long
from zabka.ensemble.records.bodies import REQUEST_BODIES, AnyBody, AnyResponse
from zabka.ensemble.records.connect import ConnectRequest, ConnectResponse


class Request(msgspec.Struct):
    """A client's frame: a header and the body of a request.

    `body` is None if the op code is unknown or the body is malformed; then `problem` gives the reason.
    """

    xid: int
    op: int
    body: AnyBody | None
    problem: ErrorCode = ErrorCode.OK

    def encoded_body(self) -> bytes:
        """Return the body's bytes; empty if there is no body."""
        out = bytearray()
        if self.body is not None:
            self.body.encode_into(out)
        return bytes(out)

    def encode(self) -> bytes:
        """Return the frame's bytes, without the length prefix."""
        out = bytearray(pack_int(self.xid) + pack_int(self.op))
        if self.body is not None:
            self.body.encode_into(out)
        return bytes(out)

    @classmethod
    def decode(cls, frame: bytes) -> Request:
        """Decode a request frame.

        An unknown op or a malformed body is reported in the result's `problem`. Raises MalformedRecord if the header is
        incomplete.
        """
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
    """A server's frame: a header and, if `err` is 0, the response body."""

    xid: int
    zxid: int
    err: int
    body: AnyResponse | None = None

    def encode(self) -> bytes:
        """Return the frame's bytes, without the length prefix."""
        out = bytearray(pack_int(self.xid) + pack_long(self.zxid) + pack_int(self.err))
        if self.body is not None:
            self.body.encode_into(out)
        return bytes(out)


class Frames(msgspec.Struct):
    """Requests that arrived together on one connection, as undecoded bytes.

    Each frame has no length prefix and contains at least xid and op. The replies to these requests are bytes too, so
    that common requests are not converted to objects and back.
    """

    frames: list[bytes]


REQUEST_HEADER_SIZE = 8
REPLY_HEADER_SIZE = 20
"""Size of a reply header, including the frame's length prefix."""
ReplyFrames = bytes
"""Encoded replies, ready to be sent, each with its length prefix."""
ServerMessage = ConnectResponse | Reply | ReplyFrames
ClientMessage = ConnectRequest | Request | Frames

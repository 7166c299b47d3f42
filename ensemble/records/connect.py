"""First frames of a connection: the client's ConnectRequest and the server's ConnectResponse."""

from __future__ import annotations

from typing import ClassVar

from zabka.ensemble.jute import BOOL, BUFFER, INT, LONG, Codec, Reader, Record, Writer


def _write_unless_none(out: Writer, value: bool | None) -> None:
    if value is not None:
        BOOL.write(out, value)


_BOOL_UNLESS_NONE = Codec(_write_unless_none, Reader.read_bool)


class ConnectRequest(Record):
    """A client's first frame. `read_only` is None if the client is old and omits it."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool | None = False
    layout: ClassVar[tuple[Codec, ...]] = (INT, LONG, INT, LONG, BUFFER, _BOOL_UNLESS_NONE)

    @classmethod
    def decode(cls, data: bytes) -> ConnectRequest:
        """Decode the record with or without `read_only`.

        Raises MalformedRecord.
        """
        r = Reader(data)
        parts = (r.read_int(), r.read_long(), r.read_int(), r.read_long(), r.read_buffer())
        return cls(*parts, read_only=r.read_bool() if r.left else None)


class ConnectResponse(Record):
    """The server's first frame. timeout_ms <= 0 with session 0 means that the session has expired.

    If `read_only` is None, the field is not sent, because old clients do not expect it.
    """

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None = False
    layout: ClassVar[tuple[Codec, ...]] = (INT, INT, LONG, BUFFER, _BOOL_UNLESS_NONE)

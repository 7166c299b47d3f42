"""First frame of each side: the client's data and the assigned session (ConnectRequest, ConnectResponse)."""

from __future__ import annotations

from typing import ClassVar

from zabka.ensemble.jute import BOOL, BUFFER, INT, LONG, Codec, Reader, Record, Writer


def _write_unless_none(out: Writer, value: bool | None) -> None:
    if value is not None:
        BOOL.write(out, value)


_BOOL_UNLESS_NONE = Codec(_write_unless_none, Reader.read_bool)


class ConnectRequest(Record):
    """A client's first frame. Old clients omit `read_only`: it is None then."""

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

    `read_only` is omitted if it is None, for old clients.
    """

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None = False
    layout: ClassVar[tuple[Codec, ...]] = (INT, INT, LONG, BUFFER, _BOOL_UNLESS_NONE)

"""Records of client authentication: auth packets, and SASL tokens."""

from __future__ import annotations

from typing import ClassVar

from zabka.ensemble.jute import BUFFER, INT, STRING, Codec, Record


class AuthPacket(Record):
    """auth (xid -4)."""

    type: int
    scheme: str
    auth: bytes | None
    layout: ClassVar[tuple[Codec, ...]] = (INT, STRING, BUFFER)


class SaslRequest(Record):
    """sasl: a client's token (GetSASLRequest)."""

    token: bytes | None
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER,)


class SaslResponse(Record):
    """sasl's reply: a server's token (SetSASLResponse)."""

    token: bytes | None
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER,)

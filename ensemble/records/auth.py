"""Records of client authentication: auth packets, and SASL tokens."""

from __future__ import annotations

from typing import ClassVar

from zabka.ensemble.jute import BUFFER, INT, STRING, Codec, Record


class AuthPacket(Record):
    """An auth packet (op auth, xid -4): credentials of one scheme."""

    type: int
    scheme: str
    auth: bytes | None
    layout: ClassVar[tuple[Codec, ...]] = (INT, STRING, BUFFER)


class SaslRequest(Record):
    """Client's SASL token (sasl request, GetSASLRequest)."""

    token: bytes | None
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER,)


class SaslResponse(Record):
    """Server's SASL token (sasl reply, SetSASLResponse)."""

    token: bytes | None
    layout: ClassVar[tuple[Codec, ...]] = (BUFFER,)

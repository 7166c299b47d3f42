"""Mutual authentication of an ensemble's servers: SASL DIGEST-MD5 on the quorum and election ports.

The side that opens a connection is the learner, and the side that accepts it is the server (QuorumAuth,
SaslQuorumAuthLearner, SaslQuorumAuthServer). They exchange QuorumAuthPackets {long magic, int status, buffer token},
unframed: before everything else on the quorum port, and after the initial message on the election port. This module
does no I/O: it takes and returns bytes.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from zabka.ensemble.auth.digest_md5 import QUORUM, RESPONSE_BYTES_MAX, DigestMd5Server, SaslError
from zabka.ensemble.auth.digest_md5_client import DigestMd5Client

MAGIC = 2**64 - 0xA0DBCAFECAFE1234
"""QUORUM_AUTH_MAGIC_NUMBER.

Java's source negates 0xA0DBCAFECAFE1234, which is a negative number in 64 bits, so the result is positive.
"""
IN_PROGRESS, SUCCESS, ERROR = 0, 1, -1
_HEAD = struct.Struct(">qii")
_MAGIC_BYTES = struct.pack(">q", MAGIC)


class QuorumSasl(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of zoo.cfg's `quorum.auth.…` keys.

    `users`: passwords of incoming connections, keyed by user. `user`, `password`: this server's own login. Outgoing
    connections are authenticated if `learner_required`; incoming connections may omit authentication unless
    `server_required`.
    """

    users: dict[str, str]
    user: str
    password: str
    learner_required: bool
    server_required: bool

    def __repr__(self) -> str:
        """Representation without secrets, because it may be logged."""
        return f"QuorumSasl(user={self.user}, required={self.learner_required}, {self.server_required})"


class Step(NamedTuple):
    """Result of processing received bytes: `send` contains the bytes to send now.

    After the negotiation has ended, `done` is True, and `rest` contains the received bytes that followed the
    negotiation.
    """

    send: bytes
    done: bool = False
    rest: bytes = b""


class Refused(SaslError):
    """Failed authentication of the other side. Send `send` to it before closing the connection."""

    def __init__(self, reason: str, send: bytes = b"") -> None:
        super().__init__(reason)
        self.send = send


def packet(status: int, token: bytes | None) -> bytes:
    """Return the bytes of a QuorumAuthPacket."""
    return _HEAD.pack(MAGIC, status, -1 if token is None else len(token)) + (token or b"")


class _Packets:
    """Assembles received bytes into QuorumAuthPackets."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = b""

    def next(self) -> tuple[int, bytes | None] | None:
        """Return (status, token) of the next packet, or None if the packet is not complete yet. Raises Refused."""
        if not _MAGIC_BYTES.startswith(self.buffer[:8]):
            raise Refused("it does not speak SASL; is quorum.auth.enableSasl=true there?")
        if len(self.buffer) < _HEAD.size:
            return None
        _, status, size = _HEAD.unpack_from(self.buffer)
        if not -1 <= size <= RESPONSE_BYTES_MAX:
            raise Refused(f"a SASL token of {size} bytes")
        stop = _HEAD.size + max(size, 0)
        if len(self.buffer) < stop:
            return None
        token = self.buffer[_HEAD.size : stop] if size >= 0 else None
        self.buffer = self.buffer[stop:]
        return status, token


class LearnerSide:
    """The side that opened the connection and authenticates itself. `nonce` must be unpredictable."""

    __slots__ = ("_client", "_packets", "_responded")

    def __init__(self, settings: QuorumSasl, nonce: str) -> None:
        self._client = DigestMd5Client(settings.user, settings.password, nonce, QUORUM)
        self._packets = _Packets()
        self._responded = False

    def first_message(self) -> bytes:
        """Return the first message, which asks the server for its challenge."""
        return packet(IN_PROGRESS, b"")

    def feed(self, data: bytes) -> Step:
        """Process received bytes.

        Raises SaslError if the server rejects this side, or does not prove that it knows the password.
        """
        self._packets.buffer += data
        received = self._packets.next()
        if received is None:
            return Step(b"")
        status, token = received
        if status == ERROR:
            raise Refused("the server refused this one's user or password (quorum.auth.learner.saslLoginContext)")
        if token is None or status != (SUCCESS if self._responded else IN_PROGRESS):
            raise Refused("the server breaks off the negotiation")
        if self._responded:
            self._client.check(token)
            return Step(b"", True, self._packets.buffer)
        self._responded = True
        return Step(packet(IN_PROGRESS, self._client.respond(token)))

    def connection_ended(self) -> Step:
        """Handle a connection that the server closed during the negotiation.

        Always raises Refused.
        """
        raise Refused("the server ended the connection during authentication")


class ServerSide:
    """The side that accepted the connection and authenticates the other side. `nonce` must be unpredictable."""

    __slots__ = ("_asked", "_packets", "_required", "_server")

    def __init__(self, settings: QuorumSasl, nonce: str) -> None:
        self._server = DigestMd5Server(settings.users, nonce, QUORUM, acts_for_others=False)
        self._packets = _Packets()
        self._required = settings.server_required
        self._asked = False

    def feed(self, data: bytes) -> Step:
        """Process received bytes.

        Raises Refused if authentication is required and fails. If it is not required, the learner is accepted without
        it, as in ZooKeeper.
        """
        packets = self._packets
        packets.buffer += data
        if not self._asked and not _MAGIC_BYTES.startswith(packets.buffer[:8]):
            return self._without(packets.buffer)
        try:
            received = packets.next()
            return Step(b"") if received is None else self._answer(received[1])
        except SaslError as bad:
            failure = packet(ERROR, b"")
            if self._required:
                raise Refused(str(bad), failure) from None
            return Step(failure, True, packets.buffer)

    def _answer(self, token: bytes | None) -> Step:
        if not self._asked:
            self._asked = True
            return Step(packet(IN_PROGRESS, self._server.challenge()))
        _, proof = self._server.verify(token or b"")
        return Step(packet(SUCCESS, proof), True, self._packets.buffer)

    def connection_ended(self) -> Step:
        """Handle a connection that the other side closed; the bytes received so far may be a complete message.

        Raises Refused if authentication is required.
        """
        return self._without(self._packets.buffer)

    def _without(self, rest: bytes) -> Step:
        if self._required:
            raise Refused("it does not authenticate itself, but quorum.auth.serverRequireSasl=true")
        return Step(b"", True, rest)

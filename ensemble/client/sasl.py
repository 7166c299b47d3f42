"""SASL authentication of a client, which precedes its first request (ZooKeeperSaslClient)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.auth.digest_md5_client import DigestMd5Client
from zabka.ensemble.records import Reply, SaslRequest, SaslResponse


class SaslLogin(NamedTuple):
    """User and password for DIGEST-MD5. `new_nonce` must return unpredictable strings."""

    user: str
    password: str
    new_nonce: Callable[[], str]


class SaslNegotiation:
    """Client side of one SASL negotiation: send `first`, then what `answer` returns for each reply."""

    __slots__ = ("_client", "_responded")

    def __init__(self, login: SaslLogin) -> None:
        self._client = DigestMd5Client(login.user, login.password, login.new_nonce())
        self._responded = False

    def first(self) -> SaslRequest:
        """Return the first SASL request, which asks the server for a challenge."""
        return SaslRequest(b"")

    def answer(self, reply: Reply) -> SaslRequest | None:
        """Process a reply; return the next token to send, or None if the negotiation is complete.

        Raises SaslError if the server rejects the login.
        """
        body = reply.body
        if reply.err:
            raise SaslError(f"refused with error {reply.err}")
        if not isinstance(body, SaslResponse) or body.token is None:
            raise SaslError("the server does not speak SASL")
        if self._responded:
            self._client.check(body.token)
            return None
        self._responded = True
        return SaslRequest(self._client.respond(body.token))

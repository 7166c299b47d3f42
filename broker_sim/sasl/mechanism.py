"""Interface of the server side of a SASL mechanism, and the ways in which an exchange fails."""

from __future__ import annotations

from typing import Protocol

from zabka.ensemble.auth.digest_md5 import SaslError

PLAIN = "PLAIN"


class AuthenticationRefused(SaslError):
    """A failed authentication whose message is sent to the client (Kafka's SaslAuthenticationException)."""


class InvalidCredentials(SaslError):
    """A failed authentication whose message is only logged, because it could tell which users exist."""


class SaslServer(Protocol):
    """Server side of one exchange."""

    user: str | None
    """The authenticated user, or None before the exchange is complete."""

    def respond(self, token: bytes) -> bytes:
        """Process a message of the client, and return the response to it. Raises SaslError."""
        ...

"""Interface of the server side of a SASL mechanism, and the ways in which an exchange fails."""

from __future__ import annotations

from typing import Protocol

from zabka.ensemble.auth.digest_md5 import SaslError

PLAIN = "PLAIN"
SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
SCRAM = (SCRAM_SHA_256, SCRAM_SHA_512)
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)


class AuthenticationRefused(SaslError):
    """A failed authentication whose message is sent to the client (Kafka's SaslAuthenticationException).

    `detail` is only logged.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class InvalidCredentials(SaslError):
    """A failed authentication whose message is only logged, because it could tell which users exist."""


class SaslServer(Protocol):
    """Server side of one exchange."""

    user: str | None
    """The authenticated user, or None before the exchange is complete."""
    expires_ms: int | None
    """Expiry time of the user's credentials on the wall clock, or None if they do not expire."""
    rejection: str
    """Reason why the client's last credentials were rejected, if the exchange can continue."""

    def respond(self, token: bytes) -> bytes:
        """Process a message of the client, and return the response to it. Raises SaslError."""
        ...

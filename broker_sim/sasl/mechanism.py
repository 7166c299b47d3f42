"""Interface of the server side of a SASL mechanism, and the ways in which an exchange fails."""

from __future__ import annotations

from typing import Protocol

from zabka.broker_sim.failed_authentications import Cause
from zabka.ensemble.auth.digest_md5 import SaslError

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"


class AuthenticationRefused(SaslError):
    """A failed authentication whose message is sent to the client (Kafka's SaslAuthenticationException).

    `detail` is only logged.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail

    cause: Cause = "wrong_credentials"


class InvalidCredentials(SaslError):
    """A failed authentication whose message is only logged, because it could tell which users exist."""

    cause: Cause = "wrong_credentials"


class RefusedIdentity(AuthenticationRefused):
    """The client acts for another user, or authenticates again with another user or mechanism."""

    cause: Cause = "other_identity"


class RefusedMessage(AuthenticationRefused):
    """A message of the mechanism cannot be read."""

    cause: Cause = "invalid_message"


class UnreadableMessage(InvalidCredentials):
    """A message of the mechanism cannot be read; the client receives no details."""

    cause: Cause = "invalid_message"


def cause_of(failed: SaslError) -> Cause:
    """Return the kind of a failure, for the journal."""
    return failed.cause if isinstance(failed, AuthenticationRefused | InvalidCredentials) else "invalid_message"


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

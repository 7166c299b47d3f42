"""Interface of the server side of a SASL mechanism, and the ways in which an exchange fails."""

from __future__ import annotations

from typing import Protocol

from zabka.broker_sim.failed_authentications import Cause
from zabka.ensemble.auth.digest_md5 import SaslError

PLAIN = "PLAIN"


class AuthenticationRefused(SaslError):
    """A failed authentication whose message is sent to the client (Kafka's SaslAuthenticationException)."""

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

    def respond(self, token: bytes) -> bytes:
        """Process a message of the client, and return the response to it. Raises SaslError."""
        ...

"""Server side of SASL PLAIN (RFC 4616), as Kafka's PlainSaslServer implements it."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

from zabka.broker_sim.sasl.mechanism import AuthenticationRefused, RefusedIdentity, RefusedMessage

_PARTS = 3


class PlainServer:
    """One exchange. `users` maps user names to passwords."""

    __slots__ = ("_users", "expires_ms", "rejection", "user")

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.rejection = ""

    def respond(self, token: bytes) -> bytes:
        """Verify the client's only message: authorization id, user and password. Raises AuthenticationRefused."""
        parts = token.decode(errors="replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise RefusedMessage(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        acting_for, user, password = parts
        if not user:
            raise AuthenticationRefused("Authentication failed: username not specified")
        if not password:
            raise AuthenticationRefused("Authentication failed: password not specified")
        expected = self._users.get(user)
        if expected is None or not compare_digest(password.encode(), expected.encode()):
            raise AuthenticationRefused("Authentication failed: Invalid username or password")
        if acting_for not in ("", user):
            raise RefusedIdentity(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""

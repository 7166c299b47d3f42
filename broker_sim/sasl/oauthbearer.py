"""Server side of SASL OAUTHBEARER (RFC 7628), as Kafka's OAuthBearerSaslServer implements it.

| state | message of the client | response |
|---|---|---|
| no rejected token | first message with a valid token | empty; the exchange is complete |
| any | first message with another token | a JSON object with the error, as a successful response |
| rejected token | ^A | failure with that JSON object as its message |

A client can send another token after a rejected one, as in Kafka; after three, the connection is closed. The extensions
of KIP-342 are checked, and not used.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from zabka.broker_sim.sasl.mechanism import AuthenticationRefused, RefusedIdentity, UnreadableMessage
from zabka.broker_sim.sasl.tokens import TokenRejected, Verify

_KVSEP = "\x01"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_KEY = "[A-Za-z]+"
_VALUE = r"[\x21-\x7e \t\r\n]+"
_FIRST = re.compile(rf"n,(?:a=(?P<acting_for>{_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class _First(NamedTuple):
    """The client's first message."""

    acting_for: str
    token: str


class OAuthBearerServer:
    """One exchange. `verify` returns the verified token, or raises TokenRejected."""

    __slots__ = ("_error", "_verify", "expires_ms", "rejection", "user")

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._error = ""
        self.rejection = ""
        self.user: str | None = None
        self.expires_ms: int | None = None

    def respond(self, token: bytes) -> bytes:
        """Process a message of the client. Raises UnreadableMessage, AuthenticationRefused."""
        if token == b"\x01" and self._error:
            raise AuthenticationRefused(self._error, self.rejection)
        self._error = self.rejection = ""
        first = _parsed(token.decode(errors="replace"))
        try:
            verified = self._verify(first.token)
        except TokenRejected as rejected:
            scope = f', "scope":"{rejected.scope}"' if rejected.scope else ""
            self._error = f'{{"status":"{rejected.status}"{scope}}}'
            self.rejection = f"{rejected.status}: {rejected}"
            return self._error.encode()
        if first.acting_for not in ("", verified.principal):
            raise RefusedIdentity(
                f"Authentication failed: Client requested an authorization id ({first.acting_for}) that is different "
                f"from the token's principal name ({verified.principal})"
            )
        self.user, self.expires_ms = verified.principal, verified.expires_ms
        return b""


def _parsed(message: str) -> _First:
    """Read a client's first message (OAuthBearerClientInitialResponse). Raises UnreadableMessage."""
    match = _FIRST.fullmatch(message)
    if match is None:
        raise UnreadableMessage("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.partition("=")[::2] for pair in match["pairs"].split(_KVSEP)[:-1])
    if "auth" not in pairs:
        raise UnreadableMessage("Invalid OAUTHBEARER client first message: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise UnreadableMessage("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise UnreadableMessage("Invalid OAUTHBEARER client first message: the scheme is not Bearer")
    return _First(match["acting_for"] or "", auth["token"])

"""Server side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as Kafka's ScramSaslServer implements it.

The caller chooses the nonce. Channel binding is not supported, and delegation tokens are not: a client that sends the
extension `tokenauth` is rejected like one with an unknown user.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable

from zabka.broker_sim.configs.credential_cache import ScramCredential
from zabka.broker_sim.sasl.mechanism import InvalidCredentials, RefusedIdentity, UnreadableMessage
from zabka.kafka.scram import HASHES, ITERATIONS_MIN

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<acting_for>{_NAME}))?,"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<user>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(rf"(?P<unproved>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})")
_TOKEN_EXTENSION = ",tokenauth=true"


class ScramServer:
    """One exchange: the client's first message, then its final message.

    `credential_of(mechanism, user)` returns a user's credential, and `nonce` is an unpredictable string.
    """

    __slots__ = (
        "_auth_message", "_credential", "_credential_of", "_mechanism", "_name", "_nonce", "expires_ms", "rejection",
        "user",
    )  # fmt: skip

    def __init__(self, mechanism: str, credential_of: Callable[[str, str], ScramCredential | None], nonce: str) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        self._name = ""
        self._credential: ScramCredential | None = None
        self._auth_message = ""
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.rejection = ""

    def respond(self, token: bytes) -> bytes:
        """Process a message of the client. Raises InvalidCredentials, AuthenticationRefused."""
        text = token.decode(errors="replace")
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise UnreadableMessage("Invalid SCRAM client first message format")
        name = match["user"].replace("=2C", ",").replace("=3D", "=")
        credential = None
        if _TOKEN_EXTENSION not in match["extensions"]:
            credential = self._credential_of(self._mechanism, name)
        if credential is None:
            raise InvalidCredentials(f"no {self._mechanism} credential of the user {name}")
        if match["acting_for"] not in (None, match["user"]):
            raise RefusedIdentity(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < ITERATIONS_MIN:
            raise InvalidCredentials(
                f"Iterations {credential.iterations} is less than the minimum {ITERATIONS_MIN} for {self._mechanism}"
            )
        self._name, self._credential = name, credential
        self._nonce = match["nonce"] + self._nonce
        salt = b64encode(credential.salt).decode()
        response = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._auth_message = f"{match['bare']},{response}"
        return response.encode()

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        match = _FINAL.fullmatch(text)
        if match is None or self.user is not None:
            raise UnreadableMessage("Invalid SCRAM client final message format")
        if match["nonce"] != self._nonce:
            raise UnreadableMessage("Invalid client nonce in the final client message.")
        digest = HASHES[self._mechanism]
        auth_message = f"{self._auth_message},{match['unproved']}".encode()
        signature = hmac.new(credential.stored_key, auth_message, digest).digest()
        proof = b64decode(match["proof"])
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=False))
        if len(proof) != len(signature) or not hmac.compare_digest(digest(client_key).digest(), credential.stored_key):
            raise InvalidCredentials(f"a wrong password of the user {self._name}")
        self.user = self._name
        return b"v=" + b64encode(hmac.new(credential.server_key, auth_message, digest).digest())

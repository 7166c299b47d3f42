"""Client side of SASL on a Kafka connection (SaslClientAuthenticator), for connections between brokers and of clients.

| message | response | next |
|---|---|---|
| SaslHandshake 1 with the mechanism | the server's mechanisms | SaslAuthenticate |
| SaslAuthenticate 2 with a token of the mechanism | a token, or an error | SaslAuthenticate, or the first request |

Kafka's client first sends ApiVersions to select the versions of both messages. These versions are served by every
broker from Kafka 2.5 on, so the request is omitted.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.scram import HASHES, scram_messages
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, request

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2

Login = Generator[KafkaMessage, KafkaMessage, int]
"""Yields requests, receives their responses, and returns the lifetime of the session in milliseconds; 0 if endless.

Raises AuthenticationFailed.
"""


class AuthenticationFailed(Exception):
    """The server rejected the credentials, could not prove that it has them, or there are no credentials."""


class Credentials(NamedTuple):
    """A user and its password, for PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""

    mechanism: str
    user: str
    password: str

    def __repr__(self) -> str:
        """Representation without the password."""
        return f"Credentials({self.mechanism}, {self.user})"


class BearerToken(NamedTuple):
    """A token for OAUTHBEARER, and the extensions that are sent with it (KIP-342)."""

    token: str
    extensions: Mapping[str, str] = {}

    @property
    def mechanism(self) -> str:
        """The SASL mechanism of tokens."""
        return "OAUTHBEARER"

    def __repr__(self) -> str:
        """Representation without the token."""
        return f"BearerToken({', '.join(self.extensions)})"


def log_in(credentials: Credentials | BearerToken, nonce: str) -> Login:
    """Authenticate a connection. `nonce` must be unpredictable."""
    mechanism = credentials.mechanism
    handshake = yield request(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, mechanism=mechanism)
    enabled = f"[{', '.join(handshake.mechanisms)}]"
    if handshake.error_code == ErrorCode.unsupported_sasl_mechanism:
        raise AuthenticationFailed(
            f"Client SASL mechanism '{mechanism}' not enabled in the server, enabled mechanisms are {enabled}"
        )
    if handshake.error_code != ErrorCode.none:
        raise AuthenticationFailed(
            f"Unexpected handshake request with client mechanism {mechanism}, enabled mechanisms are {enabled}"
        )
    tokens = _tokens(credentials, nonce)
    token = next(tokens)
    while True:
        response = yield request(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, auth_bytes=token)
        if response.error_code != ErrorCode.none:
            raise AuthenticationFailed(response.error_message or ErrorCode(response.error_code).name.upper())
        try:
            token = tokens.send(bytes(response.auth_bytes))
        except StopIteration:
            return milliseconds(response.session_lifetime)
        except SaslError as failed:
            raise AuthenticationFailed(str(failed)) from None


def _tokens(credentials: Credentials | BearerToken, nonce: str) -> Generator[bytes, bytes, None]:
    """Yield the tokens of the mechanism, and receive the server's tokens. Raises SaslError."""
    if isinstance(credentials, BearerToken):
        yield from _bearer_messages(credentials)
        return
    mechanism, user, password = credentials
    if mechanism in HASHES:
        yield from scram_messages(mechanism, user, password, nonce)
    else:
        yield f"\0{user}\0{password}".encode()


def _bearer_messages(bearer: BearerToken) -> Generator[bytes, bytes, None]:
    """Yield the messages of OAUTHBEARER (RFC 7628, OAuthBearerSaslClient). Raises SaslError.

    The response to a valid token is empty. Another response is the error: the client acknowledges it with ^A, and the
    server then rejects the authentication.
    """
    extensions = "".join(f"\x01{name}={value}" for name, value in bearer.extensions.items())
    error = yield f"n,,\x01auth=Bearer {bearer.token}{extensions}\x01\x01".encode()
    if error:
        yield b"\x01"
        raise SaslError("the server accepted the acknowledgement of an error of OAUTHBEARER")

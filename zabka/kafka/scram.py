"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): keys for both ends, and the messages of a client.

The server side is `zabka.broker_sim.sasl.scram`. Channel binding is not supported. As in Kafka, names and passwords are
used as UTF-8 without the normalization of RFC 4013.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from zabka.ensemble.auth.digest_md5 import SaslError

SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HASHES: Mapping[str, Callable[..., Any]] = {SCRAM_SHA_256: hashlib.sha256, SCRAM_SHA_512: hashlib.sha512}
"""The hash function of each mechanism."""
ITERATIONS_MIN = 4_096
ITERATIONS_MAX_OF_SERVERS = 1_000_000
"""A server cannot make a client compute for longer than a few seconds."""
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_SERVER_FIRST = re.compile(
    rf"(?:m=[^,]+,)?r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class Upsertion(NamedTuple):
    """A credential to create or replace, with the mechanism's code in requests."""

    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class ScramKeys(NamedTuple):
    """The keys that are derived from a salted password (RFC 5802, section 3)."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism]().name, password.encode(), salt, iterations)


def keys_of(mechanism: str, salted: bytes) -> ScramKeys:
    """Return the keys of a salted password."""
    digest = HASHES[mechanism]
    client_key = hmac.new(salted, b"Client Key", digest).digest()
    return ScramKeys(client_key, digest(client_key).digest(), hmac.new(salted, b"Server Key", digest).digest())


def scram_messages(mechanism: str, user: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Yield the client's two messages; send the server's response to each into the generator.

    Raises SaslError if a response is malformed, reports an error, or does not prove that the server has the user's
    credential (ScramSaslClient).
    """
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode(errors="replace")
    match = _SERVER_FIRST.fullmatch(first)
    if match is None:
        raise SaslError("Invalid SCRAM server first message format")
    if not match["nonce"].startswith(nonce):
        raise SaslError("Invalid server nonce: does not start with client nonce")
    iterations = int(match["iterations"])
    if iterations < ITERATIONS_MIN:
        raise SaslError(f"Requested iterations {iterations} is less than the minimum {ITERATIONS_MIN} for {mechanism}")
    if iterations > ITERATIONS_MAX_OF_SERVERS:
        raise SaslError(f"Requested iterations {iterations} is more than the maximum {ITERATIONS_MAX_OF_SERVERS}")
    keys = keys_of(mechanism, salted_password(mechanism, password, b64decode(match["salt"]), iterations))
    unproved = f"c=biws,r={match['nonce']}"
    auth_message, digest = f"{bare},{first},{unproved}".encode(), HASHES[mechanism]
    signature = hmac.new(keys.stored_key, auth_message, digest).digest()
    proof = bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))
    final = (yield f"{unproved},p={b64encode(proof).decode()}".encode()).decode(errors="replace")
    match = _SERVER_FINAL.fullmatch(final)
    if match is None:
        raise SaslError("Invalid SCRAM server final message format")
    if match["error"]:
        raise SaslError(f"Sasl authentication using {mechanism} failed with error: {match['error']}")
    expected = hmac.new(keys.server_key, auth_message, digest).digest()
    if not hmac.compare_digest(b64decode(match["signature"]), expected):
        raise SaslError("Invalid server signature in server final message")

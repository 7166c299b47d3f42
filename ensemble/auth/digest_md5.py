"""Server side of SASL DIGEST-MD5 (RFC 2831), as Java implements it for ZooKeeper (DigestMd5Server).

The server supports only the quality of protection `auth`, no subsequent authentication, and one realm, which is also
the server name. The caller chooses the nonce. One server object handles one negotiation: `challenge`, then `verify`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import md5
from hmac import compare_digest
from typing import NamedTuple


class SaslService(NamedTuple):
    """Name of a service that clients log in to. `server_name` is used as the realm and as the host."""

    protocol: str
    server_name: str


CLIENTS = SaslService("zookeeper", "zk-sasl-md5")
"""Service name for ZooKeeper clients that log in to a server (ZooKeeperSaslServer)."""
QUORUM = SaslService("zookeeper-quorum", "zk-quorum-sasl-md5")
"""Service name for servers of the ensemble that log in to each other (QuorumAuth)."""
RESPONSE_BYTES_MAX = 4096
NONCE_COUNT = "00000001"
_DIRECTIVE = re.compile(r'[\s,]*([^\s=,]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))\s*(?=,|$)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class SaslError(Exception):
    """Failed authentication of a client; the message gives the reason, without secrets."""


class DigestMd5Server:
    """Server side of one negotiation. `users` maps user names to passwords.

    A client that requests to act for another user is rejected, unless `acts_for_others` is set; even then the client is
    authenticated as itself (ZooKeeper's AuthorizeCallbacks).
    """

    __slots__ = ("_acts_for_others", "_done", "_nonce", "_service", "_users")

    def __init__(
        self,
        users: Mapping[str, str],
        nonce: str,
        service: SaslService = CLIENTS,
        *,
        acts_for_others: bool = True,
    ) -> None:
        self._users = users
        self._nonce = nonce
        self._service = service
        self._acts_for_others = acts_for_others
        self._done = False

    def challenge(self) -> bytes:
        """Return the digest-challenge for the client."""
        return f'realm="{self._service.server_name}",nonce="{self._nonce}",charset=utf-8,algorithm=md5-sess'.encode()

    def verify(self, response: bytes) -> tuple[str, bytes]:
        """Verify the client's digest-response.

        Return the user and the response-auth, which proves to the client that this server knows the password.

        Raises SaslError if the response is not valid, and for every response after the first.
        """
        if self._done:
            raise SaslError("the negotiation is over")
        self._done = True
        given = directives(response)
        user = _required(given, "username")
        digest_uri = self._check(given)
        password = self._users.get(user)
        if password is None:
            raise SaslError("no such user")
        secret = secret_of(
            user, given["realm"], password, self._nonce, _required(given, "cnonce"), given.get("authzid")
        )
        expected = proof(secret, self._nonce, given["cnonce"], f"AUTHENTICATE:{digest_uri}")
        if not compare_digest(expected, _required(given, "response").encode()):
            raise SaslError("a wrong password")
        if not self._acts_for_others and given.get("authzid", user) != user:
            raise SaslError("it asks to act for somebody else")
        return user, b"rspauth=" + proof(secret, self._nonce, given["cnonce"], f":{digest_uri}")

    def _check(self, given: Mapping[str, str]) -> str:
        """Check all directives except user and response; return the digest-uri."""
        expected = {"charset": "utf-8", "realm": self._service.server_name, "nonce": self._nonce, "qop": "auth"}
        defaults = {"charset": "utf-8", "qop": "auth"}
        for name, value in expected.items():
            if given.get(name, defaults.get(name)) != value:
                raise SaslError(f"{name} is not the one offered")
        if given.get("nc", NONCE_COUNT).lstrip("0") != "1":
            raise SaslError("nc is not 1")
        digest_uri = given.get("digest-uri", "")
        if digest_uri.lower() != "/".join(self._service):
            raise SaslError("digest-uri names another service")
        return digest_uri


def proof(secret: bytes, nonce: str, cnonce: str, what: str) -> bytes:
    """Return the response-value that proves knowledge of the secret (RFC 2831 section 2.1.2.1)."""
    parts = (_hex(secret), nonce, NONCE_COUNT, cnonce, "auth", _hex(what.encode()))
    return _hex(":".join(parts).encode()).encode()


def secret_of(user: str, realm: str, password: str, nonce: str, cnonce: str, authzid: str | None) -> bytes:
    """Return A1 of RFC 2831 section 2.1.2.1; names that fit ISO 8859-1 are hashed in that encoding."""
    hashed = md5(b":".join(map(_narrow, (user, realm, password))), usedforsecurity=False).digest()
    tail = [nonce, cnonce] if authzid is None else [nonce, cnonce, authzid]
    return hashed + b":" + ":".join(tail).encode()


def _narrow(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _hex(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def _required(given: Mapping[str, str], name: str) -> str:
    try:
        return given[name]
    except KeyError:
        raise SaslError(f"{name} is missing") from None


def directives(response: bytes) -> dict[str, str]:
    """Return the directives of a challenge or a response, keyed by name.

    Raises SaslError.
    """
    if len(response) > RESPONSE_BYTES_MAX:
        raise SaslError(f"a response of {len(response)} bytes")
    try:
        text = response.decode()
    except UnicodeDecodeError:
        raise SaslError("a response that is no text") from None
    out: dict[str, str] = {}
    pos = 0
    while text[pos:].strip(" \t\r\n,"):
        match = _DIRECTIVE.match(text, pos)
        if match is None:
            raise SaslError("a malformed response")
        name, quoted, plain = match[1].lower(), match[2], match[3]
        if name in out:
            raise SaslError("a directive twice")
        out[name] = _ESCAPE.sub(r"\1", quoted) if quoted is not None else plain
        pos = match.end()
    return out

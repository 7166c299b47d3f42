"""The authentication schemes: valid ids, and matching of ACL entries with identities (AuthenticationProvider)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import new as new_hash

from zabka.ensemble.auth.addresses import parse_network, within
from zabka.ensemble.auth.names import is_distinguished_name

AuthId = tuple[str, str]
"""(scheme, id): one identity that a connection has proved."""

DIGEST, IP, X509, SASL, SUPER = "digest", "ip", "x509", "sasl", "super"
ENSEMBLE, KEY = "ensemble", "key"
SUPER_USER: AuthId = (SUPER, "")
"""Super user: this identity passes every ACL check. No client can authenticate as it directly: see `AuthPolicy`."""
DEFAULT_SCHEMES = frozenset({DIGEST, IP})
PROVING = frozenset({DIGEST, X509, SASL, KEY})
"""Schemes that identify a user (isAuthenticated). The `ip` scheme is not one of them.

An `auth` entry in an ACL represents all ids of the client in these schemes.
"""
_SASL_SUPER = "super"
_PRINCIPAL = re.compile(r"[^/@]*(?:/[^/@]*)?@[^/@]*|[^@]*")
"""Pattern of a Kerberos principal (KerberosName): service/host@REALM, or any string without an @."""
_INT = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def principal(identity: AuthId) -> str:
    """Return an identity as "scheme:name" for authorization rules; a digest id without its password hash."""
    scheme, name = identity
    return f"{scheme}:{name.partition(':')[0] if scheme == DIGEST else name}"


def _is_digest(identity: str) -> bool:
    # Ignore trailing colons, because Java's split drops empty strings at the end.
    return len(identity.rstrip(":").split(":")) == 2


_VALID: dict[str, Callable[[str], bool]] = {
    DIGEST: _is_digest,
    IP: lambda identity: parse_network(identity) is not None,
    X509: is_distinguished_name,
    SASL: lambda identity: _PRINCIPAL.fullmatch(identity) is not None,
    KEY: lambda identity: True,
}


def is_valid(scheme: str, identity: str) -> bool:
    """Return whether an ACL may contain this id in this scheme. In most schemes an empty id is invalid."""
    valid = _VALID.get(scheme)
    return valid is not None and valid(identity)


def matches(scheme: str, proved: str, wanted: str) -> bool:
    """Return whether an ACL entry for `wanted` applies to the proved identity `proved` of the same scheme."""
    if proved == wanted:
        return scheme in _VALID
    if scheme == IP:
        return within(proved, wanted)
    return scheme == SASL and proved == _SASL_SUPER


def opens(key: bytes, credentials: bytes) -> bool:
    """Return whether the credentials match the data of /key (KeyAuthenticationProvider, an example provider).

    Key and credentials are numbers, and one must be a multiple of the other.
    """
    lock, given = _int(key), _int(credentials)
    return lock is not None and given is not None and (lock == 0 or given % lock == 0)


def _int(text: bytes) -> int | None:
    """Parse a Java int (Integer.parseInt)."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        return None
    if _INT.fullmatch(decoded) is None or not _INT_MIN <= (number := int(decoded)) <= _INT_MAX:
        return None
    return number


def digest_of(credentials: str, algorithm: str = "sha1") -> str:
    """Return the digest scheme's id for the credentials `user:password`: `user:base64(hash of user:password)`."""
    digest = new_hash(algorithm, credentials.encode(), usedforsecurity=False).digest()
    return f"{credentials.partition(':')[0]}:{b64encode(digest).decode()}"

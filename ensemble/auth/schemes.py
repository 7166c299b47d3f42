"""The authentication schemes: which ids they know, and whom an entry of an ACL means (AuthenticationProvider)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import new as new_hash

from ensemble.auth.addresses import parse_network, within
from ensemble.auth.names import is_distinguished_name

AuthId = tuple[str, str]
"""(scheme, id): one identity that a connection has proved."""

DIGEST, IP, X509, SASL, SUPER = "digest", "ip", "x509", "sasl", "super"
SUPER_USER: AuthId = (SUPER, "")
"""Whoever has this identity may do everything.  No client can ask for it: see `AuthPolicy`."""
DEFAULT_SCHEMES = frozenset({DIGEST, IP})
PROVING = frozenset({DIGEST, X509, SASL})
"""Schemes that say who somebody is (isAuthenticated): an `auth` entry stands for their ids.  An address does not."""
_SASL_SUPER = "super"
_PRINCIPAL = re.compile(r"[^/@]*(?:/[^/@]*)?@[^/@]*|[^@]*")
"""KerberosName: service/host@REALM, or anything without an @."""


def _is_digest(identity: str) -> bool:
    # Java's split drops empty parts at the end.
    return len(identity.rstrip(":").split(":")) == 2


_VALID: dict[str, Callable[[str], bool]] = {
    DIGEST: _is_digest,
    IP: lambda identity: parse_network(identity) is not None,
    X509: is_distinguished_name,
    SASL: lambda identity: _PRINCIPAL.fullmatch(identity) is not None,
}


def is_valid(scheme: str, identity: str) -> bool:
    """Whether an ACL may name that id in that scheme.  No scheme has an empty one."""
    valid = _VALID.get(scheme)
    return bool(identity) and valid is not None and valid(identity)


def matches(scheme: str, proved: str, wanted: str) -> bool:
    """Whether an ACL's entry for `wanted` means somebody who proved to be `proved` in the same scheme."""
    if proved == wanted:
        return scheme in _VALID
    if scheme == IP:
        return within(proved, wanted)
    return scheme == SASL and proved == _SASL_SUPER


def digest_of(credentials: str, algorithm: str = "sha1") -> str:
    """`user:password` as the digest scheme writes it: `user:base64(hash of all of it)`."""
    digest = new_hash(algorithm, credentials.encode(), usedforsecurity=False).digest()
    return f"{credentials.partition(':')[0]}:{b64encode(digest).decode()}"

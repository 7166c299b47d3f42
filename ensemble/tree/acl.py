"""Access control: who may do what on a znode (ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL).

Schemes known so far: `world`, `auth` (stands for the ids of whoever sets the ACL) and `digest`
(DigestAuthenticationProvider).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha1

from ensemble.records import ACL, OPEN_ACL, Permission

AuthId = tuple[str, str]
"""(scheme, id): one identity that a connection has proved."""
READ_ACL: tuple[ACL, ...] = (ACL(Permission.READ, "world", "anyone"),)

_interned: dict[tuple[ACL, ...], tuple[ACL, ...]] = {OPEN_ACL: OPEN_ACL, READ_ACL: READ_ACL}
_INTERNED_MAX = 10_000


def interned(acl: Sequence[ACL]) -> tuple[ACL, ...]:
    """One object for equal lists, so that nodes share it and the open list is known by identity (ACL cache)."""
    key = tuple(acl)
    found = _interned.get(key)
    if found is None:
        if len(_interned) < _INTERNED_MAX:
            _interned[key] = key
        return key
    return found


def allows(acl: Sequence[ACL], permission: int, auth: Sequence[AuthId]) -> bool:
    """Whether somebody with these identities has at least one of these permission bits; an empty list lets all in."""
    if acl is OPEN_ACL or not acl:
        return True
    for entry in acl:
        if entry.perms & permission:
            if entry.scheme == "world" and entry.id == "anyone":
                return True
            if (entry.scheme, entry.id) in auth:
                return True
    return False


def fixed_up(acl: Sequence[ACL], auth: Sequence[AuthId]) -> tuple[ACL, ...] | None:
    """The list as it is stored: no duplicates, `auth` replaced by who asks.  None where it is empty or malformed."""
    if tuple(acl) == OPEN_ACL:
        return OPEN_ACL
    stored: list[ACL] = []
    for entry in dict.fromkeys(acl):
        if entry.scheme == "world" and entry.id == "anyone":
            stored.append(entry)
        elif entry.scheme == "auth":
            if not auth:
                return None
            stored.extend(ACL(entry.perms, scheme, id_) for scheme, id_ in auth)
        elif entry.scheme == "digest" and entry.id.count(":") == 1:
            stored.append(entry)
        else:
            return None
    return interned(stored) if stored else None


def masked(acl: Sequence[ACL]) -> list[ACL]:
    """The list as those see it who may read but not administer: without the hashes of passwords."""
    return [
        ACL(entry.perms, entry.scheme, entry.id.partition(":")[0] + ":x") if entry.scheme == "digest" else entry
        for entry in acl
    ]


def authenticate(scheme: str, credentials: bytes | None) -> AuthId | None:
    """The identity that an auth packet proves, or None where the scheme is unknown."""
    if scheme != "digest" or credentials is None:
        return None
    text = credentials.decode("utf-8", "replace")  # as Java reads bytes that are no UTF-8
    hashed = b64encode(sha1(text.encode(), usedforsecurity=False).digest()).decode()
    return "digest", f"{text.partition(':')[0]}:{hashed}"

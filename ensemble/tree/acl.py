"""Access control: permission checks on a znode (ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL).

`zabka.ensemble.auth.schemes` defines the schemes; `zabka.ensemble.auth.policy` authenticates identities.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.ensemble.auth.schemes import DEFAULT_SCHEMES, PROVING, SUPER, AuthId, is_valid, matches
from zabka.ensemble.records import ACL, OPEN_ACL, Permission

READ_ACL: tuple[ACL, ...] = (ACL(Permission.READ, "world", "anyone"),)

_ALWAYS = {OPEN_ACL: OPEN_ACL, READ_ACL: READ_ACL}
INTERNED_ENTRIES_MAX = 100_000
"""Maximum number of ACL entries in the cache of shared lists, about 15 MB. Most lists have one or two entries."""
ACL_BYTES_MAX = 1 << 20
"""Maximum size of a stored ACL; a larger ACL is rejected.

Each `auth` entry is replaced by one entry per identity of the client. Without a limit, a small request could create a
transaction, or an ACL in a snapshot, that no server can read.
"""
_ENTRY_BYTES = 12
"""Size of the fixed parts of a stored ACL entry: permissions, and the length prefixes of its two strings."""


class _Interned:
    """Cache with one shared object for equal ACLs.

    When it reaches its limit, it is emptied; the znodes keep their lists. So clients cannot fill the cache permanently
    with lists that no znode has.
    """

    def __init__(self) -> None:
        self._lists = dict(_ALWAYS)
        self._entries = 0

    def of(self, acl: Sequence[ACL]) -> tuple[ACL, ...]:
        """Return the shared object for this list."""
        key = tuple(acl)
        found = self._lists.get(key)
        if found is None:
            self._entries += len(key)
            if self._entries > INTERNED_ENTRIES_MAX:
                self._lists, self._entries = dict(_ALWAYS), len(key)
            found = self._lists.setdefault(key, key)
        return found


_interned = _Interned()


def interned(acl: Sequence[ACL]) -> tuple[ACL, ...]:
    """Return one shared object for all equal lists, so that ACLs can be compared by identity (ACL cache)."""
    return _interned.of(acl)


def allows(acl: Sequence[ACL], permission: int, auth: Sequence[AuthId]) -> bool:
    """Return whether an ACL gives these identities at least one of the permission bits.

    An empty ACL gives every permission.
    """
    if acl is OPEN_ACL or not acl:
        return True
    for scheme, _ in auth:
        if scheme == SUPER:
            return True
    for entry in acl:
        if entry.perms & permission:
            if entry.scheme == "world" and entry.id == "anyone":
                return True
            for scheme, proved in auth:
                if scheme == entry.scheme and matches(scheme, proved, entry.id):
                    return True
    return False


def fixed_up(
    acl: Sequence[ACL], auth: Sequence[AuthId], schemes: Collection[str] = DEFAULT_SCHEMES
) -> tuple[ACL, ...] | None:
    """Return an ACL as it is stored: without duplicates, and with `auth` entries replaced by the client's identities.

    Return None (InvalidACL) for an empty or too long list, for a scheme outside `schemes`, for an invalid id, and for
    an `auth` entry if the client has not authenticated (the identities `ip` and super user do not count).
    """
    if acl is OPEN_ACL or tuple(acl) == OPEN_ACL:
        return OPEN_ACL
    stored: list[ACL] = []
    left_bytes = ACL_BYTES_MAX
    for entry in dict.fromkeys(acl):
        entries = [entry]
        is_anyone = entry.scheme == "world" and entry.id == "anyone"
        if entry.scheme == "auth":
            proved = [identity for identity in auth if identity[0] in schemes and identity[0] in PROVING]
            if not proved:
                return None
            entries = [ACL(entry.perms, scheme, id_) for scheme, id_ in proved]
        elif not (is_anyone or (entry.scheme in schemes and is_valid(entry.scheme, entry.id))):
            return None
        left_bytes -= sum(map(_stored_bytes, entries))
        if left_bytes < 0:
            return None
        stored += entries
    return interned(stored) if stored else None


def _stored_bytes(entry: ACL) -> int:
    return _ENTRY_BYTES + len(f"{entry.scheme}{entry.id}".encode("utf-8", "surrogatepass"))


def masked(acl: Sequence[ACL]) -> list[ACL]:
    """Return an ACL without password hashes, for a client with read but without admin permission."""
    return [
        ACL(entry.perms, entry.scheme, entry.id.partition(":")[0] + ":x")
        if entry.scheme == "digest" and ":" in entry.id
        else entry
        for entry in acl
    ]

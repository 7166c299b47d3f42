"""Access control: who may do what on a znode (ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL).

What the schemes mean is in `zabka.ensemble.auth.schemes`; how identities are proved in `zabka.ensemble.auth.policy`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.ensemble.auth.schemes import DEFAULT_SCHEMES, PROVING, SUPER, AuthId, is_valid, matches
from zabka.ensemble.records import ACL, OPEN_ACL, Permission

READ_ACL: tuple[ACL, ...] = (ACL(Permission.READ, "world", "anyone"),)

_ALWAYS = {OPEN_ACL: OPEN_ACL, READ_ACL: READ_ACL}
INTERNED_ENTRIES_MAX = 100_000
"""Some 15 MB; most lists have one entry or two."""
ACL_BYTES_MAX = 1 << 20
"""A list that would be longer where it is stored is refused: each `auth` in it becomes as many entries as a client has
identities, so that a small request could make a transaction, or a list in a snapshot, that no server reads back."""
_ENTRY_BYTES = 12
"""Of an entry's permissions and the lengths of its two texts."""


class _Interned:
    """Lists of which there is one object each.  Where there is no room for another one it begins anew: the tree keeps
    what it has, and nobody can fill this for good with lists that no znode has any more."""

    def __init__(self) -> None:
        self._lists = dict(_ALWAYS)
        self._entries = 0

    def of(self, acl: Sequence[ACL]) -> tuple[ACL, ...]:
        """The one object that is equal to this list."""
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
    """One object for equal lists, so that nodes share it and the open list is known by identity (ACL cache)."""
    return _interned.of(acl)


def allows(acl: Sequence[ACL], permission: int, auth: Sequence[AuthId]) -> bool:
    """Whether somebody with these identities has at least one of these permission bits; an empty list lets all in."""
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
    """The list as it is stored: no duplicates, `auth` replaced by who asks.

    None (InvalidACL) where it is empty or too long, names a scheme that is not among `schemes` or an id that its scheme
    does not know, or says `auth` for somebody who has proved nothing: an address or being super does not count.
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
    """The list as those see it who may read but not administer: without the hashes of passwords."""
    return [
        ACL(entry.perms, entry.scheme, entry.id.partition(":")[0] + ":x")
        if entry.scheme == "digest" and ":" in entry.id
        else entry
        for entry in acl
    ]

"""Decisions of the authorizer about one operation on one resource (kafka.security.authorizer.AclAuthorizer).

An operation is allowed in these cases:

1. The principal is one of `super.users`.
2. No entry is about the resource, and `allow.everyone.if.no.acl.found` is true.
3. No DENY entry matches the operation, and an ALLOW entry matches it or an operation that implies it.

The entries about a resource are those of its literal pattern, of the literal pattern `*`, and of every prefixed pattern
whose name is a prefix of the resource's name. An entry matches a request if its principal is the request's or `User:*`,
its host is the client's address or `*`, and its operation is the requested one or ALL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from zabka.broker_sim.principals import KafkaPrincipal
from zabka.kafka.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

IMPLIED_BY: Mapping[AclOperation, tuple[AclOperation, ...]] = {
    AclOperation.DESCRIBE: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
"""The operations whose ALLOW entries also allow this one. DENY entries imply nothing."""
DECISIONS_MAX = 20_000
"""Maximum number of remembered decisions."""
REMEMBERED_NAME_MAX = 249
"""Maximum length of a resource name in a remembered decision, because clients choose names of up to 32 KB."""

_Names = dict[str, None]


class Requester(NamedTuple):
    """The client that sent a request. `host` is its IP address."""

    principal: KafkaPrincipal
    host: str


class AclIndex:
    """All entries by resource pattern, and the decisions that follow from them."""

    def __init__(self, super_users: Collection[KafkaPrincipal] = (), allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._entries: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
        self._prefix_lengths: dict[ResourceType, tuple[int, ...]] = {}
        """The lengths of the names of prefixed patterns, in ascending order."""
        self._names: dict[tuple[ResourceType, PatternType, AclEntry], _Names] = {}
        """The names of the patterns that have an entry (AclAuthorizer's resourceCache)."""
        self._decided: dict[tuple[Requester, AclOperation, ResourceType, str], bool] = {}

    # ---- entries ----------------------------------------------------------------------------------------------

    def assign(self, pattern: ResourcePattern, entries: Collection[AclEntry]) -> None:
        """Replace the entries of a pattern. Without entries, the pattern is removed."""
        known = self._entries.get(pattern, ())
        for entry in known:
            key = (pattern.resource_type, pattern.pattern_type, entry)
            if entry not in entries and key in self._names:
                self._names[key].pop(pattern.name, None)
                if not self._names[key]:
                    del self._names[key]
        for entry in entries:
            key = (pattern.resource_type, pattern.pattern_type, entry)
            self._names.setdefault(key, {})[pattern.name] = None
        if entries:
            self._entries[pattern] = tuple(dict.fromkeys(entries))
        else:
            self._entries.pop(pattern, None)
        self._decided.clear()
        if pattern.pattern_type is PatternType.PREFIXED:
            lengths = {
                len(each.name)
                for each in self._entries
                if each.pattern_type is PatternType.PREFIXED and each.resource_type is pattern.resource_type
            }
            self._prefix_lengths[pattern.resource_type] = tuple(sorted(lengths))

    def entries(self, pattern: ResourcePattern) -> tuple[AclEntry, ...]:
        """Return the entries of exactly this pattern."""
        return self._entries.get(pattern, ())

    def patterns(self) -> list[ResourcePattern]:
        """Return all patterns that have entries, sorted."""
        return sorted(self._entries)

    def bindings(self) -> Iterator[AclBinding]:
        """Yield all entries with their patterns, in the order of the patterns."""
        for pattern in self.patterns():
            for entry in self._entries[pattern]:
                yield AclBinding(pattern, entry)

    # ---- decisions --------------------------------------------------------------------------------------------

    def allows(
        self, requester: Requester, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Return whether the client is allowed to execute the operation (AclAuthorizer.authorizeAction)."""
        key = (requester, operation, resource_type, resource_name)
        decided = self._decided.get(key)
        if decided is None:
            decided = self._decide(requester, operation, resource_type, resource_name)
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            if len(resource_name) <= REMEMBERED_NAME_MAX:
                self._decided[key] = decided
        return decided

    def _decide(
        self, requester: Requester, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        if requester.principal in self._super_users:
            return True
        entries = list(self._matching(resource_type, resource_name))
        if not entries:
            return self._allow_if_no_acl
        if _exists(entries, requester, (operation,), Permission.DENY):
            return False
        return _exists(entries, requester, IMPLIED_BY.get(operation, (operation,)), Permission.ALLOW)

    def _matching(self, resource_type: ResourceType, name: str) -> Iterator[AclEntry]:
        """Yield the entries about a resource."""
        yield from self._entries.get(ResourcePattern(resource_type, WILDCARD, PatternType.LITERAL), ())
        yield from self._entries.get(ResourcePattern(resource_type, name, PatternType.LITERAL), ())
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                return
            yield from self._entries.get(ResourcePattern(resource_type, name[:length], PatternType.PREFIXED), ())

    def allows_any(self, requester: Requester, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the client is allowed to execute the operation on at least one resource of that type.

        As in AclAuthorizer.authorizeByResourceType, no operation implies another one here.
        """
        if requester.principal in self._super_users:
            return True

        def names(permission: Permission, pattern_type: PatternType) -> list[_Names]:
            return self._names_for(requester, operation, permission, resource_type, pattern_type)

        denied = names(Permission.DENY, PatternType.LITERAL)
        if any(WILDCARD in each for each in denied):
            return False
        if self._allow_if_no_acl:
            return True
        denied_prefixes = names(Permission.DENY, PatternType.PREFIXED)
        for prefix in _each(names(Permission.ALLOW, PatternType.PREFIXED)):
            if not _has_denied_prefix(prefix, denied_prefixes):
                return True
        for literal in _each(names(Permission.ALLOW, PatternType.LITERAL)):
            is_denied = any(literal in each for each in denied) or _has_denied_prefix(literal, denied_prefixes)
            if literal == WILDCARD or not is_denied:
                return True
        return False

    def _names_for(
        self,
        requester: Requester,
        operation: AclOperation,
        permission: Permission,
        resource_type: ResourceType,
        pattern_type: PatternType,
    ) -> list[_Names]:
        found = []
        for principal in dict.fromkeys((str(requester.principal), WILDCARD_PRINCIPAL)):
            for host in dict.fromkeys((requester.host, WILDCARD)):
                for each in dict.fromkeys((operation, AclOperation.ALL)):
                    entry = AclEntry(principal, host, each, permission)
                    names = self._names.get((resource_type, pattern_type, entry))
                    if names is not None:
                        found.append(names)
        return found


def _each(names: Iterable[_Names]) -> Iterator[str]:
    for each in names:
        yield from each


def _has_denied_prefix(name: str, denied: Iterable[_Names]) -> bool:
    """Return whether a denied prefix is a prefix of this name, so that the name allows nothing."""
    return any(name[:length] in each for each in denied for length in range(len(name) + 1))


def _exists(
    entries: Iterable[AclEntry], requester: Requester, operations: Collection[AclOperation], permission: Permission
) -> bool:
    principal = str(requester.principal)
    return any(
        entry.permission is permission
        and (entry.operation in operations or entry.operation is AclOperation.ALL)
        and entry.host in (WILDCARD, requester.host)
        and entry.principal in (WILDCARD_PRINCIPAL, principal)
        for entry in entries
    )

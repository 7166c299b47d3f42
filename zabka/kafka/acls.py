"""Kafka's access control lists: resources, operations, entries and filters.

Sources: org.apache.kafka.common.acl and org.apache.kafka.common.resource. The numbers are the codes in requests; the
names are those of Kafka's tools and znodes (SecurityUtils).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

WILDCARD = "*"
"""Name of a literal pattern that matches every resource, host of an entry that matches every host."""
WILDCARD_PRINCIPAL = "User:*"
"""Principal of an entry that matches every principal."""
CLUSTER_NAME = "kafka-cluster"
"""Name of the only resource of the type CLUSTER."""


class ResourceType(IntEnum):
    """Type of a resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Type of a resource pattern. ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Operation on a resource. ALL in an entry matches every operation; ANY occurs only in filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """Effect of an entry. ANY occurs only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES = tuple(each for each in ResourceType if each > ResourceType.ANY)
"""The types of real resources."""
PATTERN_TYPES = (PatternType.LITERAL, PatternType.PREFIXED)
"""The pattern types of stored entries."""

SUPPORTED_OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that each resource type has (AclEntry.supportedOperations)."""

_Code = TypeVar("_Code", bound=IntEnum)


def pascal(code: IntEnum) -> str:
    """Return the name that znodes and tools use, for example TransactionalId."""
    return "".join(part.capitalize() for part in code.name.split("_"))


def from_name(codes: type[_Code], text: str) -> _Code:
    """Return the code with that name, in any case and without underscores. The result is UNKNOWN for other names."""
    wanted = text.upper()
    return next((code for code in codes if pascal(code).upper() == wanted), codes(0))


def from_code(codes: type[_Code], number: int) -> _Code:
    """Return the code with that number, or UNKNOWN."""
    return codes(number) if number in codes._value2member_map_ else codes(0)


class ResourcePattern(NamedTuple):
    """The resources that an entry is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class AclEntry(NamedTuple):
    """A permission of a principal ("User:alice") on a host for one operation (AccessControlEntry)."""

    principal: str
    host: str
    operation: AclOperation
    permission: Permission


class AclBinding(NamedTuple):
    """An entry with the resources that it is about."""

    pattern: ResourcePattern
    entry: AclEntry


class PatternFilter(NamedTuple):
    """Selects resource patterns (ResourcePatternFilter). A name of None selects every name."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType

    def matches(self, pattern: ResourcePattern) -> bool:
        """Return whether the filter selects the pattern."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def exact(self) -> tuple[ResourcePattern, ...]:
        """Return the patterns that the filter could select, or none if this depends on the stored patterns."""
        if self.resource_type is ResourceType.ANY or self.name is None or self.pattern_type is PatternType.MATCH:
            return ()
        kinds = PATTERN_TYPES if self.pattern_type is PatternType.ANY else (self.pattern_type,)
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in kinds)


class EntryFilter(NamedTuple):
    """Selects entries (AccessControlEntryFilter). None, or the code ANY, selects every value."""

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def matches(self, entry: AclEntry) -> bool:
        """Return whether the filter selects the entry."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


class AclFilter(NamedTuple):
    """Selects bindings (AclBindingFilter)."""

    pattern: PatternFilter
    entry: EntryFilter

    def matches(self, binding: AclBinding) -> bool:
        """Return whether the filter selects the binding."""
        return self.pattern.matches(binding.pattern) and self.entry.matches(binding.entry)


EVERY_ACL = AclFilter(PatternFilter(ResourceType.ANY, None, PatternType.ANY), EntryFilter())
"""Selects every binding."""

"""ACLs in /kafka-acl and /kafka-acl-extended, and their change notifications (kafka.zk.ZkData, AclEntry).

Literal patterns are in /kafka-acl/TYPE/NAME, prefixed patterns in /kafka-acl-extended/prefixed/TYPE/NAME.
"""

from __future__ import annotations

from collections.abc import Collection

from zabka.kafka.acls import (
    PATTERN_TYPES,
    RESOURCE_TYPES,
    AclEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    from_name,
    pascal,
)
from zabka.kafka.zk.znodes.json_content import decode, encode

ACL_CHANGES = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
ACL_CHANGE_PREFIX = "acl_changes_"
ACL_ROOTS: dict[PatternType, str] = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
"""The parent of the resource types, for each pattern type."""
ACL_PATHS = (
    "/kafka-acl",
    "/kafka-acl-extended",
    *(ACL_ROOTS[PatternType.PREFIXED],),
    *(f"{ACL_ROOTS[kind]}/{pascal(each)}" for kind in PATTERN_TYPES for each in RESOURCE_TYPES),
    ACL_CHANGES,
    EXTENDED_ACL_CHANGES,
)
"""Paths that a broker with an authorizer creates when it starts (KafkaZkClient.createAclPaths), parents first."""
_VERSION = 1


def acl_path(pattern: ResourcePattern) -> str:
    """Return the path of the znode with the entries of a resource pattern."""
    return f"{ACL_ROOTS[pattern.pattern_type]}/{pascal(pattern.resource_type)}/{pattern.name}"


def encode_acls(entries: Collection[AclEntry]) -> bytes:
    """Encode the entries of one resource pattern."""
    rows = [
        {
            "principal": entry.principal,
            "permissionType": pascal(entry.permission),
            "operation": pascal(entry.operation),
            "host": entry.host,
        }
        for entry in entries
    ]
    return encode({"version": _VERSION, "acls": rows})


def decode_acls(data: bytes | None) -> tuple[AclEntry, ...] | None:
    """Decode the entries of a resource pattern, without repetitions; None if the data is not valid.

    As in Kafka, unknown names of operations are decoded as UNKNOWN.
    """
    if not data:
        return ()
    value = decode(data)
    rows = value.get("acls") if value and value.get("version") == _VERSION else None
    if not isinstance(rows, list):
        return None
    entries: dict[AclEntry, None] = {}
    for row in rows:
        entry = _entry(row)
        if entry is None:
            return None
        entries[entry] = None
    return tuple(entries)


def _entry(row: object) -> AclEntry | None:
    if not isinstance(row, dict):
        return None
    principal, permission, operation, host = (
        row.get(name) for name in ("principal", "permissionType", "operation", "host")
    )
    if not (
        isinstance(principal, str)
        and ":" in principal
        and isinstance(permission, str)
        and isinstance(operation, str)
        and isinstance(host, str)
    ):
        return None
    return AclEntry(principal, host, from_name(AclOperation, operation), from_name(Permission, permission))


def acl_changes_path(pattern_type: PatternType) -> str:
    """Return the parent of the change notifications about patterns of that type."""
    return ACL_CHANGES if pattern_type is PatternType.LITERAL else EXTENDED_ACL_CHANGES


def encode_acl_change(pattern: ResourcePattern) -> bytes:
    """Encode a change notification: TYPE:NAME for a literal pattern, JSON for other patterns."""
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{pattern.resource_type.name}:{pattern.name}".encode()
    return encode(
        {
            "version": _VERSION,
            "resourceType": pattern.resource_type.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_acl_change(data: bytes | None, is_extended: bool) -> ResourcePattern | None:
    """Decode a change notification; None if the data is not valid."""
    if not is_extended:
        kind, colon, name = (data or b"").decode("utf-8", "replace").partition(":")
        return _pattern(kind, name, PatternType.LITERAL) if colon else None
    value = decode(data) or {}
    resource_type, resource, pattern_type = (value.get(key) for key in ("resourceType", "name", "patternType"))
    if value.get("version") != _VERSION or not isinstance(resource_type, str) or not isinstance(resource, str):
        return None
    is_prefixed = isinstance(pattern_type, str) and pattern_type.upper() == PatternType.PREFIXED.name
    return _pattern(resource_type, resource, PatternType.PREFIXED) if is_prefixed else None


def _pattern(kind: str, name: str, pattern_type: PatternType) -> ResourcePattern | None:
    resource_type = next((each for each in RESOURCE_TYPES if each.name == kind.upper()), ResourceType.UNKNOWN)
    if resource_type is ResourceType.UNKNOWN or not name or "/" in name:
        return None
    return ResourcePattern(resource_type, name, pattern_type)

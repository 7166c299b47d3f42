"""Authorized operations in responses (KIP-430): a bit field with one bit per code of AclOperation.

Brokers here have no authorizer. Without one, Kafka allows every operation that a resource type has
(AclEntry.supportedOperations).
"""

from __future__ import annotations

NOT_REQUESTED = -(2**31)
"""Value of the field if the client did not request the operations."""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(operations: tuple[int, ...]) -> int:
    return sum(1 << operation for operation in operations)


CLUSTER_OPERATIONS = _bits(
    (_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE)
)
TOPIC_OPERATIONS = _bits((_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS))
GROUP_OPERATIONS = _bits((_READ, _DELETE, _DESCRIBE))

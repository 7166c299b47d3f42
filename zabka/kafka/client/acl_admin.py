"""Requests of kafka-acls: create, describe and delete ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.kafka.acls import (
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    from_code,
)
from zabka.kafka.client.client import REQUEST_TIMEOUT_MS, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.ports import Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request

_VERSION = 3


async def create_acls(client: KafkaClient, bindings: Sequence[AclBinding]) -> None:
    """Create ACLs. Raises KafkaRequestFailed with the first error, and KafkaUnavailable."""
    rows = [
        {
            "resource_type": pattern.resource_type,
            "resource_name": pattern.name,
            "resource_pattern_type": pattern.pattern_type,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation,
            "permission_type": entry.permission,
        }
        for pattern, entry in bindings
    ]
    answer = await client.any_broker(request(ApiKey.CREATE_ACLS, _VERSION, creations=rows), REQUEST_TIMEOUT_MS)
    for result in answer.results:
        _check(result)


async def describe_acls(client: KafkaClient, wanted: AclFilter, at: Endpoint | None = None) -> list[AclBinding]:
    """Return the ACLs that a filter selects, as any broker or the broker `at` knows them.

    Raises KafkaRequestFailed, KafkaUnavailable, and ChannelBroken if the broker `at` does not reply.
    """
    message = request(ApiKey.DESCRIBE_ACLS, _VERSION, **_filter(wanted))
    if at is None:
        answer = await client.any_broker(message, REQUEST_TIMEOUT_MS)
    else:
        answer = await client.call(at, message, REQUEST_TIMEOUT_MS)
    _check(answer)
    return [
        AclBinding(
            ResourcePattern(
                from_code(ResourceType, int(row.resource_type)),
                str(row.resource_name),
                from_code(PatternType, int(row.pattern_type)),
            ),
            AclEntry(
                str(entry.principal),
                str(entry.host),
                from_code(AclOperation, int(entry.operation)),
                from_code(Permission, int(entry.permission_type)),
            ),
        )
        for row in answer.resources
        for entry in row.acls
    ]


async def delete_acls(client: KafkaClient, filters: Sequence[AclFilter]) -> None:
    """Delete the ACLs that the filters select. Raises KafkaRequestFailed with the first error, and KafkaUnavailable."""
    rows = [_filter(wanted) for wanted in filters]
    answer = await client.any_broker(request(ApiKey.DELETE_ACLS, _VERSION, filters=rows), REQUEST_TIMEOUT_MS)
    for result in answer.filter_results:
        _check(result)
        for deleted in result.matching_acls:
            _check(deleted)


def _filter(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.pattern.resource_type,
        "resource_name_filter": wanted.pattern.name,
        "pattern_type_filter": wanted.pattern.pattern_type,
        "principal_filter": wanted.entry.principal,
        "host_filter": wanted.entry.host,
        "operation": wanted.entry.operation,
        "permission_type": wanted.entry.permission,
    }


def _check(row: KafkaMessage) -> None:
    if row.error_code is not ErrorCode.none:
        raise KafkaRequestFailed(ErrorCode(row.error_code), row.error_message)

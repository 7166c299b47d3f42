"""Permissions for the rows of a request: topics, groups and other resources of which it can contain several.

The rows that the client is denied are removed from the request and get an error in the response. The handler processes
only the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_entity
from typing import Any, NamedTuple

import msgspec
from kio.schema.errors import ErrorCode

from zabka.broker_sim.authorizer.acl_authorizer import Access
from zabka.broker_sim.authorizer.whole_requests import ERRORS, MESSAGES
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.kafka.acls import AclOperation, ResourceType
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.request_faults.answers import Rows, Split, refuse
from zabka.kafka.wire.kafka_schema import ApiKey


class Rule(NamedTuple):
    """The operation on each row's resource, and the fields that contain the rows."""

    operation: AclOperation
    resource_type: ResourceType
    rows: Rows
    has_message: bool = False
    """Whether the rows of the response have a message."""


_PARTITIONS = Rows("partitions", "partitions", "partition_index")
_TOPICS = Rows("topics", "topics", "name", _PARTITIONS)
ROW_RULES: Mapping[ApiKey, Rule] = {
    ApiKey.PRODUCE: Rule(
        AclOperation.WRITE,
        ResourceType.TOPIC,
        Rows("topic_data", "responses", "name", Rows("partition_data", "partition_responses", "index")),
    ),
    ApiKey.LIST_OFFSETS: Rule(AclOperation.DESCRIBE, ResourceType.TOPIC, _TOPICS),
    ApiKey.OFFSET_COMMIT: Rule(AclOperation.READ, ResourceType.TOPIC, _TOPICS),
    ApiKey.TXN_OFFSET_COMMIT: Rule(AclOperation.READ, ResourceType.TOPIC, _TOPICS),
    ApiKey.OFFSET_DELETE: Rule(AclOperation.READ, ResourceType.TOPIC, _TOPICS),
    ApiKey.DELETE_RECORDS: Rule(AclOperation.DELETE, ResourceType.TOPIC, _TOPICS),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Rule(
        AclOperation.DESCRIBE,
        ResourceType.TOPIC,
        Rows("topics", "topics", "topic", Rows("partitions", "partitions", "partition")),
    ),
    ApiKey.DESCRIBE_PRODUCERS: Rule(
        AclOperation.READ,
        ResourceType.TOPIC,
        Rows("topics", "topics", "name", Rows("partition_indexes", "partitions", "partition_index")),
    ),
    ApiKey.CREATE_PARTITIONS: Rule(
        AclOperation.ALTER, ResourceType.TOPIC, Rows("topics", "results", "name"), has_message=True
    ),
    ApiKey.DESCRIBE_GROUPS: Rule(AclOperation.DESCRIBE, ResourceType.GROUP, Rows("groups", "groups", "group_id")),
    ApiKey.DELETE_GROUPS: Rule(AclOperation.DELETE, ResourceType.GROUP, Rows("groups_names", "results", "group_id")),
    ApiKey.DESCRIBE_TRANSACTIONS: Rule(
        AclOperation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        Rows("transactional_ids", "transaction_states", "transactional_id"),
    ),
}
"""The rule for each API whose rows all need the same operation."""

IsDenied = Callable[[Any], bool]
"""Function that returns whether the client is denied a row of the request."""


def changed(message: Any, **values: Any) -> Any:
    """Return a copy of a message, or of a row, with these values."""
    if isinstance(message, msgspec.Struct):
        return msgspec.structs.replace(message, **values)
    return replace_entity(message, **values)


def by_name(rule: Rule, access: Access) -> IsDenied:
    """Return a function that checks the resource that a row names."""
    decided: dict[str, bool] = {}

    def is_denied(row: Any) -> bool:
        name = str(getattr(row, rule.rows.key, row))
        if name not in decided:
            decided[name] = not access.allows(rule.operation, rule.resource_type, name)
        return decided[name]

    return is_denied


class Parts(NamedTuple):
    """A request without the denied rows, and the denied rows. The request is None if no row is left."""

    allowed: KafkaMessage | None
    denied: Sequence[Any]


def partition(request: KafkaMessage, rows: Rows, is_denied: IsDenied) -> Parts:
    """Separate the rows that the client is denied."""
    denied: list[Any] = []
    allowed: list[Any] = []
    for row in getattr(request, rows.asked):
        (denied if is_denied(row) else allowed).append(row)
    if not denied:
        return Parts(request, ())
    return Parts(changed(request, **{rows.asked: tuple(allowed)}) if allowed else None, denied)


def denied_response(request: KafkaMessage, rows: Rows, denied: Sequence[Any], error: ErrorCode) -> KafkaMessage:
    """Return a response with the error in each denied row."""
    return refuse(Split(changed(request, **{rows.asked: tuple(denied)}), None, rows), error)


def joined(served: KafkaMessage | None, refused: KafkaMessage, rows: Rows) -> KafkaMessage:
    """Return the response to the allowed rows with the rows of the other response appended."""
    if served is None:
        return refused
    both = (*getattr(served, rows.answered), *getattr(refused, rows.answered))
    return changed(served, **{rows.answered: both})


async def serve_rows(
    request: KafkaMessage,
    context: RequestContext,
    handler: Handler,
    rule: Rule,
    is_denied: IsDenied,
    *,
    serves_none: bool = False,
) -> KafkaMessage | None:
    """Let the handler process the allowed rows. The denied ones get the error of the rule's resource type.

    With `serves_none`, the handler is also called if no row is allowed, so that it applies its quotas.
    """
    parts = partition(request, rule.rows, is_denied)
    if not parts.denied:
        return await handler(request, context)
    error = ERRORS[rule.resource_type]
    refused = denied_response(request, rule.rows, parts.denied, error)
    if rule.has_message:
        rows = [changed(row, error_message=MESSAGES[error]) for row in getattr(refused, rule.rows.answered)]
        refused = changed(refused, **{rule.rows.answered: tuple(rows)})
    allowed = changed(request, **{rule.rows.asked: ()}) if parts.allowed is None and serves_none else parts.allowed
    served = None if allowed is None else await handler(allowed, context)
    return joined(served, refused, rule.rows)

"""Authorization of requests about coordinators, committed offsets and transactions (kafka.server.KafkaApis)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.authorizer.acl_authorizer import Access
from zabka.broker_sim.authorizer.request_rows import ROW_RULES, by_name, changed, joined, partition, serve_rows
from zabka.broker_sim.authorizer.whole_requests import ERRORS, MESSAGES
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.journal.events import TopicPartition
from zabka.kafka.acls import AclOperation, ResourceType
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.request_faults.answers import Rows
from zabka.kafka.topic_names import INTERNAL_TOPICS
from zabka.kafka.wire.kafka_schema import ApiKey, respond, version_of

_COORDINATED: dict[int, ResourceType] = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""The type of resource for each key type in FindCoordinator."""
_KEYS_IN_BATCHES_FROM = 4
_GROUPS_IN_BATCHES_FROM = 8
_ERROR_OF_THE_WHOLE_FROM = 2
_PARTITIONS_OF_BROKERS_FROM = 4
_NO_NODE = {"node_id": -1, "host": "", "port": -1}
_COORDINATORS = Rows("coordinator_keys", "coordinators", "key")
_GROUPS = Rows("groups", "groups", "group_id")
_GROUP_DENIED, _TOPIC_DENIED = ErrorCode.group_authorization_failed, ErrorCode.topic_authorization_failed

_Serve = Callable[[KafkaMessage, RequestContext, Handler, Access], Awaitable[KafkaMessage | None]]


async def find_coordinator(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve FindCoordinator: DESCRIBE on the group or on the transactional id."""
    resource_type = _COORDINATED.get(int(getattr(request, "key_type", 0)))
    if resource_type is None:
        return await handler(request, context)
    error = ERRORS[resource_type]

    def is_denied(key: str) -> bool:
        return not access.allows(AclOperation.DESCRIBE, resource_type, str(key))

    if version_of(request) < _KEYS_IN_BATCHES_FROM:
        if not is_denied(request.key):
            return await handler(request, context)
        return respond(request, error_code=error, error_message=MESSAGES[error], **_NO_NODE)
    parts = partition(request, _COORDINATORS, is_denied)
    if not parts.denied:
        return await handler(request, context)
    served = None if parts.allowed is None else await handler(parts.allowed, context)
    rows = [{"key": key, "error_code": error, "error_message": "", **_NO_NODE} for key in parts.denied]
    return joined(served, respond(request, coordinators=rows), _COORDINATORS)


# ---- OffsetFetch ----------------------------------------------------------------------------------------------


async def fetch_offsets(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve OffsetFetch: DESCRIBE on the groups and on the topics. Without a list of topics, others are hidden."""
    if version_of(request) >= _GROUPS_IN_BATCHES_FROM:
        return await _fetch_of_groups(request, context, handler, access)
    if not access.allows(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        if version_of(request) >= _ERROR_OF_THE_WHOLE_FROM:
            return respond(request, error_code=_GROUP_DENIED)
        return respond(request, topics=_offset_rows(request.topics, _GROUP_DENIED))
    allowed, denied = _by_topic(request.topics, access)
    served = await handler(changed(request, topics=allowed), context)
    assert served is not None
    if getattr(served, "error_code", ErrorCode.none) is not ErrorCode.none:
        return served
    topics = _visible(served.topics, access) if allowed is None else served.topics
    refused = respond(request, topics=_offset_rows(denied, _TOPIC_DENIED))
    return changed(served, topics=(*topics, *refused.topics))


async def _fetch_of_groups(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    def is_denied(group: Any) -> bool:
        return not access.allows(AclOperation.DESCRIBE, ResourceType.GROUP, str(group.group_id))

    parts = partition(request, _GROUPS, is_denied)
    refused = respond(
        request, groups=[{"group_id": group.group_id, "error_code": _GROUP_DENIED} for group in parts.denied]
    )
    if parts.allowed is None:
        return refused
    groups = [(group, *_by_topic(group.topics, access)) for group in parts.allowed.groups]
    reduced = tuple(changed(group, topics=allowed) for group, allowed, _ in groups)
    served = await handler(changed(parts.allowed, groups=reduced), context)
    assert served is not None
    rows = []
    for row, (_, allowed, denied) in zip(served.groups, groups, strict=True):
        if row.error_code is not ErrorCode.none:
            rows.append(row)
            continue
        topics = _visible(row.topics, access) if allowed is None else row.topics
        extra = respond(request, groups=[{"group_id": "", "topics": _offset_rows(denied, _TOPIC_DENIED)}])
        rows.append(changed(row, topics=(*topics, *extra.groups[0].topics)))
    return joined(changed(served, groups=tuple(rows)), refused, _GROUPS)


def _by_topic(topics: Any, access: Access) -> tuple[Any, list[Any]]:
    """Separate requested topics by permission. The first result is None if all topics are requested."""
    if topics is None:
        return None, []
    allowed: list[Any] = []
    denied: list[Any] = []
    for topic in topics:
        is_allowed = access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, str(topic.name))
        (allowed if is_allowed else denied).append(topic)
    return tuple(allowed), denied


def _visible(topics: Any, access: Access) -> tuple[Any, ...]:
    return tuple(topic for topic in topics if access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, str(topic.name)))


def _offset_rows(topics: Any, error: ErrorCode) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": number,
                    "committed_offset": -1,
                    "committed_leader_epoch": -1,
                    "metadata": "",
                    "error_code": error,
                }
                for number in topic.partition_indexes
            ],
        }
        for topic in topics
    ]


# ---- transactions ---------------------------------------------------------------------------------------------


async def describe_transactions(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve DescribeTransactions: DESCRIBE on the transactional ids. Topics without DESCRIBE are hidden."""
    rule = ROW_RULES[ApiKey.DESCRIBE_TRANSACTIONS]
    served = await serve_rows(request, context, handler, rule, by_name(rule, access))
    assert served is not None
    rows = [
        changed(
            row,
            topics=tuple(
                topic
                for topic in row.topics
                if access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, str(topic.topic))
            ),
        )
        for row in served.transaction_states
    ]
    return changed(served, transaction_states=tuple(rows))


def add_partitions(metadata: MetadataCache) -> _Serve:
    """Return the guard of AddPartitionsToTxn.

    Producers need WRITE on the transactional id and on the topics. Brokers, which send version 4 and later, need
    CLUSTER_ACTION. One denied topic makes the whole request fail.
    """

    async def serve(
        request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
    ) -> KafkaMessage | None:
        if version_of(request) >= _PARTITIONS_OF_BROKERS_FROM:
            if access.allows_cluster(AclOperation.CLUSTER_ACTION):
                return await handler(request, context)
            return respond(request, error_code=ErrorCode.cluster_authorization_failed)
        topics = request.v3_and_below_topics
        if not access.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
            denied = ErrorCode.transactional_id_authorization_failed
            return _added(request, lambda topic, number: denied)
        refused = {
            str(topic.name)
            for topic in topics
            if topic.name in INTERNAL_TOPICS
            or not access.allows(AclOperation.WRITE, ResourceType.TOPIC, str(topic.name))
        }
        if not refused:
            return await handler(request, context)

        def error(topic: str, number: int) -> ErrorCode:
            if topic in refused:
                return _TOPIC_DENIED
            is_known = metadata.partition(TopicPartition(topic, number)) is not None
            return ErrorCode.operation_not_attempted if is_known else ErrorCode.unknown_topic_or_partition

        return _added(request, error)

    return serve


def _added(request: KafkaMessage, error: Callable[[str, int], ErrorCode]) -> KafkaMessage:
    rows = [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": error(str(topic.name), int(number))}
                for number in topic.partitions
            ],
        }
        for topic in request.v3_and_below_topics
    ]
    return respond(request, results_by_topic_v3_and_below=rows)

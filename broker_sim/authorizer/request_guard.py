"""The check of every request: which permission it needs, and its response without it (kafka.server.KafkaApis).

A guard wraps the handler of each API. It removes what the client is denied from the request, calls the handler with the
rest, and adds the errors to the response. A broker without an authorizer has no guards. Fetch alone is checked in its
handler, because a fetch session contains partitions that the request does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.authorizer.acl_authorizer import Access, Authorizer
from zabka.broker_sim.authorizer.offset_requests import (
    add_partitions,
    describe_transactions,
    fetch_offsets,
    find_coordinator,
)
from zabka.broker_sim.authorizer.request_rows import ROW_RULES, by_name, changed, denied_response, serve_rows
from zabka.broker_sim.authorizer.topic_requests import TopicRequests, cluster_operations
from zabka.broker_sim.authorizer.whole_requests import (
    CLUSTER_OPERATIONS,
    NAMED_RESOURCES,
    cluster_error,
    init_producer_id_error,
    named_error,
    refuse,
)
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.request_context import Handler, RequestContext, RequestRefused
from zabka.broker_sim.request_sizes import produce_size
from zabka.kafka.acls import AclOperation, ResourceType
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_names import invalid_name
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.kafka.wire.metadata_messages import NOT_REQUESTED

UNGUARDED = (
    ApiKey.FETCH,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.ENVELOPE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)
"""APIs without a guard.

Fetch and the requests about delegation tokens check the permissions in their handlers. Requests without authentication
need no permission. The others are not supported, and return their error before Kafka checks a permission.
"""
_ONLY_ON_CONTROLLER = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
"""APIs whose requests other brokers reject with NOT_CONTROLLER, before they check permissions."""
_ACKS_NONE = 0
_MAGIC_AT, _ATTRIBUTES_AT, _TRANSACTIONAL = 16, 22, 0x10
"""Positions of the format and of the attributes' low byte in a record batch, and the bit of transactional batches."""

Guard = Callable[[KafkaMessage, RequestContext, Handler, Access], Awaitable[KafkaMessage | None]]
"""Serves a request with its handler, if the client has the necessary permissions."""


class RequestGuards:
    """Wraps the handlers of a broker with an authorizer."""

    def __init__(
        self,
        authorizer: Authorizer,
        metadata: MetadataCache,
        is_controller: Callable[[], bool],
        creates_topics: bool,
    ) -> None:
        self._authorizer = authorizer
        self._is_controller = is_controller
        topics = TopicRequests(metadata, creates_topics)
        self._special: Mapping[ApiKey, Guard] = {
            ApiKey.METADATA: topics.metadata,
            ApiKey.CREATE_TOPICS: topics.create_topics,
            ApiKey.DELETE_TOPICS: topics.delete_topics,
            ApiKey.DESCRIBE_CONFIGS: _configs(topics, ApiKey.DESCRIBE_CONFIGS),
            ApiKey.ALTER_CONFIGS: _configs(topics, ApiKey.ALTER_CONFIGS),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(topics, ApiKey.INCREMENTAL_ALTER_CONFIGS),
            ApiKey.PRODUCE: _produce,
            ApiKey.INIT_PRODUCER_ID: _init_producer_id,
            ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
            ApiKey.DESCRIBE_GROUPS: _describe_groups,
            ApiKey.LIST_GROUPS: _list_groups,
            ApiKey.LIST_TRANSACTIONS: _list_transactions,
            ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
            ApiKey.FIND_COORDINATOR: find_coordinator,
            ApiKey.OFFSET_FETCH: fetch_offsets,
            ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions(metadata),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
            ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
            ApiKey.CREATE_PARTITIONS: _create_partitions,
        }

    def wrap(self, handlers: Mapping[ApiKey, Handler]) -> dict[ApiKey, Handler]:
        """Return the handlers with a guard around each one that needs it."""
        return {api: handler if api in UNGUARDED else self._guarded(api, handler) for api, handler in handlers.items()}

    def _guarded(self, api: ApiKey, handler: Handler) -> Handler:
        guard = self._special.get(api) or _by_table(api)
        is_only_on_controller = api in _ONLY_ON_CONTROLLER
        access = self._authorizer.access

        async def guarded(request: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
            if is_only_on_controller and not self._is_controller():
                return await handler(request, context)
            return await guard(request, context, handler, access(context, api))

        return guarded


def _by_table(api: ApiKey) -> Guard:
    """Return the guard of an API whose permissions are in the tables."""
    check = cluster_error if api in CLUSTER_OPERATIONS else named_error if api in NAMED_RESOURCES else None
    rule = ROW_RULES.get(api)
    assert check is not None or rule is not None, api

    async def guard(
        request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
    ) -> KafkaMessage | None:
        error = None if check is None else check(api, request, access)
        if error is not None:
            return refuse(api, request, error, access)
        if rule is None:
            return await handler(request, context)
        return await serve_rows(request, context, handler, rule, by_name(rule, access))

    return guard


def _configs(topics: TopicRequests, api: ApiKey) -> Guard:
    def guard(
        request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
    ) -> Awaitable[KafkaMessage | None]:
        return topics.configs(request, context, handler, access, api)

    return guard


# ---- records --------------------------------------------------------------------------------------------------


async def _produce(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve Produce: WRITE on the topics, and on the transactional id of transactional records.

    With acks=0, a denied request closes the connection, because it has no response. As in Kafka, quotas count the whole
    request, with the denied topics.
    """
    rule = ROW_RULES[ApiKey.PRODUCE]
    transactional_id = getattr(request, "transactional_id", None)
    if (
        transactional_id is not None
        and _has_transactional_records(request)
        and not access.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        if request.acks == _ACKS_NONE:
            raise RequestRefused("the client is denied the transactional id of a request with acks=0")
        denied = ErrorCode.transactional_id_authorization_failed
        return denied_response(request, rule.rows, request.topic_data, denied)
    context.asked_bytes = produce_size(request, context.client_id)
    if request.acks != _ACKS_NONE:
        return await serve_rows(request, context, handler, rule, by_name(rule, access), serves_none=True)
    is_denied = by_name(rule, access)
    allowed = tuple(topic for topic in request.topic_data if not is_denied(topic))
    if len(allowed) == len(request.topic_data):
        return await handler(request, context)
    await handler(changed(request, topic_data=allowed), context)
    raise RequestRefused("the client is denied a topic of a request with acks=0")


def _has_transactional_records(request: KafkaMessage) -> bool:
    """Return whether the first batch of a partition is transactional (RequestUtils.hasTransactionalRecords)."""
    for topic in request.topic_data:
        for row in topic.partition_data:
            records = row.records or b""
            if len(records) > _ATTRIBUTES_AT and records[_MAGIC_AT] == 2 and records[_ATTRIBUTES_AT] & _TRANSACTIONAL:
                return True
    return False


async def _init_producer_id(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    error = init_producer_id_error(request, access)
    if error is None:
        return await handler(request, context)
    return refuse(ApiKey.INIT_PRODUCER_ID, request, error, access)


async def _offset_for_leader_epoch(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve OffsetForLeaderEpoch: CLUSTER_ACTION for followers, or DESCRIBE on the topics for consumers (KIP-320)."""
    if access.allows_cluster(AclOperation.CLUSTER_ACTION, is_noted=False):
        return await handler(request, context)
    rule = ROW_RULES[ApiKey.OFFSET_FOR_LEADER_EPOCH]
    return await serve_rows(request, context, handler, rule, by_name(rule, access))


async def _describe_producers(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve DescribeProducers: READ on the topics. A name that no topic can have is not checked."""
    rule = ROW_RULES[ApiKey.DESCRIBE_PRODUCERS]
    is_denied = by_name(rule, access)

    def is_denied_if_valid(topic: Any) -> bool:
        return invalid_name(str(topic.name)) is None and is_denied(topic)

    return await serve_rows(request, context, handler, rule, is_denied_if_valid)


# ---- clusters, groups and transactions ------------------------------------------------------------------------


async def _describe_cluster(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve DescribeCluster, which needs no permission, with the operations that the client is allowed."""
    served = await handler(request, context)
    if served is None or served.cluster_authorized_operations == NOT_REQUESTED:
        return served
    return changed(served, cluster_authorized_operations=cluster_operations(access))


async def _describe_groups(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    rule = ROW_RULES[ApiKey.DESCRIBE_GROUPS]
    served = await serve_rows(request, context, handler, rule, by_name(rule, access))
    if served is None or not getattr(request, "include_authorized_operations", False):
        return served
    rows = [
        row
        if row.error_code is not ErrorCode.none
        else changed(row, authorized_operations=access.operations(ResourceType.GROUP, str(row.group_id)))
        for row in served.groups
    ]
    return changed(served, groups=tuple(rows))


async def _list_groups(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve ListGroups: DESCRIBE on the cluster shows all groups, otherwise on each group."""
    served = await handler(request, context)
    if served is None or access.allows_cluster(AclOperation.DESCRIBE, is_noted=False):
        return served
    rows = [
        row
        for row in served.groups
        if access.allows(AclOperation.DESCRIBE, ResourceType.GROUP, str(row.group_id), is_noted=False)
    ]
    return changed(served, groups=tuple(rows))


async def _list_transactions(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    served = await handler(request, context)
    if served is None:
        return None
    rows = [
        row
        for row in served.transaction_states
        if access.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, str(row.transactional_id))
    ]
    return changed(served, transaction_states=tuple(rows))


async def _create_partitions(
    request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
) -> KafkaMessage | None:
    """Serve CreatePartitions: ALTER on the topics. A topic that is requested twice is not checked."""
    rule = ROW_RULES[ApiKey.CREATE_PARTITIONS]
    is_denied = by_name(rule, access)
    times = Counter(str(topic.name) for topic in request.topics)

    def is_denied_once(topic: Any) -> bool:
        return times[str(topic.name)] == 1 and is_denied(topic)

    return await serve_rows(request, context, handler, rule, is_denied_once)

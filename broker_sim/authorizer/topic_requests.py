"""Authorization of requests about topics: Metadata, and those of administrators (kafka.server.KafkaApis)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.constants import uuid_zero

from zabka.broker_sim.authorizer.acl_authorizer import Access
from zabka.broker_sim.authorizer.request_rows import changed, joined, partition
from zabka.broker_sim.authorizer.whole_requests import MESSAGES
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.kafka.acls import CLUSTER_NAME, AclOperation, ResourceType
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.request_faults.answers import Rows
from zabka.kafka.topic_names import INTERNAL_TOPICS
from zabka.kafka.wire.kafka_schema import ApiKey, KafkaUuid, respond, version_of
from zabka.kafka.wire.metadata_messages import NOT_REQUESTED, MetadataResponseTopic

_DENIED = ErrorCode.topic_authorization_failed
_TOPIC = 2
_CLUSTER_RESOURCES = (4, 8, 16)
"""Types of config resources that need permissions on the cluster: BROKER, BROKER_LOGGER and CLIENT_METRICS."""
_CREATED = Rows("topics", "topics", "name")
_DELETED = Rows("topics", "responses", "name")
_DELETED_BY_NAME = Rows("topic_names", "responses", "name")


class TopicRequests:
    """Authorizes requests about topics and their configurations."""

    def __init__(self, metadata: MetadataCache, creates_topics: bool) -> None:
        self._metadata = metadata
        self._creates_topics = creates_topics

    # ---- Metadata ---------------------------------------------------------------------------------------------

    async def metadata(
        self, request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
    ) -> KafkaMessage | None:
        """Serve Metadata. The response to a request for all topics has only those that the client can describe."""
        is_of_all = request.topics is None or (version_of(request) == 0 and not request.topics)
        if is_of_all:
            served = await handler(request, context)
            return None if served is None else self._only_described(served, access)
        allowed: list[Any] = []
        denied: list[MetadataResponseTopic] = []
        missing: list[Any] = []
        for topic in request.topics:
            refused = self._undescribed(topic, access)
            if refused is not None:
                denied.append(refused)
            elif self._would_be_created(request, topic.name):
                missing.append(topic)
            else:
                allowed.append(topic)
        can_create_all = not missing or access.allows_cluster(AclOperation.CREATE, is_noted=False)
        for topic in missing:
            if can_create_all or access.allows(AclOperation.CREATE, ResourceType.TOPIC, topic.name):
                allowed.append(topic)
            else:
                denied.append(MetadataResponseTopic(_DENIED, topic.name, is_internal=topic.name in INTERNAL_TOPICS))
        served = await handler(changed(request, topics=tuple(allowed)), context)
        assert served is not None
        # Version 0 with an empty list means all topics, so the handler returned topics that the client did not request.
        described = served.topics if allowed else ()
        served = self._with_operations(changed(served, topics=tuple(described)), access)
        return changed(served, topics=(*served.topics, *denied))

    def _only_described(self, served: KafkaMessage, access: Access) -> KafkaMessage:
        topics = tuple(
            topic
            for topic in served.topics
            if access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name, is_noted=False)
        )
        return self._with_operations(changed(served, topics=topics), access)

    def _undescribed(self, topic: Any, access: Access) -> MetadataResponseTopic | None:
        """Return the entry of a requested topic that the client cannot describe, or None.

        The entry does not reveal whether the topic exists.
        """
        topic_id = getattr(topic, "topic_id", None)
        name = topic.name
        if topic_id is not None and topic_id != uuid_zero:
            name = self._metadata.topic_of_id(topic_id)
        if name is None or access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            return None
        if topic_id is not None and topic_id != uuid_zero:
            return MetadataResponseTopic(_DENIED, None, topic_id)
        return MetadataResponseTopic(_DENIED, name)

    def _would_be_created(self, request: KafkaMessage, name: str | None) -> bool:
        is_allowed = getattr(request, "allow_auto_topic_creation", True) and self._creates_topics
        return is_allowed and name is not None and name not in self._metadata

    def _with_operations(self, served: KafkaMessage, access: Access) -> KafkaMessage:
        """Return the response with the operations that the client is allowed to execute, where it requested them."""
        if served.cluster_authorized_operations != NOT_REQUESTED:
            served = changed(served, cluster_authorized_operations=cluster_operations(access))
        topics = tuple(
            topic
            if topic.topic_authorized_operations == NOT_REQUESTED
            else changed(
                topic, topic_authorized_operations=access.operations(ResourceType.TOPIC, str(topic.name or ""))
            )
            for topic in served.topics
        )
        return changed(served, topics=topics)

    # ---- administrators ---------------------------------------------------------------------------------------

    async def create_topics(
        self, request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
    ) -> KafkaMessage | None:
        """Serve CreateTopics: CREATE on the cluster or the topic; DESCRIBE_CONFIGS to see the configurations."""
        times = Counter(str(topic.name) for topic in request.topics)
        creates_all = access.allows_cluster(AclOperation.CREATE, is_noted=False)
        decided: dict[str, bool] = {}

        def is_denied(topic: Any) -> bool:
            name = str(topic.name)
            if creates_all or times[name] > 1:
                return False
            if name not in decided:
                decided[name] = not access.allows(AclOperation.CREATE, ResourceType.TOPIC, name)
            return decided[name]

        def hides_configs(name: str) -> bool:
            return not access.allows(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, is_noted=False)

        parts = partition(request, _CREATED, is_denied)
        served = None if parts.allowed is None else await handler(parts.allowed, context)
        if served is not None:
            rows = [_without_configs(row) if hides_configs(row.name) else row for row in served.topics]
            served = changed(served, topics=tuple(rows))
        if not parts.denied:
            return served
        denied = [
            {
                "name": topic.name,
                "error_code": _DENIED,
                "error_message": "Authorization failed.",
                "num_partitions": -1,
                "replication_factor": -1,
                "topic_config_error_code": _DENIED if hides_configs(topic.name) else ErrorCode.none,
            }
            for topic in parts.denied
        ]
        return joined(served, respond(request, topics=denied), _CREATED)

    async def delete_topics(
        self, request: KafkaMessage, context: RequestContext, handler: Handler, access: Access
    ) -> KafkaMessage | None:
        """Serve DeleteTopics. Without DESCRIBE, a topic that is identified by its id is not named in the response."""
        by_name = hasattr(request, "topic_names")
        rows = _DELETED_BY_NAME if by_name else _DELETED
        hidden: dict[KafkaUuid, None] = {}

        def is_denied(topic: Any) -> bool:
            name = topic if by_name else topic.name
            topic_id = None if by_name or topic.topic_id == uuid_zero else topic.topic_id
            if topic_id is not None:
                if name is not None:
                    return False  # The handler rejects a topic with both a name and an id.
                name = self._metadata.topic_of_id(topic_id)
                if name is None:
                    return False
                if not access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                    hidden[topic_id] = None
                    return True
            return not access.allows(AclOperation.DELETE, ResourceType.TOPIC, str(name))

        parts = partition(request, rows, is_denied)
        if not parts.denied:
            return await handler(request, context)
        served = None if parts.allowed is None else await handler(parts.allowed, context)
        denied = [self._undeleted(topic, by_name, hidden) for topic in parts.denied]
        return joined(served, respond(request, responses=denied), rows)

    def _undeleted(self, topic: Any, by_name: bool, hidden: dict[KafkaUuid, None]) -> dict[str, Any]:
        if by_name:
            return {"name": topic, "error_code": _DENIED}
        name = topic.name
        if name is None and topic.topic_id not in hidden:
            name = self._metadata.topic_of_id(topic.topic_id)
        return {"name": name, "topic_id": topic.topic_id, "error_code": _DENIED}

    # ---- configurations ---------------------------------------------------------------------------------------

    async def configs(
        self, request: KafkaMessage, context: RequestContext, handler: Handler, access: Access, api: ApiKey
    ) -> KafkaMessage | None:
        """Serve DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""
        describes = api is ApiKey.DESCRIBE_CONFIGS
        operation = AclOperation.DESCRIBE_CONFIGS if describes else AclOperation.ALTER_CONFIGS
        rows = Rows("resources", "results" if describes else "responses", "resource_name")

        def is_denied(resource: Any) -> bool:
            if int(resource.resource_type) in _CLUSTER_RESOURCES:
                return not access.allows_cluster(operation)
            is_topic = int(resource.resource_type) == _TOPIC
            return is_topic and not access.allows(operation, ResourceType.TOPIC, str(resource.resource_name))

        parts = partition(request, rows, is_denied)
        if not parts.denied:
            return await handler(request, context)
        served = None if parts.allowed is None else await handler(parts.allowed, context)
        refused = respond(request, **{rows.answered: [_config_row(each, describes) for each in parts.denied]})
        return joined(served, refused, rows)


def cluster_operations(access: Access) -> int:
    """Return the bit field of the operations on the cluster; 0 if the client cannot describe the cluster."""
    if not access.allows_cluster(AclOperation.DESCRIBE):
        return 0
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _without_configs(row: Any) -> Any:
    """Return the entry of a created topic for a client that cannot describe its configurations (KIP-525)."""
    if row.error_code is not ErrorCode.none or not hasattr(row, "topic_config_error_code"):
        return row
    hidden: dict[str, Any] = {"topic_config_error_code": _DENIED, "num_partitions": -1, "replication_factor": -1}
    if hasattr(row, "topic_id"):
        hidden["topic_id"] = None
    return changed(row, configs=(), **hidden)


def _config_row(resource: Any, describes: bool) -> dict[str, Any]:
    is_topic = int(resource.resource_type) == _TOPIC
    error = _DENIED if is_topic else ErrorCode.cluster_authorization_failed
    return {
        "error_code": error,
        "error_message": MESSAGES[error] if describes else None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [],
    }

"""Handlers of CreateTopics, DeleteTopics, CreatePartitions and configuration requests.

They pass the requests to `ZkAdminManager` (topics) and `ConfigAdmin` (configurations).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.constants import uuid_zero

from zabka.broker_sim.admin import NewPartitions, NewTopic, TopicResult, ZkAdminManager
from zabka.broker_sim.configs.config_admin import ConfigAdmin
from zabka.broker_sim.configs.config_describe import ConfigDescriber
from zabka.broker_sim.configs.config_resources import Alteration, ConfigResult, Described, Operation, Resource, Source
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.quotas.controller_mutations import MutationQuota, Mutations
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.broker_sim.slices import in_slices
from zabka.ensemble.ports import Runtime
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_ids import topic_id_to_kafka
from zabka.kafka.wire.kafka_schema import (
    ApiKey,
    fill,
    last_rows,
    milliseconds,
    respond,
    response_class,
    version_of,
)

CREATE_TOPICS_STRICT, CREATE_PARTITIONS_STRICT, DELETE_TOPICS_STRICT = 6, 3, 5
"""First request versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

CREATE_TOPICS_CONFIGS = 5
"""The first version of CreateTopics whose response has the configurations of new topics."""
DELETION_DISABLED_SINCE = 3
"""First DeleteTopics version whose clients know TOPIC_DELETION_DISABLED. Older clients receive INVALID_REQUEST."""
CLUSTER_METADATA = "__cluster_metadata"
"""The metadata topic that only brokers in KRaft mode have."""

TopicToDelete = tuple[str | None, Any]
"""A topic to delete, identified by its name or its id; the other is None."""
Alter = Callable[[Resource, Sequence[Alteration], bool], Awaitable[ConfigResult]]
"""A method of `ConfigAdmin` that alters a resource."""


class AdminHandlers:
    """Handles requests of administrators.

    As clients expect, only the controller creates and deletes topics.
    """

    def __init__(
        self,
        admin: ZkAdminManager,
        describer: ConfigDescriber,
        configs: ConfigAdmin,
        metadata: MetadataCache,
        is_controller: Callable[[], bool],
        mutations: MutationQuota,
        runtime: Runtime,
    ) -> None:
        self._admin = admin
        self._describer = describer
        self._configs = configs
        self._metadata = metadata
        self._is_controller = is_controller
        self._mutations = mutations
        self._runtime = runtime

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.CREATE_TOPICS: self.create_topics,
            ApiKey.DELETE_TOPICS: self.delete_topics,
            ApiKey.CREATE_PARTITIONS: self.create_partitions,
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.ALTER_CONFIGS: self.alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.incremental_alter_configs,
        }

    # ---- topics -----------------------------------------------------------------------------------------------

    async def create_topics(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a CreateTopics request."""
        counted = self._counted(request, context, CREATE_TOPICS_STRICT)
        names = [str(topic.name) for topic in request.topics]
        if not self._is_controller():
            results = [TopicResult(name, ErrorCode.not_controller, "") for name in names]
        else:
            refused = _not_created(names)
            topics = [_new_topic(topic) for topic in request.topics if topic.name not in refused]
            results = [TopicResult(name, ErrorCode.invalid_request, reason) for name, reason in refused.items()]
            results += await self._admin.create_topics(
                topics,
                milliseconds(request.timeout),
                bool(getattr(request, "validate_only", False)),
                counted.record,
                client=context.client_id,
            )
        # As in Kafka, return one entry per requested topic in the order of the request, also for repeated names.
        with_configs = version_of(request) >= CREATE_TOPICS_CONFIGS
        answers = await in_slices(self._created(results, with_configs), self._runtime, pause_ms=0)
        return _throttled(request, context, counted, topics=[answers[name] for name in names])

    def _created(
        self, results: Sequence[TopicResult], with_configs: bool
    ) -> Generator[None, None, dict[str, dict[str, Any]]]:
        """Return the response entry of each topic, with all configurations of a created topic (KIP-525).

        An entry with an error has no configurations.
        """
        rows: dict[str, dict[str, Any]] = {}
        for result in results:
            if rows:
                yield
            described: list[Described] = []
            if with_configs and result.configs is not None:
                described = self._describer.new_topic(result.configs)
            rows[result.name] = _created_row(result, described)
        return rows

    async def delete_topics(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process DeleteTopics. The request contains topic names or, in version 6, topic ids."""
        counted = self._counted(request, context, DELETE_TOPICS_STRICT)
        asked = _topics_to_delete(request)
        if not self._is_controller():
            rows = _all_refused(asked, ErrorCode.not_controller)
        elif any(name is not None and topic_id is not None for name, topic_id in asked):
            message = "Topic name and topic ID can not both be specified."
            rows = _all_refused(asked, ErrorCode.invalid_request, message)
        else:
            rows = await self._deleted(request, context, asked, counted)
        return _throttled(request, context, counted, responses=rows)

    async def _deleted(
        self, request: KafkaMessage, context: RequestContext, asked: Sequence[TopicToDelete], counted: Mutations
    ) -> list[dict[str, Any]]:
        """Return the response entry of each requested topic.

        As in Kafka, the entries are in the order of the request, and a topic that is requested twice has two entries.
        """
        found = [name if name is not None else self._metadata.topic_of_id(topic_id) for name, topic_id in asked]
        topic_ids = {name: self._metadata.topic_id(name) for name in found if name is not None}
        timeout_ms = milliseconds(request.timeout)
        results = await self._admin.delete_topics(list(topic_ids), timeout_ms, counted.record, client=context.client_id)
        answers = {result.name: result for result in results}
        rows: list[dict[str, Any]] = []
        for topic, (_, topic_id) in zip(found, asked, strict=True):
            if topic is None:
                rows.append({"name": None, "topic_id": topic_id, "error_code": ErrorCode.unknown_topic_id})
                continue
            error, message = answers[topic].error, answers[topic].message
            if error is ErrorCode.topic_deletion_disabled and version_of(request) < DELETION_DISABLED_SINCE:
                error = ErrorCode.invalid_request
            row = {"name": topic, "topic_id": topic_ids[topic], "error_code": error, "error_message": message}
            rows.append(row)
        return rows

    async def create_partitions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a CreatePartitions request."""
        counted = self._counted(request, context, CREATE_PARTITIONS_STRICT)
        names = [str(topic.name) for topic in request.topics]
        if not self._is_controller():
            results = [TopicResult(name, ErrorCode.not_controller) for name in dict.fromkeys(names)]
        else:
            twice = _named_twice(names, "Duplicate topic in request.")
            topics = [_new_partitions(topic) for topic in request.topics if topic.name not in twice]
            results = [TopicResult(name, ErrorCode.invalid_request, reason) for name, reason in twice.items()]
            results += await self._admin.create_partitions(
                topics,
                milliseconds(request.timeout),
                bool(request.validate_only),
                counted.record,
                client=context.client_id,
            )
        rows = [{"name": r.name, "error_code": r.error, "error_message": r.message} for r in results]
        return _throttled(request, context, counted, results=rows)

    def _counted(self, request: KafkaMessage, context: RequestContext, strict_since: int) -> Mutations:
        return self._mutations.of_request(context.client_id, version_of(request), strict_since, context.principal.name)

    # ---- configuration ----------------------------------------------------------------------------------------

    async def describe_configs(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a DescribeConfigs request."""
        synonyms = bool(getattr(request, "include_synonyms", False))
        documentation = bool(getattr(request, "include_documentation", False))
        asked = [
            (Resource(int(each.resource_type), str(each.resource_name)), each.configuration_keys)
            for each in request.resources
        ]
        once = list(dict.fromkeys(asked))
        last = last_rows(response_class(ApiKey.DESCRIBE_CONFIGS, version_of(request)))
        assert last is not None

        def rows(described: Iterator[ConfigResult]) -> Generator[None, None, list[KafkaMessage]]:
            # Describing one resource takes milliseconds, and a request may contain thousands of resources, so this is a
            # generator that runs in slices.
            filled = []
            for result in described:
                configs = [_described(config, synonyms, documentation) for config in result.configs]
                row = {**_config_row(result), "configs": configs}
                if result.error is ErrorCode.none:
                    row["error_message"] = ""
                filled.append(fill(last.schema, row))
                yield
            return filled

        filled = await in_slices(rows(await self._describer.describe(once)), self._runtime, pause_ms=0)
        answers = dict(zip(once, filled, strict=True))
        return respond(request, results=[answers[each] for each in asked])

    async def alter_configs(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an AlterConfigs request."""
        alterations = [
            [Alteration(str(config.name), Operation.SET, config.value) for config in asked.configs]
            for asked in request.resources
        ]
        return await self._altered(request, self._configs.alter, alterations)

    async def incremental_alter_configs(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an IncrementalAlterConfigs request."""
        alterations = [
            [Alteration(str(config.name), int(config.config_operation), config.value) for config in asked.configs]
            for asked in request.resources
        ]
        return await self._altered(request, self._configs.alter_incrementally, alterations)

    async def _altered(
        self, request: KafkaMessage, alter: Alter, alterations: Sequence[Sequence[Alteration]]
    ) -> KafkaMessage:
        resources = [Resource(int(asked.resource_type), str(asked.resource_name)) for asked in request.resources]
        named = Counter(resources)
        rows = []
        for resource, requested in zip(resources, alterations, strict=True):
            if named[resource] > 1:
                once = "Each resource must appear at most once."
                rows.append(_config_row(ConfigResult(resource, ErrorCode.invalid_request, once)))
            else:
                rows.append(_config_row(await alter(resource, requested, bool(request.validate_only))))
        return respond(request, responses=rows)


def _throttled(request: KafkaMessage, context: RequestContext, counted: Mutations, **values: Any) -> KafkaMessage:
    """Return the response with the throttle time, and mute the connection for this time."""
    context.muted_ms = counted.throttle_ms
    return respond(request, throttle_time=context.muted_ms, **values)


def _named_twice(names: Sequence[str], reason: str) -> dict[str, str]:
    return {name: reason for name, times in Counter(names).items() if times > 1}


def _not_created(names: Sequence[str]) -> dict[str, str]:
    """Return the topics that can be rejected without looking at the cluster's state, with the reasons."""
    refused = _named_twice(names, "Found multiple entries for this topic.")
    if CLUSTER_METADATA in names:
        refused[CLUSTER_METADATA] = f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
    return refused


def _new_topic(topic: KafkaMessage) -> NewTopic:
    return NewTopic(
        str(topic.name),
        int(topic.num_partitions),
        int(topic.replication_factor),
        {int(a.partition_index): tuple(map(int, a.broker_ids)) for a in topic.assignments},
        {str(config.name): config.value for config in topic.configs},
    )


def _new_partitions(topic: KafkaMessage) -> NewPartitions:
    assignments = topic.assignments
    given = None if assignments is None else [tuple(map(int, each.broker_ids)) for each in assignments]
    return NewPartitions(str(topic.name), int(topic.count), given)


def _topics_to_delete(request: KafkaMessage) -> list[TopicToDelete]:
    """Return the topics that a DeleteTopics request contains."""
    if hasattr(request, "topic_names"):
        return [(str(name), None) for name in request.topic_names]
    return [(topic.name, None if topic.topic_id == uuid_zero else topic.topic_id) for topic in request.topics]


def _all_refused(asked: Sequence[TopicToDelete], error: ErrorCode, message: str | None = None) -> list[dict[str, Any]]:
    return [
        {"name": name, "topic_id": topic_id, "error_code": error, "error_message": message} for name, topic_id in asked
    ]


def _created_row(result: TopicResult, described: Sequence[Described]) -> dict[str, Any]:
    return {
        "name": result.name,
        "topic_id": topic_id_to_kafka(result.topic_id),
        "error_code": result.error,
        "error_message": result.message,
        "num_partitions": result.num_partitions,
        "replication_factor": result.replication_factor,
        "configs": [
            {
                "name": config.name,
                "value": config.value,
                "read_only": config.read_only,
                "config_source": config.source,
                "is_sensitive": config.is_sensitive,
            }
            for config in described
        ],
    }


def _config_row(result: ConfigResult) -> dict[str, Any]:
    return {
        "error_code": result.error,
        "error_message": result.message,
        "resource_type": result.resource.type,
        "resource_name": result.resource.name,
    }


def _described(config: Described, synonyms: bool, documentation: bool) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "is_default": config.source == Source.DEFAULT_CONFIG,
        "config_source": config.source,
        "is_sensitive": config.is_sensitive,
        "config_type": 0 if config.type is None else config.type,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": synonym.source} for synonym in config.synonyms
        ]
        if synonyms
        else (),
        "documentation": config.documentation if documentation or not config.documentation else None,
    }

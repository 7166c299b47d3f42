"""Handlers of ApiVersions, Metadata and DescribeCluster, which clients send first."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.constants import uuid_zero
from msgspec.structs import replace

from zabka.broker_sim.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from zabka.broker_sim.metadata_cache import MetadataCache, PartitionMetadata
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_names import INTERNAL_TOPICS, invalid_name
from zabka.kafka.wire import api_versions
from zabka.kafka.wire.kafka_schema import ApiKey, KafkaUuid, respond, version_of
from zabka.kafka.wire.metadata_messages import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ANSWERS_REMEMBERED_MAX = 64
_DEAD_REPLICAS_ARE_NAMED_FROM = 1
_LISTENER_NOT_FOUND_FROM = 6

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Pattern of valid names and versions of client software (ApiVersionsRequest)."""
_BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster."""

CreateMissing = Callable[[str, str, str], ErrorCode]
"""Called with a topic, a client id and a user; begins to create the topic. Returns the error to send until the topic
exists.
"""


class MetadataHandlers:
    """Handles requests for cluster metadata. Metadata responses are cached until the metadata changes."""

    def __init__(
        self,
        metadata: MetadataCache,
        create_missing: CreateMissing,
        cluster_id: Callable[[], str],
    ) -> None:
        self._metadata = metadata
        self._create_missing = create_missing
        self._cluster_id = cluster_id
        self._answers: dict[tuple[object, ...], KafkaMessage] = {}
        self._rows: dict[str, dict[int, tuple[PartitionMetadata, MetadataResponsePartition]]] = {}
        """Cache of every partition's response entry, keyed by topic. An entry is valid as long as the metadata object
        it was built from is unchanged.
        """
        self._alive: tuple[int, ...] = ()
        """The brokers that were alive when the cached response entries were built."""
        self._answers_generation = -1

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.API_VERSIONS: self.api_versions,
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.describe_cluster,
        }

    async def api_versions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process ApiVersions. Since version 3, a client must send a valid software name and version (KIP-511)."""
        software = (getattr(request, name, "unknown") for name in ("client_software_name", "client_software_version"))
        if not all(map(_SOFTWARE.fullmatch, software)):
            return respond(request, error_code=ErrorCode.invalid_request)
        return api_versions.answer(request)

    # ---- Metadata ---------------------------------------------------------------------------------------------

    async def metadata(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process Metadata. While nothing has changed, return the same object, so that its encoded bytes can be
        reused.
        """
        requested = self._requested(request)
        if requested is not None and getattr(request, "allow_auto_topic_creation", True):
            client, user = context.client_id, context.principal.name
            missing = {name: self._create_missing(name, client, user) for name in self._missing(requested)}
        else:
            missing = {}
        if self._answers_generation != self._metadata.generation or len(self._answers) >= ANSWERS_REMEMBERED_MAX:
            self._answers.clear()
            self._answers_generation = self._metadata.generation
            self._keep_rows()
        key = (
            version_of(request),
            context.listener,
            None if requested is None else tuple(requested),
            _operations(request),
            *missing.items(),
        )
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._answer_metadata(request, context.listener, requested, missing)
        return answer

    def _keep_rows(self) -> None:
        """Drop cached entries of deleted topics. Drop all entries if the set of live brokers has changed.

        The second rule is needed because a change of the live brokers does not replace the partitions' metadata
        objects.
        """
        alive = tuple(broker.broker_id for broker in self._metadata.brokers())
        if alive != self._alive:
            self._alive = alive
            self._rows.clear()
        for topic in [topic for topic in self._rows if topic not in self._metadata]:
            del self._rows[topic]

    def _requested(self, request: KafkaMessage) -> list[tuple[str | None, KafkaUuid | None]] | None:
        """Return the topics that a Metadata request contains, by name or id, or None for all topics."""
        if request.topics is None or (version_of(request) == 0 and not request.topics):
            return None
        requested = []
        for topic in request.topics:
            topic_id = getattr(topic, "topic_id", None)
            requested.append((topic.name, None if topic_id is None or topic_id == uuid_zero else topic_id))
        return list(dict.fromkeys(requested))

    def _missing(self, requested: list[tuple[str | None, KafkaUuid | None]]) -> list[str]:
        """Return those topics requested by name that do not exist but can be created automatically."""
        names = (name for name, _ in requested if name is not None)
        return [name for name in names if name not in self._metadata and invalid_name(name) is None]

    def _answer_metadata(
        self,
        request: KafkaMessage,
        listener: str,
        requested: list[tuple[str | None, KafkaUuid | None]] | None,
        missing: Mapping[str, ErrorCode],
    ) -> KafkaMessage:
        brokers = self._brokers("node_id", listener)
        if requested is None:
            topics = [self._topic(name) for name in self._metadata.topics()]
        else:
            topics = [self._requested_topic(name, topic_id, missing) for name, topic_id in requested]
        version = version_of(request)
        seen = frozenset(row["node_id"] for row in brokers)
        if version < _DEAD_REPLICAS_ARE_NAMED_FROM or len(seen) < len(self._alive):
            topics = [
                replace(topic, partitions=tuple(_as_seen(row, seen, version) for row in topic.partitions))
                for topic in topics
            ]
        cluster_operations, topic_operations = _operations(request)
        if topic_operations != NOT_REQUESTED:
            topics = [_with_operations(topic, topic_operations) for topic in topics]
        return MetadataResponse(
            version,
            tuple(MetadataResponseBroker(**row) for row in brokers),
            self._cluster_id(),
            self._metadata.live_controller(),
            tuple(topics),
            cluster_authorized_operations=cluster_operations,
        )

    def _brokers(self, id_field: str, listener: str) -> list[dict[str, Any]]:
        rows = []
        for broker in self._metadata.brokers():
            endpoint = self._metadata.endpoint(broker.broker_id, listener)
            if endpoint is not None:
                rows.append(
                    {id_field: broker.broker_id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
                )
        return rows

    def _requested_topic(
        self, name: str | None, topic_id: KafkaUuid | None, missing: Mapping[str, ErrorCode]
    ) -> MetadataResponseTopic:
        if topic_id is not None:
            found = self._metadata.topic_of_id(topic_id)
            if found is None:
                return MetadataResponseTopic(ErrorCode.unknown_topic_id, None, topic_id)
            return self._topic(found)
        if name is None:
            return MetadataResponseTopic(ErrorCode.invalid_topic_exception, "")
        if name in self._metadata:
            return self._topic(name)
        error = missing.get(name, ErrorCode.unknown_topic_or_partition)
        if invalid_name(name) is not None:
            error = ErrorCode.invalid_topic_exception
        return MetadataResponseTopic(error, name)

    def _topic(self, name: str) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            ErrorCode.none,
            name,
            self._metadata.topic_id(name),
            name in INTERNAL_TOPICS,
            tuple(self._partition(name, partition) for partition in self._metadata.partitions(name)),
        )

    def _partition(self, topic: str, partition: PartitionMetadata) -> MetadataResponsePartition:
        rows = self._rows.setdefault(topic, {})
        known = rows.get(partition.partition)
        if known is not None and known[0] == partition:
            return known[1]
        is_alive = self._metadata.is_alive
        led = partition.leader >= 0 and is_alive(partition.leader)
        offline = partition.offline_replicas
        row = MetadataResponsePartition(
            ErrorCode.none if led else ErrorCode.leader_not_available,
            partition.partition,
            partition.leader if led else -1,
            partition.leader_epoch,
            partition.replicas,
            partition.isr,
            offline_replicas=tuple(
                replica for replica in partition.replicas if replica in offline or not is_alive(replica)
            ),
        )
        rows[partition.partition] = partition, row
        return row

    # ---- other requests ---------------------------------------------------------------------------------------

    async def describe_cluster(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process DescribeCluster. There are no KRaft controllers (endpoint type 2)."""
        if (requested := int(getattr(request, "endpoint_type", _BROKERS))) != _BROKERS:
            error, message = _wrong_endpoint_type(requested)
            return respond(request, error_code=error, error_message=message, endpoint_type=_BROKERS)
        return respond(
            request,
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
            ),
            cluster_id=self._cluster_id(),
            controller_id=self._metadata.live_controller(),
            brokers=self._brokers("broker_id", context.listener),
        )


def _operations(request: KafkaMessage) -> tuple[int, int]:
    """Return the authorized operations to report for the cluster (Metadata 8 to 10) and for topics (from version 8
    on).
    """
    of_cluster = getattr(request, "include_cluster_authorized_operations", False)
    of_topics = getattr(request, "include_topic_authorized_operations", False)
    return CLUSTER_OPERATIONS if of_cluster else NOT_REQUESTED, TOPIC_OPERATIONS if of_topics else NOT_REQUESTED


def _with_operations(topic: MetadataResponseTopic, operations: int) -> MetadataResponseTopic:
    """Return the topic with its authorized operations.

    As in Kafka, topics that do not exist also have them, but unknown topic ids do not.
    """
    if topic.error_code is ErrorCode.unknown_topic_id:
        return topic
    return replace(topic, topic_authorized_operations=operations)


def _wrong_endpoint_type(requested: int) -> tuple[ErrorCode, str]:
    """Return Kafka's error for a DescribeCluster request whose endpoint type is not brokers.

    Source: AuthHelper.computeDescribeClusterResponse.
    """
    if requested != _CONTROLLERS:
        return ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {requested}"
    message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    return ErrorCode.mismatched_endpoint_type, message


def _as_seen(row: MetadataResponsePartition, seen: Collection[int], version: int) -> MetadataResponsePartition:
    """Return a partition's entry for a client that can only see the `seen` brokers, which have the client's listener.

    In version 0, other replicas are omitted, and the partition has an error if a replica is omitted
    (ZkMetadataCache.getPartitionMetadata).
    """
    error, leader = row.error_code, row.leader_id
    replicas, isr = row.replica_nodes, row.isr_nodes
    if version < _DEAD_REPLICAS_ARE_NAMED_FROM:
        replicas, isr = (tuple(filter(seen.__contains__, brokers)) for brokers in (replicas, isr))
        is_whole = len(replicas) == len(row.replica_nodes) and len(isr) == len(row.isr_nodes)
        if error is ErrorCode.none and not is_whole:
            error = ErrorCode.replica_not_available
    if leader >= 0 and leader not in seen:
        knows = version >= _LISTENER_NOT_FOUND_FROM
        error, leader = ErrorCode.listener_not_found if knows else ErrorCode.leader_not_available, -1
    return MetadataResponsePartition(
        error_code=error,
        partition_index=row.partition_index,
        leader_id=leader,
        leader_epoch=row.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=row.offline_replicas,
    )

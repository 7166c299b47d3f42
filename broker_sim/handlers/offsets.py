"""Handlers of FindCoordinator, OffsetCommit, OffsetFetch and OffsetDelete. They call the group coordinator.

Version 0 of OffsetCommit and OffsetFetch is older than group coordinators and stores offsets in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.coordinator import CommittedOffset, Committing, CommittingInTransaction, GroupCoordinator
from zabka.broker_sim.groups.records import NO_LEADER_EPOCH, NO_TIME, OffsetAndMetadata
from zabka.broker_sim.groups.store import java_length
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.broker_sim.transactions.coordinator import TransactionCoordinator
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.consumer_protocol import NO_GENERATION, NO_MEMBER
from zabka.kafka.ports import Endpoint, KafkaMessage
from zabka.kafka.topic_names import TRANSACTION_STATE
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, respond, version_of
from zabka.kafka.zk import consumer_znodes
from zabka.kafka.zk.coordination import Zk

_GROUPS = 0
"""Key type in FindCoordinator that means a consumer group."""
_TRANSACTIONS = 1
_SHARE_GROUPS, _SHARE_GROUPS_FROM = 2, 6
_KEYS_IN_BATCHES_FROM = 4
_GROUPS_IN_BATCHES_FROM = 8
_ERROR_OF_THE_WHOLE_FROM = 2
_LOADING_KNOWN_FROM = 2
_ABORTABLE_KNOWN_FROM = 4
_NO_ENDPOINT = Endpoint(-1, "", -1)
_MESSAGES = {
    ErrorCode.none: "NONE",
    ErrorCode.invalid_request: "This most likely occurs because of a request being malformed by the "
    "client library or the message was sent to an incompatible broker. See the broker logs "
    "for more details.",
}
_NOT_AVAILABLE_MESSAGE = "The coordinator is not available."

CreateMissing = Callable[[str, str, str], ErrorCode]
"""Called with a topic, a client id and a user; begins to create the topic for the client."""
PartitionErrors = dict[TopicPartition, ErrorCode]


class OffsetHandlers:
    """Handles requests of clients that search for a coordinator or store offsets."""

    def __init__(
        self,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        metadata: MetadataCache,
        zk: Zk,
        runtime: Runtime,
        create_missing: CreateMissing,
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._metadata = metadata
        self._zk = zk
        self._runtime = runtime
        self._create_missing = create_missing

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.FIND_COORDINATOR: self.find_coordinator,
            ApiKey.OFFSET_COMMIT: self.offset_commit,
            ApiKey.TXN_OFFSET_COMMIT: self.txn_offset_commit,
            ApiKey.OFFSET_FETCH: self.offset_fetch,
            ApiKey.OFFSET_DELETE: self.offset_delete,
        }

    # ---- FindCoordinator --------------------------------------------------------------------------------------

    async def find_coordinator(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process FindCoordinator. If the coordinator's internal topic does not exist, create it.

        There are no coordinators of share groups.
        """
        version = version_of(request)
        kind = int(getattr(request, "key_type", _GROUPS))
        if version < _KEYS_IN_BATCHES_FROM:
            error, endpoint = self._coordinator(request.key, kind, version, context)
            message = _MESSAGES.get(error, _NOT_AVAILABLE_MESSAGE)
            return respond(request, error_code=error, error_message=message, **_node(endpoint))
        rows = []
        for key in request.coordinator_keys:
            error, endpoint = self._coordinator(key, kind, version, context)
            has_message = kind not in (_GROUPS, _SHARE_GROUPS) and error is not ErrorCode.none
            message = _MESSAGES.get(error, "") if has_message else ""
            rows.append({"key": key, "error_code": error, "error_message": message, **_node(endpoint)})
        return respond(request, coordinators=rows)

    def _coordinator(self, key: str, kind: int, version: int, context: RequestContext) -> tuple[ErrorCode, Endpoint]:
        if kind == _SHARE_GROUPS and version >= _SHARE_GROUPS_FROM:
            return ErrorCode.coordinator_not_available, _NO_ENDPOINT
        if kind == _GROUPS:
            topic, number = CONSUMER_OFFSETS, self._groups.store.partition_for(key)
        elif kind == _TRANSACTIONS:
            topic, number = TRANSACTION_STATE, self._transactions.store.partition_for(key)
        else:
            return ErrorCode.invalid_request, _NO_ENDPOINT
        if topic not in self._metadata:
            self._create_missing(topic, context.client_id, context.principal.name)
            return ErrorCode.coordinator_not_available, _NO_ENDPOINT
        partition = self._metadata.partition(TopicPartition(topic, number))
        endpoint = None if partition is None else self._metadata.endpoint(partition.leader, context.listener)
        if endpoint is None:
            return ErrorCode.coordinator_not_available, _NO_ENDPOINT
        return ErrorCode.none, endpoint

    # ---- OffsetCommit -----------------------------------------------------------------------------------------

    async def offset_commit(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process OffsetCommit. If a partition does not exist, only that partition gets an error.

        If a request contains a partition twice, the later offset is stored, and the coordinator's result is returned
        once. Results that do not come from the coordinator are returned for each entry of the request, as in Kafka.
        """
        errors: list[tuple[TopicPartition, ErrorCode]] = []
        offsets: list[tuple[TopicPartition, OffsetAndMetadata]] = []
        now_ms = self._runtime.now().wall_ms
        retention = getattr(request, "retention_time", None)
        retention_ms = -1 if retention is None else milliseconds(retention)
        for topic in request.topics:
            for row in topic.partitions:
                topic_partition = TopicPartition(str(topic.name), int(row.partition_index))
                if self._metadata.partition(topic_partition) is None:
                    errors.append((topic_partition, ErrorCode.unknown_topic_or_partition))
                else:
                    expire_ms = None if retention_ms < 0 else now_ms + retention_ms
                    offsets.append((topic_partition, _offset(row, now_ms, expire_ms)))
        if version_of(request) == 0:
            errors += [(each, await self._write_to_zookeeper(request.group_id, each, of)) for each, of in offsets]
        elif offsets:
            committed = await self._groups.commit(
                Committing(
                    group_id=request.group_id,
                    member_id=getattr(request, "member_id", NO_MEMBER),
                    group_instance_id=getattr(request, "group_instance_id", None),
                    generation_id=int(getattr(request, "generation_id_or_member_epoch", NO_GENERATION)),
                    offsets=dict(offsets),
                )
            )
            errors += committed.items()
        return respond(request, topics=_by_topic(errors, _error_row))

    async def txn_offset_commit(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process TxnOffsetCommit. If a partition does not exist, only that partition gets an error.

        In versions below 2, COORDINATOR_NOT_AVAILABLE replaces COORDINATOR_LOAD_IN_PROGRESS, which producers of these
        versions do not know (KAFKA-7296).
        """
        errors: list[tuple[TopicPartition, ErrorCode]] = []
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        now_ms = self._runtime.now().wall_ms
        for topic in request.topics:
            for row in topic.partitions:
                topic_partition = TopicPartition(str(topic.name), int(row.partition_index))
                if self._metadata.partition(topic_partition) is None:
                    errors.append((topic_partition, ErrorCode.unknown_topic_or_partition))
                else:
                    offsets[topic_partition] = _offset(row, now_ms, None)
        if offsets:
            commit = Committing(
                group_id=request.group_id,
                member_id=getattr(request, "member_id", NO_MEMBER),
                group_instance_id=getattr(request, "group_instance_id", None),
                generation_id=int(getattr(request, "generation_id", NO_GENERATION)),
                offsets=offsets,
            )
            committed = await self._groups.commit_in_transaction(
                CommittingInTransaction(
                    commit,
                    request.transactional_id,
                    int(request.producer_id),
                    int(request.producer_epoch),
                    version_of(request) >= _ABORTABLE_KNOWN_FROM,
                )
            )
            errors += committed.items()
        if version_of(request) < _LOADING_KNOWN_FROM:
            loading, unavailable = ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available
            errors = [(each, unavailable if error is loading else error) for each, error in errors]
        return respond(request, topics=_by_topic(errors, _error_row))

    async def _write_to_zookeeper(
        self, group_id: str, topic_partition: TopicPartition, offset: OffsetAndMetadata
    ) -> ErrorCode:
        if java_length(offset.metadata) > self._groups.config.offset_metadata_max_bytes:
            return ErrorCode.offset_metadata_too_large
        try:
            await consumer_znodes.write_offset(self._zk, group_id, topic_partition, offset.offset)
        except ZooKeeperError as failure:
            return _zookeeper_error(failure)
        return ErrorCode.none

    # ---- OffsetFetch ------------------------------------------------------------------------------------------

    async def offset_fetch(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process OffsetFetch. Since version 8, a request can contain several groups."""
        version = version_of(request)
        if version == 0:
            return respond(request, topics=await self._read_from_zookeeper(request))
        stable = getattr(request, "require_stable", False)
        if version >= _GROUPS_IN_BATCHES_FROM:
            rows = []
            for group in request.groups:
                error, found = self._groups.fetch_offsets(group.group_id, _requested(group.topics), stable)
                rows.append(
                    {"group_id": group.group_id, "error_code": error, "topics": _by_topic(found.items(), _offset_row)}
                )
            return respond(request, groups=rows)
        requested = _requested(request.topics)
        error, found = self._groups.fetch_offsets(request.group_id, requested, stable)
        if error is not ErrorCode.none and version < _ERROR_OF_THE_WHOLE_FROM:
            found = {topic_partition: CommittedOffset(error=error) for topic_partition in requested or ()}
        return respond(request, error_code=error, topics=_by_topic(found.items(), _offset_row))

    async def _read_from_zookeeper(self, request: KafkaMessage) -> list[dict[str, Any]]:
        found: dict[TopicPartition, CommittedOffset] = {}
        for requested in _requested(request.topics) or ():
            offset = None
            error = ErrorCode.unknown_topic_or_partition
            if self._metadata.partition(requested) is not None:
                try:
                    offset = await consumer_znodes.read_offset(self._zk, request.group_id, requested)
                except ZooKeeperError as failure:
                    error = _zookeeper_error(failure)
            found[requested] = CommittedOffset(error=error) if offset is None else CommittedOffset(offset)
        return _by_topic(found.items(), _offset_row)

    # ---- OffsetDelete -----------------------------------------------------------------------------------------

    async def offset_delete(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an OffsetDelete request."""
        errors: PartitionErrors = {}
        requested: list[TopicPartition] = []
        for topic in request.topics:
            for row in topic.partitions:
                topic_partition = TopicPartition(str(topic.name), int(row.partition_index))
                errors[topic_partition] = ErrorCode.unknown_topic_or_partition
                if self._metadata.partition(topic_partition) is not None:
                    requested.append(topic_partition)
        error, found = self._groups.delete_offsets(request.group_id, requested)
        if error is not ErrorCode.none:
            return respond(request, error_code=error)
        return respond(request, topics=_by_topic((errors | found).items(), _error_row))


def _node(endpoint: Endpoint) -> dict[str, Any]:
    return {"node_id": endpoint.broker_id, "host": endpoint.host, "port": endpoint.port}


def _zookeeper_error(failure: ZooKeeperError) -> ErrorCode:
    return ErrorCode.not_coordinator if isinstance(failure, SessionExpired) else ErrorCode.unknown_server_error


def _requested(topics: Iterable[KafkaMessage] | None) -> Sequence[TopicPartition] | None:
    """Return the partitions that an OffsetFetch request contains, or None for all partitions."""
    if topics is None:
        return None
    return [TopicPartition(str(topic.name), int(number)) for topic in topics for number in topic.partition_indexes]


def _offset(row: KafkaMessage, now_ms: int, expire_ms: int | None) -> OffsetAndMetadata:
    given_ms = int(getattr(row, "commit_timestamp", NO_TIME))
    return OffsetAndMetadata(
        offset=int(row.committed_offset),
        leader_epoch=int(getattr(row, "committed_leader_epoch", NO_LEADER_EPOCH)),
        metadata=row.committed_metadata or "",
        commit_timestamp_ms=now_ms if given_ms == NO_TIME else given_ms,
        expire_timestamp_ms=expire_ms,
    )


def _error_row(topic_partition: TopicPartition, error: ErrorCode) -> dict[str, Any]:
    return {"partition_index": topic_partition.partition, "error_code": error}


def _offset_row(topic_partition: TopicPartition, found: CommittedOffset) -> dict[str, Any]:
    return {
        "partition_index": topic_partition.partition,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": found.error,
    }


def _by_topic(
    rows: Iterable[tuple[TopicPartition, Any]], render: Callable[[TopicPartition, Any], Any]
) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic_partition, row in rows:
        topics.setdefault(topic_partition.topic, []).append(render(topic_partition, row))
    return [{"name": topic, "partitions": rendered} for topic, rendered in topics.items()]

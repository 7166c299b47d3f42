"""Handlers of requests about records and offsets (Produce, Fetch, ListOffsets, ...). They call the replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from kio.schema.errors import ErrorCode

from zabka.broker_sim.authorizer.acl_authorizer import Authorizer
from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.handlers.older_clients import FETCH_KNOWS_ZSTD, list_old_offsets, read_for_older
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.ports import (
    Deleted,
    FetchedPartition,
    FetchParams,
    FetchPartition,
    ProducedPartition,
    Reader,
    ReplicaService,
)
from zabka.broker_sim.quotas.client_throttling import ClientThrottles
from zabka.broker_sim.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchKey,
    FetchRefused,
    FetchSessions,
    Request,
    Rows,
)
from zabka.broker_sim.request_context import Handler, RequestContext, RequestRefused
from zabka.broker_sim.request_sizes import HEAD_BYTES, ROW_BYTES, TOPIC_BYTES, produce_size
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.acls import AclOperation, ResourceType
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.record_refusals import RecordsRefused
from zabka.kafka.record_validation import ProduceRefused, check_request
from zabka.kafka.request_faults.answers import FetchedRow
from zabka.kafka.topic_ids import topic_id_from_kafka
from zabka.kafka.topic_names import INTERNAL_TOPICS
from zabka.kafka.wire.data_messages import (
    MAX_BYTES_UNASKED,
    NO_WORD_OF_LEADER,
    NOT_DIVERGING,
    AbortedTransaction,
    BatchIndexAndErrorMessage,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    error_code,
)
from zabka.kafka.wire.kafka_schema import (
    FETCH_BY_TOPIC_ID,
    NO_TIME,
    ApiKey,
    KafkaUuid,
    Uuid,
    as_time,
    milliseconds,
    respond,
    version_of,
    wall_time,
)

_ACKS = (-1, 0, 1)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
ADMIN_CLIENT_ID = "__admin_client"
"""Client id that Kafka's admin tools use (AdminUtils.ADMIN_CLIENT_ID)."""
FETCH_SESSION_EVICTION_MS = 120_000
"""Time without use after which a fetch session can be evicted (min.incremental.fetch.session.eviction.ms)."""
_CONSUMER, _DEBUGGING = -1, -2
"""Replica ids of clients that are not replicas. The debugging consumer can read from any replica."""
_FETCH_BY_REPLICA_STATE = 15
_FETCH_BY_READER = 11
_FETCH_SAYS_LEADER = 16
_PRODUCE_SAYS_LEADER = 10
_PRODUCE_KNOWS_ABORTABLE = 11
_OFFSETS_KNOW_NOT_AVAILABLE = 5
_TIMESTAMPS_SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9}
"""Special timestamps in ListOffsets, each with the first request version that supports it."""

_topic_id_text = lru_cache(4_096)(topic_id_from_kafka)
_KNOWS_STORAGE_ERROR = 6


class DataHandlers:
    """Handles Produce, Fetch and other requests about records and offsets."""

    def __init__(
        self,
        config: KafkaConfig,
        metadata: MetadataCache,
        replicas: ReplicaService,
        runtime: Runtime,
        quotas: ClientThrottles | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """If `quotas` is None, no client is throttled; if `authorizer` is None, every client can fetch."""
        self._authorizer = authorizer
        self._quotas = quotas or ClientThrottles(runtime, 2, 1)
        self._metadata = metadata
        self._replicas = replicas
        self._runtime = runtime
        self._fetch_bytes_max = config.number("fetch.max.bytes")
        self._sessions = FetchSessions(
            runtime.random,
            config.number("max.incremental.fetch.session.cache.slots"),
            FETCH_SESSION_EVICTION_MS,
        )

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.PRODUCE: self.produce,
            ApiKey.FETCH: self.fetch,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self.offset_for_leader_epoch,
            ApiKey.DELETE_RECORDS: self.delete_records,
        }

    def _known(self, topic_partition: TopicPartition) -> bool:
        return self._metadata.partition(topic_partition) is not None

    def _leader(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return a partition's (leader, leader epoch), from this broker's replica or its metadata cache; -1 if
        unknown.
        """
        known = self._replicas.leader_and_epoch(topic_partition)
        if known is None:
            metadata = self._metadata.partition(topic_partition)
            known = (-1, -1) if metadata is None else (metadata.leader, metadata.leader_epoch)
        return known

    def _node_endpoints(self, leaders: Iterable[int], listener: str) -> list[NodeEndpoint]:
        nodes = []
        for broker_id in dict.fromkeys(leaders):
            endpoint = self._metadata.endpoint(broker_id, listener)
            if endpoint is not None:
                rack = self._metadata.rack(broker_id)
                nodes.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port, rack))
        return nodes

    # ---- Produce ----------------------------------------------------------------------------------------------

    async def produce(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
        """Process Produce. With acks=0, return no response, or close the connection after an error.

        If a request contains a partition twice, only the later records are appended. The partition's result is an error
        if either the earlier or the later records are invalid, because Kafka's handler collects errors and records in
        maps by partition.
        """
        acks, version = int(request.acks), version_of(request)
        transactional_id = getattr(request, "transactional_id", None)
        rows: dict[TopicPartition, ProducedPartition] = {}
        batches: dict[TopicPartition, bytes] = {}
        try:
            for topic in request.topic_data:
                for partition in topic.partition_data:
                    topic_partition = TopicPartition(str(topic.name), int(partition.index))
                    refused = self._produce_error(
                        partition.records, version, acks, context, topic_partition, transactional_id is not None
                    )
                    if refused is not ErrorCode.none:
                        rows[topic_partition] = ProducedPartition(topic_partition, refused, -1, -1, -1)
                    else:
                        batches[topic_partition] = partition.records
        except ProduceRefused as all_refused:
            batches.clear()
            rows = _all_refused(request, all_refused)
        if batches:
            timeout_ms = milliseconds(request.timeout)
            appended = (
                self._replicas.produce(list(batches.items()), acks, timeout_ms)
                if transactional_id is None
                else self._replicas.produce_in_transaction(
                    list(batches.items()), acks, timeout_ms, transactional_id, version >= _PRODUCE_KNOWS_ABORTABLE
                )
            )
            for produced in await appended:
                rows.setdefault(produced.topic_partition, produced)
        quota = self._quotas.produce
        throttle_ms = 0
        if quota.is_used:
            size = context.asked_bytes or produce_size(request, context.client_id)
            throttle_ms = quota.note(context.client_id, size, context.principal.name)
        if acks == 0:
            if any(row.error for row in rows.values()):
                raise RequestRefused("a record sent with acks=0 was not stored")
            # With acks=0 there is no response that could contain the throttle time, but the connection is still muted.
            context.muted_ms = throttle_ms
            return None
        if self._quotas.request.is_used:
            throttle_ms = max(throttle_ms, self._quotas.request.note(context))
        context.muted_ms = throttle_ms
        return self._produce_answer(request, context, rows, throttle_ms)

    def _produce_error(
        self,
        records: bytes | None,
        version: int,
        acks: int,
        context: RequestContext,
        topic_partition: TopicPartition,
        is_transactional: bool,
    ) -> ErrorCode:
        """Return the error for a partition that can be determined before appending.

        Raises ProduceRefused if the error concerns the whole request.
        """
        error = ErrorCode.none
        try:
            check_request(records or b"", version, is_transactional)
        except RecordsRefused as refused:
            error = error_code(refused.error)
        if acks not in _ACKS:
            return ErrorCode.invalid_required_acks
        if not self._known(topic_partition):
            return ErrorCode.unknown_topic_or_partition
        if error is ErrorCode.none and topic_partition.topic in INTERNAL_TOPICS:
            return _internal_topic_error(context)
        return error

    def _produce_answer(
        self,
        request: KafkaMessage,
        context: RequestContext,
        rows: Mapping[TopicPartition, ProducedPartition],
        throttle_ms: int,
    ) -> KafkaMessage:
        topics: dict[str, list[PartitionProduceResponse]] = {}
        leaders: list[int] = []
        version = version_of(request)
        for (topic, partition), row in rows.items():
            hint = NO_WORD_OF_LEADER
            if version >= _PRODUCE_SAYS_LEADER and row.error == ErrorCode.not_leader_or_follower:
                hint = LeaderIdAndEpoch(*self._leader(row.topic_partition))
                leaders.append(hint.leader_id)
            answer = PartitionProduceResponse(
                index=partition,
                error_code=error_code(row.error),
                base_offset=row.base_offset,
                log_append_time=None if row.log_append_time_ms < 0 else wall_time(row.log_append_time_ms),
                log_start_offset=row.log_start_offset,
                record_errors=[BatchIndexAndErrorMessage(*wrong) for wrong in row.record_errors] if row.error else (),
                error_message=row.error_message,
                current_leader=hint,
            )
            topics.setdefault(topic, []).append(answer)
        responses = [TopicProduceResponse(topic, answers) for topic, answers in topics.items()]
        nodes = self._node_endpoints(leaders, context.listener) if leaders else ()
        return ProduceResponse(version, responses, as_time(throttle_ms) if throttle_ms else NO_TIME, nodes)

    # ---- Fetch ------------------------------------------------------------------------------------------------

    async def fetch(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process Fetch, with or without a fetch session."""
        version = version_of(request)
        if not _is_isolated_in_a_known_way(request):
            asked = {} if version >= FETCH_BY_TOPIC_ID else self._asked(request, version)
            error = ErrorCode.unknown_server_error
            rows = {key: _refused(row.topic_partition, error) for key, row in asked.items()}
            return self._fetch_answer(request, context, error, int(getattr(request, "session_id", 0)), rows)
        replica_id, replica_epoch = _fetching_replica(request, version)
        now_ms = self._runtime.now().mono_ms
        opened = self._sessions.open(
            Request(
                int(getattr(request, "session_id", 0)),
                int(getattr(request, "session_epoch", -1)),
                replica_id >= 0,
                version >= FETCH_BY_TOPIC_ID,
                self._asked(request, version),
                _forgotten(request, version),
            ),
            now_ms,
        )
        if isinstance(opened, FetchRefused):
            return FetchResponse(version, (), opened.error)
        denies = None if self._authorizer is None else _denied_topics(self._authorizer, context, replica_id)
        rows, requested = self._sort_out(opened.partitions, denies)
        if requested:
            max_bytes = min(int(getattr(request, "max_bytes", MAX_BYTES_UNASKED)), self._fetch_bytes_max)
            quota = self._quotas.fetch
            if quota.is_used and replica_id < 0:
                most = quota.most_at_once(context.client_id, context.principal.name)
                max_bytes = max_bytes if most is None else int(min(max_bytes, most))
            params = FetchParams(
                replica_id=replica_id,
                max_wait_ms=milliseconds(request.max_wait),
                min_bytes=min(int(request.min_bytes), max_bytes),
                max_bytes=max_bytes,
                reader=Reader(str(request.rack_id), context.listener) if version >= _FETCH_BY_READER else None,
                replica_epoch=replica_epoch,
                read_committed=getattr(request, "isolation_level", READ_UNCOMMITTED) == READ_COMMITTED,
            )
            fetched = await self._replicas.fetch(params, list(requested.values()))
            rows.update(zip(requested, fetched, strict=True))
            if version < FETCH_KNOWS_ZSTD:
                # A fetch may wait until a partition has records that an old client can read, but only if no other
                # partition has a response that would be delayed.
                may_wait = sum(bool(row.records or row.error) for row in fetched) <= 1
                until_ms = now_ms + params.max_wait_ms if may_wait else now_ms
                for key, row in zip(requested, fetched, strict=True):
                    rows[key] = await read_for_older(
                        self._replicas,
                        self._runtime,
                        version=version,
                        params=params,
                        until_ms=until_ms,
                        requested=requested[key],
                        row=row,
                    )
        if replica_id < 0 and (self._quotas.fetch.is_used or self._quotas.request.is_used):
            throttle_ms = context.muted_ms = self._throttle_fetch(context, rows)
            if throttle_ms:
                error, session_id = opened.without_rows()
                return FetchResponse(version, (), error, session_id, as_time(throttle_ms))
        error, session_id, news = opened.finish(rows)
        return self._fetch_answer(request, context, error, session_id, news)

    def fetched(self, request: KafkaMessage) -> list[FetchedRow]:
        """Return the partitions that a Fetch request reads, including those from its fetch session."""
        version = version_of(request)
        continues = getattr(request, "session_epoch", FINAL_EPOCH) not in (INITIAL_EPOCH, FINAL_EPOCH)
        keys = dict.fromkeys(self._sessions.partitions(request.session_id) if continues else ())
        for key in _forgotten(request, version):
            keys.pop(key, None)
        keys.update(dict.fromkeys(self._asked(request, version)))
        if version >= FETCH_BY_TOPIC_ID:
            return [FetchedRow("", _id_of(topic_id), partition) for topic_id, partition in keys]
        return [FetchedRow(str(topic), None, partition) for topic, partition in keys]

    def _throttle_fetch(self, context: RequestContext, rows: Rows) -> int:
        """Return a consumer's throttle time. If it is throttled, remove the fetched records from the response.

        The consumer fetches these records again later.
        """
        quota, size = self._quotas.fetch, _fetch_size(rows)
        user = context.principal.name
        throttle_ms = max(self._quotas.request.note(context), quota.note(context.client_id, size, user))
        if throttle_ms and quota.is_used:
            quota.take_back(context.client_id, size, user)
        return throttle_ms

    def _topic_of(self, key: Any) -> str:
        return self._metadata.topic_of_id(_id_of(key)) or "" if key else ""

    def _asked(self, request: KafkaMessage, version: int) -> dict[FetchKey, FetchPartition]:
        """Return the partitions that a Fetch request contains. If a topic id is unknown, the topic's name is empty."""
        asked: dict[FetchKey, FetchPartition] = {}
        for topic in request.topics:
            if version >= FETCH_BY_TOPIC_ID:
                key = _id_key(topic.topic_id)
                name, topic_id = self._topic_of(key), _topic_id_text(topic.topic_id)
            else:
                key, name, topic_id = topic.topic, str(topic.topic), None
            for partition in topic.partitions:
                number = partition.partition
                asked[key, number] = FetchPartition(
                    TopicPartition(name, number),
                    partition.fetch_offset,
                    # In Fetch, unlike in other requests, any negative leader epoch means that there is none
                    # (FetchRequest.optionalEpoch).
                    max(-1, getattr(partition, "current_leader_epoch", -1)),
                    getattr(partition, "last_fetched_epoch", -1),
                    partition.partition_max_bytes,
                    getattr(partition, "log_start_offset", -1),
                    topic_id=topic_id,
                )
        return asked

    def _sort_out(
        self, asked: Mapping[FetchKey, FetchPartition], denies: Callable[[str], bool] | None
    ) -> tuple[Rows, dict[FetchKey, FetchPartition]]:
        """Separate the requested partitions: return response entries for the unknown ones, and the partitions to
        read.
        """
        rows: Rows = {}
        requested: dict[FetchKey, FetchPartition] = {}
        for key, row in asked.items():
            topic_partition = row.topic_partition
            if not topic_partition.topic and row.topic_id is not None:
                # This broker did not know the topic id when the fetch session began, but may know it now.
                topic_partition = TopicPartition(self._topic_of(key[0]), key[1])
                row = msgspec.structs.replace(row, topic_partition=topic_partition)
            if not topic_partition.topic and row.topic_id is not None:
                rows[key] = _refused(topic_partition, ErrorCode.unknown_topic_id)
            elif denies is not None and denies(topic_partition.topic):
                rows[key] = _refused(topic_partition, ErrorCode.topic_authorization_failed)
            elif self._metadata.partition(topic_partition) is None:
                rows[key] = _refused(topic_partition, ErrorCode.unknown_topic_or_partition)
            else:
                requested[key] = row
        return rows, requested

    def _fetch_answer(
        self, request: KafkaMessage, context: RequestContext, error: ErrorCode, session_id: int, rows: Rows
    ) -> KafkaMessage:
        version = version_of(request)
        topics: dict[Any, list[PartitionData]] = {}
        leaders: list[int] = []
        for key, row in rows.items():
            hint = NO_WORD_OF_LEADER
            if row.error and version >= _FETCH_SAYS_LEADER and row.error in _LEADER_IS_ELSEWHERE:
                hint = LeaderIdAndEpoch(*self._leader(row.topic_partition))
                leaders.append(hint.leader_id)
            topics.setdefault(key[0], []).append(_fetched_row(row, version, hint))
        if version >= FETCH_BY_TOPIC_ID:
            responses = [FetchableTopicResponse(answers, "", _id_of(key)) for key, answers in topics.items()]
        else:
            responses = [FetchableTopicResponse(answers, topic) for topic, answers in topics.items()]
        nodes = self._node_endpoints(leaders, context.listener) if leaders else ()
        return FetchResponse(version, tuple(responses), error, session_id, node_endpoints=nodes)

    # ---- offsets ----------------------------------------------------------------------------------------------

    async def list_offsets(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a ListOffsets request."""
        if not version_of(request):
            return list_old_offsets(self._replicas, request, self._known)
        seen: dict[TopicPartition, int] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(str(topic.name), int(partition.partition_index))
                seen[topic_partition] = seen.get(topic_partition, 0) + 1
        topics = []
        for topic in request.topics:
            rows = []
            for partition in topic.partitions:
                topic_partition = TopicPartition(str(topic.name), int(partition.partition_index))
                found = await self._list_offset(request, topic_partition, partition, seen[topic_partition] > 1)
                error, timestamp, offset, leader_epoch = found
                row = {"partition_index": topic_partition.partition, "error_code": error, "timestamp": timestamp}
                rows.append({**row, "offset": offset, "leader_epoch": leader_epoch})
            topics.append({"name": topic.name, "partitions": rows})
        return respond(request, topics=topics)

    async def _list_offset(
        self, request: KafkaMessage, topic_partition: TopicPartition, partition: KafkaMessage, is_double: bool
    ) -> tuple[int, int, int, int]:
        version = version_of(request)
        timestamp = int(partition.timestamp)
        if not _is_isolated_in_a_known_way(request):
            return ErrorCode.unknown_server_error, -1, -1, -1
        if is_double:
            return ErrorCode.invalid_request, -1, -1, -1
        if timestamp < 0 and version < _TIMESTAMPS_SINCE.get(timestamp, version + 1):
            return ErrorCode.unsupported_version, -1, -1, -1
        if not self._known(topic_partition):
            return ErrorCode.unknown_topic_or_partition, -1, -1, -1
        found = await self._replicas.list_offset(
            topic_partition,
            timestamp,
            int(getattr(partition, "current_leader_epoch", -1)),
            request.replica_id != _CONSUMER,
            request.replica_id != _DEBUGGING,
            getattr(request, "isolation_level", READ_UNCOMMITTED) == READ_COMMITTED,
        )
        if found[0] == ErrorCode.offset_not_available and version < _OFFSETS_KNOW_NOT_AVAILABLE:
            return ErrorCode.leader_not_available, *found[1:]
        return found

    async def offset_for_leader_epoch(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an OffsetForLeaderEpoch request."""
        topics = []
        for topic in request.topics:
            rows = []
            for partition in topic.partitions:
                topic_partition = TopicPartition(str(topic.topic), int(partition.partition))
                row: dict[str, Any] = {"partition": topic_partition.partition}
                if self._known(topic_partition):
                    current = int(getattr(partition, "current_leader_epoch", -1))
                    error, epoch, end = self._replicas.end_offset_for_epoch(
                        topic_partition, current, int(partition.leader_epoch)
                    )
                    row |= {"error_code": error, "leader_epoch": epoch, "end_offset": end}
                else:
                    row["error_code"] = ErrorCode.unknown_topic_or_partition
                rows.append(row)
            topics.append({"topic": topic.topic, "partitions": rows})
        return respond(request, topics=topics)

    async def delete_records(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process DeleteRecords. Records of internal topics cannot be deleted, whatever their cleanup.policy."""
        offsets: dict[TopicPartition, int] = {}
        refused: dict[TopicPartition, Deleted] = {}
        for topic in request.topics:
            for row in topic.partitions:
                offsets[TopicPartition(str(topic.name), int(row.partition_index))] = int(row.offset)
        for partition in offsets:
            if not self._known(partition):
                refused[partition] = Deleted(ErrorCode.unknown_topic_or_partition)
            elif partition.topic in INTERNAL_TOPICS:
                refused[partition] = Deleted(ErrorCode.invalid_topic_exception)
        requested = {partition: offset for partition, offset in offsets.items() if partition not in refused}
        deleted = await self._replicas.delete_records(requested, milliseconds(request.timeout)) if requested else {}
        topics: dict[str, list[dict[str, Any]]] = {}
        for partition in offsets:
            error, low_watermark = refused.get(partition) or deleted[partition]
            answer = {"partition_index": partition.partition, "low_watermark": low_watermark, "error_code": error}
            topics.setdefault(partition.topic, []).append(answer)
        return respond(request, topics=[{"name": topic, "partitions": rows} for topic, rows in topics.items()])


_LEADER_IS_ELSEWHERE = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


def _is_isolated_in_a_known_way(request: KafkaMessage) -> bool:
    """Return whether the request's isolation level is valid. Kafka returns an error for any other level
    (IsolationLevel.forId).
    """
    return getattr(request, "isolation_level", READ_UNCOMMITTED) in (READ_UNCOMMITTED, READ_COMMITTED)


def _fetching_replica(request: KafkaMessage, version: int) -> tuple[int, int]:
    """Return (replica id, broker epoch) of a fetching follower; (-1, -1) for a consumer."""
    if version >= _FETCH_BY_REPLICA_STATE:
        return int(request.replica_state.replica_id), int(request.replica_state.replica_epoch)
    return int(request.replica_id), -1


def _forgotten(request: KafkaMessage, version: int) -> list[FetchKey]:
    return [
        (_id_key(topic.topic_id) if version >= FETCH_BY_TOPIC_ID else topic.topic, partition)
        for topic in getattr(request, "forgotten_topics_data", ())
        for partition in topic.partitions
    ]


@lru_cache(4_096)
def _id_of(key: int) -> KafkaUuid | None:
    return Uuid(int=key) if key else None


def _id_key(topic_id: KafkaUuid | None) -> int:
    """Return a topic id in the form used in dict keys, 0 for None. Hashing a UUID is slow in Python."""
    return 0 if topic_id is None else int(topic_id.int)


def _refused(topic_partition: TopicPartition, error: ErrorCode) -> FetchedPartition:
    return FetchedPartition(topic_partition, error, -1, -1, b"")


def _all_refused(request: KafkaMessage, refused: ProduceRefused) -> dict[TopicPartition, ProducedPartition]:
    partitions = [
        TopicPartition(str(topic.name), int(partition.index))
        for topic in request.topic_data
        for partition in topic.partition_data
    ]
    return {each: ProducedPartition(each, refused.error, -1, -1, -1, refused.message) for each in partitions}


def _internal_topic_error(context: RequestContext) -> ErrorCode:
    """Return the error for a client's write to an internal topic.

    Only coordinators and the admin client can write to internal topics.
    """
    return ErrorCode.none if context.client_id == ADMIN_CLIENT_ID else ErrorCode.invalid_topic_exception


def _denied_topics(authorizer: Authorizer, context: RequestContext, replica_id: int) -> Callable[[str], bool]:
    """Return a function that returns whether a topic is denied: READ for consumers, CLUSTER_ACTION for followers."""
    access = authorizer.access(context, ApiKey.FETCH)
    if replica_id >= 0:
        is_denied = not access.allows_cluster(AclOperation.CLUSTER_ACTION)
        return lambda topic: is_denied
    return lambda topic: not access.allows(AclOperation.READ, ResourceType.TOPIC, topic)


def _fetch_size(rows: Mapping[tuple[Any, int], FetchedPartition]) -> int:
    """Return the approximate size of a Fetch response in bytes."""
    # The response of a fetch session omits unchanged partitions.
    sizes = {key: ROW_BYTES + len(row.records) for key, row in rows.items() if row.records or row.error}
    return HEAD_BYTES + TOPIC_BYTES * len({topic for topic, _ in sizes}) + sum(sizes.values())


def _fetched_row(row: FetchedPartition, version: int, leader: LeaderIdAndEpoch) -> PartitionData:
    """Return one partition's entry of a Fetch response, for the response's version.

    `leader` is set if the consumer should fetch from another broker.
    """
    error = row.error
    if error == ErrorCode.kafka_storage_error and version < _KNOWS_STORAGE_ERROR:
        # An old client does not know KAFKA_STORAGE_ERROR and treats it as fatal. After NOT_LEADER, it refreshes its
        # metadata.
        error = ErrorCode.not_leader_or_follower
    return PartitionData(
        row.topic_partition.partition,
        error_code(error),
        row.high_watermark,
        row.last_stable_offset,
        row.log_start_offset,
        row.records,
        diverging_epoch=NOT_DIVERGING if row.diverging is None else EpochEndOffset(*row.diverging),
        current_leader=leader,
        preferred_read_replica=row.preferred_read_replica,
        aborted_transactions=None
        if row.aborted is None
        else [AbortedTransaction(each[0], each[1]) for each in row.aborted],
    )

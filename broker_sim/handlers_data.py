"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch: from Kafka's requests to the replica manager and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from broker_sim.broker_requests import Handler, RequestContext, RequestRefused
from broker_sim.config import KafkaConfig
from broker_sim.kafka_schema import ApiKey, milliseconds, respond
from broker_sim.metadata_cache import MetadataCache
from broker_sim.ports import FetchedPartition, FetchParams, FetchPartition, ProducedPartition, ReplicaService
from controller.ports import KafkaMessage
from journal.events import TopicPartition

_ACKS = (-1, 0, 1)
_FINAL_EPOCH, _INITIAL_EPOCH = -1, 0
"""Session epochs of a full fetch; any other one continues a fetch session, and there are none here."""


class DataHandlers:
    """Serves records."""

    def __init__(self, config: KafkaConfig, metadata: MetadataCache, replicas: ReplicaService) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._fetch_bytes_max = config.number("fetch.max.bytes")

    def table(self) -> Mapping[ApiKey, Handler]:
        """The requests served here."""
        return {
            ApiKey.PRODUCE: self.produce,
            ApiKey.FETCH: self.fetch,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self.offset_for_leader_epoch,
        }

    def _known(self, topic_partition: TopicPartition) -> bool:
        return self._metadata.partition(topic_partition) is not None

    # ---- Produce ----------------------------------------------------------------------------------------------

    async def produce(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
        """Answer Produce; with acks=0 nothing, or by closing the connection where something went wrong."""
        acks = int(request.acks)
        rows: dict[TopicPartition, ProducedPartition] = {}
        batches: list[tuple[TopicPartition, bytes]] = []
        for topic in request.topic_data:
            for partition in topic.partition_data:
                topic_partition = TopicPartition(str(topic.name), int(partition.index))
                error = self._produce_error(request, acks, topic_partition, partition.records)
                if error is not ErrorCode.none:
                    rows[topic_partition] = ProducedPartition(topic_partition, error, -1, -1, -1)
                else:
                    batches.append((topic_partition, partition.records))
        if batches:
            for produced in await self._replicas.produce(batches, acks, milliseconds(request.timeout)):
                rows[produced.topic_partition] = produced
        if acks == 0:
            if any(row.error for row in rows.values()):
                raise RequestRefused("a record sent with acks=0 was not stored")
            return None
        return respond(request, responses=_by_topic("name", "partition_responses", rows.values(), _produced_row))

    def _produce_error(
        self, request: KafkaMessage, acks: int, topic_partition: TopicPartition, records: bytes | None
    ) -> ErrorCode:
        if acks not in _ACKS:
            return ErrorCode.invalid_required_acks
        if request.transactional_id is not None:
            return ErrorCode.transactional_id_authorization_failed
        if not self._known(topic_partition):
            return ErrorCode.unknown_topic_or_partition
        if not records:
            return ErrorCode.invalid_record
        return ErrorCode.none

    # ---- Fetch ------------------------------------------------------------------------------------------------

    async def fetch(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer Fetch, full fetches only: the session id is always 0 (KIP-227 allows a broker to have none)."""
        if getattr(request, "session_epoch", _FINAL_EPOCH) not in (_FINAL_EPOCH, _INITIAL_EPOCH):
            return respond(request, error_code=ErrorCode.fetch_session_id_not_found)
        order: list[TopicPartition] = []
        rows: dict[TopicPartition, FetchedPartition] = {}
        wanted: list[FetchPartition] = []
        for topic in request.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(str(topic.topic), int(partition.partition))
                order.append(topic_partition)
                if self._known(topic_partition):
                    wanted.append(_wanted(topic_partition, partition))
                else:
                    rows[topic_partition] = _unknown(topic_partition)
        replica_id = int(request.replica_id)
        params = FetchParams(
            replica_id=replica_id,
            max_wait_ms=0 if rows else milliseconds(request.max_wait),
            min_bytes=int(request.min_bytes),
            max_bytes=int(request.max_bytes) if replica_id >= 0 else min(request.max_bytes, self._fetch_bytes_max),
        )
        if wanted:
            for fetched in await self._replicas.fetch(params, wanted):
                rows[fetched.topic_partition] = fetched
        answers = (rows[topic_partition] for topic_partition in dict.fromkeys(order))
        return respond(request, responses=_by_topic("topic", "partitions", answers, _fetched_row))

    # ---- offsets ----------------------------------------------------------------------------------------------

    async def list_offsets(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer ListOffsets."""
        from_follower = request.replica_id >= 0
        topics = []
        for topic in request.topics:
            rows = []
            for partition in topic.partitions:
                topic_partition = TopicPartition(str(topic.name), int(partition.partition_index))
                row: dict[str, Any] = {"partition_index": topic_partition.partition}
                if self._known(topic_partition):
                    error, timestamp, offset, leader_epoch = self._replicas.list_offset(
                        topic_partition,
                        int(partition.timestamp),
                        int(getattr(partition, "current_leader_epoch", -1)),
                        from_follower,
                    )
                    row |= {"error_code": error, "timestamp": timestamp, "offset": offset, "leader_epoch": leader_epoch}
                else:
                    row["error_code"] = ErrorCode.unknown_topic_or_partition
                rows.append(row)
            topics.append({"name": topic.name, "partitions": rows})
        return respond(request, topics=topics)

    async def offset_for_leader_epoch(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer OffsetForLeaderEpoch."""
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


def _by_topic(name_field: str, rows_field: str, rows: Iterable[Any], render: Any) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        topics.setdefault(row.topic_partition.topic, []).append(render(row))
    return [{name_field: topic, rows_field: rendered} for topic, rendered in topics.items()]


def _produced_row(row: ProducedPartition) -> dict[str, Any]:
    return {
        "index": row.topic_partition.partition,
        "error_code": row.error,
        "base_offset": row.base_offset,
        "log_start_offset": row.log_start_offset,
    }


def _wanted(topic_partition: TopicPartition, partition: KafkaMessage) -> FetchPartition:
    return FetchPartition(
        topic_partition,
        fetch_offset=int(partition.fetch_offset),
        current_leader_epoch=int(getattr(partition, "current_leader_epoch", -1)),
        last_fetched_epoch=int(getattr(partition, "last_fetched_epoch", -1)),
        max_bytes=int(partition.partition_max_bytes),
    )


def _unknown(topic_partition: TopicPartition) -> FetchedPartition:
    return FetchedPartition(topic_partition, ErrorCode.unknown_topic_or_partition, -1, -1, b"")


def _fetched_row(row: FetchedPartition) -> dict[str, Any]:
    values: dict[str, Any] = {
        "partition_index": row.topic_partition.partition,
        "error_code": row.error,
        "high_watermark": row.high_watermark,
        # Without transactions every record below the high watermark is stable.
        "last_stable_offset": row.high_watermark,
        "log_start_offset": row.log_start_offset,
        "records": row.records,
    }
    if row.diverging is not None:
        values["diverging_epoch"] = {"epoch": row.diverging[0], "end_offset": row.diverging[1]}
    return values

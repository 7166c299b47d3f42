"""Responses for older clients.

Fetch 0 to 3 needs message formats 0 and 1, Fetch below 10 must not contain zstd, and ListOffsets 0 returns several
offsets.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from kio.schema.errors import ErrorCode

from zabka.broker_sim.ports import FetchedPartition, FetchParams, FetchPartition, ReplicaService
from zabka.broker_sim.slices import SLICE_RECORDS, in_slices
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.compression import Codec
from zabka.kafka.message_set import NOTHING_FITS, CannotConvert, convert_down
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.record_batch import offset_after
from zabka.kafka.wire.kafka_schema import respond

FETCH_KNOWS_ZSTD = 10
_FETCH_HAS_BATCHES = 4
_FETCH_HAS_TIMES = 2
_EARLIEST = -2
_CONSUMER, _DEBUGGING = -1, -2


async def read_for_older(
    replicas: ReplicaService,
    runtime: Runtime,
    version: int,
    params: FetchParams,
    until_ms: int,
    requested: FetchPartition,
    row: FetchedPartition,
) -> FetchedPartition:
    """Convert fetched records for a client with a Fetch version below 10 (KafkaApis.maybeConvertFetchedData).

    A batch that compaction has emptied still contains, for newer clients, the next offset to read. The old message
    formats cannot contain such a batch, so this function skips it and reads the following batches. In Kafka, an old
    client makes no progress at a segment that contains only such batches. `until_ms`, on the monotonic clock, limits
    the time spent.
    """
    settings = replicas.settings(row.topic_partition)
    if row.error or settings is None:
        return row
    if settings.records.codec is Codec.ZSTD:
        return _unreadable(row, ErrorCode.unsupported_compression_type)
    if version >= _FETCH_HAS_BATCHES:
        return row
    if not settings.converts_down:
        return _unreadable(row, ErrorCode.unsupported_version)
    magic = 0 if version < _FETCH_HAS_TIMES else 1
    while not row.error:
        work = convert_down(row.records, magic, requested.fetch_offset, SLICE_RECORDS)
        try:
            messages = await in_slices(work, runtime)
        except CannotConvert as cannot:
            return _unreadable(row, cannot.error)
        if messages != NOTHING_FITS:
            return msgspec.structs.replace(row, records=messages)
        requested = msgspec.structs.replace(requested, fetch_offset=offset_after(row.records, requested.fetch_offset))
        # Let other tasks run before the next read.
        await runtime.sleep(0)
        left_ms = max(0, until_ms - runtime.now().mono_ms)
        [row] = await replicas.fetch(msgspec.structs.replace(params, max_wait_ms=left_ms), [requested])
    return row


def _unreadable(row: FetchedPartition, error: int) -> FetchedPartition:
    return FetchedPartition(row.topic_partition, error, -1, -1, b"")


def list_old_offsets(
    replicas: ReplicaService, request: KafkaMessage, known: Callable[[TopicPartition], bool]
) -> KafkaMessage:
    """Process ListOffsets 0, which requests several offsets of a partition (KafkaApis.handleListOffsetRequestV0)."""
    topics = []
    for topic in request.topics:
        rows = []
        for partition in topic.partitions:
            topic_partition = TopicPartition(str(topic.name), int(partition.partition_index))
            timestamp = int(partition.timestamp)
            error, offsets = int(ErrorCode.unsupported_version), list[int]()
            if timestamp >= _EARLIEST and not known(topic_partition):
                error = ErrorCode.unknown_topic_or_partition
            elif timestamp >= _EARLIEST:
                error, offsets = replicas.offsets_before(
                    topic_partition,
                    timestamp,
                    int(partition.max_num_offsets),
                    request.replica_id == _CONSUMER,
                    request.replica_id != _DEBUGGING,
                )
            row = {"partition_index": topic_partition.partition, "error_code": error}
            rows.append({**row, "old_style_offsets": offsets})
        topics.append({"name": topic.name, "partitions": rows})
    return respond(request, topics=topics)

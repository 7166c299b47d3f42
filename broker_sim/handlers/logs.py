"""Handlers of DescribeLogDirs, AlterReplicaLogDirs and DescribeProducers.

They describe log directories and the producers in logs, and move replicas between log directories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.directory_names import has_future_name
from zabka.broker_sim.logs.log_manager import DirectoryLogs
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.ports import DiskSpace
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_names import invalid_name
from zabka.kafka.wire.kafka_schema import ApiKey, respond

UNKNOWN_LAG = -1
"""Lag to report for a replica that is neither leader nor follower yet."""

_Topics = dict[str, list[dict[str, Any]]]


class LogHandlers:
    """Handles requests about this broker's logs."""

    def __init__(self, log_dirs: Sequence[str], replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._log_dirs = log_dirs
        self._replicas = replicas
        self._metadata = metadata

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.ALTER_REPLICA_LOG_DIRS: self.alter_replica_log_dirs,
            ApiKey.DESCRIBE_LOG_DIRS: self.describe_log_dirs,
            ApiKey.DESCRIBE_PRODUCERS: self.describe_producers,
        }

    async def describe_log_dirs(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process DescribeLogDirs for the requested partitions, or for all if topics is null."""
        requested = None
        if request.topics is not None:
            requested = {TopicPartition(str(t.topic), int(n)) for t in request.topics for n in t.partitions}
        directories = zip(self._log_dirs, self._replicas.logs.by_directory(), strict=True)

        def rows(logs: DirectoryLogs) -> _Topics:
            return self._log_rows(logs, requested)

        return respond(request, results=[_directory(path, logs, rows) for path, logs in directories])

    def _log_rows(self, logs: DirectoryLogs, requested: set[TopicPartition] | None) -> _Topics:
        topics: _Topics = {}
        for is_future, each in ((False, logs.current), (True, logs.future)):
            for topic_partition, log in each.items():
                if requested is None or topic_partition in requested:
                    row = {
                        "partition_index": topic_partition.partition,
                        "partition_size": log.size_bytes,
                        "offset_lag": self._lag(topic_partition, log, is_future),
                        "is_future_key": is_future,
                    }
                    topics.setdefault(topic_partition.topic, []).append(row)
        return topics

    def _lag(self, topic_partition: TopicPartition, log: PartitionLog, is_future: bool) -> int:
        """Return the lag of a log.

        A future log's lag is relative to the replica that it will replace, a current log's lag to the high watermark.
        """
        partition = self._replicas.partitions.get(topic_partition)
        if partition is None:
            return UNKNOWN_LAG
        current = partition.log
        return current.end_offset - log.end_offset if is_future else max(current.high_watermark - log.end_offset, 0)

    async def alter_replica_log_dirs(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process AlterReplicaLogDirs. The response reports whether each move has begun, not whether it is complete."""
        places = {
            TopicPartition(str(topic.name), int(number)): str(directory.path)
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic_partition, path in places.items():
            row = {"partition_index": topic_partition.partition, "error_code": self._move(topic_partition, path)}
            topics.setdefault(topic_partition.topic, []).append(row)
        rows = [{"topic_name": topic, "partitions": partitions} for topic, partitions in topics.items()]
        return respond(request, results=rows)

    def _move(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        if not has_future_name(topic_partition):
            return ErrorCode.invalid_topic_exception
        if path not in self._log_dirs:
            return ErrorCode.log_dir_not_found
        error = self._replicas.move_log(topic_partition, self._log_dirs.index(path))
        if error is ErrorCode.replica_not_available and self._metadata.partition(topic_partition) is None:
            return ErrorCode.unknown_topic_or_partition
        return error

    async def describe_producers(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process DescribeProducers. Return the producers in this replica's log and their open transactions
        (KIP-664).
        """
        rows = []
        for topic in request.topics:
            name = str(topic.name)
            partitions = [self._producers(TopicPartition(name, int(number))) for number in topic.partition_indexes]
            rows.append({"name": name, "partitions": partitions})
        return respond(request, topics=rows)

    def _producers(self, topic_partition: TopicPartition) -> dict[str, Any]:
        row: dict[str, Any] = {"partition_index": topic_partition.partition}
        wrong = invalid_name(topic_partition.topic)
        if wrong is not None:
            return {**row, "error_code": ErrorCode.invalid_topic_exception, "error_message": wrong}
        if topic_partition.topic not in self._metadata:
            message = "This server does not host this topic-partition."
            return {**row, "error_code": ErrorCode.unknown_topic_or_partition, "error_message": message}
        partition = self._replicas.partitions.get(topic_partition)
        if partition is None:
            known = self._metadata.partition(topic_partition) is not None
            error = ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition
            return {**row, "error_code": error}
        producers = [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.txn_first_offset,
            }
            for producer in partition.log.producers.active()
        ]
        return {**row, "active_producers": producers}


def _directory(path: str, logs: DirectoryLogs | None, rows: Callable[[DirectoryLogs], _Topics]) -> dict[str, Any]:
    if logs is None:
        return {"log_dir": path, "error_code": ErrorCode.kafka_storage_error, **DiskSpace()._asdict()}
    if logs.space is None:
        return {"log_dir": path, "error_code": ErrorCode.unknown_server_error, **DiskSpace()._asdict()}
    topics = [{"name": topic, "partitions": partitions} for topic, partitions in rows(logs).items()]
    return {"log_dir": path, "topics": topics, **logs.space._asdict()}

"""Administrative requests to single brokers: API versions, log directories, and the deletion of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request


class LogInfo(NamedTuple):
    """The log of one replica."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirInfo(NamedTuple):
    """One log directory of a broker."""

    path: str
    error: ErrorCode
    logs: Mapping[TopicPartition, LogInfo]


async def _ask(client: KafkaClient, broker: Endpoint, message: KafkaMessage) -> KafkaMessage:
    try:
        return await client.call(broker, message, ATTEMPT_MS_MAX)
    except ChannelBroken as broken:
        raise KafkaUnavailable(str(broken)) from None


async def api_versions(client: KafkaClient, broker: Endpoint) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version of each API that a broker supports, by API key."""
    names = {"client_software_name": "zabka", "client_software_version": "1"}
    answer = await _ask(client, broker, request(ApiKey.API_VERSIONS, 3, **names))
    return {int(row.api_key): (int(row.min_version), int(row.max_version)) for row in answer.api_keys}


async def describe_log_dirs(client: KafkaClient, broker: Endpoint) -> list[LogDirInfo]:
    """Return a broker's log directories and all replicas in them. Raises KafkaRequestFailed, KafkaUnavailable."""
    return log_dirs_of(await _ask(client, broker, log_dirs_request()))


def log_dirs_request() -> KafkaMessage:
    """Return a DescribeLogDirs request for all replicas of a broker."""
    return request(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)


def log_dirs_of(answer: KafkaMessage) -> list[LogDirInfo]:
    """Return the log directories in a DescribeLogDirs response. Raises KafkaRequestFailed."""
    if answer.error_code != ErrorCode.none:
        raise KafkaRequestFailed(ErrorCode(answer.error_code))
    return [
        LogDirInfo(
            str(row.log_dir),
            ErrorCode(row.error_code),
            {
                TopicPartition(str(topic.name), int(each.partition_index)): LogInfo(
                    int(each.partition_size), int(each.offset_lag), bool(each.is_future_key)
                )
                for topic in row.topics
                for each in topic.partitions
            },
        )
        for row in answer.results
    ]


async def alter_replica_log_dirs(
    client: KafkaClient, broker: Endpoint, targets: Mapping[TopicPartition, str]
) -> dict[TopicPartition, ErrorCode]:
    """Request that a broker moves its replicas to these log directories. Return the error of each replica.

    Raises KafkaUnavailable.
    """
    directories: dict[str, dict[str, list[int]]] = {}
    for partition, path in targets.items():
        directories.setdefault(path, {}).setdefault(partition.topic, []).append(partition.partition)
    rows = [
        {"path": path, "topics": [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()]}
        for path, topics in directories.items()
    ]
    answer = await _ask(client, broker, request(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=rows))
    return {
        TopicPartition(str(topic.topic_name), int(row.partition_index)): ErrorCode(row.error_code)
        for topic in answer.results
        for row in topic.partitions
    }


async def delete_records(client: KafkaClient, topic_partition: TopicPartition, before_offset: int) -> int:
    """Delete a partition's records before an offset (-1: all committed records). Return the new log start offset."""
    rows = [{"partition_index": topic_partition.partition, "offset": before_offset}]
    message = request(
        ApiKey.DELETE_RECORDS, 2, topics=[{"name": topic_partition.topic, "partitions": rows}], timeout=ATTEMPT_MS_MAX
    )

    def read(response: KafkaMessage) -> tuple[ErrorCode, int]:
        row = response.topics[0].partitions[0]
        return ErrorCode(row.error_code), int(row.low_watermark)

    return await client.at_leader(topic_partition, lambda _: message, read, ATTEMPT_MS_MAX)

"""Requests of kafka-reassign-partitions: start, cancel and list reassignments (KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import REQUEST_TIMEOUT_MS
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.client.controller_client import ControllerClient
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request


class Ongoing(NamedTuple):
    """An ongoing reassignment of a partition."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic_partition in partitions:
        topics.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return topics


def _whole_error(response: KafkaMessage) -> list[int]:
    return [response.error_code]


def _check(response: KafkaMessage) -> None:
    if response.error_code != ErrorCode.none:
        raise KafkaRequestFailed(ErrorCode(response.error_code), response.error_message)


async def alter_reassignments(
    client: ControllerClient,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    timeout_ms: int = REQUEST_TIMEOUT_MS,
) -> dict[TopicPartition, str]:
    """Start reassigning partitions to these replicas, or cancel the reassignment if the value is None.

    Return an error message for each rejected partition.
    """
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "replicas": targets[TopicPartition(topic, number)]} for number in numbers
            ],
        }
        for topic, numbers in _by_topic(list(targets)).items()
    ]
    asked = request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout=timeout_ms, topics=topics)
    response = await client.at_controller(asked, _whole_error, timeout_ms)
    _check(response)
    return {
        TopicPartition(str(topic.name), int(row.partition_index)): row.error_message
        or ErrorCode(row.error_code).name.upper()
        for topic in response.responses
        for row in topic.partitions
        if row.error_code != ErrorCode.none
    }


async def list_reassignments(
    client: ControllerClient,
    partitions: Sequence[TopicPartition] | None = None,
    *,
    timeout_ms: int = REQUEST_TIMEOUT_MS,
) -> dict[TopicPartition, Ongoing]:
    """Return the ongoing reassignments of these partitions, or of all partitions, sorted by partition."""
    topics = None
    if partitions is not None:
        topics = [{"name": name, "partition_indexes": numbers} for name, numbers in _by_topic(partitions).items()]
    asked = request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout=timeout_ms, topics=topics)
    response = await client.at_controller(asked, _whole_error, timeout_ms)
    _check(response)
    found = {
        TopicPartition(str(topic.name), int(row.partition_index)): Ongoing(
            tuple(map(int, row.replicas)), tuple(map(int, row.adding_replicas)), tuple(map(int, row.removing_replicas))
        )
        for topic in response.topics
        for row in topic.partitions
    }
    return dict(sorted(found.items()))

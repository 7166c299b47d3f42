"""Reads the size and offsets of all partitions of a cluster at once, and the ongoing reassignments.

A reading sends at most one request of each kind to each broker, and takes a limited time. It does not fail: a value
that no broker returns is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.controller_client import ControllerClient
from zabka.kafka.client.log_admin import log_dirs_of, log_dirs_request
from zabka.kafka.client.reading import EARLIEST, LATEST, Reading, by_broker, log_offsets_request
from zabka.kafka.client.reassignment_client import Ongoing, list_reassignments
from zabka.kafka.ports import Endpoint, KafkaMessage

READING_MS = 5_000
METADATA_MS = 2_000
REASSIGNMENTS_MS = 1_500
PARTITIONS_MAX = 10_000
"""Maximum number of partitions in a reading."""


class PartitionSize(NamedTuple):
    """A partition. An offset is None if the leader did not return it; `sizes_bytes` has the brokers that responded."""

    leader: int
    first_offset: int | None
    end_offset: int | None
    sizes_bytes: Mapping[int, int]


class TopicReading(NamedTuple):
    """The partitions of a cluster at one time.

    `silent` has the brokers that did not respond, with the reason. `ongoing` is None if no controller responded.
    `problem` is the reason if no broker responded.
    """

    partitions: Mapping[TopicPartition, PartitionSize] = {}
    ongoing: Mapping[TopicPartition, Ongoing] | None = None
    silent: Mapping[int, str] = {}
    problem: str = ""


async def read_topics(client: ControllerClient, runtime: Runtime, timeout_ms: int = READING_MS) -> TopicReading:
    """Read the sizes and offsets of at most PARTITIONS_MAX partitions."""
    reading = Reading(client, runtime, timeout_ms)
    try:
        cluster = await client.metadata(timeout_ms=min(METADATA_MS, reading.left_ms()))
    except KafkaUnavailable as reason:
        return TopicReading(problem=str(reason))
    leaders = {
        TopicPartition(name, row.partition): row.leader
        for name, topic in sorted(cluster.topics.items())
        for row in topic.partitions
    }
    leaders = dict(list(leaders.items())[:PARTITIONS_MAX])
    sizes = _sizes(await reading.ask(dict.fromkeys(cluster.brokers.values(), log_dirs_request())))
    led = {name: cluster.brokers[leader] for name, leader in leaders.items() if leader in cluster.brokers}
    first, end = await _offsets(reading, led, EARLIEST), await _offsets(reading, led, LATEST)
    partitions = {
        name: PartitionSize(leader, first.get(name), end.get(name), sizes.get(name, {}))
        for name, leader in leaders.items()
    }
    return TopicReading(partitions, await _ongoing(client, reading), reading.silent)


def _sizes(answers: Mapping[Endpoint, KafkaMessage]) -> dict[TopicPartition, dict[int, int]]:
    """Return the size of each replica by broker. A broker that rejects the request has no sizes."""
    found: dict[TopicPartition, dict[int, int]] = {}
    for broker, answer in answers.items():
        if answer.error_code != ErrorCode.none:
            continue
        for directory in log_dirs_of(answer):
            for name, log in directory.logs.items():
                if not log.is_future:
                    found.setdefault(name, {})[broker.broker_id] = log.size_bytes
    return found


async def _offsets(
    reading: Reading, leaders: Mapping[TopicPartition, Endpoint], timestamp: int
) -> dict[TopicPartition, int]:
    answers = await reading.ask({to: log_offsets_request(names, timestamp) for to, names in by_broker(leaders).items()})
    return {
        TopicPartition(str(topic.name), int(row.partition_index)): int(row.offset)
        for answer in answers.values()
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code == ErrorCode.none
    }


async def _ongoing(client: ControllerClient, reading: Reading) -> dict[TopicPartition, Ongoing] | None:
    try:
        return await list_reassignments(client, timeout_ms=min(REASSIGNMENTS_MS, reading.left_ms()))
    except (KafkaUnavailable, KafkaRequestFailed):
        return None

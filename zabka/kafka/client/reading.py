"""Requests to all brokers at the same time, for a reading that takes a limited time and does not fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request

T = TypeVar("T")

EARLIEST, LATEST = -2, -1
"""Timestamps in ListOffsets requests: the beginning and the end of a log."""
ANSWER_MS = 1_500
"""Maximum wait for a broker's response, in milliseconds.

A broker that does not respond in time gets no further request in the same reading.
"""


class Reading:
    """One reading. `silent` has the brokers that did not respond, with the reason."""

    def __init__(self, client: KafkaClient, runtime: Runtime, timeout_ms: int) -> None:
        self.client = client
        self.silent: dict[int, str] = {}
        self._runtime = runtime
        self._deadline_ms = runtime.now().mono_ms + timeout_ms

    def left_ms(self) -> int:
        """Return the time that is left, at least 1 ms."""
        return max(1, self._deadline_ms - self._runtime.now().mono_ms)

    async def ask(self, asked: Mapping[Endpoint, KafkaMessage]) -> dict[Endpoint, KafkaMessage]:
        """Send the requests at the same time. Return the responses; record the brokers that do not respond.

        If no time is left, send nothing: a request that times out closes the connection, even to a broker that works.
        """
        left_ms = self._deadline_ms - self._runtime.now().mono_ms
        if left_ms <= 0:
            return {}
        waiting = {
            to: self.client.call(to, message, min(ANSWER_MS, left_ms))
            for to, message in asked.items()
            if to.broker_id not in self.silent
        }
        found = {}
        for to, answer in waiting.items():
            try:
                found[to] = await answer
            except ChannelBroken as broken:
                self.silent[to.broker_id] = str(broken)
        return found


def by_broker(brokers: Mapping[T, Endpoint]) -> dict[Endpoint, list[T]]:
    """Return what is sent to each broker."""
    found: dict[Endpoint, list[T]] = {}
    for name, broker in brokers.items():
        found.setdefault(broker, []).append(name)
    return found


def log_offsets_request(partitions: Iterable[TopicPartition], timestamp: int) -> KafkaMessage:
    """Return a ListOffsets request for these partitions, which the receiver leads."""
    topics: dict[str, list[dict[str, int]]] = {}
    for each in partitions:
        row = {"partition_index": each.partition, "current_leader_epoch": -1, "timestamp": timestamp}
        topics.setdefault(each.topic, []).append(row)
    rows = [{"name": topic, "partitions": found} for topic, found in topics.items()]
    return request(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=rows)


def error_name(error: int) -> str:
    """Return Kafka's name of an error code."""
    return ErrorCode(error).name.upper()

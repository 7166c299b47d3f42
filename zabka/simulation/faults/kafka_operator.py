"""An operator that uses Kafka's tools to change the topics of a live cluster, at any time and through any broker.

Each request is retried for PATIENCE_MS and then dropped.  It need not succeed, but the cluster must remain consistent.
The operator's host has no faults.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import TOPIC_RESOURCE, AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.wire.kafka_schema import ApiKey, request

if TYPE_CHECKING:
    from zabka.simulation.cluster.world import World

NAME = "kafka-operator"
PATIENCE_MS = 5_000


class KafkaOperator:
    """Starts requests and does not wait for them."""

    def __init__(self, client: AdminClient, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime

    def _try(self, asked: Coroutine[Any, Any, object]) -> None:
        async def attempt() -> None:
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await asked

        self._runtime.spawn(attempt(), "operator")

    def create_topic(self, name: str, partitions: int, replication_factor: int) -> None:
        """Create a topic without producers."""
        self._try(self._client.create_topic(name, partitions, replication_factor, timeout_ms=PATIENCE_MS))

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._try(self._client.delete_topic(name, timeout_ms=PATIENCE_MS))

    def create_partitions(self, name: str, total: int) -> None:
        """Increase a topic's number of partitions to `total`."""
        self._try(self._client.create_partitions(name, total, timeout_ms=PATIENCE_MS))

    def elect(self, kind: int, partitions: Sequence[TopicPartition] | None) -> None:
        """Request preferred (0) or unclean (1) leader elections."""
        self._try(self._client.elect_leaders(kind, partitions, timeout_ms=PATIENCE_MS))

    def configure_topic(self, name: str, key: str, value: str | None) -> None:
        """Set or remove a configuration override of a topic."""
        self._try(self._client.alter_configs(TOPIC_RESOURCE, name, {key: value}, timeout_ms=PATIENCE_MS))

    def reassign(self, wanted: dict[TopicPartition, tuple[int, ...] | None]) -> None:
        """Reassign partitions; cancel the reassignment of partitions that map to None."""
        topics: dict[str, list[dict[str, object]]] = {}
        for name, replicas in wanted.items():
            row: dict[str, object] = {"partition_index": name.partition, "replicas": replicas}
            topics.setdefault(name.topic, []).append(row)
        rows = [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
        asked = request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout=PATIENCE_MS, topics=rows)
        self._try(self._client.at_controller(asked, lambda answer: [answer.error_code], PATIENCE_MS))


def operator_in(world: World) -> KafkaOperator:
    """Return an operator that runs on a machine of that world."""
    client, machine = world.kafka_client(NAME)
    return KafkaOperator(client, machine.runtime())

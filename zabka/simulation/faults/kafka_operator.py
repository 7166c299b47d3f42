"""An operator that changes the topics of a live cluster with Kafka's tools, at any time and through any broker.

The operator retries each request for PATIENCE_MS and then drops it.  A request need not succeed, but the cluster must
remain consistent.  No faults affect the operator's host.
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
    """Simulated operator.  Each method starts a request and does not wait for its result."""

    def __init__(self, client: AdminClient, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime

    def _try(self, asked: Coroutine[Any, Any, object]) -> None:
        async def attempt() -> None:
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await asked

        self._runtime.spawn(attempt(), "operator")

    def create_topic(self, name: str, partitions: int, replication_factor: int) -> None:
        """Create a topic to which no producer writes."""
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
        """Set a topic's configuration override to `value`, or remove it if `value` is None."""
        self._try(self._client.alter_configs(TOPIC_RESOURCE, name, {key: value}, timeout_ms=PATIENCE_MS))

    def reassign(self, wanted: dict[TopicPartition, tuple[int, ...] | None]) -> None:
        """Reassign partitions to the given replicas, or cancel the reassignment if the replicas are None."""
        topics: dict[str, list[dict[str, object]]] = {}
        for name, replicas in wanted.items():
            row: dict[str, object] = {"partition_index": name.partition, "replicas": replicas}
            topics.setdefault(name.topic, []).append(row)
        rows = [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
        asked = request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout=PATIENCE_MS, topics=rows)
        self._try(self._client.at_controller(asked, lambda answer: [answer.error_code], PATIENCE_MS))


def operator_in(world: World) -> KafkaOperator:
    """Return an operator whose tools run on a machine of that world."""
    client, machine = world.kafka_client(NAME)
    return KafkaOperator(client, machine.runtime())

"""Producers and consumers in the simulated world.  Their history is checked as in Jepsen's Kafka workload.

Every topic has a producer that writes with acks=all, and a consumer that reads all records as they arrive
(`zabka.kafka.client.history_clients`).  They run on hosts without faults.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.ensemble.ports import Runtime
from zabka.journal.checkers.kafka_analysis import ACKS_ALL, Anomaly, KafkaHistory
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.history_clients import PAUSE_MS, HistoryConsumer, HistoryProducer, TopicPlan
from zabka.simulation.checkers.replication_audit import ReplicationAudit
from zabka.simulation.cluster.client_machine import KafkaProgram, RunKafkaClient


class Producing:
    """All producers and consumers of one run.

    `stop()` stops the producers; `verified` becomes True when the consumers have read every partition to its end.
    `run_client` runs each client on a machine of its own; `replication` has the log end offsets, and the partitions
    that are allowed to lose records.
    """

    def __init__(
        self,
        run_client: RunKafkaClient,
        replication: ReplicationAudit,
        topics: Sequence[TopicPlan],
        acks: int = ACKS_ALL,
        pause_ms: int = PAUSE_MS,
    ) -> None:
        self._replication = replication
        self._acks = acks
        self._pause_ms = pause_ms
        self._stopping = False
        self._writers: dict[str, HistoryProducer] = {}
        self._readers: dict[str, HistoryConsumer] = {}
        self.history = KafkaHistory()
        self.topics = [topic.name for topic in topics]
        for topic in topics:
            run_client(f"producer-{topic.name}", self._producer(topic))
            run_client(f"consumer-{topic.name}", self._consumer(topic))

    def _producer(self, topic: TopicPlan) -> KafkaProgram:
        async def produce(client: AdminClient, runtime: Runtime) -> None:
            writer = HistoryProducer(client, runtime, topic, self.history, self._pause_ms, self._acks)
            self._writers[topic.name] = writer
            await writer.run(lambda: self._stopping)

        return produce

    def _consumer(self, topic: TopicPlan) -> KafkaProgram:
        async def consume(client: AdminClient, runtime: Runtime) -> None:
            reader = HistoryConsumer(client, runtime, topic, self.history, self._sending_ended, self._is_end)
            self._readers[topic.name] = reader
            await reader.run()

        return consume

    def _sending_ended(self) -> bool:
        return all(topic in self._writers and self._writers[topic].done for topic in self.topics)

    def _is_end(self, name: TopicPartition, offset: int) -> bool:
        return self._replication.leader_log_end(name) == offset

    def stop(self) -> None:
        """Stop the producers."""
        self._stopping = True

    @property
    def sent(self) -> int:
        """Return the number of records sent."""
        return len(self.history.sent)

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged records."""
        return sum(writer.acknowledged for writer in self._writers.values())

    @property
    def verified(self) -> bool:
        """Whether every partition has been read to its end after the last record."""
        return all(topic in self._readers and self._readers[topic].done for topic in self.topics)

    def every_topic_took_records(self) -> bool:
        """Return whether at least one record of each topic was acknowledged."""
        return all(topic in self._writers and self._writers[topic].acknowledged for topic in self.topics)

    @property
    def violations(self) -> list[str]:
        """Return the anomalies in the history of the producers and consumers.

        If a partition lost records because of an unclean election or a replica's power loss, its offsets are assigned
        twice. Then every anomaly of the partition is allowed, except records that were never sent; the invariants check
        such partitions record by record.
        """
        forgiven = self._replication.forgiven()
        return [
            str(found)
            for found in self.history.violations()
            if found.anomaly is Anomaly.UNKNOWN_VALUE or found.partition not in forgiven
        ]

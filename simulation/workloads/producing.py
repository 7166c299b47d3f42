"""Producers and consumers in the simulated world: what they are told is a history, judged as Jepsen's workload does.

For every topic there is a producer that writes with acks=all, and a consumer that reads all of it as it comes
(`kafka_protocol.client.history_clients`).  They work from hosts that no fault touches.
"""

from __future__ import annotations

from collections.abc import Sequence

from journal.events import TopicPartition
from journal.judges.kafka_analysis import Anomaly, KafkaHistory
from kafka_protocol.client.admin_client import AdminClient
from kafka_protocol.client.history_clients import HistoryConsumer, HistoryProducer, TopicPlan
from simulation.kernel.draws import derive_random
from simulation.kernel.runtime import SimRuntime
from simulation.network.addresses import KAFKA_SERVICE
from simulation.network.channel import SimChannel
from simulation.world import World


class Producing:
    """All clients of one run.  `stop()` ends the sending; `verified` once everything was read to the end."""

    def __init__(self, world: World, topics: Sequence[TopicPlan]) -> None:
        self._world = world
        self._stopping = False
        self._writers: list[HistoryProducer] = []
        self._readers: list[HistoryConsumer] = []
        self.history = KafkaHistory()
        self.topics = [topic.name for topic in topics]
        for topic in topics:
            self._begin(topic)

    def _begin(self, topic: TopicPlan) -> None:
        client, runtime = _client_on(self._world, f"producer-{topic.name}")
        writer = HistoryProducer(client, runtime, topic, self.history, acks=self._world.settings.workload.acks)
        runtime.spawn(writer.run(lambda: self._stopping), "producer")
        self._writers.append(writer)
        client, runtime = _client_on(self._world, f"consumer-{topic.name}")
        reader = HistoryConsumer(client, runtime, topic, self.history, self._sending_ended, self._is_end)
        runtime.spawn(reader.run(), "consumer")
        self._readers.append(reader)

    def _sending_ended(self) -> bool:
        return all(writer.done for writer in self._writers)

    def _is_end(self, name: TopicPartition, offset: int) -> bool:
        return self._world.replication.leader_log_end(name) == offset

    def stop(self) -> None:
        """Send no more."""
        self._stopping = True

    @property
    def sent(self) -> int:
        """Records handed to the cluster."""
        return len(self.history.sent)

    @property
    def acknowledged(self) -> int:
        """How many of them were acknowledged."""
        return sum(writer.acknowledged for writer in self._writers)

    @property
    def verified(self) -> bool:
        """Has every partition been read to its end, behind the last record?"""
        return all(reader.done for reader in self._readers)

    def every_topic_took_records(self) -> bool:
        """Has each topic acknowledged one?"""
        return all(writer.acknowledged for writer in self._writers)

    @property
    def violations(self) -> list[str]:
        """What is wrong with the history.

        Where an unclean election, or a replica that lost its power, took records with it, offsets are given twice, and
        all but made-up records is forgiven; the invariants judge those runs record by record.
        """
        forgiven = self._world.replication.forgiven()
        return [
            str(found)
            for found in self.history.violations()
            if found.anomaly is Anomaly.UNKNOWN_VALUE or found.partition not in forgiven
        ]


def _client_on(world: World, machine: str) -> tuple[AdminClient, SimRuntime]:
    runtime = SimRuntime(world.scheduler, derive_random(world.seed, machine))
    host = world.network.boot(machine, runtime)
    bootstrap = [(name, int(KAFKA_SERVICE)) for name in world.broker_names()]
    return AdminClient(SimChannel(world.network, host, runtime), runtime, bootstrap), runtime

"""The topics of a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zabka.kafka.client.admin_client import TOPIC_RESOURCE
from zabka.kafka.topic_names import INTERNAL_TOPICS
from zabka.testing.cluster import Partition
from zabka.testing.worlds.host import SimHost

_KNOWN_TIMEOUT_S = 60.0


class SimTopic:
    """A topic of a simulated cluster."""

    def __init__(self, host: SimHost, name: str) -> None:
        self._host = host
        self.name = name

    @property
    def partitions(self) -> list[Partition]:
        """The topic's current partitions."""
        views = [p for p in self._host.world.record.state.partitions.values() if p.topic == self.name]
        return [
            Partition(
                partition=view.partition,
                leader=view.leader,
                leader_epoch=view.leader_epoch,
                isr=list(view.isr),
                replicas=list(view.replicas),
                partition_epoch=view.partition_epoch,
                high_watermark=view.high_watermark,
                log_end_offsets=dict(view.log_end_offsets),
            )
            for view in sorted(views, key=lambda view: view.partition)
        ]

    @property
    def config(self) -> dict[str, str]:
        """The topic's configuration overrides."""
        return dict(self._host.world.record.state.configs.get(f"topics/{self.name}", {}))

    def set_config(self, changes: Mapping[str, str | None]) -> None:
        """Set configuration overrides; a value of None removes an override."""
        self._host.ask(self._host.admin.alter_configs(TOPIC_RESOURCE, self.name, dict(changes)))

    def delete(self) -> None:
        """Delete the topic."""
        self._host.ask(self._host.admin.delete_topic(self.name))


class SimTopics:
    """The topics of a simulated cluster."""

    def __init__(self, host: SimHost) -> None:
        self._host = host

    def __getitem__(self, name: str) -> SimTopic:
        return SimTopic(self._host, name)

    def create(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> SimTopic:
        """Create a topic, by default with a replica on every broker, and wait until all running brokers know it."""
        factor = replication_factor or len(self._host.world.brokers)
        made = self._host.admin.create_topic(name, partitions, factor, assignment=assignment, configs=config)
        self._host.ask(made)
        # Wait until all brokers know the topic: a client that asks a broker that does not know it would ask again only
        # minutes later.
        self._host.until(lambda: self._is_known(name), _KNOWN_TIMEOUT_S, f"brokers that know the topic {name}")
        return self[name]

    def _is_known(self, name: str) -> bool:
        running = (machine.broker for machine in self._host.world.brokers.values() if not machine.is_paused)
        return all(broker is None or name in broker.metadata for broker in running)

    def ask_for(self, name: str, partitions: int = 1) -> None:
        """Send the controller a request to create a topic, without waiting for the reply."""
        self._host.begin_to_ask(self._host.admin.create_topic(name, partitions, len(self._host.world.brokers)))

    def names(self) -> list[str]:
        """Return the names of all topics in order, without Kafka's internal topics."""
        return [name for name in sorted(self._host.world.record.state.topics) if name not in INTERNAL_TOPICS]

"""What befalls topics: administrators make, grow and delete them, move replicas, and call for elections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import PREFERRED, UNCLEAN
from zabka.simulation.faults.kafka_operator import KafkaOperator
from zabka.simulation.judges.replication_audit import ReplicationAudit

CHURNED = "churned"
"""Topics that come and go are named so, with a number; nobody writes to them."""
PARTITIONS_MAX = 5


class Administered(Protocol):
    """A world with brokers."""

    @property
    def brokers(self) -> Mapping[int, object]: ...
    @property
    def replication(self) -> ReplicationAudit: ...


class Administrator(Protocol):
    """A nemesis with an operator at Kafka's tools."""

    @property
    def random(self) -> Random: ...
    @property
    def kafka(self) -> KafkaOperator: ...
    @property
    def world(self) -> Administered: ...
    def until_healed(self, undo: Callable[[], None], /) -> None:
        """Undo it after a while."""
        ...


def churn_topic(nemesis: Administrator) -> None:
    """A topic is made, or one that was made so is deleted."""
    draw, brokers = nemesis.random, len(nemesis.world.brokers)
    made = [name for name in nemesis.world.replication.znodes.topics if name.startswith(CHURNED)]
    if made and draw.random() < 0.5:
        nemesis.kafka.delete_topic(made[draw.randrange(0, len(made))])
    else:
        name = f"{CHURNED}-{draw.randrange(0, 4)}"
        nemesis.kafka.create_topic(name, draw.randrange(1, 4), draw.randrange(1, brokers + 1))


def grow_topic(nemesis: Administrator) -> None:
    """A topic that nobody writes to gets one more partition."""
    topics = nemesis.world.replication.znodes.topics
    made = [name for name in topics if name.startswith(CHURNED)]
    if made:
        name = made[nemesis.random.randrange(0, len(made))]
        if len(topics[name].partitions) < PARTITIONS_MAX:
            nemesis.kafka.create_partitions(name, len(topics[name].partitions) + 1)


def elect_preferred(nemesis: Administrator) -> None:
    """Preferred elections for all partitions."""
    nemesis.kafka.elect(PREFERRED, None)


def elect_unclean(nemesis: Administrator) -> None:
    """An unclean election for one partition; it does nothing where there is a leader."""
    nemesis.kafka.elect(UNCLEAN, [_some_partition(nemesis)])


def flip_unclean(nemesis: Administrator) -> None:
    """A topic may elect anybody for a while."""
    topic = _some_partition(nemesis).topic
    nemesis.kafka.configure_topic(topic, "unclean.leader.election.enable", "true")
    nemesis.until_healed(lambda: nemesis.kafka.configure_topic(topic, "unclean.leader.election.enable", None))


def change_min_isr(nemesis: Administrator) -> None:
    """A topic asks for another number of replicas in sync."""
    topic = _some_partition(nemesis).topic
    wanted = nemesis.random.randrange(1, len(nemesis.world.brokers) + 1)
    nemesis.kafka.configure_topic(topic, "min.insync.replicas", str(wanted))


def reassign(nemesis: Administrator) -> None:
    """Replicas move, also while they are moving already; or a move is cancelled."""
    draw, name = nemesis.random, _some_partition(nemesis)
    if draw.random() < 0.2:
        nemesis.kafka.reassign({name: None})
        return
    brokers = list(nemesis.world.brokers)
    shuffled = [broker for _, broker in sorted((draw.random(), broker) for broker in brokers)]
    nemesis.kafka.reassign({name: tuple(shuffled[: draw.randrange(1, len(brokers) + 1)])})


def _some_partition(nemesis: Administrator) -> TopicPartition:
    known = list(nemesis.world.replication.znodes.states)
    return known[nemesis.random.randrange(0, len(known))] if known else TopicPartition("orders", 0)


TOPIC_FAULTS: dict[str, Callable[[Administrator], None]] = {
    "churn_topic": churn_topic,
    "grow_topic": grow_topic,
    "elect_preferred": elect_preferred,
    "elect_unclean": elect_unclean,
    "flip_unclean": flip_unclean,
    "change_min_isr": change_min_isr,
    "reassign": reassign,
}

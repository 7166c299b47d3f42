"""Topic faults: create, grow and delete topics, reassign replicas, and request elections, as administrators do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import PREFERRED, UNCLEAN
from zabka.simulation.checkers.replication_audit import ReplicationAudit
from zabka.simulation.faults.kafka_operator import KafkaOperator

CHURNED = "churned"
"""Name prefix of topics that faults create and delete; a number follows.  No producer writes to these topics."""
PARTITIONS_MAX = 5


class Administered(Protocol):
    """The parts of a world with brokers that topic faults use."""

    @property
    def brokers(self) -> Mapping[int, object]: ...
    @property
    def replication(self) -> ReplicationAudit: ...


class Administrator(Protocol):
    """A nemesis that has an operator with Kafka's tools."""

    @property
    def random(self) -> Random: ...
    @property
    def kafka(self) -> KafkaOperator: ...
    @property
    def world(self) -> Administered: ...
    def until_healed(self, undo: Callable[[], None], /) -> None:
        """Call `undo` after a random time."""
        ...


def churn_topic(nemesis: Administrator) -> None:
    """Create a topic, or delete a topic that this fault created."""
    draw, brokers = nemesis.random, len(nemesis.world.brokers)
    made = [name for name in nemesis.world.replication.znodes.topics if name.startswith(CHURNED)]
    if made and draw.random() < 0.5:
        nemesis.kafka.delete_topic(made[draw.randrange(0, len(made))])
    else:
        name = f"{CHURNED}-{draw.randrange(0, 4)}"
        nemesis.kafka.create_topic(name, draw.randrange(1, 4), draw.randrange(1, brokers + 1))


def grow_topic(nemesis: Administrator) -> None:
    """Add a partition to a topic to which no producer writes."""
    topics = nemesis.world.replication.znodes.topics
    made = [name for name in topics if name.startswith(CHURNED)]
    if made:
        name = made[nemesis.random.randrange(0, len(made))]
        if len(topics[name].partitions) < PARTITIONS_MAX:
            nemesis.kafka.create_partitions(name, len(topics[name].partitions) + 1)


def elect_preferred(nemesis: Administrator) -> None:
    """Request preferred leader elections for all partitions."""
    nemesis.kafka.elect(PREFERRED, None)


def elect_unclean(nemesis: Administrator) -> None:
    """Request an unclean leader election for one partition.  This has no effect if the partition has a leader."""
    nemesis.kafka.elect(UNCLEAN, [_some_partition(nemesis)])


def flip_unclean(nemesis: Administrator) -> None:
    """Allow unclean leader elections for a topic, and forbid them again later."""
    topic = _some_partition(nemesis).topic
    nemesis.kafka.configure_topic(topic, "unclean.leader.election.enable", "true")
    nemesis.until_healed(lambda: nemesis.kafka.configure_topic(topic, "unclean.leader.election.enable", None))


def change_min_isr(nemesis: Administrator) -> None:
    """Set a topic's min.insync.replicas to a random number of brokers."""
    topic = _some_partition(nemesis).topic
    wanted = nemesis.random.randrange(1, len(nemesis.world.brokers) + 1)
    nemesis.kafka.configure_topic(topic, "min.insync.replicas", str(wanted))


def reassign(nemesis: Administrator) -> None:
    """Reassign a partition, even if a reassignment is in progress, or cancel its reassignment."""
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

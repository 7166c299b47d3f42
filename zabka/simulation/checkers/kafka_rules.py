"""Rules of Kafka that kafka-specification omits, checked on committed transactions and on the brokers' actions.

FetchesNameOneEpoch    a follower appends only records from a leader of its own leader epoch, not of an earlier one
                       (KIP-320: UNKNOWN_LEADER_EPOCH)
OneLifeJoins           a broker joins an ISR only if the controller that writes the ISR knows the same broker epoch for
                       it as the partition leader did when it found the broker in sync (KIP-903)
TopicsGoWhenAsked      a topic's znode is deleted only while the topic is listed in /admin/delete_topics
GoneTopicsStayGone     no broker leads or follows a partition of a deleted topic: its last replica stops before that
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zabka.broker_sim.replication.partition import Partition
from zabka.journal import events as e
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, TopicPartition, topic_partition
from zabka.simulation.checkers.audited_broker import AuditedBroker
from zabka.simulation.checkers.kafka_znodes import KafkaZnodes, StateWritten

Violated = Callable[[str, TopicPartition, str], None]
_Lives = dict[int, int]
NEVER_REGISTERED = -1


class KafkaRules:
    """Checks the rules in this module for all partitions of one simulated world."""

    def __init__(
        self, znodes: KafkaZnodes, nodes: Mapping[int, AuditedBroker], checked: CheckCounts, violated: Violated
    ) -> None:
        self._znodes = znodes
        self._nodes = nodes
        self._checked = checked
        self._violated = violated
        self._proposed: dict[tuple[TopicPartition, int, int], _Lives] = {}
        """Broker epochs of the members of each proposed ISR, by partition, leader epoch and partition epoch."""
        self._gone: dict[str, None] = {}
        self._checkers: dict[type[e.Event], Callable[[Any], None]] = {
            e.RecordsReplicated: self._check_fetched,
            e.IsrProposed: self._proposes,
            e.LeadershipTaken: self._check_taken,
            e.FollowershipTaken: self._check_taken,
        }

    # -- events ------------------------------------------------------------------------------------------------------

    def journalled(self, entry: Entry) -> None:
        """Process a journal entry."""
        check = self._checkers.get(type(entry.event))
        if check is not None:
            check(entry.event)

    def _proposes(self, event: e.IsrProposed) -> None:
        # Record the broker epochs now, because a broker whose session has expired continues to fetch with its last
        # epoch for a while.
        lives = {broker: self._znodes.lives.get(broker, NEVER_REGISTERED) for broker in event.isr}
        self._proposed[topic_partition(event.topic, event.partition), event.leader_epoch, event.upon] = lives

    def wrote(self, write: StateWritten) -> None:
        """Check a written partition state: each new ISR member must still have the broker epoch that the leader
        proposed.
        """
        before, after, name = write.before, write.after, write.partition
        if before is None or after.leader_epoch != before.leader_epoch:
            return
        lives = self._proposed.get((name, before.leader_epoch, before.partition_epoch), {})
        for broker in after.isr:
            known = self._life_known_to(after.controller_epoch, broker)
            if broker in before.isr or broker not in lives or known is None:
                continue
            self._checked.note("OneLifeJoins")
            if known > lives[broker]:
                self._violated(
                    "OneLifeJoins",
                    name,
                    f"broker {broker} joins the ISR in the life {known}, and its leader means {lives[broker]}",
                )

    def gone(self, topic: str) -> None:
        """Process the deletion of a topic's znode."""
        self._checked.note("TopicsGoWhenAsked")
        if topic not in self._znodes.deleting:
            self._violated("TopicsGoWhenAsked", TopicPartition(topic, 0), "the topic is deleted, and nobody asked")
        self._gone[topic] = None

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check_fetched(self, event: e.RecordsReplicated) -> None:
        """Check the leader epoch of records that a follower fetched.

        The leader's epoch is read after the leader has sent the response.  This finds every violation, because epochs
        never decrease.
        """
        name, broker = topic_partition(event.topic, event.partition), event.broker_id
        follower = self._replica(broker, name)
        leader = None if follower is None else self._replica(follower.leader, name)
        if follower is None or leader is None or not leader.is_leader or leader.topic_id != follower.topic_id:
            return
        self._checked.note("FetchesNameOneEpoch")
        if leader.leader_epoch < follower.leader_epoch:
            self._violated(
                "FetchesNameOneEpoch",
                name,
                f"broker {broker} follows in epoch {follower.leader_epoch} and was served by broker "
                f"{follower.leader}, which leads epoch {leader.leader_epoch}",
            )

    def _check_taken(self, event: e.LeadershipTaken | e.FollowershipTaken) -> None:
        name = topic_partition(event.topic, event.partition)
        self._checked.note("GoneTopicsStayGone")
        if name.topic in self._gone and name.topic not in self._znodes.topics:
            self._violated(
                "GoneTopicsStayGone", name, f"broker {event.broker_id} has a replica of a topic that is gone"
            )

    # -- lookups -----------------------------------------------------------------------------------------------------

    def _replica(self, broker: int | None, name: TopicPartition) -> Partition | None:
        node = None if broker is None else self._nodes.get(broker)
        running = None if node is None else node.broker
        return None if running is None else running.replicas.partitions.get(name)

    def _life_known_to(self, controller_epoch: int, broker: int) -> int | None:
        """Return a broker's epoch as the controller with this controller epoch knows it, or None if unknown."""
        for node in self._nodes.values():
            term = None if node.broker is None else node.broker.controller.term
            if term is not None and term.context.epoch == controller_epoch:
                return term.context.broker_epoch(broker)
        return None

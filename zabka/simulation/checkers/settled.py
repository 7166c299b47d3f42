"""Checks whether the Kafka part of a simulated world has recovered: committed state, controller and brokers agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zabka.journal.events import TopicPartition
from zabka.kafka.zk.znodes import LeaderAndIsr, ReplicaAssignment
from zabka.simulation.checkers.audited_broker import AuditedBroker
from zabka.simulation.checkers.kafka_znodes import KafkaZnodes

Brokers = Mapping[int, AuditedBroker]


def unsettled(brokers: Brokers, znodes: KafkaZnodes, controller_id: int) -> str | None:
    """Return a description of the first deviation from a recovered cluster, or None if there is none.

    Call this function when all nodes run and no link has a fault.
    """
    return next(_unsettled(brokers, znodes, controller_id), None)


def _unsettled(brokers: Brokers, znodes: KafkaZnodes, controller_id: int) -> Iterator[str]:
    for broker in brokers:
        if broker not in znodes.brokers:
            yield f"broker {broker} is not registered"
    if controller_id not in znodes.brokers:
        yield "there is no controller"
    for topic in znodes.deleting:
        yield f"topic {topic} is being deleted"
    for topic, assignment in znodes.topics.items():
        for number, replicas in assignment.partitions.items():
            name = TopicPartition(topic, number)
            yield from _partition(brokers, name, replicas, znodes.states.get(name))


def _partition(
    brokers: Brokers, name: TopicPartition, assignment: ReplicaAssignment, state: LeaderAndIsr | None
) -> Iterator[str]:
    if assignment.adding or assignment.removing:
        yield f"{name} is being reassigned"
    if state is None:
        yield f"{name} has no state"
        return
    if state.leader < 0:
        yield f"{name} has no leader"
    if sorted(state.isr) != sorted(assignment.replicas):
        yield f"{name}: {list(state.isr)} of {list(assignment.replicas)} are in sync"
    for broker in assignment.replicas:
        yield from _replica(brokers, name, broker, state)
    for broker, node in brokers.items():
        known = None if node.broker is None else node.broker.metadata.partition(name)
        if known is None or (known.leader, known.leader_epoch) != (state.leader, state.leader_epoch):
            yield f"{name}: broker {broker} tells clients that {known} holds, the quorum has {state}"


def _replica(brokers: Brokers, name: TopicPartition, broker: int, state: LeaderAndIsr) -> Iterator[str]:
    running = brokers[broker].broker
    replica = None if running is None else running.replicas.partitions.get(name)
    if replica is None:
        yield f"{name}: broker {broker} has no replica"
    elif (replica.leader, replica.leader_epoch) != (state.leader, state.leader_epoch):
        yield (
            f"{name}: broker {broker} takes {replica.leader} to lead epoch {replica.leader_epoch}, "
            f"the quorum has {state.leader} and {state.leader_epoch}"
        )

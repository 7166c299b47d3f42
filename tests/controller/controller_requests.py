"""Requests that brokers and administrators send to the active controller of a `World`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.list_partition_reassignments.v0 import request as listing
from kio.schema.types import TopicName
from kio.static.primitive import i32

from tests.controller.controller_world import World
from zabka.controller.context import ControllerContext
from zabka.journal.events import TopicPartition
from zabka.kafka.topic_ids import topic_id_to_kafka
from zabka.kafka.zk.znodes import ReplicaAssignment


def isr_request(
    context: ControllerContext,
    partition: TopicPartition,
    isr: Sequence[int],
    member_epochs: Mapping[int, int] | None = None,
) -> AlterPartitionRequest:
    """Return an AlterPartition request (version 3) that proposes this ISR, from the leader that the controller
    knows.
    """
    state = context.leadership[partition]
    epochs = member_epochs or {}
    row = PartitionData(
        partition_index=partition.partition,
        leader_epoch=state.leader_epoch,
        new_isr_with_epochs=tuple(BrokerState(broker_id=b, broker_epoch=epochs.get(b, -1)) for b in isr),
        leader_recovery_state=0,
        partition_epoch=state.partition_epoch,
    )
    topic_id = topic_id_to_kafka(context.topic_ids[partition.topic])
    return AlterPartitionRequest(
        broker_id=state.leader,
        broker_epoch=context.broker_epoch(state.leader),
        topics=(TopicData(topic_id=topic_id, partitions=(row,)),),
    )


def ask_for_isr(
    world: World,
    isr: Sequence[int],
    topic: str = "orders",
    partition: int = 0,
    member_epochs: Mapping[int, int] | None = None,
) -> Any:
    """Send AlterPartition (version 3) as the partition's leader, and return the error.

    Members that are not in `member_epochs` have broker epoch -1.
    """
    context = world.active().controller.term.context
    request = isr_request(context, TopicPartition(topic, partition), isr, member_epochs)
    answer = world.call(world.active().controller.alter_partition(request))
    return answer.topics[0].partitions[0].error_code if answer.topics else answer.error_code


def shut_down(world: World, broker_id: int, broker_epoch: int = -1) -> tuple[Any, list[TopicPartition]]:
    """Send ControlledShutdown (version 3). Return the error and the partitions that the broker still leads."""
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    answer = world.call(world.active().controller.controlled_shutdown(request))
    world.settle()
    remaining = [TopicPartition(str(p.topic_name), int(p.partition_index)) for p in answer.remaining_partitions]
    return answer.error_code, remaining


def reassignment_request(partition: TopicPartition, target: Sequence[int] | None) -> AlterPartitionReassignmentsRequest:
    """Return an AlterPartitionReassignments request for one partition. A target of None cancels the reassignment."""
    row = ReassignablePartition(partition_index=partition.partition, replicas=None if target is None else tuple(target))
    return AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=partition.topic, partitions=(row,)),))


def reassign(world: World, partition: TopicPartition, target: Sequence[int] | None) -> Any:
    """Send AlterPartitionReassignments for one partition, and return the error. A target of None cancels."""
    return reassignment_answer(world, partition, target).error_code


def reassignment_answer(world: World, partition: TopicPartition, target: Sequence[int] | None) -> Any:
    """Send AlterPartitionReassignments for one partition, and return its entry in the response."""
    request = reassignment_request(partition, target)
    response = world.call(world.active().controller.alter_partition_reassignments(request))
    assert response.error_code is KafkaError.none
    world.settle()
    return response.responses[0].partitions[0]


def under_way(world: World, *partitions: TopicPartition) -> dict[TopicPartition, ReplicaAssignment]:
    """Send ListPartitionReassignments. Return the assignments of these partitions, or of all that are being
    reassigned.
    """
    rows = [
        listing.ListPartitionReassignmentsTopics(name=TopicName(p.topic), partition_indexes=(i32(p.partition),))
        for p in partitions
    ]
    request = listing.ListPartitionReassignmentsRequest(topics=tuple(rows) or None)
    response = world.call(world.active().controller.list_partition_reassignments(request))
    return {
        TopicPartition(str(topic.name), int(row.partition_index)): ReplicaAssignment(
            row.replicas, row.adding_replicas, row.removing_replicas
        )
        for topic in response.topics
        for row in topic.partitions
    }


def caught_up(world: World, isr: Sequence[int], topic: str = "orders") -> None:
    """Send AlterPartition with this ISR as the partition's leader, after followers have caught up."""
    assert ask_for_isr(world, isr, topic) is KafkaError.none
    world.settle()

"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455) on the active controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.alter_partition_reassignments.v0 import response as altered
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.list_partition_reassignments.v0 import response as listed
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from zabka.controller.leader_elections import NO_THROTTLE
from zabka.controller.reassignments import plan, removes_all_in_sync, take_off_list, trigger
from zabka.controller.term import ControllerTerm
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.zk.znodes import ReplicaAssignment

_MESSAGES = {
    KafkaError.not_controller: "This is not the correct controller for this cluster.",
    KafkaError.no_reassignment_in_progress: "No partition reassignment is in progress.",
    KafkaError.unknown_topic_or_partition: "The partition does not exist.",
    KafkaError.unknown_server_error: "The server experienced an unexpected error when processing the request.",
}


class Verdict(NamedTuple):
    """Result of a reassignment request for one partition: an error code and its message."""

    error: KafkaError
    message: str | None


def _verdict(error: KafkaError) -> Verdict:
    return Verdict(error, _MESSAGES.get(error))


# ---- AlterPartitionReassignments ------------------------------------------------------------------------------


async def process_alter_reassignments(
    term: ControllerTerm, request: KafkaMessage
) -> altered.AlterPartitionReassignmentsResponse:
    """Begin or replace reassignments, or cancel reassignments whose replicas are null in the request.

    The response is sent when the reassignments have begun, not when they are complete.
    """
    asked: dict[TopicPartition, tuple[int, ...] | None] = {}
    for topic in request.topics:
        for row in topic.partitions:
            target = None if row.replicas is None else tuple(int(b) for b in row.replicas)
            asked[TopicPartition(str(topic.name), int(row.partition_index))] = target
    verdicts: dict[TopicPartition, Verdict] = {}
    planned: dict[TopicPartition, ReplicaAssignment] = {}
    for partition, target in asked.items():
        fault = None if target is None else _fault(term, partition, target)
        assignment = None if fault else plan(term, partition, target)
        if fault is not None:
            verdicts[partition] = Verdict(KafkaError.invalid_replica_assignment, fault)
        elif assignment is None:
            verdicts[partition] = _verdict(KafkaError.no_reassignment_in_progress)
        elif removes_all_in_sync(term, partition, assignment):
            fault = "every replica that is in sync would be deleted"
            verdicts[partition] = Verdict(KafkaError.invalid_replica_assignment, fault)
        else:
            planned[partition] = assignment
    # This request replaces a reassignment of the same partitions that was requested through /admin/reassign_partitions.
    await take_off_list(term, list(planned))
    for partition, error in (await trigger(term, planned)).items():
        verdicts[partition] = _verdict(error)
    return _altered({partition: verdicts[partition] for partition in asked})


def _fault(term: ControllerTerm, partition: TopicPartition, target: Sequence[int]) -> str | None:
    """Return why the target replicas are invalid, or None if they are valid (KafkaController.validateReplicas)."""
    if not target:
        return "the list of replicas is empty"
    if len(dict.fromkeys(target)) < len(target):
        return f"a replica is listed twice: {_named(target)}"
    if any(broker_id < 0 for broker_id in target):
        return f"the list holds an invalid broker id: {_named(target)}"
    adding = term.context.assignment(partition).reassign_to(target).adding
    dead = [broker_id for broker_id in adding if not term.context.is_live(broker_id)]
    if dead:
        return f"not every added replica has a live broker: {_named(dead)}; live are {_named(term.context.live_ids)}"
    return None


def _named(broker_ids: Sequence[int]) -> str:
    return ", ".join(str(broker_id) for broker_id in broker_ids)


def _altered(verdicts: Mapping[TopicPartition, Verdict]) -> altered.AlterPartitionReassignmentsResponse:
    topics: dict[str, list[altered.ReassignablePartitionResponse]] = {}
    for partition, (error, message) in verdicts.items():
        topics.setdefault(partition.topic, []).append(
            altered.ReassignablePartitionResponse(
                partition_index=i32(partition.partition), error_code=error, error_message=message
            )
        )
    return altered.AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=KafkaError.none,
        error_message=None,
        responses=tuple(
            altered.ReassignableTopicResponse(name=TopicName(topic), partitions=tuple(rows))
            for topic, rows in topics.items()
        ),
    )


def refuse_alter_reassignments(error: KafkaError) -> altered.AlterPartitionReassignmentsResponse:
    """Return the response that rejects the whole request with one error."""
    return altered.AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=_MESSAGES.get(error), responses=()
    )


# ---- ListPartitionReassignments -------------------------------------------------------------------------------


async def process_list_reassignments(
    term: ControllerTerm, request: KafkaMessage
) -> listed.ListPartitionReassignmentsResponse:
    """List the reassignments in progress, for the partitions in the request, or for all if its topics are null."""
    if request.topics is None:
        asked = sorted(term.context.reassigning)
    else:
        asked = [TopicPartition(str(topic.name), int(n)) for topic in request.topics for n in topic.partition_indexes]
    topics: dict[str, list[listed.OngoingPartitionReassignment]] = {}
    for partition in dict.fromkeys(asked):
        assignment = term.context.assignment(partition)
        if assignment.is_being_reassigned:
            topics.setdefault(partition.topic, []).append(
                listed.OngoingPartitionReassignment(
                    partition_index=i32(partition.partition),
                    replicas=tuple(BrokerId(b) for b in assignment.replicas),
                    adding_replicas=tuple(BrokerId(b) for b in assignment.adding),
                    removing_replicas=tuple(BrokerId(b) for b in assignment.removing),
                )
            )
    return listed.ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=KafkaError.none,
        error_message=None,
        topics=tuple(
            listed.OngoingTopicReassignment(name=TopicName(topic), partitions=tuple(rows))
            for topic, rows in topics.items()
        ),
    )


def refuse_list_reassignments(error: KafkaError) -> listed.ListPartitionReassignmentsResponse:
    """Return the response that rejects the whole request with one error."""
    return listed.ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=_MESSAGES.get(error), topics=()
    )

"""Reassignment: a partition's replicas move to other brokers while it serves (KIP-455).

Source: KafkaController.onPartitionReassignment and its callees. The whole state is in the topic's znode, so that any
later controller can continue. During the reassignment, the replica list contains the target and the origin replicas,
and separate lists name the added and the removed replicas. The last write leaves only the target replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kio.schema.errors import ErrorCode as KafkaError

from zabka.controller.context import PartitionState, Replica, ReplicaState
from zabka.controller.election import ElectionStrategy
from zabka.controller.partition_state_machine import Refused
from zabka.controller.term import ControllerTerm
from zabka.controller.topic_writes import TopicTooLarge, amend_topic
from zabka.ensemble.client.service import Create, Delete, Op, SetData
from zabka.ensemble.errors import ErrorCode, NoNode, error_for
from zabka.journal.events import AssignmentChanged, TopicPartition
from zabka.kafka.ports import NO_LEADER
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment

Outcomes = dict[TopicPartition, KafkaError]
"""The result for each partition: NONE if its reassignment has begun or is already complete."""


class ReassignmentFailed(Exception):
    """A step of a reassignment failed. Completed writes stay, and a later attempt continues from them."""


class TargetIsAway(ReassignmentFailed):
    """Raised if no target replica can lead now."""


# ---- beginning, resuming, completing --------------------------------------------------------------------------


def plan(term: ControllerTerm, partition: TopicPartition, target: Sequence[int] | None) -> ReplicaAssignment | None:
    """Return the assignment that leads to the target; a target of None cancels.

    Returns None if there is nothing to cancel.
    """
    current = term.context.assignment(partition)
    if target is not None:
        return current.reassign_to(target)
    return current.reassign_to(current.origin) if current.is_being_reassigned else None


def removes_all_in_sync(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    """Return whether this assignment removes all in-sync replicas, whose data would be deleted at once.

    A reassignment must not be cancelled, or given another target, while only the replicas that it began to add are in
    sync. Kafka allows this, and loses the partition's records.
    """
    state = term.context.leadership.get(partition)
    if state is None or not state.isr:
        return False
    return not any(broker_id in assignment.replicas for broker_id in state.isr)


async def trigger(term: ControllerTerm, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Outcomes:
    """Begin these reassignments, replacing those in progress; return the result for each partition."""
    outcomes: Outcomes = {}
    for partition, assignment in assignments.items():
        if term.context.is_being_deleted(partition.topic) or not term.context.replicas(partition):
            outcomes[partition] = KafkaError.unknown_topic_or_partition
            continue
        done = await _attempt(term, partition, assignment)
        outcomes[partition] = KafkaError.none if done else KafkaError.unknown_server_error
    return outcomes


async def resume_for_brokers(term: ControllerTerm, broker_ids: Sequence[int]) -> None:
    """Continue the reassignments to these brokers, which have registered again."""
    for partition in sorted(term.context.reassigning):
        assignment = term.context.assignment(partition)
        if any(broker_id in assignment.target for broker_id in broker_ids):
            await _attempt(term, partition, assignment)


async def complete_reassignments(term: ControllerTerm, partitions: Iterable[TopicPartition]) -> None:
    """Complete the reassignments that waited for these partitions' ISRs to change."""
    for partition in partitions:
        if partition in term.context.reassigning:
            assignment = term.context.assignment(partition)
            if await _is_complete(term, partition, assignment):
                await _attempt(term, partition, assignment)


async def initialize_reassignments(term: ControllerTerm) -> None:
    """Begin the reassignments requested by znode, which replace others; then continue the remaining ones (failover)."""
    by_znode = await process_zk_reassignment(term)
    for partition in sorted(term.context.reassigning):
        if partition not in by_znode:
            await _attempt(term, partition, term.context.assignment(partition))


# ---- /admin/reassign_partitions -------------------------------------------------------------------------------


async def process_zk_reassignment(term: ControllerTerm, _: str = "") -> list[TopicPartition]:
    """Begin the reassignments that /admin/reassign_partitions lists; return the partitions begun.

    Set the watch before reading the znode. Partitions that cannot be reassigned are removed from the list at once, the
    others when their reassignment is complete.
    """
    targets = await _listed(term, watched=True)
    planned: dict[TopicPartition, ReplicaAssignment] = {}
    failed: list[TopicPartition] = []
    for partition, target in targets.items():
        assignment = plan(term, partition, target)
        assert assignment is not None, "a target was given"
        if removes_all_in_sync(term, partition, assignment):
            failed.append(partition)
        else:
            planned[partition] = assignment
    outcomes = await trigger(term, planned)
    failed += [partition for partition, error in outcomes.items() if error is not KafkaError.none]
    if failed:
        term.report("ZkPartitionReassignment", f"not reassigned: {', '.join(f'{t}-{n}' for t, n in failed)}")
        await take_off_list(term, failed)
    return [partition for partition in outcomes if partition not in failed]


async def take_off_list(term: ControllerTerm, partitions: Sequence[TopicPartition]) -> None:
    """Remove partitions from /admin/reassign_partitions; delete the znode when no partition is left."""
    listed, taken_off = await _listed(term), frozenset(partitions)
    rest = {partition: target for partition, target in listed.items() if partition not in taken_off}
    if len(rest) < len(listed):
        await _write_list(term, rest)


async def _listed(term: ControllerTerm, *, watched: bool = False) -> dict[TopicPartition, tuple[int, ...]]:
    service, path = term.zk.service, znodes.REASSIGN_PARTITIONS
    watcher = term.signals.watcher("ZkPartitionReassignment") if watched else None
    if await term.zk.call(lambda: service.exists(path, watcher)) is None:
        return {}
    try:
        data, _stat = await term.zk.call(lambda: service.get(path))
    except NoNode:
        return {}
    targets = znodes.decode_reassignments(data)
    if targets is None or not all(targets.values()):
        term.report("ZkPartitionReassignment", f"{path} is not readable; removed")
        await _write_list(term, {})
        return {}
    return targets


async def _write_list(term: ControllerTerm, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    path = znodes.REASSIGN_PARTITIONS
    op: Op = SetData(path, znodes.encode_reassignments(targets)) if targets else Delete(path)
    [written] = await term.writer.write([op])
    if written.error is ErrorCode.NO_NODE and targets:
        [written] = await term.writer.write([Create(path, znodes.encode_reassignments(targets))])
    if written.error not in (ErrorCode.OK, ErrorCode.NO_NODE):
        raise error_for(written.error, path)
    if not targets:
        # The event sets the watch that notices the next list of reassignments.
        term.signals.put("ZkPartitionReassignment", "", term.causes.cause)


# ---- one partition --------------------------------------------------------------------------------------------


async def _attempt(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    try:
        await _reassign(term, partition, assignment)
    except ReassignmentFailed as error:
        term.report("PartitionReassignment", f"{partition.topic}-{partition.partition}: {error}")
        return False
    return True


async def _reassign(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
    """Write the assignment, then wait for the added replicas, or complete it if the target is in sync.

    These are the phases U, A and B in Kafka's onPartitionReassignment.
    """
    context = term.context
    term.deletion.mark_ineligible([partition.topic])
    await _take_on(term, partition, assignment)
    if not await _has_begun(term, partition, assignment):
        return
    if not await _is_complete(term, partition, assignment):
        await _send_to_all_replicas(term, partition, assignment)
        for broker_id in assignment.adding:
            await term.replicas.handle([Replica(partition, broker_id)], ReplicaState.NEW)
        return
    await term.replicas.handle([Replica(partition, b) for b in assignment.adding], ReplicaState.ONLINE)
    completed = ReplicaAssignment(assignment.target)
    context.set_assignment(partition, completed)
    try:
        await _move_leader(term, partition, completed)
    except TargetIsAway:
        if assignment.removing:
            # Keep the reassignment in progress until a target replica returns, because only its record names the
            # replicas to remove.
            context.set_assignment(partition, assignment)
            return
    except ReassignmentFailed:
        context.set_assignment(partition, assignment)
        raise
    await _remove_replicas(term, partition, assignment.removing)
    # Write the completed assignment last, because until then the znode is the only record of the remaining steps.
    await _write_assignment(term, partition, completed)
    await _take_off_list_if_done(term, partition, completed)
    context.reassigning.pop(partition, None)
    term.send_update_metadata(context.live_or_shutting_down_ids, [partition])
    await term.deletion.resume_for([partition.topic])


async def _take_on(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
    context = term.context
    current = context.assignment(partition)
    if current != assignment:
        await _write_assignment(term, partition, assignment)
        context.set_assignment(partition, assignment)
        # Remove replicas that a superseded reassignment had begun to add.
        unneeded = [broker_id for broker_id in current.replicas if broker_id not in assignment.replicas]
        await _remove_replicas(term, partition, unneeded)
        await _replace_leader(term, partition, unneeded)
    context.reassigning[partition] = None


async def _has_begun(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    """Return whether the partition has a state. Create the first state of a new partition.

    Without a state, there is nothing that added replicas could replicate. Any live replica, including an added one, can
    be the first leader; if no replica is live, the reassignment waits for one. The added replicas get the replica state
    New before the partition comes online. A replica without a replica state would get none later if it became leader:
    it would receive nothing after a restart, and would never be deleted.
    """
    if term.context.partition_states.get(partition) is not PartitionState.NEW:
        return True
    await term.replicas.handle([Replica(partition, b) for b in assignment.adding], ReplicaState.NEW)
    outcome = (await term.partitions.handle([partition], PartitionState.ONLINE))[partition]
    return not (isinstance(outcome, Refused) and outcome.no_leader_available)


async def _replace_leader(term: ControllerTerm, partition: TopicPartition, unneeded: Sequence[int]) -> None:
    """Elect again if the leader was among the unneeded replicas.

    Kafka leaves that partition without a leader until some broker fails, so the added replicas cannot catch up.
    """
    state = term.context.leadership.get(partition)
    if unneeded and state is not None and state.leader == NO_LEADER:
        for step in (PartitionState.OFFLINE, PartitionState.ONLINE):
            await term.partitions.handle([partition], step)


async def _is_complete(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    if not assignment.is_being_reassigned:
        return True
    if not assignment.target:
        # The empty target was written by hand. Completing it would delete every replica.
        return False
    state = (await term.store.read([partition]))[partition]
    return isinstance(state, LeaderAndIsr) and all(broker_id in state.isr for broker_id in assignment.target)


async def _send_to_all_replicas(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
    """Raise the leader epoch so that all replicas accept the new list.

    LeaderAndIsr marks the partition as new only for the added replicas.
    """
    state = await _raise_leader_epoch(term, partition)
    term.batch.new_batch()
    term.batch.add_leader_and_isr(assignment.origin, partition, state, is_new=False)
    term.batch.add_leader_and_isr(assignment.adding, partition, state, is_new=True)
    term.batch.send()


async def _raise_leader_epoch(term: ControllerTerm, partition: TopicPartition) -> LeaderAndIsr:
    """Write the state with the next leader epoch and no other change (updateLeaderEpoch)."""
    while True:
        state = (await term.store.read([partition]))[partition]
        if not isinstance(state, LeaderAndIsr):
            raise ReassignmentFailed(f"its state could not be read: {state.name}")
        if state.controller_epoch > term.context.epoch:
            raise ReassignmentFailed(f"controller epoch {state.controller_epoch} wrote its state")
        updates = await term.store.update({partition: state._replace(leader_epoch=state.leader_epoch + 1)})
        if partition in updates.failed:
            raise ReassignmentFailed(f"its state could not be written: {updates.failed[partition].name}")
        if partition in updates.written:
            written = term.context.leadership[partition] = updates.written[partition]
            term.store.announce_leader(partition, state, written, updates.zxids[partition], "reassignment")
            return written


async def _move_leader(term: ControllerTerm, partition: TopicPartition, completed: ReplicaAssignment) -> None:
    """Elect a target replica as leader, or raise so that the reassignment waits.

    Kafka deletes the origin replicas even if no target replica is alive.
    """
    state = term.context.leadership.get(partition)
    if state is None:
        raise ReassignmentFailed("it has no state")
    if state.leader in completed.replicas and term.context.is_replica_online(state.leader, partition):
        await _send_to_all_replicas(term, partition, completed)
    else:
        elections = await term.partitions.handle([partition], PartitionState.ONLINE, ElectionStrategy.REASSIGNMENT)
        outcome = elections[partition]
        if isinstance(outcome, Refused):
            raise (TargetIsAway if outcome.no_leader_available else ReassignmentFailed)(outcome.reason)


async def _remove_replicas(term: ControllerTerm, partition: TopicPartition, broker_ids: Sequence[int]) -> None:
    """Remove replicas from the ISR, stop them and delete them, without waiting for the deletion on the broker."""
    replicas = [Replica(partition, broker_id) for broker_id in broker_ids]
    for state in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        await term.replicas.handle(replicas, state)


async def _write_assignment(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
    topic, context = partition.topic, term.context

    def amended(found: TopicAssignment) -> TopicAssignment:
        # The znode may contain partitions that were just added and whose event is still queued: keep them.
        rows = {**found.partitions, **context.topic_assignment(topic), partition.partition: assignment}
        return TopicAssignment(context.topic_ids.get(topic), rows)

    # Completing a reassignment makes the znode smaller, so only the first write is limited.
    bytes_max = znodes.ZNODE_BYTES_MAX if assignment.is_being_reassigned else None
    try:
        stat = await amend_topic(term, topic, amended, bytes_max=bytes_max)
    except TopicTooLarge as error:
        raise ReassignmentFailed(str(error)) from None
    if stat is None:
        raise ReassignmentFailed("the topic has no znode")
    term.emit(
        AssignmentChanged(
            topic=topic,
            partition=partition.partition,
            replicas=list(assignment.replicas),
            adding=list(assignment.adding),
            removing=list(assignment.removing),
            controller_epoch=context.epoch,
            zxid=stat.mzxid,
        )
    )


async def _take_off_list_if_done(term: ControllerTerm, partition: TopicPartition, completed: ReplicaAssignment) -> None:
    """Remove the partition from /admin/reassign_partitions unless it now requests another target there."""
    if (await _listed(term)).get(partition) == completed.replicas:
        await take_off_list(term, [partition])

"""Reassignment: moves a partition's replicas to other brokers while the partition stays available (KIP-455).

Source: KafkaController.onPartitionReassignment and the methods that it calls. The whole state is in the topic's znode,
so that a later controller can continue. During the reassignment, the replica list contains the target and the origin
replicas, and separate lists contain the replicas to add and to remove. The last write leaves only the target replicas.
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
"""The result for each partition: NONE if its reassignment has begun or was already complete."""


class ReassignmentFailed(Exception):
    """A step of a reassignment failed. Completed writes remain, and a later attempt continues from them."""


class TargetIsAway(ReassignmentFailed):
    """No target replica can become leader now."""


# ---- begin, resume, complete -----------------------------------------------------------------------------------


def plan(term: ControllerTerm, partition: TopicPartition, target: Sequence[int] | None) -> ReplicaAssignment | None:
    """Return the assignment that starts a reassignment to `target`; a target of None cancels a reassignment.

    Returns None if there is no reassignment to cancel.
    """
    current = term.context.assignment(partition)
    if target is not None:
        return current.reassign_to(target)
    return current.reassign_to(current.origin) if current.is_being_reassigned else None


def removes_all_in_sync(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    """Return whether this assignment removes all in-sync replicas, whose data would be deleted at once.

    A reassignment must not be cancelled or replaced while the only in-sync replicas are replicas that it began to add.
    Kafka allows this, and loses the partition's records.
    """
    state = term.context.leadership.get(partition)
    if state is None or not state.isr:
        return False
    return not any(broker_id in assignment.replicas for broker_id in state.isr)


async def trigger(term: ControllerTerm, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Outcomes:
    """Begin these reassignments, which replace those in progress; return the result for each partition."""
    outcomes: Outcomes = {}
    for partition, assignment in assignments.items():
        if term.context.is_being_deleted(partition.topic) or not term.context.replicas(partition):
            outcomes[partition] = KafkaError.unknown_topic_or_partition
            continue
        done = await _attempt(term, partition, assignment)
        outcomes[partition] = KafkaError.none if done else KafkaError.unknown_server_error
    return outcomes


async def resume_for_brokers(term: ControllerTerm, broker_ids: Sequence[int]) -> None:
    """Continue the reassignments that wait for these brokers, which have registered again."""
    for partition in sorted(term.context.reassigning):
        assignment = term.context.assignment(partition)
        if any(broker_id in assignment.target for broker_id in broker_ids):
            await _attempt(term, partition, assignment)


async def complete_reassignments(term: ControllerTerm, partitions: Iterable[TopicPartition]) -> None:
    """Complete the reassignments of these partitions that waited for a change of the ISR."""
    for partition in partitions:
        if partition in term.context.reassigning:
            assignment = term.context.assignment(partition)
            if await _is_complete(term, partition, assignment):
                await _attempt(term, partition, assignment)


async def initialize_reassignments(term: ControllerTerm) -> None:
    """At failover, begin the reassignments requested by znode, then continue those in progress.

    A reassignment requested by znode replaces one in progress.
    """
    by_znode = await process_zk_reassignment(term)
    for partition in sorted(term.context.reassigning):
        if partition not in by_znode:
            await _attempt(term, partition, term.context.assignment(partition))


# ---- /admin/reassign_partitions -------------------------------------------------------------------------------


async def process_zk_reassignment(term: ControllerTerm, _: str = "") -> list[TopicPartition]:
    """Begin the reassignments in /admin/reassign_partitions; return their partitions.

    The watch is set before the znode is read. Partitions that cannot be reassigned are removed from the znode at once,
    the others when their reassignment is complete.
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
        # Queue the event that sets the watch for the next list of reassignments.
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
    """Write the assignment. Complete it if the target replicas are in sync; otherwise wait for the added replicas.

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
            # Until a target replica returns, the reassignment stays in progress, because only its record in the znode
            # lists the replicas to remove.
            context.set_assignment(partition, assignment)
            return
    except ReassignmentFailed:
        context.set_assignment(partition, assignment)
        raise
    await _remove_replicas(term, partition, assignment.removing)
    # Write the completed assignment last: until then, the znode is the only record of the remaining steps.
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
        # Remove the replicas that a replaced reassignment had begun to add.
        unneeded = [broker_id for broker_id in current.replicas if broker_id not in assignment.replicas]
        await _remove_replicas(term, partition, unneeded)
        await _replace_leader(term, partition, unneeded)
    context.reassigning[partition] = None


async def _has_begun(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    """Return whether the partition has a state. If it is new, create its first state.

    Without a state, there is nothing that added replicas could replicate. Any live replica, including an added one, can
    be the first leader; if no replica is live, the reassignment waits for one. The added replicas get the replica state
    New before the partition comes online. Otherwise, if one of them became leader, it would get no replica state later:
    it would receive nothing after a restart, and would never be deleted.
    """
    if term.context.partition_states.get(partition) is not PartitionState.NEW:
        return True
    await term.replicas.handle([Replica(partition, b) for b in assignment.adding], ReplicaState.NEW)
    outcome = (await term.partitions.handle([partition], PartitionState.ONLINE))[partition]
    return not (isinstance(outcome, Refused) and outcome.no_leader_available)


async def _replace_leader(term: ControllerTerm, partition: TopicPartition, unneeded: Sequence[int]) -> None:
    """Elect another leader if the leader is one of the unneeded replicas.

    Kafka elects no leader here. After the leader's replica is removed, the partition has no leader until the next
    broker failure triggers an election, so the added replicas cannot catch up.
    """
    state = term.context.leadership.get(partition)
    if unneeded and state is not None and state.leader == NO_LEADER:
        for step in (PartitionState.OFFLINE, PartitionState.ONLINE):
            await term.partitions.handle([partition], step)


async def _is_complete(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    if not assignment.is_being_reassigned:
        return True
    if not assignment.target:
        # A person has written the empty target into the znode. Completing the reassignment would delete every replica.
        return False
    state = (await term.store.read([partition]))[partition]
    return isinstance(state, LeaderAndIsr) and all(broker_id in state.isr for broker_id in assignment.target)


async def _send_to_all_replicas(term: ControllerTerm, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
    """Raise the leader epoch, so that all replicas accept the new replica list, and send the list to them.

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
    """Elect a target replica as leader. If none can lead, raise ReassignmentFailed, so that the reassignment waits.

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
    """Remove replicas from the ISR, and stop and delete them. Do not wait for the brokers to delete them."""
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
        # The znode may contain new partitions whose event is still queued: do not remove them.
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
    """Remove the partition from /admin/reassign_partitions, unless the znode now requests another target for it."""
    if (await _listed(term)).get(partition) == completed.replicas:
        await take_off_list(term, [partition])

"""Topic deletion: stop every replica, request its deletion, then remove the topic's znodes.

Source: kafka.controller.TopicDeletionManager. While a topic has an offline replica, its deletion waits for that
replica's broker to return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from zabka.controller.causes import CurrentCauses
from zabka.controller.context import ControllerContext, PartitionState, Replica, ReplicaState
from zabka.controller.partition_state_machine import PartitionStateMachine
from zabka.controller.replica_state_machine import ReplicaStateMachine
from zabka.controller.request_batch import RequestBatch
from zabka.ensemble.client.service import Delete
from zabka.ensemble.errors import ErrorCode, error_for
from zabka.journal.events import TopicDeleted, TopicPartition
from zabka.kafka.ports import Emit
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import FencedWriter


class TopicDeletion:
    """Deletes the queued topics during one controller term. Methods raise ControllerMoved and SessionExpired."""

    def __init__(
        self,
        context: ControllerContext,
        writer: FencedWriter,
        batch: RequestBatch,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        emit: Emit,
        causes: CurrentCauses,
        forget_topic: Callable[[str], None],
    ) -> None:
        self._context = context
        self._writer = writer
        self._batch = batch
        self._partitions = partitions
        self._replicas = replicas
        self._emit = emit
        self._causes = causes
        self._forget_topic = forget_topic

    def init(self, queued: Iterable[str]) -> None:
        """Load the deletions that were requested before this controller term.

        Topics with an offline replica, or with a reassignment in progress, have to wait.
        """
        context = self._context
        moving = {partition.topic for partition in context.reassigning}
        for topic in queued:
            context.topics_to_be_deleted.add(topic)
            replicas = context.replicas_of(context.partitions_of(topic))
            if topic in moving:
                context.topics_ineligible_for_deletion.add(topic)
            if not all(context.is_replica_online(replica.broker_id, replica.partition) for replica in replicas):
                context.topics_ineligible_for_deletion.add(topic)

    async def enqueue(self, topics: Iterable[str], halted: Iterable[str]) -> None:
        """Queue topics for deletion; the `halted` ones wait until their reassignment is complete."""
        self._context.topics_to_be_deleted.update(topics)
        self.mark_ineligible(halted)
        await self.resume()

    async def resume_for(self, topics: Iterable[str]) -> None:
        """Resume the deletion of these topics, except those with a partition that is still being reassigned.

        Kafka also resumes the deletion of the excepted topics. But brokers are not notified of the deletion while a
        partition is being reassigned (`zabka.controller.request_batch`), so they would never be notified of partitions
        deleted during that time.
        """
        context = self._context
        queued = [topic for topic in topics if context.is_being_deleted(topic) and not context.is_moving(topic)]
        if queued:
            self._context.topics_ineligible_for_deletion.difference_update(queued)
            await self.resume()

    async def fail(self, replicas: Sequence[Replica]) -> None:
        """Handle replicas that could not be deleted, because they are offline or their broker returned an error."""
        failed = [replica for replica in replicas if self._context.is_being_deleted(replica.partition.topic)]
        if failed:
            await self._replicas.handle(failed, ReplicaState.DELETION_INELIGIBLE)
            self.mark_ineligible(replica.partition.topic for replica in failed)
            await self.resume()

    async def complete(self, replicas: Sequence[Replica]) -> None:
        """Handle replicas that their brokers have deleted."""
        done = [replica for replica in replicas if self._context.is_being_deleted(replica.partition.topic)]
        await self._replicas.handle(done, ReplicaState.DELETION_SUCCESSFUL)
        await self.resume()

    async def resume(self) -> None:
        """Continue the deletion of every queued topic as far as its state allows."""
        context = self._context
        retry: list[str] = []
        start: list[str] = []
        for topic in sorted(context.topics_to_be_deleted):
            states = self._replica_states(topic)
            if all(state is ReplicaState.DELETION_SUCCESSFUL for state in states):
                await self._complete_topic(topic)
                continue
            started = ReplicaState.DELETION_STARTED in states
            if not started and ReplicaState.DELETION_INELIGIBLE in states:
                retry.append(topic)
            if not started and topic not in context.topics_ineligible_for_deletion:
                start.append(topic)
        for topic in retry:
            ineligible = context.replicas_of_topic_in(topic, ReplicaState.DELETION_INELIGIBLE)
            await self._replicas.handle(ineligible, ReplicaState.OFFLINE)
        if start:
            await self._start(start)

    def _replica_states(self, topic: str) -> list[ReplicaState]:
        context = self._context
        replicas = context.replicas_of(context.partitions_of(topic))
        return [context.replica_states.get(replica, ReplicaState.NON_EXISTENT) for replica in replicas]

    def mark_ineligible(self, topics: Iterable[str]) -> None:
        """Halt the deletion of these topics until another operation has finished.

        Topics that are not queued for deletion are ignored.
        """
        self._context.topics_ineligible_for_deletion.update(
            topic for topic in topics if self._context.is_being_deleted(topic)
        )

    async def _start(self, topics: Sequence[str]) -> None:
        """Take the partitions offline, notify the brokers, and stop and delete the replicas (onTopicDeletion)."""
        context = self._context
        unseen = [topic for topic in topics if topic not in context.topics_with_deletion_started]
        ending = [partition for topic in unseen for partition in context.partitions_of(topic)]
        await self._partitions.handle(ending, PartitionState.OFFLINE)
        await self._partitions.handle(ending, PartitionState.NON_EXISTENT)
        context.topics_with_deletion_started.update(unseen)
        partitions = [partition for topic in topics for partition in context.partitions_of(topic)]
        self._send_update_metadata(partitions)
        dead: list[Replica] = []
        alive: list[Replica] = []
        for replica in context.replicas_of(partitions):
            if not context.is_replica_online(replica.broker_id, replica.partition):
                dead.append(replica)
            elif context.replica_states.get(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                alive.append(replica)
        await self._replicas.handle(dead, ReplicaState.DELETION_INELIGIBLE)
        # Replicas first stop fetching, then they are deleted.
        await self._replicas.handle(alive, ReplicaState.OFFLINE)
        await self._replicas.handle(alive, ReplicaState.DELETION_STARTED)
        self.mark_ineligible(replica.partition.topic for replica in dead)

    def _send_update_metadata(self, partitions: Sequence[TopicPartition]) -> None:
        self._batch.new_batch()
        self._batch.add_update_metadata(self._context.live_or_shutting_down_ids, partitions)
        self._batch.send()

    async def _complete_topic(self, topic: str) -> None:
        """Remove the znodes of a topic that has no replicas left; remove the deletion request last."""
        self._forget_topic(topic)
        gone = self._context.replicas_of_topic_in(topic, ReplicaState.DELETION_SUCCESSFUL)
        paths = await self._descendants(znodes.topic_path(topic))
        await self._replicas.handle(gone, ReplicaState.NON_EXISTENT)
        # Delete the request last, because without it the remaining znodes of the topic would never be deleted. Delete
        # the topic's znode in the same transaction, because afterwards a new topic of that name may be created. Kafka
        # deletes the configuration and the request later, and may therefore delete those of the new topic.
        await self._delete(paths[:-1])
        await self._delete([znodes.config_path("topics", topic)])
        await self._delete_with_request(topic)
        self._context.remove_topic(topic)
        self._emit(TopicDeleted(topic, self._causes.cause))

    async def _descendants(self, path: str) -> list[str]:
        """Return a path and all znodes below it, children first; each level is read in one batch."""
        service, found, level = self._writer.zk.service, [path], [path]
        while level:
            outcomes = await self._writer.zk.batch([partial(service.get_children, parent) for parent in level])
            below: list[str] = []
            for parent, outcome in zip(level, outcomes, strict=True):
                if outcome.error not in (ErrorCode.OK, ErrorCode.NO_NODE):
                    raise error_for(outcome.error, parent)
                below += [f"{parent}/{child}" for child in outcome.value or ()]
            found += below
            level = below
        return found[::-1]

    async def _delete_with_request(self, topic: str) -> None:
        """Delete the topic's znode and its deletion request in one transaction, unless one of them no longer exists.

        If they were deleted separately, the next controller could add a topic that consists only of this znode.
        """
        paths = [znodes.topic_path(topic), znodes.delete_topic_path(topic)]
        written = await self._writer.write_as_one([Delete(path) for path in paths])
        for path, result in zip(paths, written, strict=True):
            if result.error is ErrorCode.NO_NODE:
                # If the first transmission has deleted both znodes, the topic that exists now is a new one: do not
                # delete it. Kafka deletes it.
                if not result.repeated or path != paths[1]:
                    await self._delete([other for other in paths if other != path])
                return
            if result.error is not ErrorCode.OK:
                raise error_for(result.error, path)

    async def _delete(self, paths: Sequence[str]) -> None:
        written = await self._writer.write_together([Delete(path) for path in paths])
        for path, result in zip(paths, written, strict=True):
            if result.error not in (ErrorCode.OK, ErrorCode.NO_NODE):
                raise error_for(result.error, path)

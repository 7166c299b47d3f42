"""Processes LeaderAndIsr and StopReplica: fencing, then the change of roles (Kafka's ReplicaManager).

A request is fenced by its broker epoch, then by its controller epoch. After that, each partition in it is fenced by its
leader epoch. Rejections are journalled, and the response has Kafka's error code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.logs.log_manager import LogManager
from zabka.broker_sim.metadata_cache import LEADER_DURING_DELETE
from zabka.broker_sim.replication.fetcher import ReplicaFetchers
from zabka.broker_sim.replication.isr import RECOVERED
from zabka.broker_sim.replication.log_dir_moves import LogDirMoves
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.partition_host import NO_EPOCH, LeaderAndIsrPartitionState, PartitionHost
from zabka.journal.events import RequestFenced, TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_ids import topic_id_from_kafka, topic_id_to_kafka
from zabka.kafka.topic_names import invalid_name
from zabka.kafka.wire.kafka_schema import respond

LEADER_AND_ISR = "LeaderAndIsr"
STOP_REPLICA = "StopReplica"
TOPIC_BEING_DELETED = -2
"""Leader epoch in a StopReplica that deletes the topic. It is never rejected for being lower than another epoch."""


def _leader_and_isr_rows(request: KafkaMessage) -> Iterator[tuple[str, str | None, Any]]:
    """Yield (topic, topic id, state) of every partition, for every version."""
    for topic in getattr(request, "topic_states", ()):
        for state in topic.partition_states:
            yield topic.topic_name, topic_id_from_kafka(getattr(topic, "topic_id", None)), state
    for state in getattr(request, "ungrouped_partition_states", ()):
        yield state.topic_name, None, state


def _stop_replica_rows(request: KafkaMessage) -> Iterator[tuple[str, int, int, bool]]:
    """Yield (topic, partition, leader epoch, delete) for each partition of a StopReplica of any version."""
    for topic in getattr(request, "topic_states", ()):
        for state in topic.partition_states:
            yield topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition
    for topic in getattr(request, "topics", ()):
        for partition in topic.partition_indexes:
            yield topic.name, partition, NO_EPOCH, request.delete_partitions
    for row in getattr(request, "ungrouped_partitions", ()):
        yield row.topic_name, row.partition_index, NO_EPOCH, request.delete_partitions


def with_storage_errors(
    request: KafkaMessage, response: KafkaMessage, failed: Collection[TopicPartition]
) -> KafkaMessage:
    """Return a LeaderAndIsr response with KAFKA_STORAGE_ERROR for these replicas.

    In versions without topic ids, no topic id is written to disk, so this error cannot occur.
    """
    if not hasattr(response, "topics"):
        return response
    names = {topic.topic_id: str(topic.topic_name) for topic in request.topic_states}

    def row_of(topic_id: Any, row: Any) -> Any:
        is_failed = TopicPartition(names[topic_id], int(row.partition_index)) in failed
        return replace(row, error_code=ErrorCode.kafka_storage_error) if is_failed else row

    topics = (
        replace(topic, partition_errors=tuple(row_of(topic.topic_id, row) for row in topic.partition_errors))
        for topic in response.topics
    )
    return replace(response, topics=tuple(topics))


class HostedPartitions:
    """The partitions that a broker hosts, and the fencing of their changes."""

    def __init__(
        self,
        host: PartitionHost,
        logs: LogManager,
        fetchers: ReplicaFetchers,
        moves: LogDirMoves,
        broker_epoch: Callable[[], int],
        controller_epoch_seen: Callable[[], int],
    ) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.controller_epoch = 0
        self._offline: dict[TopicPartition, None] = {}
        """Replicas whose log directory has failed."""
        self._host = host
        self._logs = logs
        self._fetchers = fetchers
        self._moves = moves
        self._broker_epoch = broker_epoch
        self._controller_epoch_seen = controller_epoch_seen

    # ---- fences ------------------------------------------------------------------------------------------------

    def accept(self, name: str, request: KafkaMessage) -> int:
        """Check that a control request is for this process and from the newest controller. Return the error code.

        A higher controller epoch is stored; an equal one is accepted. The newest controller is the one with the highest
        epoch in a request, or in the ensemble as seen by this broker. Kafka considers only requests, so a restarted
        Kafka broker would accept requests from a controller deposed long ago. A broker epoch of -1 is not checked. A
        higher broker epoch than known is accepted: the request may arrive before this broker learns of its own
        registration (KAFKA-9839).
        """
        sent_epoch = getattr(request, "broker_epoch", NO_EPOCH)
        known_epoch = self._broker_epoch()
        if self._host.fences.is_for_earlier_process(sent_epoch, known_epoch):
            self._fenced(name, request, ErrorCode.stale_broker_epoch, sent_epoch, known_epoch)
            return ErrorCode.stale_broker_epoch
        newest = max(self.controller_epoch, self._controller_epoch_seen())
        if request.controller_epoch < newest:
            self._fenced(name, request, ErrorCode.stale_controller_epoch, request.controller_epoch, newest)
            return ErrorCode.stale_controller_epoch
        self.controller_epoch = request.controller_epoch
        return ErrorCode.none

    def _fenced(
        self,
        name: str,
        request: KafkaMessage,
        error: ErrorCode,
        request_epoch: int,
        known_epoch: int,
        topic_partition: TopicPartition | None = None,
    ) -> None:
        self._host.emit(
            RequestFenced(
                broker_id=self._host.broker_id,
                request=name,
                sender_id=int(request.controller_id),
                reason=error.name.upper(),
                request_epoch=request_epoch,
                known_epoch=known_epoch,
                topic=None if topic_partition is None else topic_partition.topic,
                partition=None if topic_partition is None else topic_partition.partition,
            )
        )

    # ---- LeaderAndIsr ------------------------------------------------------------------------------------------

    def become_leader_or_follower(self, request: KafkaMessage) -> KafkaMessage:
        """Process a LeaderAndIsr request of any version."""
        error = self.accept(LEADER_AND_ISR, request)
        answers: list[dict[str, Any]] = []
        topics: dict[str | None, list[dict[str, Any]]] = {}
        for topic, topic_id, state in _leader_and_isr_rows(request):
            code = error or self._change_role(request, TopicPartition(topic, state.partition_index), topic_id, state)
            row = {"topic_name": topic, "partition_index": state.partition_index, "error_code": code}
            answers.append(row)
            topics.setdefault(topic_id, []).append(row)
        self._fetchers.close_idle()
        if self.partitions:
            # LeaderAndIsr was processed, so the controller already knows everything that this process had lost when it
            # started.
            self._logs.mark_alive(self._broker_epoch())
        return respond(
            request,
            error_code=error,
            partition_errors=answers,
            topics=[
                {"topic_id": topic_id_to_kafka(topic_id), "partition_errors": rows} for topic_id, rows in topics.items()
            ],
        )

    def _change_role(
        self, request: KafkaMessage, topic_partition: TopicPartition, topic_id: str | None, state: Any
    ) -> int:
        if invalid_name(topic_partition.topic) is not None or topic_partition.partition < 0:
            return ErrorCode.invalid_topic_exception
        if topic_partition in self._offline:
            return ErrorCode.kafka_storage_error
        partition = self.partitions.get(topic_partition)
        known_epoch = NO_EPOCH if partition is None else partition.leader_epoch
        known_id = self._logs.topic_id(topic_partition)
        if topic_id is not None and known_id is not None and topic_id != known_id:
            return ErrorCode.inconsistent_topic_id
        if state.leader_epoch < known_epoch:
            self._fenced(
                LEADER_AND_ISR,
                request,
                ErrorCode.stale_controller_epoch,
                state.leader_epoch,
                known_epoch,
                topic_partition,
            )
            return ErrorCode.stale_controller_epoch
        if state.leader_epoch == known_epoch:
            if partition is not None and topic_id is not None and known_id is None:
                self._name(partition, topic_id)
                return ErrorCode.none
            return ErrorCode.stale_controller_epoch
        replicas = tuple(int(broker) for broker in state.replicas)
        if self._host.broker_id not in replicas:
            return ErrorCode.unknown_topic_or_partition
        try:
            return self._take_role(topic_partition, topic_id, state, replicas)
        except LogDirFailed:
            if self._logs.get(topic_partition) is None:
                # If the log directory failed before the log was opened, the replica exists but is offline
                # (becomeLeaderOrFollower).
                self.take_offline(topic_partition)
            return ErrorCode.kafka_storage_error

    def _take_role(
        self, topic_partition: TopicPartition, topic_id: str | None, state: Any, replicas: tuple[int, ...]
    ) -> int:
        partition = self.partitions.get(topic_partition)
        if partition is None:
            partition = self._host_partition(topic_partition, bool(getattr(state, "is_new", False)))
        if topic_id is not None:
            self._name(partition, topic_id)
        self._apply(
            partition,
            LeaderAndIsrPartitionState(
                leader=int(state.leader),
                leader_epoch=state.leader_epoch,
                isr=tuple(int(broker) for broker in state.isr),
                recovery_state=getattr(state, "leader_recovery_state", RECOVERED),
                partition_epoch=state.partition_epoch,
                replicas=replicas,
                controller_epoch=state.controller_epoch,
                adding_replicas=tuple(int(broker) for broker in getattr(state, "adding_replicas", ())),
            ),
        )
        self._moves.resume(partition)
        return ErrorCode.none

    def _host_partition(self, topic_partition: TopicPartition, is_new: bool) -> Partition:
        log = self._logs.get_or_create(topic_partition, is_new)
        partition = Partition(topic_partition, log, self._logs.settings(topic_partition.topic), self._host)
        partition.topic_id = self._logs.topic_id(topic_partition)
        self.partitions[topic_partition] = partition
        return partition

    def _name(self, partition: Partition, topic_id: str) -> None:
        self._logs.set_topic_id(partition.topic_partition, topic_id)
        partition.topic_id = topic_id

    def _apply(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        topic_partition = partition.topic_partition
        if state.leader == self._host.broker_id:
            if partition.make_leader(state):
                self._fetchers.remove(topic_partition)
                self._host.wake(topic_partition)
        elif not self._host.metadata.is_alive(state.leader):
            # There is no leader, or this broker does not know the leader's address yet. Change nothing until the next
            # leader epoch.
            return
        elif partition.make_follower(state):
            self._fetchers.add(partition)
            self._host.wake(topic_partition)

    def take_offline(self, topic_partition: TopicPartition) -> None:
        """Stop hosting a replica whose log directory has failed, until the broker restarts."""
        self._offline[topic_partition] = None
        self._let_go(topic_partition)

    def _let_go(self, topic_partition: TopicPartition) -> None:
        self._fetchers.remove(topic_partition)
        self._moves.pause(topic_partition)
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            partition.leader = None
            self._host.wake(topic_partition)

    def leave_strays(self, request: KafkaMessage) -> None:
        """Stop hosting partitions that moved to other brokers in a later leader epoch, according to UpdateMetadata.

        A broker that was considered dead while a partition was reassigned never receives StopReplica. In Kafka, clients
        with stale metadata can use such a broker as the leader until it restarts. Here the replica stays on disk until
        the topic is deleted, and is then deleted too. Otherwise this broker would reject the next topic of that name
        because of its topic id.
        """
        for topic in getattr(request, "topic_states", ()):
            topic_id = topic_id_from_kafka(getattr(topic, "topic_id", None))
            for state in topic.partition_states:
                if self._host.broker_id in state.replicas or not state.replicas:
                    continue
                topic_partition = TopicPartition(str(topic.topic_name), int(state.partition_index))
                partition = self.partitions.get(topic_partition)
                if state.leader == LEADER_DURING_DELETE:
                    self._delete_stray(topic_partition, topic_id)
                    continue
                if partition is None or state.leader_epoch <= partition.leader_epoch:
                    continue
                # Leader epochs of an earlier topic of this name are not comparable, even if they are higher.
                if topic_id is None or partition.topic_id in (None, topic_id):
                    self._let_go(topic_partition)

    def _delete_stray(self, topic_partition: TopicPartition, topic_id: str | None) -> None:
        """Delete the replica of a deleted topic that this broker should no longer have.

        The topic id distinguishes topics of the same name.
        """
        is_its = topic_id is not None and self._logs.topic_id(topic_partition) == topic_id
        if is_its and topic_partition not in self._offline:
            self._let_go(topic_partition)
            with suppress(LogDirFailed):
                self._logs.delete(topic_partition)

    @property
    def offline_count(self) -> int:
        """Number of replicas in a failed log directory."""
        return len(self._offline)

    def absence(self, topic_partition: TopicPartition) -> ErrorCode:
        """Return the error for a partition that this broker does not host."""
        offline = topic_partition in self._offline
        return ErrorCode.kafka_storage_error if offline else ErrorCode.not_leader_or_follower

    # ---- StopReplica -------------------------------------------------------------------------------------------

    def stop_replica(self, request: KafkaMessage) -> KafkaMessage:
        """Process a StopReplica request of any version."""
        error = self.accept(STOP_REPLICA, request)
        answers = []
        for topic, number, leader_epoch, delete in _stop_replica_rows(request):
            topic_partition = TopicPartition(topic, number)
            code = error or self._stop(request, topic_partition, leader_epoch, delete)
            answers.append({"topic_name": topic, "partition_index": number, "error_code": code})
        self._fetchers.close_idle()
        return respond(request, error_code=error, partition_errors=answers)

    def _stop(self, request: KafkaMessage, topic_partition: TopicPartition, leader_epoch: int, delete: bool) -> int:
        if topic_partition in self._offline:
            return ErrorCode.kafka_storage_error
        partition = self.partitions.get(topic_partition)
        known_epoch = NO_EPOCH if partition is None else partition.leader_epoch
        if self._is_over(topic_partition, leader_epoch, known_epoch):
            error = ErrorCode.fenced_leader_epoch
            self._fenced(STOP_REPLICA, request, error, leader_epoch, known_epoch, topic_partition)
            return error
        self._fetchers.remove(topic_partition)
        self._moves.pause(topic_partition)
        if delete:
            if partition is not None:
                del self.partitions[topic_partition]
                partition.leader = None
                self._host.wake(topic_partition)
            try:
                self._logs.delete(topic_partition)
            except LogDirFailed:
                return ErrorCode.kafka_storage_error
        return ErrorCode.none

    def _is_over(self, topic_partition: TopicPartition, leader_epoch: int, known_epoch: int) -> bool:
        """Return whether a StopReplica request is outdated: it is for an earlier state of the partition or topic.

        Before a topic is deleted, every broker receives UpdateMetadata about it (onTopicDeletion). If the metadata
        still contain the topic, the request was delayed and is for an earlier topic of that name. The request itself
        contains no topic id.
        """
        if leader_epoch == TOPIC_BEING_DELETED:
            return self._host.metadata.partition(topic_partition) is not None
        return leader_epoch != NO_EPOCH and leader_epoch < known_epoch

"""The controller's view of the cluster during one controller term (kafka.controller.ControllerContext).

Sets are used only for membership tests. Collections that are iterated over are sorted or dictionaries, so that the
order is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from zabka.journal.events import TopicPartition
from zabka.kafka.zk.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment


class PartitionState(Enum):
    """State of a partition (kafka.controller.PartitionState)."""

    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"


class ReplicaState(Enum):
    """State of a replica (kafka.controller.ReplicaState)."""

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"


class Replica(NamedTuple):
    """One replica of one partition (PartitionAndReplica)."""

    partition: TopicPartition
    broker_id: int


_NOTHING = ReplicaAssignment(())


class ControllerContext:
    """Brokers, topics, assignments, leadership, and the states of partitions and replicas."""

    def __init__(self, epoch: int, epoch_zk_version: int) -> None:
        self.epoch = epoch
        self.epoch_zk_version = epoch_zk_version
        self.topic_ids: dict[str, str] = {}
        self.topic_names: dict[str, str] = {}
        self.leadership: dict[TopicPartition, LeaderAndIsr] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.shutting_down: set[int] = set()
        self.reassigning: dict[TopicPartition, None] = {}
        """Partitions whose reassignment is in progress (partitionsBeingReassigned)."""
        self.broker_epoch_seen = -1
        """Broker epoch up to which this controller has handled all registrations."""
        self.offline_dirs: dict[int, frozenset[TopicPartition]] = {}
        """Replicas in failed log directories, keyed by broker id (replicasOnOfflineDirs)."""
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self._brokers: dict[int, BrokerInfo] = {}
        self._epochs: dict[int, int] = {}
        self._assignments: dict[str, dict[int, ReplicaAssignment]] = {}

    # -- brokers

    def add_broker(self, info: BrokerInfo, broker_epoch: int) -> None:
        """Add a registered broker. The broker epoch is the czxid of its znode."""
        self._brokers[info.broker_id] = info
        self._epochs[info.broker_id] = broker_epoch

    def update_broker(self, info: BrokerInfo) -> None:
        """Replace a broker's data after it changed its existing registration."""
        self._brokers[info.broker_id] = info

    def remove_broker(self, broker_id: int) -> None:
        """Remove a broker whose registration was deleted."""
        self._brokers.pop(broker_id, None)
        self._epochs.pop(broker_id, None)

    def forget_offline_dirs(self, broker_ids: Iterable[int]) -> None:
        """Forget the failed log directories of brokers that have started as new processes."""
        for broker_id in broker_ids:
            self.offline_dirs.pop(broker_id, None)

    def forget_processes(self, broker_ids: Iterable[int]) -> None:
        """Clear the shutting-down status and the failed log directories of these dead brokers."""
        listed = list(broker_ids)
        self.forget_offline_dirs(listed)
        self.shutting_down.difference_update(listed)

    def broker(self, broker_id: int) -> BrokerInfo | None:
        """Return a live or shutting-down broker, or None if it is not registered."""
        return self._brokers.get(broker_id)

    def is_intact(self, broker_id: int) -> bool:
        """Return whether the broker's registration reports an intact log."""
        info = self._brokers.get(broker_id)
        return info is not None and info.log_intact

    def broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a live or shutting-down broker."""
        return self._epochs.get(broker_id)

    @property
    def live_or_shutting_down_ids(self) -> list[int]:
        """The ids of all registered brokers, in numeric order."""
        return sorted(self._brokers)

    @property
    def live_ids(self) -> list[int]:
        """The ids of all registered brokers that are not shutting down, in numeric order."""
        return [broker_id for broker_id in sorted(self._brokers) if broker_id not in self.shutting_down]

    def is_live(self, broker_id: int) -> bool:
        """Return whether the broker is registered and not shutting down."""
        return broker_id in self._brokers and broker_id not in self.shutting_down

    def is_replica_online(
        self, broker_id: int, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        """Return whether the broker is live and the log directory of its replica has not failed."""
        serving = self.is_live(broker_id) or (include_shutting_down and broker_id in self._brokers)
        return serving and (broker_id not in self.offline_dirs or partition not in self.offline_dirs[broker_id])

    def take_up(self, earlier: ControllerContext) -> None:
        """Adopt the context of an earlier term, including topics that no longer exist (Historical.CONTEXT_KEPT).

        Reassignments and deletions that were in progress in that term continue.
        """
        for topic in earlier.topics:
            known = self.has_topic(topic)
            self.add_topic(topic, None if known else earlier.topic_ids.get(topic))
            for partition in earlier.partitions_of(topic):
                if not known or partition in earlier.reassigning:
                    self.set_assignment(partition, earlier.assignment(partition))
                if partition in earlier.leadership:
                    self.leadership.setdefault(partition, earlier.leadership[partition])
        self.reassigning.update(earlier.reassigning)
        self.shutting_down |= earlier.shutting_down
        self.topics_to_be_deleted |= earlier.topics_to_be_deleted
        self.topics_ineligible_for_deletion |= earlier.topics_ineligible_for_deletion

    # -- topics

    @property
    def topics(self) -> list[str]:
        """Return all topics, sorted."""
        return sorted(self._assignments)

    def has_topic(self, topic: str) -> bool:
        """Return whether the topic is known."""
        return topic in self._assignments

    def add_topic(self, topic: str, topic_id: str | None) -> None:
        """Add a topic. Its partitions are added separately."""
        self._assignments.setdefault(topic, {})
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def remove_topic(self, topic: str) -> None:
        """Remove a topic and all its state."""
        partitions = self.partitions_of(topic)
        for replica in self.replicas_of(partitions):
            self.replica_states.pop(replica, None)
        for partition in partitions:
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.reassigning.pop(partition, None)
        self._assignments.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        self.topics_to_be_deleted.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)

    # -- partitions

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Set a partition's replicas."""
        self._assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return a partition's full assignment; empty if the partition is unknown."""
        return self._assignments.get(partition.topic, {}).get(partition.partition, _NOTHING)

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return a partition's replicas, the preferred leader first."""
        return self.assignment(partition).replicas

    def topic_assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        """Return a topic's partitions with their replicas."""
        return dict(self._assignments.get(topic, {}))

    def has_partition(self, partition: TopicPartition) -> bool:
        """Return whether the partition is known."""
        return partition.partition in self._assignments.get(partition.topic, {})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions, in order."""
        return [TopicPartition(topic, number) for number in sorted(self._assignments.get(topic, {}))]

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return all partitions, ordered by topic and number."""
        return [partition for topic in self.topics for partition in self.partitions_of(topic)]

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        """Return all partitions with a replica on that broker."""
        return [partition for partition in self.partitions if broker_id in self.replicas(partition)]

    def partitions_in(self, *states: PartitionState) -> list[TopicPartition]:
        """Return all partitions in one of these states, ordered by topic and number."""
        return sorted(partition for partition, state in self.partition_states.items() if state in states)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Return the partitions without a live leader, except partitions that are being deleted."""
        return [
            partition
            for partition in sorted(self.leadership)
            if not self.is_replica_online(self.leadership[partition].leader, partition)
            and not self.needs_no_leader(partition)
        ]

    @property
    def offline_partition_count(self) -> int:
        """Return OfflinePartitionsCount: the partitions that lost their leader, except those of topics being
        deleted.
        """
        return sum(
            state is PartitionState.OFFLINE and not self.is_being_deleted(partition.topic)
            for partition, state in self.partition_states.items()
        )

    # -- replicas

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """Return all replicas of these partitions, ordered by partition and then as assigned."""
        return [Replica(partition, b) for partition in partitions for b in self.replicas(partition)]

    def replicas_on(self, broker_ids: Iterable[int]) -> list[Replica]:
        """Return all replicas on these brokers."""
        return [Replica(partition, b) for b in sorted(broker_ids) for partition in self.partitions_on(b)]

    def replicas_of_topic_in(self, topic: str, state: ReplicaState) -> list[Replica]:
        """Return a topic's replicas in that state."""
        return [r for r in self.replicas_of(self.partitions_of(topic)) if self.replica_states.get(r) is state]

    def remove_replica(self, replica: Replica) -> None:
        """Remove a deleted replica from its partition's assignment and from the replica states."""
        partition, broker_id = replica
        self.set_assignment(partition, self.assignment(partition).without(broker_id))
        self.replica_states.pop(replica, None)

    # -- deletion

    def is_being_deleted(self, topic: str) -> bool:
        """Return whether the topic is queued for deletion."""
        return topic in self.topics_to_be_deleted

    def needs_no_leader(self, partition: TopicPartition) -> bool:
        """Return whether the partition is being deleted, so that no leader needs to be elected.

        In Kafka, this is true for every partition of a topic queued for deletion. But if a partition's reassignment has
        to end first, the partition needs a leader: without one, deletion and reassignment would wait for each other for
        ever.
        """
        return self.is_being_deleted(partition.topic) and partition not in self.reassigning

    def is_deletion_announced(self, topic: str) -> bool:
        """Return whether brokers are notified that the topic is being deleted.

        Kafka notifies them for every topic queued for deletion. If brokers were notified while the deletion waits for a
        reassignment, the deletion would wait for ever: the added replicas fetch the topic by its topic id, but the
        leader would have dropped this id. For the same reason, StopReplica for replicas that the reassignment removes
        does not contain the leader epoch of a deletion: a broker whose metadata still contain the topic rejects such a
        request.
        """
        return self.is_being_deleted(topic) and not self.is_moving(topic)

    def is_moving(self, topic: str) -> bool:
        """Return whether any partition of the topic is being reassigned."""
        return any(partition.topic == topic for partition in self.reassigning)

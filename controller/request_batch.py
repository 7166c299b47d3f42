"""Collects control requests while partition states change, then sends them together.

Source: kafka.controller.ControllerBrokerRequestBatch. Each broker receives LeaderAndIsr first, then UpdateMetadata,
then StopReplica. Requests are sent only to brokers that are live or shutting down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kio.schema.leader_and_isr.v7 import request as leader_and_isr
from kio.schema.stop_replica.v4 import request as stop_replica
from kio.schema.types import BrokerId, TopicName
from kio.schema.update_metadata.v8 import request as update_metadata
from kio.static.primitive import i8, i16, i32, i64

from zabka.controller.channel_manager import ControllerChannelManager
from zabka.controller.context import ControllerContext
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.topic_ids import topic_id_to_kafka
from zabka.kafka.zk.znodes import BrokerInfo, LeaderAndIsr

LEADER_DURING_DELETE = -2
"""Value of the leader field in UpdateMetadata for a topic that is being deleted (LeaderAndIsr.LeaderDuringDelete)."""
EPOCH_DURING_DELETE = -2
"""Leader epoch in StopReplica that brokers never reject (LeaderAndIsr.EpochDuringDelete)."""
NO_EPOCH = -1

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""org.apache.kafka.common.security.auth.SecurityProtocol ids."""

OnStopReplica = Callable[[int, list[TopicPartition], KafkaMessage], None]
"""Callback for a StopReplica response: (broker, partitions to delete, response)."""
OnLeaderAndIsr = Callable[[int, KafkaMessage], None]
"""Callback for a LeaderAndIsr response: (broker, response)."""


class IllegalState(Exception):
    """The controller is in a state that must never occur. The exception ends the controller term."""


class _Order(NamedTuple):
    """The state of a partition to be sent to one broker."""

    state: LeaderAndIsr
    is_new: bool


class Unsent(NamedTuple):
    """The collected requests that a batch had not sent when it was interrupted."""

    leader_and_isr: dict[int, dict[TopicPartition, _Order]]
    stop_replica: dict[int, dict[TopicPartition, Any]]
    update_brokers: dict[int, None]
    update_partitions: dict[TopicPartition, None]


# A request can have tens of thousands of entries. kio's integer types are plain ints that are validated at
# construction. These values were validated when they were read, so build the entries from plain ints.
_LeaderAndIsrRow: Any = leader_and_isr.LeaderAndIsrPartitionState
_UpdateMetadataRow: Any = update_metadata.UpdateMetadataPartitionState


class RequestBatch:
    """Collects the control requests that result from one change of partition and replica states."""

    def __init__(
        self,
        broker_id: int,
        context: ControllerContext,
        channels: ControllerChannelManager,
        on_stop_replica: OnStopReplica,
        on_leader_and_isr: OnLeaderAndIsr,
    ) -> None:
        self._broker_id = broker_id
        self._context = context
        self._channels = channels
        self._on_stop_replica = on_stop_replica
        self._on_leader_and_isr = on_leader_and_isr
        self._leader_and_isr: dict[int, dict[TopicPartition, _Order]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, Any]] = {}
        self._update_brokers: dict[int, None] = {}
        self._update_partitions: dict[TopicPartition, None] = {}

    def new_batch(self) -> None:
        """Begin a batch.

        Raises IllegalState if the previous batch was not sent, because its state changes would be lost.
        """
        left = [
            name
            for name, waiting in (
                ("LeaderAndIsr", self._leader_and_isr),
                ("UpdateMetadata", self._update_brokers),
                ("StopReplica", self._stop_replica),
            )
            if waiting
        ]
        if left:
            raise IllegalState(f"a new batch while {', '.join(left)} of the last one is unsent")

    def unsent(self) -> Unsent:
        """Return the requests that were collected but not sent."""
        return Unsent(
            dict(self._leader_and_isr),
            dict(self._stop_replica),
            dict(self._update_brokers),
            dict(self._update_partitions),
        )

    def begin_with(self, unsent: Unsent) -> None:
        """Add the unsent requests of an earlier controller term (Historical.POISONED_BATCH)."""
        self._leader_and_isr.update(unsent.leader_and_isr)
        self._stop_replica.update(unsent.stop_replica)
        self._update_brokers.update(unsent.update_brokers)
        self._update_partitions.update(unsent.update_partitions)

    def clear(self) -> None:
        """Discard the collected requests."""
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._update_brokers.clear()
        self._update_partitions.clear()

    # -- collecting

    def add_leader_and_isr(
        self, broker_ids: Iterable[int], partition: TopicPartition, state: LeaderAndIsr, *, is_new: bool
    ) -> None:
        """Add LeaderAndIsr for these brokers, which host the partition's replicas, and UpdateMetadata for every
        broker.
        """
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            waiting = self._leader_and_isr.setdefault(broker_id, {})
            already_new = partition in waiting and waiting[partition].is_new
            waiting[partition] = _Order(state, is_new or already_new)
        self.add_update_metadata(self._context.live_or_shutting_down_ids, [partition])

    def add_stop_replica(self, broker_ids: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """Add StopReplica for this partition to the requests for these brokers. With `delete`, it deletes the
        replica.
        """
        state = self._context.leadership.get(partition)
        if self._context.is_deletion_announced(partition.topic):
            leader_epoch = EPOCH_DURING_DELETE
        else:
            leader_epoch = NO_EPOCH if state is None else state.leader_epoch
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            waiting = self._stop_replica.setdefault(broker_id, {})
            already_delete = partition in waiting and waiting[partition].delete_partition
            waiting[partition] = stop_replica.StopReplicaPartitionState(
                partition_index=i32(partition.partition),
                leader_epoch=i32(leader_epoch),
                delete_partition=delete or already_delete,
            )

    def add_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Add UpdateMetadata to the requests for these brokers.

        The request contains the live brokers and the states of these partitions.
        """
        self._update_brokers.update((broker_id, None) for broker_id in broker_ids if broker_id >= 0)
        self._update_partitions.update(dict.fromkeys(partitions))

    # -- sending

    def send(self) -> None:
        """Queue all collected requests and clear the batch. Raises IllegalState if a broker's queue is full."""
        self._send_leader_and_isr()
        self._send_update_metadata()
        self._send_stop_replica()

    def _send_leader_and_isr(self) -> None:
        rows: dict[tuple[TopicPartition, _Order], Any] = {}
        for broker_id, orders in sorted(self._leader_and_isr.items()):
            epoch = self._context.broker_epoch(broker_id)
            if epoch is None:
                continue
            leaders = dict.fromkeys(order.state.leader for order in orders.values())
            states: dict[TopicPartition, Any] = {}
            for asked in orders.items():
                if asked not in rows:
                    rows[asked] = self._leader_and_isr_row(*asked)
                states[asked[0]] = rows[asked]
            request = leader_and_isr.LeaderAndIsrRequest(
                controller_id=BrokerId(self._broker_id),
                controller_epoch=i32(self._context.epoch),
                broker_epoch=i64(epoch),
                type_=i8(0),
                topic_states=tuple(
                    leader_and_isr.LeaderAndIsrTopicState(
                        topic_name=TopicName(topic),
                        topic_id=topic_id_to_kafka(self._context.topic_ids.get(topic)),
                        partition_states=rows,
                    )
                    for topic, rows in _by_topic(states)
                ),
                live_leaders=tuple(self._live_leaders(leaders)),
            )
            self._channels.send(broker_id, request, partial(self._on_leader_and_isr, broker_id))
        self._leader_and_isr.clear()

    def _leader_and_isr_row(self, partition: TopicPartition, order: _Order) -> Any:
        state, assignment = order.state, self._context.assignment(partition)
        return _LeaderAndIsrRow(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            is_new=order.is_new,
            leader_recovery_state=1 if state.recovering else 0,
        )

    def _update_metadata_row(self, partition: TopicPartition, state: LeaderAndIsr) -> Any:
        context = self._context
        if context.is_deletion_announced(partition.topic):
            state = LeaderAndIsr(LEADER_DURING_DELETE, 0, state.isr, state.controller_epoch)
        replicas = context.replicas(partition)
        return _UpdateMetadataRow(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=state.partition_epoch,
            replicas=replicas,
            offline_replicas=tuple([b for b in replicas if not context.is_replica_online(b, partition)]),
        )

    def _live_leaders(self, leaders: Iterable[int]) -> Iterator[leader_and_isr.LeaderAndIsrLiveLeader]:
        """Yield the leaders that other brokers can reach, with their addresses."""
        for broker_id in sorted(leaders):
            info = self._context.broker(broker_id)
            endpoint = None if info is None else self._channels.endpoint(info)
            if endpoint is not None:
                yield leader_and_isr.LeaderAndIsrLiveLeader(
                    broker_id=BrokerId(broker_id), host_name=endpoint.host, port=i32(endpoint.port)
                )

    def _send_update_metadata(self) -> None:
        known = self._context.leadership
        states = {p: self._update_metadata_row(p, known[p]) for p in self._update_partitions if p in known}
        topic_states = tuple(
            update_metadata.UpdateMetadataTopicState(
                topic_name=TopicName(topic),
                topic_id=topic_id_to_kafka(self._context.topic_ids.get(topic)),
                partition_states=rows,
            )
            for topic, rows in _by_topic(states)
        )
        live = self._context.live_or_shutting_down_ids if self._update_brokers else []
        live_brokers = tuple(_live_broker(_known(self._context.broker(broker_id))) for broker_id in live)
        for broker_id in sorted(self._update_brokers):
            epoch = self._context.broker_epoch(broker_id)
            if epoch is None:
                continue
            request = update_metadata.UpdateMetadataRequest(
                controller_id=BrokerId(self._broker_id),
                controller_epoch=i32(self._context.epoch),
                broker_epoch=i64(epoch),
                topic_states=topic_states,
                live_brokers=live_brokers,
            )
            self._channels.send(broker_id, request)
        self._update_brokers.clear()
        self._update_partitions.clear()

    def _send_stop_replica(self) -> None:
        for broker_id, states in sorted(self._stop_replica.items()):
            epoch = self._context.broker_epoch(broker_id)
            if epoch is None:
                continue
            request = stop_replica.StopReplicaRequest(
                controller_id=BrokerId(self._broker_id),
                controller_epoch=i32(self._context.epoch),
                broker_epoch=i64(epoch),
                topic_states=tuple(
                    stop_replica.StopReplicaTopicState(topic_name=TopicName(topic), partition_states=rows)
                    for topic, rows in _by_topic(states)
                ),
            )
            deleted = [partition for partition, state in states.items() if state.delete_partition]
            self._channels.send(broker_id, request, self._deletion_callback(broker_id, deleted))
        self._stop_replica.clear()

    def _deletion_callback(
        self, broker_id: int, deleted: list[TopicPartition]
    ) -> Callable[[KafkaMessage], None] | None:
        if not deleted:
            return None
        return lambda response: self._on_stop_replica(broker_id, deleted, response)


def _by_topic(states: dict[TopicPartition, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    topics: dict[str, list[Any]] = {}
    for partition in sorted(states):
        topics.setdefault(partition.topic, []).append(states[partition])
    return [(topic, tuple(rows)) for topic, rows in topics.items()]


def _known(info: BrokerInfo | None) -> BrokerInfo:
    assert info is not None, "a broker that has an epoch has a registration"
    return info


def _live_broker(info: BrokerInfo) -> update_metadata.UpdateMetadataBroker:
    return update_metadata.UpdateMetadataBroker(
        id_=BrokerId(info.broker_id),
        endpoints=tuple(
            update_metadata.UpdateMetadataEndpoint(
                port=i32(e.port),
                host=e.host,
                listener=e.listener,
                security_protocol=i16(SECURITY_PROTOCOLS.get(e.security_protocol, 0)),
            )
            for e in info.endpoints
        ),
        rack=info.rack,
    )

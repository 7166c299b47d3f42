"""State machine of replicas: New, Online, Offline and the stages of deletion.

Source: kafka.controller.ZkReplicaStateMachine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zabka.controller.context import ControllerContext, Replica, ReplicaState
from zabka.controller.eligibility import with_isr
from zabka.controller.partition_store import PartitionStore
from zabka.controller.request_batch import RequestBatch
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import NO_LEADER
from zabka.kafka.zk.znodes import LeaderAndIsr

VALID_PREVIOUS: Mapping[ReplicaState, tuple[ReplicaState, ...]] = {
    ReplicaState.NEW: (ReplicaState.NON_EXISTENT,),
    ReplicaState.ONLINE: (
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.OFFLINE: (
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.DELETION_STARTED: (ReplicaState.OFFLINE,),
    ReplicaState.DELETION_SUCCESSFUL: (ReplicaState.DELETION_STARTED,),
    ReplicaState.DELETION_INELIGIBLE: (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),
    ReplicaState.NON_EXISTENT: (ReplicaState.DELETION_SUCCESSFUL,),
}
"""Valid previous states of each state. Any other transition of a replica is rejected."""


def isr_keeping_the_last(state: LeaderAndIsr, broker_id: int) -> tuple[int, ...]:
    """Return the ISR without this broker, unless it is the last member.

    The last member stays, because an ISR is never empty (KAFKA-5083).
    """
    return state.isr if len(state.isr) == 1 else isr_to_the_last(state, broker_id)


def isr_to_the_last(state: LeaderAndIsr, broker_id: int) -> tuple[int, ...]:
    """Return the ISR without this broker, even if the ISR then is empty (Historical.EMPTY_ISR)."""
    return tuple(member for member in state.isr if member != broker_id)


class ReplicaStateMachine:
    """Moves replicas between states. Methods raise only ControllerMoved and SessionExpired."""

    def __init__(
        self,
        context: ControllerContext,
        store: PartitionStore,
        batch: RequestBatch,
        isr_without: Callable[[LeaderAndIsr, int], tuple[int, ...]],
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._isr_without = isr_without
        self._sent: dict[TopicPartition, tuple[LeaderAndIsr, list[int]]] = {}
        """For each partition, the state sent in the current batch, and the brokers to which it was not sent.

        At most one broker was left out: the broker whose replica was removed.
        """

    async def startup(self) -> None:
        """Set every replica to Online or Offline, according to its broker; remove offline replicas from the ISRs."""
        context = self._context
        online: list[Replica] = []
        offline: list[Replica] = []
        for replica in context.replicas_of(context.partitions):
            if context.is_replica_online(replica.broker_id, replica.partition):
                context.replica_states[replica] = ReplicaState.ONLINE
                online.append(replica)
            else:
                # While a broker with one of the replicas is dead, the topic cannot be deleted: see TopicDeletion.
                context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
                offline.append(replica)
        await self.handle(online, ReplicaState.ONLINE)
        await self.handle(offline, ReplicaState.OFFLINE)

    async def handle(self, replicas: Sequence[Replica], target: ReplicaState) -> list[Replica]:
        """Move replicas to a state; return those whose transition is invalid or failed."""
        if not replicas:
            return []
        self._batch.new_batch()
        by_broker: dict[int, list[Replica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.broker_id, []).append(replica)
        refused: list[Replica] = []
        self._sent.clear()
        for broker_id, listed in sorted(by_broker.items()):
            refused += await self._handle(broker_id, listed, target)
        self._batch.send()
        return refused

    async def _handle(self, broker_id: int, replicas: Sequence[Replica], target: ReplicaState) -> list[Replica]:
        states = self._context.replica_states
        valid: list[Replica] = []
        refused: list[Replica] = []
        for replica in replicas:
            current = states.get(replica, ReplicaState.NON_EXISTENT)
            (valid if current in VALID_PREVIOUS[target] else refused).append(replica)
        if target is ReplicaState.NEW:
            refused += self._to_new(valid)
        elif target is ReplicaState.ONLINE:
            self._to_online(valid)
        elif target is ReplicaState.OFFLINE:
            refused += await self._to_offline(broker_id, valid)
        elif target is ReplicaState.NON_EXISTENT:
            for replica in valid:
                self._context.remove_replica(replica)
        else:
            states.update((replica, target) for replica in valid)
            if target is ReplicaState.DELETION_STARTED:
                for replica in valid:
                    self._batch.add_stop_replica([broker_id], replica.partition, delete=True)
        return refused

    def _to_new(self, replicas: Sequence[Replica]) -> list[Replica]:
        refused: list[Replica] = []
        for replica in replicas:
            state = self._context.leadership.get(replica.partition)
            if state is not None and state.leader == replica.broker_id:
                # Reject the transition of a leader, because a replica that starts empty must not lead.
                refused.append(replica)
                continue
            if state is not None:
                self._batch.add_leader_and_isr([replica.broker_id], replica.partition, state, is_new=True)
            self._context.replica_states[replica] = ReplicaState.NEW
        return refused

    def _to_online(self, replicas: Sequence[Replica]) -> None:
        context = self._context
        for replica in replicas:
            current = context.replica_states[replica]
            state = context.leadership.get(replica.partition)
            # A new replica received the state when its partition came online.
            if current is not ReplicaState.NEW and state is not None and not self._leads_to_delete(replica, state):
                self._batch.add_leader_and_isr([replica.broker_id], replica.partition, state, is_new=False)
            context.replica_states[replica] = ReplicaState.ONLINE

    def _leads_to_delete(self, replica: Replica, state: LeaderAndIsr) -> bool:
        """Return whether the replica is the leader of a partition that is being deleted.

        After its leader has failed, no leader is elected for such a partition. When the leader returns, Kafka makes it
        leader again in the leader epoch from before its restart. This controller only deletes the partition, unless a
        reassignment has to finish first.
        """
        return self._context.needs_no_leader(replica.partition) and state.leader == replica.broker_id

    async def _to_offline(self, broker_id: int, replicas: Sequence[Replica]) -> list[Replica]:
        context = self._context
        for replica in replicas:
            self._batch.add_stop_replica([broker_id], replica.partition, delete=False)
        led = [r.partition for r in replicas if r.partition in context.leadership]
        shrunk = await self._remove_from_isr(broker_id, led)
        for partition, state in shrunk.items():
            if not context.needs_no_leader(partition):
                self._send_to_others(broker_id, partition, state)
        refused: list[Replica] = []
        for replica in replicas:
            unwritten = replica.partition in context.leadership and replica.partition not in shrunk
            # If the topic is being deleted, the state znode may already be deleted. The deletion must continue without
            # it.
            if not unwritten or context.is_being_deleted(replica.partition.topic):
                context.replica_states[replica] = ReplicaState.OFFLINE
            else:
                refused.append(replica)
            if replica.partition not in context.leadership:
                self._batch.add_update_metadata(context.live_or_shutting_down_ids, [replica.partition])
        return refused

    def _send_to_others(self, broker_id: int, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """Send a partition's state to all replicas except the removed one.

        If one batch removes several replicas and the state does not change, the first removal sends the state to all
        other replicas. After that, only the replica that was removed first still needs the state. Iterating over all
        replicas each time would take hours for a partition with very many dead replicas.
        """
        sent_state, left_out = self._sent.get(partition, (None, []))
        if sent_state == state:
            others = left_out
        else:
            replicas = self._context.replicas(partition)
            others = [b for b in replicas if b != broker_id]
            # A broker that is no longer assigned deletes its replica, so do not send it the state.
            self._sent[partition] = (state, [broker_id] if len(others) < len(replicas) else [])
        self._batch.add_leader_and_isr(others, partition, state, is_new=False)

    async def _remove_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Remove a broker from the ISRs that contain it; return the current state of every partition that can be read.

        A partition that the broker led has no leader afterwards. If the broker is not in a partition's ISR, the state
        is not written, but it is sent to the other replicas again, as in Kafka.
        """
        results: dict[TopicPartition, LeaderAndIsr] = {}
        remaining = list(partitions)
        while remaining:
            current: dict[TopicPartition, LeaderAndIsr] = {}
            for partition, state in (await self._store.read(remaining)).items():
                if isinstance(state, ErrorCode) or state.controller_epoch > self._context.epoch:
                    continue
                if broker_id in state.isr:
                    current[partition] = state
                else:
                    self._context.leadership[partition] = results[partition] = state
            remaining = await self._write_without(broker_id, current, results)
        return results

    async def _write_without(
        self,
        broker_id: int,
        current: Mapping[TopicPartition, LeaderAndIsr],
        results: dict[TopicPartition, LeaderAndIsr],
    ) -> list[TopicPartition]:
        if not current:
            return []
        shrunk = {
            partition: with_isr(state, self._isr_without(state, broker_id))._replace(
                leader=NO_LEADER if state.leader == broker_id else state.leader,
                leader_epoch=state.leader_epoch + 1,
            )
            for partition, state in current.items()
        }
        updates = await self._store.update(shrunk)
        cause = "controlled_shutdown" if broker_id in self._context.shutting_down else "replica_offline"
        for partition, state in updates.written.items():
            self._context.leadership[partition] = results[partition] = state
            zxid = updates.zxids[partition]
            self._store.announce_leader(partition, current[partition], state, zxid, cause)
        return updates.conflicted

"""State machine of partitions: New, Online, Offline, NonExistent (kafka.controller.ZkPartitionStateMachine)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zabka.controller.context import ControllerContext, PartitionState
from zabka.controller.election import (
    ElectionStrategy,
    is_unclean,
    leader_for_controlled_shutdown,
    leader_for_offline,
    leader_for_preferred,
    leader_for_reassignment,
)
from zabka.controller.eligibility import trusted
from zabka.controller.metrics import ControllerStats
from zabka.controller.partition_store import PartitionStore
from zabka.controller.request_batch import RequestBatch
from zabka.controller.topic_configs import TopicConfigs
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import TopicPartition
from zabka.kafka.zk.znodes import LeaderAndIsr

VALID_PREVIOUS: Mapping[PartitionState, tuple[PartitionState, ...]] = {
    PartitionState.NEW: (PartitionState.NON_EXISTENT,),
    PartitionState.ONLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.NON_EXISTENT: (PartitionState.OFFLINE,),
}
"""Valid previous states of each state. Any other transition of a partition is rejected."""


class Refused(NamedTuple):
    """The reason why a partition's transition was rejected (StateChangeFailedException)."""

    reason: str
    no_leader_available: bool = False
    """True if there was no error, but all brokers that could lead are down and may return."""


Result = LeaderAndIsr | Refused


class PartitionStateMachine:
    """Moves partitions between states, and elects leaders in the process.

    Methods raise only ControllerMoved and SessionExpired.
    """

    def __init__(
        self,
        context: ControllerContext,
        store: PartitionStore,
        batch: RequestBatch,
        configs: TopicConfigs,
        stats: ControllerStats,
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._configs = configs
        self._stats = stats

    async def startup(self) -> None:
        """Set each partition's initial state from the context, then try to elect leaders for those without one."""
        for partition in self._context.partitions:
            state = self._context.leadership.get(partition)
            if state is None:
                found = PartitionState.NEW
            elif self._context.is_replica_online(state.leader, partition):
                found = PartitionState.ONLINE
            else:
                found = PartitionState.OFFLINE
            self._context.partition_states[partition] = found
        await self.trigger_online()

    async def trigger_online(self, topic: str | None = None) -> dict[TopicPartition, Result]:
        """Try to elect a leader for every offline or new partition that is not being deleted.

        If `topic` is given, try this only for the partitions of that topic.
        """
        waiting = [
            partition
            for partition in self._context.partitions_in(PartitionState.OFFLINE, PartitionState.NEW)
            if not self._context.needs_no_leader(partition) and topic in (None, partition.topic)
        ]
        return await self.handle(waiting, PartitionState.ONLINE, ElectionStrategy.OFFLINE)

    async def handle(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy = ElectionStrategy.OFFLINE,
    ) -> dict[TopicPartition, Result]:
        """Move partitions to a state.

        Return the result of each election. For other transitions, return only the rejections.
        """
        if not partitions:
            return {}
        self._batch.new_batch()
        results: dict[TopicPartition, Result] = {}
        valid: dict[PartitionState, list[TopicPartition]] = {}
        for partition in partitions:
            current = self._context.partition_states.get(partition, PartitionState.NON_EXISTENT)
            if current in VALID_PREVIOUS[target]:
                valid.setdefault(current, []).append(partition)
            else:
                results[partition] = Refused(f"cannot go from {current.value} to {target.value}")
        if target is PartitionState.ONLINE:
            known = await self._initialize(valid.pop(PartitionState.NEW, []), results)
            results.update(await self._elect([*known, *(p for listed in valid.values() for p in listed)], strategy))
        elif target is PartitionState.NON_EXISTENT:
            for listed in valid.values():
                for partition in listed:
                    self._context.partition_states.pop(partition, None)
        else:
            for listed in valid.values():
                self._context.partition_states.update((partition, target) for partition in listed)
        self._batch.send()
        return results

    # -- New -> Online

    async def _initialize(
        self, partitions: Sequence[TopicPartition], results: dict[TopicPartition, Result]
    ) -> list[TopicPartition]:
        """Write the first state of new partitions: the first live replica leads, and all live replicas are in the ISR.

        Returns the partitions that already have a state. These are new only to this controller, which could not read
        their topic before. Their leaders are then elected from their ISR. Kafka makes no decisions about such
        partitions until the next controller is elected.
        """
        states: dict[TopicPartition, LeaderAndIsr] = {}
        for partition in partitions:
            live = [b for b in self._context.replicas(partition) if self._context.is_replica_online(b, partition)]
            if live:
                states[partition] = LeaderAndIsr(live[0], 0, tuple(live), self._context.epoch)
            else:
                results[partition] = Refused("no replica is live", no_leader_available=True)
        if not states:
            return []
        updates = await self._store.create(states)
        for partition, state in updates.written.items():
            self._context.leadership[partition] = state
            self._context.partition_states[partition] = PartitionState.ONLINE
            self._batch.add_leader_and_isr(state.isr, partition, state, is_new=True)
            self._store.announce_leader(partition, None, state, updates.zxids[partition], "new_topic")
            results[partition] = state
        for partition, error in updates.failed.items():
            results[partition] = Refused(f"its state could not be written: {error.name}")
        return updates.conflicted

    # -- Offline, Online -> Online

    async def _elect(
        self, partitions: Sequence[TopicPartition], strategy: ElectionStrategy
    ) -> dict[TopicPartition, Result]:
        """Repeat elections until every partition has a leader or cannot have one.

        If another writer has changed a state meanwhile, read the state again.
        """
        results: dict[TopicPartition, Result] = {}
        remaining = list(partitions)
        while remaining:
            remaining = await self._elect_once(remaining, strategy, results)
        return results

    async def _elect_once(
        self,
        partitions: Sequence[TopicPartition],
        strategy: ElectionStrategy,
        results: dict[TopicPartition, Result],
    ) -> list[TopicPartition]:
        current = await self._store.confirmed(self._current_states(await self._store.read(partitions), results))
        unclean = await self._unclean_permissions(current, strategy, results)
        chosen: dict[TopicPartition, LeaderAndIsr] = {}
        for partition, state in current.items():
            if partition in results:
                continue
            elected = self._choose(partition, state, strategy, unclean=unclean.get(partition, False))
            if elected is None:
                results[partition] = Refused(f"no replica can lead ({strategy.value})", no_leader_available=True)
            else:
                chosen[partition] = elected
                self._stats.unclean_elections += is_unclean(state, elected)
        if not chosen:
            return []
        updates = await self._store.update(chosen)
        for partition, written in updates.written.items():
            self._led(partition, current[partition], written, updates.zxids[partition], strategy)
            results[partition] = written
        for partition, error in updates.failed.items():
            results[partition] = Refused(f"its state could not be written: {error.name}")
        return updates.conflicted

    def _current_states(
        self,
        read: Mapping[TopicPartition, LeaderAndIsr | ErrorCode],
        results: dict[TopicPartition, Result],
    ) -> dict[TopicPartition, LeaderAndIsr]:
        current: dict[TopicPartition, LeaderAndIsr] = {}
        for partition, state in read.items():
            if isinstance(state, ErrorCode):
                results[partition] = Refused(f"its state could not be read: {state.name}")
            elif state.controller_epoch > self._context.epoch:
                results[partition] = Refused(f"controller epoch {state.controller_epoch} wrote its state")
            else:
                current[partition] = state
        return current

    async def _unclean_permissions(
        self,
        current: Mapping[TopicPartition, LeaderAndIsr],
        strategy: ElectionStrategy,
        results: dict[TopicPartition, Result],
    ) -> dict[TopicPartition, bool]:
        """Return for each partition whether an unclean election is allowed.

        Configurations are read only if no clean election is possible.
        """
        if strategy is ElectionStrategy.OFFLINE_UNCLEAN:
            return dict.fromkeys(current, True)
        if strategy is not ElectionStrategy.OFFLINE:
            return {}
        lost = [
            partition
            for partition, state in current.items()
            if not any(self._context.is_replica_online(b, partition) for b in (*trusted(state), *state.eligible))
        ]
        enabled = await self._configs.unclean_enabled(list(dict.fromkeys(p.topic for p in lost)))
        allowed: dict[TopicPartition, bool] = {}
        for partition in lost:
            answer = enabled[partition.topic]
            if isinstance(answer, bool):
                allowed[partition] = answer
            else:
                results[partition] = Refused(f"the topic's configuration: {answer}")
        return allowed

    def _choose(
        self, partition: TopicPartition, state: LeaderAndIsr, strategy: ElectionStrategy, *, unclean: bool
    ) -> LeaderAndIsr | None:
        context = self._context
        replicas = context.replicas(partition)
        live = [b for b in replicas if context.is_replica_online(b, partition)]
        if strategy is ElectionStrategy.PREFERRED:
            return leader_for_preferred(state, replicas, live)
        if strategy is ElectionStrategy.REASSIGNMENT:
            return leader_for_reassignment(state, context.assignment(partition).target, live)
        if strategy is ElectionStrategy.CONTROLLED_SHUTDOWN:
            online = [b for b in replicas if context.is_replica_online(b, partition, include_shutting_down=True)]
            return leader_for_controlled_shutdown(state, replicas, online, context.shutting_down)
        return leader_for_offline(state, replicas, live, unclean=unclean)

    def _led(
        self,
        partition: TopicPartition,
        old: LeaderAndIsr,
        new: LeaderAndIsr,
        zxid: int,
        strategy: ElectionStrategy,
    ) -> None:
        context = self._context
        context.leadership[partition] = new
        context.partition_states[partition] = PartitionState.ONLINE
        recipients = self._recipients(partition, strategy)
        self._batch.add_leader_and_isr(recipients, partition, new, is_new=False)
        unclean = is_unclean(old, new)
        if unclean:
            cause = "unclean"
        else:
            cause = "offline" if strategy is ElectionStrategy.OFFLINE_UNCLEAN else strategy.value
        self._store.announce_leader(partition, old, new, zxid, cause, unclean=unclean)

    def _recipients(self, partition: TopicPartition, strategy: ElectionStrategy) -> list[int]:
        """Return the brokers that must receive an election's result (ElectionResult.liveReplicas).

        The request batch drops dead brokers.
        """
        context = self._context
        assignment = context.assignment(partition)
        if strategy is ElectionStrategy.PREFERRED:
            return list(assignment.replicas)
        if strategy is ElectionStrategy.REASSIGNMENT:
            return list(assignment.target)
        leaving_too = strategy is ElectionStrategy.CONTROLLED_SHUTDOWN
        return [
            b for b in assignment.replicas if context.is_replica_online(b, partition, include_shutting_down=leaving_too)
        ]

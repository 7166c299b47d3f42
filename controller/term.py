"""One controller term of a broker: its whole state and its components, from election to resignation.

No object survives the end of the term. A broker that is elected again begins with new objects, so neither an old
context nor a half-filled request batch can act in a later epoch (KAFKA-4447, KAFKA-5310, KAFKA-12315).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from zabka.controller.causes import CurrentCauses
from zabka.controller.channel_manager import ControllerChannelManager
from zabka.controller.config import ControllerConfig
from zabka.controller.context import ControllerContext, Replica
from zabka.controller.eligibility import Eligibility, EligibleReplicas, NoEligibleReplicas
from zabka.controller.historical import Historical
from zabka.controller.legacy import Legacy, PoisonedReplicaStateMachine
from zabka.controller.metrics import ControllerStats
from zabka.controller.partition_state_machine import PartitionStateMachine
from zabka.controller.partition_store import PartitionStore
from zabka.controller.replica_state_machine import ReplicaStateMachine, isr_keeping_the_last, isr_to_the_last
from zabka.controller.request_batch import RequestBatch
from zabka.controller.topic_configs import TopicConfigs
from zabka.controller.topic_deletion import TopicDeletion
from zabka.ensemble.client.service import Watcher
from zabka.ensemble.errors import ErrorCode, error_for
from zabka.ensemble.ports import Runtime, Timer
from zabka.ensemble.records import Stat
from zabka.journal.cause import Cause, request_cause, timer_cause
from zabka.journal.events import ControllerEventFailed, TopicPartition
from zabka.kafka.ports import UNKNOWN_BROKER_EPOCH, BrokerChannel, BrokerId, Emit, KafkaMessage
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import FencedWriter, UnfencedWriter, Zk
from zabka.kafka.zk.registration import Won, create_recursive
from zabka.kafka.zk.znodes import BrokerInfo, TopicAssignment


class Signals(Protocol):
    """Interface through which a term uses the controller's event queue."""

    def watcher(self, event: str, argument: str = "") -> Watcher:
        """Return a watcher that queues this event; equal arguments return the same watcher."""
        ...

    def forget_watcher(self, event: str, argument: str) -> None:
        """Remove the watcher of this event for an argument that will not be used again."""
        ...

    def put(self, event: str, argument: str, caused_by: Cause) -> None:
        """Queue an event for the term that is active when the event is processed."""
        ...

    def put_for(
        self, term: ControllerTerm, event: str, process: Callable[[], Awaitable[None]], caused_by: Cause
    ) -> None:
        """Queue an event that is processed only if this controller term has not ended by then."""
        ...


class ControllerTerm:
    """The state and components of an active controller."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        won: Won,
        zk: Zk,
        config: ControllerConfig,
        channel: BrokerChannel,
        runtime: Runtime,
        emit: Emit,
        causes: CurrentCauses,
        signals: Signals,
        legacy: Legacy,
        stats: ControllerStats,
        on_leader_and_isr: Callable[[ControllerTerm, int, KafkaMessage], None],
    ) -> None:
        old = config.historical
        self.broker_id = broker_id
        self.config = config
        self.runtime = runtime
        self.emit = emit
        self.causes = causes
        self.signals = signals
        self.zk = zk
        self.context = ControllerContext(won.epoch, won.epoch_zk_version)
        writer = UnfencedWriter if Historical.UNFENCED_CONTROLLER in old else FencedWriter
        self.writer = writer(zk, broker_id, won.epoch, won.epoch_zk_version, emit)
        self.channels = ControllerChannelManager(channel, runtime, config, self._on_refusal)
        answered = partial(on_leader_and_isr, self)
        self.batch = RequestBatch(broker_id, self.context, self.channels, self._on_stop_replica, answered)
        configs = TopicConfigs(zk, runtime, config)
        eligibility: Eligibility = EligibleReplicas(self.context, configs)
        if old & {Historical.LAST_REPLICA_STANDING, Historical.HIGH_WATERMARK_UNDER_MIN_ISR}:
            eligibility = NoEligibleReplicas()
        self.store = PartitionStore(self.writer, self.context, eligibility, emit, causes)
        self.partitions = PartitionStateMachine(self.context, self.store, self.batch, configs, stats)
        self.legacy = legacy
        isr_without = isr_to_the_last if Historical.EMPTY_ISR in old else isr_keeping_the_last
        if Historical.POISONED_BATCH in old:
            self.replica_batch = RequestBatch(broker_id, self.context, self.channels, self._on_stop_replica, answered)
            self.replicas: ReplicaStateMachine = PoisonedReplicaStateMachine(
                self.context, self.store, self.replica_batch, isr_without
            )
        else:
            self.replica_batch = self.batch
            self.replicas = ReplicaStateMachine(self.context, self.store, self.batch, isr_without)
        legacy.fill(self.replica_batch)
        self.deletion = TopicDeletion(
            context=self.context,
            writer=self.writer,
            batch=self.batch,
            partitions=self.partitions,
            replicas=self.replicas,
            emit=emit,
            causes=causes,
            forget_topic=lambda topic: signals.forget_watcher("PartitionModifications", topic),
        )
        self.finalized_features: dict[str, int] = {}
        """Content of /feature. Brokers that do not support these features are ignored."""
        self.unreadable_topics: dict[str, None] = {}
        """Topics with an unreadable znode. They are ignored until the znode is repaired."""
        self._rebalance_timer: Timer | None = None

    def resign(self) -> None:
        """Stop all components at once (onControllerResignation)."""
        self.legacy.leave(self.context, self.replica_batch)
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
        self.channels.shutdown()
        self.batch.clear()
        self.replica_batch.clear()

    def schedule_rebalance(self, delay_ms: int) -> None:
        """Schedule a check for leader imbalance after this delay."""
        self._rebalance_timer = self.runtime.call_later(
            delay_ms,
            lambda: self.signals.put("AutoPreferredReplicaLeaderElection", "", timer_cause("auto-leader-rebalance")),
        )

    def send_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Send these brokers an UpdateMetadata with the live brokers and the states of these partitions."""
        self.batch.new_batch()
        self.batch.add_update_metadata(broker_ids, partitions)
        self.batch.send()

    def report(self, event: str, problem: str) -> None:
        """Journal unreadable data that another process wrote, and how the controller continues without it."""
        self.emit(ControllerEventFailed(self.broker_id, self.context.epoch, event, problem))

    # -- reading the cluster

    async def read_list(self, path: str, event: str) -> list[str]:
        """Return the children of a path that every broker creates at its start. Set a watch that queues `event`.

        If the path was deleted, create it again. Kafka treats a deleted path as empty, and gets no notification for it
        until the next controller is elected. Raises SessionExpired and ZooKeeperError.
        """
        service, watcher = self.zk.service, self.signals.watcher(event)
        while True:
            outcome = await self.zk.attempt(lambda: service.get_children(path, watcher))
            if outcome.value is not None:
                return outcome.value
            if outcome.error is not ErrorCode.NO_NODE:
                raise error_for(outcome.error, path)
            self.report(event, f"{path} is missing; made again")
            await create_recursive(self.zk, path)

    async def read_brokers(self) -> dict[int, tuple[BrokerInfo, int]]:
        """Return every registered broker with its epoch; set watches on the list of brokers and on each broker."""
        service, signals = self.zk.service, self.signals
        names = await self.read_list(znodes.BROKER_IDS, "BrokerChange")
        ids = sorted(number for name in names if (number := znodes.plain_number(name, znodes.INT32_MAX)) is not None)
        outcomes = await self.zk.batch(
            [partial(service.get, znodes.broker_path(b), signals.watcher("BrokerModifications", str(b))) for b in ids]
        )
        brokers: dict[int, tuple[BrokerInfo, int]] = {}
        for broker_id, outcome in zip(ids, outcomes, strict=True):
            if outcome.value is None:
                if outcome.error is not ErrorCode.NO_NODE:
                    raise error_for(outcome.error, znodes.broker_path(broker_id))
                continue
            data, stat = outcome.value
            info = znodes.decode_broker(broker_id, data)
            if info is None:
                self.report("BrokerChange", f"{znodes.broker_path(broker_id)} is not readable; left out")
            elif not info.supports(self.finalized_features):
                self.report("BrokerChange", f"broker {broker_id} does not support the finalized features; left out")
            else:
                brokers[broker_id] = (info, self.broker_epoch(stat))
        return brokers

    def broker_epoch(self, registration: Stat) -> int:
        """Return the broker epoch of a registration znode. With Historical.NO_BROKER_EPOCH, the epoch is unknown."""
        return UNKNOWN_BROKER_EPOCH if Historical.NO_BROKER_EPOCH in self.config.historical else registration.czxid

    async def read_topic_names(self) -> list[str]:
        """Return every topic whose name fits into requests; set a watch on the list of topics."""
        names = await self.read_list(znodes.BROKER_TOPICS, "TopicChange")
        # A topic with a longer name does not fit into a request, and would block the request for all other topics.
        return [name for name in names if znodes.is_tellable(name)]

    async def read_topics(self, topics: Sequence[str]) -> dict[str, TopicAssignment]:
        """Return the assignments of these topics, except missing or unreadable topics; set a watch on each topic."""
        service, signals = self.zk.service, self.signals
        outcomes = await self.zk.batch(
            [partial(service.get, znodes.topic_path(t), signals.watcher("PartitionModifications", t)) for t in topics]
        )
        found: dict[str, TopicAssignment] = {}
        for topic, outcome in zip(topics, outcomes, strict=True):
            if outcome.value is None:
                if outcome.error is not ErrorCode.NO_NODE:
                    raise error_for(outcome.error, znodes.topic_path(topic))
                continue
            assignment = znodes.decode_topic(outcome.value[0])
            if assignment is None:
                self.unreadable_topics[topic] = None
                self.report("TopicChange", f"{znodes.topic_path(topic)} is not readable; left out")
            else:
                self.unreadable_topics.pop(topic, None)
                found[topic] = assignment
        return found

    # -- responses of brokers

    def _on_refusal(self) -> None:
        """Check whether this term has ended, because a broker's response shows a later controller epoch.

        No other check would detect the later controller if /controller still names this broker and this controller has
        nothing to write.
        """
        self.signals.put("ControllerChange", "", request_cause("of a later controller"))

    def _on_stop_replica(self, broker_id: int, deleted: list[TopicPartition], response: KafkaMessage) -> None:
        """Process a broker's response to a StopReplica that deletes replicas.

        If the topic is not being deleted, nothing waits for this response.
        """
        ended = [p for p in deleted if p.topic in self.context.topics_with_deletion_started]
        if not ended:
            return
        failed: dict[TopicPartition, None] = {}
        if response.error_code != 0:
            failed = dict.fromkeys(deleted)
        for row in response.partition_errors:
            if row.error_code != 0:
                failed[TopicPartition(str(row.topic_name), int(row.partition_index))] = None
        done = [Replica(partition, broker_id) for partition in ended if partition not in failed]
        missed = [Replica(partition, broker_id) for partition in ended if partition in failed]

        async def process() -> None:
            await self.deletion.fail(missed)
            if done:
                await self.deletion.complete(done)

        self.put_for_process(
            broker_id, "TopicDeletionStopReplicaResponseReceived", process, request_cause("StopReplica")
        )

    def put_for_process(
        self, broker_id: int, event: str, process: Callable[[], Awaitable[None]], caused_by: Cause
    ) -> None:
        """Queue an event for a broker's response. It is processed only if the same broker process is still registered.

        A new process receives all states again, and may succeed where the earlier one failed. Kafka attributes the
        response to the new process.
        """
        broker_epoch = self.context.broker_epoch(broker_id)

        async def process_if_same() -> None:
            if self.context.broker_epoch(broker_id) == broker_epoch:
                await process()

        self.signals.put_for(self, event, process_if_same, caused_by)

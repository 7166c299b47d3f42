"""Several replica managers on virtual time, a network with latency between them, and a controller driven by the
test.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.broker_sim.configs.broker_config import parse_config
from zabka.broker_sim.configs.replica_config import ReplicaConfig
from zabka.broker_sim.handlers.data import DataHandlers
from zabka.broker_sim.ports import FetchedPartition, FetchParams, FetchPartition, ProducedPartition
from zabka.broker_sim.replication.environment import BrokerIdentity, ReplicaPorts, ReplicaStorage
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.broker_sim.request_context import RequestContext
from zabka.journal.checkers.record_invariants import CommittedRecordsSurvive
from zabka.journal.events import Entry, Event, FaultInjected, LeaderElected, TopicPartition
from zabka.journal.high_watermarks import high_watermarks_reached
from zabka.kafka.ports import ChannelBroken, Endpoint
from zabka.kafka.record_batch import Record, build_batch, decode_records
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, request, respond
from zabka.simulation.engine.scheduler import Scheduler

T = TypeVar("T")
TP = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)
"""Topic id in the format of Kafka's messages. Inside a broker, topic ids are strings."""
LATENCY_MS = 1
LAG_MS = 1_000
KAFKA_CONFIG = parse_config("broker.id=1\nzookeeper.connect=sim:2181")


def batch(*values: str, **options: Any) -> bytes:
    return build_batch([Record(None, value.encode(), 1_000 + i) for i, value in enumerate(values)], **options)


def proposed_isr(row: Any) -> tuple[int, ...]:
    """Return the proposed ISR members from a partition entry of an AlterPartition request, in any version."""
    members = getattr(row, "new_isr_with_epochs", None)
    return tuple(row.new_isr) if members is None else tuple(int(member.broker_id) for member in members)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that completes without waiting."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("it waits")


class Metadata:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._cluster.alive

    def endpoint(self, broker_id: int, listener: str | None = None) -> Endpoint | None:
        return Endpoint(broker_id, "sim", 9092) if self.is_alive(broker_id) else None

    def rack(self, broker_id: int) -> str | None:
        return self._cluster.racks.get(broker_id)

    def partition(self, topic_partition: TopicPartition) -> Any:
        state = self._cluster.states.get(topic_partition)
        return None if topic_partition in self._cluster.announced_deletions else state

    def topic_of_id(self, topic_id: UUID) -> str | None:
        return TP.topic if topic_id == TOPIC_ID else None


class Channel:
    """Sends Fetch and ListOffsets requests to another broker, with latency both ways. A partitioned link delivers
    nothing.
    """

    def __init__(self, cluster: Cluster, broker: Broker) -> None:
        self._cluster = cluster
        self._broker = broker

    def call(self, to: Endpoint, message: Any, timeout_ms: int) -> Any:
        answer = self._broker.runtime.future()

        def broken() -> None:
            if not answer.done():
                answer.set_exception(ChannelBroken())

        def answered(response: Any) -> None:
            if self._cluster.linked(to.broker_id, self._broker.id):
                self._cluster.scheduler.after(
                    self._cluster.latency_ms * 1000, lambda: answer.done() or answer.set_result(response)
                )

        def deliver() -> None:
            target = self._cluster.brokers[to.broker_id]
            if not self._cluster.linked(self._broker.id, to.broker_id):
                return
            if target.runtime.stopped:
                broken()
            else:
                target.runtime.spawn(target.serve(message, answered), "serve")

        self._cluster.scheduler.after(self._cluster.latency_ms * 1000, deliver)
        self._broker.runtime.call_later(timeout_ms, broken)
        return answer

    def forget(self, broker_id: int) -> None:
        return


class Gate:
    """Sends AlterPartition requests to the test's controller. Functions in `script` replace it for single requests."""

    def __init__(self, cluster: Cluster, broker: Broker) -> None:
        self._cluster = cluster
        self._broker = broker

    def call(self, message: Any, timeout_ms: int) -> Any:
        answer = self._broker.runtime.future()
        self._cluster.alterations.append(message)

        def deliver() -> None:
            if answer.done() or not self._cluster.controller_reachable:
                return
            script = self._cluster.script
            handle = script.pop(0) if script else self._cluster.alter
            response = handle(message)
            if response is not None:
                delay_us = self._cluster.alter_delay_ms * 1000
                self._cluster.scheduler.after(delay_us, lambda: answer.done() or answer.set_result(response))

        self._cluster.scheduler.after(self._cluster.alter_delay_ms * 1000, deliver)
        self._broker.runtime.call_later(timeout_ms, lambda: answer.done() or answer.set_exception(ChannelBroken()))
        return answer


class Broker:
    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.id = broker_id
        self.cluster = cluster
        self.directory = MemoryLogDirectory()
        self.more_directories: list[MemoryLogDirectory] = []
        self.epoch = 100
        self.boot()

    def boot(self) -> None:
        cluster = self.cluster
        self.runtime = SimRuntime(cluster.scheduler, Random(self.id))
        self.manager = ReplicaManager(
            cluster.config,
            identity=BrokerIdentity(broker_id=self.id, broker_epoch=lambda: self.epoch),
            ports=ReplicaPorts(
                runtime=self.runtime,
                channel=Channel(cluster, self),
                controller=Gate(cluster, self),
                metadata=Metadata(cluster),
                emit=lambda event: cluster.emit(f"broker-{self.id}", event),
            ),
            storage=ReplicaStorage(
                log_directories=[self.directory, *self.more_directories],
                high_watermarks_reached=lambda: high_watermarks_reached(cluster.events(Event, self.id)),
            ),
            topic_configs=lambda topic: cluster.topic_configs.get(topic, {}),
        )
        metadata: Any = Metadata(cluster)
        self.handlers = DataHandlers(KAFKA_CONFIG, metadata, self.manager, self.runtime).table()
        self.manager.start()

    @property
    def partition(self) -> Partition:
        return self.manager.partitions[TP]

    @property
    def values(self) -> list[str]:
        log = self.partition.log
        data = b""
        offset = log.start_offset
        while offset < log.end_offset:
            chunk = log.read(offset, 1 << 20, log.end_offset, True)
            data += chunk
            offset = decode_records(chunk)[-1].offset + 1
        return [(record.value or b"").decode() for record in decode_records(data)]

    async def serve(self, message: Any, answered: Callable[[Any], None]) -> None:
        if api_key_of(message) == ApiKey.FETCH:
            self.cluster.fetches.append(message)
        handler = self.handlers[ApiKey(api_key_of(message))]
        answered(await handler(message, RequestContext("", "PLAINTEXT")))


class Cluster:
    """Cluster of brokers 1 to `count`, with one partition unless a test creates more."""

    made: ClassVar[list[Cluster]] = []

    def __init__(self, count: int = 3, config: ReplicaConfig | None = None, **overrides: Any) -> None:
        self.made.append(self)
        self.scheduler = Scheduler()
        self.config = config or replace(ReplicaConfig(replica_lag_time_max_ms=LAG_MS), **overrides)
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.journal: list[tuple[str, Event]] = []
        self.alterations: list[Any] = []
        self.script: list[Callable[[Any], Any]] = []
        self.controller_reachable = True
        self.latency_ms = LATENCY_MS
        self.alter_delay_ms = LATENCY_MS
        self.controller_epoch = 1
        self.cut: set[tuple[int, int]] = set()
        self.racks: dict[int, str] = {}
        self.topic_id: UUID | None = TOPIC_ID
        self.fetches: list[Any] = []
        self.states: dict[TopicPartition, dict[str, Any]] = {}
        self.announced_deletions: set[TopicPartition] = set()
        """Partitions whose deletion the controller has announced with UpdateMetadata."""
        self.alive: set[int] = set(range(1, count + 1))
        self.brokers = {broker_id: Broker(self, broker_id) for broker_id in range(1, count + 1)}

    def __getitem__(self, broker_id: int) -> Broker:
        return self.brokers[broker_id]

    @classmethod
    def stop_all(cls) -> None:
        """Stop every task of all clusters created so far."""
        for cluster in cls.made:
            for broker in cluster.brokers.values():
                broker.runtime.stop()
        cls.made.clear()

    # ---- journal -------------------------------------------------------------------------------------------------

    def emit(self, node: str, event: Event) -> None:
        self.journal.append((node, event))

    def events(self, kind: type[Event], broker_id: int | None = None) -> list[Any]:
        return [
            event
            for _, event in self.journal
            if isinstance(event, kind) and broker_id in (None, getattr(event, "broker_id", None))
        ]

    def entries(self) -> list[Entry]:
        return [Entry(node, at, at, at, event) for at, (node, event) in enumerate(self.journal, 1)]

    def violations(self) -> list[str]:
        checker = CommittedRecordsSurvive()
        return [what for entry in self.entries() for what in checker.see(entry)]

    # ---- time and faults -----------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.scheduler.now_us // 1000

    def run(self, duration_ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + duration_ms * 1000)

    def until(self, holds: Callable[[], bool], limit_ms: int = 60_000) -> None:
        limit_us = self.scheduler.now_us + limit_ms * 1000
        while not holds():
            due = self.scheduler.next_time_us()
            assert due is not None and due <= limit_us, "the condition is not reached"
            self.scheduler.step()

    def linked(self, source: int, target: int) -> bool:
        return (source, target) not in self.cut

    def cut_link(self, a: int, b: int) -> None:
        self.cut |= {(a, b), (b, a)}

    def heal(self) -> None:
        self.cut.clear()

    def kill(self, broker_id: int, power: bool = False) -> None:
        """Kill the broker's process, or with `power` cut the machine's power. The controller notices it immediately."""
        broker = self[broker_id]
        broker.runtime.stop()
        kind = "power_loss" if power else "crash"
        self.emit("world", FaultInjected("f", kind, "world", f"broker-{broker_id}", False))
        for directory in (broker.directory, *broker.more_directories):
            if power:
                directory.power_loss()
            else:
                directory.crash()
        self.alive.discard(broker_id)

    def restart(self, broker_id: int) -> None:
        """Restart the broker with a new broker epoch, and send it the controller's latest state of its partitions."""
        broker = self[broker_id]
        if not broker.runtime.stopped:
            broker.manager.shutdown()
            broker.runtime.stop()
        broker.epoch += 100
        broker.boot()
        self.alive.add(broker_id)
        for topic_partition in self.states:
            if broker_id in self.states[topic_partition]["replicas"]:
                self.send_state(topic_partition, [broker_id])

    # ---- the controller ------------------------------------------------------------------------------------------

    def create(self, replicas: Sequence[int], topic_partition: TopicPartition = TP) -> None:
        self.announced_deletions.discard(topic_partition)
        self.states[topic_partition] = {
            "leader": replicas[0],
            "leader_epoch": 0,
            "isr": list(replicas),
            "partition_epoch": 0,
            "replicas": list(replicas),
            "leader_recovery_state": 0,
        }
        self._elected(topic_partition, False)
        self.send_state(topic_partition)

    def elect(
        self, leader: int, isr: Sequence[int], unclean: bool = False, topic_partition: TopicPartition = TP
    ) -> None:
        state = self.states[topic_partition]
        state.update(leader=leader, isr=list(isr), leader_recovery_state=1 if unclean else 0)
        state["leader_epoch"] += 1
        state["partition_epoch"] += 1
        self._elected(topic_partition, unclean)
        self.send_state(topic_partition)

    def _elected(self, topic_partition: TopicPartition, unclean: bool) -> None:
        state = self.states[topic_partition]
        self.emit(
            "controller",
            LeaderElected(
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                leader=state["leader"],
                leader_epoch=state["leader_epoch"],
                isr=state["isr"],
                replicas=state["replicas"],
                partition_epoch=state["partition_epoch"],
                controller_epoch=self.controller_epoch,
                unclean=unclean,
                cause="test",
            ),
        )

    def send_state(self, topic_partition: TopicPartition, brokers: Sequence[int] | None = None) -> None:
        for broker_id in brokers or self.states[topic_partition]["replicas"]:
            if broker_id in self.alive:
                self[broker_id].manager.become_leader_or_follower(self.leader_and_isr(topic_partition))

    def leader_and_isr(self, topic_partition: TopicPartition = TP, **changes: Any) -> Any:
        """Return a LeaderAndIsr request for the partition's current state. `changes` replaces fields of the partition
        entry.
        """
        version = changes.pop("version", 7)
        topic_id = changes.pop("topic_id", self.topic_id)
        outer = {
            "controller_id": changes.pop("controller_id", 9),
            "controller_epoch": changes.pop("controller_epoch", self.controller_epoch),
            "broker_epoch": changes.pop("broker_epoch", -1),
        }
        row = {
            **self.states[topic_partition],
            "partition_index": topic_partition.partition,
            "controller_epoch": self.controller_epoch,
            **changes,
        }
        topics = [{"topic_name": topic_partition.topic, "topic_id": topic_id, "partition_states": [row]}]
        return request(ApiKey.LEADER_AND_ISR, version, topic_states=topics, **outer)

    def delete(self, *broker_ids: int) -> list[int]:
        """Announce the topic's deletion, delete the partition's replicas on these brokers, and return their error
        codes.
        """
        self.announced_deletions.add(TP)
        answers = [self[each].manager.stop_replica(self.stop_replica(-2, True)) for each in broker_ids]
        return [int(row.error_code) for answer in answers for row in answer.partition_errors]

    def stop_replica(self, leader_epoch: int, delete: bool, **outer: Any) -> Any:
        row = {"partition_index": TP.partition, "leader_epoch": leader_epoch, "delete_partition": delete}
        outer = {"controller_id": 9, "controller_epoch": self.controller_epoch, "broker_epoch": -1, **outer}
        topics = [{"topic_name": TP.topic, "partition_states": [row]}]
        return request(ApiKey.STOP_REPLICA, 4, topic_states=topics, **outer)

    def alter(self, message: Any) -> Any:
        """Handle an AlterPartition request for partitions of topic `orders`, as the controller does."""
        topics = []
        for topic in message.topics:
            rows = [self._alter_one(message.broker_id, row) for row in topic.partitions]
            named = {"topic_id": getattr(topic, "topic_id", None), "topic_name": getattr(topic, "topic_name", "")}
            topics.append({**named, "partitions": rows})
        return respond(message, topics=topics)

    def _alter_one(self, broker_id: int, row: Any) -> dict[str, Any]:
        state = self.states[TopicPartition(TP.topic, row.partition_index)]
        isr = list(proposed_isr(row))
        error = ErrorCode.none
        if row.leader_epoch < state["leader_epoch"]:
            error = ErrorCode.fenced_leader_epoch
        elif row.partition_epoch < state["partition_epoch"] and state["isr"] != isr:
            error = ErrorCode.invalid_update_version
        elif any(member not in self.alive for member in isr):
            error = ErrorCode.ineligible_replica
        elif state["isr"] != isr:
            state["isr"] = isr
            state["partition_epoch"] += 1
            state["leader_recovery_state"] = row.leader_recovery_state
        return {
            "partition_index": row.partition_index,
            "error_code": error,
            "leader_id": state["leader"],
            "leader_epoch": state["leader_epoch"],
            "isr": list(state["isr"]),
            "leader_recovery_state": state["leader_recovery_state"],
            "partition_epoch": state["partition_epoch"],
        }

    @property
    def proposals(self) -> list[tuple[int, ...]]:
        """Return the ISRs that leaders proposed, in the order of their requests."""
        return [
            proposed_isr(row) for message in self.alterations for topic in message.topics for row in topic.partitions
        ]

    def refuse(self, error: ErrorCode) -> Callable[[Any], Any]:
        """Return a handler for `script` that rejects every partition of an AlterPartition request with this error."""

        def handle(message: Any) -> Any:
            topics = [
                {
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {"partition_index": row.partition_index, "error_code": error} for row in topic.partitions
                    ],
                }
                for topic in message.topics
            ]
            return respond(message, topics=topics)

        return handle

    # ---- clients -------------------------------------------------------------------------------------------------

    def produce_later(
        self, broker_id: int, data: bytes, acks: int = -1, timeout_ms: int = 5_000, topic_partition: TopicPartition = TP
    ) -> Any:
        """Send a produce request, and return the future of its response."""
        return self[broker_id].manager.produce([(topic_partition, data)], acks, timeout_ms)

    def produce(
        self,
        broker_id: int,
        *values: str,
        acks: int = -1,
        timeout_ms: int = 5_000,
        topic_partition: TopicPartition = TP,
    ) -> ProducedPartition:
        answer = self.produce_later(broker_id, batch(*values), acks, timeout_ms, topic_partition)
        self.until(answer.done)
        (row,) = answer.result()
        assert isinstance(row, ProducedPartition)
        return row

    def fetch_later(
        self, broker_id: int, offset: int, *, max_wait_ms: int = 500, replica_id: int = -1, **more: Any
    ) -> Any:
        requested = FetchPartition(
            TP, offset, more.get("epoch", -1), more.get("last_epoch", -1), more.get("max_bytes", 1 << 20)
        )
        committed = more.get("read_committed", False)
        params = FetchParams(replica_id, max_wait_ms, more.get("min_bytes", 1), 1 << 20, read_committed=committed)
        return self[broker_id].manager.fetch(params, [requested])

    def fetch(self, broker_id: int, offset: int, **more: Any) -> FetchedPartition:
        answer = self.fetch_later(broker_id, offset, **more)
        self.until(answer.done)
        (row,) = answer.result()
        assert isinstance(row, FetchedPartition)
        return row

    def wait_for(self, future: Any) -> Any:
        async def waiting() -> Any:
            return await future

        return run_task(self.scheduler, next(iter(self.brokers.values())).runtime, waiting())

    def settle(self, *broker_ids: int) -> None:
        """Run until these brokers have equal logs and high watermarks."""
        brokers = [self[b] for b in broker_ids or sorted(self.alive)]

        def level() -> bool:
            ends = {b.partition.log.end_offset for b in brokers} | {b.partition.log.high_watermark for b in brokers}
            return len(ends) == 1

        self.until(level)

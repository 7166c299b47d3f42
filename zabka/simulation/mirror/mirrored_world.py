"""Builds a simulated cluster with the controller, leaders, ISRs and lag of a live one.

| step | what gets its live value |
|---|---|
| peers that run live start | the leader of the ensemble: the running peer with the highest number |
| the live controller starts, then the other brokers | the controller |
| topics are created with the live leader as the first replica of each partition | the leaders |
| partitions are reassigned to the live order of their replicas | the order in which Kafka tries replicas as leaders |
| out-of-sync replicas get an error for each fetch | the ISRs, after replica.lag.time.max.ms |
| records are written | the lag of these replicas |
| processes that died but are still registered are killed; link faults are added | processes and faults |

Each step waits for its outcome. A world that does not reach it is reported as a difference, and is used nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from zabka.ensemble.request_fault import RequestFault
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.history_clients import TopicPlan
from zabka.kafka.record_batch import Record
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.simulation.cluster.ensemble_world import nothing
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.cluster.world import World
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.mirror.live_state import (
    DOWN,
    LAG_MAX,
    PAUSED,
    RUNNING,
    TOPIC_KEYS,
    LivePartition,
    LiveTopic,
    Mirrored,
    NoMirror,
    held_out,
)
from zabka.simulation.workloads.producing import Producing

BOOT_MS = 60_000
SETTLE_MS = 30_000
REQUEST_MS = 10_000
FIRST_REBALANCE_MS = 6_000
"""Time after which a new controller has looked for leaders that are not preferred, once."""
OPERATOR = "operator"


class MirroredWorld:
    """A world with a live cluster's state.  `build` starts it; then `world` runs, with producers."""

    def __init__(self, seed: int, source: Mirrored, check: Callable[[], None] = nothing) -> None:
        """Create the world. `check` is called while it is built, and can raise an exception to stop that."""
        self._check = check
        self.world = World(seed, source.settings)
        self.source = source
        self.differences: list[str] = []
        """Parts of the live state that the world did not reach, in a sentence each."""
        self.producing: Producing | None = None

    def build(self) -> None:
        """Boot the cluster and bring it to the live state.  Raises NoMirror if it does not boot."""
        try:
            self._boot_ensemble()
            self._boot_brokers()
            self._hold_out()
            for topic in self.source.topics:
                self._create(topic)
        except Deadlock as stuck:
            raise NoMirror(f"the simulated cluster did not reach the state: {stuck}") from None
        self.producing = self._produce()
        self._lag_behind()
        self.differences += self._wrong()
        self._break()

    # -- steps -------------------------------------------------------------------------------------------------------

    def _boot_ensemble(self) -> None:
        world, live = self.world, self.source.state
        processes = {each.id: each.process for each in live.peers}
        running = [number for peer, number in self.source.peers.items() if processes[peer] != DOWN]
        for number in running:
            world.peers[number].switch_on()
        leader = self.source.peers[live.zab_leader]
        self._until(lambda: world.leader() is world.peers[leader], BOOT_MS, f"peer-{leader} as leader of the ensemble")

    def _brokers(self) -> list[int]:
        """Return the world's numbers of the brokers that are registered or run."""
        live = self.source.state.brokers
        return [self.source.brokers[each.id] for each in live if each.registered or each.process == RUNNING]

    def _boot_brokers(self) -> None:
        world, controller = self.world, self.source.brokers[self.source.state.controller]
        world.brokers[controller].switch_on()
        self._until(
            lambda: world.record.state.controller_id == controller, BOOT_MS, f"broker-{controller} as controller"
        )
        others = self._brokers()
        for number in others:
            world.brokers[number].switch_on()
        self._until(lambda: set(others) <= set(world.replication.znodes.brokers), BOOT_MS, "the brokers")
        # A new controller soon moves leaders to their preferred replicas. This one must do that before the topics have
        # the live leaders.
        world.run(FIRST_REBALANCE_MS)

    def _create(self, topic: LiveTopic) -> None:
        """Create a topic whose leaders are the live ones, then give each partition its live order of replicas."""
        client, _ = self.world.kafka_client(OPERATOR)
        replicas = {each.number: self.source.replicas(each.replicas) for each in topic.partitions}
        leaders = {each.number: self.source.brokers[each.leader] for each in topic.partitions}
        first = {
            number: (leaders[number], *(broker for broker in order if broker != leaders[number]))
            for number, order in self._numbered(replicas).items()
        }
        configs = {key: value for key, value in topic.config.items() if key in TOPIC_KEYS}
        making = client.create_topic(topic.name, assignment=first, configs=configs, timeout_ms=REQUEST_MS)
        self._ask(making, f"the topic {topic.name}")
        znodes = self.world.replication.znodes
        names = [TopicPartition(topic.name, number) for number in range(len(replicas))]
        self._until(lambda: all(name in znodes.states for name in names), SETTLE_MS, f"the topic {topic.name}")
        rows = [
            {"partition_index": number, "replicas": order}
            for number, order in self._numbered(replicas).items()
            if order != first[number]
        ]
        if rows:
            topics = [{"name": topic.name, "partitions": rows}]
            asked = request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout=REQUEST_MS, topics=topics)
            self._ask(
                client.at_controller(asked, lambda answer: [answer.error_code], REQUEST_MS), "the order of replicas"
            )

    def _numbered(self, replicas: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        """Return the partitions numbered from 0, because Kafka creates no topic with gaps."""
        return dict(enumerate(replicas[number] for number in sorted(replicas)))

    def _place(self, topic: LiveTopic, partition: LivePartition) -> TopicPartition:
        """Return the world's name of a live partition."""
        numbers = sorted(each.number for each in topic.partitions)
        return TopicPartition(topic.name, numbers.index(partition.number))

    def _hold_out(self) -> None:
        """Answer the fetches of out-of-sync replicas with an error, so that they leave the ISR."""
        there = [broker for broker, number in self.source.brokers.items() if number in self._brokers()]
        for topic, partition, broker in held_out(self.source.topics, there):
            name = self._place(topic, partition)
            self.world.request_fault(RequestFault(
                kind="request", effect="error", api="Fetch", client_id=broker_name(self.source.brokers[broker]),
                topic=name.topic, partition=name.partition, error="NOT_LEADER_OR_FOLLOWER",
            ))  # fmt: skip

    def _produce(self) -> Producing:
        """Start a producer for each topic, and wait until the ISRs are the live ones."""
        plans = [TopicPlan(topic.name, len(topic.partitions), 1, {}) for topic in self.source.topics]
        world = self.world
        producing = Producing(world.run_kafka_client, world.replication, plans, self.source.settings.workload.acks)
        limit_ms = SETTLE_MS + 2 * self.source.settings.replica_lag_time_max_ms
        with suppress(Deadlock):
            self._until(lambda: not self._wrong() and producing.acknowledged > len(plans), limit_ms, "the live state")
        return producing

    def _lag_behind(self) -> None:
        """Write as many records as the out-of-sync replicas lack."""
        for topic in self.source.topics:
            for partition in topic.partitions:
                outside = [broker for broker in partition.replicas if broker not in partition.isr]
                count = min(LAG_MAX, max(map(partition.lag, outside), default=0))
                if count:
                    self._write(self._place(topic, partition), count)

    def _write(self, name: TopicPartition, count: int) -> None:
        client, machine = self.world.kafka_client(OPERATOR)
        now_ms = machine.runtime().now().wall_ms
        records = [Record(key=None, value=f"lag {number}".encode(), timestamp_ms=now_ms) for number in range(count)]
        writing = client.produce(name, records, acks=1, timeout_ms=REQUEST_MS)
        try:
            self._ask(writing, f"the records of {name}")
        except Deadlock:
            self.differences.append(f"{name} took no records, so its replicas have no lag.")

    def _break(self) -> None:
        """Pause and kill the processes that are still registered, and add the live link faults."""
        source = self.source
        nodes = [(source.peers.get(each.id), each, "peer") for each in source.state.peers]
        nodes += [(source.brokers[each.id], each, "broker") for each in source.state.brokers]
        for number, node, kind in nodes:
            if number is not None and node.process == PAUSED:
                self.world.pause(f"{kind}-{number}")
            elif number is not None and node.process == DOWN:
                self.world.kill(f"{kind}-{number}")
        for fault in source.faults:
            ends = {"source": source.name(fault.source), "target": source.name(fault.target)}
            self.world.link_fault(msgspec.structs.replace(fault, **ends))

    @property
    def live_names(self) -> dict[str, str]:
        """The live name of each of the world's partitions."""
        topics = self.source.topics
        return {str(self._place(topic, each)): f"{topic.name}-{each.number}" for topic in topics
                for each in topic.partitions}  # fmt: skip

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _ask(self, asked: Coroutine[Any, Any, Any], what: str) -> Any:
        """Advance time until a request has been answered.  Raises Deadlock."""
        _, machine = self.world.kafka_client(OPERATOR)

        async def answer() -> Any:
            try:
                return await asked
            except (KafkaRequestFailed, KafkaUnavailable) as failure:
                raise Deadlock(f"{what}: {failure}") from None

        return self.world.until_done(machine.begin(answer(), what), BOOT_MS, what)

    def _until(self, holds: Callable[[], bool], limit_ms: int, what: str) -> None:
        """Advance time until the condition holds.  Raises Deadlock after `limit_ms`."""

        def checked() -> bool:
            self._check()
            return holds()

        self.world.until(checked, limit_ms, what)

    def _wrong(self) -> list[str]:
        """Return the partitions whose leader, ISR or replicas differ from the live ones, in a sentence each."""
        found, znodes, source = [], self.world.replication.znodes, self.source
        registered = {each.id for each in source.state.brokers if source.brokers[each.id] in self._brokers()}
        for topic in source.topics:
            for each in topic.partitions:
                name = self._place(topic, each)
                state = znodes.states.get(name)
                isr = sorted(source.replicas(broker for broker in each.isr if broker in registered))
                if state is None or state.leader != source.brokers[each.leader] or sorted(state.isr) != isr:
                    found.append(f"The leader or ISR of {topic.name}-{each.number}.")
        return found

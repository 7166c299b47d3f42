"""A simulated cluster for tests: the surface of `compose.cluster` over a `simulation.world.World`.

Time passes only inside the calls, and only virtual time: a session's expiry takes no longer than anything else.  The
test has a host of its own in the world, which no fault touches unless it is named ("test").
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

from ensemble.client.client import Client
from journal.events import NodeStopped, TopicPartition
from kafka_protocol.client.admin_client import PREFERRED, TOPIC_RESOURCE, UNCLEAN, AdminClient
from kafka_protocol.client.client import KafkaClient
from kafka_protocol.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from kafka_protocol.client.consumer_status import TakeRecords
from kafka_protocol.client.consumer_workload import ConsumerWorkload, GroupProgress
from kafka_protocol.client.group_client import GroupSettings
from kafka_protocol.client.group_consumer import GroupConsumer
from kafka_protocol.client.workload import Workload
from kafka_protocol.client.zookeeper_consumer import ZookeeperConsumer
from kafka_protocol.record_batch import Record
from kafka_protocol.topic_names import INTERNAL_TOPICS
from simulation.kernel.draws import derive_random
from simulation.kernel.runtime import SimRuntime, run_task
from simulation.kernel.scheduler import Deadlock
from simulation.network.addresses import KAFKA_SERVICE
from simulation.network.channel import SimChannel
from simulation.network.connector import SimConnector
from simulation.nodes.broker_node import BrokerNode
from simulation.nodes.peer_node import PeerNode
from simulation.settings import world_settings
from simulation.world import World
from testing.cluster import (
    READY_TIMEOUT_S,
    Believes,
    ClusterFailed,
    ConsumerCounts,
    Happening,
    Partition,
    WorkloadCounts,
    read_all,
)

T = TypeVar("T")

HOST = "test"
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_STOP_TIMEOUT_S = 60.0


class _SimNode:
    """A node's process."""

    def __init__(self, cluster: SimulatedCluster, node: PeerNode | BrokerNode, number: int) -> None:
        self._cluster = cluster
        self._node = node
        self.id = number
        self.name = node.name

    def __repr__(self) -> str:
        return self.name

    @property
    def process(self) -> str:
        """`running`, `paused` or `down`."""
        world = self._cluster.world
        if not world.is_running(self.name):
            return "down"
        return "paused" if world.is_paused(self.name) else "running"

    def _must_be(self, *states: str) -> None:
        if self.process not in states:
            raise ClusterFailed(f"{self.name} is {self.process}, not {' or '.join(states)}")

    def kill(self) -> None:
        """SIGKILL."""
        self._must_be("running", "paused")
        self._cluster.world.kill(self.name)

    def power_loss(self) -> None:
        """Pull the plug: what was not fsynced is gone."""
        self._must_be("running", "paused")
        self._cluster.world.kill(self.name, power_loss=True)

    def stop(self) -> None:
        """SIGTERM, and its process is gone."""
        self._must_be("running")
        process = self._node.process
        assert process is not None
        process.emit(NodeStopped("shutdown"))
        self._node.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self._must_be("running")
        self._cluster.world.pause(self.name)

    def resume(self) -> None:
        """SIGCONT."""
        self._must_be("paused")
        self._cluster.world.resume(self.name)

    def start(self) -> None:
        """Start again."""
        self._must_be("down")
        self._cluster.world.start(self.name)

    def restart(self) -> None:
        """Stop, then start."""
        self.stop()
        self.start()


class SimPeer(_SimNode):
    """A simulated server of the ensemble; `node` is the world's."""

    def __init__(self, cluster: SimulatedCluster, node: PeerNode, number: int) -> None:
        super().__init__(cluster, node, number)
        self.node = node

    @property
    def state(self) -> str:
        """LEADING, FOLLOWING, LOOKING, OBSERVING or DOWN."""
        return "DOWN" if self.node.peer is None else self.node.peer.state.name

    @property
    def phase(self) -> str:
        """ELECTION, DISCOVERY, SYNCHRONIZATION or BROADCAST."""
        return "ELECTION" if self.node.peer is None else str(self.node.peer.phase)


class SimBroker(_SimNode):
    """A simulated broker; `node` is the world's."""

    def __init__(self, cluster: SimulatedCluster, node: BrokerNode, number: int) -> None:
        super().__init__(cluster, node, number)
        self.node = node

    @property
    def registered(self) -> bool:
        """Does its ephemeral stand in /brokers/ids?"""
        return self._cluster.world.record.state.broker(self.id).registered

    @property
    def is_controller(self) -> bool:
        """Its own last word."""
        return self._cluster.world.record.state.broker(self.id).is_controller

    @property
    def believes(self) -> Believes:
        """Whom it believes to be controller."""
        said = self._cluster.world.record.state.broker(self.id)
        return Believes(said.believed_controller_id, said.believed_controller_epoch)

    def stop(self) -> None:
        """Controlled shutdown, then the end of its process."""
        self._must_be("running")
        process = self.node.process
        assert process is not None
        leaving = process.runtime.spawn(process.broker.stop(), f"stop {self.name}")
        self._cluster.until(leaving.done, _STOP_TIMEOUT_S, f"the end of {self.name}")
        self.node.kill()


class SimTopic:
    """A topic."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self._cluster = cluster
        self.name = name

    @property
    def partitions(self) -> list[Partition]:
        """Its partitions as they are now."""
        views = [p for p in self._cluster.world.record.state.partitions.values() if p.topic == self.name]
        return [
            Partition(
                partition=view.partition,
                leader=view.leader,
                leader_epoch=view.leader_epoch,
                isr=list(view.isr),
                replicas=list(view.replicas),
                partition_epoch=view.partition_epoch,
                high_watermark=view.high_watermark,
                log_end_offsets=dict(view.log_end_offsets),
            )
            for view in sorted(views, key=lambda view: view.partition)
        ]

    @property
    def config(self) -> dict[str, str]:
        """Its overrides."""
        return dict(self._cluster.world.record.state.configs.get(f"topics/{self.name}", {}))

    def set_config(self, changes: Mapping[str, str | None]) -> None:
        """Set overrides; None removes one."""
        self._cluster.ask(self._cluster.admin.alter_configs(TOPIC_RESOURCE, self.name, dict(changes)))

    def delete(self) -> None:
        """Delete it."""
        self._cluster.ask(self._cluster.admin.delete_topic(self.name))


class SimTopics:
    """The world's topics."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def __getitem__(self, name: str) -> SimTopic:
        return SimTopic(self._cluster, name)

    def create(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> SimTopic:
        """Create one, by default with a replica on every broker."""
        factor = replication_factor or len(self._cluster.brokers)
        made = self._cluster.admin.create_topic(name, partitions, factor, assignment=assignment, configs=config)
        self._cluster.ask(made)
        return self[name]

    def ask_for(self, name: str, partitions: int = 1) -> None:
        """Ask whoever is controller for a topic, and do not wait for an answer."""
        self._cluster.begin_to_ask(self._cluster.admin.create_topic(name, partitions, len(self._cluster.brokers)))

    def names(self) -> list[str]:
        """All names, in order; Kafka's internal topics are left out."""
        return [name for name in sorted(self._cluster.world.record.state.topics) if name not in INTERNAL_TOPICS]


class SimFault:
    """A fault that holds."""

    def __init__(self, undo: Sequence[Callable[[], None]]) -> None:
        self._undo = list(undo)

    def heal(self) -> None:
        """End it; a second time changes nothing."""
        for undo in self._undo:
            undo()
        self._undo.clear()


class SimFaults:
    """Faults on the world's links."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[SimFault] = []

    def _pairs(self, source: object, target: object) -> list[tuple[str, str]]:
        first, second = (end if isinstance(end, str) else str(end) for end in (source, target))
        others = [name for name in self._world.node_names() if name != first] if second == "*" else [second]
        return [(first, other) for other in others]

    def _keep(self, undo: Sequence[Callable[[], None]]) -> SimFault:
        fault = SimFault(undo)
        self._made.append(fault)
        return fault

    def cut(self, source: object, target: object = "*", *, both_ways: bool = True) -> SimFault:
        """Let nothing pass."""
        return self._keep([self._world.cut(a, b, both_ways) for a, b in self._pairs(source, target)])

    def delay(self, source: object, target: object, delay_ms: int, *, both_ways: bool = True) -> SimFault:
        """Let everything pass later."""
        pairs = self._pairs(source, target)
        pairs += [(b, a) for a, b in pairs] if both_ways else []
        return self._keep([self._world.delay(a, b, delay_ms) for a, b in pairs])

    def slow_disk(self, peer: object, factor: int) -> SimFault:
        """Make a peer's disk slower by that factor."""
        return self._keep([self._world.slow_disk(str(peer), factor)])

    def heal(self) -> None:
        """End all."""
        for fault in self._made:
            fault.heal()
        self._made.clear()


class SimWorkload:
    """A workload on a host of its own."""

    def __init__(self, cluster: SimulatedCluster, number: int, topic: str, acks: str, records_per_s: float) -> None:
        world = cluster.world
        self._cluster = cluster
        self._runtime = SimRuntime(world.scheduler, derive_random(world.seed, f"workload-{number}"))
        host = world.network.boot(f"workload-{number}", self._runtime)
        client = AdminClient(SimChannel(world.network, host, self._runtime), self._runtime, cluster.bootstrap)
        emit = world.record.emitter(host.name, self._runtime)
        self._workload = Workload(
            client, self._runtime, emit, f"w{number}", topic, acks=_ACKS[acks], records_per_s=records_per_s
        )
        self._workload.start()

    @property
    def counts(self) -> WorkloadCounts:
        """How it stands."""
        said = self._workload.status()
        return WorkloadCounts(said.sent, said.acknowledged, said.failed, said.lost, said.verified)

    def close(self) -> None:
        """Its process dies."""
        self._runtime.stop()

    def stop(self) -> WorkloadCounts:
        """End it; its last word."""

        async def end() -> None:
            await self._workload.stop()
            # Where a partition has no leader there is nobody to read it from: the counts say so.
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await self._workload.verify()

        self._cluster.ask(end(), self._runtime)
        self._workload.close()
        return self.counts


class SimConsumer:
    """A member of a consumer group, on a host of its own."""

    def __init__(
        self, cluster: SimulatedCluster, number: int, topic: str, group: str, offsets: Literal["kafka", "zookeeper"]
    ) -> None:
        world = cluster.world
        self._cluster = cluster
        self._runtime = runtime = SimRuntime(world.scheduler, derive_random(world.seed, f"consumer-{number}"))
        host = world.network.boot(f"consumer-{number}", runtime)
        channel = SimChannel(world.network, host, runtime)

        def make(take: TakeRecords) -> GroupConsumer | ZookeeperConsumer:
            if offsets == "kafka":
                client = KafkaClient(channel, runtime, cluster.bootstrap)
                return GroupConsumer(client, runtime, GroupSettings(group, (topic,)), take)
            session = Client(
                world.zookeeper_connect,
                SimConnector(world.network, host),
                runtime,
                session_timeout_ms=world.settings.session_timeout_ms,
                name=host.name,
            )
            return ZookeeperConsumer(session, channel, runtime, group, host.name, [topic], take)

        emit = world.record.emitter(host.name, runtime)
        progress = cluster.progress.setdefault((group, offsets), GroupProgress())
        self._workload = ConsumerWorkload(runtime, emit, f"c{number}", topic, group, progress, make)
        self._workload.start()

    @property
    def counts(self) -> ConsumerCounts:
        """How it stands."""
        said = self._workload.counts()
        return ConsumerCounts(said.consumed, said.duplicates, said.out_of_order, said.lag, list(said.partitions))

    def close(self) -> None:
        """Its process dies."""
        self._runtime.stop()

    def stop(self) -> ConsumerCounts:
        """Let it commit and leave its group; its last word."""
        self._cluster.ask(self._workload.stop(), self._runtime)
        self._workload.close()
        return self.counts


class SimulatedCluster:
    """A world with a test in it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.peers = {number: SimPeer(self, node, number) for number, node in world.peers.items()}
        self.brokers = {number: SimBroker(self, node, number) for number, node in world.brokers.items()}
        self.topics = SimTopics(self)
        self.faults = SimFaults(world)
        self.bootstrap = [(name, int(KAFKA_SERVICE)) for name in world.broker_names()]
        self._runtime = SimRuntime(world.scheduler, derive_random(world.seed, HOST))
        host = world.network.boot(HOST, self._runtime)
        self.admin = AdminClient(SimChannel(world.network, host, self._runtime), self._runtime, self.bootstrap)
        self.progress: dict[tuple[str, str], GroupProgress] = {}
        self._workloads: list[SimWorkload] = []
        self._consumers: list[SimConsumer] = []

    # ---- asking -----------------------------------------------------------------------------------------------------

    @property
    def controller(self) -> SimBroker | None:
        """The broker that the ensemble names controller."""
        return self.brokers.get(self.world.record.state.controller_id)

    @property
    def controller_epoch(self) -> int:
        """/controller_epoch."""
        return self.world.record.state.controller_epoch

    @property
    def zab_leader(self) -> SimPeer | None:
        """The peer that leads the ensemble and serves."""
        node = self.world.zab_leader()
        return None if node is None else self.peers[node.config.my_id]

    @property
    def now_us(self) -> int:
        """Virtual microseconds since the world began."""
        return self.world.scheduler.now_us

    @property
    def violations(self) -> list[str]:
        """Every invariant of the project that did not hold so far."""
        return [f"{v.invariant}: {v.detail} (at {v.mono_us / 1e6:.3f} s)" for v in self.world.record.violations]

    def settings(self, node: str = "broker-1") -> dict[str, str]:
        """The effective configuration that a node journalled at its start."""
        return dict([e for e in self.events("node_started", after_us=-1) if e["node"] == node][-1]["config"])

    def events(self, *types: str, after_us: int | None = None) -> list[Happening]:
        """The journal, or what stands in it after a moment."""
        since_us = -1 if after_us is None else after_us
        found = (entry.to_dict() for entry in self.world.record.entries if entry.mono_us > since_us)
        return [event for event in found if not types or event["type"] in types]

    def ask(self, work: Coroutine[Any, Any, T], runtime: SimRuntime | None = None) -> T:
        """Let a client's coroutine run to its end in the world.  Raises ClusterFailed where it is refused."""
        outcome: list[T] = []
        refusals: list[str] = []

        async def told() -> None:
            try:
                outcome.append(await work)
            except (KafkaRequestFailed, KafkaUnavailable) as refused:
                refusals.append(f"{type(refused).__name__}: {refused}")

        try:
            run_task(self.world.scheduler, runtime or self._runtime, told())
        except Deadlock as stuck:
            raise ClusterFailed(f"{self}: {stuck}") from None
        if refusals:
            raise ClusterFailed(refusals[0])
        return outcome[0]

    def begin_to_ask(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a client's coroutine in the world; what comes of it, a refusal too, is nobody's concern."""

        async def whatever() -> None:
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await work

        self._runtime.spawn(whatever(), "ask")

    def __repr__(self) -> str:
        return f"the world of seed {self.world.seed} at {self.now_us / 1e6:.3f} s"

    # ---- driving ----------------------------------------------------------------------------------------------------

    def elect(self, kind: str, topic: str, partition: int = 0) -> str | None:
        """Hold a PREFERRED or UNCLEAN election; None where it was held, else Kafka's error name."""
        name = TopicPartition(topic, partition)
        results = self.ask(self.admin.elect_leaders({"PREFERRED": PREFERRED, "UNCLEAN": UNCLEAN}[kind], [name]))
        error = results[name][0]
        return None if error == 0 else error.name.upper()

    def produce(
        self, topic: str, values: Sequence[str], partition: int = 0, *, acks: int = -1, timeout_s: float = 10.0
    ) -> int:
        """Write values in one batch; the first one's offset."""
        now_ms = self._runtime.now().wall_ms
        records = [Record(key=None, value=value.encode(), timestamp_ms=now_ms) for value in values]
        name = TopicPartition(topic, partition)
        return self.ask(self.admin.produce(name, records, acks=acks, timeout_ms=int(timeout_s * 1000)))

    def consume(self, topic: str, partition: int = 0, *, timeout_s: float = 10.0) -> list[str]:
        """Every committed value of a partition, in order."""
        return self.ask(read_all(self.admin, TopicPartition(topic, partition), timeout_s))

    def workload(self, topic: str, *, acks: str = "all", records_per_s: float = 50) -> SimWorkload:
        """Start a workload on all partitions of a topic."""
        workload = SimWorkload(self, len(self._workloads) + 1, topic, acks, records_per_s)
        self._workloads.append(workload)
        return workload

    def consumer(self, topic: str, group: str, *, offsets: Literal["kafka", "zookeeper"] = "kafka") -> SimConsumer:
        """Start a member of a consumer group; with `offsets="zookeeper"` one of the kind before Kafka 0.9."""
        consumer = SimConsumer(self, len(self._consumers) + 1, topic, group, offsets)
        self._consumers.append(consumer)
        return consumer

    def until(self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0, what: str = "") -> T:
        """Let time pass until the condition gives something true, and return that."""
        scheduler = self.world.scheduler
        deadline_us = scheduler.now_us + int(timeout_s * 1_000_000)
        seen: object = None
        while True:
            try:
                seen = found = condition()
                if found:
                    return found
            except (ClusterFailed, KeyError, IndexError) as reason:
                seen = reason
            # Everything that happens within one virtual millisecond is looked at once.
            due = scheduler.next_time_us()
            if due is None or due > deadline_us:
                break
            scheduler.run_until(due // 1000 * 1000 + 999)
        failed = f"{what or 'the condition'} did not come true within {timeout_s} s; seen last: {seen!r}"
        raise ClusterFailed(f"{self}: {failed}")

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(int(seconds * 1000))

    def until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until a quorum serves, and there is a controller that knows every running broker."""

        def ready() -> bool:
            controller = self.controller
            acting = None if controller is None else controller.node.broker
            if self.zab_leader is None or acting is None or not acting.controller.is_active:
                return False
            running = [broker for broker in self.brokers.values() if broker.process == "running"]
            return all(broker.registered and acting.metadata.is_alive(broker.id) for broker in running)

        self.until(ready, timeout_s, "readiness")

    def close(self) -> None:
        """The world ends: nothing in it waits for anything any more."""
        for peer in self.world.peers.values():
            peer.kill()
        for broker in self.world.brokers.values():
            broker.kill()
        for workload in self._workloads:
            workload.close()
        for consumer in self._consumers:
            consumer.close()
        self._runtime.stop()


def start(
    *, seed: int = 0, peers: int = 3, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> SimulatedCluster:
    """A world with everything started, and ready.  `settings` are ZooKeeper's and Kafka's own keys."""
    given = [f"{key}={value}" for key, value in {**(settings or {}), "peers": peers, "brokers": brokers}.items()]
    cluster = SimulatedCluster(World(seed, world_settings(given)))
    cluster.world.start()
    cluster.until_ready()
    return cluster

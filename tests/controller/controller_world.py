"""World of controllers: a fake coordination service with ZooKeeper's semantics, and brokers that record requests.

Everything runs on the simulation's scheduler. Requests to the service and control requests take a millisecond each way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.leader_and_isr.v7.response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kio.schema.stop_replica.v4.response import StopReplicaPartitionError, StopReplicaResponse
from kio.schema.update_metadata.v8.response import UpdateMetadataResponse

from tests.controller.fake_ensemble import LATENCY_US, FakeEnsemble, FakeSession
from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.controller.config import ControllerConfig
from zabka.controller.controller import KafkaController
from zabka.ensemble.client.service import (
    Create,
    Delete,
    Op,
    SessionState,
    SetData,
)
from zabka.journal.events import Event, TopicPartition
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.topic_ids import random_topic_id
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo, LeaderAndIsr, ReplicaAssignment, TopicAssignment
from zabka.simulation.engine.scheduler import Deadlock, Scheduler


class ControlRequest:
    """A control request that a broker received."""

    def __init__(self, to: int, request: KafkaMessage, at_ms: int) -> None:
        self.to = to
        self.request = request
        self.kind = type(request).__name__.removesuffix("Request")
        self.at_ms = at_ms

    def __repr__(self) -> str:
        return f"{self.kind} to {self.to} epoch {self.request.controller_epoch}"

    def partitions(self) -> dict[TopicPartition, Any]:
        return {
            TopicPartition(topic.topic_name, row.partition_index): row
            for topic in self.request.topic_states
            for row in topic.partition_states
        }


class World:
    """Controllers and fake brokers that share a fake ensemble."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.ensemble = FakeEnsemble()
        self.nodes: dict[int, Node] = {}
        self.received: list[ControlRequest] = []
        self.journal: list[tuple[int, Event]] = []
        self.unreachable: set[int] = set()
        self.refuse_deletes: set[int] = set()
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """Replicas on failed log directories, keyed by broker id. Brokers return an error for them."""
        self.epochs_known: dict[int, int] = {}
        """Latest epoch of another controller that each broker has received, keyed by broker id."""
        self.random = Random(7)
        for path in znodes.PERSISTENT_PATHS:
            self.ensemble.put(path)

    # -- time

    def run(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)

    def until(self, done: Callable[[], object], limit_ms: int = 20_000) -> None:
        limit_us = self.scheduler.now_us + limit_ms * 1000
        while not done():
            due = self.scheduler.next_time_us()
            if due is None or due > limit_us:
                raise Deadlock("what the test waits for does not happen")
            self.scheduler.step()

    def settle(self) -> None:
        """Run for 300 ms of virtual time, so that all work in progress finishes. Later timers stay pending."""
        self.run(300)

    # -- brokers with a controller

    def start(self, *broker_ids: int, **config: Any) -> None:
        """Start brokers that can become controller, and wait for the first election."""
        for broker_id in broker_ids:
            self.nodes[broker_id] = Node(self, broker_id, ControllerConfig(**config))
            self.nodes[broker_id].start()
        self.settle()

    def kill(self, broker_id: int, *, expire: bool = True) -> None:
        """Kill a broker with SIGKILL. With `expire`, its session expires immediately."""
        node = self.nodes.pop(broker_id)
        node.runtime.stop()
        self.unreachable.add(broker_id)
        if expire:
            self.ensemble.end_session(node.session.session_id)

    def active(self) -> Node:
        """Return the node whose session owns /controller."""
        broker_id = znodes.decode_controller(self.ensemble.data(znodes.CONTROLLER))
        assert broker_id is not None
        return self.nodes[broker_id]

    # -- fake brokers without a controller

    def join(self, *broker_ids: int, rack: str | None = None, intact: bool = False) -> None:
        """Register fake brokers that only respond to requests. With `intact`, their registrations report an intact
        log.
        """
        for broker_id in broker_ids:
            session_id = 0x9000 + broker_id
            endpoints = (BrokerEndpoint("PLAINTEXT", f"b{broker_id}", 9092),)
            info = BrokerInfo(broker_id, endpoints, rack, log_intact=intact)
            path = znodes.broker_path(broker_id)
            data = znodes.encode_broker(info, 0)
            ops: list[Op] = [Create(path, None, ephemeral=True), SetData(path, data, 0)]
            assert self.ensemble.multi(ops, session_id)[1].stat is not None
            self.unreachable.discard(broker_id)

    def leave(self, *broker_ids: int) -> None:
        """Expire the sessions of these fake brokers. From then on, they do not respond."""
        for broker_id in broker_ids:
            self.unreachable.add(broker_id)
            self.ensemble.end_session(0x9000 + broker_id)

    # -- topics

    def create_topic(self, topic: str, assignment: dict[int, Sequence[int]], **config: str) -> None:
        """Write a topic's znodes, as an administrator does."""
        if config:
            self.set_config(topic, **config)
        rows = {n: ReplicaAssignment(tuple(replicas)) for n, replicas in assignment.items()}
        old = znodes.decode_topic(self.ensemble.data(znodes.topic_path(topic))) if self.has(topic) else None
        topic_id = old.topic_id if old else random_topic_id(self.random)
        self.ensemble.put(znodes.topic_path(topic), znodes.encode_topic(TopicAssignment(topic_id, rows)))

    def has(self, topic: str) -> bool:
        return znodes.topic_path(topic) in self.ensemble.nodes

    def set_config(self, topic: str, **config: str) -> None:
        overrides = {key.replace("_", "."): value for key, value in config.items()}
        self.ensemble.put(znodes.config_path("topics", topic), znodes.encode_config(overrides))

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsr:
        """Return the content of a partition's state znode."""
        node = self.ensemble.nodes[znodes.partition_state_path(TopicPartition(topic, partition))]
        state = znodes.decode_partition_state(node.data, node.version)
        assert state is not None
        return state

    def brief(self, topic: str, partition: int = 0) -> tuple[int, tuple[int, ...], int]:
        """Return the partition's (leader, ISR, leader epoch)."""
        state = self.state(topic, partition)
        return state.leader, state.isr, state.leader_epoch

    def set_isr(self, topic: str, partition: int, isr: Sequence[int]) -> None:
        """Write an ISR to ZooKeeper, as a leader with an inter-broker protocol before 2.7 does."""
        state = self.state(topic, partition)
        path = znodes.partition_state_path(TopicPartition(topic, partition))
        self.ensemble.put(path, znodes.encode_partition_state(state._replace(isr=tuple(isr))))

    # -- requests and events

    def requests(self, kind: str, to: int | None = None) -> list[ControlRequest]:
        return [received for received in self.received if received.kind == kind and to in (None, received.to)]

    def events(self, kind: type[Event], node: int | None = None) -> list[Any]:
        return [event for broker_id, event in self.journal if isinstance(event, kind) and node in (None, broker_id)]

    def call(self, request: Awaitable[Any]) -> Any:
        """Run the world until a request has completed, and return its result."""

        raised: list[Exception] = []

        async def wait() -> Any:
            try:
                return await request
            except Exception as error:
                raised.append(error)

        result = run_task(self.scheduler, SimRuntime(self.scheduler, Random(1)), wait(), 30_000)
        if raised:
            raise raised[0]
        return result


class Node:
    """A broker process with its runtime, session and controller. It handles session expiry as a real broker does."""

    def __init__(self, world: World, broker_id: int, config: ControllerConfig) -> None:
        self.world = world
        self.broker_id = broker_id
        self.config = config
        self.runtime = SimRuntime(world.scheduler, Random(broker_id))
        self.session = FakeSession(world.ensemble, self.runtime)
        self.channel = FakeChannel(world, self.runtime)
        self.controller = KafkaController(
            broker_id=broker_id,
            config=config,
            coordination=self.session,
            channel=self.channel,
            runtime=self.runtime,
            emit=lambda event: world.journal.append((broker_id, event)),
            broker_info=self.info,
        )
        world.unreachable.discard(broker_id)

    def info(self) -> BrokerInfo:
        return BrokerInfo(self.broker_id, (BrokerEndpoint("PLAINTEXT", f"b{self.broker_id}", 9092),))

    def start(self) -> None:
        self.session.open()
        self.session.add_listener(self._on_state)
        self.runtime.spawn(self.controller.startup(), "startup")

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.runtime.spawn(self._renew(), "renew")

    async def _renew(self) -> None:
        await self.controller.session_expired()
        await self.session.renew()
        self.controller.session_renewed()

    def stop(self) -> None:
        """Stop the broker process cleanly, but without a controlled shutdown."""

        async def stop() -> None:
            await self.controller.shutdown()
            await self.session.close()

        self.world.call(stop())
        self.runtime.stop()
        del self.world.nodes[self.broker_id]
        self.world.unreachable.add(self.broker_id)


class FakeChannel:
    """`BrokerChannel` to fake brokers, which record and accept every request."""

    def __init__(self, world: World, runtime: SimRuntime) -> None:
        self.world = world
        self.runtime = runtime
        self.forgotten: list[int] = []

    def forget(self, broker_id: int) -> None:
        self.forgotten.append(broker_id)

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        future = self.runtime.future()
        broken = to.broker_id in self.world.unreachable

        def arrive() -> None:
            if not broken:
                self.world.received.append(ControlRequest(to.broker_id, request, self.world.scheduler.now_us // 1000))
            self.world.scheduler.after(LATENCY_US, lambda: self.runtime.run(answer))

        def answer() -> None:
            if future.done():
                return
            if broken:
                future.set_exception(ChannelBroken(f"broker {to.broker_id} is down"))
            else:
                future.set_result(self._agree(to.broker_id, request))

        self.world.scheduler.after(LATENCY_US, arrive)
        return future

    def _obey(self, broker_id: int, request: KafkaMessage) -> LeaderAndIsrResponse:
        """Return the response of a broker that accepts all replicas, except those on a failed log directory."""
        offline = self.world.offline_replicas.get(broker_id, ())
        topics = tuple(
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=tuple(
                    LeaderAndIsrPartitionError(
                        partition_index=row.partition_index,
                        error_code=KafkaError.kafka_storage_error
                        if (topic.topic_name, row.partition_index) in offline
                        else KafkaError.none,
                    )
                    for row in topic.partition_states
                ),
            )
            for topic in request.topic_states
        )
        return LeaderAndIsrResponse(error_code=KafkaError.none, topics=topics)

    def _agree(self, broker_id: int, request: KafkaMessage) -> KafkaMessage:
        name = type(request).__name__
        if name == "LeaderAndIsrRequest":
            return self._obey(broker_id, request)
        if name == "UpdateMetadataRequest":
            is_stale = request.controller_epoch < self.world.epochs_known.get(broker_id, 0)
            return UpdateMetadataResponse(error_code=KafkaError.stale_controller_epoch if is_stale else KafkaError.none)
        refused = broker_id in self.world.refuse_deletes
        rows = tuple(
            StopReplicaPartitionError(
                topic_name=topic.topic_name,
                partition_index=row.partition_index,
                error_code=KafkaError.kafka_storage_error if refused else KafkaError.none,
            )
            for topic in request.topic_states
            for row in topic.partition_states
        )
        return StopReplicaResponse(error_code=KafkaError.none, partition_errors=rows)


def lose_all_but(world: World, topic: str, survivor: int, last: int) -> None:
    """Stop `survivor` so that it leaves the ISR, then stop the leader `last`, and restart `survivor`."""
    world.leave(survivor)
    world.settle()
    world.leave(last)
    world.settle()
    world.join(survivor)
    world.settle()


def epoch(world: World) -> tuple[str, int]:
    node = world.ensemble.nodes[znodes.CONTROLLER_EPOCH]
    return (node.data or b"").decode(), node.version


def take_over(world: World, broker_id: int = 99) -> None:
    """Make broker 99 the controller: delete /controller and win the election, as in Kafka's
    ControllerIntegrationTest.
    """
    world.ensemble.multi([Delete(znodes.CONTROLLER)], 0)
    number, version = epoch(world)
    results = world.ensemble.multi(
        [
            Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, 0), ephemeral=True),
            SetData(znodes.CONTROLLER_EPOCH, str(int(number) + 1).encode(), version),
        ],
        0x7777,
    )
    assert results[1].stat is not None

"""Whole brokers with a fake ensemble, on virtual time and without sockets. Requests on a connection stay in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.controller.fake_ensemble import FakeEnsemble, FakeSession
from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.broker_sim.broker import Broker
from zabka.broker_sim.broker_ports import BrokerPorts
from zabka.broker_sim.configs.broker_config import KafkaConfig, config_from
from zabka.broker_sim.request_context import RequestRefused
from zabka.journal.cause import Cause, event_cause
from zabka.journal.events import Event
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of
from zabka.simulation.engine.scheduler import Call, Scheduler

LATENCY_MS = 1
_LANES = {ApiKey.FETCH: 0, ApiKey.LEADER_AND_ISR: 1, ApiKey.STOP_REPLICA: 1, ApiKey.UPDATE_METADATA: 1}


class Node:
    """Simulated machine of one broker: its log directory, process and ZooKeeper session."""

    def __init__(self, cluster: Cluster, broker_id: int, keys: dict[str, str]) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.keys = keys
        self.directory = MemoryLogDirectory()
        self.events: list[Event] = []
        self.logged: list[str] = []
        self.more_ports: dict[str, Any] = {}
        """Values that replace the default fields of `BrokerPorts` when the next `Broker` is created."""
        self.runtime: SimRuntime
        self.session: FakeSession
        self.broker: Broker

    def config(self) -> KafkaConfig:
        return config_from(
            {
                "broker.id": str(self.broker_id),
                "listeners": f"PLAINTEXT://broker-{self.broker_id}:9092",
                "zookeeper.connect": "fake:2181",
                "zookeeper.session.timeout.ms": "6000",
                "replica.lag.time.max.ms": "3000",
                **self.keys,
            }
        )

    def boot(self) -> Broker:
        """Create a new broker process without starting it."""
        self.runtime = SimRuntime(self.cluster.scheduler, Random(self.broker_id))
        self.session = FakeSession(self.cluster.ensemble, self.runtime)
        ports: dict[str, Any] = {
            "runtime": self.runtime,
            "coordination": lambda: self.session,
            "channel": Channel(self.cluster, self.runtime),
            "log_directories": [self.directory],
            "emit": self._emit,
            "log_line": self.logged.append,
        }
        self.broker = Broker(self.config(), BrokerPorts(**ports | self.more_ports))
        return self.broker

    def _emit(self, event: Event) -> Cause:
        self.events.append(event)
        return event_cause(f"broker-{self.broker_id}", len(self.events))

    def kill(self) -> None:
        """Kill the process (SIGKILL). Its ZooKeeper session stays until it expires."""
        self.runtime.stop()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class Channel:
    """`BrokerChannel` that calls the target broker directly. Each connection has one request in flight at a time."""

    def __init__(self, cluster: Cluster, runtime: SimRuntime) -> None:
        self._cluster = cluster
        self._runtime = runtime
        self._lanes: dict[tuple[int, int], deque[tuple[Any, Call, Callable[[], Coroutine[Any, Any, None]]]]] = {}

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        answer = self._runtime.future()
        key = (to.broker_id, _LANES.get(ApiKey(api_key_of(request)), 2))
        timer = self._runtime.call_later(timeout_ms, lambda: self._break(key, "no answer in time"))
        node = self._cluster.at(to)
        if api_key_of(request) == ApiKey.PRODUCE and request.acks == 0:
            answer.set_result(None)

        async def carry() -> None:
            await self._runtime.sleep(LATENCY_MS)
            if node is None or node.runtime.stopped or node.runtime.paused:
                self._break(key, "nobody listens")
                return
            try:
                response = await node.broker.handle(request, "client", "PLAINTEXT")
            except RequestRefused as refused:
                self._break(key, str(refused))
                return
            timer.cancel()
            if not answer.done():
                answer.set_result(response)

        queue = self._lanes.setdefault(key, deque())
        queue.append((answer, timer, carry))
        if len(queue) == 1:
            self._runtime.spawn(self._drain(queue), "lane")
        return answer

    async def _drain(self, queue: deque[tuple[Any, Call, Callable[[], Coroutine[Any, Any, None]]]]) -> None:
        while queue:
            await queue[0][2]()
            if queue:
                queue.popleft()

    def _break(self, key: tuple[int, int], reason: str) -> None:
        """Fail every request on the lost connection."""
        for answer, timer, _ in self._lanes.pop(key, ()):
            timer.cancel()
            if not answer.done():
                answer.set_exception(ChannelBroken(reason))

    def forget(self, broker_id: int) -> None:
        for key in [key for key in self._lanes if key[0] == broker_id]:
            self._break(key, "disconnected")


class Cluster:
    """Simulated brokers, by default three, and a client machine."""

    def __init__(self, brokers: int = 3, **keys: str) -> None:
        self.scheduler = Scheduler()
        self.ensemble = FakeEnsemble()
        self.nodes = {
            broker_id: Node(self, broker_id, {key.replace("_", "."): value for key, value in keys.items()})
            for broker_id in range(1, brokers + 1)
        }
        self.runtime = SimRuntime(self.scheduler, Random(0))
        self.client = AdminClient(
            Channel(self, self.runtime), self.runtime, [(f"broker-{broker_id}", 9092) for broker_id in self.nodes]
        )

    def at(self, endpoint: Endpoint) -> Node | None:
        number = endpoint.host.removeprefix("broker-")
        return self.nodes.get(int(number)) if number.isdigit() else None

    def run(self, work: Coroutine[Any, Any, Any], limit_ms: int = 120_000) -> Any:
        return run_task(self.scheduler, self.runtime, work, limit_ms)

    def refused(self, work: Coroutine[Any, Any, Any]) -> tuple[ErrorCode, str] | None:
        """Return the error code and message of a rejected client request, or None if it succeeded."""

        async def attempt() -> tuple[ErrorCode, str] | None:
            try:
                await work
            except KafkaRequestFailed as failure:
                return failure.error, failure.message
            return None

        found: tuple[ErrorCode, str] | None = self.run(attempt())
        return found

    def wait(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)

    def start(self, *broker_ids: int) -> Cluster:
        """Start these brokers (all by default), and wait until a controller has elected the leaders."""
        for broker_id in broker_ids or self.nodes:
            node = self.nodes[broker_id]
            node.boot()
            self.on(node, node.broker.start())
        self.wait(200)
        return self

    def on(self, node: Node, work: Coroutine[Any, Any, Any], limit_ms: int = 120_000) -> Any:
        """Run a coroutine on that node and return its result."""
        return run_task(self.scheduler, node.runtime, work, limit_ms)

    def expire(self, node: Node) -> None:
        """Expire the ZooKeeper session of this node."""
        self.ensemble.end_session(node.session.session_id)

    @property
    def controller(self) -> Node:
        active = [n for n in self.nodes.values() if not n.runtime.stopped and n.broker.controller.is_active]
        assert len(active) == 1, active
        return active[0]

    def stop_all(self) -> None:
        for node in self.nodes.values():
            if hasattr(node, "runtime"):
                node.runtime.stop()
        self.runtime.stop()

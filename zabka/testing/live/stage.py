"""A live cluster on which a script of the outage library runs: maps the script's node names, and runs its clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from http import HTTPStatus
from typing import Any, TypeVar

from zabka.api.kafka.kafka_client import make_client
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.ports import Endpoint
from zabka.simulation.scenarios.kafka_clients import Environment, KafkaClients, partition_of
from zabka.simulation.scenarios.step import StepFailed
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.clients import MACHINE, LiveClients
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.faults import Fault, RequestFaults
from zabka.testing.live.http_api import Refused
from zabka.testing.live.nodes import Node

T = TypeVar("T")

STEP_S_MAX = 60.0
SLOWER = 3
"""Factor by which waits are longer than on the simulated cluster, because a real machine can be busy."""


class LiveStage:
    """A live cluster on which a script runs: nodes by the script's names, and clients on a thread's event loop."""

    def __init__(self, cluster: LiveCluster, with_bug: bool, acks: int, *, pace: float = 1.0) -> None:
        """Set up the stage; `pace` is the factor by which every wait of the script is lengthened."""
        self.cluster = cluster
        self.pace = pace
        self.with_bug = with_bug
        self.names: dict[str, str] = {}
        self.clock_began_s: float | None = None
        """Time of the first `At` step, by the monotonic clock."""
        self.controller_epoch = 0
        self.faults: list[tuple[tuple[str, str], Fault | RequestFaults]] = []
        self.faults_made = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="script's clients", daemon=True)
        self._thread.start()
        addresses = cluster.zookeeper_connect.split(",")
        peers = dict(zip(map(str, cluster.peers.values()), addresses, strict=False))
        self.clients = LiveClients(self._loop, peers, cluster.access.ensemble)
        self._channel: AsyncioChannel | None = None
        self._kafka = self.ask(self._make_kafka(acks)) if cluster.brokers else None

    @property
    def kafka(self) -> KafkaClients:
        """The Kafka clients of the script. Raises StepFailed if the cluster has no brokers."""
        if self._kafka is None:
            raise StepFailed("there are no brokers")
        return self._kafka

    async def _make_kafka(self, acks: int) -> KafkaClients:
        admin, channel = make_client(self.cluster.bootstrap, "script", self.cluster.access.brokers)
        self._channel = channel
        endpoints = dict(zip(self.cluster.brokers, self.cluster.bootstrap.split(","), strict=True))

        def endpoint_of(broker: str) -> Endpoint:
            number = int(broker.rpartition("-")[2])
            host, _, port = endpoints[number].rpartition(":")
            return Endpoint(number, host, int(port))

        environment = Environment(
            AsyncioRuntime(self._loop), channel, admin, endpoint_of, lambda name: self._log_end(str(name))
        )
        return KafkaClients(environment, acks)

    def _log_end(self, name: str) -> int | None:
        found = self.partition(name)
        return dict(found.log_end_offsets).get(found.leader)

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a client's coroutine and return its result.

        Raises StepFailed if its request is rejected or takes too long.
        """
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(STEP_S_MAX)
        except TimeoutError:
            raise StepFailed("waited for an answer in vain") from None
        except (KafkaRequestFailed, KafkaUnavailable) as refused:
            raise StepFailed(str(refused)) from None

    def send(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a client's coroutine without waiting for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop_clients(self) -> None:
        """Stop all clients of the script."""

        async def close() -> None:
            await self.clients.close()
            if self._channel is not None:
                self._channel.close()
            await asyncio.sleep(0.01)

        self.ask(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    # -- nodes and partitions ----------------------------------------------------------------------------------------

    def name(self, text: str) -> str:
        """Return the cluster's name for the node that a script's name refers to."""
        if text == "controller":
            found = self.cluster.controller
            return "broker--1" if found is None else str(found)
        return self.names.get(text, text)

    def node(self, text: str) -> Node:
        """Return the node that a script's name refers to."""
        kind, _, number = self.name(text).partition("-")
        nodes: dict[int, Any] = self.cluster.brokers if kind == "broker" else self.cluster.peers
        found: Node = nodes[int(number)]
        return found

    def group(self, texts: tuple[str, ...], but: str = "") -> list[str]:
        """Return the cluster's names for these nodes, except `but`. `peers` and `brokers` mean all nodes of that
        kind.
        """
        groups = {
            "peers": [str(peer) for peer in self.cluster.peers.values()],
            "brokers": [str(broker) for broker in self.cluster.brokers.values()],
        }
        return [node for text in texts for node in groups.get(text, [self.name(text)]) if node != but]

    def broker_id(self, text: str) -> int:
        """Return the id of the broker that a script names, or -1 for the name "nobody"."""
        return -1 if text == "nobody" else int(self.name(text).partition("-")[2])

    def partition(self, name: str) -> Any:
        """Return a partition's state according to the ensemble."""
        requested = partition_of(name)
        return self.cluster.topics[requested.topic].partitions[requested.partition]

    def until(self, condition: Callable[[], bool], within_ms: int, what: str) -> None:
        """Wait until the condition is true. Raises StepFailed if it is not true in time."""
        try:
            self.cluster.until(condition, SLOWER * self.pace * within_ms / 1000, what)
        except ClusterFailed as failed:
            raise StepFailed(str(failed)) from None

    def all_serve(self) -> bool:
        """Return whether there is an established leader that all other running peers follow."""
        serving = [peer for peer in self.cluster.peers.values() if peer.process == "running"]
        return self.cluster.zab_leader is not None and all(peer.phase == "BROADCAST" for peer in serving)

    def partitions(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the state of every partition."""
        for topic in self.cluster.topics.names():
            for number, partition in enumerate(self.cluster.topics[topic].partitions):
                yield f"{topic}-{number}", partition

    def whole(self) -> bool:
        """Return whether every broker is registered, and every partition has a leader and a full ISR."""
        return next(self.unsettled(), None) is None

    def unsettled(self) -> Iterator[str]:
        """Yield the reasons why the cluster has not recovered yet, such as a partition without a leader.

        They have the same form as in the report of a simulated cluster.
        """
        for number, broker in self.cluster.brokers.items():
            if not broker.registered:
                yield f"broker {number} is not registered"
        for name, partition in self.partitions():
            if partition.leader < 0:
                yield f"{name} has no leader"
            if sorted(partition.isr) != sorted(partition.replicas):
                yield f"{name}: {partition.isr} of {partition.replicas} are in sync"

    def hold(self, link: tuple[str, str], fault: Fault | RequestFaults) -> None:
        """Store an active fault, so that `heal` can remove it."""
        self.faults.append((link, fault))
        self.faults_made += 1

    def heal(self, nodes: list[str] | None) -> None:
        """Remove all faults, or only the faults of the given nodes' links.

        A fault that cannot be removed stays in `faults`.
        """
        for held in list(self.faults):
            link, fault = held
            if (nodes is None or link[0] in nodes or link[1] in nodes) and _ended(fault):
                self.faults.remove(held)
        machines = None if nodes is None else [n.removeprefix(MACHINE) for n in nodes if n.startswith(MACHINE)]
        self.ask(self.clients.heal(machines))

    def zookeeper(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Call `work` with a ZooKeeper client, and return its result. Raises StepFailed if a request is rejected."""

        async def session() -> T:
            connector = AsyncioConnector(ssl_context=self.cluster.access.ensemble)
            client = Client(self.cluster.zookeeper_connect, connector, AsyncioRuntime(self._loop))
            await client.start()
            try:
                return await work(client)
            finally:
                await client.close()

        try:
            return self.ask(session())
        except ZooKeeperError as refused:
            raise StepFailed(repr(refused)) from None


def _ended(fault: Fault | RequestFaults) -> bool:
    try:
        fault.heal()
    except Refused as refused:
        # NOT_FOUND is no error: the fault ended when its node was killed.
        return refused.status == HTTPStatus.NOT_FOUND
    except ClusterFailed:
        return False
    return True

"""The stage on which a script over a simulated cluster is played: the world, its clients, and the cuts to heal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.records import EventType
from zabka.journal.judges.kafka_analysis import ACKS_ALL
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.ports import Endpoint
from zabka.kafka.zk.znodes import LeaderAndIsr
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime, run_task
from zabka.simulation.kernel.scheduler import Deadlock
from zabka.simulation.network.addresses import CLIENT_SERVICE, KAFKA_SERVICE, broker_name, peer_name
from zabka.simulation.network.channel import SimChannel
from zabka.simulation.network.connector import SimConnector, SimWords
from zabka.simulation.scenarios.kafka_clients import KafkaClients, Surroundings, partition_of
from zabka.simulation.scenarios.operations import OPERATIONS
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.world import World

ANSWER_MS_MAX = 60_000
KAFKA_MACHINE = "client-kafka"


def _surroundings(world: World, runtime: SimRuntime) -> Surroundings:
    channel = SimChannel(world.network, world.network.boot(KAFKA_MACHINE, runtime), runtime)
    bootstrap = [(name, int(KAFKA_SERVICE)) for name in world.broker_names()] or [("nobody", 0)]

    def endpoint_of(broker: str) -> Endpoint:
        return Endpoint(int(broker.rpartition("-")[2]), broker, int(KAFKA_SERVICE))

    admin = AdminClient(channel, runtime, bootstrap)
    return Surroundings(runtime, channel, admin, endpoint_of, world.replication.leader_log_end)


class Stage:
    """One world under a script."""

    def __init__(self, world: World, with_bug: bool = False, acks: int = ACKS_ALL) -> None:
        self.world = world
        self.with_bug = with_bug
        """Is the outage played, rather than its absence?"""
        self.names: dict[str, str] = {}
        self.controller_epoch = 0
        """As it was when a script last waited for a controller."""
        self.kafka_runtime = SimRuntime(world.scheduler, derive_random(world.seed, KAFKA_MACHINE))
        self.kafka = KafkaClients(_surroundings(world, self.kafka_runtime), acks)
        self.heals: list[tuple[tuple[str, str], Callable[[], None]]] = []
        """The links that suffer, and how to end that."""
        self.clients: dict[str, Client] = {}
        self.fired: dict[str, int] = {}
        self._runtimes: dict[str, SimRuntime] = {}

    def heal(self, nodes: list[str] | None = None) -> None:
        """Undo every cut and delay, or those of these nodes alone."""
        kept = []
        for link, heal in self.heals:
            if nodes is None or link[0] in nodes or link[1] in nodes:
                heal()
            else:
                kept.append((link, heal))
        self.heals = kept

    def node(self, name: str) -> str:
        """The node meant: one that a step has named so, `controller`, `leader:topic-0`, or a node's own name."""
        if name in self.names:
            return self.names[name]
        if name == "controller":
            return broker_name(self.world.record.state.controller_id)
        if name.startswith("leader:"):
            return broker_name(self.partition_state(name.removeprefix("leader:")).leader)
        return name

    def partition_state(self, name: str) -> LeaderAndIsr:
        """What the quorum says of a partition.  Raises StepFailed where it says nothing."""
        found = self.world.replication.znodes.states.get(partition_of(name))
        if found is None:
            raise StepFailed(f"{name} has no state")
        return found

    def nodes(self, names: tuple[str, ...], but: str = "") -> list[str]:
        """The nodes meant; `peers` and `brokers` are all of them, but one."""
        groups = {"peers": self.world.peer_names(), "brokers": self.world.broker_names()}
        return [node for name in names for node in groups.get(name, [self.node(name)]) if node != but]

    def everybody_serves(self) -> bool:
        """Does somebody lead, and does every peer that runs serve and stand where the leader does?"""
        leader = self.world.zab_leader()
        if leader is None or leader.peer is None:
            return False
        end = leader.peer.status().last_committed
        for node in self.world.peers.values():
            if node.peer is None or self.world.is_paused(node.name):
                continue
            status = node.peer.status()
            if not status.serving or status.last_committed != end:
                return False
        return True

    # -- clients -----------------------------------------------------------------------------------------------------

    def join(self, name: str, peers: tuple[int, ...], session_timeout_ms: int, *, read_only: bool = False) -> None:
        """Connect a client."""
        machine = f"client-{name}"
        runtime = SimRuntime(self.world.scheduler, derive_random(self.world.seed, machine))
        host = self.world.network.boot(machine, runtime)
        hosts = ",".join(f"{peer_name(peer)}:{CLIENT_SERVICE}" for peer in peers)
        connector = SimConnector(self.world.network, host)
        asker = SimWords(self.world.network, host, runtime)
        client = Client(
            hosts,
            connector,
            runtime,
            session_timeout_ms=session_timeout_ms,
            name=name,
            read_only=read_only,
            asker=asker,
        )
        self._runtimes[name] = runtime
        self.finish(runtime, client.start(), f"{name} to connect")
        self.clients[name] = client

    def vanish(self, name: str) -> None:
        """A node's machine is gone, and its kernel with it: no connection is closed."""
        self._runtimes.pop(name).stop()
        del self.clients[name]

    def stop_clients(self) -> None:
        """The curtain: no client goes on."""
        for runtime in [*self._runtimes.values(), self.kafka_runtime]:
            runtime.stop()

    def finish(self, runtime: SimRuntime, wanted: Awaitable[Any], what: str) -> Any:
        """Let time pass until it is there.  Raises StepFailed where that takes too long."""

        async def finish() -> Any:
            return await wanted

        try:
            return run_task(self.world.scheduler, runtime, finish(), ANSWER_MS_MAX)
        except Deadlock:
            raise StepFailed(f"waited for {what} in vain") from None

    def _watch(self, name: str) -> Callable[[WatchEvent], None]:
        def seen(event: WatchEvent) -> None:
            if event.type is not EventType.NONE:
                self.fired[name] = self.fired.get(name, 0) + 1

        return seen

    async def _answer(self, name: str, operation: str, path: str, data: str) -> str:
        if operation not in OPERATIONS:
            raise StepFailed(f"no operation {operation!r}; there are {', '.join(sorted(OPERATIONS))}")
        try:
            return await OPERATIONS[operation](self.clients[name], path, data, self._watch(name))
        except ZooKeeperError as refused:
            return type(refused).__name__

    def client(self, name: str) -> Client:
        """The client of that name.  Raises StepFailed where there is none."""
        if name not in self.clients:
            raise StepFailed(f"there is no client {name!r}")
        return self.clients[name]

    def kind_of_session(self, name: str) -> str:
        """`global`, `local`, or `unknown` to every peer that runs."""
        session_id, processes = self.client(name).session_id, self.world.peer_processes()
        if any(process.knows_session(session_id) for process in processes):
            return "global"
        listed = (known for process in processes for known, _ in process.service.local_sessions())
        return "local" if session_id in listed else "unknown"

    def ask(self, name: str, operation: str, path: str, data: str) -> str:
        """Ask, and wait for the answer."""
        self.client(name)
        answer = self.finish(
            self._runtimes[name], self._answer(name, operation, path, data), f"{name}'s {operation} {path}"
        )
        assert isinstance(answer, str)
        return answer

    def start_operation(self, name: str, operation: str, path: str, data: str) -> None:
        """Ask, and go on."""
        self._runtimes[name].spawn(self._answer(name, operation, path, data), operation)

    def ask_peer(self, peer: int, operation: str, path: str) -> str:
        """What that peer answers behind a sync."""
        name = f"at-{peer}"
        if name not in self.clients:
            self.join(name, (peer,), 4_000)
        for _ in range(10):
            if self.ask(name, "sync", path, "") == "ok":
                return self.ask(name, operation, path, "")
            self.world.run(500)
            if self.ask(name, "exists", "/", "") == "SessionExpired":
                self.vanish(name)
                self.join(name, (peer,), 4_000)
        raise StepFailed(f"peer {peer} does not answer")

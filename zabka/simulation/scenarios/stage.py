"""The stage on which a script over a simulated cluster is played: the world, its clients, and the cuts to heal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.records import EventType
from zabka.journal.judges.kafka_analysis import ACKS_ALL
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.ports import Endpoint
from zabka.kafka.zk.znodes import LeaderAndIsr
from zabka.simulation.kernel.scheduler import Deadlock
from zabka.simulation.network.addresses import broker_name
from zabka.simulation.scenarios.kafka_clients import KafkaClients, Surroundings, partition_of
from zabka.simulation.scenarios.operations import OPERATIONS
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.serving.broker_machine import KAFKA_PORT, BrokerMachine, broker_address
from zabka.simulation.serving.client_machine import ScriptedMachine
from zabka.simulation.serving.cluster_world import ClusterWorld
from zabka.simulation.serving.peer_machine import CLIENT_PORT, peer_address
from zabka.simulation.serving.server_machine import ServerMachine

ANSWER_MS_MAX = 60_000
CLIENT = "client-"
"""How the names of clients' machines begin."""
KAFKA_MACHINE = f"{CLIENT}kafka"


def _surroundings(world: ClusterWorld, machine: ScriptedMachine) -> Surroundings:
    runtime, channel = machine.runtime(), machine.channel()
    bootstrap = [(broker_address(broker), KAFKA_PORT) for broker in world.brokers] or [("nobody", 0)]

    def endpoint_of(broker: str) -> Endpoint:
        number = int(broker.rpartition("-")[2])
        return Endpoint(number, broker_address(number), KAFKA_PORT)

    admin = AdminClient(channel, runtime, bootstrap)
    return Surroundings(runtime, channel, admin, endpoint_of, world.replication.leader_log_end)


class Stage:
    """One world under a script."""

    def __init__(self, world: ClusterWorld, with_bug: bool = False, acks: int = ACKS_ALL) -> None:
        self.world = world
        self.with_bug = with_bug
        """Is the outage played, rather than its absence?"""
        self.names: dict[str, str] = {}
        self.controller_epoch = 0
        """As it was when a script last waited for a controller."""
        self.kafka_machine = world.scripted_client(KAFKA_MACHINE)
        self.kafka = KafkaClients(_surroundings(world, self.kafka_machine), acks)
        self.heals: list[tuple[tuple[str, str], Callable[[], None]]] = []
        """The links that suffer, and how to end that."""
        self.clients: dict[str, Client] = {}
        self.fired: dict[str, int] = {}

    def heal(self, nodes: list[str] | None = None) -> None:
        """Undo every cut and delay, or those of these nodes alone."""
        kept = []
        for link, heal in self.heals:
            if nodes is None or link[0] in nodes or link[1] in nodes:
                heal()
            else:
                kept.append((link, heal))
        self.heals = kept

    # -- nodes -------------------------------------------------------------------------------------------------------

    def node(self, name: str) -> str:
        """The node meant: one that a step has named so, `controller`, `leader:topic-0`, or a node's own name."""
        if name in self.names:
            return self.names[name]
        if name == "controller":
            return broker_name(self.world.record.state.controller_id)
        if name.startswith("leader:"):
            return broker_name(self.partition_state(name.removeprefix("leader:")).leader)
        if name.startswith(CLIENT):
            # Its links may be cut before there is a client on it.
            self.world.scripted_client(name)
        return name

    def partition_state(self, name: str) -> LeaderAndIsr:
        """What the quorum says of a partition.  Raises StepFailed where it says nothing."""
        found = self.world.replication.znodes.states.get(partition_of(name))
        if found is None:
            raise StepFailed(f"{name} has no state")
        return found

    def peer_names(self) -> list[str]:
        """Every peer's node name."""
        return [machine.name for machine in self.world.peers.values()]

    def broker_names(self) -> list[str]:
        """Every broker's node name."""
        return [machine.name for machine in self.world.brokers.values()]

    def nodes(self, names: tuple[str, ...], but: str = "") -> list[str]:
        """The nodes meant; `peers` and `brokers` are all of them, but one."""
        groups = {"peers": self.peer_names(), "brokers": self.broker_names()}
        return [node for name in names for node in groups.get(name, [self.node(name)]) if node != but]

    def server(self, name: str) -> ServerMachine:
        """The machine of a node.  Raises StepFailed where there is none."""
        found = next((machine for machine in self.world.servers() if machine.name == name), None)
        if found is None:
            raise StepFailed(f"there is no node {name!r}")
        return found

    def broker(self, name: str) -> BrokerMachine:
        """The machine of a broker.  Raises StepFailed where it is none."""
        machine = self.server(name)
        if not isinstance(machine, BrokerMachine):
            raise StepFailed(f"{name} is no broker")
        return machine

    def kill(self, name: str, *, power_loss: bool) -> None:
        """SIGKILL a node, or cut its power, if it runs."""
        machine = self.server(name)
        if machine.process is not None:
            self.world.announce("power_loss" if power_loss else "crash", name)
        if power_loss:
            machine.lose_power()
        else:
            machine.kill()

    def stop(self, name: str) -> None:
        """SIGTERM a broker, if it runs: a controlled shutdown, after which it stays down."""
        machine = self.broker(name)
        if machine.process is not None:
            self.world.announce("stop", name)
            machine.stop()

    def pause(self, name: str) -> None:
        """SIGSTOP a node, if it runs."""
        machine = self.server(name)
        if machine.process is not None:
            self.world.announce("pause", name)
            machine.pause()

    def everybody_serves(self) -> bool:
        """Does somebody lead, and does every peer that runs serve and stand where the leader does?"""
        leader = self.world.leader()
        if leader is None or leader.running is None:
            return False
        end = leader.running.peer.status().last_committed
        for machine in self.world.peers.values():
            if machine.process is None or machine.is_paused:
                continue
            if machine.running is None:
                return False
            status = machine.running.peer.status()
            if not status.serving or status.last_committed != end:
                return False
        return True

    # -- clients -----------------------------------------------------------------------------------------------------

    def _machine_of(self, client: str) -> ScriptedMachine:
        return self.world.scripted_client(f"{CLIENT}{client}")

    def join(self, name: str, peers: tuple[int, ...], session_timeout_ms: int, *, read_only: bool = False) -> None:
        """Connect a client."""
        machine = self._machine_of(name)
        hosts = ",".join(f"{peer_address(peer)}:{CLIENT_PORT}" for peer in peers)
        runtime, connector = machine.runtime(), machine.connector()

        async def connect() -> Client:
            client = Client(
                hosts,
                connector,
                runtime,
                session_timeout_ms=session_timeout_ms,
                name=name,
                read_only=read_only,
                asker=connector,
            )
            await client.start()
            return client

        self.clients[name] = self.finish(machine, connect(), f"{name} to connect")

    def vanish(self, name: str) -> None:
        """A client's machine is gone, and its kernel with it: no connection is closed."""
        self._machine_of(name).lose_power()
        del self.clients[name]

    def finish(self, machine: ScriptedMachine, wanted: Coroutine[Any, Any, Any], what: str) -> Any:
        """Let time pass until a client has done it.  Raises StepFailed where that takes too long."""
        try:
            return self.world.until_done(machine.begin(wanted, what), ANSWER_MS_MAX, what)
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
        session_id = self.client(name).session_id
        machines = [machine for machine in self.world.peers.values() if machine.process is not None]
        services = [machine.service for machine in machines if machine.running and machine.service]
        if any(session_id in service.tree.sessions for service in services):
            return "global"
        listed = (known for service in services for known, _ in service.local_sessions())
        return "local" if session_id in listed else "unknown"

    def ask(self, name: str, operation: str, path: str, data: str) -> str:
        """Ask, and wait for the answer."""
        self.client(name)
        asked = self._answer(name, operation, path, data)
        answer = self.finish(self._machine_of(name), asked, f"{name}'s {operation} {path}")
        assert isinstance(answer, str)
        return answer

    def start_operation(self, name: str, operation: str, path: str, data: str) -> None:
        """Ask, and go on."""
        self.client(name)
        self._machine_of(name).begin(self._answer(name, operation, path, data), operation)

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

"""The stage of a script on a simulated cluster: its world, its clients, and the active link faults."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.records import EventType
from zabka.journal.checkers.kafka_analysis import ACKS_ALL
from zabka.journal.events import Event, TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.ports import Endpoint
from zabka.kafka.zk.znodes import LeaderAndIsr
from zabka.simulation.cluster.broker_machine import KAFKA_PORT, BrokerMachine, broker_address
from zabka.simulation.cluster.client_machine import ScriptedMachine
from zabka.simulation.cluster.cluster_world import ClusterWorld
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.cluster.peer_machine import CLIENT_PORT, peer_address
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.faults.message_faults import MessageFaults, UnknownKind
from zabka.simulation.scenarios.group_clients import ScriptedMember
from zabka.simulation.scenarios.kafka_clients import Environment, KafkaClients, partition_of
from zabka.simulation.scenarios.operations import OPERATIONS
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.transaction_clients import ScriptedProducer

E = TypeVar("E", bound=Event)
ANSWER_MS_MAX = 60_000
CLIENT = "client-"
"""Prefix of the names of client machines."""
KAFKA_MACHINE = f"{CLIENT}kafka"


def _is_about(event: Event, partition: TopicPartition) -> bool:
    return (getattr(event, "topic", None), getattr(event, "partition", None)) == partition


def _environment(world: ClusterWorld, machine: ScriptedMachine) -> Environment:
    runtime, channel = machine.runtime(), machine.channel()
    bootstrap = [(broker_address(broker), KAFKA_PORT) for broker in world.brokers] or [("nobody", 0)]

    def endpoint_of(broker: str) -> Endpoint:
        number = int(broker.rpartition("-")[2])
        return Endpoint(number, broker_address(number), KAFKA_PORT)

    admin = AdminClient(channel, runtime, bootstrap)
    return Environment(runtime, channel, admin, endpoint_of, world.replication.leader_log_end)


class Stage:
    """The simulated world in which one script runs, with the clients and faults of the script."""

    def __init__(self, world: ClusterWorld, with_bug: bool = False, acks: int = ACKS_ALL) -> None:
        self.world = world
        self.with_bug = with_bug
        """Whether this is the run with the bug."""
        self.names: dict[str, str] = {}
        self.clock_began_ms: int | None = None
        """Virtual time of the first `At` step."""
        self.controller_epoch = 0
        """Controller epoch found by the last step that waited for a controller."""
        self.kafka_machine = world.scripted_client(KAFKA_MACHINE)
        self.kafka = KafkaClients(_environment(world, self.kafka_machine), acks)
        self.heals: list[tuple[tuple[str, str], Callable[[], None]]] = []
        """Pairs of nodes whose link has a fault, each with the function that ends the fault."""
        self.clients: dict[str, Client] = {}
        self._producers: dict[str, ScriptedProducer] = {}
        self._members: dict[str, ScriptedMember] = {}
        self.fired: dict[str, int] = {}
        self.messages = MessageFaults(world)

    def heal(self, nodes: list[str] | None = None) -> None:
        """End all cuts and delays, or only those on the links of the given nodes."""
        kept = []
        for link, heal in self.heals:
            if nodes is None or link[0] in nodes or link[1] in nodes:
                heal()
            else:
                kept.append((link, heal))
        self.heals = kept

    def add_message_fault(
        self, source: str, target: str, kind: str, begin: Callable[[str, str, str], Callable[[], None]]
    ) -> None:
        """Begin a fault that affects messages between two nodes; `heal` ends the fault.

        Raises StepFailed for an unknown message kind.
        """
        link = self.node(source), self.node(target)
        try:
            self.heals.append((link, begin(*link, kind)))
        except UnknownKind as unknown:
            raise StepFailed(str(unknown)) from None

    # -- nodes of the cluster ----------------------------------------------------------------------------------------

    def node(self, name: str) -> str:
        """Return the node that a step's `name` refers to.

        `name` is a name that a step assigned, `controller`, `leader:topic-0`, or a node's own name.
        """
        if name in self.names:
            return self.names[name]
        if name == "controller":
            return broker_name(self.world.record.state.controller_id)
        if name.startswith("leader:"):
            return broker_name(self.partition_state(name.removeprefix("leader:")).leader)
        if name.startswith(CLIENT):
            # Create the client's machine now, because a script can cut its links before its first request.
            self.world.scripted_client(name)
        return name

    def partition_state(self, name: str) -> LeaderAndIsr:
        """Return the state of a partition in ZooKeeper. Raises StepFailed if the partition has none."""
        found = self.world.replication.znodes.states.get(partition_of(name))
        if found is None:
            raise StepFailed(f"{name} has no state")
        return found

    def peer_names(self) -> list[str]:
        """Node names of all peers."""
        return [machine.name for machine in self.world.peers.values()]

    def broker_names(self) -> list[str]:
        """Node names of all brokers."""
        return [machine.name for machine in self.world.brokers.values()]

    def nodes(self, names: tuple[str, ...], but: str = "") -> list[str]:
        """Return the nodes that these names refer to, except `but`. The names `peers` and `brokers` mean all nodes of
        that kind.
        """
        groups = {"peers": self.peer_names(), "brokers": self.broker_names()}
        return [node for name in names for node in groups.get(name, [self.node(name)]) if node != but]

    def server(self, name: str) -> ServerMachine:
        """Return the machine of a peer or broker. Raises StepFailed if there is no such node."""
        found = next((machine for machine in self.world.servers() if machine.name == name), None)
        if found is None:
            raise StepFailed(f"there is no node {name!r}")
        return found

    def broker(self, name: str) -> BrokerMachine:
        """Return the machine of a broker. Raises StepFailed if the node is not a broker."""
        machine = self.server(name)
        if not isinstance(machine, BrokerMachine):
            raise StepFailed(f"{name} is no broker")
        return machine

    def kill(self, name: str, *, power_loss: bool) -> None:
        """Kill a node (SIGKILL) or cut its power, if it is running."""
        machine = self.server(name)
        if machine.process is not None:
            self.world.announce("power_loss" if power_loss else "crash", name)
        if power_loss:
            machine.lose_power()
        else:
            machine.kill()

    def stop(self, name: str) -> None:
        """Send SIGTERM to a broker if it is running: a controlled shutdown, after which it stays down."""
        machine = self.broker(name)
        if machine.process is not None:
            self.world.announce("stop", name)
            machine.stop()

    def pause(self, name: str) -> None:
        """Pause a node (SIGSTOP) if it is running."""
        machine = self.server(name)
        if machine.process is not None:
            self.world.announce("pause", name)
            machine.pause()

    def everybody_serves(self) -> bool:
        """Whether all running peers follow an established leader, and have committed its last transaction."""
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

    def add_producer(self, name: str, transactional_id: str) -> tuple[ScriptedProducer, ScriptedMachine]:
        """Return a new producer, and the machine that runs it."""
        machine = self._machine_of(name)
        around = _environment(self.world, machine)
        self.names[name] = machine.name
        history = self.kafka.history
        self._producers[name] = ScriptedProducer(name, around.admin, around.runtime, transactional_id, history)
        return self._producers[name], machine

    def producer(self, name: str) -> tuple[ScriptedProducer, ScriptedMachine]:
        """Return a producer and its machine. Raises StepFailed if no step has started the producer."""
        if name not in self._producers:
            raise StepFailed(f"there is no producer {name!r}")
        return self._producers[name], self._machine_of(name)

    def add_member(self, name: str, settings: GroupSettings) -> tuple[ScriptedMember, ScriptedMachine]:
        """Return a new member of a consumer group, and the machine that runs it."""
        machine = self._machine_of(name)
        around = _environment(self.world, machine)
        self.names[name] = machine.name
        self._members[name] = ScriptedMember(around.admin, around.runtime, settings)
        return self._members[name], machine

    def member(self, name: str) -> tuple[ScriptedMember, ScriptedMachine]:
        """Return a group member and its machine. Raises StepFailed if no step has started the member."""
        if name not in self._members:
            raise StepFailed(f"there is no group member {name!r}")
        return self._members[name], self._machine_of(name)

    def reported(self, kind: type[E], partition: TopicPartition) -> list[E]:
        """Return the partition's events of that type, in journal order."""
        events = (entry.event for entry in self.world.record.entries)
        return [each for each in events if isinstance(each, kind) and _is_about(each, partition)]

    def _machine_of(self, client: str) -> ScriptedMachine:
        return self.world.scripted_client(f"{CLIENT}{client}")

    def join(self, name: str, peers: tuple[int, ...], session_timeout_ms: int, *, read_only: bool = False) -> None:
        """Create a client with that name, and connect it to one of these peers."""
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
        """Stop a client's machine without closing its connections."""
        self._machine_of(name).lose_power()
        del self.clients[name]

    def finish(self, machine: ScriptedMachine, wanted: Coroutine[Any, Any, Any], what: str) -> Any:
        """Advance time until a client's operation has ended. Raises StepFailed if that takes too long."""
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
        """Return the client of that name. Raises StepFailed if it does not exist."""
        if name not in self.clients:
            raise StepFailed(f"there is no client {name!r}")
        return self.clients[name]

    def kind_of_session(self, name: str) -> str:
        """Return the kind of a session: `global`, `local`, or `unknown` to every running peer."""
        session_id = self.client(name).session_id
        machines = [machine for machine in self.world.peers.values() if machine.process is not None]
        services = [machine.service for machine in machines if machine.running and machine.service]
        if any(session_id in service.tree.sessions for service in services):
            return "global"
        listed = (known for service in services for known, _ in service.local_sessions())
        return "local" if session_id in listed else "unknown"

    def ask(self, name: str, operation: str, path: str, data: str) -> str:
        """Send a client's request for an operation, and return the result."""
        self.client(name)
        asked = self._answer(name, operation, path, data)
        answer = self.finish(self._machine_of(name), asked, f"{name}'s {operation} {path}")
        assert isinstance(answer, str)
        return answer

    def start_operation(self, name: str, operation: str, path: str, data: str) -> None:
        """Start a client's request for an operation without waiting for the result."""
        self.client(name)
        self._machine_of(name).begin(self._answer(name, operation, path, data), operation)

    def ask_peer(self, peer: int, operation: str, path: str) -> str:
        """Send a sync to that peer, then request the operation from it and return the result."""
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

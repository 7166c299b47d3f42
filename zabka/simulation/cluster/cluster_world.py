"""The world of a whole cluster: an ensemble and brokers as whole processes, with Kafka's checkers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import NamedTuple

import msgspec

from zabka.ensemble.request_fault import HeldRequestFault, RequestFault, describe
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.runtime.link_fault import AnyFault, HeldFault, LinkFault, kind_text
from zabka.ensemble.txn import Txn
from zabka.journal.events import Entry, InvariantViolated, LogDamageFound, NodeStarted, TopicPartition
from zabka.journal.message_log import MessageNotes
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.request_faults.ready_sets import why_impossible
from zabka.simulation.checkers.audited_broker import replicas_agree
from zabka.simulation.checkers.loaded_coordinators import LoadedCoordinators
from zabka.simulation.checkers.minimums import MINIMUM, Minimums
from zabka.simulation.checkers.producer_states import NAME as PRODUCER_STATES
from zabka.simulation.checkers.producer_states import differing_producers
from zabka.simulation.checkers.replication_audit import ReplicationAudit
from zabka.simulation.checkers.settled import unsettled
from zabka.simulation.checkers.shutdowns import Shutdowns
from zabka.simulation.cluster.broker_machine import KAFKA_PORT, BrokerMachine, broker_address
from zabka.simulation.cluster.client_machine import KafkaProgram, ProgramMachine, tapped_channel
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.node_names import rack_name
from zabka.simulation.cluster.peer_machine import PEER_PORTS
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.cluster.shape import Shape
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.tap import MessageTap

ENSEMBLE_KEYS = {
    "tickTime": "500",
    "initLimit": "10",
    "syncLimit": "5",
    "snapCount": "200",
    "commitLogCount": "500",
    "preAllocSize": "64",
    "skipACL": "yes",
    "zabka.journal.level": "full",
}


TAKEN_OFFLINE = "taken offline"
SEEN_TO_US = 1_000_000
"""Time in microseconds until an operator notices and repairs a failed disk."""


class ClusterShape(NamedTuple):
    """The shape of a cluster: its ensemble, and the number, configuration and log directories of its brokers."""

    ensemble: Shape
    brokers: int
    log_dirs: int
    keys: dict[str, str]
    pause_ms: int
    """Pause of a producer between two records, in milliseconds."""
    racks: int = 0
    """Number of racks, to which brokers are assigned in turn; with 0, brokers have no rack."""


def draw_cluster_shape(random: Random) -> ClusterShape:
    """Draw a cluster shape with small segments, so that logs roll, and short timeouts, so that ISRs change."""
    peers = random.choice((1, 3, 3))
    ensemble = Shape(
        peers=peers,
        observers=0,
        keys=ENSEMBLE_KEYS,
        pieces=random.choice((0.0, 0.05, 0.4)),
        skew_ms_max=random.choice((0, 500, 5_000)),
        changes_members=False,
    )
    keys = {
        "zookeeper.session.timeout.ms": "6000",
        "replica.lag.time.max.ms": random.choice(("1500", "1500", "3000")),
        # Kafka uses 30 s by default. This much shorter timeout lets requests time out, and arrive late, within a run.
        "replica.socket.timeout.ms": "1500",
        "controller.socket.timeout.ms": "1500",
        "replica.high.watermark.checkpoint.interval.ms": random.choice(("500", "5000")),
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "500",
        "log.segment.bytes": random.choice(("300", "2000", "1073741824")),
        "zabka.journal.level": "full",
    }
    return ClusterShape(ensemble, random.choice((3, 3, 3, 4)), random.choice((1, 1, 2)), keys, random.choice((20, 100)))


class ClusterWorld(ServingWorld):
    """A simulated cluster.  `start()` boots it; `run` and `until` advance the virtual time."""

    def __init__(self, seed: int, shape: ClusterShape, tap: MessageTap | None = None) -> None:
        super().__init__(seed, shape.ensemble, tap)
        keys = {"zookeeper.connect": self.hosts, **shape.keys}
        skews = derive_random(seed, "skew of brokers")
        self.brokers: dict[int, BrokerMachine] = {}
        for broker in range(1, shape.brokers + 1):
            skew_ms = skews.randrange(-shape.ensemble.skew_ms_max, shape.ensemble.skew_ms_max + 1)
            place = {"broker.rack": rack_name(broker, shape.racks)} if shape.racks else {}
            self.brokers[broker] = BrokerMachine(
                self.ground, self.record, broker, keys={**place, **keys}, log_dirs=shape.log_dirs, skew_ms=skew_ms
            )
        self._given_up: dict[str, None] = {}
        """Brokers that run without one of their log directories."""
        self._is_watched = False
        """Whether a simulated operator restarts brokers that report an offline log directory."""
        self.record.listen(self._follow_directories, (LogDamageFound, NodeStarted))
        minimums = Minimums(int(shape.keys.get(MINIMUM, "1")), int(shape.keys["zookeeper.session.timeout.ms"]))
        self.replication = ReplicationAudit(self.scheduler, self.brokers, self.record.checked, self.emit, minimums)
        self.record.listen(self.replication.journalled)
        coordinators = LoadedCoordinators(
            self.scheduler, self.brokers, self.replication.znodes, self.record.checked, self.emit
        )
        self.record.listen(coordinators.journalled, LoadedCoordinators.watches)
        shutdowns = Shutdowns(self.replication.znodes, self.record.checked, self.emit)
        self.record.listen(shutdowns.journalled, Shutdowns.watches)
        self.replication.listeners.append(shutdowns.changed)
        for broker, machine in self.brokers.items():
            machine.on_read = coordinators.was_read
            observers = (
                partial(coordinators.connection, broker),
                partial(shutdowns.connection, broker),
                partial(self.serving.broker_connection, machine.name),
            )
            for observe in observers:
                self.ground.network.observe(machine.address, KAFKA_PORT, observe)

    def committed(self, txn: Txn) -> None:
        """Pass a committed transaction to Kafka's checkers."""
        self.replication.committed(txn)

    def _follow_directories(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, LogDamageFound) and event.action == TAKEN_OFFLINE:
            self._given_up[entry.node] = None
            if self._is_watched:
                # The directory may have failed before the repair, because a starting broker reports an offline
                # directory only after it has joined the cluster.
                self.scheduler.after(SEEN_TO_US, self._restart_given_up)
        elif isinstance(event, NodeStarted):
            self._given_up.pop(entry.node, None)

    # -- faults that the servers apply themselves ---------------------------------------------------------------------

    def request_fault(self, rule: RequestFault) -> str:
        """Add a request fault on the nodes that the rule names, and return its id. Raises ValueError if the rule is
        invalid.
        """
        if (reason := why_impossible(rule)) is not None:
            raise ValueError(reason)
        if self.leaves_out("request", describe(rule), rule.node):
            return f"f{self.fault_number}"
        fault_id = self.announce("request", describe(rule), rule.node)
        held = HeldRequestFault(id=fault_id, **msgspec.structs.asdict(rule))
        self._hold(held, [machine for machine in self.servers() if held.is_for(machine.name)])
        return fault_id

    def link_fault(self, fault: LinkFault) -> str:
        """Make all servers apply a fault to the links between two servers, and return the fault's id.

        Either end of a link can also be a client's machine.  Unlike `cut` and `delay`, which act in the simulated
        network, the servers themselves delay or drop the bytes of their connections.
        """
        ends = {end: self.clients[end].address for end in (fault.source, fault.target) if end in self.clients}
        source, target = (ends.get(end, end) for end in (fault.source, fault.target))
        fault = msgspec.structs.replace(fault, source=source, target=target)
        fault_id = self.announce(kind_text(fault), source, target, both_ways=fault.both_ways, delay_ms=fault.delay_ms)
        self._hold(HeldFault(id=fault_id, **msgspec.structs.asdict(fault)), self.servers())
        return fault_id

    def _hold(self, fault: AnyFault, machines: list[ServerMachine]) -> None:
        for machine in machines:
            machine.hold_faults([*machine.faults.faults, *machine.faults.requests, fault], self._addresses())

    def _addresses(self) -> dict[str, str]:
        """Return the name of the server at each address and port."""
        peers = ((machine, port) for machine in self.peers.values() for port in PEER_PORTS)
        brokers = ((machine, KAFKA_PORT) for machine in self.brokers.values())
        return {f"{machine.address}:{port}": machine.name for machine, port in (*peers, *brokers)}

    def remove_fault(self, fault_id: str) -> None:
        """Remove a request fault or a link fault by its id."""
        for machine in self.servers():
            held: list[AnyFault] = [*machine.faults.faults, *machine.faults.requests]
            kept = [fault for fault in held if fault.id != fault_id]
            if len(kept) < len(held):
                machine.hold_faults(kept, machine.faults.names)
        self.over(fault_id)

    def request_fault_uses(self, fault_id: str) -> int:
        """Return the number of requests to which the currently running processes have applied a fault."""
        return sum(machine.fault_counts().get(fault_id, (0, 0))[1] for machine in self.servers())

    # -- nodes -------------------------------------------------------------------------------------------------------

    def servers(self) -> list[ServerMachine]:
        """Return the machines of all peers and brokers."""
        return [*self.peers.values(), *self.brokers.values()]

    def run_kafka_client(self, name: str, program: KafkaProgram) -> None:
        """Add and start a machine that runs a client of the brokers."""
        bootstrap = [(broker_address(broker), KAFKA_PORT) for broker in self.brokers]

        async def work(runtime: AsyncioRuntime, messages: MessageNotes | None) -> None:
            await program(AdminClient(tapped_channel(name, messages), runtime, bootstrap), runtime)

        machine = ProgramMachine(self.ground, name, self.next_client_address(), work)
        self.clients[name] = machine
        machine.start()

    def unsettled(self) -> str | None:
        """Return the first difference between the brokers' state and the state of a healthy cluster, or None."""
        return unsettled(self.brokers, self.replication.znodes, self.record.state.controller_id) or self.leftover()

    def leftover(self) -> str | None:
        """Return a description of a replica on a running broker's disk whose topic does not exist, or None."""
        for machine in self.brokers.values():
            for log_dir in machine.log_dirs if machine.broker is not None else ():
                for name in machine.partitions(log_dir):
                    topic, _, number = name.rpartition("-")
                    if number.isdecimal() and topic not in self.replication.znodes.topics:
                        return f"{machine.name} still has {log_dir}/{name}"
        return None

    def check_producers(self) -> None:
        """Report brokers whose idempotent producer state differs from their logs."""
        for each in self.record.state.partitions.values():
            for replica in each.replicas:
                self.record.checked.note(PRODUCER_STATES)
                fault = differing_producers(self.brokers[replica], TopicPartition(each.topic, each.partition))
                if fault is not None:
                    self.emit(InvariantViolated(PRODUCER_STATES, fault))

    def replicas_agree(self, topic: str | None = None) -> bool:
        """Return whether the replicas of each partition, of one or all topics, have identical logs, byte for byte."""
        return next(self._differing(topic), None) is None

    def topics_that_differ(self) -> list[str]:
        """Return the topics that have a partition whose replicas have different logs."""
        return list(dict.fromkeys(self._differing()))

    def _differing(self, topic: str | None = None) -> Iterator[str]:
        for each in self.record.state.partitions.values():
            name = f"{each.topic}-{each.partition}"
            if topic in (None, each.topic) and not replicas_agree(self.brokers, name, each.replicas):
                yield each.topic

    def announce_power_loss(self, machine: BrokerMachine) -> None:
        """Write a broker's power loss to the journal."""
        self.announce("power_loss", machine.name)

    def repair_directories(self) -> None:
        """Restart brokers with an offline log directory, as an operator does after repairing the disk.

        Brokers that report an offline log directory later are restarted as well.
        """
        self._is_watched = True
        self._restart_given_up()

    def leave_directories(self) -> None:
        """End `repair_directories`: no longer restart brokers that report an offline log directory."""
        self._is_watched = False

    def _restart_given_up(self) -> None:
        for name in list(self._given_up):
            machine = next(each for each in self.brokers.values() if each.name == name)
            self.announce("crash", name)
            machine.kill()
            machine.switch_on()

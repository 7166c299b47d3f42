"""The world that a user configures: a whole cluster that runs production code in virtual time, from one seed.

Faults and tests refer to nodes by name ("peer-1", "broker-2").  Every event is written to `record`, and the checkers
check the invariants at each event.  The same seed and settings give the same history, byte for byte.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from zabka.ensemble.client.client import Client
from zabka.kafka.client.admin_client import AdminClient
from zabka.simulation.cluster.broker_machine import KAFKA_PORT, broker_address
from zabka.simulation.cluster.client_machine import SESSION_TIMEOUT_MS, ScriptedMachine
from zabka.simulation.cluster.cluster_world import ClusterShape, ClusterWorld
from zabka.simulation.cluster.ensemble_world import nothing
from zabka.simulation.cluster.node_names import broker_name, peer_name
from zabka.simulation.cluster.peer_machine import CLIENT_PORT, PeerMachine, peer_address
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.cluster.service_machine import Service, ServiceMachine
from zabka.simulation.cluster.shape import Shape
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.isolation import Isolation
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.engine.virtual_time import virtual_time
from zabka.simulation.settings import WorldSettings

IN_PIECES_EVERY = 10
"""In one of this many seeds, reads can return only a part of the received bytes."""
PIECES = 0.05
PRODUCER_PAUSE_MS = 100
LOG_DIRS_MAX = 2
SHUTDOWN_CHECK_US = 50_000
CLEAN_UP_MS_MAX = 10_000
"""Virtual time in which a test's programs can clean up after their cancellation, before the world ends."""


class World(ClusterWorld):
    """A simulated cluster.  `start()` boots every node; `run` and `until` advance the virtual time."""

    def __init__(self, seed: int, settings: WorldSettings | None = None, tap: MessageTap | None = None) -> None:
        self.settings = settings or WorldSettings()
        self._is_running = False
        super().__init__(seed, cluster_shape(self.settings, seed), tap)

    # -- nodes and programs ------------------------------------------------------------------------------------------

    def peer_names(self) -> list[str]:
        """Return the names of all peers."""
        return [peer_name(peer) for peer in self.peers]

    def broker_names(self) -> list[str]:
        """Return the names of all brokers."""
        return [broker_name(broker) for broker in self.brokers]

    def node_names(self) -> list[str]:
        """Return the names of all peers and brokers."""
        return [machine.name for machine in self.servers()]

    def node(self, name: str) -> ServerMachine:
        """Return the machine of the peer or broker with that name."""
        return next(machine for machine in self.servers() if machine.name == name)

    def is_running(self, name: str) -> bool:
        """Return whether the node has a process, running or paused."""
        return self.machine(name).process is not None

    def is_paused(self, name: str) -> bool:
        """Return whether the node's process was stopped by SIGSTOP."""
        return self.machine(name).is_paused

    def start_service(self, name: str, service: Service, *, restarts: bool = False) -> ServiceMachine:
        """Start a test's own program on a new machine.  Raises ValueError if the name is in use."""
        if name in self.ground.network.addresses:
            raise ValueError(f"there is a machine {name} already")
        self.isolate()
        bootstrap = ",".join(f"{host}:{port}" for host, port in self.bootstrap)
        machine = ServiceMachine(
            self.ground, name, self.next_client_address(), service, bootstrap, record=self.record, restarts=restarts
        )
        self.clients[name] = machine
        machine.start()
        return machine

    def isolate(self) -> Isolation:
        """Return the object that isolates a test's own programs from the host. The first call creates it."""
        if self.ground.isolation is None:
            self.ground.isolation = Isolation(derive_random(self.seed, "programs"), self.ground.turn)
        return self.ground.isolation

    @property
    def services(self) -> list[ServiceMachine]:
        """Return the machines of a test's own programs."""
        return [machine for machine in self.clients.values() if isinstance(machine, ServiceMachine)]

    def end_world(self) -> None:
        """End all processes and scheduled calls.

        Before this, the test's own programs are cancelled, and they have some virtual time to clean up.
        """
        services = self.services
        if not services:
            super().end_world()
            return
        for machine in services:
            machine.cancel()
        try:
            with suppress(Deadlock):
                self.until(lambda: all(machine.process is None for machine in services), CLEAN_UP_MS_MAX)
        finally:
            with warnings.catch_warnings():
                # Killed programs leave open files and coroutines that were never awaited.
                warnings.simplefilter("ignore", ResourceWarning)
                warnings.simplefilter("ignore", RuntimeWarning)
                super().end_world()
                gc.collect()

    # -- virtual time ------------------------------------------------------------------------------------------------

    @contextmanager
    def in_virtual_time(self) -> Iterator[None]:
        """Replace the host's clocks and random numbers during a `with` block in which virtual time passes.

        A test's program that runs in this world can enter the block too. The program then waits while the world runs.
        """
        if self._is_running:
            with self.ground.turn.handed_over():
                yield
            return
        self._is_running = True
        try:
            with virtual_time(self.ground.turn), self.ground.isolation or nullcontext():
                yield
        finally:
            self._is_running = False

    def run(self, duration_ms: int) -> None:
        """Advance the virtual time by `duration_ms`."""
        self.run_to(self.scheduler.now_us + duration_ms * 1000)

    def run_to(self, time_us: int) -> None:
        """Advance the virtual time to `time_us`."""
        with self.in_virtual_time():
            self.scheduler.run_until(time_us)

    def until(self, condition: Callable[[], bool], limit_ms: int = 60_000, what: str = "the condition") -> int:
        """Advance the virtual time until the condition holds, and return the milliseconds passed.

        Raises Deadlock after `limit_ms`.
        """
        with self.in_virtual_time():
            return super().until(condition, limit_ms, what)

    def until_done(self, task: Any, limit_ms: int = 600_000, what: str = "the task") -> Any:
        """Advance the virtual time until a task is done, and return its result.  Raises Deadlock after `limit_ms`."""
        with self.in_virtual_time():
            return super().until_done(task, limit_ms, what)

    # -- processes ---------------------------------------------------------------------------------------------------

    def start(self, name: str | None = None) -> None:
        """Start the node or program with that name, or all nodes that are down."""
        for machine in [self.machine(name)] if name else self.servers():
            machine.switch_on()

    def kill(self, name: str, power_loss: bool = False) -> None:
        """Kill a node or a program with SIGKILL, or cut its machine's power."""
        machine, kind = self.machine(name), "power_loss" if power_loss else "crash"
        if machine.process is not None and not self.leaves_out(kind, name):
            self.announce(kind, name)
            if power_loss:
                machine.lose_power()
            else:
                machine.kill()

    def stop_broker(self, name: str, back_after_ms: int = 0) -> None:
        """Send SIGTERM to a broker (controlled shutdown).

        With `back_after_ms`, restart the broker that long after its process has ended.
        """
        machine = self.node(name)
        if machine.process is None or self.leaves_out("stop", name):
            return
        self.announce("stop", name)
        machine.stop()

        def start_after_end() -> None:
            if machine.process is None:
                self.scheduler.after(back_after_ms * 1000, machine.switch_on)
            else:
                self.scheduler.after(SHUTDOWN_CHECK_US, start_after_end)

        if back_after_ms:
            start_after_end()

    def pause(self, name: str) -> None:
        """Pause a node's process (SIGSTOP)."""
        if self.is_running(name) and not self.leaves_out("pause", name):
            self.announce("pause", name)
            self.machine(name).pause()

    def resume(self, name: str) -> None:
        """Resume a node's process (SIGCONT)."""
        self.machine(name).resume()

    # -- ensemble and broker clients ---------------------------------------------------------------------------------

    def zookeeper_client(
        self, name: str, peers: list[int] | None = None, *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS, read_only: bool = False,
    ) -> tuple[Client, ScriptedMachine]:  # fmt: skip
        """Return a client of the ensemble, or of some of its peers, and the machine that runs it."""
        machine = self.scripted_client(name)
        connector = machine.connector()
        hosts = self.hosts if peers is None else ",".join(f"{peer_address(peer)}:{CLIENT_PORT}" for peer in peers)
        client = Client(
            hosts, connector, machine.runtime(), session_timeout_ms=session_timeout_ms, name=name,
            read_only=read_only, asker=connector if read_only else None,
        )  # fmt: skip
        return client, machine

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """Return the addresses of all brokers."""
        return [(broker_address(broker), KAFKA_PORT) for broker in self.brokers]

    def kafka_client(self, name: str) -> tuple[AdminClient, ScriptedMachine]:
        """Return a client of the brokers, and the machine that runs it."""
        machine = self.scripted_client(name)
        return AdminClient(machine.channel(), machine.runtime(), self.bootstrap), machine

    # -- faults ------------------------------------------------------------------------------------------------------

    def prioritise(self, delays_ms: dict[tuple[str, str], int]) -> Callable[[], None]:
        """Delay the network in each given direction between two nodes, and return a function that ends these delays."""
        if self.leaves_out("priorities", "*"):
            return nothing
        fault_id = self.announce("priorities", "*", delay_ms=max(delays_ms.values(), default=0))
        links = {(self.machine(a).address, self.machine(b).address): each for (a, b), each in delays_ms.items()}
        for link, delay_ms in links.items():
            self.ground.network.slow(*link, delay_ms * 1000)

        def end_fault() -> None:
            for link in links:
                self.ground.network.slow(*link, 0)
            self.over(fault_id)

        return end_fault

    def slow_disk(self, name: str, factor: int) -> Callable[[], None]:
        """Slow down the disk of a node or a program, and return a function that restores its speed."""
        if self.leaves_out("slow_disk", name):
            return nothing
        fault_id, volume = self.announce("slow_disk", name), self.machine(name).volume
        volume.slow_factor = factor

        def end_fault() -> None:
            volume.slow_factor = 1
            self.over(fault_id)

        return end_fault

    def repair_disks(self) -> None:
        """End all disk faults, and restart brokers with an offline log directory."""
        for machine in self.servers():
            machine.volume.repair()
        self.repair_directories()

    # -- current state -----------------------------------------------------------------------------------------------

    def zab_leader(self) -> PeerMachine | None:
        """Return the machine of the leader that a quorum follows, or None if there is none."""
        return self.leader()


def cluster_shape(settings: WorldSettings, seed: int) -> ClusterShape:
    """Return the shape of the cluster that the settings describe.

    The seed selects only whether reads return parts of the received data and, if disk faults are enabled, the number of
    log directories.
    """
    ensemble_keys = {
        "tickTime": str(settings.tick_time_ms),
        "initLimit": str(settings.init_limit),
        "syncLimit": str(settings.sync_limit),
        "snapCount": str(settings.snap_count),
        "preAllocSize": "64",
        "reconfigEnabled": "true",
        "skipACL": "yes",
        "readonlymode.enabled": _flag(settings.read_only_mode),
        "localSessionsEnabled": _flag(settings.local_sessions),
        "localSessionsUpgradingEnabled": _flag(settings.local_sessions_upgrading),
        "zabka.journal.level": "full",
    }
    broker_keys = {
        "zookeeper.session.timeout.ms": str(settings.session_timeout_ms),
        "replica.lag.time.max.ms": str(settings.replica_lag_time_max_ms),
        # Kafka uses 30 s by default. This much shorter timeout lets requests time out, and arrive late, within a run.
        "replica.socket.timeout.ms": "1500",
        "controller.socket.timeout.ms": "1500",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": str(min(3, settings.brokers)),
        "group.initial.rebalance.delay.ms": "500",
        "zabka.journal.level": "full",
        **settings.broker_keys,
    }
    ensemble = Shape(
        peers=settings.peers,
        observers=0,
        keys=ensemble_keys,
        pieces=PIECES if seed % IN_PIECES_EVERY == IN_PIECES_EVERY - 1 else 0.0,
        skew_ms_max=0,
        changes_members=settings.changes_members,
    )
    log_dirs = derive_random(seed, "log directories").randrange(1, LOG_DIRS_MAX + 1) if settings.faulty_disks else 1
    return ClusterShape(ensemble, settings.brokers, log_dirs, broker_keys, PRODUCER_PAUSE_MS, settings.racks)


def _flag(value: bool) -> str:
    return "true" if value else "false"

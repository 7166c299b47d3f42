"""The world of an ensemble of complete peer processes: machines, clients, and faults that can be injected."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import Any

from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.messages import PeerState
from zabka.journal.cause import Cause
from zabka.journal.events import Entry, Event, FaultInjected, FaultRemoved, TxnCommitted
from zabka.simulation.checkers.platters import DurableReports, PeerDisks, Platters
from zabka.simulation.checkers.serving import Serving
from zabka.simulation.checkers.watch_contract import WatchContract
from zabka.simulation.cluster.client_machine import ClientMachine, ScriptedMachine, Work
from zabka.simulation.cluster.peer_machine import CLIENT_PORT, ELECTION_PORT, QUORUM_PORT, PeerMachine, peer_address
from zabka.simulation.cluster.reached import Reached
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.cluster.shape import Shape
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.loop import WALL_START_US
from zabka.simulation.engine.machine import Ground, Machine
from zabka.simulation.engine.scheduler import Deadlock, Scheduler
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.record import Record


class ServingWorld:
    """A simulated ensemble.  `start()` boots it; `run` and `until` advance the virtual time.

    A `tap`, if there is one, receives every message.
    """

    def __init__(self, seed: int, shape: Shape, tap: MessageTap | None = None) -> None:
        self.seed = seed
        self.shape = shape
        self.requester = "seed"
        """Name of the requester of the faults, as written to the journal."""
        self.scheduler = Scheduler()
        self.record = Record(self.scheduler)
        self.ground = Ground(seed, self.scheduler, pieces=shape.pieces, tap=tap)
        self.fault_number = 0
        """Number of the last fault, from which its id is made."""
        self.left_out: frozenset[str] = frozenset()
        """Ids of the faults that are drawn but not injected."""
        self.omitted: list[FaultInjected] = []
        """The faults that were left out so far."""
        self.reached = Reached()
        self.record.listen(self.reached.see, Reached.watches)
        self.peers: dict[int, PeerMachine] = {}
        skews = derive_random(seed, "skew")
        for peer in range(1, shape.peers + 1):
            skew_ms = skews.randrange(-shape.skew_ms_max, shape.skew_ms_max + 1)
            self.peers[peer] = PeerMachine(
                self.ground, self.record, self.reached, peer, keys=self._zoo_cfg(), skew_ms=skew_ms
            )
            self.peers[peer].on_no_member = self._reconfigure
        self.clients: dict[str, Machine] = {}
        self._watches = WatchContract(self.record.checked, self.emit)
        self.serving = Serving(self.record.checked, self.emit)
        self.record.listen(self.serving.journalled, Serving.watches)
        for machine in self.peers.values():
            for observe in (self._watches.connection, self.serving.peer_connection):
                self.ground.network.observe(machine.address, CLIENT_PORT, partial(observe, machine.name))
        self._last_committed = 0
        self.record.listen(self._receives_commit, (TxnCommitted,))
        self.disks = PeerDisks(lambda peer: self.peers[peer].volume)
        self.record.listen(self.disks.journalled, PeerDisks.watches)
        reports = DurableReports(self.disks, self.record, self.emit)
        self.record.listen(reports.journalled, DurableReports.watches)
        if not shape.changes_members:
            platters = Platters(range(1, shape.voters + 1), self.disks, self.record.checked, self.emit)
            self.record.listen(platters.journalled, Platters.watches)

    def _zoo_cfg(self) -> dict[str, str]:
        """Return the keys of every peer's zoo.cfg, without dataDir.  All peers start with the same membership."""
        shape = self.shape
        servers = {f"server.{each}": server_line(each, observer=each > shape.voters) for each in self._peer_ids()}
        return {**shape.keys, **servers}

    def _peer_ids(self) -> range:
        return range(1, self.shape.peers + 1)

    def _receives_commit(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, TxnCommitted):
            service = self.peers[int(entry.node.removeprefix("peer-"))].service
            assert service is not None, "a peer that commits has begun"
            txn = service.applied.pop(event.zxid)
            if event.zxid > self._last_committed:
                self._last_committed = event.zxid
                self._watches.committed(txn)
                self.committed(txn)

    def committed(self, txn: Txn) -> None:
        """Handle a transaction when the first peer applies it."""

    # -- machines and their states -----------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        """The connect string for clients."""
        return ",".join(f"{peer_address(peer)}:{CLIENT_PORT}" for peer in self._peer_ids())

    def add_client(self, name: str, work: Work, server: PeerMachine | None = None) -> ClientMachine:
        """Add and start a machine with a client program that connects to all servers, or only to `server`."""
        hosts = self.hosts if server is None else f"{server.address}:{CLIENT_PORT}"
        machine = ClientMachine(self.ground, name, self.next_client_address(), hosts, work)
        self.clients[name] = machine
        machine.start()
        return machine

    def scripted_client(self, name: str) -> ScriptedMachine:
        """Return the machine with that name, on which a script runs clients; create it if necessary."""
        machine = self.clients.get(name)
        if machine is None:
            machine = self.clients[name] = ScriptedMachine(self.ground, name, self.next_client_address())
        assert isinstance(machine, ScriptedMachine), f"{name} has a program of its own"
        return machine

    def servers(self) -> list[ServerMachine]:
        """Return all machines with a server."""
        return list(self.peers.values())

    def next_client_address(self) -> str:
        """Return the address of the next client's machine."""
        return f"10.0.1.{len(self.clients) + 1}"

    def machine(self, name: str) -> Machine:
        """Return a machine by its name."""
        if name in self.clients:
            return self.clients[name]
        return next(machine for machine in self.servers() if machine.name == name)

    def running(self) -> list[RunningPeer]:
        """Return the running peers that have opened their ports."""
        return [each.running for each in self.peers.values() if each.process is not None and each.running is not None]

    def leader(self) -> PeerMachine | None:
        """Return the machine of the leader that a quorum follows, or None if there is none."""
        for machine in self.peers.values():
            running = machine.running
            if machine.process is None or running is None or machine.is_paused:
                continue
            if running.peer.state is PeerState.LEADING and running.peer.phase == "BROADCAST":
                return machine
        return None

    def every_peer_serves(self) -> bool:
        """Return whether every peer runs and is the established leader or follows that leader."""
        running = self.running()
        return len(running) == len(self.peers) and all(each.peer.status().serving for each in running)

    def _reconfigure(self, machine: PeerMachine) -> None:
        """Give a removed server the current membership so that it joins the ensemble again, as an administrator does.

        Does nothing if there is no leader, because only the leader knows the current members.
        """
        leader = self.leader()
        if leader is not None and leader.running is not None:
            members = leader.running.peer.membership.lines
            machine.join({int(peer): line.canonical() for peer, line in members.items()})

    # -- virtual time ------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Return the virtual milliseconds since the world began."""
        return self.scheduler.now_us // 1000

    @property
    def faults(self) -> int:
        """Return the number of injected faults."""
        return self.fault_number - len(self.omitted)

    def run(self, duration_ms: int) -> None:
        """Advance the virtual time by `duration_ms`."""
        self.scheduler.run_until(self.scheduler.now_us + duration_ms * 1000)

    def until(self, condition: Callable[[], bool], limit_ms: int, what: str) -> int:
        """Advance the virtual time until the condition holds, and return the milliseconds passed.

        Raises Deadlock after `limit_ms`.
        """
        begin_us = self.scheduler.now_us
        step_us = 10_000
        while not condition():
            if self.scheduler.now_us > begin_us + limit_ms * 1000:
                raise Deadlock(f"{what} did not come true within {limit_ms} ms")
            self.scheduler.run_until(self.scheduler.now_us + step_us)
        return (self.scheduler.now_us - begin_us) // 1000

    def until_done(self, task: Future[Any], limit_ms: int, what: str) -> Any:
        """Advance the virtual time until a task is done, and return its result.

        Raises Deadlock after `limit_ms`, and any exception of the task.
        """
        end_us = self.scheduler.now_us + limit_ms * 1000
        while not task.done():
            due_us = self.scheduler.next_time_us()
            if due_us is None or due_us > end_us:
                raise Deadlock(f"{what} did not come true within {limit_ms} ms")
            self.scheduler.step()
        return task.result()

    def start(self) -> None:
        """Boot every server that is down."""
        for machine in self.servers():
            machine.switch_on()

    def end_world(self) -> None:
        """End all processes and scheduled calls."""
        for machine in (*self.servers(), *self.clients.values()):
            machine.kill()
        self.scheduler.cancel_all()
        self.ground.end_world()

    def emit(self, event: Event) -> Cause:
        """Write an event that no node emitted, such as a violation, to the record."""
        return self.record.write("world", WALL_START_US // 1000 + self.now_ms, event)

    # -- faults ------------------------------------------------------------------------------------------------------

    def announce(self, kind: str, source: str, target: str = "", *, both_ways: bool = False, delay_ms: int = 0) -> str:
        """Write the start of a fault to the journal, and return the fault's id, which `over` needs."""
        self.fault_number += 1
        fault_id = f"f{self.fault_number}"
        self.emit(
            FaultInjected(fault_id, kind, source, target or source, both_ways, delay_ms, requester=self.requester)
        )
        return fault_id

    def leaves_out(self, kind: str, source: str, target: str = "") -> bool:
        """Return whether the next fault is left out. If so, use up its id, so that later faults keep their ids."""
        fault_id = f"f{self.fault_number + 1}"
        if fault_id not in self.left_out:
            return False
        self.fault_number += 1
        self.omitted.append(FaultInjected(fault_id, kind, source, target or source, both_ways=False))
        return True

    def over(self, fault_id: str) -> None:
        """Write the end of a fault to the journal, unless the fault was left out."""
        if all(fault.fault_id != fault_id for fault in self.omitted):
            self.emit(FaultRemoved(fault_id))

    def cut(self, source: str, target: str, both_ways: bool = True) -> Callable[[], None]:
        """Cut a link, and return a function that heals it."""
        if self.leaves_out("cut", source, target):
            return nothing
        fault_id = self.announce("cut", source, target, both_ways=both_ways)
        ends = self.machine(source).address, self.machine(target).address
        directions = [ends, ends[::-1]] if both_ways else [ends]
        for direction in directions:
            self.ground.network.cut(*direction)

        def heal() -> None:
            for direction in directions:
                self.ground.network.heal(*direction)
            self.over(fault_id)

        return heal

    def delay(self, source: str, target: str, delay_ms: int) -> Callable[[], None]:
        """Delay one direction of a link, and return a function that ends the delay."""
        if self.leaves_out("delay", source, target):
            return nothing
        fault_id = self.announce("delay", source, target, delay_ms=delay_ms)
        ends = self.machine(source).address, self.machine(target).address
        self.ground.network.slow(*ends, delay_ms * 1000)

        def end_fault() -> None:
            self.ground.network.slow(*ends, 0)
            self.over(fault_id)

        return end_fault


def nothing() -> None:
    """Do nothing, because a fault that was left out has no effect to undo."""


def server_line(peer: int, *, observer: bool = False) -> str:
    """Return the value of `server.N=` in a zoo.cfg."""
    role = "observer" if observer else "participant"
    return f"{peer_address(peer)}:{QUORUM_PORT}:{ELECTION_PORT}:{role};0.0.0.0:{CLIENT_PORT}"

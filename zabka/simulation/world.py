"""The world: a whole cluster in virtual time, from one seed.

The nodes are the ones that run as processes; only what surrounds them is simulated: clocks, network, disks, signals.
Everything that happens is in `record`, judged by the invariants as it happens.  The same seed and settings give the
same history, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.zab.application import EnsembleConfig
from zabka.journal.events import FaultInjected, FaultRemoved
from zabka.simulation.judges.audited_broker import replicas_agree
from zabka.simulation.judges.committed_membership import CommittedMembership
from zabka.simulation.judges.minimums import MINIMUM, Minimums
from zabka.simulation.judges.peer_audit import EnsembleJudges, PeerAudit
from zabka.simulation.judges.replication_audit import ReplicationAudit
from zabka.simulation.judges.settled import unsettled
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.kernel.scheduler import Deadlock
from zabka.simulation.network.addresses import broker_name, peer_name
from zabka.simulation.network.tap import MessageTap
from zabka.simulation.network.wire import Wire
from zabka.simulation.nodes.broker_node import BrokerNode
from zabka.simulation.nodes.membership import with_membership
from zabka.simulation.nodes.peer_node import PeerNode, PeerProcess
from zabka.simulation.nodes.site import Site
from zabka.simulation.settings import WorldSettings


def _peer_configs(settings: WorldSettings) -> list[EnsembleConfig]:
    """Every peer's configuration."""
    voters = tuple(range(1, settings.peers + 1))
    configs = [
        EnsembleConfig(
            my_id=peer,
            voters=voters,
            tick_time_ms=settings.tick_time_ms,
            init_limit=settings.init_limit,
            sync_limit=settings.sync_limit,
            snap_count=settings.snap_count,
            full_journal=True,
            read_only_mode=settings.read_only_mode,
            local_sessions=settings.local_sessions,
            local_sessions_upgrading=settings.local_sessions_upgrading,
        )
        for peer in voters
    ]
    return [with_membership(config, settings.members) for config in configs] if settings.members else configs


class World(Site):
    """One simulated cluster: a site, and the nodes on it.  `start()` boots every node; then let time pass with `run` or
    `until`.  Where there is a `tap` it is told of every message."""

    def __init__(
        self,
        seed: int,
        settings: WorldSettings | None = None,
        wire: Wire | None = None,
        tap: MessageTap | None = None,
    ) -> None:
        super().__init__(seed, settings, wire, tap)
        self._fault_number = 0
        self.observer = SimRuntime(self.scheduler, derive_random(seed, "observer"))
        self._emit = self.record.emitter("world", self.observer)
        self.peers: dict[int, PeerNode] = {}
        for config in _peer_configs(self.settings):
            self.peers[config.my_id] = PeerNode(self, config, self.peers, self._audit)
        self.brokers = {broker: BrokerNode(self, broker) for broker in range(1, self.settings.brokers + 1)}
        minimums = Minimums(int(self.settings.broker_keys.get(MINIMUM, "1")), self.settings.session_timeout_ms)
        self.replication = ReplicationAudit(self.scheduler, self.brokers, self.record.judged, self._emit, minimums)
        self.record.listeners.append(self.replication.journalled)
        first_voters = CommittedMembership(range(1, (self.settings.members or self.settings.peers) + 1))
        self._judges = EnsembleJudges(self.peers, self.record, first_voters, self.replication.committed, self._emit)
        self._nodes: dict[str, PeerNode | BrokerNode] = {
            **{peer_name(peer): node for peer, node in self.peers.items()},
            **{broker_name(broker): node for broker, node in self.brokers.items()},
        }

    def _audit(self, process: PeerProcess) -> PeerAudit:
        return PeerAudit(process, self._judges)

    # -- what there is -----------------------------------------------------------------------------------------------

    def peer_names(self) -> list[str]:
        """Every peer's node name."""
        return [peer_name(peer) for peer in self.peers]

    def broker_names(self) -> list[str]:
        """Every broker's node name."""
        return [broker_name(broker) for broker in self.brokers]

    def node_names(self) -> list[str]:
        """Every node's name."""
        return list(self._nodes)

    def is_running(self, name: str) -> bool:
        """Is there a process (possibly paused)?"""
        return self._nodes[name].process is not None

    def is_paused(self, name: str) -> bool:
        """Is there a process, stopped by SIGSTOP?"""
        process = self._nodes[name].process
        return process is not None and process.runtime.paused

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def faults(self) -> int:
        """How many faults were injected so far."""
        return self._fault_number

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the world began."""
        return self.scheduler.now_us // 1000

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + duration_ms * 1000)

    def until(self, condition: Callable[[], bool], limit_ms: int = 60_000, what: str = "the condition") -> int:
        """Let time pass until it holds; how many virtual ms that took.  Raises Deadlock past the limit."""
        begin_us = self.scheduler.now_us
        end_us = begin_us + limit_ms * 1000
        while not condition():
            due = self.scheduler.next_time_us()
            if due is None or due > end_us:
                raise Deadlock(f"{what} did not come true within {limit_ms} ms")
            self.scheduler.step()
        return (self.scheduler.now_us - begin_us) // 1000

    # -- processes ---------------------------------------------------------------------------------------------------

    def start(self, name: str | None = None) -> None:
        """Boot a node, or all that are down."""
        for node_name in [name] if name else self.node_names():
            self._nodes[node_name].start()

    def kill(self, name: str, power_loss: bool = False) -> None:
        """SIGKILL a node, or cut its power."""
        if self.is_running(name):
            self._announce("power_loss" if power_loss else "crash", name, name)
            self._nodes[name].kill(power_loss)

    def stop_broker(self, name: str, back_after_ms: int = 0) -> None:
        """SIGTERM a broker: a controlled shutdown.  It comes back that long after its end; with 0 it stays down."""
        node = self._nodes[name]
        assert isinstance(node, BrokerNode)
        if self.is_running(name):
            self._announce("stop", name, name)
            node.stop(back_after_ms)

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        if self.is_running(name):
            self._announce("pause", name, name)
            self._nodes[name].pause()

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._nodes[name].resume()

    # -- faults ------------------------------------------------------------------------------------------------------

    def _announce(self, kind: str, source: str, target: str, both_ways: bool = False, delay_ms: int = 0) -> str:
        self._fault_number += 1
        fault_id = f"f{self._fault_number}"
        self._emit(FaultInjected(fault_id, kind, source, target, both_ways, delay_ms))
        return fault_id

    def announce(self, kind: str, name: str) -> Callable[[], None]:
        """Journal a node's fault that somebody else brings about; call what is returned when it is over."""
        fault_id = self._announce(kind, name, name)

        def over() -> None:
            self._emit(FaultRemoved(fault_id))

        return over

    def cut(self, source: str, target: str, both_ways: bool = True) -> Callable[[], None]:
        """Cut a link, in one direction or both; call what is returned to heal it."""
        fault_id = self._announce("cut", source, target, both_ways)
        directions = [(source, target), (target, source)][: 2 if both_ways else 1]
        for direction in directions:
            self.network.cut(*direction)

        def heal() -> None:
            for direction in directions:
                self.network.heal(*direction)
            self._emit(FaultRemoved(fault_id))

        return heal

    def delay(self, source: str, target: str, delay_ms: int) -> Callable[[], None]:
        """Slow down one direction; call what is returned to end it."""
        fault_id = self._announce("delay", source, target, delay_ms=delay_ms)
        self.network.delay(source, target, delay_ms * 1000)

        def end_fault() -> None:
            self.network.delay(source, target, 0)
            self._emit(FaultRemoved(fault_id))

        return end_fault

    def prioritise(self, delays_ms: dict[tuple[str, str], int]) -> Callable[[], None]:
        """Delay every direction by its own measure; call what is returned to end it."""
        fault_id = self._announce("priorities", "*", "*", delay_ms=max(delays_ms.values(), default=0))
        for link, delay_ms in delays_ms.items():
            self.network.delay(*link, delay_ms * 1000)

        def end_fault() -> None:
            for link in delays_ms:
                self.network.delay(*link, 0)
            self._emit(FaultRemoved(fault_id))

        return end_fault

    def slow_disk(self, name: str, factor: int) -> Callable[[], None]:
        """Make a peer's disk slower by that factor; call what is returned to end it."""
        fault_id = self._announce("slow_disk", name, name)
        node = self._nodes[name]
        assert isinstance(node, PeerNode)
        node.disk.slow_factor = factor

        def end_fault() -> None:
            node.disk.slow_factor = 1
            self._emit(FaultRemoved(fault_id))

        return end_fault

    # -- the present state, from the nodes themselves ----------------------------------------------------------------

    def zab_leader(self) -> PeerNode | None:
        """The peer that leads and serves, if its followers make a quorum; None in between."""
        for node in self.peers.values():
            peer = node.peer
            if peer is None or self.is_paused(node.name):
                continue
            if peer.state.name == "LEADING" and peer.phase == "BROADCAST":
                return node
        return None

    def peer_processes(self) -> list[PeerProcess]:
        """The peers' processes that there are."""
        return [node.process for node in self.peers.values() if node.process is not None]

    def every_peer_serves(self) -> bool:
        """Does every peer run, and lead or follow a leader that is established?"""
        return all(node.peer is not None and node.peer.status().serving for node in self.peers.values())

    def all_in_sync(self, topic: str) -> bool:
        """Is there a controller, and has every partition of the topic a leader and all its replicas in the ISR?"""
        state = self.record.state
        partitions = [p for p in state.partitions.values() if p.topic == topic]
        return (
            bool(partitions)
            and state.controller_id >= 0
            and all(p.leader >= 0 and sorted(p.isr) == sorted(p.replicas) for p in partitions)
        )

    def replicas_agree(self, topic: str) -> bool:
        """Do all replicas of every partition of the topic hold the same log, byte for byte?"""
        return all(
            replicas_agree(self.brokers, f"{topic}-{partition.partition}", partition.replicas)
            for partition in self.record.state.partitions.values()
            if partition.topic == topic
        )

    def unsettled(self) -> str | None:
        """The first thing on the Kafka side that is not yet as it must be with all nodes up and all links whole; None
        where all is well."""
        return unsettled(self.brokers, self.replication.znodes, self.record.state.controller_id)

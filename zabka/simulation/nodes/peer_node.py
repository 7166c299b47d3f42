"""An ensemble peer in the simulated world: the very `Peer` of the real processes, driven in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from zabka.ensemble.ids import ConnectionId, LinkId, PeerId
from zabka.ensemble.records import ClientMessage, ServerMessage
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.losses import DAMAGE_FOUND
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import (
    Answer,
    CancelTimer,
    CloseConnection,
    CloseLink,
    Effect,
    Emit,
    Halt,
    OpenLink,
    ReadLog,
    Recovered,
    SaveSnapshot,
    SendNotification,
    SendPackets,
    SetTimer,
    UseMembership,
)
from zabka.ensemble.zab.messages import Notification, Packet
from zabka.ensemble.zab.peer import Peer
from zabka.journal.events import LearnerSynced, NodeStarted, NodeStopped, TxnCommitted
from zabka.simulation.disks.disk import DISK_EFFECTS, SimDisk
from zabka.simulation.disks.faulty_disk import FaultyDisk
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.scheduler import Call
from zabka.simulation.network.addresses import CLIENT_SERVICE, QUORUM_SERVICE, WORD_SERVICE, peer_name
from zabka.simulation.network.network import Endpoint
from zabka.simulation.network.wire import ClientWire, LinkWire
from zabka.simulation.nodes.machine import Machine, Process
from zabka.simulation.nodes.site import Site
from zabka.simulation.nodes.watched_service import WatchedService


class Witness(Protocol):
    """Sees what one peer's process does, and tells nobody of the node what it makes of it."""

    def sends(self, packets: Sequence[Packet]) -> None:
        """Packets leave for another peer."""
        ...

    def tells_leader(self, ours: Endpoint, packets: Sequence[Packet]) -> None:
        """Packets leave for the leader, on the link that ends here at `ours`."""
        ...

    def hears_learner(self, theirs: Endpoint, packets: Sequence[Packet]) -> None:
        """Packets of a learner have arrived, on the link that ends there at `theirs`."""
        ...

    def hears_client(self, connection: ConnectionId) -> None:
        """A client's word has arrived."""
        ...

    def answers(self, connection: ConnectionId, message: ServerMessage) -> None:
        """A client is answered."""
        ...

    def applies(self, txn: Txn) -> None:
        """A transaction has been applied as a committed one."""
        ...

    def saves(self, effect: SaveSnapshot) -> None:
        """A snapshot is on its way to the disk."""
        ...

    def synced(self, event: LearnerSynced) -> None:
        """This peer, as a learner, has acknowledged NEWLEADER."""
        ...


class PeerNode(Machine["PeerProcess"]):
    """A machine with a peer on it."""

    def __init__(
        self,
        site: Site,
        config: EnsembleConfig,
        ensemble: Mapping[int, PeerNode],
        witness: Callable[[PeerProcess], Witness],
    ) -> None:
        self.config = config
        self.ensemble = ensemble
        """All peers' machines, this one among them."""
        self.witness = witness
        name = peer_name(config.my_id)
        random = derive_random(site.seed, f"{name}/disk")
        self.disk = (
            FaultyDisk(site.scheduler, random, config, self._wait_for_disk)
            if site.settings.faulty_disks
            else SimDisk(site.scheduler, random)
        )
        super().__init__(site, name, self.disk)

    @property
    def peer(self) -> Peer | None:
        """The running peer, None while the process is down."""
        return self.process.peer if self.process else None

    def config_on_disk(self) -> EnsembleConfig:
        """The configuration, with the memberships that this machine's files hold by now."""
        disk = self.disk
        membership = disk.membership or self.config.membership
        return msgspec.structs.replace(self.config, membership=membership, next_membership=disk.next_membership)

    def _wait_for_disk(self, for_us: int) -> None:
        """The process's event loop waits for a sync itself: nothing of it runs meanwhile."""
        process = self.process
        if process is not None and not process.runtime.paused:
            process.runtime.pause()
            self.site.scheduler.after(for_us, process.runtime.resume)

    def make_process(self, incarnation: int) -> PeerProcess:
        """A fresh process on this disk."""
        return PeerProcess(self, incarnation)


class PeerProcess(Process):
    """One run of a peer's process: carries out the core's effects."""

    def __init__(self, node: PeerNode, incarnation: int) -> None:
        super().__init__(node.site, node.name, incarnation)
        self.node = node
        self._links: dict[LinkId, tuple[Endpoint, LinkWire, bool]] = {}
        """Each link's end, what travels on it, and whether this peer is the learner on it."""
        self._connections: dict[ConnectionId, tuple[Endpoint, ClientWire]] = {}
        self._timers: dict[str, Call] = {}
        self._next_id = 0
        self._witness = node.witness(self)
        recovered = node.disk.attach(self._durable, self._recovered, self._storage_failed)
        config = node.config_on_disk()
        self.service = WatchedService(config)
        self.peer = Peer(config, self.service, recovered, self.random)
        self.peer.hand_effects_to(self.do)

    def knows_session(self, session_id: int) -> bool:
        """Whether this peer has heard of such a global session."""
        return session_id in self.service.tree.sessions

    def boot(self) -> None:
        """Announce, listen, start."""
        config = self.node.config
        self.emit(NodeStarted("peer", config.my_id, {"tickTime": str(config.tick_time_ms)}))
        self._tell_of_damage()
        self.site.network.listen(self.host, QUORUM_SERVICE, self._accept_learner)
        self.site.network.listen(self.host, CLIENT_SERVICE, self._accept_client)
        self.site.network.listen(self.host, WORD_SERVICE, self._accept_word)
        self.do(self.peer.on_start(self.runtime.now()))

    def _accept_learner(self, endpoint: Endpoint) -> None:
        link = LinkId(self._number())
        self._adopt_link(link, endpoint, learner=False)
        self.do(self.peer.on_link_accepted(self.runtime.now(), link))

    def _adopt_link(self, link: LinkId, endpoint: Endpoint, *, learner: bool) -> None:
        wire = self.site.wire.link(learner=learner)
        self._links[link] = (endpoint, wire, learner)

        def arrived(item: Any) -> None:
            packets = wire.receive(item)
            if packets and link in self._links:
                if not learner:
                    self._witness.hears_learner(endpoint.peer, packets)
                self.do(self.peer.on_packets(self.runtime.now(), link, packets))

        endpoint.on_item = arrived
        endpoint.on_close = lambda: self._link_down(link)

    def _link_down(self, link: LinkId) -> None:
        if self._links.pop(link, None) is not None:
            self.do(self.peer.on_link_down(self.runtime.now(), link))

    def _accept_client(self, endpoint: Endpoint) -> None:
        connection = ConnectionId(self._number())
        wire = self.site.wire.client()
        self._connections[connection] = (endpoint, wire)

        def arrived(message: ClientMessage) -> None:
            self._witness.hears_client(connection)
            self.do(self.peer.on_clients(self.runtime.now(), [(connection, wire.request(message))]))

        endpoint.on_item = arrived
        endpoint.on_close = lambda: self._client_closed(connection)
        self.do(self.peer.on_client_connected(self.runtime.now(), connection))

    def _accept_word(self, endpoint: Endpoint) -> None:
        def asked(word: str) -> None:
            endpoint.send(self.peer.status().isro if word == "isro" else "")
            endpoint.close()

        endpoint.on_item = asked

    def _client_closed(self, connection: ConnectionId) -> None:
        if self._connections.pop(connection, None) is not None:
            self.do(self.peer.on_client_closed(self.runtime.now(), connection))

    def _number(self) -> int:
        self._next_id += 1
        return self._next_id

    def _durable(self, token: int) -> None:
        self.runtime.run(partial(self._on_durable, token))

    def _on_durable(self, token: int) -> None:
        self.do(self.peer.on_durable(self.runtime.now(), token))

    def _read_log(self, effect: ReadLog) -> None:
        def answer() -> None:
            txns = self.node.disk.read_log(effect)
            self.do(self.peer.on_log_read(self.runtime.now(), effect.link, effect.after, txns))

        self.runtime.call_later(1, answer)

    def _recovered(self, recovered: Recovered) -> None:
        def go_on() -> None:
            # As `zabka.ensemble.server.process.driver`.
            if self._tell_of_damage() and not recovered.complete:
                self._give_up(DAMAGE_FOUND)
            else:
                self.do(self.peer.on_recovered(self.runtime.now(), recovered))

        self.runtime.run(go_on)

    def _tell_of_damage(self) -> bool:
        """Journal the damage that was found; whether there was any."""
        found, self.node.disk.found = self.node.disk.found, []
        for damage in found:
            self.emit(damage)
        return bool(found)

    def _storage_failed(self, reason: str) -> None:
        """As `zabka.ensemble.server.process.driver`: nothing further is carried out, so this peer must stop."""
        self.runtime.run(lambda: self._give_up(reason))

    # -- effects ---------------------------------------------------------------------------------------------------

    def do(self, effects: list[Effect]) -> None:
        """Carry out what the core asks for, in order."""
        for effect in effects:
            _CARRIED_OUT_BY[type(effect)](self, effect)

    def _to_disk(self, effect: Effect) -> None:
        if isinstance(effect, SaveSnapshot):
            self._witness.saves(effect)
        self.node.disk.submit(effect)

    def _send_packets(self, effect: SendPackets) -> None:
        found = self._links.get(effect.link)
        if found is not None:
            endpoint, wire, learner = found
            self._witness.sends(effect.packets)
            if learner:
                self._witness.tells_leader(endpoint, effect.packets)
            wire.send(effect.packets, endpoint.send)

    def _close_link(self, effect: CloseLink) -> None:
        found = self._links.pop(effect.link, None)
        if found is not None:
            found[0].close()

    def _open_link(self, effect: OpenLink) -> None:
        to = effect.to

        def up(endpoint: Endpoint) -> None:
            link = LinkId(self._number())
            self._adopt_link(link, endpoint, learner=True)
            self.do(self.peer.on_link_up(self.runtime.now(), link, to))

        def failed(reason: str) -> None:
            self.do(self.peer.on_link_failed(self.runtime.now(), to))

        self.site.network.dial(self.host, f"{peer_name(to)}:{QUORUM_SERVICE}", up, failed)

    def _send_notification(self, effect: SendNotification) -> None:
        source, target = self.node.config.my_id, effect.to
        notification = self.site.wire.notification(effect.notification)

        def deliver(heard: Notification) -> None:
            process = self.node.ensemble[target].process
            if process is not None:
                process.do(process.peer.on_notification(process.runtime.now(), PeerId(source), heard))

        self.site.network.datagram(self.node.name, peer_name(target), notification, deliver)

    def _answer(self, effect: Answer) -> None:
        found = self._connections.get(effect.connection)
        if found is not None:
            endpoint, wire = found
            self._witness.answers(effect.connection, effect.message)
            for message in wire.replies(effect.message):
                endpoint.send(message)

    def _close_connection(self, effect: CloseConnection) -> None:
        found = self._connections.pop(effect.connection, None)
        if found is not None:
            found[0].close()

    def _set_timer(self, effect: SetTimer) -> None:
        name = effect.name
        pending = self._timers.get(name)
        if pending is not None:
            pending.cancel()

        def fire() -> None:
            del self._timers[name]
            self.do(self.peer.on_timer(self.runtime.now(), name))

        self._timers[name] = self.runtime.call_later(effect.delay_ms, fire)

    def _cancel_timer(self, effect: CancelTimer) -> None:
        pending = self._timers.pop(effect.name, None)
        if pending is not None:
            pending.cancel()

    def _emit(self, effect: Emit) -> None:
        event = effect.event
        if isinstance(event, TxnCommitted):
            self._witness.applies(self.service.applied.pop(event.zxid))
        elif isinstance(event, LearnerSynced):
            self._witness.synced(event)
        self.emit(event)

    def _halt(self, effect: Halt) -> None:
        self._give_up(effect.reason)

    def _give_up(self, reason: str) -> None:
        # A supervisor restarts a peer that gave up, as the host agent does.
        self.emit(NodeStopped(reason))
        self.site.scheduler.after(0, self.node.kill)
        self.site.scheduler.after(500_000, self.node.start)


_CARRIED_OUT_BY: dict[type[Effect], Callable[[PeerProcess, Any], None]] = {
    **dict.fromkeys(DISK_EFFECTS, PeerProcess._to_disk),
    # Peers are reached by their names, wherever they are.
    UseMembership: lambda process, effect: None,
    ReadLog: PeerProcess._read_log,
    SendPackets: PeerProcess._send_packets,
    CloseLink: PeerProcess._close_link,
    OpenLink: PeerProcess._open_link,
    SendNotification: PeerProcess._send_notification,
    Answer: PeerProcess._answer,
    CloseConnection: PeerProcess._close_connection,
    SetTimer: PeerProcess._set_timer,
    CancelTimer: PeerProcess._cancel_timer,
    Emit: PeerProcess._emit,
    Halt: PeerProcess._halt,
}

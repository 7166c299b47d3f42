"""Drives a `Peer`: calls its handlers for events of sockets, disk and clock, and executes the effects they return.

One round of the event loop is one batch: the peer processes all client messages in one turn, packets and replies are
sent with one write per connection, disk effects are executed together, and the journal is flushed once. Effects for
other servers that arise during a long turn are executed at once.

Packets and replies wait for the disk only if the core requires it. If the loop itself waits for a fast disk (see
`Storage`), packets that other servers wait for are sent first, so that all servers run their fsyncs in parallel.
Effects that arise after that fsync belong to the same round.

With one request in flight, its latency is the sum of the steps that run one after another. On a machine with few cores,
it also includes steps that could run in parallel. So the steps on the critical path run first. In an ensemble of three,
one other server completes a quorum; the third server receives a proposal only after the proposal is in this server's
log. A follower with a waiting client checks once whether the leader's acknowledgement has arrived before it sends its
own.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.ids import ConnectionId, LinkId, PeerId, SessionId, Zxid
from zabka.ensemble.records import ClientMessage
from zabka.ensemble.runtime.asyncio_runtime import instant_now
from zabka.ensemble.server.net.client_port import ClientPort
from zabka.ensemble.server.net.election_port import ElectionPort
from zabka.ensemble.server.net.peer_tap import BROKER_IDS, PeerTap
from zabka.ensemble.server.net.quorum_port import QuorumPort
from zabka.ensemble.server.operator.operator_view import OperatorView
from zabka.ensemble.server.process.endings import Crashed, Stopped
from zabka.ensemble.server.process.membership_ports import MembershipPorts
from zabka.ensemble.server.process.refusals import Refusals
from zabka.ensemble.tree.service import Service
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.losses import DAMAGE_FOUND
from zabka.ensemble.txnlog.recovery import Recovery
from zabka.ensemble.txnlog.snapshots import WrittenSnapshot
from zabka.ensemble.txnlog.storage import Storage
from zabka.ensemble.zab.effects import (
    Answer,
    Append,
    Barrier,
    CancelTimer,
    CloseConnection,
    CloseLink,
    Effect,
    Emit,
    Halt,
    OpenLink,
    ReadLog,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveDoubt,
    SaveMembership,
    SaveNextMembership,
    SaveSnapshot,
    SendNotification,
    SendPackets,
    SetTimer,
    TruncateLog,
    UseMembership,
)
from zabka.ensemble.zab.messages import Notification, Packet, PeerState
from zabka.ensemble.zab.peer import Peer
from zabka.journal.events import Event, NodeStopped, PeerStateChanged, SnapshotTaken
from zabka.journal.writer import Journal

ROUND_PACKETS_MAX = 2
"""Maximum number of packets from another server that are processed at once, before other events are awaited.

Waiting for another turn of the event loop would take as long as processing them.
"""
ONE_OTHER_IS_ENOUGH = 3
"""Maximum number of voters for which this server and one other server form a quorum."""
_DISK_EFFECTS = (
    Append, Barrier, SaveAcceptedEpoch, SaveCurrentEpoch, SaveDoubt, SaveMembership, SaveNextMembership, SaveSnapshot,
    TruncateLog,
)  # fmt: skip


class _Timers:
    """A peer's timers, each with a name; `ran_out` is called with the name when a timer fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ran_out: Callable[[str], None]) -> None:
        self._loop = loop
        self._ran_out = ran_out
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def set(self, effect: SetTimer) -> None:
        """Start the timer with this name, or restart it."""
        old = self._timers.pop(effect.name, None)
        if old is not None:
            old.cancel()
        self._timers[effect.name] = self._loop.call_later(effect.delay_ms / 1000, self._due, effect.name)

    def cancel(self, effect: CancelTimer) -> None:
        """Cancel a timer, if there is one with that name."""
        timer = self._timers.pop(effect.name, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        """Cancel every timer, because the peer has ended."""
        for timer in self._timers.values():
            timer.cancel()

    def _due(self, name: str) -> None:
        self._timers.pop(name, None)
        self._ran_out(name)


class PeerDriver:
    """Runs one peer.

    Before `start`, the caller must set `storage` and `clients`, and also `elections` and `quorum` if there are other
    peers.
    """

    def __init__(
        self, peer: Peer, service: Service, journal: Journal, voters: tuple[int, ...], log: structlog.BoundLogger
    ) -> None:
        self.storage: Storage | None = None
        self.clients: ClientPort | None = None
        self.elections: ElectionPort | None = None
        self.quorum: QuorumPort | None = None
        self.operator: OperatorView | None = None
        self.membership: MembershipPorts | None = None
        self.tap: PeerTap | None = None
        self.restart: Callable[[str], None] = self.stop
        """Ends this peer, so that a new one is started from the data on the disk."""
        self._peer = peer
        self._service = service
        self._journal = journal
        self._voters = voters
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._finished: asyncio.Future[None] = self._loop.create_future()
        self._timers = _Timers(self._loop, lambda name: self._call(self._peer.on_timer, name))
        self._disk: list[Effect] = []
        self._from_clients: list[tuple[ConnectionId, ClientMessage]] = []
        self._flush_due = False
        self._client_waits = False
        """Whether a client waits for a reply: the last message received from a client has no reply yet."""
        self._holds_ack = False
        later = self._loop.call_later
        self._refusals = Refusals(log, self._emit_refusal, lambda delay_ms, call: later(delay_ms / 1000, call))
        self._journal_failed = False
        self._actions = self._build_actions()
        peer.hand_effects_to(self._carry_out_early)

    # -- start and end -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the peer; its storage and ports must be set."""
        self._call(self._peer.on_start)

    def stop(self, reason: str = "shutdown") -> None:
        """Stop the peer normally, with this reason in the journal."""
        self._finish(None, reason)

    async def finished(self) -> None:
        """Wait until the peer has ended. Raises Stopped if it did not end by `stop`."""
        await self._finished

    def _finish(self, failure: Exception | None, reason: str) -> None:
        if self._finished.done():
            return
        self.emit(NodeStopped(reason))
        self._from_clients.clear()
        self._send()
        self._flush_journal()
        self._timers.cancel_all()
        if failure is None:
            self._finished.set_result(None)
        else:
            self._finished.set_exception(failure)

    def fail(self, name: str, failure: BaseException) -> None:
        """Stop the peer because of an unexpected exception; the last journal event contains the reason."""
        if self._finished.done():
            return
        traceback.print_exception(failure)
        if self.operator is not None:
            self.operator.metrics.unrecoverable_errors += 1
        reason = f"{name}: {type(failure).__name__}: {failure}"
        crashed = Crashed(reason)
        crashed.__cause__ = failure
        self._finish(crashed, reason)

    # -- turns -------------------------------------------------------------------------------------------------------

    def _call(self, handler: Callable[..., list[Effect]], *args: object) -> None:
        """Call a handler of the peer and execute its effects."""
        if self._finished.done():
            return
        try:
            effects = handler(instant_now(), *args)
            actions = self._actions
            for effect in effects:
                actions[type(effect)](effect)
        except Exception as failure:
            self.fail("peer", failure)
            return
        if effects and not self._flush_due:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _carry_out(self, effects: list[Effect]) -> None:
        actions = self._actions
        for effect in effects:
            actions[type(effect)](effect)

    def _carry_out_early(self, effects: list[Effect]) -> None:
        """Execute effects before the turn ends: send packets, and start disk effects that the storage thread
        executes.
        """
        self._carry_out(effects)
        self._send(disk_too=not (self._disk and self._disk_is_quick()))

    def _disk_is_quick(self) -> bool:
        return self.storage is not None and self.storage.is_quick(self._disk)

    def _send(self, *, disk_too: bool = True) -> None:
        """Write all queued packets, disk effects and replies. Packets are written first, because writing them is
        fast.
        """
        if self.quorum is not None:
            self.quorum.flush()
        if disk_too:
            self._submit()
        if self.clients is not None:
            self.clients.flush()

    def _submit(self) -> None:
        if self._disk and self.storage is not None:
            self.storage.submit(self._disk)
            self._disk.clear()

    def _flush(self) -> None:
        """End the event loop round: process client messages, then write packets, replies and disk effects."""
        if self._from_clients:
            self._take_from_clients()
        disk, storage, held_before = self._disk, self.storage, self._holds_ack
        if disk or not held_before:
            self._send_before_disk()
        while disk and storage is not None and storage.is_quick(disk):
            if self.clients is not None:
                self.clients.flush()
            effects = disk.copy()
            disk.clear()
            storage.carry_out(effects)
        self._flush_due = False
        self._submit()
        if self.clients is not None:
            self.clients.flush()
        if self._holds_ack and not held_before:
            # Use two nested calls: the loop then reads packets that have already arrived before this peer sends its
            # acknowledgement.
            self._loop.call_soon(self._loop.call_soon, self._acknowledge)
        else:
            self._acknowledge()
        if self._from_clients:
            # The request throttle has released these messages during this round, so process them in the next round.
            self._flush_soon()
        self._flush_journal()

    def _send_before_disk(self) -> None:
        """Before a fsync, send other servers the packets that they can process during the fsync."""
        if self.quorum is None:
            return
        if self._disk and len(self._voters) <= ONE_OTHER_IS_ENOUGH and self._is_alone() and self._disk_is_quick():
            self.quorum.flush_last_active()
        else:
            self.quorum.flush()

    def _is_alone(self) -> bool:
        """Return whether at most one transaction is in progress, so that latency matters more than throughput."""
        return self._peer.outstanding <= 1

    def _acknowledge(self) -> None:
        """Send the remaining packets of this round, and those that the previous round held back."""
        self._holds_ack = False
        if self.quorum is not None:
            self.quorum.flush()

    def _flush_journal(self) -> None:
        try:
            self._journal.flush()
        except OSError as failure:
            if not self._journal_failed:
                self._journal_failed = True
                self._log.error("the journal cannot be written", reason=str(failure))

    def _build_actions(self) -> dict[type[Effect], Callable[[Any], None]]:
        actions: dict[type[Effect], Callable[[Any], None]] = dict.fromkeys(_DISK_EFFECTS, self._disk.append)
        actions |= {
            ReadLog: self._read_log,
            SaveSnapshot: self._save_snapshot,
            SendNotification: self._send_notification,
            OpenLink: self._open_link,
            SendPackets: self._send_packets,
            CloseLink: self._close_link,
            SetTimer: self._timers.set,
            CancelTimer: self._timers.cancel,
            Answer: self._answer,
            CloseConnection: self._close_connection,
            Emit: lambda effect: self.emit(effect.event),
            UseMembership: self._use_membership,
            Halt: lambda effect: self._finish(Stopped(effect.reason), effect.reason),
        }
        return actions

    def emit(self, event: Event) -> None:
        """Write an event to the journal; write state changes to the log too, and count the event in the metrics."""
        if self.operator is not None:
            self.operator.on_event(event)
        if isinstance(event, PeerStateChanged):
            if self.tap is not None:
                self.tap.learn(self._service.tree)
            self._log.info(
                event.state.lower(), phase=event.phase.lower(), leader=event.leader_id, epoch=event.current_epoch,
                zxid=f"0x{event.last_zxid:x}",
            )  # fmt: skip
        try:
            self._journal.write(event)
        except OSError:
            self._journal_failed = True

    def _emit_refusal(self, event: Event) -> None:
        if not self._finished.done():
            self.emit(event)
            self._call(lambda now: [])

    def _save_snapshot(self, effect: SaveSnapshot) -> None:
        """Start writing an ordinary snapshot at once, before the next turn can change the tree.

        A snapshot that replaces the history is queued with the other disk effects.
        """
        if effect.replaces_history:
            self._disk.append(effect)
        else:
            self.take_snapshot(effect.snapshot)

    def take_snapshot(self, snapshot: TreeSnapshot) -> None:
        """Write an ordinary snapshot.

        The queued disk effects are submitted first, because a learner can append and apply a transaction in the same
        turn: the snapshot must not be valid before the log is durable up to the snapshot's zxid.
        """
        self._submit()
        if self.storage is not None:
            self.storage.take_snapshot(snapshot)

    def _read_log(self, effect: ReadLog) -> None:
        if self.storage is not None:
            self.storage.read_log(effect)

    def _send_notification(self, effect: SendNotification) -> None:
        if self.elections is not None:
            self.elections.send(effect.to, effect.notification)

    def _open_link(self, effect: OpenLink) -> None:
        assert self.quorum is not None, "a lone peer has nobody to follow"
        self.quorum.open(effect.to)

    def _send_packets(self, effect: SendPackets) -> None:
        if self.quorum is not None:
            self.quorum.send(effect.link, effect.packets)

    def _close_link(self, effect: CloseLink) -> None:
        if self.quorum is not None:
            self._refusals.close_link(effect.reason)
            self.quorum.close_link(effect.link)

    def _use_membership(self, effect: UseMembership) -> None:
        self._voters = tuple({*effect.current.voters, *effect.last_seen.voters})
        proposed = f"{effect.last_seen.version:x}" if effect.last_seen.version > effect.current.version else None
        self._log.info(
            "a membership came into force",
            version=f"{effect.current.version:x}",
            voters=list(effect.current.voters),
            proposed=proposed,
        )
        if self.membership is not None:
            self.membership.use(effect)

    def _answer(self, effect: Answer) -> None:
        self._client_waits = False
        if self.clients is not None:
            self.clients.answer(effect.connection, effect.message)

    def _close_connection(self, effect: CloseConnection) -> None:
        if self.clients is not None:
            if effect.reason:
                self._refusals.refuse_client(self.clients.address(effect.connection), effect.reason)
            self.clients.close_connection(effect.connection)

    # -- events: other peers -------------------------------------------------------------------------------------------

    def on_notification(self, src: PeerId, notification: Notification) -> None:
        """Handle a notification of another server's vote."""
        self._refusals.check_vote(src, notification, self._peer)
        self._call(self._peer.on_notification, src, notification)

    def on_oracle(self, agrees: bool) -> None:
        """Handle a change of the oracle's decision. Only an ensemble of two peers asks an oracle."""
        self._call(self._peer.on_oracle, agrees)

    def on_voter_unreachable(self, peer_id: PeerId) -> None:
        """Notify the peer of a server whose election port cannot be reached; ignore servers that do not vote."""
        if peer_id in self._voters:
            self._call(self._peer.on_voter_unreachable, peer_id)

    def on_peer_broken(self, remote: str, reason: str) -> None:
        """Report a connection to another server that was closed because that server violated the protocol."""
        self._refusals.break_off(remote, reason)

    def on_unlisted_server(self, peer_id: PeerId, address: str) -> None:
        """Report a connection from a server that is missing from this server's list of members."""
        self._refusals.admit_unlisted(peer_id, address, reconfig_enabled=self._peer.reconfig_enabled)

    def takes_observers(self) -> bool:
        """Return whether this peer accepts observers on its second port.

        Only a follower does, to reduce the leader's load.
        """
        return self._peer.state is PeerState.FOLLOWING

    def on_link_up(self, link: LinkId, to: PeerId) -> None:
        """Handle the established link to a leader, which the peer had requested."""
        self._call(self._peer.on_link_up, link, to)

    def on_link_failed(self, to: PeerId) -> None:
        """Handle a link to a leader that the peer had requested and that could not be opened."""
        self._call(self._peer.on_link_failed, to)

    def on_link_accepted(self, link: LinkId) -> None:
        """Handle a link that a learner opened to this peer."""
        self._call(self._peer.on_link_accepted, link)

    def on_link_down(self, link: LinkId) -> None:
        """Handle a link that the other side closed or that broke."""
        self._call(self._peer.on_link_down, link)

    def on_packets(self, link: LinkId, packets: list[Packet]) -> None:
        """Pass packets received on a link to the peer.

        The list is empty if only a part of a packet has arrived. Packets that arrive after this side closed the link
        are ignored.
        """
        assert self.quorum is not None
        if not self.quorum.is_open(link):
            return
        if self._flush_due or len(packets) > ROUND_PACKETS_MAX:
            self._call(self._peer.on_packets, link, packets)
        else:
            self._flush_due = True
            self._call(self._peer.on_packets, link, packets)
            self._flush()

    # -- events: disk --------------------------------------------------------------------------------------------------

    def on_durable(self, tokens: list[int]) -> None:
        """Handle disk barriers that have become durable; the newest one includes the older ones.

        Packets and replies that wait for these barriers are sent at once, or at the end of the round if that is later.
        """
        if self._flush_due:
            self._call(self._peer.on_durable, tokens[-1])
            self._holds_ack = self._client_waits and self._peer.state is PeerState.FOLLOWING and self._is_alone()
            if not self._holds_ack:
                self._send(disk_too=False)
        else:
            self._flush_due = True
            self._call(self._peer.on_durable, tokens[-1])
            self._flush()

    def on_truncated(self, recovery: Recovery) -> None:
        """Handle the result of truncating the log.

        If the log is damaged, restart this peer, because its tree may contain transactions that the log has lost.
        """
        for damage in recovery.damages:
            self.emit(damage)
        if recovery.damages and not recovery.recovered.complete:
            self.restart(DAMAGE_FOUND)
        else:
            self._call(self._peer.on_recovered, recovery.recovered)

    def on_log_read(self, link: LinkId, after: Zxid, txns: list[Txn] | None) -> None:
        """Handle transactions that were read from the log for a learner."""
        self._call(self._peer.on_log_read, link, after, txns)

    def on_snapshot(self, written: WrittenSnapshot) -> None:
        """Handle a snapshot that has been written and is durable."""
        self.emit(SnapshotTaken(written.zxid, written.size_bytes, written.duration_ms))
        self._call(lambda now: [])

    def on_snapshot_spoiled(self) -> None:
        """Handle damage to the newest snapshot's file: the next snapshot must not copy any part of it.

        The peer is notified, because only the peer can decide whether its tree is ready for a new snapshot.
        """
        self._log.warning("the newest snapshot is damaged on the disk: a new one is written from memory")
        self._call(self._peer.on_snapshot_spoiled)

    def on_storage_warning(self, line: str) -> None:
        """Log a warning for the operator."""
        self._log.warning(line)

    def on_storage_failed(self, reason: str) -> None:
        """Handle a disk failure: the peer stops."""
        self._finish(Stopped(reason), reason)

    # -- events: clients -----------------------------------------------------------------------------------------------

    def on_client_connected(self, connection: ConnectionId, identities: tuple[AuthId, ...]) -> None:
        """Handle a new client connection."""
        self._call(self._peer.on_client_connected, connection, identities)

    def on_client_refused(self, remote: str, reason: str) -> None:
        """Report a client that failed its TLS handshake or sent invalid data."""
        self._refusals.refuse_client(remote, reason)

    def on_client_messages(self, connection: ConnectionId, messages: list[ClientMessage]) -> None:
        """Handle frames from a client.

        All frames that arrive from clients in one round of the event loop are processed by the peer in one turn.
        """
        for message in messages:
            self._from_clients.append((connection, message))
        if not self._flush_due:
            self._flush_soon()

    def _take_from_clients(self) -> None:
        if self._from_clients:
            messages, self._from_clients = self._from_clients, []
            self._client_waits = True
            if self.clients is not None:
                # Clear the set before the turn: as soon as the turn begins, the peer itself counts these requests as
                # outstanding.
                self.clients.admission.handed_over.clear()
            self._call(self._peer.on_clients, messages)

    def on_client_closed(self, connection: ConnectionId) -> None:
        """Handle a client's disconnect; its earlier requests are still processed."""
        self._take_from_clients()
        self._call(self._peer.on_client_closed, connection)

    def answer_word(self, word: str, argument: bytes) -> str | None:
        """Return the output of a four-letter word, or None if the word is unknown."""
        return self.operator.words.answer(word, argument) if self.operator is not None else None

    def proved(self, connection: ConnectionId) -> Sequence[AuthId]:
        """Return the identities that a connection has proved."""
        found = self._service.clients.connections.get(connection)
        return () if found is None else found.auth

    def session(self, connection: ConnectionId) -> SessionId:
        """Return the session id of a connection; 0 while it has no session."""
        found = self._service.clients.connections.get(connection)
        return SessionId(0) if found is None else found.session_id

    def is_session_of_broker(self, session_id: SessionId) -> bool:
        """Return whether a broker is registered with that session."""
        return any(path.startswith(f"{BROKER_IDS}/") for path in self._service.views.ephemerals(session_id))

    def outstanding(self, connection: ConnectionId) -> int:
        """Return the number of a connection's requests that have no reply yet."""
        return self._service.clients.outstanding(connection)

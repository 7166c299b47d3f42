"""A follower that accepts observers as learners, to reduce the leader's load.

Source: org.apache.zookeeper.server.quorum.ObserverMaster. An observer receives its follower's epoch, history and
commits, and its requests are forwarded to the leader. It never receives uncommitted transactions, nor transactions that
this follower does not have. An observer whose history is ahead of the follower's is rejected, and has to try another
follower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zabka.ensemble.ids import Epoch, LinkId, PeerId, SessionId, Zxid, counter_of, epoch_of, make_zxid
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.learner_link import LearnerLink, Step
from zabka.ensemble.zab.learner_sync import Progress, begin_forwarding, send_from_log, send_history
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    FollowerInfo,
    ForwardedRequest,
    Inform,
    InformAndActivate,
    LeaderInfo,
    Packet,
    Ping,
    Revalidate,
    SyncRequest,
    UpToDate,
)

MASTER_TIMER = "master.half_tick"
OBSERVERS_MAX = 1024


class Upstream(Protocol):
    """Interface of the follower's own connection to its leader. `origin` is the observer that sent the request."""

    def submit(self, requests: Sequence[ForwardedRequest]) -> None: ...
    def submit_sync(self, request: SyncRequest, origin: LinkId | None) -> None: ...
    def ask_revalidate(self, session_id: SessionId, timeout_ms: int, origin: LinkId | None) -> None: ...


class ObserverMaster:
    """Connections of the observers that learn from one follower, while it follows one leader in `epoch`."""

    def __init__(self, core: Core, upstream: Upstream, epoch: Epoch) -> None:
        self._core = core
        self._upstream = upstream
        self._epoch = epoch
        self._links: dict[LinkId, LearnerLink] = {}
        self._touched: dict[SessionId, int] = {}

    def start(self) -> None:
        """Accept observers from now on."""
        self._core.set_timer(MASTER_TIMER, self._core.config.tick_time_ms // 2)

    def stop(self, reason: str) -> None:
        """Close the links of all observers."""
        self._core.cancel_timer(MASTER_TIMER)
        for link in list(self._links):
            self._core.close(link, reason)
        self._links.clear()

    def known_learners(self) -> list[LearnerLink]:
        """Observers that have sent OBSERVERINFO."""
        return [peer for peer in self._links.values() if peer.step >= Step.INTRODUCED]

    def on_link_accepted(self, link: LinkId) -> None:
        """Handle a connection from an observer, or from another client."""
        if len(self._links) >= OBSERVERS_MAX:
            self._core.close(link, "too many observers")
        else:
            self._links[link] = LearnerLink(link, self._core.now.mono_ms)

    def on_link_down(self, link: LinkId) -> None:
        """Handle an observer that disconnected."""
        self._links.pop(link, None)

    def on_packets(self, link: LinkId, packets: Sequence[Packet]) -> None:
        """Process packets from an observer; ignore those after a packet that closes its link."""
        peer = self._links.get(link)
        if peer is None:
            return
        peer.heard_ms = self._core.now.mono_ms
        for packet in packets:
            if isinstance(packet, ForwardedRequest) and peer.synced:
                self._upstream.submit((packet,))
            else:
                self._on_packet(peer, packet)
            if link not in self._links:
                return

    def _on_packet(self, peer: LearnerLink, packet: Packet) -> None:
        if isinstance(packet, Ack) and peer.step >= Step.SYNCING:
            self._on_ack(peer, packet.zxid)
        elif isinstance(packet, Ping) and peer.synced:
            self._touched.update(packet.touched)
        elif isinstance(packet, SyncRequest) and peer.synced:
            self._upstream.submit_sync(packet, peer.link)
        elif isinstance(packet, Revalidate) and peer.synced:
            self._upstream.ask_revalidate(packet.session_id, packet.timeout_ms, peer.link)
        elif isinstance(packet, FollowerInfo) and peer.step is Step.CONNECTED:
            self._on_follower_info(peer, packet)
        elif isinstance(packet, AckEpoch) and peer.step is Step.OFFERED:
            self._on_ack_epoch(peer, packet)
        else:
            self._drop(peer, f"unexpected {type(packet).__name__} at {peer.step.name}", broken=True)

    def _drop(self, peer: LearnerLink, reason: str, broken: bool = False) -> None:
        if broken:
            self._core.report_broken(peer.peer_id, reason)
        self._core.close(peer.link, reason)
        self._links.pop(peer.link, None)

    # -- synchronisation -------------------------------------------------------------------------------------------

    def _on_follower_info(self, peer: LearnerLink, info: FollowerInfo) -> None:
        core = self._core
        if not info.observer:
            self._drop(peer, f"server {info.peer_id} is no observer, and this one does not lead")
            return
        if info.peer_id == core.my_id:
            self._drop(peer, f"another server has this server's id {info.peer_id}", broken=True)
            return
        if info.config_version > core.reconfiguration.current.version or info.accepted_epoch > self._epoch:
            self._drop(peer, "it is ahead of this follower")
            return
        for other in [o for o in self._links.values() if o.peer_id == info.peer_id]:
            self._drop(other, "it has connected anew")
        peer.introduce(info, core.cumulative)
        peer.step = Step.OFFERED
        core.send(peer.link, LeaderInfo(self._epoch, peer.cumulative))

    def _on_ack_epoch(self, peer: LearnerLink, ack: AckEpoch) -> None:
        core = self._core
        ahead = ack.last_zxid > core.last_committed and counter_of(ack.last_zxid) > 0
        if ahead and epoch_of(ack.last_zxid) == self._epoch:
            # The observer's later transactions were committed elsewhere, so truncating its log would undo data that its
            # clients have seen.
            self._drop(peer, "it is ahead of this follower")
            return
        peer.last_zxid = ack.last_zxid
        peer.step = Step.PROMISED
        self._take_in(peer, send_history(core, peer))

    def on_log_read(self, link: LinkId, after: Zxid, txns: Sequence[Txn] | None) -> None:
        """Handle transactions after `after` that were read from the log for an observer.

        The observer's silence during the read does not count as a failure.
        """
        peer = self._links.get(link)
        if peer is not None and peer.reading == after:
            peer.heard_ms = self._core.now.mono_ms
            self._take_in(peer, send_from_log(self._core, peer, txns))

    def _take_in(self, peer: LearnerLink, progress: Progress) -> None:
        if progress is Progress.BROKEN:
            self._drop(peer, "what it lacks cannot be read from the log any more")
        elif progress is Progress.DONE:
            begin_forwarding(self._core, peer, make_zxid(self._epoch, 0), self._core.reconfiguration.current)

    def _on_ack(self, peer: LearnerLink, zxid: Zxid) -> None:
        """Handle an ack from an observer.

        Only the ack of NEWLEADER has an effect. The ack of UPTODATE is ignored, and an observer sends no other acks.
        """
        if peer.step is Step.SYNCING and zxid == make_zxid(self._epoch, 0):
            peer.step = Step.SYNCED
            self._core.send(peer.link, UpToDate())

    # -- broadcast -------------------------------------------------------------------------------------------------

    def inform(self, zxid: Zxid) -> None:
        """Send the observers the pending transactions up to `zxid`: they are committed, and are applied here next."""
        peers = [peer.link for peer in self._links.values() if peer.forwarding]
        if not peers:
            return
        informs = [Inform(txn) for txn in self._core.pending if txn.zxid <= zxid]
        for link in peers:
            self._core.send_all(link, informs)

    def inform_of_membership(self, txn: Txn, designated: PeerId) -> None:
        """Send the observers a committed change of the membership, which is about to be applied here."""
        for peer in self._links.values():
            if peer.forwarding:
                self._core.send(peer.link, InformAndActivate(txn, designated))

    def answer(self, origin: LinkId, packet: Packet) -> None:
        """Pass the leader's reply to the observer that sent the request; drop it if the observer has disconnected."""
        if origin in self._links:
            self._core.send(origin, packet)

    def drain_touched(self) -> tuple[tuple[SessionId, int], ...]:
        """Return the active sessions that the observers reported, for the next reply to the leader's ping."""
        touched, self._touched = self._touched, {}
        return tuple(touched.items())

    # -- liveness --------------------------------------------------------------------------------------------------

    def on_timer(self) -> None:
        """Send pings to the observers and drop silent ones; called every half tick."""
        core = self._core
        core.set_timer(MASTER_TIMER, core.config.tick_time_ms // 2)
        ping = Ping(core.last_committed)
        for peer in list(self._links.values()):
            limit = core.config.sync_limit if peer.synced else core.config.init_limit
            if core.now.mono_ms - peer.heard_ms > core.ticks_ms(limit):
                self._drop(peer, "it was not heard from in time")
            elif peer.forwarding:
                core.send(peer.link, ping)

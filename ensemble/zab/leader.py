"""The leader role: discovery, synchronisation of learners, broadcast (org.apache.zookeeper.server.quorum.Leader).

A leader collects the accepted epochs of a quorum, chooses a higher epoch, and synchronises every learner with its own
history. It is established when a quorum has stored that history and the epoch durably. Then it proposes transactions,
and commits them in zxid order when a quorum has logged them; it counts itself only after its own fsync
(`zabka.ensemble.zab.broadcast`).
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.ensemble.ids import (
    EPOCH_LEAP_MAX,
    EPOCH_MAX,
    Epoch,
    LinkId,
    PeerId,
    SessionId,
    Zxid,
    counter_of,
    make_zxid,
)
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.broadcast import Broadcast
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.handover import HANDOVER_TIMER
from zabka.ensemble.zab.leader_acks import REMINDER_TIMER
from zabka.ensemble.zab.learner_link import LearnerLink, Step
from zabka.ensemble.zab.learner_sync import Progress, begin_forwarding, send_from_log, send_history
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    FollowerInfo,
    ForwardedRequest,
    LeaderInfo,
    Packet,
    PeerState,
    Ping,
    Revalidate,
    SyncRequest,
)
from zabka.ensemble.zab.role import Phase
from zabka.journal.cause import UNKNOWN, Cause, link_cause, request_cause, silence_cause, timer_cause
from zabka.journal.events import LeaderEstablished

HALF_TICK_TIMER = "leader.half_tick"
INIT_TIMER = "leader.init"
SILENCE_TIMER = "leader.silence"
UNKNOWN_LINKS_MAX = 64
_RECONFIG = int(OpCode.RECONFIG)
_SYNCING, _SYNCED, _BROADCAST = Step.SYNCING, Step.SYNCED, Phase.BROADCAST
"""Enumeration members as module constants, because looking up a member takes as long as a call."""
LOOKING_GRACE_MS = 400
"""Time after the election in which a LOOKING voter may still decide to follow this leader (two finalize waits)."""


class Leader:
    """The role of a leader: a term, or an attempt to begin one."""

    state = PeerState.LEADING

    def __init__(self, core: Core) -> None:
        self._core = core
        self.leader_id = core.my_id
        self.phase = Phase.DISCOVERY
        self._started_ms = core.now.mono_ms
        self._links: dict[LinkId, LearnerLink] = {}
        # Discovery.
        self._accepted_epochs: dict[PeerId, Epoch] = {core.my_id: core.accepted_epoch}
        self._epoch: Epoch | None = None
        self._offering = False
        self._acknowledged_epoch: dict[PeerId, None] = {}
        self._summary = (core.current_epoch, core.last_logged)
        # Synchronisation.
        self._adopted: dict[PeerId, None] = {}
        # Broadcast.
        self._broadcast = Broadcast(core, self._links, self._synchronise)
        self._half_ticks = 0
        # Cause of the latest loss of a voter in this term. If there is then no quorum, it is also the cause of the
        # term's end.
        self._lost = UNKNOWN

    # -- reports ---------------------------------------------------------------------------------------------------

    @property
    def established(self) -> bool:
        """Whether a quorum has adopted this term's initial history."""
        return self.phase is _BROADCAST

    @property
    def pending_syncs(self) -> int:
        """Number of sync requests that have no reply yet."""
        return self._broadcast.pending_syncs

    def known_learners(self) -> list[LearnerLink]:
        """Learners that have sent FOLLOWERINFO or OBSERVERINFO, in the order of their connections."""
        return [peer for peer in self._links.values() if peer.step > Step.CONNECTED]

    # -- start, end and events -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to wait for learners; give up after initLimit."""
        core = self._core
        assert not core.pending, "the tree equals the log before a controller term"
        assert not (core.incomplete or core.in_doubt), "its own promise counts, and must not stand for what it lacks"
        core.set_timer(INIT_TIMER, core.ticks_ms(core.config.init_limit))
        core.set_timer(HALF_TICK_TIMER, core.config.tick_time_ms // 2)
        self._open_epoch_with_quorum()

    def stop(self, reason: str) -> None:
        """Close the links of all learners."""
        for timer in (INIT_TIMER, HALF_TICK_TIMER, SILENCE_TIMER, HANDOVER_TIMER, REMINDER_TIMER):
            self._core.cancel_timer(timer)
        for link in self._links:
            self._core.close(link, reason)
        self._links.clear()

    def on_link_accepted(self, link: LinkId) -> None:
        """Handle a connection from a learner, or from another client."""
        if sum(peer.step is Step.CONNECTED for peer in self._links.values()) >= UNKNOWN_LINKS_MAX:
            self._core.close(link, "too many connections that say nothing")
            return
        self._links[link] = LearnerLink(link, self._core.now.mono_ms)

    def on_link_up(self, link: LinkId, to: PeerId) -> None:
        """Close a link that this peer requested when it was a learner.

        The link was opened only after this peer had become leader.
        """
        self._core.close(link, "no longer wanted")

    def on_link_failed(self, to: PeerId) -> None:
        """Do nothing: this peer requested the link when it was a learner, and it is the leader now."""

    def on_link_down(self, link: LinkId) -> None:
        """Handle a learner that disconnected."""
        self._lose(link, UNKNOWN)

    def _lose(self, link: LinkId, cause: Cause) -> None:
        """Handle a lost learner. If there is no quorum any more, end the term at once.

        `cause` is the cause of the loss; the default is the broken link. Without a quorum nothing can be committed, so
        the term need not continue until the next tick.
        """
        peer = self._links.pop(link, None)
        if peer is None:
            return
        # Do not count earlier acknowledgements of this learner, because its next synchronisation may truncate its log.
        self._broadcast.forget(peer)
        self._adopted.pop(peer.peer_id, None)
        cause = cause or link_cause(peer.peer_id)
        if peer.counts:
            self._lost = cause
        if self.established and not self._broadcast.can_commit(self._synced_voters()):
            self._core.leave("lost the quorum of learners", self._lost or cause, self._broadcast.handover.successor)
        self._broadcast.advance()

    def on_recovered(self) -> None:
        """Do nothing: a leader never truncates."""
        raise AssertionError("a leader does not truncate its log")

    def on_tree_differs(self) -> None:
        """Do nothing: a leader computes the digests itself, so a difference is not due to another peer's history."""

    def on_looking(self, src: PeerId, round: int, outvoted: bool) -> None:
        """Handle a vote of a LOOKING voter while this peer leads.

        While this leader still waits for a quorum, that voter may never join it. So start a new election with that
        voter instead of waiting for initLimit (ZOOKEEPER-3109), and do so at once if this leader is `outvoted`
        (`Election.recount`). Ignore a peer that has lost transactions: it has no vote and its rounds do not count.
        Otherwise, while it is LOOKING, it would end every term that takes long to begin.
        """
        core = self._core
        if self.established or src not in core.quorum.voters or not round:
            return
        introduced = {peer.peer_id: None for peer in self.known_learners()}
        if src in introduced or core.quorum.contains(introduced | {core.my_id: None}):
            return
        if outvoted or round > core.round or core.now.mono_ms - self._started_ms >= LOOKING_GRACE_MS:
            core.quit_over(src)

    def on_timer(self, name: str) -> None:
        """Handle the expiry of a timer, such as initLimit, half a tick, or the time limit of a silent learner."""
        core = self._core
        if name == INIT_TIMER:
            self._on_init_limit()
        elif name == HANDOVER_TIMER:
            successor = self._broadcast.handover.successor
            core.leave("the new membership has another leader", request_cause("reconfig"), successor)
        elif name == SILENCE_TIMER:
            self._drop_silent_learners()
        elif name == REMINDER_TIMER:
            self._broadcast.acks.on_reminder(self._links.values())
        elif name == HALF_TICK_TIMER:
            core.set_timer(HALF_TICK_TIMER, core.config.tick_time_ms // 2)
            self._on_half_tick()

    def _on_init_limit(self) -> None:
        """Give up if there is no quorum after initLimit, unless learners that are still synchronising would complete
        it.

        Giving up would restart the learners' snapshots, and would do so forever if a snapshot takes longer than
        initLimit. A learner that sends nothing for the duration of initLimit is dropped. (ZooKeeper gives up,
        Leader.waitForNewLeaderAck.)
        """
        core, adopted = self._core, self._adopted
        if self.established:
            return
        self._drop_silent_learners()
        syncing = {peer.peer_id: None for peer in self._links.values() if peer.is_syncing and peer.counts_for_epoch}
        if core.my_id in adopted and syncing and core.quorum.contains(adopted | syncing):
            core.set_timer(INIT_TIMER, core.config.tick_time_ms)
        else:
            core.leave("no quorum within initLimit", timer_cause("initLimit"))

    def on_packets(self, link: LinkId, packets: Sequence[Packet]) -> None:
        """Process packets from a learner; ignore those after a packet that closes the link or ends this term."""
        peer = self._links.get(link)
        if peer is None:
            return
        peer.heard_ms = self._core.now.mono_ms
        requests: list[ForwardedRequest] = []
        for packet in packets:
            if isinstance(packet, ForwardedRequest) and peer.step is _SYNCED:
                requests.append(packet)
                continue
            if requests:
                self._broadcast.propose(requests, link)
                requests = []
            self._on_packet(peer, packet)
            if self._core.leaving is not None or link not in self._links:
                return
        if requests:
            self._broadcast.propose(requests, link)

    def _on_packet(self, peer: LearnerLink, packet: Packet) -> None:
        link = peer.link
        if isinstance(packet, Ack) and peer.step >= _SYNCING:
            self._on_ack(peer, packet.zxid)
        elif isinstance(packet, Ping) and peer.synced:
            self._on_pong(peer, packet)
        elif isinstance(packet, SyncRequest) and peer.synced:
            self._broadcast.add_sync(packet, link)
        elif isinstance(packet, Revalidate) and peer.synced:
            self._broadcast.answer_revalidate(packet, link)
        elif isinstance(packet, FollowerInfo) and peer.step is Step.CONNECTED:
            self._on_follower_info(peer, packet)
        elif isinstance(packet, AckEpoch) and peer.step is Step.OFFERED:
            self._on_ack_epoch(peer, packet)
        else:
            self._drop(peer, f"unexpected {type(packet).__name__} at {peer.step.name}", broken=True)

    def _drop(self, peer: LearnerLink, reason: str, broken: bool = False, cause: Cause = UNKNOWN) -> None:
        if broken:
            self._core.report_broken(peer.peer_id, reason)
            cause = request_cause("of a broken protocol")
        self._core.close(peer.link, reason)
        self._lose(peer.link, cause)

    # -- discovery -------------------------------------------------------------------------------------------------

    def _on_follower_info(self, peer: LearnerLink, info: FollowerInfo) -> None:
        core = self._core
        if info.peer_id == core.my_id:
            self._drop(peer, f"a learner has this leader's id {info.peer_id}; give each its own myid", broken=True)
            return
        if not 0 <= info.accepted_epoch <= core.accepted_epoch + EPOCH_LEAP_MAX:
            self._drop(peer, f"server {info.peer_id} says that it accepted epoch {info.accepted_epoch}", broken=True)
            return
        version = core.reconfiguration.current.version
        if info.config_version > version:
            self._drop(
                peer,
                f"server {info.peer_id} has version {info.config_version:x} of the server list, this leader has "
                f"{version:x}; give both the same list",
            )
            return
        for other in [o for o in self._links.values() if o.peer_id == info.peer_id]:
            self._drop(other, "it has connected anew")
        peer.introduce(info, core.cumulative)
        core.epoch_floor = max(core.epoch_floor, info.accepted_epoch)
        if self._epoch is not None and info.accepted_epoch > self._epoch:
            if not core.reconfiguration.expects(info.peer_id):
                # This server has no vote in the leader's membership, so it is not needed for a quorum. Reject it and
                # continue this term.
                self._drop(
                    peer,
                    f"server {info.peer_id} is not in this leader's list and has accepted epoch {info.accepted_epoch}, "
                    f"this is epoch {self._epoch}; restart each server with the new list",
                )
                return
            # The server accepted a higher epoch from a failed leader and might never follow this one. Resign, so that
            # the next election begins an even higher epoch. (ZooKeeper excludes such a server until the next election.)
            core.leave(f"server {peer.peer_id} has accepted epoch {info.accepted_epoch}", request_cause("FOLLOWERINFO"))
        elif peer.counts_for_epoch and self._epoch is None:
            self._accepted_epochs[peer.peer_id] = info.accepted_epoch
            self._open_epoch_with_quorum()
        elif self._offering:
            self._offer(peer)

    def _open_epoch_with_quorum(self) -> None:
        """Choose an epoch above all accepted epochs when a quorum has reported its accepted epochs.

        The epoch does not change afterwards.
        """
        core = self._core
        if self._epoch is not None or not core.quorum.contains(self._accepted_epochs):
            return
        epoch = Epoch(max(core.epoch_floor, *self._accepted_epochs.values()) + 1)
        if epoch > EPOCH_MAX:
            core.leave("there is no epoch left", request_cause("FOLLOWERINFO"))
            return
        self._epoch = epoch
        core.save_accepted_epoch(self._epoch, self._offer_to_all)

    def _offer_to_all(self) -> None:
        """Send LEADERINFO with the new epoch to all learners, and count this peer's own ACKEPOCH.

        The epoch and this peer's whole history are durable at this point.
        """
        self._offering = True
        self._acknowledged_epoch[self._core.my_id] = None
        for peer in list(self._links.values()):
            if peer.step is Step.INTRODUCED:
                self._offer(peer)
        self._adopt_with_quorum()

    def _offer(self, peer: LearnerLink) -> None:
        assert self._epoch is not None and self._core.accepted_epoch == self._epoch
        peer.step = Step.OFFERED
        self._core.send(peer.link, LeaderInfo(self._epoch, peer.cumulative))

    def _on_ack_epoch(self, peer: LearnerLink, ack: AckEpoch) -> None:
        peer.last_zxid = ack.last_zxid
        if self.phase is Phase.DISCOVERY:
            is_ahead = ack.current_epoch != -1 and (ack.current_epoch, ack.last_zxid) > self._summary
            if is_ahead and not self._core.reconfiguration.is_proposed_only(peer.peer_id):
                self._drop(peer, "its history is ahead of this leader's")
                return
            peer.step = Step.PROMISED
            if ack.current_epoch != -1 and peer.counts_for_epoch:
                self._acknowledged_epoch[peer.peer_id] = None
                self._adopt_with_quorum()
            self._leave_if_hopeless()
            return
        peer.step = Step.PROMISED
        self._synchronise(peer)

    def _leave_if_hopeless(self) -> None:
        """Resign if there can no longer be a quorum of ACKEPOCHs for this epoch.

        The ACKEPOCH of a voter that accepted this epoch before does not count. Beginning a new epoch at once is better
        than waiting for initLimit.
        """
        if self.phase is not Phase.DISCOVERY:
            return
        voters = [peer for peer in self._links.values() if peer.step > Step.CONNECTED and peer.counts_for_epoch]
        refused = {
            p.peer_id: None for p in voters if p.step is Step.PROMISED and p.peer_id not in self._acknowledged_epoch
        }
        if not self._core.quorum.contains({v: None for v in self._core.quorum.voters if v not in refused}):
            self._core.leave("this epoch can no longer get a quorum of promises", request_cause("ACKEPOCH"))

    def _adopt_with_quorum(self) -> None:
        """Make this peer's history the initial history of the epoch, when a quorum has sent ACKEPOCH.

        No member of the quorum has a newer history.
        """
        core = self._core
        if self.phase is not Phase.DISCOVERY or not core.quorum.contains(self._acknowledged_epoch):
            return
        if core.my_id not in self._acknowledged_epoch:
            return
        assert self._epoch is not None
        self.phase = Phase.SYNCHRONIZATION
        self._broadcast.start_epoch(self._newleader_zxid)
        core.reconfiguration.open_epoch(self._newleader_zxid)
        core.save_current_epoch(self._epoch, self._own_history_durable)
        for peer in list(self._links.values()):
            if peer.step is Step.PROMISED:
                self._synchronise(peer)

    def _own_history_durable(self) -> None:
        self._adopted[self._core.my_id] = None
        self._establish_with_quorum()

    # -- synchronisation -------------------------------------------------------------------------------------------

    def _synchronise(self, peer: LearnerLink) -> None:
        if not self._broadcast.acks.is_ahead(peer, self._broadcast.last_committed):
            self._take_in(peer, send_history(self._core, peer))

    def on_log_read(self, link: LinkId, after: Zxid, txns: Sequence[Txn] | None) -> None:
        """Handle transactions after `after` that were read from the log for a learner.

        The learner's silence during the read does not count as a failure.
        """
        peer = self._links.get(link)
        if peer is not None and peer.reading == after:
            peer.heard_ms = self._core.now.mono_ms
            self._take_in(peer, send_from_log(self._core, peer, txns))

    def _take_in(self, peer: LearnerLink, progress: Progress) -> None:
        if progress is Progress.BROKEN:
            self._drop(peer, "what it lacks cannot be read from the log any more")
        elif progress is Progress.DONE:
            known = self._core.reconfiguration
            # A membership that an earlier leader proposed and did not commit becomes active only when this leader is
            # established.
            membership = known.current if self.established else known.last_seen
            begin_forwarding(self._core, peer, self._newleader_zxid, membership)
            self._broadcast.close_proposal()  # do not send it to this learner, which already has it

    @property
    def _newleader_zxid(self) -> Zxid:
        assert self._epoch is not None
        return make_zxid(self._epoch, 0)

    def _on_newleader_ack(self, peer: LearnerLink) -> None:
        peer.step = Step.ACKNOWLEDGED
        if self.established:
            self._broadcast.admit(peer)
        elif peer.counts_for_epoch:
            self._adopted[peer.peer_id] = None
            self._establish_with_quorum()

    def _establish_with_quorum(self) -> None:
        core, adopted = self._core, self._adopted
        if self.established or core.my_id not in adopted or not core.quorum.contains(adopted):
            return
        assert self._epoch is not None and core.current_epoch == self._epoch
        self.phase = Phase.BROADCAST
        self._broadcast.open = True
        core.cancel_timer(INIT_TIMER)
        quorum = sorted(int(peer) for peer in adopted if peer in core.quorum.voters)
        core.emit(LeaderEstablished(core.my_id, self._epoch, core.last_logged, quorum, core.cause))
        self._broadcast.handover.complete(adopted)
        assert not core.pending, "the tree equals the log when a controller term begins"
        core.report_history()
        core.start_serving(leading=True)
        for peer in list(self._links.values()):
            if peer.step is Step.ACKNOWLEDGED:
                self._broadcast.admit(peer)

    # -- broadcast -------------------------------------------------------------------------------------------------

    def submit(self, requests: Sequence[ForwardedRequest]) -> None:
        """Propose writes of local clients."""
        self._broadcast.propose(requests, None)

    def submit_sync(self, request: SyncRequest) -> None:
        """Add a local client's sync request."""
        self._broadcast.add_sync(request, None)

    def ask_revalidate(self, session_id: SessionId, timeout_ms: int) -> None:
        """Process a local client's request to continue its session; the leader itself knows the session's state."""
        self._broadcast.answer_revalidate(Revalidate(session_id, timeout_ms), None)

    def end_turn(self) -> None:
        """End the current Proposal packet, because later proposals are sent in the next turn."""
        self._broadcast.close_proposal()

    def on_logged(self, zxid: Zxid) -> None:
        """Count this peer's own acknowledgement: its log is durable up to `zxid`."""
        self._broadcast.on_logged(zxid)

    def _on_ack(self, peer: LearnerLink, zxid: Zxid) -> None:
        if counter_of(zxid) == 0:
            # A learner sends this zxid in its acknowledgement of NEWLEADER, and again in that of UPTODATE. Ignore other
            # epochs.
            if peer.step is Step.SYNCING and zxid == self._newleader_zxid:
                self._on_newleader_ack(peer)
        elif wrong := self._broadcast.ack_error(peer, zxid):
            self._drop(peer, wrong, broken=True)
        else:
            self._broadcast.on_ack(peer, zxid)

    def _on_pong(self, peer: LearnerLink, pong: Ping) -> None:
        if self._broadcast.is_due(peer):
            self._broadcast.on_pong(peer, pong)
        else:
            self._drop(peer, "it answered a ping that was not sent", broken=True)

    # -- liveness --------------------------------------------------------------------------------------------------

    def _on_half_tick(self) -> None:
        core = self._core
        self._drop_silent_learners()
        if core.leaving is not None or self.phase is Phase.DISCOVERY:
            return
        self._broadcast.ping()
        self._half_ticks += 1
        if self.established and self._half_ticks % 2 == 0:
            if not self._broadcast.can_commit(self._synced_voters()):
                # If no voter was lost, the cause of the missing quorum is a membership change.
                cause = self._lost or request_cause("reconfig")
                core.leave("no quorum of synced learners", cause, self._broadcast.handover.successor)
                return
            core.perform(core.application.expire_sessions(core.now))

    def _drop_silent_learners(self) -> None:
        core, now_ms = self._core, self._core.now.mono_ms
        init_ms = core.ticks_ms(core.config.init_limit)
        sync_ms = core.ticks_ms(core.config.sync_limit)
        for peer in list(self._links.values()):
            if reason := peer.too_slow(now_ms, sync_ms if peer.synced else init_ms, sync_ms):
                self._drop(peer, reason, cause=silence_cause(peer.peer_id))
        # With checks only at half ticks, a silent learner would be detected up to half a tick late.
        ends = [p.silence_deadline_ms(sync_ms if p.synced else init_ms, sync_ms) for p in self._links.values()]
        if ends and min(ends) - now_ms < core.config.tick_time_ms // 2 and core.leaving is None:
            core.set_timer(SILENCE_TIMER, min(ends) - now_ms)

    def _synced_voters(self) -> dict[PeerId, None]:
        return {self._core.my_id: None, **{peer.peer_id: None for peer in self._links.values() if peer.counts}}

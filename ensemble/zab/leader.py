"""Leading: discovery, synchronisation of learners, broadcast (org.apache.zookeeper.server.quorum.Leader).

A leader asks a quorum which epochs it accepted, opens a higher one, brings every learner to its own history, and is
established once a quorum has that history and the epoch durably.  From then on it proposes, and commits in zxid order
what a quorum has logged, itself counted only after its own fsync.
"""

from __future__ import annotations

from ensemble.ids import COUNTER_MAX, Epoch, LinkId, PeerId, SessionId, Zxid, counter_of, make_zxid
from ensemble.zab.core import Core, Phase
from ensemble.zab.learner_link import LearnerLink, Step
from ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    Inform,
    LeaderInfo,
    NewLeader,
    Packet,
    PeerState,
    Ping,
    Proposal,
    Revalidate,
    Snap,
    SyncRequest,
    Trunc,
    UpToDate,
)
from ensemble.zab.sync import SyncMode, plan_sync
from ensemble.zab.sync_requests import SyncRequests
from journal.events import LeaderEstablished

HALF_TICK_TIMER = "leader.half_tick"
INIT_TIMER = "leader.init"
UNKNOWN_LINKS_MAX = 64
LOOKING_GRACE_MS = 400
"""How long after the election a voter may still be about to decide for this leader (two finalize waits)."""


class Leader:
    """One reign, or an attempt at one."""

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
        self._promised: dict[PeerId, None] = {}
        self._summary = (core.current_epoch, core.last_logged)
        # Synchronisation.
        self._adopted: dict[PeerId, None] = {}
        # Broadcast.
        self._last_proposed = Zxid(0)
        self._last_committed = Zxid(0)
        self._logged: dict[PeerId, int] = {}
        self._advancing = False
        self._syncs = SyncRequests()
        self._half_ticks = 0

    # -- reports ---------------------------------------------------------------------------------------------------

    @property
    def established(self) -> bool:
        """Has a quorum taken over this reign's initial history?"""
        return self.phase is Phase.BROADCAST

    @property
    def pending_syncs(self) -> int:
        """Sync requests not answered yet."""
        return len(self._syncs)

    def known_learners(self) -> list[LearnerLink]:
        """Learners that have introduced themselves, by connection."""
        return [peer for peer in self._links.values() if peer.step > Step.CONNECTED]

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Wait for learners, but not longer than initLimit."""
        core = self._core
        assert not core.pending, "the tree equals the log before a reign"
        core.set_timer(INIT_TIMER, core.ticks_ms(core.config.init_limit))
        core.set_timer(HALF_TICK_TIMER, core.config.tick_time_ms // 2)
        self._open_epoch_with_quorum()

    def stop(self, reason: str) -> None:
        """Let every learner go."""
        self._core.cancel_timer(INIT_TIMER)
        self._core.cancel_timer(HALF_TICK_TIMER)
        for link in self._links:
            self._core.close(link, reason)
        self._links.clear()

    def on_link_accepted(self, link: LinkId) -> None:
        """A learner, or somebody else, connected."""
        if sum(peer.step is Step.CONNECTED for peer in self._links.values()) >= UNKNOWN_LINKS_MAX:
            self._core.close(link, "too many connections that say nothing")
            return
        self._links[link] = LearnerLink(link, self._core.now.mono_ms)

    def on_link_up(self, link: LinkId, to: PeerId) -> None:
        """A link from an earlier time as a learner: too late."""
        self._core.close(link, "no longer wanted")

    def on_link_failed(self, to: PeerId) -> None:
        """As above."""

    def on_link_down(self, link: LinkId) -> None:
        """A learner is gone.  Without a quorum nothing can be committed any more, so do not wait for the next tick."""
        peer = self._links.pop(link, None)
        if peer is None:
            return
        self._syncs.forget(link)
        # What it logged must not count once it reconnects: its synchronisation may cut its log back first.
        self._logged.pop(peer.peer_id, None)
        if self.established and not self._core.quorum.contains(self._synced_voters()):
            self._core.leave("lost the quorum of learners")

    def on_recovered(self) -> None:
        """A leader never truncates."""
        raise AssertionError("a leader does not truncate its log")

    def on_looking(self, src: PeerId, round: int) -> None:
        """A voter is looking for a leader.  While this one still waits for a quorum that voter may be missing for ever:
        start over with it at once rather than at initLimit (ZOOKEEPER-3109)."""
        core = self._core
        if self.established or src not in core.quorum.voters:
            return
        introduced = {peer.peer_id: None for peer in self.known_learners()}
        if src in introduced or core.quorum.contains(introduced | {core.my_id: None}):
            return
        if round > core.round or core.now.mono_ms - self._started_ms >= LOOKING_GRACE_MS:
            core.leave(f"voter {src} is looking again and no quorum has come")

    def on_timer(self, name: str) -> None:
        """The init limit, or half a tick."""
        core = self._core
        if name == INIT_TIMER:
            if not self.established:
                core.leave("no quorum within initLimit")
        elif name == HALF_TICK_TIMER:
            core.set_timer(HALF_TICK_TIMER, core.config.tick_time_ms // 2)
            self._on_half_tick()

    def on_packet(self, link: LinkId, packet: Packet) -> None:
        """A packet of a learner."""
        peer = self._links.get(link)
        if peer is None:
            return
        peer.heard_ms = self._core.now.mono_ms
        kind = type(packet)
        if kind is Ack and isinstance(packet, Ack) and peer.step >= Step.SYNCING:
            self._on_ack(peer, packet.zxid)
        elif isinstance(packet, ForwardedRequest) and peer.synced:
            self._propose(packet, link)
        elif isinstance(packet, Ping) and peer.synced:
            self._on_pong(peer, packet)
        elif isinstance(packet, SyncRequest) and peer.synced:
            self._add_sync(packet, link)
        elif isinstance(packet, Revalidate) and peer.synced:
            valid = self._core.application.revalidate(self._core.now, packet.session_id, packet.timeout_ms, link)
            self._core.send(link, Revalidate(packet.session_id, packet.timeout_ms, valid))
        elif isinstance(packet, FollowerInfo) and peer.step is Step.CONNECTED:
            self._on_follower_info(peer, packet)
        elif isinstance(packet, AckEpoch) and peer.step is Step.OFFERED:
            self._on_ack_epoch(peer, packet)
        else:
            self._drop(peer, f"unexpected {kind.__name__} at {peer.step.name}", broken=True)

    def _drop(self, peer: LearnerLink, reason: str, broken: bool = False) -> None:
        if broken:
            self._core.report_broken(peer.peer_id, reason)
        self._core.close(peer.link, reason)
        self.on_link_down(peer.link)

    # -- discovery -------------------------------------------------------------------------------------------------

    def _on_follower_info(self, peer: LearnerLink, info: FollowerInfo) -> None:
        core = self._core
        voter = info.peer_id in core.quorum.voters
        if info.peer_id == core.my_id or not (voter or info.observer):
            self._drop(peer, f"server {info.peer_id} is no learner of this ensemble", broken=True)
            return
        if info.config_version > 0:
            self._drop(peer, "it has a newer configuration of the ensemble")
            return
        for other in [o for o in self._links.values() if o.peer_id == info.peer_id]:
            self._drop(other, "it has connected anew")
        peer.peer_id = info.peer_id
        peer.observer = info.observer or not voter
        peer.cumulative = info.cumulative and core.cumulative
        peer.step = Step.INTRODUCED
        core.epoch_floor = max(core.epoch_floor, info.accepted_epoch)
        if self._epoch is not None and info.accepted_epoch > self._epoch:
            # It promised a higher epoch to a leader that came to nothing, and may never follow this one.  Epochs are
            # cheap: open one that suits it too.  (ZooKeeper leaves such a server outside until the next election.)
            core.leave(f"server {peer.peer_id} has accepted epoch {info.accepted_epoch}")
        elif not peer.observer and self._epoch is None:
            self._accepted_epochs[peer.peer_id] = info.accepted_epoch
            self._open_epoch_with_quorum()
        elif self._offering:
            self._offer(peer)

    def _open_epoch_with_quorum(self) -> None:
        """With a quorum heard: one epoch above all that any of them has accepted, fixed from here on."""
        core = self._core
        if self._epoch is not None or not core.quorum.contains(self._accepted_epochs):
            return
        self._epoch = Epoch(max(core.epoch_floor, *self._accepted_epochs.values()) + 1)
        core.save_accepted_epoch(self._epoch, self._offer_to_all)

    def _offer_to_all(self) -> None:
        """The epoch is durable here, and so is all of the history: say so, and count this peer's own promise."""
        self._offering = True
        self._promised[self._core.my_id] = None
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
            if ack.current_epoch != -1 and (ack.current_epoch, ack.last_zxid) > self._summary:
                self._drop(peer, "its history is ahead of this leader's")
                return
            peer.step = Step.PROMISED
            if ack.current_epoch != -1 and not peer.observer:
                self._promised[peer.peer_id] = None
                self._adopt_with_quorum()
            self._leave_if_hopeless()
            return
        peer.step = Step.PROMISED
        self._synchronise(peer)

    def _leave_if_hopeless(self) -> None:
        """A voter that accepted this epoch before does not count again.  When the promises can no longer become a
        quorum, a new epoch now is better than waiting for initLimit."""
        if self.phase is not Phase.DISCOVERY:
            return
        voters = [peer for peer in self._links.values() if peer.step > Step.CONNECTED and not peer.observer]
        refused = {p.peer_id: None for p in voters if p.step is Step.PROMISED and p.peer_id not in self._promised}
        if not self._core.quorum.contains({v: None for v in self._core.quorum.voters if v not in refused}):
            self._core.leave("this epoch can no longer get a quorum of promises")

    def _adopt_with_quorum(self) -> None:
        """A quorum has promised, none of it ahead of this peer: its history is the initial history of the epoch."""
        core = self._core
        if self.phase is not Phase.DISCOVERY or not core.quorum.contains(self._promised):
            return
        if core.my_id not in self._promised:
            return
        assert self._epoch is not None
        self.phase = Phase.SYNCHRONIZATION
        self._last_proposed = self._last_committed = make_zxid(self._epoch, 0)
        core.save_current_epoch(self._epoch, self._own_history_durable)
        for peer in list(self._links.values()):
            if peer.step is Step.PROMISED:
                self._synchronise(peer)

    def _own_history_durable(self) -> None:
        self._adopted[self._core.my_id] = None
        self._establish_with_quorum()

    # -- synchronisation -------------------------------------------------------------------------------------------

    def _synchronise(self, peer: LearnerLink) -> None:
        """Send all that the learner lacks, and from here on every proposal: in one turn, so that nothing can fall in
        between (rule 5)."""
        core = self._core
        plan = plan_sync(peer.last_zxid, core.last_committed, core.committed_log)
        first: Packet
        if plan.mode is SyncMode.DIFF:
            first = Diff(plan.zxid)
        elif plan.mode is SyncMode.TRUNC:
            first = Trunc(plan.zxid)
        else:
            first = Snap(plan.zxid, core.application.snapshot())
        core.send(peer.link, first)
        for txn in plan.txns:
            core.send(peer.link, Proposal(txn))
            core.send(peer.link, Commit(txn.zxid))
        if not peer.observer:
            for txn in core.pending:
                core.send(peer.link, Proposal(txn))
        peer.step = Step.SYNCING
        core.send(peer.link, NewLeader(self._newleader_zxid))

    @property
    def _newleader_zxid(self) -> Zxid:
        assert self._epoch is not None
        return make_zxid(self._epoch, 0)

    def _on_newleader_ack(self, peer: LearnerLink) -> None:
        peer.step = Step.ACKNOWLEDGED
        if self.established:
            self._up_to_date(peer)
        elif not peer.observer:
            self._adopted[peer.peer_id] = None
            self._establish_with_quorum()

    def _establish_with_quorum(self) -> None:
        core = self._core
        adopted = self._adopted
        if self.established or core.my_id not in adopted or not core.quorum.contains(adopted):
            return
        assert self._epoch is not None and core.current_epoch == self._epoch
        self.phase = Phase.BROADCAST
        core.cancel_timer(INIT_TIMER)
        quorum = sorted(int(peer) for peer in adopted)
        core.emit(LeaderEstablished(core.my_id, self._epoch, core.last_logged, quorum))
        core.start_serving(leading=True)
        for peer in list(self._links.values()):
            if peer.step is Step.ACKNOWLEDGED:
                self._up_to_date(peer)

    def _up_to_date(self, peer: LearnerLink) -> None:
        peer.step = Step.SYNCED
        # Pings sent so far reach it before UPTODATE, and are not answered.
        peer.answered_round = self._syncs.round
        if not peer.observer and self._core.pending:
            peer.note_proposed(self._core.pending[0].zxid, self._core.now.mono_ms)
        self._core.send(peer.link, UpToDate())

    # -- broadcast -------------------------------------------------------------------------------------------------

    def submit(self, request: ForwardedRequest) -> None:
        """A write of a local client."""
        self._propose(request, None)

    def _propose(self, request: ForwardedRequest, origin: LinkId | None) -> None:
        core = self._core
        if not self.established or core.leaving is not None:
            return
        if counter_of(self._last_proposed) + 1 >= COUNTER_MAX:
            # The counter must not run over into the epoch: a new epoch starts it again (ZOOKEEPER-1277).
            core.leave("the zxid's counter is used up")
            return
        zxid = Zxid(self._last_proposed + 1)
        txn = core.application.prepare(core.now, request, zxid, origin)
        assert txn.zxid == zxid, "a transaction takes the zxid it was given"
        self._last_proposed = zxid
        core.append(txn)
        proposal = Proposal(txn)
        for peer in self._links.values():
            if peer.step >= Step.SYNCING and not peer.observer:
                core.send(peer.link, proposal)
                if peer.synced:
                    peer.note_proposed(zxid, core.now.mono_ms)

    def on_logged(self, zxid: Zxid) -> None:
        """This peer's own log is durable up to `zxid`: now it counts itself."""
        if self.established:
            self._logged[self._core.my_id] = zxid
            self._advance()

    def _on_ack(self, peer: LearnerLink, zxid: Zxid) -> None:
        if counter_of(zxid) == 0:
            # Answers NEWLEADER, then UPTODATE; of another epoch it counts for nothing.
            if peer.step is Step.SYNCING and zxid == self._newleader_zxid:
                self._on_newleader_ack(peer)
            return
        if peer.step < Step.SYNCED or peer.observer:
            self._drop(peer, "it acknowledged a proposal before NEWLEADER", broken=True)
            return
        if zxid > self._last_proposed:
            self._drop(peer, f"it acknowledged 0x{zxid:x}, which nobody proposed", broken=True)
            return
        # A learner's log is in order, so an ack means everything before it as well.
        if zxid > peer.acked:
            peer.note_acked(zxid, self._last_proposed, self._core.now.mono_ms)
            self._logged[peer.peer_id] = zxid
            self._advance()

    def _advance(self) -> None:
        """Commit, strictly in order, what a quorum has logged."""
        core = self._core
        reached = core.quorum.reached(self._logged)
        pending = core.pending
        if self._advancing or not pending or pending[0].zxid > reached:
            return
        self._advancing = True
        while pending and pending[0].zxid <= reached and core.leaving is None:
            txn = pending[0]
            assert txn.zxid == self._last_committed + 1, "commits are in zxid order, without gaps"
            inform = Inform(txn)
            for peer in self._links.values():
                if not peer.forwarding:
                    continue
                if peer.observer:
                    core.send(peer.link, inform)
                elif not peer.cumulative:
                    core.send(peer.link, Commit(txn.zxid))
            self._last_committed = txn.zxid
            core.apply_next()
        commit = Commit(self._last_committed, cumulative=True)
        for peer in self._links.values():
            if peer.forwarding and peer.cumulative and not peer.observer:
                core.send(peer.link, commit)
        self._advancing = False
        self._answer_syncs()

    # -- sync, sessions --------------------------------------------------------------------------------------------

    def submit_sync(self, request: SyncRequest) -> None:
        """A sync of a local client."""
        self._add_sync(request, None)

    def _add_sync(self, request: SyncRequest, origin: LinkId | None) -> None:
        if self.established:
            self._syncs.add(request, origin, self._last_proposed)
            self._answer_syncs()

    def _answered_round(self) -> int:
        """The newest ping round that a quorum, this peer included, has answered."""
        answered: dict[PeerId, int] = {self._core.my_id: self._syncs.round}
        for peer in self._links.values():
            if peer.synced and not peer.observer:
                answered[peer.peer_id] = peer.answered_round
        return self._core.quorum.reached(answered)

    def _answer_syncs(self) -> None:
        """Answer what can be answered; begin a ping round for those that need one."""
        core = self._core
        if self._advancing:  # Commits must leave before the answers that rely on them.
            return
        if self._syncs.needs_round(self._answered_round()):
            self._ping()
        for sync in self._syncs.take_done(self._answered_round(), self._last_committed):
            if sync.origin is not None:
                core.send(sync.origin, sync.request)
            else:
                core.perform(core.application.sync_done(core.now, sync.request))

    def ask_revalidate(self, session_id: SessionId, timeout_ms: int) -> None:
        """A local client's session: this peer knows."""
        core = self._core
        valid = core.application.revalidate(core.now, session_id, timeout_ms, None)
        core.perform(core.application.revalidated(core.now, session_id, valid))

    def _ping(self) -> None:
        self._syncs.round += 1
        ping = Ping(self._last_proposed)
        for peer in self._links.values():
            if peer.step >= Step.SYNCING:
                self._core.send(peer.link, ping)

    def _on_pong(self, peer: LearnerLink, pong: Ping) -> None:
        # Answers come in the order of the pings, and every round since UPTODATE went to it.
        if peer.answered_round >= self._syncs.round:
            self._drop(peer, "it answered a ping that was not sent", broken=True)
            return
        peer.answered_round += 1
        for session_id, timeout_ms in pong.touched:
            self._core.application.touch(self._core.now, session_id, timeout_ms)
        if self._syncs:
            self._answer_syncs()

    # -- liveness --------------------------------------------------------------------------------------------------

    def _on_half_tick(self) -> None:
        core = self._core
        self._drop_silent_learners()
        if core.leaving is not None or self.phase is Phase.DISCOVERY:
            return
        self._ping()
        self._half_ticks += 1
        if self.established and self._half_ticks % 2 == 0:
            if not core.quorum.contains(self._synced_voters()):
                core.leave("no quorum of synced learners")
                return
            core.perform(core.application.expire_sessions(core.now))

    def _drop_silent_learners(self) -> None:
        core, now_ms = self._core, self._core.now.mono_ms
        init_ms = core.ticks_ms(core.config.init_limit)
        sync_ms = core.ticks_ms(core.config.sync_limit)
        for peer in list(self._links.values()):
            limit_ms = sync_ms if peer.synced else init_ms
            if now_ms - peer.heard_ms > limit_ms:
                self._drop(peer, "it was not heard from in time")
            elif peer.unacked_zxid is not None and now_ms - peer.unacked_since_ms > sync_ms:
                self._drop(peer, "it does not acknowledge proposals in time")

    def _synced_voters(self) -> dict[PeerId, None]:
        voters: dict[PeerId, None] = {self._core.my_id: None}
        for peer in self._links.values():
            if peer.synced and not peer.observer:
                voters[peer.peer_id] = None
        return voters

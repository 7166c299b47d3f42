"""Leading: discovery, synchronisation of learners, broadcast (org.apache.zookeeper.server.quorum.Leader).

A leader asks a quorum which epochs it accepted, opens a higher one, brings every learner to its own history, and is
established once a quorum has that history and the epoch durably.  From then on it proposes, and commits in zxid order
what a quorum has logged, itself counted only after its own fsync.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from ensemble.ids import (
    COUNTER_MAX,
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
from ensemble.records import OpCode
from ensemble.txn import Txn
from ensemble.zab.core import STRETCH_TXNS, Core
from ensemble.zab.handover import HANDOVER_TIMER, Handover
from ensemble.zab.leader_acks import REMINDER_TIMER, LeaderAcks
from ensemble.zab.learner_link import LearnerLink, Step
from ensemble.zab.learner_sync import Progress, begin_forwarding, send_from_log, send_history
from ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    FollowerInfo,
    ForwardedRequest,
    Inform,
    LeaderInfo,
    Packet,
    PeerState,
    Ping,
    Proposal,
    Revalidate,
    SyncRequest,
    UpToDate,
)
from ensemble.zab.role import Phase
from ensemble.zab.sync_requests import SyncRequests
from journal.events import LeaderEstablished, TxnProposed

HALF_TICK_TIMER = "leader.half_tick"
INIT_TIMER = "leader.init"
SILENCE_TIMER = "leader.silence"
UNKNOWN_LINKS_MAX = 64
_RECONFIG = int(OpCode.RECONFIG)
_SYNCING, _SYNCED, _BROADCAST = Step.SYNCING, Step.SYNCED, Phase.BROADCAST
"""By themselves: to look up a member of an enumeration costs as much as a call."""
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
        self._proposing: list[Txn] | None = None
        self._advancing = False
        self._handover = Handover(core)
        self._syncs = SyncRequests()
        self._acks = LeaderAcks(core)
        self._half_ticks = 0

    # -- reports ---------------------------------------------------------------------------------------------------

    @property
    def established(self) -> bool:
        """Has a quorum taken over this reign's initial history?"""
        return self.phase is _BROADCAST

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
        for timer in (INIT_TIMER, HALF_TICK_TIMER, SILENCE_TIMER, HANDOVER_TIMER, REMINDER_TIMER):
            self._core.cancel_timer(timer)
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
        # What it logged and took over does not count once it reconnects: its synchronisation may cut its log back.
        self._logged.pop(peer.peer_id, None)
        self._adopted.pop(peer.peer_id, None)
        if self.established and not self._core.quorum.contains(self._synced_voters()):
            self._core.leave("lost the quorum of learners", self._handover.successor)
        self._advance()

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
            core.quit_over(src)

    def on_timer(self, name: str) -> None:
        """The init limit, half a tick, or the moment at which a learner has been silent for too long."""
        core = self._core
        if name == INIT_TIMER:
            if not self.established:
                core.leave("no quorum within initLimit")
        elif name == HANDOVER_TIMER:
            core.leave("the new membership has another leader", self._handover.successor)
        elif name == SILENCE_TIMER:
            self._drop_silent_learners()
        elif name == REMINDER_TIMER:
            self._acks.on_reminder(self._links.values())
        elif name == HALF_TICK_TIMER:
            core.set_timer(HALF_TICK_TIMER, core.config.tick_time_ms // 2)
            self._on_half_tick()

    def on_packets(self, link: LinkId, packets: Sequence[Packet]) -> None:
        """Packets of a learner; what follows one that ends its link, or this reign, is void."""
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
                self._propose(requests, link)
                requests = []
            self._on_packet(peer, packet)
            if self._core.leaving is not None or link not in self._links:
                return
        if requests:
            self._propose(requests, link)

    def _on_packet(self, peer: LearnerLink, packet: Packet) -> None:
        link = peer.link
        if isinstance(packet, Ack) and peer.step >= _SYNCING:
            self._on_ack(peer, packet.zxid)
        elif isinstance(packet, Ping) and peer.synced:
            self._on_pong(peer, packet)
        elif isinstance(packet, SyncRequest) and peer.synced:
            self._add_sync(packet, link)
        elif isinstance(packet, Revalidate) and peer.synced:
            self._judge_session(packet, link)
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
        self.on_link_down(peer.link)

    # -- discovery -------------------------------------------------------------------------------------------------

    def _on_follower_info(self, peer: LearnerLink, info: FollowerInfo) -> None:
        core = self._core
        known = info.observer or core.reconfiguration.enabled or info.peer_id in core.quorum.voters
        if info.peer_id == core.my_id or not known:
            self._drop(peer, f"server {info.peer_id} is no learner of this ensemble", broken=True)
            return
        if not 0 <= info.accepted_epoch <= core.accepted_epoch + EPOCH_LEAP_MAX:
            self._drop(peer, f"server {info.peer_id} says that it accepted epoch {info.accepted_epoch}", broken=True)
            return
        if info.config_version > core.reconfiguration.current.version:
            self._drop(peer, "it has a newer configuration of the ensemble")
            return
        for other in [o for o in self._links.values() if o.peer_id == info.peer_id]:
            self._drop(other, "it has connected anew")
        peer.introduce(info, core.cumulative)
        core.epoch_floor = max(core.epoch_floor, info.accepted_epoch)
        if self._epoch is not None and info.accepted_epoch > self._epoch:
            # It promised a higher epoch to a leader that came to nothing, and may never follow this one.  Epochs are
            # cheap: open one that suits it too.  (ZooKeeper leaves such a server outside until the next election.)
            core.leave(f"server {peer.peer_id} has accepted epoch {info.accepted_epoch}")
        elif peer.promises and self._epoch is None:
            self._accepted_epochs[peer.peer_id] = info.accepted_epoch
            self._open_epoch_with_quorum()
        elif self._offering:
            self._offer(peer)

    def _open_epoch_with_quorum(self) -> None:
        """With a quorum heard: one epoch above all that any of them has accepted, fixed from here on."""
        core = self._core
        if self._epoch is not None or not core.quorum.contains(self._accepted_epochs):
            return
        epoch = Epoch(max(core.epoch_floor, *self._accepted_epochs.values()) + 1)
        if epoch > EPOCH_MAX:
            core.leave("there is no epoch left")
            return
        self._epoch = epoch
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
            if ack.current_epoch != -1 and peer.promises:
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
        voters = [peer for peer in self._links.values() if peer.step > Step.CONNECTED and peer.promises]
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
        self._last_proposed = self._last_committed = self._acks.last_told = make_zxid(self._epoch, 0)
        core.reconfiguration.open_epoch(self._last_proposed)
        core.save_current_epoch(self._epoch, self._own_history_durable)
        for peer in list(self._links.values()):
            if peer.step is Step.PROMISED:
                self._synchronise(peer)

    def _own_history_durable(self) -> None:
        self._adopted[self._core.my_id] = None
        self._establish_with_quorum()

    # -- synchronisation -------------------------------------------------------------------------------------------

    def _synchronise(self, peer: LearnerLink) -> None:
        if not self._acks.is_ahead(peer, self._last_committed):
            self._take_in(peer, send_history(self._core, peer))

    def on_log_read(self, link: LinkId, after: Zxid, txns: Sequence[Txn] | None) -> None:
        """The disk has read the transactions behind `after` for that learner."""
        peer = self._links.get(link)
        if peer is not None and peer.reading == after:
            self._take_in(peer, send_from_log(self._core, peer, txns))

    def _take_in(self, peer: LearnerLink, progress: Progress) -> None:
        if progress is Progress.BROKEN:
            self._drop(peer, "what it lacks cannot be read from the log any more")
        elif progress is Progress.DONE:
            begin_forwarding(self._core, peer, self._newleader_zxid)
            self._proposing = None  # Not to this learner: it has been told.

    @property
    def _newleader_zxid(self) -> Zxid:
        assert self._epoch is not None
        return make_zxid(self._epoch, 0)

    def _on_newleader_ack(self, peer: LearnerLink) -> None:
        peer.step = Step.ACKNOWLEDGED
        if self.established:
            self._up_to_date(peer)
        elif peer.promises:
            self._adopted[peer.peer_id] = None
            self._establish_with_quorum()

    def _establish_with_quorum(self) -> None:
        core, adopted = self._core, self._adopted
        if self.established or core.my_id not in adopted or not core.quorum.contains(adopted):
            return
        assert self._epoch is not None and core.current_epoch == self._epoch
        self.phase = Phase.BROADCAST
        core.cancel_timer(INIT_TIMER)
        quorum = sorted(int(peer) for peer in adopted if peer in core.quorum.voters)
        core.emit(LeaderEstablished(core.my_id, self._epoch, core.last_logged, quorum))
        self._handover.complete(adopted)
        core.start_serving(leading=True)
        for peer in list(self._links.values()):
            if peer.step is Step.ACKNOWLEDGED:
                self._up_to_date(peer)

    def _up_to_date(self, peer: LearnerLink) -> None:
        peer.step = Step.SYNCED
        self._logged |= {} if peer.observer else {peer.peer_id: self._logged.get(peer.peer_id, 0)}
        # Pings sent so far reach it before UPTODATE, and are not answered.
        peer.answered_round = self._syncs.round
        if not peer.observer and self._core.pending:
            peer.note_proposed(self._core.pending[0].zxid, self._core.now.mono_ms)
        self._core.send(peer.link, UpToDate())

    # -- broadcast -------------------------------------------------------------------------------------------------

    def submit(self, requests: Sequence[ForwardedRequest]) -> None:
        """Writes of local clients."""
        self._propose(requests, None)

    def _propose(self, requests: Sequence[ForwardedRequest], origin: LinkId | None) -> None:
        core = self._core
        if not self.established or core.leaving is not None:
            return
        self._acks.asked_by = origin
        left = COUNTER_MAX - 1 - counter_of(self._last_proposed)
        together = 1 if len(requests) == 1 or _RECONFIG in [request.op for request in requests] else STRETCH_TXNS
        for start in range(0, min(len(requests), left), together):
            self._propose_stretch(requests[start : min(start + together, left)], origin)
        if len(requests) > left:
            # The counter must not run over into the epoch: a new epoch starts it again (ZOOKEEPER-1277).
            core.leave("the zxid's counter is used up")

    def _propose_stretch(self, requests: Sequence[ForwardedRequest], origin: LinkId | None) -> None:
        core, zxid = self._core, Zxid(self._last_proposed + 1)
        if requests[0].op == _RECONFIG:
            # It is prepared by itself, against the membership that all before it leave; from here on nobody commits
            # by the leader's word.
            self._acks.make_up_for(self._links.values())
            view = self._handover.view(self._links.values())
            txns = [core.application.prepare_reconfig(core.now, requests[0], zxid, origin, view)]
        else:
            txns = core.application.prepare_all(core.now, requests, zxid, origin)
        assert txns[0].zxid == zxid and txns[-1].zxid == self._last_proposed + len(requests), "each takes its own zxid"
        self._broadcast(txns)
        if len(txns) == STRETCH_TXNS:
            core.hand_over()

    def _broadcast(self, txns: list[Txn]) -> None:
        """Log transactions, and propose them to everybody else who logs."""
        core = self._core
        self._last_proposed = txns[-1].zxid
        if core.config.full_journal:
            for txn in txns:
                core.emit(TxnProposed(txn.zxid, txn.session_id, txn.cxid))
        core.append(txns)
        if self._proposing is None:
            self._open_proposal(txns[0].zxid)
        assert self._proposing is not None
        self._proposing += txns

    def _open_proposal(self, first: Zxid) -> None:
        """A proposal on its way to everybody who logs; what this turn proposes from here on joins it."""
        core = self._core
        self._proposing = []
        proposal = Proposal(self._proposing)
        for peer in self._links.values():
            if peer.step >= _SYNCING and not peer.observer:
                core.send(peer.link, proposal)
                if peer.step is _SYNCED:
                    peer.note_proposed(first, core.now.mono_ms)

    def end_turn(self) -> None:
        """What is proposed next is another turn's."""
        self._proposing = None

    def on_logged(self, zxid: Zxid) -> None:
        """This peer's own log is durable up to `zxid`: now it counts itself."""
        if self.established:
            self._logged[self._core.my_id] = zxid
            self._advance()
            if self._core.pending and self._handover.successor is None:
                self._acks.tell(zxid, self._links.values())

    def _on_ack(self, peer: LearnerLink, zxid: Zxid) -> None:
        if counter_of(zxid) == 0:
            # Answers NEWLEADER, then UPTODATE; of another epoch it counts for nothing.
            if peer.step is Step.SYNCING and zxid == self._newleader_zxid:
                self._on_newleader_ack(peer)
            return
        if peer.step is not _SYNCED or peer.observer:
            self._drop(peer, "it acknowledged a proposal before NEWLEADER", broken=True)
            return
        if zxid > self._last_proposed:
            self._drop(peer, f"it acknowledged 0x{zxid:x}, which nobody proposed", broken=True)
            return
        # A learner's log is in order, so an ack means everything before it as well.
        if zxid > peer.acked:
            self._proposing = None  # What is proposed next is to be noted as unacknowledged.
            peer.note_acked(zxid, self._last_proposed, self._core.now.mono_ms)
            self._logged[peer.peer_id] = zxid
            self._advance()

    def _advance(self) -> None:
        """Commit, strictly in order, what a quorum has logged."""
        core, pending = self._core, self._core.pending
        if self._advancing or not pending or pending[0].zxid > (reached := core.quorum.reached(self._logged)):
            return
        self._advancing = True
        while pending and pending[0].zxid <= reached and core.leaving is None and self._handover.successor is None:
            txn = pending[0]
            if txn.type == _RECONFIG and core.reconfiguration.enabled:
                self._tell_committed()
                assert txn.zxid == self._last_committed + 1, "commits are in zxid order, without gaps"
                self._handover.commit(txn, self._logged, self._links.values())
                self._last_committed = self._acks.last_told = txn.zxid
                core.apply_up_to(txn.zxid)
                reached = core.quorum.reached(self._logged)
            else:
                self._commit(reached)
        self._tell_committed()
        self._advancing = False
        self._answer_syncs()
        for peer in self._acks.take_held_back(self._links):
            self._synchronise(peer)

    def _commit(self, reached: int) -> None:
        """Commit the transactions up to `reached`, or up to a reconfiguration, which changes what a quorum is."""
        core = self._core
        assert core.pending[0].zxid == self._last_committed + 1, "commits are in zxid order, without gaps"
        txns = list(islice(core.pending, reached - self._last_committed))
        if core.reconfiguration.enabled:
            txns = list(takewhile(lambda txn: txn.type != _RECONFIG, txns))
        assert txns[-1].zxid == self._last_committed + len(txns), "all of this epoch's proposals are pending, in order"
        for peer in [each for each in self._links.values() if each.observer or not each.cumulative]:
            if peer.forwarding and peer.observer:
                core.send_all(peer.link, [Inform(txn) for txn in txns])
            elif peer.forwarding:
                core.send_all(peer.link, [Commit(txn.zxid) for txn in txns])
        self._last_committed = txns[-1].zxid
        self._tell_committed()
        core.apply_up_to(self._last_committed)

    def _tell_committed(self) -> None:
        self._acks.tell_committed(self._last_committed, self._links.values())

    # -- sync, sessions --------------------------------------------------------------------------------------------

    def submit_sync(self, request: SyncRequest) -> None:
        """A sync of a local client."""
        self._add_sync(request, None)

    def _add_sync(self, request: SyncRequest | Revalidate, origin: LinkId | None) -> None:
        if not self.established:
            return
        asker = self._links.get(origin) if origin is not None else None
        following = (self.leader_id, asker.peer_id) if asker is not None and asker.counts else (self.leader_id,)
        add = self._syncs.add_vouched if self._core.quorum.contains(following) else self._syncs.add
        add(request, origin, self._last_proposed)
        self._answer_syncs()

    def _answered_round(self) -> int:
        """The newest ping round that a quorum, this peer included, has answered."""
        answered = {peer.peer_id: peer.answered_round for peer in self._links.values() if peer.counts}
        return self._core.quorum.reached({self._core.my_id: self._syncs.round, **answered})

    def _answer_syncs(self) -> None:
        """Answer what can be answered; begin a ping round for those that need one."""
        core = self._core
        if self._advancing or not self._syncs:  # Commits must leave before the answers that rely on them.
            return
        if self._syncs.needs_round(self._answered_round()):
            self._ping()
        for sync in self._syncs.take_done(self._answered_round(), self._last_committed):
            if isinstance(sync.request, Revalidate):
                self._tell_session(sync.request, sync.origin, False)
            elif sync.origin is not None:
                self._answer(sync.origin, sync.request)
            else:
                core.perform(core.application.sync_done(core.now, sync.request))

    def ask_revalidate(self, session_id: SessionId, timeout_ms: int) -> None:
        """A local client's session: this peer knows."""
        self._judge_session(Revalidate(session_id, timeout_ms), None)

    def _judge_session(self, asked: Revalidate, origin: LinkId | None) -> None:
        """That it lives is said at once; that it is over waits for a quorum (see `sync_requests`)."""
        if self._core.application.revalidate(self._core.now, asked.session_id, asked.timeout_ms, origin):
            self._tell_session(asked, origin, True)
        else:
            self._add_sync(asked, origin)

    def _tell_session(self, asked: Revalidate, origin: LinkId | None, valid: bool) -> None:
        core = self._core
        if origin is not None:
            self._answer(origin, Revalidate(asked.session_id, asked.timeout_ms, valid))
        else:
            core.perform(core.application.revalidated(core.now, asked.session_id, valid))

    def _answer(self, origin: LinkId, answer: Packet) -> None:
        # It relies on every commit before it.
        self._acks.make_up_for([self._links[origin]] if origin in self._links else ())
        self._core.send(origin, answer)

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
                core.leave("no quorum of synced learners", self._handover.successor)
                return
            core.perform(core.application.expire_sessions(core.now))

    def _drop_silent_learners(self) -> None:
        core, now_ms = self._core, self._core.now.mono_ms
        init_ms = core.ticks_ms(core.config.init_limit)
        sync_ms = core.ticks_ms(core.config.sync_limit)
        for peer in list(self._links.values()):
            if reason := peer.too_slow(now_ms, sync_ms if peer.synced else init_ms, sync_ms):
                self._drop(peer, reason)
        # Half ticks alone would find a silent learner up to half a tick late.
        ends = [p.patience_ends_ms(sync_ms if p.synced else init_ms, sync_ms) for p in self._links.values()]
        if ends and min(ends) - now_ms < core.config.tick_time_ms // 2 and core.leaving is None:
            core.set_timer(SILENCE_TIMER, min(ends) - now_ms)

    def _synced_voters(self) -> dict[PeerId, None]:
        return {self._core.my_id: None, **{peer.peer_id: None for peer in self._links.values() if peer.counts}}

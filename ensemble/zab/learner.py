"""Learning: following a leader, or observing it (org.apache.zookeeper.server.quorum.Learner, Follower, Observer).

What a synchronisation brings is kept aside until NEWLEADER and then taken over in one go: history durable, then
currentEpoch durable, then the acknowledgement (rule 2).  Whatever breaks before that leaves memory and disk as they
were (rule 4; ZOOKEEPER-3642, 5094), except that a TRUNC has cut both at the same place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import IntEnum

from ensemble.ids import EPOCH_LEAP_MAX, Epoch, LinkId, PeerId, SessionId, Zxid, epoch_of, make_zxid
from ensemble.records import OpCode
from ensemble.tree_snapshot import TreeSnapshot
from ensemble.txn import Txn
from ensemble.zab.core import Core
from ensemble.zab.effects import OpenLink
from ensemble.zab.leader_acks import CommonLog
from ensemble.zab.learner_link import LearnerLink
from ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    Inform,
    InformAndActivate,
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
from ensemble.zab.observer_master import MASTER_TIMER, ObserverMaster
from ensemble.zab.role import Phase
from ensemble.zab.sync import SyncMode, follows
from journal.events import LearnerSynced

CONNECT_TIMER = "learner.connect"
LIVENESS_TIMER = "learner.liveness"
RETRY_MIN_MS = 10
RETRY_MAX_MS = 50
CONNECT_BUDGET_MS = 1500
"""How long to try to reach a leader that was just elected; it may be slower to decide than this peer."""
FORCE_SNAP_ZXID = Zxid(0)


class LearnerStep(IntEnum):
    """How far the connection to the leader has come, in order."""

    CONNECTING = 0
    INTRODUCED = 1
    PROMISING = 2
    PROMISED = 3
    TRUNCATING = 4
    RECEIVING = 5
    ADOPTING = 6
    ADOPTED = 7
    ACTIVE = 8


_ACTIVE, _TRUNCATING = LearnerStep.ACTIVE, LearnerStep.TRUNCATING
"""By themselves: to look up a member of an enumeration costs as much as a call."""
_PHASES = {
    LearnerStep.CONNECTING: Phase.DISCOVERY,
    LearnerStep.INTRODUCED: Phase.DISCOVERY,
    LearnerStep.PROMISING: Phase.DISCOVERY,
    LearnerStep.PROMISED: Phase.DISCOVERY,
    LearnerStep.ACTIVE: Phase.BROADCAST,
}


class Learner:
    """One connection to one leader."""

    def __init__(
        self,
        core: Core,
        leader_id: PeerId,
        source_id: PeerId,
        *,
        handed_over: bool = False,
        leads_until: Epoch | None = None,
    ) -> None:
        """`source_id`: whom to learn from, the leader itself or, for an observer, a follower of its.  One that is in an
        epoch beyond `leads_until` follows somebody else already."""
        self._core = core
        self.source_id = source_id
        self._leads_until = leads_until
        self._handed_over = handed_over
        self.leader_id = leader_id
        self._observer = core.reconfiguration.observes
        self.state = PeerState.OBSERVING if self._observer else PeerState.FOLLOWING
        self._step = LearnerStep.CONNECTING
        self.phase = _PHASES[self._step]
        """Discovery, synchronisation or broadcast: as `_step` is; looked at in every turn."""
        self._link: LinkId | None = None
        self._started_ms = self._heard_ms = core.now.mono_ms
        self._retry_ms = RETRY_MIN_MS
        self._cumulative = False
        self._epoch: Epoch | None = None
        self._forces_snapshot = False
        # The synchronisation under way.
        self._mode = SyncMode.DIFF
        self._from_zxid = core.last_logged
        self._snapshot: TreeSnapshot | None = None
        self._held_back: list[Packet] = []
        self._last_queued = Zxid(0)
        self._queued: deque[Txn] = deque()
        self._committed = 0
        self._announced = False
        # Broadcast.
        self._unacked: deque[Sequence[Txn]] = deque()
        self._common = CommonLog()
        self._syncs: deque[tuple[SyncRequest, LinkId | None]] = deque()
        self._revalidations: deque[tuple[SessionId, LinkId | None]] = deque()
        self._master: ObserverMaster | None = None
        """Where this follower serves observers: who they are, and what they are told."""

    @property
    def observers(self) -> list[LearnerLink]:
        """Those that learn from this follower."""
        return [] if self._master is None else self._master.known_learners()

    def _go(self, step: LearnerStep) -> None:
        self._step, self.phase = step, _PHASES.get(step, Phase.SYNCHRONIZATION)

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect to the leader."""
        core = self._core
        core.out.append(OpenLink(self.source_id))
        core.set_timer(LIVENESS_TIMER, self._limit_ms())

    def stop(self, reason: str) -> None:
        """Let the leader go."""
        self._core.cancel_timer(CONNECT_TIMER)
        self._core.cancel_timer(LIVENESS_TIMER)
        if self._master is not None:
            self._master.stop(reason)
        if self._link is not None:
            self._core.close(self._link, reason)
            self._link = None

    def on_link_accepted(self, link: LinkId) -> None:
        """Somebody takes this peer for the leader, or for an observer's master."""
        if self._master is not None:
            self._master.on_link_accepted(link)
        else:
            self._core.close(link, "this peer does not lead")

    def on_link_up(self, link: LinkId, to: PeerId) -> None:
        """Connected: introduce yourself."""
        core = self._core
        if to != self.source_id or self._step is not LearnerStep.CONNECTING:
            core.close(link, "no longer wanted")
            return
        self._link = link
        self._heard_ms = core.now.mono_ms
        self._go(LearnerStep.INTRODUCED)
        core.send(
            link,
            FollowerInfo(
                core.accepted_epoch,
                core.my_id,
                config_version=core.reconfiguration.current.version,
                observer=self._observer,
                cumulative=core.cumulative,
                heeds_acks=core.cumulative,
            ),
        )

    def on_link_failed(self, to: PeerId) -> None:
        """The leader may not listen yet: try again soon, but not for ever."""
        core = self._core
        if to != self.source_id or self._step is not LearnerStep.CONNECTING:
            return
        budget_ms = min(CONNECT_BUDGET_MS, core.ticks_ms(core.config.init_limit))
        if core.now.mono_ms - self._started_ms >= budget_ms:
            core.leave(f"{self._source} cannot be reached")
            return
        core.set_timer(CONNECT_TIMER, self._retry_ms)
        self._retry_ms = min(self._retry_ms * 2, RETRY_MAX_MS)

    def on_link_down(self, link: LinkId) -> None:
        """The leader is gone, or does not want this peer."""
        if link == self._link:
            self._link = None
            if self._handed_over and self._step is LearnerStep.INTRODUCED:
                # A new membership made it leader, which it may not have heard yet.
                self._go(LearnerStep.CONNECTING)
                self.on_link_failed(self.source_id)
                return
            self._core.leave(f"lost the link to {self._source}")
        elif self._master is not None:
            self._master.on_link_down(link)

    def on_looking(self, src: PeerId, round: int) -> None:
        """The leader itself is looking for a leader."""
        if src in (self.leader_id, self.source_id) and round > self._core.round:
            self._core.leave(f"leader {src} has given up" if src == self.leader_id else f"{self._source} has given up")

    def on_timer(self, name: str) -> None:
        """Try to connect again, or see whether the leader is still there."""
        core = self._core
        if name == CONNECT_TIMER:
            if self._step is LearnerStep.CONNECTING:
                core.out.append(OpenLink(self.source_id))
        elif name == LIVENESS_TIMER:
            left_ms = self._heard_ms + self._limit_ms() - core.now.mono_ms
            if left_ms <= 0:
                core.leave(f"{self._source} was not heard from in time")
            else:
                core.set_timer(LIVENESS_TIMER, left_ms)
        elif name == MASTER_TIMER and self._master is not None:
            self._master.on_timer()

    def on_log_read(self, link: LinkId, after: Zxid, txns: Sequence[Txn] | None) -> None:
        """The disk has read the transactions behind `after` for an observer."""
        if self._master is not None:
            self._master.on_log_read(link, after, txns)

    @property
    def _source(self) -> str:
        kind = "leader" if self.source_id == self.leader_id else "follower"
        return f"{kind} {self.source_id}"

    def _limit_ms(self) -> int:
        config = self._core.config
        after_newleader = self._step >= LearnerStep.ADOPTING
        return self._core.ticks_ms(config.sync_limit if after_newleader else config.init_limit)

    def on_packets(self, link: LinkId, packets: Sequence[Packet]) -> None:
        """Packets of the leader; what follows one that ends this role is void."""
        core = self._core
        if link != self._link:
            if self._master is not None:
                self._master.on_packets(link, packets)
            return
        self._heard_ms = core.now.mono_ms
        for packet in packets:
            if self._step is _ACTIVE:
                self._on_broadcast(packet)
            elif self._step is _TRUNCATING:
                self._held_back.append(packet)
            else:
                self._on_recovery(packet)
            if core.leaving is not None:
                return

    def end_turn(self) -> None:
        """Nothing here is joined over a turn."""

    def _broken(self, reason: str) -> None:
        self._core.report_broken(self.source_id, reason)
        self._core.leave(reason)

    # -- discovery and synchronisation -----------------------------------------------------------------------------

    def _on_recovery(self, packet: Packet) -> None:
        step = self._step
        if isinstance(packet, Ping):
            return  # Not answered before UPTODATE: the leader expects other packets.
        if isinstance(packet, LeaderInfo) and step is LearnerStep.INTRODUCED:
            self._on_leader_info(packet)
        elif isinstance(packet, Diff | Trunc | Snap) and step is LearnerStep.PROMISED:
            self._begin_sync(packet)
        elif isinstance(packet, Proposal) and step >= LearnerStep.RECEIVING:
            self._queue(packet.txns)
        elif isinstance(packet, Commit) and step >= LearnerStep.RECEIVING:
            self._queue_commit(packet)
        elif isinstance(packet, Inform) and step >= LearnerStep.RECEIVING:
            self._queue((packet.txn,))
            self._committed += 1
        elif isinstance(packet, CommitAndActivate | InformAndActivate) and step >= LearnerStep.RECEIVING:
            self._queue_activation(packet)
        elif isinstance(packet, NewLeader) and step is LearnerStep.RECEIVING:
            self._on_newleader(packet)
        elif isinstance(packet, UpToDate) and step is LearnerStep.ADOPTED:
            self._on_up_to_date()
        else:
            self._broken(f"unexpected {type(packet).__name__} at {step.name}")

    def _on_leader_info(self, info: LeaderInfo) -> None:
        core = self._core
        self._cumulative = info.cumulative and core.cumulative
        if info.epoch < core.accepted_epoch:
            core.leave(f"leader {self.leader_id} offers epoch {info.epoch}, older than accepted")
            return
        if self._leads_until is not None and info.epoch > self._leads_until:
            core.leave(f"{self._source} is in epoch {info.epoch}, and so under another leader")
            return
        if info.epoch > core.accepted_epoch + EPOCH_LEAP_MAX:
            self._broken(f"leader {self.leader_id} offers epoch {info.epoch}, far beyond {core.accepted_epoch}")
            return
        self._epoch = info.epoch
        self._go(LearnerStep.PROMISING)
        if info.epoch > core.accepted_epoch:
            current_epoch = -1 if core.incomplete else core.current_epoch
            core.save_accepted_epoch(info.epoch, lambda: self._promise(core.last_logged, current_epoch))
        elif core.needs_snapshot:
            # The log cannot be cut back to where this leader's history parts from it.  This promise does not count,
            # so it may name a zxid that only a snapshot can help.
            self._forces_snapshot = True
            core.barrier(lambda: self._promise(FORCE_SNAP_ZXID, -1))
        else:
            # Accepted earlier, perhaps from another leader: not counted, but the barrier still makes it durable.
            core.barrier(lambda: self._promise(core.last_logged, -1))

    def _promise(self, last_zxid: Zxid, current_epoch: int) -> None:
        """The accepted epoch is durable, and everything logged before it (rule 1; ZOOKEEPER-2845)."""
        assert self._link is not None and self._core.accepted_epoch == self._epoch
        self._go(LearnerStep.PROMISED)
        self._core.send(self._link, AckEpoch(last_zxid, current_epoch))

    def _begin_sync(self, first: Diff | Trunc | Snap) -> None:
        core = self._core
        self._from_zxid = core.last_logged
        self._go(LearnerStep.RECEIVING)
        if isinstance(first, Snap):
            self._mode = SyncMode.SNAP
            self._snapshot = first.snapshot
            self._last_queued = first.snapshot.zxid
        elif self._forces_snapshot:
            # An empty leader: it found nothing committed in a quorum, so nothing here was.
            if first.zxid == 0:
                self._begin_truncation(first.zxid)
            else:
                self._broken(f"{type(first).__name__} where only a snapshot can help")
        elif isinstance(first, Diff):
            self._mode = SyncMode.DIFF
            self._last_queued = core.last_logged
        else:
            self._begin_truncation(first.zxid)

    def _begin_truncation(self, zxid: Zxid) -> None:
        core = self._core
        self._mode = SyncMode.TRUNC
        if zxid > core.last_logged:
            self._broken(f"TRUNC to 0x{zxid:x}, which this log does not reach")
        elif 0 < zxid < core.base:
            # The log begins behind that point, at a snapshot taken from a leader that was never established.
            core.needs_snapshot = True
            core.leave(f"the log cannot be cut back to 0x{zxid:x}: a snapshot is needed")
        else:
            self._go(LearnerStep.TRUNCATING)
            self._last_queued = zxid
            core.truncate(zxid)

    def on_recovered(self) -> None:
        """The log is cut back, the tree follows it: go on with what came meanwhile."""
        core = self._core
        assert self._step is LearnerStep.TRUNCATING
        if core.last_logged != self._last_queued:
            core.leave(f"the log ends at 0x{core.last_logged:x} after TRUNC to 0x{self._last_queued:x}")
            return
        self._go(LearnerStep.RECEIVING)
        held_back, self._held_back = self._held_back, []
        if self._link is not None:
            self.on_packets(self._link, held_back)

    def _queue(self, txns: Sequence[Txn]) -> None:
        for txn in txns:
            if not follows(self._last_queued, txn.zxid):
                self._broken(f"gap: transaction 0x{txn.zxid:x} follows 0x{self._last_queued:x}")
                return
            self._last_queued = txn.zxid
            self._queued.append(txn)

    def _queue_commit(self, commit: Commit) -> None:
        if commit.cumulative:
            while self._committed < len(self._queued) and self._queued[self._committed].zxid <= commit.zxid:
                self._committed += 1
        elif self._committed < len(self._queued) and self._queued[self._committed].zxid == commit.zxid:
            self._committed += 1
        else:
            self._broken(f"COMMIT of 0x{commit.zxid:x}, which is not the oldest one proposed")

    def _queue_activation(self, packet: CommitAndActivate | InformAndActivate) -> None:
        """A reconfiguration was committed meanwhile: it is in force, even if this peer cannot apply it yet."""
        if isinstance(packet, InformAndActivate):
            self._queue((packet.txn,))
            txn, self._committed = packet.txn, self._committed + 1
        else:
            self._queue_commit(Commit(packet.zxid))
            if self._core.leaving is not None:
                return
            txn = self._queued[self._committed - 1]
        self._activate(txn, packet.designated)

    def _activate(self, txn: Txn, designated: PeerId) -> None:
        """Put a committed reconfiguration into force, and begin anew where this peer's role or leader changes."""
        core = self._core
        membership = core.reconfiguration.read(txn)
        if membership is not None and core.reconfiguration.activate(membership, designated):
            core.leave("the new membership asks for it", successor=designated)

    def _on_newleader(self, packet: NewLeader) -> None:
        """Take the initial history over: log and tree first.  What is proposed but not committed waits for UPTODATE, so
        that no proposal's ack can precede NEWLEADER's (rule 3; ZOOKEEPER-4685)."""
        core = self._core
        assert self._epoch is not None
        if packet.zxid != make_zxid(self._epoch, 0):
            self._broken(f"NEWLEADER 0x{packet.zxid:x} in epoch {self._epoch}")
            return
        self._go(LearnerStep.ADOPTING)
        # On disk before the history that may hold it.
        core.reconfiguration.see_text(packet.config)
        self._announced = bool(packet.config)
        core.set_timer(LIVENESS_TIMER, self._limit_ms())
        if self._snapshot is not None:
            try:
                core.replace(self._snapshot)
            except ValueError as damaged:
                self._broken(f"the leader's snapshot is no tree: {damaged}")
                return
            self._snapshot = None
        core.append([self._queued.popleft() for _ in range(self._committed)])
        self._committed = 0
        # Not applied as committed: if this leader is not established yet, nobody knows.
        core.apply_pending()
        core.barrier(self._history_durable)

    def _history_durable(self) -> None:
        assert self._epoch is not None
        self._core.save_current_epoch(self._epoch, self._epoch_durable)

    def _epoch_durable(self) -> None:
        """History, then epoch are durable: acknowledge NEWLEADER (rule 2; ZOOKEEPER-3911, 4643, 4646)."""
        core = self._core
        assert self._link is not None and self._epoch is not None and self._step is LearnerStep.ADOPTING
        self._go(LearnerStep.ADOPTED)
        core.send(self._link, Ack(make_zxid(self._epoch, 0)))
        core.emit(
            LearnerSynced(
                peer_id=core.my_id,
                leader_id=self.leader_id,
                epoch=self._epoch,
                mode=self._mode.value,
                from_zxid=self._from_zxid,
                to_zxid=core.last_logged,
            )
        )

    def _on_up_to_date(self) -> None:
        """The leader is established: serve clients, and log what was proposed meanwhile."""
        core = self._core
        assert self._link is not None and self._epoch is not None
        core.send(self._link, Ack(make_zxid(self._epoch, 0)))
        if self._announced and core.reconfiguration.activate(core.reconfiguration.last_seen, None):
            core.leave("the leader's membership asks for it")
            return
        self._go(LearnerStep.ACTIVE)
        core.start_serving(leading=False)
        if core.config.serves_observers and not self._observer:
            self._master = ObserverMaster(core, self, self._epoch)
            self._master.start()
        queued, self._queued = self._queued, deque()
        if queued:
            self._log(tuple(queued))
        if self._committed:
            core.apply_up_to(queued[self._committed - 1].zxid)

    # -- broadcast -------------------------------------------------------------------------------------------------

    def _on_broadcast(self, packet: Packet) -> None:
        core = self._core
        if isinstance(packet, Proposal):
            self._on_proposal(packet.txns)
        elif isinstance(packet, Commit):
            self._on_commit(packet)
        elif isinstance(packet, Ack) and self._cumulative and not self._observer:
            self._on_leaders_ack(packet.zxid)
        elif isinstance(packet, Ping):
            assert self._link is not None
            touched = tuple(core.application.drain_touched())
            if self._master is not None:
                touched += self._master.drain_touched()
            core.send(self._link, Ping(packet.zxid, touched))
        elif isinstance(packet, Inform):
            if self._may_follow(core.last_logged, packet.txn.zxid):
                core.append((packet.txn,))
                core.apply_up_to(packet.txn.zxid)
        elif isinstance(packet, CommitAndActivate):
            self._on_activation(packet)
        elif isinstance(packet, InformAndActivate):
            if self._may_follow(core.last_logged, packet.txn.zxid):
                core.append((packet.txn,))
                self._activate(packet.txn, packet.designated)
                core.apply_up_to(packet.txn.zxid)
        elif isinstance(packet, Revalidate) and packet.valid is not None:
            self._on_revalidated(packet, packet.valid)
        elif isinstance(packet, SyncRequest) and self._syncs:
            # On the wire the answer says nothing but "the oldest one".
            request, origin = self._syncs.popleft()
            if origin is None:
                core.perform(core.application.sync_done(core.now, request))
            elif self._master is not None:
                self._master.answer(origin, request)
        else:
            self._broken(f"unexpected {type(packet).__name__} in broadcast")

    def _on_revalidated(self, answer: Revalidate, valid: bool) -> None:
        """It goes to who asked first for that session: answers come in the order of the questions."""
        asked = next((each for each in self._revalidations if each[0] == answer.session_id), None)
        if asked is not None:
            self._revalidations.remove(asked)
        if asked is not None and asked[1] is not None and self._master is not None:
            self._master.answer(asked[1], answer)
        else:
            self._core.perform(self._core.application.revalidated(self._core.now, answer.session_id, valid))

    def _on_proposal(self, txns: Sequence[Txn]) -> None:
        last, epoch = self._core.last_logged, self._epoch
        for txn in txns:
            zxid = txn.zxid
            if (zxid != last + 1 or zxid >> 32 != epoch) and not self._may_follow(last, zxid):
                return
            last = zxid
        self._log(txns)

    def _may_follow(self, last: Zxid, zxid: Zxid) -> bool:
        if follows(last, zxid) and epoch_of(zxid) == self._epoch:
            return True
        self._broken(f"gap: transaction 0x{zxid:x} follows 0x{last:x}")
        return False

    def _log(self, txns: Sequence[Txn]) -> None:
        assert self._step is _ACTIVE, "proposals are logged after NEWLEADER's acknowledgement"
        self._core.append(txns)
        if not self._observer:
            self._unacked.append(txns)

    def _on_commit(self, commit: Commit) -> None:
        pending = self._core.pending
        if commit.cumulative or (pending and pending[0].zxid == commit.zxid):
            self._commit(commit.zxid)
        else:
            self._broken(f"COMMIT of 0x{commit.zxid:x}, which is not the oldest one pending")

    def _on_leaders_ack(self, zxid: Zxid) -> None:
        if zxid > self._core.last_logged:
            self._broken(f"the leader acknowledged 0x{zxid:x}, which it has not proposed")
            return
        self._common.leaders = zxid
        self._commit_common()

    def _commit_common(self) -> None:
        """Commit what both logs hold, except while a change of membership may change what a quorum is."""
        pending, end = self._core.pending, self._common.end
        if pending and pending[0].zxid <= end and not self._core.reconfiguration.under_way:
            self._commit(end)

    def _commit(self, zxid: Zxid) -> None:
        """Everything up to `zxid` is chosen; part of it, or all, may have been committed before."""
        pending = self._core.pending
        if pending and pending[0].zxid <= zxid:
            if self._master is not None:
                self._master.inform(zxid)
            self._core.apply_up_to(zxid)

    def _on_activation(self, packet: CommitAndActivate) -> None:
        core, pending = self._core, self._core.pending
        if not pending or pending[0].zxid != packet.zxid or pending[0].type != OpCode.RECONFIG:
            self._broken(f"COMMITANDACTIVATE of 0x{packet.zxid:x}, which is no reconfiguration, or not the oldest one")
            return
        if self._master is not None:
            self._master.inform_of_membership(pending[0], packet.designated)
        self._activate(pending[0], packet.designated)
        core.apply_up_to(packet.zxid)

    def on_logged(self, zxid: Zxid) -> None:
        """The log is durable up to `zxid`: acknowledge this leader's proposals up to there (rule 3)."""
        last: Zxid | None = None
        while self._unacked and self._unacked[0][-1].zxid <= zxid:
            assert self._link is not None and self._step is _ACTIVE
            logged = self._unacked.popleft()
            last = logged[-1].zxid
            if not self._cumulative:
                for txn in logged:
                    self._core.send(self._link, Ack(txn.zxid))
        if last is not None and self._cumulative:
            assert self._link is not None
            self._core.send(self._link, Ack(last, cumulative=True))
        self._common.own = zxid
        self._commit_common()

    # -- the application's wishes ----------------------------------------------------------------------------------

    def submit(self, requests: Sequence[ForwardedRequest]) -> None:
        """Forward writes to the leader; links are FIFO, and so is each client's order."""
        if self._step is _ACTIVE and self._link is not None:
            self._core.send_all(self._link, requests)

    def submit_sync(self, request: SyncRequest, origin: LinkId | None = None) -> None:
        """Ask the leader; for an observer, where `origin` is one."""
        if self._forward(request):
            self._syncs.append((request, origin))

    def ask_revalidate(self, session_id: SessionId, timeout_ms: int, origin: LinkId | None = None) -> None:
        """As above."""
        if self._forward(Revalidate(session_id, timeout_ms)) and self._master is not None:
            self._revalidations.append((session_id, origin))

    def _forward(self, packet: Packet) -> bool:
        if self._step is not LearnerStep.ACTIVE or self._link is None:
            return False  # Its client is being disconnected.
        self._core.send(self._link, packet)
        return True

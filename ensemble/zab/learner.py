"""Learning: a follower or an observer joins one leader and follows it.

Theory of operation
===================

A `Learner` is one attempt to follow one leader over one link. `Peer._take_role` creates it when an election or a
reconfiguration has chosen another peer. It ends when it calls `Core.leave`; the peer is then LOOKING again, unless a
committed reconfiguration has named the next leader. An observer can use a follower in place of the leader
(`source_id`, `zabka.ensemble.zab.observer_master`).

States (`LearnerStep`; `_PHASES` maps them to ZooKeeper's ZabState) and the events that change them:

    phase            state       event                        what happens                            next state
    ---------------  ----------  ---------------------------  --------------------------------------  ----------
    discovery        CONNECTING  on_link_up                   send FOLLOWERINFO                       INTRODUCED
                                 on_link_failed               set CONNECT_TIMER to try again          CONNECTING
                     INTRODUCED  LEADERINFO                   save acceptedEpoch                      PROMISING
                     PROMISING   acceptedEpoch durable        send ACKEPOCH (_promise) PROMISED
                     PROMISED    DIFF or SNAP                 note the mode                           RECEIVING
                                 TRUNC                        truncate the log on disk                TRUNCATING
    synchronization  TRUNCATING  on_recovered                 process the packets held back           RECEIVING
                     RECEIVING   NEWLEADER                    take over the history (_on_newleader) ADOPTING
                     ADOPTING    history durable              save currentEpoch (_history_durable) ADOPTING
                     ADOPTING    currentEpoch durable         send ACK (_epoch_durable) ADOPTED
                     ADOPTED     UPTODATE                     send a second ACK, start `Following` ACTIVE
    broadcast        ACTIVE      any packet of the leader     Following.on_packet                     ACTIVE

- Retries at CONNECTING wait 10 to 50 ms (RETRY_MIN_MS, RETRY_MAX_MS) and end after CONNECT_BUDGET_MS, or after
  initLimit if that is shorter.
- An observer sends OBSERVERINFO in place of FOLLOWERINFO.
- PROPOSAL, COMMIT, INFORM and the two ACTIVATE packets can arrive in every state from RECEIVING to ADOPTED. They go to
  `_queued`; its first `_committed` transactions are committed.
- PING before UPTODATE only shows that the leader is alive. The learner does not reply to it.
- Any other packet breaks the protocol: `_broken` reports it and leaves.
- The learner also leaves when the link breaks, when the leader is LOOKING in a later round (`on_looking`), and
  when no packet came for initLimit ticks; from NEWLEADER on the limit is syncLimit (`_limit_ms`).
- `on_tree_differs` leaves when a transaction leads to another tree than the leader's, except after a SNAP. The next
  FOLLOWERINFO then asks for a snapshot, in a byte that ZooKeeper's leaders ignore.
- When a reconfiguration named this leader (`handed_over`), a link that closes at INTRODUCED is opened again.

Invariants
----------

1. ACKEPOCH is sent only when acceptedEpoch is durable, and with it everything logged before (`_acknowledge_epoch`;
   ZOOKEEPER-2845). An ACKEPOCH with currentEpoch -1 does not count for the leader's quorum. A peer sends -1 when it
   had accepted the epoch before, and when its disk has lost transactions (`Core.incomplete`).
2. The learner keeps the received history separate until NEWLEADER, and then takes it over in one turn
   (`_on_newleader`). A failure before that leaves memory and disk as they were (ZOOKEEPER-3642, 5094), with two
   exceptions: a TRUNC has truncated both at the same zxid, and a committed reconfiguration is already active
   (`_queue_activation`).
3. The ACK of NEWLEADER is sent only when first the history and then currentEpoch are durable (`_history_durable`,
   `_epoch_durable`; ZOOKEEPER-3911, 4643, 4646).
4. No ACK of a proposal is sent before the ACK of NEWLEADER. Proposals that are not committed at NEWLEADER are logged
   after UPTODATE (`Following.start_serving`; ZOOKEEPER-4685). Only a follower whose disk has lost transactions logs
   them with the history, because it may have acknowledged them before.
5. The history has no gaps: `_queue` accepts only the next zxid or the first of a higher epoch (`follows`).
6. Commits arrive in the order of the proposals: `_queue_commit` takes any but the oldest for a broken protocol. A
   cumulative COMMIT, which both sides agree on in FOLLOWERINFO and LEADERINFO, includes all proposals before it.

A follower rejoins
------------------

Peer 3 restarts with the log up to 0x500000007, and peer 1 leads epoch 6 at 0x600000002. Peer 3 connects and sends
FOLLOWERINFO(accepted 5). It receives LEADERINFO(6), saves acceptedEpoch 6, and sends ACKEPOCH(0x500000007, current 5)
after the fsync. The leader finds that zxid in its committed log and sends DIFF, then PROPOSAL and COMMIT for
0x600000001 and 0x600000002, then NEWLEADER(0x600000000). Peer 3 appends and applies both, waits for the fsync, saves
currentEpoch 6, waits again, and sends ACK(0x600000000). At UPTODATE it serves clients. A write of one of its clients
then goes `submit` -> REQUEST -> PROPOSAL -> `Core.append` -> `on_logged` -> ACK -> COMMIT (or the leader's own ACK,
`zabka.ensemble.zab.leader_acks`) -> `Core.apply_up_to`.

The leader sends SNAP if it has the transactions after 0x500000007 neither in memory nor in a usable log, and also if
peer 3 had logged 0x500000008, which the leader lacks: the histories diverge at the end of an epoch. A leader whose
own history ends at 0x500000007, before the first transaction of epoch 6, sends TRUNC(0x500000007) in that case. If
the log of a learner begins after the point of a TRUNC, the learner leaves. When the leader offers the same epoch
again, the learner reports zxid 0 (FORCE_SNAP_ZXID) and receives a SNAP.

Sources
-------

Zab (DSN 2011), section IV, phases 1 to 3 of the follower. ZooKeeper's package server.quorum: Learner (connectToLeader,
registerWithLeader, syncWithLeader), Follower.followLeader, Observer.observeLeader; the leader's side is
LearnerHandler.syncFollower (`zabka.ensemble.zab.sync`). Unlike ZooKeeper, which applies the transactions after a SNAP
or TRUNC to its tree as they arrive, the learner waits for NEWLEADER in all three modes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import IntEnum

from zabka.ensemble.ids import EPOCH_LEAP_MAX, Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab import messages
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import OpenLink, SaveDoubt
from zabka.ensemble.zab.following import Following, activate
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.observer_master import MASTER_TIMER, ObserverMaster
from zabka.ensemble.zab.role import Phase
from zabka.ensemble.zab.sync import SyncMode, follows, what_both_may_commit
from zabka.journal.cause import link_cause, looking_cause, request_cause, silence_cause
from zabka.journal.events import LearnerSynced

CONNECT_TIMER = "learner.connect"
LIVENESS_TIMER = "learner.liveness"
RETRY_MIN_MS = 10
RETRY_MAX_MS = 50
CONNECT_BUDGET_MS = 1500
"""Time during which a learner tries to connect to a newly elected leader.

The leader may end its election later than this peer.
"""
FORCE_SNAP_ZXID = Zxid(0)


class LearnerStep(IntEnum):
    """Steps of a learner's connection to the leader, in order."""

    CONNECTING = 0
    INTRODUCED = 1
    PROMISING = 2
    PROMISED = 3
    TRUNCATING = 4
    RECEIVING = 5
    ADOPTING = 6
    ADOPTED = 7
    ACTIVE = 8


_TRUNCATING = LearnerStep.TRUNCATING
"""A module constant, because looking up an enumeration member takes as long as a call."""
_PHASES = {
    LearnerStep.CONNECTING: Phase.DISCOVERY,
    LearnerStep.INTRODUCED: Phase.DISCOVERY,
    LearnerStep.PROMISING: Phase.DISCOVERY,
    LearnerStep.PROMISED: Phase.DISCOVERY,
    LearnerStep.ACTIVE: Phase.BROADCAST,
}


class Learner:
    """The role of a follower or an observer: one connection to one leader."""

    def __init__(
        self,
        core: Core,
        leader_id: PeerId,
        source_id: PeerId,
        *,
        handed_over: bool = False,
        leads_until: Epoch | None = None,
    ) -> None:
        """Create a learner; `start` connects.

        `source_id`: the peer to learn from, which is the leader or, for an observer, one of its followers. If the
        source has an epoch after `leads_until`, it follows another leader, and is rejected.
        """
        self._core = core
        self.source_id = source_id
        self._leads_until = leads_until
        self._handed_over = handed_over
        self.leader_id = leader_id
        self._observer = core.reconfiguration.observes
        self.state = messages.PeerState.OBSERVING if self._observer else messages.PeerState.FOLLOWING
        self._step = LearnerStep.CONNECTING
        self.phase = _PHASES[self._step]
        """Discovery, synchronisation or broadcast, derived from `_step`; read in every turn."""
        self._link: LinkId | None = None
        self._started_ms = self._heard_ms = core.now.mono_ms
        self._retry_ms = RETRY_MIN_MS
        self._cumulative = False
        self._epoch: Epoch | None = None
        self._forces_snapshot = False
        # State of the current synchronisation.
        self._mode = SyncMode.DIFF
        self._from_zxid = core.last_logged
        self._snapshot: TreeSnapshot | None = None
        self._held_back: list[messages.Packet] = []
        self._last_queued = Zxid(0)
        self._queued: deque[Txn] = deque()
        self._committed = self._logged = 0
        """Number of queued transactions that are committed, and number of queued transactions that are already in the
        log.
        """
        self._announced = False
        self._following: Following | None = None
        """Handler of packets and requests after UPTODATE; None before."""

    @property
    def observers(self) -> list[LearnerLink]:
        """Observers that learn from this follower."""
        return [] if self._master is None else self._master.known_learners()

    @property
    def _master(self) -> ObserverMaster | None:
        return self._following.master if self._following is not None else None

    def _go(self, step: LearnerStep) -> None:
        self._step, self.phase = step, _PHASES.get(step, Phase.SYNCHRONIZATION)

    # -- start, end and events -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect to the leader."""
        core = self._core
        core.out.append(OpenLink(self.source_id))
        core.set_timer(LIVENESS_TIMER, self._limit_ms())

    def stop(self, reason: str) -> None:
        """Close the link to the leader."""
        self._core.cancel_timer(CONNECT_TIMER)
        self._core.cancel_timer(LIVENESS_TIMER)
        if self._master is not None:
            self._master.stop(reason)
        if self._link is not None:
            self._core.close(self._link, reason)
            self._link = None

    def on_link_accepted(self, link: LinkId) -> None:
        """Handle a connection from a peer that treats this one as the leader or as an observer master."""
        if self._master is not None:
            self._master.on_link_accepted(link)
        else:
            self._core.close(link, "this peer does not lead")

    def on_link_up(self, link: LinkId, to: PeerId) -> None:
        """Send FOLLOWERINFO or OBSERVERINFO, because the link is up."""
        core = self._core
        if to != self.source_id or self._step is not LearnerStep.CONNECTING:
            core.close(link, "no longer wanted")
            return
        self._link = link
        self._heard_ms = core.now.mono_ms
        self._go(LearnerStep.INTRODUCED)
        core.send(
            link,
            messages.FollowerInfo(
                core.accepted_epoch,
                core.my_id,
                config_version=core.reconfiguration.current.version,
                observer=self._observer,
                cumulative=core.cumulative,
                heeds_acks=core.cumulative,
                wants_snapshot=core.cumulative and core.in_doubt,
            ),
        )

    def on_link_failed(self, to: PeerId) -> None:
        """Connect again soon, within a time limit, because the leader may not be listening yet."""
        core = self._core
        if to != self.source_id or self._step is not LearnerStep.CONNECTING:
            return
        budget_ms = min(CONNECT_BUDGET_MS, core.ticks_ms(core.config.init_limit))
        if core.now.mono_ms - self._started_ms >= budget_ms:
            core.leave(f"{self._source} cannot be reached", link_cause(self.source_id))
            return
        core.set_timer(CONNECT_TIMER, self._retry_ms)
        self._retry_ms = min(self._retry_ms * 2, RETRY_MAX_MS)

    def on_link_down(self, link: LinkId) -> None:
        """Handle the broken link: the leader disconnected or rejects this peer."""
        if link == self._link:
            self._link = None
            if self._handed_over and self._step is LearnerStep.INTRODUCED:
                # A new membership designated that peer as leader, and the peer may not have been notified yet.
                self._go(LearnerStep.CONNECTING)
                self.on_link_failed(self.source_id)
                return
            self._core.leave(f"lost the link to {self._source}", link_cause(self.source_id))
        elif self._master is not None:
            self._master.on_link_down(link)

    def on_looking(self, src: PeerId, round: int, outvoted: bool) -> None:
        """Leave the leader if the vote shows that the leader itself is LOOKING again."""
        if src in (self.leader_id, self.source_id) and round > self._core.round:
            leader = f"leader {src}" if src == self.leader_id else self._source
            self._core.leave(f"{leader} has given up", looking_cause(src))

    def on_timer(self, name: str) -> None:
        """Handle an expired timer: try to connect again, or check whether the leader is still alive."""
        core = self._core
        if name == CONNECT_TIMER:
            if self._step is LearnerStep.CONNECTING:
                core.out.append(OpenLink(self.source_id))
        elif name == LIVENESS_TIMER:
            left_ms = self._heard_ms + self._limit_ms() - core.now.mono_ms
            if left_ms <= 0:
                core.leave(f"{self._source} was not heard from in time", silence_cause(self.source_id))
            else:
                core.set_timer(LIVENESS_TIMER, left_ms)
        elif name == MASTER_TIMER and self._master is not None:
            self._master.on_timer()

    def on_log_read(self, link: LinkId, after: Zxid, txns: Sequence[Txn] | None) -> None:
        """Handle transactions after `after` that were read from the log for an observer."""
        if self._master is not None:
            self._master.on_log_read(link, after, txns)

    @property
    def _source(self) -> str:
        kind = "leader" if self.source_id == self.leader_id else "follower"
        return f"{kind} {self.source_id}"

    def _limit_ms(self) -> int:
        core, config = self._core, self._core.config
        return core.ticks_ms(config.sync_limit if self._step >= LearnerStep.ADOPTING else config.init_limit)

    def on_packets(self, link: LinkId, packets: Sequence[messages.Packet]) -> None:
        """Process packets from the leader; ignore those after a packet that ends this role."""
        core = self._core
        if link != self._link:
            if self._master is not None:
                self._master.on_packets(link, packets)
            return
        self._heard_ms = core.now.mono_ms
        for packet in packets:
            if self._following is not None:
                self._following.on_packet(packet)
            elif self._step is _TRUNCATING:
                self._held_back.append(packet)
            else:
                self._on_recovery(packet)
            if core.leaving is not None:
                return

    def end_turn(self) -> None:
        """Do nothing: a learner does not combine packets in a turn."""

    def _broken(self, reason: str) -> None:
        self._core.report_broken(self.source_id, reason)
        self._core.leave(reason, request_cause("of a broken protocol"))

    # -- discovery and synchronisation -----------------------------------------------------------------------------

    def _on_recovery(self, packet: messages.Packet) -> None:
        step = self._step
        if isinstance(packet, messages.Ping):
            return  # do not reply before UPTODATE: the leader expects other packets
        if isinstance(packet, messages.LeaderInfo) and step is LearnerStep.INTRODUCED:
            self._on_leader_info(packet)
        elif isinstance(packet, messages.Diff | messages.Trunc | messages.Snap) and step is LearnerStep.PROMISED:
            self._begin_sync(packet)
        elif isinstance(packet, messages.Proposal) and step >= LearnerStep.RECEIVING:
            self._queue(packet.txns)
        elif isinstance(packet, messages.Commit) and step >= LearnerStep.RECEIVING:
            self._queue_commit(packet)
        elif isinstance(packet, messages.Inform) and step >= LearnerStep.RECEIVING:
            self._queue((packet.txn,))
            self._committed += 1
        elif (
            isinstance(packet, messages.CommitAndActivate | messages.InformAndActivate)
            and step >= LearnerStep.RECEIVING
        ):
            self._queue_activation(packet)
        elif isinstance(packet, messages.NewLeader) and step is LearnerStep.RECEIVING:
            self._on_newleader(packet)
        elif isinstance(packet, messages.UpToDate) and step is LearnerStep.ADOPTED:
            self._on_up_to_date()
        else:
            self._broken(f"unexpected {type(packet).__name__} at {step.name}")

    def _on_leader_info(self, info: messages.LeaderInfo) -> None:
        core = self._core
        self._cumulative = info.cumulative and core.cumulative
        if info.epoch < core.accepted_epoch:
            core.leave(f"{self._source} offers epoch {info.epoch}, older than accepted", request_cause("LEADERINFO"))
            return
        if self._leads_until is not None and info.epoch > self._leads_until:
            other = f"{self._source} is in epoch {info.epoch}, and so under another leader"
            core.leave(other, request_cause("LEADERINFO"))
            return
        if info.epoch > core.accepted_epoch + EPOCH_LEAP_MAX:
            self._broken(f"leader {self.leader_id} offers epoch {info.epoch}, far beyond {core.accepted_epoch}")
            return
        self._epoch = info.epoch
        self._go(LearnerStep.PROMISING)
        if info.epoch > core.accepted_epoch:
            current_epoch = -1 if core.incomplete else core.current_epoch
            core.save_accepted_epoch(info.epoch, lambda: self._acknowledge_epoch(core.last_logged, current_epoch))
        elif core.needs_snapshot:
            # The log cannot be truncated to the point at which the histories diverge, so request a snapshot with a
            # special zxid. The epoch -1 means that this ACKEPOCH does not count.
            self._forces_snapshot = True
            core.barrier(lambda: self._acknowledge_epoch(FORCE_SNAP_ZXID, -1))
        else:
            # The epoch was accepted earlier, perhaps from another leader, so this ACKEPOCH must not count (epoch -1).
            # The barrier makes the accepted epoch durable first.
            core.barrier(lambda: self._acknowledge_epoch(core.last_logged, -1))

    def _acknowledge_epoch(self, last_zxid: Zxid, current_epoch: int) -> None:
        """Send ACKEPOCH, after the accepted epoch and everything logged before are durable (ZOOKEEPER-2845)."""
        assert self._link is not None and self._core.accepted_epoch == self._epoch
        self._go(LearnerStep.PROMISED)
        self._core.send(self._link, messages.AckEpoch(last_zxid, current_epoch))

    def _begin_sync(self, first: messages.Diff | messages.Trunc | messages.Snap) -> None:
        core = self._core
        self._from_zxid = core.last_logged
        self._go(LearnerStep.RECEIVING)
        if isinstance(first, messages.Snap):
            self._mode = SyncMode.SNAP
            self._snapshot = first.snapshot
            self._last_queued = first.snapshot.zxid
        elif self._forces_snapshot:
            # The leader's history is empty, so a quorum has no committed transaction, and no transaction on this server
            # was committed.
            if first.zxid == 0:
                self._begin_truncation(first.zxid)
            else:
                self._broken(f"{type(first).__name__} where only a snapshot can help")
        elif isinstance(first, messages.Diff):
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
            # This log cannot be truncated to that zxid: it begins later, at a snapshot from a leader that was never
            # established.
            core.needs_snapshot = True
            core.leave(f"the log cannot be cut back to 0x{zxid:x}: a snapshot is needed", request_cause("TRUNC"))
        else:
            self._go(LearnerStep.TRUNCATING)
            self._last_queued = zxid
            core.truncate(zxid)

    def on_recovered(self) -> None:
        """Process the packets that arrived during the truncation, because the log and the tree are truncated now."""
        core = self._core
        assert self._step is LearnerStep.TRUNCATING
        if core.last_logged != self._last_queued:
            ends = f"the log ends at 0x{core.last_logged:x} after TRUNC to 0x{self._last_queued:x}"
            core.leave(ends, request_cause("TRUNC"))
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

    def _queue_commit(self, commit: messages.Commit) -> None:
        if commit.cumulative:
            while self._committed < len(self._queued) and self._queued[self._committed].zxid <= commit.zxid:
                self._committed += 1
        elif self._committed < len(self._queued) and self._queued[self._committed].zxid == commit.zxid:
            self._committed += 1
        else:
            self._broken(f"COMMIT of 0x{commit.zxid:x}, which is not the oldest one proposed")

    def _queue_activation(self, packet: messages.CommitAndActivate | messages.InformAndActivate) -> None:
        """Activate a reconfiguration that was committed during the synchronisation, even if it is not applied yet."""
        if isinstance(packet, messages.InformAndActivate):
            self._queue((packet.txn,))
            txn, self._committed = packet.txn, self._committed + 1
        else:
            self._queue_commit(messages.Commit(packet.zxid))
            if self._core.leaving is not None:
                return
            txn = self._queued[self._committed - 1]
        activate(self._core, txn, packet.designated)

    def _on_newleader(self, packet: messages.NewLeader) -> None:
        """Adopt the leader's initial history: log and apply the transactions that were queued as committed.

        Proposals that are not committed wait until UPTODATE, so that the ack of NEWLEADER precedes the ack of any
        proposal (ZOOKEEPER-4685). Exception: a peer that has lost transactions may have acknowledged these proposals
        before the loss, so it logs them now, before it counts as complete again.
        """
        core = self._core
        assert self._epoch is not None
        if packet.zxid != make_zxid(self._epoch, 0):
            self._broken(f"NEWLEADER 0x{packet.zxid:x} in epoch {self._epoch}")
            return
        self._go(LearnerStep.ADOPTING)
        # The membership must be on disk before the history that may contain the reconfiguration.
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
        # Use `apply_pending`, because this leader may not be established yet: it is then unknown whether these
        # transactions are committed.
        core.apply_pending()
        if core.incomplete and not self._observer:
            proposed = what_both_may_commit(self._queued)
            core.append(proposed)
            self._logged = len(proposed)
        core.barrier(self._history_durable)

    def _history_durable(self) -> None:
        assert self._epoch is not None
        self._core.save_current_epoch(self._epoch, self._epoch_durable)

    def _epoch_durable(self) -> None:
        """Acknowledge NEWLEADER: the history and then the epoch are durable (ZOOKEEPER-3911, 4643, 4646)."""
        core = self._core
        assert self._link is not None and self._epoch is not None and self._step is LearnerStep.ADOPTING
        self._go(LearnerStep.ADOPTED)
        core.send(self._link, messages.Ack(make_zxid(self._epoch, 0)))
        core.emit(
            LearnerSynced(
                peer_id=core.my_id,
                leader_id=self.leader_id,
                epoch=self._epoch,
                mode=self._mode.value,
                from_zxid=self._from_zxid,
                to_zxid=core.application.last_applied,
            )
        )

    def _on_up_to_date(self) -> None:
        """Accept clients, because the leader is established.

        Log the transactions proposed during the synchronisation.
        """
        core = self._core
        assert self._link is not None and self._epoch is not None
        core.send(self._link, messages.Ack(make_zxid(self._epoch, 0)))
        if self._announced and core.reconfiguration.take_up(list(self._queued)[self._committed :]):
            core.leave("the leader's membership asks for it", request_cause("reconfig"))
            return
        self._go(LearnerStep.ACTIVE)
        self._following = following = Following(
            core, self._link, self._epoch, observes=self._observer, cumulative=self._cumulative, broken=self._broken
        )
        following.start_serving(tuple(self._queued), logged=self._logged, committed=self._committed)
        self._queued.clear()

    # -- after the synchronisation ----------------------------------------------------------------------------------

    def on_logged(self, zxid: Zxid) -> None:
        """Acknowledge the leader's proposals up to `zxid`, because this peer's log is durable up to there."""
        if self._following is not None:
            self._following.on_logged(zxid)

    def on_tree_differs(self) -> None:
        """Leave the leader, because this peer's history differs from the leader's; then reconnect and request a
        snapshot.

        If this tree has just come from the leader in a SNAP, the history is not the reason: continue, as ZooKeeper
        does.
        """
        core = self._core
        if self._mode is not SyncMode.SNAP and not core.in_doubt:
            core.in_doubt = True
            core.to_disk(SaveDoubt())
            core.leave(f"the tree here is not that of {self._source}", request_cause("PROPOSAL"))

    def submit(self, requests: Sequence[messages.ForwardedRequest]) -> None:
        """Forward writes to the leader.

        Before UPTODATE, or without a link, drop them, because their clients are being disconnected.
        """
        if self._following is not None and self._link is not None:
            self._following.submit(requests)

    def submit_sync(self, request: messages.SyncRequest) -> None:
        """Forward a sync to the leader."""
        if self._following is not None and self._link is not None:
            self._following.submit_sync(request)

    def ask_revalidate(self, session_id: SessionId, timeout_ms: int) -> None:
        """Ask the leader whether a local client's session can continue here."""
        if self._following is not None and self._link is not None:
            self._following.ask_revalidate(session_id, timeout_ms)

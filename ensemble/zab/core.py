"""State that all roles of a peer share: the history, the disk barriers, and the effects of the current turn.

Theory of operation
===================

A `Core` belongs to one `Peer` for the life of the process.  It does no I/O.  The driver calls one handler of the peer
at a time, which is one turn; the handler sets `now` and calls the role, and the role calls the methods below.  They
change memory at once and add effects to `out`.  `Peer._finish` changes the role if that was decided (`leave`,
`Election.decided`), and `end_turn` returns the effects, which the driver carries out in order.  In a long turn
`hand_over` passes the effects so far to the driver early, through `outlet`.

The history is the log on disk, the tree made from it (`application`), and the two epochs.  A transaction is appended
first and applied when it is committed; `pending` holds the transactions in between.

    state                       condition                  tree and log
    --------------------------  -------------------------  -----------------------------------------------------------
    looking for a leader        role is None               the tree equals the log, committed or not; pending is empty
    discovery, synchronization  a role, but not serving    the same, with one exception for `incomplete`, see 8
    serving                     serving                    the tree is the committed part of the log; pending the rest
    truncating                  awaiting_recovery          append is forbidden until `load`

    call                 effects                           memory changes at once         when durable
    -------------------  --------------------------------  -----------------------------  ----------------------------
    append               Append; Barrier at turn's end     last_logged, pending           role.on_logged(zxid)
    barrier              Barrier                           nothing                        `then`
    save_accepted_epoch  SaveAcceptedEpoch, Barrier        accepted_epoch                 `then`
    save_current_epoch   SaveCurrentEpoch, Barrier         current_epoch                  `then`; incomplete ends
    truncate             TruncateLog                       awaiting_recovery              Peer.on_recovered, `load`
    replace              SaveSnapshot                      tree, base, last_logged        the caller's next barrier
    apply_up_to          those of the application          tree, pending, committed_log   no wait
    apply_pending        TreeDiffers alone; Emit is held   tree, pending, committed_log   no wait
    send, send_all       one SendPackets a link and turn   nothing                        no wait
    leave                none                              leaving, cause, successor      no wait

`apply_up_to` applies committed transactions.  `apply_pending`, at the end of a role and when a learner takes over a
history, and `load`, at the start and after a truncation, apply transactions whose commit is unknown.

Invariants
----------

1. Memory equals the disk's state once its queue is empty.  The queue is strictly in order, so a barrier shows that
   everything queued before it is durable (`on_durable`).  No message effect waits for the disk: a role that must not
   send before something is durable sends from a barrier's callback or from `on_logged`.
2. A callback of an ended role does not run.  `barrier` notes the role, and `on_durable` compares it with the present
   one.  The one exception, `_be_whole`, concerns the disk and not a role.
3. The history has no gaps.  `append` and `load` assert `follows`; `borders` keeps each step to a higher epoch.
4. current_epoch <= accepted_epoch, and neither falls (`save_accepted_epoch`, `save_current_epoch`).  The caller of
   `save_current_epoch` has queued the epoch's initial history before.
5. `pending` is empty when a truncation or a snapshot changes the history (`truncate`, `replace`), and when a leader's
   term begins (`Leader._establish_with_quorum`).
6. A snapshot that this peer takes has only committed transactions: `_take_snapshot` does nothing unless the peer is
   serving (ZOOKEEPER-1549).
7. The journal does not report a commit that is not known.  `_apply_uncommitted` holds the events of such transactions
   in `_held` until a leader is established (`report_history`).  A truncation drops the events above it (`load`), a
   snapshot drops all (`replace`).
8. A peer with `incomplete` set has lost transactions that it may have acknowledged.  It has no vote and its ACKEPOCH
   does not count until `save_current_epoch` is durable: by then a leader has given it everything again.  At NEWLEADER
   it also logs proposals that are not committed, and they stay in `pending`.  A peer with `in_doubt` set does not lead
   until a snapshot replaces its history.

A proposal at a follower
------------------------

Two PROPOSAL packets arrive together: `Peer.on_packets` -> `Learner.on_packets` -> `Following.log` -> `append`, twice.
The second call extends the same Append. `end_turn` adds Barrier(n) and returns both effects. The driver writes,
fsyncs, and calls `Peer.on_durable`; `on_durable` -> `_note_logged` -> `Learner.on_logged` sends the ACK. The COMMIT
arrives in a later turn: `apply_up_to` moves both transactions from `pending` to the tree, at most STRETCH_TXNS at
once, and `perform` passes the application's replies on. While a disk stalls, turns continue and barriers wait in
`_barriers`.

Sources
-------

Zab (DSN 2011), section IV: the history, acceptedEpoch and currentEpoch of a process are the paper's h, f.p and f.a.
ZooKeeper: QuorumPeer (loadDataBase, setAcceptedEpoch, setCurrentEpoch), ZKDatabase (loadDataBase, truncateLog,
addCommittedProposal), SyncRequestProcessor (append, group fsync and snapshots on one queue), and
FollowerZooKeeperServer (logRequest, commit).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from zabka.ensemble.ids import Epoch, LinkId, PeerId, Zxid
from zabka.ensemble.ports import Instant, Random
from zabka.ensemble.records import OpCode
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import Application, AskRevalidate, EnsembleConfig, Submit, SubmitSync, TreeDiffers
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    CancelTimer,
    CloseLink,
    Effect,
    Emit,
    Recovered,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    SendPackets,
    SetTimer,
    TruncateLog,
)
from zabka.ensemble.zab.messages import ForwardedRequest, Packet, PeerState
from zabka.ensemble.zab.quorum import QuorumSystem
from zabka.ensemble.zab.reconfiguration import Reconfiguration
from zabka.ensemble.zab.role import Phase, Role
from zabka.ensemble.zab.snapshot_pace import SnapshotPace
from zabka.ensemble.zab.sync import SyncMode, follows
from zabka.journal.cause import START, Cause, looking_cause
from zabka.journal.events import (
    EpochAccepted,
    EpochAdopted,
    Event,
    HistoryReplaced,
    PeerProtocolBroken,
    PeerStateChanged,
    TxnLogged,
    TxnLogTruncated,
)

CHECKPOINT_INTERVAL_TXNS = 1000
STRETCH_TXNS = 128
"""Number of transactions that are prepared or applied before their effects are passed to the driver."""
_RECONFIG = int(OpCode.RECONFIG)
_ASKING = (SubmitSync, AskRevalidate, TreeDiffers)
"""Effects of the application that ZAB processes itself, in addition to `Submit`.

They are in a module constant, because a union in the function would be created again at each check.
"""
_LOOKING = (PeerState.LOOKING, Phase.ELECTION, PeerId(-1))
"""State of a peer without a role."""


class Core:
    """The peer's durable state, as held in memory, and the effects of the current turn."""

    def __init__(
        self, config: EnsembleConfig, application: Application, recovered: Recovered, random: Random, cumulative: bool
    ) -> None:
        self.config = config
        self.application = application
        self.random = random
        self.cumulative = cumulative
        self.my_id = PeerId(config.my_id)
        self.now = Instant(0, 0)
        self.out: list[Effect] = []
        self.outlet: Callable[[list[Effect]], None] | None = None
        self.role: Role | None = None
        self.leaving: str | None = None
        self.cause = START
        """Cause to record for this peer's next role change.

        For the change to LOOKING it is the reason for the election. For the change after that it is the election
        itself.
        """
        self.successor: PeerId | None = None
        """The next leader, if this peer ends its role without an election."""
        self.round = 0
        self.serving = False

        self.accepted_epoch, self.current_epoch = recovered.accepted_epoch, recovered.current_epoch
        self.incomplete = not recovered.complete
        """Whether the disk has lost transactions that this peer may have acknowledged.

        Until a leader has sent this peer the whole history again, its votes and its ACKEPOCH do not count: a quorum
        that includes it could lack committed transactions.
        """
        self.in_doubt = recovered.in_doubt
        """Whether this history led to a tree that differs from a leader's tree.

        If so, this peer does not become leader until a snapshot replaces the history.
        """
        self.epoch_floor = Epoch(0)
        """The highest epoch that any learner is known to have accepted."""
        self.last_logged = self.base = Zxid(0)
        self.borders: dict[Zxid, Zxid] = {}
        """Last zxid of each epoch in the history after `base`, mapped to the next zxid in the history."""
        self.unreadable_after = Zxid(-1)
        """Zxid after which the log could not be read for a learner.

        Learners whose history ends at or before it are not sent transactions from the log.
        """
        self.pending: deque[Txn] = deque()
        self.committed_log: deque[Txn] = deque(maxlen=config.committed_log_length)
        self.snaps_sent = self.diffs_sent = self.log_diffs_sent = self.syncs_put_off = 0
        """Numbers of learner synchronisations: with a snapshot, from memory, from the log on disk, and postponed."""
        self.quits_over_voters = 0
        """Number of times that this peer did not begin to lead, because a voter of its quorum was LOOKING."""
        self.awaiting_recovery = False
        self.needs_snapshot = False
        """Whether this peer can be synchronised only by a SNAP.

        True after a leader sent a TRUNC to a zxid before the beginning of this peer's log.
        """

        self.reconfiguration = Reconfiguration(self, config)

        self._token = 0
        self._barriers: deque[tuple[int, Zxid, Callable[[], None] | None, Role | None]] = deque()
        self._barrier_due = False
        self._unlogged: deque[list[Txn]] = deque()
        # Effects of this turn to which more packets or transactions can be added.
        self._appending: list[Txn] | None = None
        self._sending: dict[LinkId, list[Packet]] = {}
        self._held: list[tuple[Zxid, Emit]] = []
        self._reported: tuple[object, ...] = ()
        self._applied = 0
        self._snapshots = SnapshotPace(config, random)

    # -- effects ---------------------------------------------------------------------------------------------------

    def send(self, link: LinkId, packet: Packet) -> None:
        """Send a packet on a link, after the packets already sent on this link in this turn."""
        packets = self._sending.get(link)
        if packets is None:
            self._sending[link] = packets = []
            self.out.append(SendPackets(link, packets))
        packets.append(packet)

    def send_all(self, link: LinkId, packets: Iterable[Packet]) -> None:
        """Send packets on a link, as `send` does."""
        sending = self._sending.get(link)
        if sending is None:
            self._sending[link] = sending = []
            self.out.append(SendPackets(link, sending))
        sending.extend(packets)

    def close(self, link: LinkId, reason: str) -> None:
        """Close a link."""
        self._sending.pop(link, None)
        self.out.append(CloseLink(link, reason))

    def emit(self, event: Event) -> None:
        """Write an event to the journal."""
        self.out.append(Emit(event))

    def set_timer(self, name: str, delay_ms: int) -> None:
        """Start the timer with this name, or restart it."""
        self.out.append(SetTimer(name, max(1, delay_ms)))

    def cancel_timer(self, name: str) -> None:
        """Cancel a timer."""
        self.out.append(CancelTimer(name))

    def ticks_ms(self, ticks: int) -> int:
        """Return a number of ticks in milliseconds."""
        return ticks * self.config.tick_time_ms

    @property
    def quorum(self) -> QuorumSystem:
        """The current quorum system; it consists of two memberships while a reconfiguration is in progress."""
        return self.reconfiguration.quorum

    def quit_over(self, voter: PeerId) -> None:
        """Give up a term that has not begun, because this voter is LOOKING (Leader.quitWaitForEpoch)."""
        self.quits_over_voters += 1
        self.leave(f"voter {voter} is looking again and no quorum has come", looking_cause(voter))

    def leave(self, reason: str, cause: Cause, successor: PeerId | None = None) -> None:
        """End the current role.

        At the end of this turn the peer is LOOKING again or, if `successor` is given, follows that peer.
        """
        if self.leaving is None:
            self.leaving = reason
            self.cause = cause
            self.successor = successor

    def report_broken(self, peer_id: int, reason: str) -> None:
        """Report that a peer violated the protocol; the caller closes the connection."""
        self.emit(PeerProtocolBroken(f"peer-{peer_id}", reason))

    def _report_state(self) -> None:
        """Emit peer_state_changed if role, phase, leader or epochs differ from the last report."""
        role = self.role
        state, phase, leader_id = _LOOKING if role is None else (role.state, role.phase, role.leader_id)
        report = (state, phase, leader_id, self.round, self.accepted_epoch, self.current_epoch)
        if report != self._reported:
            self._reported = report
            self.emit(
                PeerStateChanged(
                    state.name, phase.value, leader_id, self.round, self.accepted_epoch, self.current_epoch,
                    last_zxid=self.last_logged, caused_by=self.cause,
                )
            )  # fmt: skip
            if role is None:
                self.cause = looking_cause(self.my_id)

    def perform(self, effects: Iterable[Effect]) -> None:
        """Process the application's effects: `Submit` and the types in `_ASKING` here, all others through the
        driver.
        """
        requests: list[ForwardedRequest] = []
        for effect in effects:
            if isinstance(effect, Submit):
                requests.append(effect.request)
            elif isinstance(effect, _ASKING):
                self._submit(requests)
                requests = []
                self._ask(effect)
            else:
                self.out.append(effect)
        if requests:
            self._submit(requests)

    def _submit(self, requests: list[ForwardedRequest]) -> None:
        # A peer without a role need not handle them, because its clients are being disconnected.
        if requests and self.role is not None and self.leaving is None:
            self.role.submit(requests)

    def _ask(self, wish: SubmitSync | AskRevalidate | TreeDiffers) -> None:
        if self.role is None or self.leaving is not None:
            return
        if isinstance(wish, SubmitSync):
            self.role.submit_sync(wish.request)
        elif isinstance(wish, TreeDiffers):
            self.role.on_tree_differs()
        else:
            self.role.ask_revalidate(wish.session_id, wish.timeout_ms)

    # -- disk ------------------------------------------------------------------------------------------------------

    def to_disk(self, effect: Effect) -> None:
        """Queue a disk effect after every transaction appended so far."""
        self._appending = None
        self.out.append(effect)

    def barrier(self, then: Callable[[], None] | None = None) -> None:
        """Call `then` when all disk effects queued so far are durable, unless the role ends before."""
        self._token += 1
        self._barriers.append((self._token, self.last_logged, then, self.role))
        self._barrier_due = False
        self._appending = None
        self.out.append(Barrier(self._token))

    def end_turn(self, round: int) -> list[Effect]:
        """Return the turn's effects, with one barrier for everything that the turn appended."""
        self._close_batches()
        if self._snapshots.is_due:
            self._take_snapshot()
        self.round = round
        self._report_state()
        out, self.out = self.out, []
        return out

    def _close_batches(self) -> None:
        if self._barrier_due:
            self.barrier()
        if self.role is not None:
            self.role.end_turn()
        self._appending = None
        self._sending.clear()

    def hand_over(self) -> None:
        """Pass the effects of this turn so far to the driver, because the rest of the turn takes some time."""
        if self.outlet is not None and self.out:
            self._close_batches()
            out, self.out = self.out, []
            self.outlet(out)

    def on_durable(self, token: int) -> None:
        """Handle a barrier that has become durable.

        All older ones are durable too, because the disk queue is in order.
        """
        logged: Zxid | None = None
        while self._barriers and self._barriers[0][0] <= token:
            _, logged, then, role = self._barriers.popleft()
            if then is not None and (role is None or (role is self.role and self.leaving is None)):
                self._note_logged(logged)
                then()
        if logged is not None:
            self._note_logged(logged)

    def _note_logged(self, zxid: Zxid) -> None:
        progressed = False
        while self._unlogged and self._unlogged[0][-1].zxid <= zxid:
            logged = self._unlogged.popleft()
            progressed = True
            if self.config.full_journal:
                for txn in logged:
                    self.emit(TxnLogged(txn.zxid))
        if progressed and self.role is not None and self.leaving is None:
            self.role.on_logged(zxid)

    def append(self, txns: Sequence[Txn]) -> None:
        """Log transactions; they are in `pending` until they are applied."""
        assert not self.awaiting_recovery, "the log is being truncated"
        last, ordinary = self.last_logged, True
        for txn in txns:
            zxid = txn.zxid
            if zxid != last + 1:
                assert follows(last, zxid), f"gap in history: {zxid:#x} after {last:#x}"
                self.borders[last] = zxid
            last = zxid
            if txn.type == _RECONFIG:
                ordinary = False
        if ordinary:
            self._append(txns)
            return
        for txn in txns:
            if txn.type == _RECONFIG:
                self.reconfiguration.proposed(txn)  # must be on disk before the transaction
            self._append((txn,))

    def _append(self, txns: Sequence[Txn]) -> None:
        if not txns:
            return
        self.last_logged = txns[-1].zxid
        self.pending.extend(txns)
        if self._appending is None:
            self._appending = []
            self._unlogged.append(self._appending)
            self._barrier_due = True
            self.out.append(Append(self._appending))
        self._appending.extend(txns)

    def save_accepted_epoch(self, epoch: Epoch, then: Callable[[], None]) -> None:
        """Store `epoch` as the accepted epoch durably, then call `then`. Epochs never decrease."""
        assert epoch > self.accepted_epoch, "an accepted epoch never goes back"
        self.accepted_epoch = epoch
        self.to_disk(SaveAcceptedEpoch(epoch))

        def durable() -> None:
            self.emit(EpochAccepted(epoch))
            then()

        self.barrier(durable)

    def save_current_epoch(self, epoch: Epoch, then: Callable[[], None]) -> None:
        """Store `epoch` as the current epoch durably, then call `then`.

        The caller must have made the epoch's initial history durable before.
        """
        assert self.current_epoch <= epoch <= self.accepted_epoch, "a peer adopts only what it has accepted"
        self.current_epoch = epoch
        self.to_disk(SaveCurrentEpoch(epoch))
        # When this barrier is durable, the history on the disk is complete, even if this peer has another role by then.
        self._barriers.append((self._token + 1, self.last_logged, self._be_whole, None))

        def durable() -> None:
            self.emit(EpochAdopted(epoch))
            then()

        self.barrier(durable)

    def _be_whole(self) -> None:
        self.incomplete = False

    # -- history ---------------------------------------------------------------------------------------------------

    def apply_up_to(self, zxid: Zxid) -> None:
        """Apply the pending transactions up to `zxid`, which are committed; the application sends the replies."""
        pending = self.pending
        if pending and pending[-1].zxid <= zxid:
            txns = list(pending)
            pending.clear()
        else:
            txns = []
            while pending and pending[0].zxid <= zxid:
                txns.append(pending.popleft())
        while txns:
            room = min(STRETCH_TXNS, CHECKPOINT_INTERVAL_TXNS - self._applied % CHECKPOINT_INTERVAL_TXNS)
            if self.out:
                self.hand_over()
            if len(txns) <= room:
                self._apply_committed(txns)
                return
            self._apply_committed(txns[:room])
            del txns[:room]

    def _apply_committed(self, txns: list[Txn]) -> None:
        self.perform(self._apply(txns))
        count = len(txns)
        self._applied += count
        if self._applied % CHECKPOINT_INTERVAL_TXNS == 0:
            self.emit(self.application.checkpoint())
        self._snapshots.count(txns)

    def _take_snapshot(self) -> None:
        """Take a snapshot of the tree's state at the end of a turn.

        A peer that does not accept clients takes the snapshot only when it accepts them: before that, its tree may
        contain transactions that are not committed (ZOOKEEPER-1549).
        """
        if self.serving:
            self._snapshots.taken(self.application.snapshot_bytes)
            self.to_disk(SaveSnapshot(self.application.snapshot(), replaces_history=False))

    def make_snapshot_due(self) -> None:
        """Request a snapshot, which is taken at the end of a turn."""
        self._snapshots.force()

    def apply_pending(self) -> bool:
        """Apply the pending transactions although their commit is unknown, so that the tree equals the log again.

        Return whether the tree now differs from the tree of the leader that proposed them; a peer with such a tree is
        not a candidate in elections.
        """
        differs = False
        while self.pending:
            differs |= self._apply_uncommitted((self.pending.popleft(),))
        return differs

    def _apply_uncommitted(self, txns: Sequence[Txn]) -> bool:
        """Apply transactions that are not known to be committed, and hold back their journal events.

        The events are emitted when a leader is established, because the transactions are then committed. Pass several
        transactions only if none of them has a journal event.
        """
        effects = self._apply(txns)
        self._held.extend((txns[-1].zxid, e) for e in effects if isinstance(e, Emit))
        differing = [effect for effect in effects if isinstance(effect, TreeDiffers)]
        if not self.awaiting_recovery:
            self.perform(differing)
        return bool(differing)

    def _apply(self, txns: Sequence[Txn]) -> list[Effect]:
        effects = self.application.apply(self.now, txns)
        assert self.application.last_applied == txns[-1].zxid, "the application applies all it is given"
        self.committed_log.extend(txns)
        return effects

    def report_history(self) -> None:
        """Emit the events that were held back: a leader is established, so everything in the tree is committed."""
        self.out.extend(emit for _, emit in self._held)
        self._held.clear()

    def start_serving(self, leading: bool) -> None:
        """Accept clients: this peer is in sync with an established leader, so its whole tree is committed."""
        self.serving = True
        membership = self.reconfiguration.current
        self.application.describe_membership(self.now, self.reconfiguration.text, membership.version)
        if leading:
            self.application.start_leading(self.now, self.current_epoch)
        self.emit(self.application.checkpoint())
        self.perform(self.application.start_serving(self.now, leading))

    def load(self, recovered: Recovered) -> None:
        """Load the state that was read from the disk, at start and after a truncation."""
        restarted = not self.awaiting_recovery
        held, self._held, from_zxid = self._held, [], self.last_logged
        self.incomplete, self.in_doubt = not recovered.complete, recovered.in_doubt
        self.application.restore(recovered.snapshot)
        self.base = recovered.snapshot.zxid if recovered.snapshot is not None else Zxid(0)
        self._snapshots.replaced(self.application.snapshot_bytes)
        self.last_logged = self.base
        self.borders.clear()
        self.pending.clear()
        self.committed_log.clear()
        self._barriers.clear()  # all of them were queued before the truncation
        self._barrier_due = False
        self._unlogged.clear()
        for txn in recovered.txns:
            if txn.zxid != self.last_logged + 1:
                assert follows(self.last_logged, txn.zxid), f"gap: {txn.zxid:#x} after {self.last_logged:#x} in the log"
                self.borders[self.last_logged] = txn.zxid
            self.last_logged = txn.zxid
        # Apply transactions together, which is faster. Only the opening and closing of a session has a journal event,
        # unless the journal is full.
        for reported, run in groupby(recovered.txns, lambda txn: txn.type < 0 or self.config.full_journal):
            if reported:
                for txn in run:
                    self._apply_uncommitted((txn,))
            else:
                self._apply_uncommitted(list(run))
        self._snapshots.count(recovered.txns)
        # A truncation adds no events. After a restart it is unknown which events are already in the journal. Only a
        # full journal, which must contain every commit, gets the events of the whole log again.
        if not restarted:
            self.emit(TxnLogTruncated(from_zxid, self.last_logged))
            self._held = [(zxid, emit) for zxid, emit in held if zxid <= self.last_logged]
        elif not self.config.full_journal:
            self._held.clear()
        self.awaiting_recovery = self.needs_snapshot = False

    def count_sync(self, mode: SyncMode) -> None:
        """Count a synchronisation of a learner."""
        if mode is SyncMode.SNAP:
            self.snaps_sent += 1
        else:
            self.diffs_sent += 1

    def truncate(self, zxid: Zxid) -> None:
        """Truncate the log to `zxid`; `load` is called when the disk has completed the truncation."""
        assert not self.pending, "the tree equals the log before a truncation"
        self.awaiting_recovery = True
        self.to_disk(TruncateLog(zxid))

    def replace(self, snapshot: TreeSnapshot) -> None:
        """Replace log and tree with a leader's snapshot."""
        assert not self.pending, "the tree equals the log before a snapshot replaces both"
        self.application.restore(snapshot)
        assert self.application.last_applied == snapshot.zxid, "a restored tree stands where its snapshot does"
        self.base = self.last_logged = snapshot.zxid
        self.borders.clear()
        self.committed_log.clear()
        self._held.clear()
        self._snapshots.replaced(self.application.snapshot_bytes)
        self.needs_snapshot = self.in_doubt = False
        if self.config.full_journal:
            self.emit(HistoryReplaced(snapshot.zxid))
        self.to_disk(SaveSnapshot(snapshot, replaces_history=True))

    @property
    def last_committed(self) -> Zxid:
        """The newest committed transaction: the last one in the tree, because only committed ones are applied."""
        return self.application.last_applied

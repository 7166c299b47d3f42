"""What every role of a peer shares: the history, the disk's barriers, and the effects of the turn under way.

The history is the log on disk, the tree above it, and the two epochs.  A transaction is appended first, applied when it
is committed; `pending` are those in between.  Memory says what the disk will hold once its queue is worked off: the
queue is strictly in order, so whoever waits for a barrier knows that all of it is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Protocol

from ensemble.effects import (
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
    SendPacket,
    SetTimer,
    TruncateLog,
)
from ensemble.ids import Epoch, LinkId, PeerId, SessionId, Zxid
from ensemble.ports import Instant, Random
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txn import Txn
from ensemble.zab.application import Application, AskRevalidate, EnsembleConfig, Submit, SubmitSync
from ensemble.zab.messages import ForwardedRequest, Packet, PeerState, SyncRequest
from ensemble.zab.quorum import Quorum
from ensemble.zab.sync import COMMITTED_LOG_LENGTH, follows
from journal.events import (
    EpochAccepted,
    EpochAdopted,
    Event,
    PeerProtocolBroken,
    PeerStateChanged,
    TxnLogged,
    TxnLogTruncated,
)

CHECKPOINT_INTERVAL_TXNS = 1000


class Phase(StrEnum):
    """Where a peer is within the protocol (QuorumPeer.ZabState)."""

    ELECTION = "ELECTION"
    DISCOVERY = "DISCOVERY"
    SYNCHRONIZATION = "SYNCHRONIZATION"
    BROADCAST = "BROADCAST"


class Role(Protocol):
    """A leader or a learner, from the election's end until it gives up."""

    @property
    def state(self) -> PeerState: ...
    @property
    def phase(self) -> Phase: ...
    @property
    def leader_id(self) -> PeerId: ...

    def start(self) -> None: ...
    def stop(self, reason: str) -> None: ...
    def on_link_accepted(self, link: LinkId) -> None: ...
    def on_link_up(self, link: LinkId, to: PeerId) -> None: ...
    def on_link_failed(self, to: PeerId) -> None: ...
    def on_link_down(self, link: LinkId) -> None: ...
    def on_packet(self, link: LinkId, packet: Packet) -> None: ...
    def on_timer(self, name: str) -> None: ...
    def on_logged(self, zxid: Zxid) -> None: ...
    def on_recovered(self) -> None: ...
    def on_looking(self, src: PeerId, round: int) -> None: ...
    def submit(self, request: ForwardedRequest) -> None: ...
    def submit_sync(self, request: SyncRequest) -> None: ...
    def ask_revalidate(self, session_id: SessionId, timeout_ms: int) -> None: ...


class Core:
    """The peer's durable state as memory knows it, and the outlet for effects."""

    def __init__(
        self, config: EnsembleConfig, application: Application, recovered: Recovered, random: Random, cumulative: bool
    ) -> None:
        self.config = config
        self.application = application
        self.random = random
        self.cumulative = cumulative
        self.my_id = PeerId(config.my_id)
        self.quorum = Quorum(config.voters)
        self.now = Instant(0, 0)
        self.out: list[Effect] = []
        self.role: Role | None = None
        self.leaving: str | None = None
        self.round = 0
        self.serving = False

        self.accepted_epoch = recovered.accepted_epoch
        self.current_epoch = recovered.current_epoch
        self.epoch_floor = Epoch(0)
        """The highest epoch that any learner is known to have accepted."""
        self.last_logged = Zxid(0)
        self.base = Zxid(0)
        self.pending: deque[Txn] = deque()
        self.committed_log: deque[Txn] = deque(maxlen=COMMITTED_LOG_LENGTH)
        self.awaiting_recovery = False
        self.needs_snapshot = False
        """A leader asked for a TRUNC to before the log's beginning: only a SNAP can bring this peer in sync."""

        self._token = 0
        self._barriers: deque[tuple[int, Zxid, Callable[[], None] | None, Role | None]] = deque()
        self._barrier_due = False
        self._unlogged: deque[Zxid] = deque()
        self._held: list[tuple[Zxid, Emit]] = []
        self._reported: tuple[object, ...] = ()
        self._applied = 0
        self._since_snapshot = 0
        self._snapshot_at = self._draw_snapshot_at()

    # -- effects ---------------------------------------------------------------------------------------------------

    def send(self, link: LinkId, packet: Packet) -> None:
        """Send a packet on a link."""
        self.out.append(SendPacket(link, packet))

    def close(self, link: LinkId, reason: str) -> None:
        """Close a link."""
        self.out.append(CloseLink(link, reason))

    def emit(self, event: Event) -> None:
        """Write to the journal."""
        self.out.append(Emit(event))

    def set_timer(self, name: str, delay_ms: int) -> None:
        """Start or replace a timer."""
        self.out.append(SetTimer(name, max(1, delay_ms)))

    def cancel_timer(self, name: str) -> None:
        """Forget a timer."""
        self.out.append(CancelTimer(name))

    def ticks_ms(self, ticks: int) -> int:
        """A number of ticks in milliseconds."""
        return ticks * self.config.tick_time_ms

    def leave(self, reason: str) -> None:
        """The role gives up: at the end of this turn the peer goes looking for a leader again."""
        if self.leaving is None:
            self.leaving = reason

    def report_broken(self, peer_id: int, reason: str) -> None:
        """The other side broke the protocol; the caller drops it."""
        self.emit(PeerProtocolBroken(f"peer-{peer_id}", reason))

    def report_state(self) -> None:
        """Emit peer_state_changed where role, phase, leader or epochs are not what was last said."""
        role = self.role
        state, phase, leader_id = PeerState.LOOKING, Phase.ELECTION, PeerId(-1)
        if role is not None:
            state, phase, leader_id = role.state, role.phase, role.leader_id
        report = (state, phase, leader_id, self.round, self.accepted_epoch, self.current_epoch)
        if report != self._reported:
            self._reported = report
            self.emit(
                PeerStateChanged(
                    state=state.name,
                    phase=phase.value,
                    leader_id=leader_id,
                    round=self.round,
                    accepted_epoch=self.accepted_epoch,
                    current_epoch=self.current_epoch,
                    last_zxid=self.last_logged,
                )
            )

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out what the application asked for: its own three effects here, all others by the driver."""
        for effect in effects:
            kind = type(effect)
            if kind is Submit or kind is SubmitSync or kind is AskRevalidate:
                if self.role is None or self.leaving is not None:
                    continue  # Its client's connection is being closed.
                if isinstance(effect, Submit):
                    self.role.submit(effect.request)
                elif isinstance(effect, SubmitSync):
                    self.role.submit_sync(effect.request)
                elif isinstance(effect, AskRevalidate):
                    self.role.ask_revalidate(effect.session_id, effect.timeout_ms)
            else:
                self.out.append(effect)

    # -- disk ------------------------------------------------------------------------------------------------------

    def barrier(self, then: Callable[[], None] | None = None) -> None:
        """Call `then` when everything queued for the disk so far is durable, unless the role has ended by then."""
        self._token += 1
        self._barriers.append((self._token, self.last_logged, then, self.role))
        self._barrier_due = False
        self.out.append(Barrier(self._token))

    def end_turn(self) -> None:
        """One barrier for all that this turn appended."""
        if self._barrier_due:
            self.barrier()

    def on_durable(self, token: int) -> None:
        """A barrier is done, and with it every older one: the disk's queue is in order."""
        logged: Zxid | None = None
        while self._barriers and self._barriers[0][0] <= token:
            _, logged, then, role = self._barriers.popleft()
            if then is not None and role is self.role and self.leaving is None:
                self._note_logged(logged)
                then()
        if logged is not None:
            self._note_logged(logged)

    def _note_logged(self, zxid: Zxid) -> None:
        progressed = False
        while self._unlogged and self._unlogged[0] <= zxid:
            logged = self._unlogged.popleft()
            progressed = True
            if self.config.full_journal:
                self.emit(TxnLogged(logged))
        if progressed and self.role is not None and self.leaving is None:
            self.role.on_logged(zxid)

    def append(self, txn: Txn) -> None:
        """Log a transaction; it is pending until it is applied."""
        assert follows(self.last_logged, txn.zxid), f"gap in history: {txn.zxid:#x} after {self.last_logged:#x}"
        assert not self.awaiting_recovery, "the log is being truncated"
        self.last_logged = txn.zxid
        self.pending.append(txn)
        self._unlogged.append(txn.zxid)
        self._barrier_due = True
        self.out.append(Append(txn))

    def save_accepted_epoch(self, epoch: Epoch, then: Callable[[], None]) -> None:
        """Promise `epoch`, durably, then go on.  Epochs only grow."""
        assert epoch > self.accepted_epoch, "an accepted epoch never goes back"
        self.accepted_epoch = epoch
        self.out.append(SaveAcceptedEpoch(epoch))

        def durable() -> None:
            self.emit(EpochAccepted(epoch))
            then()

        self.barrier(durable)

    def save_current_epoch(self, epoch: Epoch, then: Callable[[], None]) -> None:
        """Take over `epoch`, durably, then go on.  The caller has made the epoch's initial history durable before."""
        assert self.current_epoch <= epoch <= self.accepted_epoch, "a peer adopts only what it has accepted"
        self.current_epoch = epoch
        self.out.append(SaveCurrentEpoch(epoch))

        def durable() -> None:
            self.emit(EpochAdopted(epoch))
            then()

        self.barrier(durable)

    # -- history ---------------------------------------------------------------------------------------------------

    def apply_next(self) -> Txn:
        """The oldest pending transaction is committed: apply it, and let the application answer."""
        txn = self.pending.popleft()
        self._apply(txn, live=True)
        self._since_snapshot += 1
        if self._since_snapshot >= self._snapshot_at:
            self._since_snapshot = 0
            self._snapshot_at = self._draw_snapshot_at()
            # Only committed transactions are in the tree of a peer that serves (ZOOKEEPER-1549).
            assert self.serving, "no snapshot outside of broadcast"
            self.out.append(SaveSnapshot(self.application.snapshot(), replaces_history=False))
        return txn

    def apply_pending(self) -> None:
        """Apply what was appended but is not known to be committed, so that the tree equals the log again."""
        while self.pending:
            self._apply(self.pending.popleft(), live=False)

    def _apply(self, txn: Txn, live: bool) -> None:
        effects = self.application.apply(self.now, txn)
        assert self.application.last_applied == txn.zxid, "the application applies one transaction at a time"
        self.committed_log.append(txn)
        if live:
            self.perform(effects)
            self._applied += 1
            if self._applied % CHECKPOINT_INTERVAL_TXNS == 0:
                self.emit(self.application.checkpoint())
        else:
            # Whether it is committed shows with the next established leader; until then the journal must not say so.
            self._held.extend((txn.zxid, e) for e in effects if isinstance(e, Emit))

    def start_serving(self, leading: bool) -> None:
        """In sync with an established leader: all that is in the tree is committed."""
        assert not self.pending, "the tree equals the log when service begins"
        self.out.extend(emit for _, emit in self._held)
        self._held.clear()
        self.serving = True
        if leading:
            self.application.start_leading(self.now, self.current_epoch)
        self.emit(self.application.checkpoint())
        self.perform(self.application.start_serving(self.now, leading))

    def load(self, recovered: Recovered) -> None:
        """Take over what the disk holds: at start, and after a truncation."""
        restarted = not self.awaiting_recovery
        held, self._held = self._held, []
        from_zxid = self.last_logged
        self.application.restore(recovered.snapshot)
        self.base = recovered.snapshot.zxid if recovered.snapshot is not None else Zxid(0)
        self.last_logged = self.base
        self.pending.clear()
        self.committed_log.clear()
        self._barriers.clear()  # All of them were queued before the truncation.
        self._barrier_due = False
        self._unlogged.clear()
        for txn in recovered.txns:
            assert follows(self.last_logged, txn.zxid), f"gap in the log: {txn.zxid:#x} after {self.last_logged:#x}"
            self._apply(txn, live=False)
            self.last_logged = txn.zxid
        self._since_snapshot = len(recovered.txns)
        # A truncation brings nothing new.  After a restart nobody knows what the journal has heard already; only a
        # full journal, which must not miss a commit, hears of the whole log again.
        if not restarted:
            self.emit(TxnLogTruncated(from_zxid, self.last_logged))
            self._held = [(zxid, emit) for zxid, emit in held if zxid <= self.last_logged]
        elif not self.config.full_journal:
            self._held.clear()
        self.awaiting_recovery = self.needs_snapshot = False

    def truncate(self, zxid: Zxid) -> None:
        """Cut the log back to `zxid`; `load` follows once the disk has done it."""
        assert not self.pending, "the tree equals the log before a truncation"
        self.awaiting_recovery = True
        self.out.append(TruncateLog(zxid))

    def replace(self, snapshot: TreeSnapshot) -> None:
        """Replace log and tree by a leader's snapshot."""
        assert not self.pending, "the tree equals the log before a snapshot replaces both"
        self.application.restore(snapshot)
        assert self.application.last_applied == snapshot.zxid, "a restored tree stands where its snapshot does"
        self.base = self.last_logged = snapshot.zxid
        self.committed_log.clear()
        self._held.clear()
        self._since_snapshot = 0
        self.needs_snapshot = False
        self.out.append(SaveSnapshot(snapshot, replaces_history=True))

    @property
    def last_committed(self) -> Zxid:
        """The newest transaction in the tree."""
        return self.application.last_applied

    def _draw_snapshot_at(self) -> int:
        # Between half and full, so that the peers of an ensemble do not all write a snapshot at once.
        count = max(2, self.config.snap_count)
        return self.random.randrange(count // 2, count + 1)

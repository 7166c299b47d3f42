"""Following: what a learner does while it is in sync with an established leader.

It logs proposals, applies commits, and forwards requests. `zabka.ensemble.zab.learner` begins and ends this state.
Source: Follower.processPacket, Observer.processPacket, FollowerZooKeeperServer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from zabka.ensemble.ids import Epoch, LinkId, PeerId, SessionId, Zxid, epoch_of
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.leader_acks import CommonLog
from zabka.ensemble.zab.messages import (
    Ack,
    Commit,
    CommitAndActivate,
    ForwardedRequest,
    Inform,
    InformAndActivate,
    Packet,
    Ping,
    Proposal,
    Revalidate,
    SyncRequest,
)
from zabka.ensemble.zab.observer_master import ObserverMaster
from zabka.ensemble.zab.sync import follows
from zabka.journal.cause import request_cause


class Following:
    """Handles a learner's packets and requests after UPTODATE, on its link to the leader.

    `cumulative`: the leader's acknowledgements and commits include all earlier ones. An observer (`observes`)
    acknowledges nothing. `broken` is called if the leader violates the protocol.
    """

    def __init__(
        self, core: Core, link: LinkId, epoch: Epoch, *, observes: bool, cumulative: bool, broken: Callable[[str], None]
    ) -> None:
        self._core = core
        self._link = link
        self._epoch = epoch
        self._observes = observes
        self._cumulative = cumulative
        self._broken = broken
        self._unacked: deque[Sequence[Txn]] = deque()
        self._common = CommonLog()
        self._syncs: deque[tuple[SyncRequest, LinkId | None]] = deque()
        self._revalidations: deque[tuple[SessionId, LinkId | None]] = deque()
        self._lacks: Zxid | None = None
        """Zxid that must be committed here before this peer accepts clients; None if it accepts them."""
        self.master: ObserverMaster | None = None
        """Connections of observers that learn from this follower; None if it accepts no observers."""

    def start_serving(self, proposed: Sequence[Txn], *, logged: int, committed: int) -> None:
        """Accept clients, and log the transactions proposed during the synchronisation.

        The first `committed` of them are committed. If this peer has lost transactions, the first `logged` of them are
        already in its log. Before the loss, this peer may have committed the logged ones because of its leader's
        acknowledgement, so it must commit them again before it accepts clients.
        """
        core = self._core
        core.report_history()
        if logged:
            self._lacks = proposed[logged - 1].zxid
            self._unacked.append(proposed[:logged])
            self.on_logged(self._lacks)
        else:
            self._serve()
        if logged < len(proposed):
            self.log(proposed[logged:])
        if committed:
            self._apply_up_to(proposed[committed - 1].zxid)

    def _serve(self) -> None:
        """Accept clients and, if configured, observers that learn from this follower."""
        core = self._core
        core.start_serving(leading=False)
        if core.config.serves_observers and not self._observes:
            self.master = ObserverMaster(core, self, self._epoch)
            self.master.start()

    def on_packet(self, packet: Packet) -> None:
        """Process a packet from the leader."""
        if isinstance(packet, Proposal):
            self._on_proposal(packet.txns)
        elif isinstance(packet, Commit):
            self._on_commit(packet)
        elif isinstance(packet, Ack) and self._cumulative and not self._observes:
            self._on_leaders_ack(packet.zxid)
        elif isinstance(packet, Ping):
            self._on_ping(packet)
        elif isinstance(packet, Inform | InformAndActivate):
            self._on_inform(packet)
        elif isinstance(packet, CommitAndActivate):
            self._on_activation(packet)
        elif isinstance(packet, Revalidate) and packet.valid is not None:
            self._on_revalidated(packet, packet.valid)
        elif isinstance(packet, SyncRequest) and self._syncs:
            self._on_synced()
        else:
            self._broken(f"unexpected {type(packet).__name__} in broadcast")

    def _on_ping(self, ping: Ping) -> None:
        """Reply with the sessions that were active here or on this follower's observers."""
        touched = tuple(self._core.application.drain_touched())
        if self.master is not None:
            touched += self.master.drain_touched()
        self._core.send(self._link, Ping(ping.zxid, touched))

    def _on_inform(self, packet: Inform | InformAndActivate) -> None:
        """Process a committed transaction that the leader sent to this observer."""
        core, txn = self._core, packet.txn
        if self._may_follow(core.last_logged, txn.zxid):
            core.append((txn,))
            if isinstance(packet, InformAndActivate):
                activate(core, txn, packet.designated)
            self._apply_up_to(txn.zxid)

    def _on_synced(self) -> None:
        """Complete the oldest sync in progress, because the reply on the wire contains no id."""
        core = self._core
        request, origin = self._syncs.popleft()
        if origin is None:
            core.perform(core.application.sync_done(core.now, request))
        elif self.master is not None:
            self.master.answer(origin, request)

    def _on_revalidated(self, answer: Revalidate, valid: bool) -> None:
        """Forward the reply to the oldest pending request about this session.

        Replies arrive in the order of the requests.
        """
        core = self._core
        asked = next((each for each in self._revalidations if each[0] == answer.session_id), None)
        if asked is not None:
            self._revalidations.remove(asked)
        proposed = max(answer.proposed, core.last_logged)
        if asked is not None and asked[1] is not None and self.master is not None:
            self.master.answer(asked[1], Revalidate(answer.session_id, answer.timeout_ms, valid, proposed))
        else:
            core.perform(core.application.revalidated(core.now, answer.session_id, valid, proposed))

    def _on_proposal(self, txns: Sequence[Txn]) -> None:
        last, epoch = self._core.last_logged, self._epoch
        for txn in txns:
            zxid = txn.zxid
            if (zxid != last + 1 or zxid >> 32 != epoch) and not self._may_follow(last, zxid):
                return
            last = zxid
        self.log(txns)

    def _may_follow(self, last: Zxid, zxid: Zxid) -> bool:
        if follows(last, zxid) and epoch_of(zxid) == self._epoch:
            return True
        self._broken(f"gap: transaction 0x{zxid:x} follows 0x{last:x}")
        return False

    def log(self, txns: Sequence[Txn]) -> None:
        """Log proposed transactions; they are acknowledged when they are durable."""
        self._core.append(txns)
        if not self._observes:
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
        """Commit what is durable in the logs of both leader and follower.

        Do nothing while a membership change is in progress, because it may change the quorum.
        """
        pending, end = self._core.pending, self._common.chosen_zxid
        if pending and pending[0].zxid <= end and not self._core.reconfiguration.under_way:
            self._commit(end)

    def _commit(self, zxid: Zxid) -> None:
        """Commit everything up to `zxid`, which a quorum has logged; a part of it may be committed already."""
        pending = self._core.pending
        if pending and pending[0].zxid <= zxid:
            if self.master is not None:
                self.master.inform(zxid)
            self._apply_up_to(zxid)

    def _apply_up_to(self, zxid: Zxid) -> None:
        core = self._core
        core.apply_up_to(zxid)
        if self._lacks is not None and core.application.last_applied >= self._lacks and core.leaving is None:
            self._lacks = None
            self._serve()

    def _on_activation(self, packet: CommitAndActivate) -> None:
        core, pending = self._core, self._core.pending
        if not pending or pending[0].zxid != packet.zxid or pending[0].type != OpCode.RECONFIG:
            self._broken(f"COMMITANDACTIVATE of 0x{packet.zxid:x}, which is no reconfiguration, or not the oldest one")
            return
        if self.master is not None:
            self.master.inform_of_membership(pending[0], packet.designated)
        activate(core, pending[0], packet.designated)
        self._apply_up_to(packet.zxid)

    def on_logged(self, zxid: Zxid) -> None:
        """Acknowledge the leader's proposals up to `zxid`, because this peer's log is durable up to there."""
        last: Zxid | None = None
        while self._unacked and self._unacked[0][-1].zxid <= zxid:
            logged = self._unacked.popleft()
            last = logged[-1].zxid
            if not self._cumulative:
                for txn in logged:
                    self._core.send(self._link, Ack(txn.zxid))
        if last is not None and self._cumulative:
            self._core.send(self._link, Ack(last, cumulative=True))
        self._common.own = zxid
        self._commit_common()

    # -- requests of the application -------------------------------------------------------------------------------

    def submit(self, requests: Sequence[ForwardedRequest]) -> None:
        """Forward writes to the leader. Links are FIFO, so each client's order is preserved."""
        self._core.send_all(self._link, requests)

    def submit_sync(self, request: SyncRequest, origin: LinkId | None = None) -> None:
        """Forward a sync request to the leader; `origin` is the observer that sent it, None for a local client."""
        self._core.send(self._link, request)
        self._syncs.append((request, origin))

    def ask_revalidate(self, session_id: SessionId, timeout_ms: int, origin: LinkId | None = None) -> None:
        """Ask the leader whether a session can continue.

        `origin` is the observer that asked, None for a local client.
        """
        self._core.send(self._link, Revalidate(session_id, timeout_ms))
        if self.master is not None:
            self._revalidations.append((session_id, origin))


def activate(core: Core, txn: Txn, designated: PeerId) -> None:
    """Activate a committed reconfiguration; end the role if this peer's role or leader changes."""
    membership = core.reconfiguration.read(txn)
    if membership is not None and core.reconfiguration.activate(membership, designated):
        core.leave("the new membership asks for it", request_cause("reconfig"), designated)

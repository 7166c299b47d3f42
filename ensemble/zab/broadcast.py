"""Broadcast by an established leader: proposals, commits when a quorum has logged them, and replies to syncs.

Source: Leader.propose, tryToCommit and processSync. `zabka.ensemble.zab.leader` adds and removes learners; both modules
use the same table of links.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import islice, takewhile

from zabka.ensemble.ids import COUNTER_MAX, LinkId, PeerId, Zxid, counter_of
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.core import STRETCH_TXNS, Core
from zabka.ensemble.zab.handover import Handover
from zabka.ensemble.zab.leader_acks import LeaderAcks
from zabka.ensemble.zab.learner_link import LearnerLink, Step
from zabka.ensemble.zab.messages import (
    Commit,
    ForwardedRequest,
    Inform,
    Packet,
    Ping,
    Proposal,
    Revalidate,
    SyncRequest,
    UpToDate,
)
from zabka.ensemble.zab.quorum import QuorumSystem
from zabka.ensemble.zab.sync_requests import SyncRequests
from zabka.journal.cause import request_cause
from zabka.journal.events import TxnProposed

_RECONFIG = int(OpCode.RECONFIG)
_SYNCING, _SYNCED = Step.SYNCING, Step.SYNCED
"""Module constants, because looking up an enumeration member takes as long as a call."""


class Broadcast:
    """Proposals and commits of one leader's term.

    `open` is set when a quorum has adopted the term's initial history; the leader proposes nothing before that.
    `synchronise` is called with each learner whose synchronisation had to wait for a commit.
    """

    def __init__(
        self, core: Core, links: dict[LinkId, LearnerLink], synchronise: Callable[[LearnerLink], None]
    ) -> None:
        self._core = core
        self._links = links
        self._synchronise = synchronise
        self.open = False
        self._last_proposed = Zxid(0)
        self.last_committed = Zxid(0)
        self._logged: dict[PeerId, int] = {}
        self._proposing: list[Txn] | None = None
        self._advancing = False
        self._syncs = SyncRequests()
        self._joint: QuorumSystem | None = None
        self._joint_until = Zxid(0)
        """Zxid up to which transactions need a quorum of both memberships.

        These transactions were proposed before the last membership change became active. Source: Leader.Proposal's
        qvAcksetPairs.
        """
        self.handover = Handover(core)
        self.acks = LeaderAcks(core)

    @property
    def pending_syncs(self) -> int:
        """Number of sync requests that have no reply yet."""
        return len(self._syncs)

    def start_epoch(self, zxid: Zxid) -> None:
        """Start the epoch at its first zxid, which no transaction gets; proposals get the zxids after it."""
        self._last_proposed = self.last_committed = self.acks.last_commit_sent = zxid

    def admit(self, peer: LearnerLink) -> None:
        """Send UPTODATE to a learner that has the whole history.

        From then on, the learner accepts clients, and its acknowledgements count.
        """
        peer.step = Step.SYNCED
        self._logged |= {} if peer.observer else {peer.peer_id: self._logged.get(peer.peer_id, 0)}
        # Count the pings sent so far as answered: the peer receives them before UPTODATE, and does not reply to them.
        peer.answered_round = self._syncs.round
        if not peer.observer and self._core.pending:
            peer.note_proposed(self._core.pending[0].zxid, self._core.now.mono_ms)
        self._core.send(peer.link, UpToDate())

    def forget(self, peer: LearnerLink) -> None:
        """Remove a learner that disconnected.

        The learner's earlier acknowledgements do not count after a reconnect, because the next synchronisation may
        truncate its log.
        """
        self._syncs.forget(peer.link)
        self._logged.pop(peer.peer_id, None)

    # -- proposals and commits -------------------------------------------------------------------------------------

    def propose(self, requests: Sequence[ForwardedRequest], origin: LinkId | None) -> None:
        """Propose writes of a learner's clients, or of local clients if `origin` is None."""
        core = self._core
        if not self.open or core.leaving is not None:
            return
        self.acks.asked_by = origin
        left = COUNTER_MAX - 1 - counter_of(self._last_proposed)
        together = 1 if len(requests) == 1 or _RECONFIG in [request.op for request in requests] else STRETCH_TXNS
        for start in range(0, min(len(requests), left), together):
            self._propose_stretch(requests[start : min(start + together, left)], origin)
        if len(requests) > left:
            # The counter in the zxid must not overflow into the epoch. A new epoch resets it (ZOOKEEPER-1277).
            core.leave("the zxid's counter is used up", request_cause("PROPOSAL"))

    def _propose_stretch(self, requests: Sequence[ForwardedRequest], origin: LinkId | None) -> None:
        core, zxid = self._core, Zxid(self._last_proposed + 1)
        if requests[0].op == _RECONFIG:
            # A reconfiguration is prepared separately, from the membership after all earlier transactions. Send the
            # omitted COMMITs first, because from here on learners need them: the leader's acknowledgement no longer
            # makes learners commit.
            self.acks.make_up_for(self._links.values())
            view = self.handover.view(self._links.values())
            txns = [core.application.prepare_reconfig(core.now, requests[0], zxid, origin, view)]
        else:
            txns = core.application.prepare_all(core.now, requests, zxid, origin)
        assert txns[0].zxid == zxid and txns[-1].zxid == self._last_proposed + len(requests), "each takes its own zxid"
        self._log_and_send(txns)
        if len(txns) == STRETCH_TXNS:
            core.hand_over()

    def _log_and_send(self, txns: list[Txn]) -> None:
        """Log transactions, and add them to the proposal for all learners that keep a log."""
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
        """Begin a Proposal packet to all learners that keep a log; later proposals of this turn are added to the
        packet.
        """
        core = self._core
        self._proposing = []
        proposal = Proposal(self._proposing)
        for peer in self._links.values():
            if peer.step >= _SYNCING and not peer.observer:
                core.send(peer.link, proposal)
                if peer.step is _SYNCED:
                    peer.note_proposed(first, core.now.mono_ms)

    def close_proposal(self) -> None:
        """End the current Proposal packet, so that later proposals are sent in a new one."""
        self._proposing = None

    def on_logged(self, zxid: Zxid) -> None:
        """Count this peer's own acknowledgement: its log is durable up to `zxid`."""
        if self.open:
            self._logged[self._core.my_id] = zxid
            self.advance()
            if self._core.pending and self.handover.successor is None and not self._needs_both:
                self.acks.send_durable(zxid, self._links.values())

    def ack_error(self, peer: LearnerLink, zxid: Zxid) -> str:
        """Return why a learner's acknowledgement is invalid, or "" if it is valid."""
        if peer.step is not _SYNCED or peer.observer:
            return "it acknowledged a proposal before NEWLEADER"
        if zxid > self._last_proposed:
            return f"it acknowledged 0x{zxid:x}, which nobody proposed"
        return ""

    def on_ack(self, peer: LearnerLink, zxid: Zxid) -> None:
        """Count a learner's acknowledgement: its log is durable up to `zxid`."""
        if zxid > peer.acked:
            self._proposing = None  # start a new batch, so that later proposals count as unacknowledged
            peer.note_acked(zxid, self._last_proposed, self._core.now.mono_ms)
            self._logged[peer.peer_id] = zxid
            self.advance()

    def advance(self) -> None:
        """Commit all transactions that a quorum has logged, strictly in zxid order."""
        core, pending = self._core, self._core.pending
        if self._advancing or not pending or pending[0].zxid > (reached := self._reached()):
            return
        self._advancing = True
        while pending and pending[0].zxid <= reached and core.leaving is None and self.handover.successor is None:
            txn = pending[0]
            if txn.type == _RECONFIG and core.reconfiguration.enabled:
                self._send_commit()
                assert txn.zxid == self.last_committed + 1, "commits are in zxid order, without gaps"
                self._joint, self._joint_until = core.quorum, self._last_proposed
                self.handover.commit(txn, self._logged, self._links.values())
                self.last_committed = self.acks.last_commit_sent = txn.zxid
                core.apply_up_to(txn.zxid)
                reached = self._reached()
            else:
                self._commit(reached)
        self._send_commit()
        self._advancing = False
        self._answer_syncs()
        for peer in self.acks.take_held_back(self._links):
            self._synchronise(peer)

    @property
    def _needs_both(self) -> bool:
        pending = self._core.pending
        return self._joint is not None and bool(pending) and pending[0].zxid <= self._joint_until

    def _reached(self) -> int:
        """Return the highest zxid that a quorum has logged, so that it can be committed."""
        if self._joint is None or not self._needs_both:
            return self._core.quorum.reached(self._logged)
        both = self._joint.reached(self._logged)
        return both if both < self._joint_until else self._core.quorum.reached(self._logged)

    def can_commit(self, synced: Container[PeerId]) -> bool:
        """Return whether these learners are a quorum for all current proposals.

        Proposals made before a membership change became active also need a quorum of the previous membership.
        """
        quorum = self._core.quorum
        return quorum.contains(synced) and (not self._needs_both or self._joint is None or self._joint.contains(synced))

    def _commit(self, reached: int) -> None:
        """Commit the transactions up to `reached`, but stop before a reconfiguration, because it changes the quorum."""
        core = self._core
        assert core.pending[0].zxid == self.last_committed + 1, "commits are in zxid order, without gaps"
        txns = list(islice(core.pending, reached - self.last_committed))
        if core.reconfiguration.enabled:
            txns = list(takewhile(lambda txn: txn.type != _RECONFIG, txns))
        assert txns[-1].zxid == self.last_committed + len(txns), "all of this epoch's proposals are pending, in order"
        for peer in [each for each in self._links.values() if each.observer or not each.cumulative]:
            if peer.forwarding and peer.observer:
                core.send_all(peer.link, [Inform(txn) for txn in txns])
            elif peer.forwarding:
                core.send_all(peer.link, [Commit(txn.zxid) for txn in txns])
        self.last_committed = txns[-1].zxid
        self._send_commit()
        core.apply_up_to(self.last_committed)

    def _send_commit(self) -> None:
        self.acks.send_commit(self.last_committed, self._links.values())

    # -- syncs and sessions ----------------------------------------------------------------------------------------

    def add_sync(self, request: SyncRequest | Revalidate, origin: LinkId | None) -> None:
        """Queue a sync request.

        The reply is sent when everything proposed so far is committed, and a quorum has confirmed that it still follows
        this leader.
        """
        if not self.open:
            return
        my_id = self._core.my_id
        asker = self._links.get(origin) if origin is not None else None
        following = (my_id, asker.peer_id) if asker is not None and asker.counts else (my_id,)
        add = self._syncs.add_confirmed if self._core.quorum.contains(following) else self._syncs.add
        add(request, origin, self._last_proposed)
        self._answer_syncs()

    def _answered_round(self) -> int:
        """Return the newest ping round that a quorum, including this peer, has replied to."""
        answered = {peer.peer_id: peer.answered_round for peer in self._links.values() if peer.counts}
        return self._core.quorum.reached({self._core.my_id: self._syncs.round, **answered})

    def _answer_syncs(self) -> None:
        """Reply to the completed syncs; begin a ping round if a sync needs the quorum's confirmation."""
        core = self._core
        if self._advancing or not self._syncs:  # commits must precede replies that depend on them
            return
        if self._syncs.needs_round(self._answered_round()):
            self.ping()
        for sync in self._syncs.take_done(self._answered_round(), self.last_committed):
            if isinstance(sync.request, Revalidate):
                self._send_revalidated(sync.request, sync.origin, False)
            elif sync.origin is not None:
                self._answer(sync.origin, sync.request)
            else:
                core.perform(core.application.sync_done(core.now, sync.request))

    def answer_revalidate(self, asked: Revalidate, origin: LinkId | None) -> None:
        """Reply to a learner's question whether a session is alive.

        "Yes" is sent at once, "no" only after a quorum has confirmed that it follows this leader (see `sync_requests`).
        """
        core = self._core
        learner = self._links.get(origin) if origin is not None else None
        by = learner.peer_id if learner is not None else PeerId(core.config.my_id)
        if core.application.revalidate(core.now, asked.session_id, asked.timeout_ms, origin, by):
            self._send_revalidated(asked, origin, True)
        else:
            self.add_sync(asked, origin)

    def _send_revalidated(self, asked: Revalidate, origin: LinkId | None, valid: bool) -> None:
        core = self._core
        if origin is not None:
            self._answer(origin, Revalidate(asked.session_id, asked.timeout_ms, valid, self._last_proposed))
        else:
            core.perform(core.application.revalidated(core.now, asked.session_id, valid, self._last_proposed))

    def _answer(self, origin: LinkId, answer: Packet) -> None:
        # Send the omitted COMMIT first, because the reply is valid only after every earlier commit.
        self.acks.make_up_for([self._links[origin]] if origin in self._links else ())
        self._core.send(origin, answer)

    def ping(self) -> None:
        """Begin a ping round: ping every learner, to check whether it still follows this leader."""
        self._syncs.round += 1
        ping = Ping(self._last_proposed)
        for peer in self._links.values():
            if peer.step >= Step.SYNCING:
                self._core.send(peer.link, ping)

    def is_due(self, peer: LearnerLink) -> bool:
        """Return whether this learner has not replied to the newest ping.

        Every ping round after the learner's UPTODATE includes the learner.
        """
        return peer.answered_round < self._syncs.round

    def on_pong(self, peer: LearnerLink, pong: Ping) -> None:
        """Handle a learner's reply to its oldest unanswered ping; replies arrive in the order of the pings."""
        peer.answered_round += 1
        for session_id, timeout_ms in pong.touched:
            self._core.application.touch(self._core.now, session_id, timeout_ms, peer.peer_id)
        if self._syncs:
            self._answer_syncs()

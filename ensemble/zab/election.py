"""Fast leader election (org.apache.zookeeper.server.quorum.FastLeaderElection).

A LOOKING peer votes for the best candidate in the votes received in its round, and decides when a quorum has the same
vote. A vote is not binding: votes may be lost, and a wrong decision only costs time, because a leader needs a quorum of
ACKEPOCHs before it can do anything. So a vote may contain a zxid that is not durable yet; ACKEPOCH, which is binding,
waits for a barrier queued after that transaction.

A peer that has lost transactions (`Core.incomplete`) has no vote. If a peer's history led to a tree that differs from
its leader's (`Core.in_doubt`), some transaction is missing or wrong. Such a peer is not a candidate. It votes only for
peers whose history ends no earlier than its own, because acknowledged transactions must not be lost.
"""

from __future__ import annotations

from typing import NamedTuple

from zabka.ensemble.ids import Epoch, PeerId, Zxid
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import SendNotification
from zabka.ensemble.zab.messages import Notification, PeerState, Vote
from zabka.ensemble.zab.quorum import QuorumSystem

FINALIZE_WAIT_MS = 200
"""Time that a peer waits for a better vote after a quorum has agreed (FastLeaderElection.finalizeWait)."""
RESEND_MIN_MS = 200
"""First interval after which the vote is sent again (fastleader.minNotificationInterval)."""
RESEND_MAX_MS = 1600
"""Maximum interval after which the vote is sent again.

In ZooKeeper the interval grows to 60 s, which makes an election after a long outage unnecessarily slow.
"""
RESEND_TIMER = "election.resend"
FINALIZE_TIMER = "election.finalize"
NO_DATA_ZXID = Zxid(-1)
"""Zxid in the notifications of a server that neither votes nor is a candidate."""
ROUND_LEAP_MAX = 1 << 32
"""Maximum by which another server's round may exceed this server's round.

A notification with a higher round is ignored, so that no peer adopts it and uses up all rounds.
"""
OBSERVER_VOTE_FLOOR = -(2**63)
"""Zxid and epoch in an observer's vote, so low that no peer prefers this vote."""


def better(candidate: Vote, current: Vote) -> bool:
    """Return whether `candidate` is the better vote: higher epoch, then zxid, then server id (totalOrderPredicate)."""
    return (candidate.peer_epoch, candidate.zxid, candidate.leader) > (
        current.peer_epoch,
        current.zxid,
        current.leader,
    )


def preferred(candidate: Vote, current: Vote, quorum: QuorumSystem) -> bool:
    """Return whether a vote is better than another; a vote for a server without weight never is."""
    if not quorum.weight(candidate.leader):
        return False
    return not quorum.weight(current.leader) or better(candidate, current)


class Settled(NamedTuple):
    """Vote of a peer that is not LOOKING: it leads or follows a leader."""

    vote: Vote
    round: int
    state: PeerState


class Election:
    """One peer's side of elections. `decided` is set when the election has ended; the caller then changes the role."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.round = 0
        self.looking = False
        self.decided: Vote | None = None
        self.proposal = Vote(core.my_id, Zxid(0), Epoch(0))
        self._initial = self.proposal
        self._received: dict[PeerId, Vote] = {}
        self._settled: dict[PeerId, Settled] = {}
        self._silent: dict[PeerId, None] = {}
        self._resend_ms = RESEND_MIN_MS
        self._finalizing = False
        self._agreed: dict[PeerId, None] = {}
        self._goes_on = False
        self._history = (Zxid(0), Epoch(0))

    def start(self, zxid: Zxid, current_epoch: Epoch, lost_leader: PeerId | None) -> None:
        """Begin a new round, voting for this peer.

        The election does not wait for the vote of `lost_leader`, because the link to that peer has just broken.
        """
        self._history = zxid, current_epoch
        self.round += 0 if self._goes_on else 1
        self._goes_on = False
        self.looking = True
        self.decided = None
        if self._core.incomplete or self._core.in_doubt:
            # ZooKeeper's servers send this zxid to announce that they have lost data. Other servers ignore such a vote,
            # and only reply with the current leader.
            self._initial = Vote(self._core.my_id, NO_DATA_ZXID, Epoch(0))
        elif self._core.reconfiguration.votes:
            self._initial = Vote(self._core.my_id, zxid, current_epoch)
        else:
            floor = OBSERVER_VOTE_FLOOR
            self._initial = Vote(self._core.my_id, Zxid(floor), Epoch(floor))
        if lost_leader is not None:
            self._silent[lost_leader] = None
        self._received.clear()
        self._settled.clear()
        self._resend_ms = RESEND_MIN_MS
        self._propose(self._initial)
        self._core.set_timer(RESEND_TIMER, self._resend_ms)
        self._check()

    def on_unreachable(self, voter: PeerId) -> None:
        """Stop waiting for the vote of that voter, because its election port cannot be reached."""
        self._silent[voter] = None
        if self.looking:
            self._check()

    def on_quorum_changed(self) -> None:
        """Check for a decision again, because the quorum system has changed."""
        if self.looking:
            self._check()

    def on_sign_of_life(self, voter: PeerId) -> None:
        """In the next election, wait again for the vote of this voter, because a message from it has arrived."""
        self._silent.pop(voter, None)

    def on_notification(self, src: PeerId, notification: Notification) -> None:
        """Process another peer's notification while this peer is LOOKING."""
        if notification.round > self.round + ROUND_LEAP_MAX:
            return
        if self._core.reconfiguration.learn_current(notification.config):
            # The other peer has a newer membership: adopt it and restart the election, because earlier votes do not
            # count.
            self.start(*self._history, None)
        voters = self._core.quorum.voters
        self._silent.pop(src, None)
        if src not in voters:
            if notification.state is PeerState.LOOKING:
                self._send(src)
            return
        vote = notification.vote
        if vote.leader not in voters:
            return
        if vote.leader == self._core.my_id and (self._core.incomplete or self._core.in_doubt):
            # The sender votes for this peer because of data that this peer has since lost. The sender will receive this
            # peer's present vote.
            return
        if vote.zxid == NO_DATA_ZXID:
            # The sender has lost data and does not vote, so do not wait for its vote.
            self._silent[src] = None
            self._check()
            return
        if notification.state is PeerState.LOOKING:
            self._on_looking(src, vote, notification.round)
        elif notification.state is not PeerState.OBSERVING:
            self._on_settled(src, Settled(vote, notification.round, notification.state))

    def recount(self, src: PeerId, notification: Notification) -> bool:
        """Process a vote that arrives after this peer was elected; return whether this peer has no supporter any more.

        A supporter is a peer that voted for this peer. A supporter is lost if it is LOOKING with a better vote in the
        same round: within a round a vote only improves, so the supporter will follow another leader. While there is
        another supporter, this peer must not give up. That supporter may already follow this peer and would lose its
        leader. Also, a new round would end the term of another leader elected in this round, and two peers could do
        this to each other forever.
        """
        vote, quorum, me = notification.vote, self._core.quorum, self._core.my_id
        if not self._agreed or notification.round != self.round or vote.zxid == NO_DATA_ZXID:
            return False
        if vote == self.proposal:
            self._agreed[src] = None
            return False
        if vote.leader == me or not preferred(vote, self.proposal, quorum):
            return False
        if src not in self._agreed:
            return False
        del self._agreed[src]
        return all(peer == me for peer in self._agreed) and not quorum.contains({me: None})

    def go_on(self) -> None:
        """Make the next election begin in the current round instead of a newer one.

        A newer round could make peers leave another leader.
        """
        self._goes_on = True

    def pass_over(self) -> None:
        """End the election without a decision, because this peer gets its role from a reconfiguration."""
        self._agreed = {}

    def on_timer(self, name: str) -> None:
        """Send the vote again, or decide after waiting long enough for a better vote."""
        if not self.looking:
            return
        if name == RESEND_TIMER:
            self._broadcast()
            self._resend_ms = min(self._resend_ms * 2, RESEND_MAX_MS)
            self._core.set_timer(RESEND_TIMER, self._resend_ms)
        elif name == FINALIZE_TIMER and self._finalizing:
            # A voter that did not reply is paused or cut off, so the next election need not wait for it again.
            self._silent |= dict.fromkeys(self._unanswered())
            self._decide(self.proposal, self._supporters())

    def _on_looking(self, src: PeerId, vote: Vote, round: int) -> None:
        if self._core.incomplete:
            return
        if round < self.round:
            self._send(src)
            return
        self._settled.pop(src, None)
        if round > self.round:
            self.round = round
            self._received.clear()
            self._propose(vote if self._prefers(vote, self._initial) else self._initial)
        elif self._prefers(vote, self.proposal):
            self._propose(vote)
        elif better(self.proposal, vote) or self._received.get(src) != vote:
            # Send this peer's vote again, because the sender may have received it before it was LOOKING, or not at all.
            # ZooKeeper relies on the repetition 200 ms later. (Both sides compare votes in the same order; otherwise
            # the two could reply to each other forever.)
            self._send(src)
        self._received[src] = vote
        self._check()

    def _prefers(self, candidate: Vote, current: Vote) -> bool:
        zxid, current_epoch = self._history
        if self._core.in_doubt and (candidate.peer_epoch, candidate.zxid) < (current_epoch, zxid):
            return False
        return preferred(candidate, current, self._core.quorum)

    def _on_settled(self, src: PeerId, settled: Settled) -> None:
        """Process the vote of a peer that has a leader.

        Follow that leader if a quorum follows it and the leader itself reports that it is leading.
        """
        leader = settled.vote.leader
        if settled.round == self.round:
            self._received[src] = settled.vote
        self._settled[src] = settled
        backers = {
            peer: None
            for peer, other in self._settled.items()
            if other.vote.leader == leader and other.vote.peer_epoch == settled.vote.peer_epoch
        }
        if settled.round == self.round:
            backers |= {peer: None for peer, vote in self._received.items() if vote == settled.vote}
        if self._core.reconfiguration.backs(backers) and self._leads(leader, settled.round):
            self.round = settled.round
            self._decide(settled.vote, backers)
        else:
            self._check()

    def _leads(self, leader: PeerId, round: int) -> bool:
        """Return whether a leader reports that it is leading (FastLeaderElection.checkLeader).

        Without this check, the followers of a dead leader could elect it again.
        """
        if leader == self._core.my_id:
            return round == self.round
        leader_vote = self._settled.get(leader)
        return leader_vote is not None and leader_vote.state is PeerState.LEADING

    def _propose(self, vote: Vote) -> None:
        self.proposal = vote
        if self._finalizing:
            self._finalizing = False
            self._core.cancel_timer(FINALIZE_TIMER)
        self._broadcast()

    def _check(self) -> None:
        """Decide if a quorum has the same vote as this peer.

        Decide at once if no voter can still send a better vote, otherwise after a short wait.
        """
        supporters = self._supporters()
        if not self._core.quorum.contains(supporters):
            return
        if not self._unanswered():
            self._decide(self.proposal, supporters)
        elif not self._finalizing:
            self._finalizing = True
            self._core.set_timer(FINALIZE_TIMER, FINALIZE_WAIT_MS)

    def _supporters(self) -> dict[PeerId, None]:
        supporters = {peer: None for peer, vote in self._received.items() if vote == self.proposal}
        stands_back = self._core.in_doubt and self.proposal.leader == self._core.my_id
        if self._core.my_id in self._core.quorum.voters and not self._core.incomplete and not stands_back:
            supporters[self._core.my_id] = None
        return supporters

    def _unanswered(self) -> list[PeerId]:
        """Return the voters whose vote has not arrived yet and could be better."""
        answered = ({self._core.my_id: None}, self._received, self._settled, self._silent)
        return [voter for voter in self._core.quorum.voters if not any(voter in known for known in answered)]

    def _decide(self, vote: Vote, agreed: dict[PeerId, None]) -> None:
        self.looking = False
        self.decided = self.proposal = vote
        self._agreed = agreed
        self._finalizing = False
        self._core.cancel_timer(FINALIZE_TIMER)
        self._core.cancel_timer(RESEND_TIMER)

    def _broadcast(self) -> None:
        for voter in self._core.quorum.voters:
            if voter != self._core.my_id:
                self._send(voter)

    def _send(self, to: PeerId) -> None:
        # An incomplete peer does not vote, so other peers must not adopt its round: send round 0.
        round = 0 if self._core.incomplete else self.round
        notification = Notification(PeerState.LOOKING, self.proposal, round, self._core.reconfiguration.text)
        self._core.out.append(SendNotification(to, notification))

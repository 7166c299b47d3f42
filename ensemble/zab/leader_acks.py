"""Commits without a COMMIT packet: a follower combines the leader's own acknowledgement with its own log.

A transaction is chosen when a quorum has it on disk in the epoch that proposed it. If the leader and one follower are a
quorum, as in an ensemble of three, that follower can detect this itself. The leader sends it an acknowledgement of its
own proposal (the learners' Ack), and the follower commits the transactions that are in both logs. A client that waits
on that follower gets its reply without the round trip of the follower's acknowledgement and the leader's COMMIT. The
other followers receive the acknowledgement too: together with the proposal, if that has not been sent yet, and instead
of a separate COMMIT packet. ZooKeeper has no such feature; peers of this implementation agree on it when they connect
(`FollowerInfo.heeds_acks`).

This is as safe as a COMMIT. Leader and follower have both acknowledged the epoch's initial history, and links are in
order, so each also has all transactions before that one. Every later leader needs the ACKEPOCH of one of the two. That
peer sent its ACKEPOCH after it logged the transaction, because after an ACKEPOCH it logs nothing more of this epoch.
And a leader whose history is older than that in an ACKEPOCH of its quorum is not established. Further conditions:

- Only an active quorum counts: while a change of membership is proposed, these acknowledgements are neither sent nor
  used. A leader also sends none after it has resigned for another.
- The leader may be the last to detect a commit. So a sync waits for everything proposed before it, committed or not,
  and so does the reply that a session has expired; a session exists from its proposal on. A client that has seen a
  newer state than its new server is rejected, as always.
- Two packets rely on earlier commits at the follower: a reply from the leader, and the proposal of a change of
  membership, after which the follower does not commit by itself. So the leader sends the omitted COMMIT before
  these packets.
- A follower that reconnects must not be truncated to the leader's last commit: it may have sent replies for
  more (`is_ahead`). It is synchronised when those transactions are committed too, which needs only the other followers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.messages import Ack, Commit

OUTSTANDING_MAX = 2
"""Maximum number of outstanding proposals at which a leader still sends acknowledgements of its own log.

With more, packets and turns limit the throughput, and an additional packet would cost more than it saves.
"""
REMINDER_TIMER = "leader.reminder"
REMINDER_MS = 20
"""Time after which the leader sends the omitted COMMIT to a follower whose own disk has not logged the transaction."""


class LeaderAcks:
    """Sends the leader's acknowledgements of its own log to its learners, and omits unnecessary COMMITs.

    `asked_by` is the link of the learner that forwarded the last proposed request, because a client waits there.
    `asked_by` is None for a client of the leader, whose reply needs no packet.
    """

    __slots__ = ("_core", "_held_back", "_reminds", "_up_to", "asked_by", "last_commit_sent")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._up_to = Zxid(0)
        self._reminds = False
        self._held_back: list[LearnerLink] = []
        self.asked_by: LinkId | None = None
        self.last_commit_sent = Zxid(0)
        """Zxid up to which COMMITs were sent, or were omitted because the learner commits without one."""

    def send_durable(self, zxid: Zxid, peers: Iterable[LearnerLink]) -> None:
        """Send an acknowledgement of the leader's own log to each follower that can commit because of it.

        The log is durable up to `zxid`, and contains uncommitted transactions.
        """
        core = self._core
        if self.asked_by is None or len(core.pending) > OUTSTANDING_MAX or core.leaving is not None:
            return
        if core.pending[0].zxid > zxid or core.reconfiguration.under_way:
            return
        ack = Ack(zxid, cumulative=True)
        for peer in peers:
            if self._can_commit(peer):
                peer.leader_acked = self._up_to = zxid
                core.send(peer.link, ack)

    def _can_commit(self, peer: LearnerLink) -> bool:
        """Return whether that learner and this leader are a quorum, so that the learner can commit by itself."""
        if not peer.heeds_acks or not peer.counts:
            return False
        # Check that the learner is a voter: if an oracle makes this server alone a quorum, a learner without a vote
        # adds nothing.
        quorum = self._core.quorum
        return peer.peer_id in quorum.voters and quorum.contains((self._core.my_id, peer.peer_id))

    def send_commit(self, zxid: Zxid, peers: Iterable[LearnerLink]) -> None:
        """Send a cumulative COMMIT up to `zxid` to each learner that supports it and needs it."""
        if zxid == self.last_commit_sent:
            return
        self.last_commit_sent = zxid
        commit = Commit(zxid, cumulative=True)
        for peer in peers:
            if peer.takes_one_commit and not self._commits_itself(peer, zxid):
                self._core.send(peer.link, commit)

    def _commits_itself(self, peer: LearnerLink, zxid: Zxid) -> bool:
        """Return whether a learner commits up to `zxid` without a COMMIT once its own log is durable up to `zxid`."""
        if peer.leader_acked < zxid or self._core.reconfiguration.under_way:
            return False
        if peer.acked >= zxid:
            return True
        if peer.link == self.asked_by:
            return False
        if not self._reminds:
            self._reminds = True
            self._core.set_timer(REMINDER_TIMER, REMINDER_MS)
        return True

    def on_reminder(self, peers: Iterable[LearnerLink]) -> None:
        """Send the omitted COMMIT to followers whose disks are slow, so that they need not wait for their disks."""
        self._reminds = False
        self.make_up_for(peers)

    def make_up_for(self, peers: Iterable[LearnerLink]) -> None:
        """Send the omitted COMMIT to learners that may not have committed yet, because the next packet depends on
        it.
        """
        for peer in peers:
            if peer.acked < self.last_commit_sent <= peer.leader_acked:
                peer.leader_acked = Zxid(0)
                self._core.send(peer.link, Commit(self.last_commit_sent, cumulative=True))

    # -- learners that reconnect ---------------------------------------------------------------------------------------

    def is_ahead(self, peer: LearnerLink, last_committed: Zxid) -> bool:
        """Return whether the learner, or the peer that it learned from, may have committed more than this leader has.

        In that case, the synchronisation of this learner is postponed.
        """
        if min(peer.last_zxid, self._up_to) <= last_committed:
            return False
        self._held_back.append(peer)
        self._core.syncs_put_off += 1
        return True

    def take_held_back(self, links: Mapping[LinkId, LearnerLink]) -> list[LearnerLink]:
        """Remove and return the learners whose postponed synchronisation can be tried again.

        More is committed now than when it was postponed. Learners whose link is lost are omitted.
        """
        if not self._held_back:
            return []
        held_back, self._held_back = self._held_back, []
        return [peer for peer in held_back if links.get(peer.link) is peer]


class CommonLog:
    """Zxids up to which the logs of a follower and of its leader are known to be durable."""

    __slots__ = ("leaders", "own")

    def __init__(self) -> None:
        self.leaders = Zxid(0)
        self.own = Zxid(0)

    @property
    def chosen_zxid(self) -> Zxid:
        """Highest zxid that is durable in both logs; it is chosen, because the two peers are a quorum."""
        return min(self.leaders, self.own)

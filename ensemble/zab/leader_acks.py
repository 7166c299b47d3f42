"""Commits without a COMMIT packet: a follower combines the leader's own acknowledgement with its own log.

A transaction is chosen once a quorum has it on disk in the epoch that proposed it. If the leader and one follower are a
quorum, as in an ensemble of three, that follower can detect this itself. The leader sends it an acknowledgement of its
own proposal (the learners' Ack), and the follower commits the transactions that both logs hold. A client that waits at
that follower gets its answer without the round trip of the follower's acknowledgement and the leader's COMMIT. The
other followers get the acknowledgement as well: with the proposal, if that has not been sent yet, and in place of a
packet with the COMMIT after it. ZooKeeper has no such feature; our own peers agree on it when they connect
(`FollowerInfo.heeds_acks`).

It is as safe as a COMMIT. Both have acknowledged the epoch's initial history, and links are in order, so each also
holds all transactions before that one. Every later leader needs the ACKEPOCH of one of the two. That peer sends
ACKEPOCH only after it logged the transaction, since afterwards it logs nothing more of this epoch. And a
leader with an older history than an ACKEPOCH of its quorum is not established. Further conditions:

- Only a quorum in force counts: while a change of membership is proposed, these acknowledgements are neither sent nor
  used. A leader also sends none once it has resigned for another.
- The leader may be the last to detect a commit. So a sync waits for everything proposed before it, committed or not,
  and so does the answer that a session has expired; a session lives from its proposal on. A client that has seen a
  newer state than its new server is rejected, as always.
- A follower must have made its own commits before anything that relies on them: an answer from the leader, or a change
  of membership, since from its proposal on the follower does not commit by itself. So the leader sends the omitted
  COMMIT before these.
- A follower that reconnects must not be truncated to the leader's last commit, since it may have answered clients for
  more (`is_ahead`). It is synchronised once those transactions are committed too, which needs only the other followers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.messages import Ack, Commit

OUTSTANDING_MAX = 2
"""Maximum number of outstanding proposals for which a leader sends acknowledgements.

With more, packets and turns limit the throughput, and an additional packet costs more than it saves.
"""
REMINDER_TIMER = "leader.reminder"
REMINDER_MS = 20
"""Longest time that a commit stays unknown to a follower whose own disk has not logged it yet."""


class LeaderAcks:
    """A leader's acknowledgements of its own log to its learners.

    `asked_by` is the link that requested the last proposal, since a client waits there. It is None for a client of the
    leader, since that answer needs no packet.
    """

    __slots__ = ("_core", "_held_back", "_reminds", "_up_to", "asked_by", "last_commit_sent")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._up_to = Zxid(0)
        self._reminds = False
        self._held_back: list[LearnerLink] = []
        self.asked_by: LinkId | None = None
        self.last_commit_sent = Zxid(0)
        """The zxid up to which COMMITs were sent, or left out if a learner commits by itself."""

    def send_durable(self, zxid: Zxid, peers: Iterable[LearnerLink]) -> None:
        """This log is durable up to `zxid`, with uncommitted transactions: acknowledge it where that helps."""
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
        """Whether that learner and this server are a quorum."""
        if not peer.heeds_acks or not peer.counts:
            return False
        # If the oracle allows it, this server alone is a quorum: a learner without a vote adds nothing to that.
        quorum = self._core.quorum
        return peer.peer_id in quorum.voters and quorum.contains((self._core.my_id, peer.peer_id))

    def send_commit(self, zxid: Zxid, peers: Iterable[LearnerLink]) -> None:
        """Send one COMMIT for all transactions since the last, to each learner that takes it and needs it."""
        if zxid == self.last_commit_sent:
            return
        self.last_commit_sent = zxid
        commit = Commit(zxid, cumulative=True)
        for peer in peers:
            if peer.takes_one_commit and not self._commits_itself(peer, zxid):
                self._core.send(peer.link, commit)

    def _commits_itself(self, peer: LearnerLink, zxid: Zxid) -> bool:
        """Whether that learner has committed by itself, or will once its own log is durable."""
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
        """Send the COMMIT to followers with slow disks, which then need not wait for them."""
        self._reminds = False
        self.make_up_for(peers)

    def make_up_for(self, peers: Iterable[LearnerLink]) -> None:
        """Send the omitted COMMIT to learners that may not have committed yet: the next packet relies on it."""
        for peer in peers:
            if peer.acked < self.last_commit_sent <= peer.leader_acked:
                peer.leader_acked = Zxid(0)
                self._core.send(peer.link, Commit(self.last_commit_sent, cumulative=True))

    # -- learners that reconnect ---------------------------------------------------------------------------------------

    def is_ahead(self, peer: LearnerLink, last_committed: Zxid) -> bool:
        """Whether the learner, or the peer that it learned from, may have committed more than the leader has.

        Then its synchronisation has to wait.
        """
        if min(peer.last_zxid, self._up_to) <= last_committed:
            return False
        self._held_back.append(peer)
        self._core.syncs_put_off += 1
        return True

    def take_held_back(self, links: Mapping[LinkId, LearnerLink]) -> list[LearnerLink]:
        """Return the learners whose synchronisation waited and may be tried again, since more is committed now."""
        if not self._held_back:
            return []
        held_back, self._held_back = self._held_back, []
        return [peer for peer in held_back if links.get(peer.link) is peer]


class CommonLog:
    """The part of the log known to be on a follower's and its leader's disk, since this synchronisation."""

    __slots__ = ("leaders", "own")

    def __init__(self) -> None:
        self.leaders = Zxid(0)
        self.own = Zxid(0)

    @property
    def chosen_zxid(self) -> Zxid:
        """The highest chosen zxid, if the leader has sent acknowledgements."""
        return min(self.leaders, self.own)

"""Commits that a follower need not be told of: by the leader's own acknowledgement, and its own log.

A transaction is chosen once a quorum has it on disk in the epoch that proposed it.  Where the leader and one follower
are a quorum, as in an ensemble of three, that follower can know by itself: the leader acknowledges its own proposal to
it, in a learner's words (Ack), and the follower commits what both logs hold.  A client that waits there has its answer
without the way of the follower's acknowledgement to the leader and of the COMMIT back.  The others are told as well:
with the proposal, if that has not left yet, and instead of a packet with the COMMIT behind it.  ZooKeeper has nothing
like it; between our own peers it is agreed upon when they connect (`FollowerInfo.heeds_acks`).

It is as safe as a COMMIT.  Both have acknowledged the epoch's initial history, and links are in order, so that each
holds all before that transaction too.  Every later leader needs the promise of one of the two, and that comes after it
logged the transaction, since whoever has promised logs nothing more of this epoch; and nobody whose history is behind a
promise is established.  What else must hold:

- Only a quorum in force counts: nothing is said, and nothing that was said is used, while a change of membership is
  proposed; nor does a leader say anything once it has given way to another.
- The leader may be the last to know.  So a sync waits for everything proposed before it, committed or not, and so does
  the word that a session is over; a session lives from its proposal on.  A client that has seen more than the server it
  comes to is sent away, as ever.
- What a follower was left to find out by itself it has to know before all that relies on it: an answer from the leader,
  and a change of membership, from whose proposal on it finds out nothing.  So the COMMIT is made up for before these.
- A follower that comes back must not be cut back to what its leader has committed, since it may have answered for more
  (`is_ahead`): it is brought in sync once that is committed too, which needs the others alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.messages import Ack, Commit

OUTSTANDING_MAX = 2
"""How many proposals may be on their way for a leader to say anything.  With more, packets and turns are what limits
the ensemble, and one more of each costs more than it saves."""
REMINDER_TIMER = "leader.reminder"
REMINDER_MS = 20
"""So long at most does what was committed stay unknown to a follower whose own disk has not logged it yet."""


class LeaderAcks:
    """What one leader says of its own log, and to whom.  `asked_by` is who asked for the last proposal, since a client
    waits there: None where that is a client of the leader's, whose answer needs no word to anybody."""

    __slots__ = ("_core", "_held_back", "_reminds", "_up_to", "asked_by", "last_told")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._up_to = Zxid(0)
        self._reminds = False
        self._held_back: list[LearnerLink] = []
        self.asked_by: LinkId | None = None
        self.last_told = Zxid(0)
        """Up to where COMMITs were sent, or left out where a learner finds out by itself."""

    def send_durable(self, zxid: Zxid, peers: Iterable[LearnerLink]) -> None:
        """This log is durable up to `zxid`, and not all of that is committed yet: say so where it is of use."""
        core = self._core
        if self.asked_by is None or len(core.pending) > OUTSTANDING_MAX or core.leaving is not None:
            return
        if core.pending[0].zxid > zxid or core.reconfiguration.under_way:
            return
        said = Ack(zxid, cumulative=True)
        for peer in peers:
            if self._can_commit(peer):
                peer.told = self._up_to = zxid
                core.send(peer.link, said)

    def _can_commit(self, peer: LearnerLink) -> bool:
        """Are that learner and this server a quorum?"""
        if not peer.heeds_acks or not peer.counts:
            return False
        # By itself this server may be one too, where an oracle says so: a learner without a vote adds nothing to that.
        quorum = self._core.quorum
        return peer.peer_id in quorum.voters and quorum.contains((self._core.my_id, peer.peer_id))

    def tell_committed(self, zxid: Zxid, peers: Iterable[LearnerLink]) -> None:
        """One COMMIT for all since the last, where the learner takes that and does not know by itself."""
        if zxid == self.last_told:
            return
        self.last_told = zxid
        commit = Commit(zxid, cumulative=True)
        for peer in peers:
            if peer.takes_one_commit and not self._commits_itself(peer, zxid):
                self._core.send(peer.link, commit)

    def _commits_itself(self, peer: LearnerLink, zxid: Zxid) -> bool:
        """Does that learner know, or will it once its own log is durable?"""
        if peer.told < zxid or self._core.reconfiguration.under_way:
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
        """Whose disk is slow need not wait for it any longer."""
        self._reminds = False
        self.make_up_for(peers)

    def make_up_for(self, peers: Iterable[LearnerLink]) -> None:
        """Send the COMMIT that was left out, where the learner may not know yet: what follows relies on it."""
        for peer in peers:
            if peer.acked < self.last_told <= peer.told:
                peer.told = Zxid(0)
                self._core.send(peer.link, Commit(self.last_told, cumulative=True))

    # -- who comes back ----------------------------------------------------------------------------------------------

    def is_ahead(self, peer: LearnerLink, last_committed: Zxid) -> bool:
        """May it, or who told it, have committed more than the leader has?  Its synchronisation has to wait."""
        if min(peer.last_zxid, self._up_to) <= last_committed:
            return False
        self._held_back.append(peer)
        self._core.syncs_put_off += 1
        return True

    def take_held_back(self, links: Mapping[LinkId, LearnerLink]) -> list[LearnerLink]:
        """More is committed now: those whose synchronisation waits, and may be tried again."""
        if not self._held_back:
            return []
        held_back, self._held_back = self._held_back, []
        return [peer for peer in held_back if links.get(peer.link) is peer]


class CommonLog:
    """How far a follower's log is known to be its leader's as well, on both disks, since this synchronisation."""

    __slots__ = ("leaders", "own")

    def __init__(self) -> None:
        self.leaders = Zxid(0)
        self.own = Zxid(0)

    @property
    def chosen_zxid(self) -> Zxid:
        """Up to there all is chosen, where the leader has said anything."""
        return min(self.leaders, self.own)

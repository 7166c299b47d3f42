"""Commits that a follower need not be told of: by the leader's own acknowledgement, and its own log.

A transaction is chosen once a quorum has it on disk in the epoch that proposed it.  Where the leader and one follower
are a quorum, as in an ensemble of three, that follower can know by itself: the leader acknowledges its own proposal to
it, in a learner's words (Ack), and the follower commits what both logs hold.  A client that waits there has its answer
without the way of the follower's acknowledgement to the leader and of the COMMIT back.  ZooKeeper has nothing like it;
between our own peers it is agreed upon when they connect (`FollowerInfo.heeds_acks`).

It is as safe as a COMMIT.  Both have acknowledged the epoch's initial history, and links are in order, so that each
holds all before that transaction too.  Every later leader needs the promise of one of the two, and that comes after it
logged the transaction, since whoever has promised logs nothing more of this epoch; and nobody whose history is behind a
promise is established.  What else must hold:

- Only a quorum in force counts: nothing is said, and nothing that was said is used, while a change of membership is
  proposed; nor does a leader say anything once it has given way to another.
- The leader may be the last to know.  So a sync waits for everything proposed before it, committed or not, and so does
  the word that a session is over; a session lives from its proposal on.  A client that has seen more than the server it
  comes to is sent away, as ever.
- A follower that comes back must not be cut back to what its leader has committed, since it may have answered for more
  (`is_ahead`): it is brought in sync once that is committed too, which needs the others alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from ensemble.ids import LinkId, Zxid
from ensemble.zab.core import Core
from ensemble.zab.learner_link import LearnerLink
from ensemble.zab.messages import Ack

OUTSTANDING_MAX = 2
"""How many proposals may be on their way for a leader to say anything.  With more, packets and turns are what limits
the ensemble, and one more of each costs more than it saves."""


class LeaderAcks:
    """What one leader says of its own log, and to whom.  Only who has asked for the last proposal hears of it: there a
    client waits.  `asked_by` is its link, None where that is a client of the leader's."""

    __slots__ = ("_core", "_held_back", "_told", "_up_to", "asked_by")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._told: LearnerLink | None = None
        self._up_to = Zxid(0)
        self._held_back: list[LearnerLink] = []
        self.asked_by: LinkId | None = None

    def tell(self, zxid: Zxid, links: Mapping[LinkId, LearnerLink]) -> None:
        """This log is durable up to `zxid`, and not all of that is committed yet: say so where it is of use."""
        core = self._core
        if self.asked_by is None or len(core.pending) > OUTSTANDING_MAX or core.leaving is not None:
            return
        peer = links.get(self.asked_by)
        if peer is None or not peer.heeds_acks or not peer.counts or core.reconfiguration.under_way:
            return
        # By itself this peer may be one too, where an oracle says so: a learner without a vote adds nothing to that.
        if peer.peer_id not in core.quorum.voters or not core.quorum.contains((core.my_id, peer.peer_id)):
            return
        if core.pending[0].zxid <= zxid:
            self._told, self._up_to = peer, zxid
            core.send(peer.link, Ack(zxid, cumulative=True))

    def commits_itself(self, peer: LearnerLink, zxid: Zxid) -> bool:
        """Does that learner need no COMMIT of `zxid`, since it knows by now that both logs hold it?"""
        knows = peer is self._told and peer.acked >= zxid and self._up_to >= zxid
        return knows and not self._core.reconfiguration.under_way

    # -- who comes back ----------------------------------------------------------------------------------------------

    def is_ahead(self, peer: LearnerLink, last_committed: Zxid) -> bool:
        """May it, or who told it, have committed more than the leader has?  Its synchronisation has to wait."""
        if min(peer.last_zxid, self._up_to) <= last_committed:
            return False
        self._held_back.append(peer)
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
    def end(self) -> Zxid:
        """Up to there all is chosen, where the leader has said anything."""
        return min(self.leaders, self.own)

"""A leader's part in a membership change: it activates the change, and resigns if another peer becomes leader.

Source: Leader.tryToCommit, getDesignatedLeader, allowedToCommit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zabka.ensemble.ids import PeerId, Zxid
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import EnsembleView
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import CommitAndActivate, InformAndActivate
from zabka.ensemble.zab.reconfiguration import quorum_address

HANDOVER_TIMER = "leader.handover"


class Handover:
    """Activates membership changes during one leader's term.

    `successor` is set when the leader resigns in favour of another peer. From then on, the leader commits nothing. Its
    learners close their links and follow the successor; afterwards this peer follows the successor too.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.successor: PeerId | None = None

    def view(self, learners: Iterable[LearnerLink]) -> EnsembleView:
        """Return the leader's view of the ensemble, against which a reconfiguration request is checked."""
        reconfiguration = self._core.reconfiguration
        return EnsembleView(
            current=reconfiguration.current,
            last_seen=reconfiguration.last_seen,
            synced=(self._core.my_id, *(peer.peer_id for peer in learners if peer.counts)),
            enabled=reconfiguration.enabled,
            standalone_enabled=self._core.config.standalone_enabled,
            several_addresses=self._core.config.several_addresses,
        )

    def complete(self, adopted: Iterable[PeerId]) -> None:
        """Activate a membership change that an earlier leader did not complete (ZOOKEEPER-1324).

        Called when a quorum has adopted the history; `adopted` are the members of that quorum.
        """
        reconfiguration = self._core.reconfiguration
        if reconfiguration.under_way:
            self._activate(reconfiguration.last_seen, dict.fromkeys(adopted, int(self._core.last_logged)))

    def commit(self, txn: Txn, logged: Mapping[PeerId, int], learners: Iterable[LearnerLink]) -> None:
        """Activate a membership change that a quorum of both memberships has logged, and notify all learners."""
        core = self._core
        membership = core.reconfiguration.read(txn)
        assert membership is not None, "a leader reads what it wrote"
        designated = self._activate(membership, {peer: zxid for peer, zxid in logged.items() if zxid >= txn.zxid})
        for peer in learners:
            if peer.forwarding and peer.observer:
                core.send(peer.link, InformAndActivate(txn, designated))
            elif peer.forwarding:
                core.send(peer.link, CommitAndActivate(Zxid(txn.zxid), designated))

    def _activate(self, membership: Membership, logged: Mapping[PeerId, int]) -> PeerId:
        core = self._core
        designated = designated_leader(core.my_id, core.reconfiguration.current, membership, logged)
        core.reconfiguration.activate(membership, designated)
        if designated != core.my_id:
            self.successor = designated
            # Each learner confirms the change by closing its link. Wait for that, but only for a limited time.
            core.set_timer(HANDOVER_TIMER, core.ticks_ms(core.config.sync_limit))
        return designated


def designated_leader(my_id: PeerId, before: Membership, after: Membership, logged: Mapping[PeerId, int]) -> PeerId:
    """Return the designated leader of a newly committed membership.

    This is the leader that committed the membership, if it is a voter at the same address in the new membership, or if
    it alone is a quorum there. Otherwise it is the voter whose log is longest among those that acknowledged the new
    membership. A server without weight never leads (FastLeaderElection.totalOrderPredicate).
    """
    address = quorum_address(after, my_id)
    if address is not None and address == (quorum_address(before, my_id) or address):
        return my_id
    quorum = after.quorum
    candidates = [peer for peer in after.voters if peer in logged and peer != my_id and quorum.weight(peer)]
    assert candidates or my_id in after.voters, "a quorum of the new membership acknowledged it"
    return max(candidates, key=lambda peer: (logged[peer], peer), default=my_id)

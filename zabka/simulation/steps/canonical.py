"""Equality of server states for the search: parts that cannot affect later behaviour are ignored.

- The time of the last contact does not matter: when a server times out, the caller advances the time beyond all its
  limits at once. How soon a timer is due matters only for election timers. The age of a leader matters only while the
  leader is not established, for the check against `LOOKING_GRACE_MS`.
- Barriers are numbered from the oldest outstanding one: only their order matters.
- A barrier of a role that has ended has no effect.
- The votes of a finished election are discarded unread when the next election begins. A leader uses the
  accepted epochs and acknowledgements that it received only until it has proposed its epoch and a quorum has
  acknowledged it.
- The order of keys in a dict of links or voters determines only the order of effects on different links, which do not
  interact. The order is kept only for parked links, because their packets are processed one after another.
- What a leader and a follower know of each other's logs matters only for transactions after the last commit. Who sent
  the request for the last proposal matters only until that proposal is committed.
- An active learner does not read how it was synchronised, and its leader does not read how far the learner was behind.
- The reason why a peer became LOOKING is only written to the journal.
- The number of applied transactions affects only snapshots and the journal's checkpoints, which are a thousand
  transactions apart. Neither occurs in a search with small bounds.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import Barrier, Effect
from zabka.ensemble.zab.election import FINALIZE_TIMER, RESEND_TIMER, Election
from zabka.ensemble.zab.following import Following
from zabka.ensemble.zab.leader import LOOKING_GRACE_MS, Leader
from zabka.ensemble.zab.leader_acks import LeaderAcks
from zabka.ensemble.zab.learner import Learner, LearnerStep
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.peer import Peer
from zabka.ensemble.zab.reconfiguration import Reconfiguration
from zabka.ensemble.zab.role import Phase
from zabka.ensemble.zab.snapshot_pace import SnapshotPace
from zabka.simulation.steps.cloning import Rules, fingerprint
from zabka.simulation.steps.node import CoreNode

ANY_ORDER = frozenset(
    {
        "_links",
        "_accepted_epochs",
        "_acknowledged_epoch",
        "_adopted",
        "_logged",
        "_received",
        "_settled",
        "_silent",
        "waiting",
    }
)
_CORE = frozenset(
    {
        "now",
        "out",
        "outlet",
        "config",
        "random",
        "application",
        "_applied",
        "cause",
        "_reported",
        "_sending",
        "_appending",
        "_token",
        "snaps_sent",
        "quits_over_voters",
        "diffs_sent",
        "log_diffs_sent",
        "syncs_put_off",
    }
)
HEARD = frozenset({"_heard_ms", "heard_ms", "unacked_since_ms"})
_PACE = frozenset({"_config", "_random"})
_SINCE_SNAPSHOT = frozenset({"_txns", "_bytes"})
FAR_FROM_SNAPSHOT_TXNS = 100
_PEER = frozenset({"_application", "_recovered"})
_OLD_VOTES = frozenset({"proposal", "_initial", "_received", "_settled", "_resend_ms", "_finalizing", "_history"})
_DISCOVERED = frozenset({"_accepted_epochs", "_acknowledged_epoch", "_summary"})


def _of_core(core: Any) -> frozenset[str]:
    return _CORE


def _of_pace(pace: Any) -> frozenset[str]:
    return _PACE | _SINCE_SNAPSHOT if pace.txns_left > FAR_FROM_SNAPSHOT_TXNS else _PACE


def _of_peer(peer: Any) -> frozenset[str]:
    # `_lost_leader` matters while the peer waits for a new election, after it left its role or after a truncation.
    return _PEER if peer._core.awaiting_recovery else _PEER | {"_lost_leader"}


def _of_election(election: Any) -> frozenset[str]:
    return frozenset() if election.looking else _OLD_VOTES


def _of_leader(leader: Any) -> frozenset[str]:
    left_out = frozenset({"_lost"})
    if leader.phase is not Phase.DISCOVERY:
        left_out |= _DISCOVERED
    if leader.established:
        left_out |= {"_adopted", "_started_ms"}
    return left_out


def _of_link(link: Any) -> frozenset[str]:
    left_out = HEARD
    if link.forwarding:
        left_out |= {"last_zxid", "reading", "reads_on"}
    if link.leader_acked <= link.acked:
        left_out |= {"leader_acked"}
    return left_out


def _of_learner(learner: Any) -> frozenset[str]:
    left_out = HEARD
    if learner._step > LearnerStep.CONNECTING:
        left_out |= {"_started_ms", "_retry_ms"}
    if learner._step is LearnerStep.ACTIVE:
        left_out |= {"_mode", "_from_zxid", "_forces_snapshot", "_announced", "_committed", "_last_queued"}
    return left_out


def _of_following(following: Any) -> frozenset[str]:
    common = following._common
    known = max(common.leaders, common.own) <= following._core.last_committed
    return frozenset({"_common"}) if known else frozenset()


def _of_leader_acks(acks: Any) -> frozenset[str]:
    left_out: frozenset[str] = frozenset()
    if not acks._core.pending:
        left_out |= {"asked_by"}
    if acks._up_to <= acks._core.last_committed:
        left_out |= {"_up_to"}
    return left_out


def _of_reconfiguration(reconfiguration: Any) -> frozenset[str]:
    assert not reconfiguration.enabled, "the membership stays as it is"
    return frozenset({"current", "last_seen", "quorum", "text", "_has_oracle", "_oracle_agrees"})


LEFT_OUT = {
    Core: _of_core,
    SnapshotPace: _of_pace,
    Peer: _of_peer,
    Election: _of_election,
    Leader: _of_leader,
    LearnerLink: _of_link,
    Learner: _of_learner,
    Following: _of_following,
    LeaderAcks: _of_leader_acks,
    Reconfiguration: _of_reconfiguration,
}


def tidy(node: CoreNode) -> None:
    """Renumber a node's barriers, and remove the barriers' callbacks that belong to roles that have ended."""
    if node.peer is None:
        return
    core: Any = node.peer._core
    before = core._barriers[0][0] - 1 if core._barriers else core._token
    core._token -= before
    core._barriers = deque(
        (token - before, zxid, then, role) if role is core.role else (token - before, zxid, None, None)
        for token, zxid, then, role in core._barriers
    )
    node.queue = tuple(_renumbered(effect, before) for effect in node.queue)


def _renumbered(effect: Effect, before: int) -> Effect:
    return Barrier(effect.token - before) if isinstance(effect, Barrier) else effect


def node_digest(node: CoreNode) -> bytes:
    """Return a digest that is equal for servers whose later behaviour is the same."""
    tidy(node)
    rules = Rules(node.now_ms, {"_started_ms": LOOKING_GRACE_MS}, ANY_ORDER, LEFT_OUT)
    timers = [
        (name, max(0, due_ms - node.now_ms) if name in (FINALIZE_TIMER, RESEND_TIMER) else 0)
        for name, due_ms in sorted(node.timers.items())
    ]
    parts = node.id, node.disk, node.queue, node.peer, node.application, timers, node.halted
    return fingerprint(parts, rules)

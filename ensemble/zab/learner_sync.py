"""Sends a learner its missing history: from memory, from the log on disk, or as a snapshot.

The log is used if the learner's last transaction is older than those in memory, and is in this peer's history. That
history consists of the transactions replayed at the start and logged since (`Core.base` and later). Other transactions
in the directory may never have been committed (ZOOKEEPER-2846), and some may be missing: autopurge keeps the logs that
snapshots need, not all that a learner might need. So the transactions that are read must be exactly the transactions in
this peer's history, also at the ends of epochs (`Core.borders`). They are read in pieces, outside the storage thread.
The transactions in memory follow them without a gap (ZOOKEEPER-2418), in the turn that adds the learner to the
broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from zabka.ensemble.ids import Zxid
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import ReadLog
from zabka.ensemble.zab.learner_link import LearnerLink, Step
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import Commit, Diff, NewLeader, Packet, Proposal, Snap, Trunc
from zabka.ensemble.zab.sync import SyncMode, SyncPlan, plan_sync, what_both_may_commit


class Progress(Enum):
    """Progress of sending a learner its missing history.

    DONE: all of it was sent. READING: more is being read from the log. BROKEN: the log cannot be read.
    """

    DONE = "done"
    READING = "reading"
    BROKEN = "broken"


def send_history(core: Core, peer: LearnerLink) -> Progress:
    """Send the history after `peer.last_zxid`, from memory or as a snapshot, or begin to read the log for it."""
    plan = plan_sync(peer.last_zxid, core.last_committed, core.committed_log)
    if peer.wants_snapshot:
        plan = SyncPlan(SyncMode.SNAP, core.last_committed, [])
    elif plan.mode is SyncMode.SNAP and _log_may_hold(core, peer.last_zxid):
        _read_on(core, peer, core.config.snapshot_size_factor)
        return Progress.READING
    _send_plan(core, peer, plan)
    return Progress.DONE


def send_from_log(core: Core, peer: LearnerLink, txns: Sequence[Txn] | None) -> Progress:
    """Send the next transactions, which were read from the log.

    `txns` is None if the log does not contain them, or if they are too large.
    """
    peer.reading = None
    committed = [txn for txn in txns or () if txn.zxid <= core.last_committed]
    if not committed or committed[0].zxid != core.borders.get(peer.last_zxid, peer.last_zxid + 1):
        if peer.reads_on:
            core.unreadable_after = max(core.unreadable_after, peer.last_zxid)
            return Progress.BROKEN
        _send_plan(core, peer, SyncPlan(SyncMode.SNAP, core.last_committed, []))
        return Progress.DONE
    if not peer.reads_on:
        peer.reads_on = True
        core.log_diffs_sent += 1
        core.send(peer.link, Diff(core.last_committed))
    _send_txns(core, peer, committed)
    peer.last_zxid = committed[-1].zxid
    rest = plan_sync(peer.last_zxid, core.last_committed, core.committed_log)
    if rest.mode is SyncMode.DIFF:
        _send_txns(core, peer, rest.txns)
        return Progress.DONE
    _read_on(core, peer, 0)
    return Progress.READING


def begin_forwarding(core: Core, peer: LearnerLink, newleader_zxid: Zxid, membership: Membership) -> None:
    """Send NEWLEADER, and from now on every proposal, to a learner to which its missing history has been sent.

    Both happen in the same turn, so that no transaction can be missed. `membership` will be active when the learner
    receives UPTODATE.

    (ZooKeeper always sends the last seen membership, and its learner activates that membership. During a membership
    change, a reconnecting learner then treats a change that may still fail as committed, and passes it on, and the
    ensemble can split.)
    """
    outstanding = tuple(core.pending) if not peer.observer else ()
    # A learner uses the last membership that it receives, so send a proposed membership after NEWLEADER, which contains
    # the current one.
    before = what_both_may_commit(outstanding)
    after = outstanding[len(before) :]
    newleader = NewLeader(newleader_zxid, membership.text)
    peer.step = Step.SYNCING
    core.send_all(peer.link, [*_proposals(before), newleader, *_proposals(after)])


def _proposals(txns: tuple[Txn, ...]) -> list[Packet]:
    return [Proposal(txns)] if txns else []


def _log_may_hold(core: Core, zxid: Zxid) -> bool:
    known = max(core.base, core.unreadable_after + 1) <= zxid < core.last_committed
    return core.config.snapshot_size_factor > 0 and known and bool(core.committed_log)


def _read_on(core: Core, peer: LearnerLink, size_factor: float) -> None:
    peer.reading = peer.last_zxid
    core.out.append(ReadLog(peer.link, peer.last_zxid, core.base, size_factor, dict(core.borders)))


def _send_plan(core: Core, peer: LearnerLink, plan: SyncPlan) -> None:
    first: Packet
    if plan.mode is SyncMode.DIFF:
        first = Diff(plan.zxid)
    elif plan.mode is SyncMode.TRUNC:
        first = Trunc(plan.zxid)
    else:
        first = Snap(plan.zxid, core.application.snapshot())
    core.count_sync(plan.mode)
    core.send(peer.link, first)
    _send_txns(core, peer, plan.txns)


def _send_txns(core: Core, peer: LearnerLink, txns: Sequence[Txn]) -> None:
    if peer.cumulative and txns:
        core.send(peer.link, Proposal(tuple(txns)))
        core.send(peer.link, Commit(txns[-1].zxid, cumulative=True))
        return
    for txn in txns:
        core.send(peer.link, Proposal((txn,)))
        core.send(peer.link, Commit(txn.zxid))

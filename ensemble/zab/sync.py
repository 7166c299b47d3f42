"""How a leader synchronises a learner with its own history: DIFF, TRUNC or SNAP (LearnerHandler.syncFollower)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import takewhile

import msgspec

from zabka.ensemble.ids import Zxid, counter_of, epoch_of
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import Txn

COMMITTED_LOG_LENGTH = 500
"""Number of latest transactions that a peer keeps in memory for DIFF and TRUNC (zookeeper.commitLogCount)."""

SNAPSHOT_SIZE_FACTOR = 0.33
"""Maximum size of a log part that is sent instead of a snapshot, as a fraction of the snapshot.

Source: snapshotSizeFactor.
"""


class SyncMode(StrEnum):
    """Leader's first instruction to a learner."""

    DIFF = "DIFF"
    TRUNC = "TRUNC"
    SNAP = "SNAP"


class SyncPlan(msgspec.Struct, frozen=True):
    """Kind and zxid of the first packet, and the committed transactions that follow it."""

    mode: SyncMode
    zxid: Zxid
    txns: list[Txn]


def what_both_may_commit(proposed: Iterable[Txn]) -> tuple[Txn, ...]:
    """Return the transactions that a follower can commit by its leader's acknowledgement and its own.

    They end before a change of membership. The leader must commit that change, and transactions after it, first.
    """
    return tuple(takewhile(lambda txn: txn.type != OpCode.RECONFIG, proposed))


def plan_sync(learner_zxid: Zxid, last_processed: Zxid, committed_log: Sequence[Txn]) -> SyncPlan:
    """Decide, in ZooKeeper's order of cases, how a learner whose log ends at `learner_zxid` is synchronised.

    `committed_log` contains the leader's latest transactions without gaps, oldest first, ending at `last_processed`; if
    it is empty, the leader has only its tree.
    """
    lowest = committed_log[0].zxid if committed_log else last_processed
    highest = committed_log[-1].zxid if committed_log else last_processed
    # "New-epoch zxid": ZooKeeper's own leaders and learners report epoch << 32 before the epoch's first transaction.
    new_epoch_zxid = counter_of(learner_zxid) == 0
    if learner_zxid == last_processed:
        return SyncPlan(SyncMode.DIFF, learner_zxid, [])
    if learner_zxid > highest and not new_epoch_zxid:
        return SyncPlan(SyncMode.TRUNC, highest, [])
    if committed_log and lowest <= learner_zxid <= highest:
        return _walk(learner_zxid, last_processed, committed_log, new_epoch_zxid)
    return SyncPlan(SyncMode.SNAP, last_processed, [])


def _walk(learner_zxid: Zxid, last_processed: Zxid, committed_log: Sequence[Txn], new_epoch_zxid: bool) -> SyncPlan:
    """Find where the learner's history and the committed log differ (LearnerHandler.queueCommittedProposals)."""
    highest = committed_log[-1].zxid
    previous = committed_log[0].zxid
    for index, txn in enumerate(committed_log):
        if txn.zxid == learner_zxid:
            return SyncPlan(SyncMode.DIFF, highest, list(committed_log)[index + 1 :])
        if txn.zxid > learner_zxid:
            rest = list(committed_log)[index:]
            if new_epoch_zxid:
                return SyncPlan(SyncMode.DIFF, highest, rest)
            # ZooKeeper's learners cannot truncate their log across an epoch boundary.
            if epoch_of(txn.zxid) != epoch_of(learner_zxid):
                return SyncPlan(SyncMode.SNAP, last_processed, [])
            return SyncPlan(SyncMode.TRUNC, previous, rest)
        previous = txn.zxid
    raise AssertionError("the caller checked that the learner's zxid is within the committed log")


def follows(previous: int, zxid: int) -> bool:
    """Return whether `zxid` can directly follow `previous`: the next number, or the first of a higher epoch."""
    return zxid == previous + 1 or (counter_of(zxid) == 1 and epoch_of(zxid) > epoch_of(previous))

"""Decides how a leader synchronises a learner with its history: DIFF, TRUNC or SNAP (LearnerHandler.syncFollower)."""

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
"""Maximum size of the part of the log that is sent instead of a snapshot, as a fraction of the snapshot's size.

Source: snapshotSizeFactor.
"""


class SyncMode(StrEnum):
    """Kind of a learner's synchronisation, named after the type of the leader's first packet."""

    DIFF = "DIFF"
    TRUNC = "TRUNC"
    SNAP = "SNAP"


class SyncPlan(msgspec.Struct, frozen=True):
    """Type and zxid of the first packet to a learner, and the committed transactions to send after it."""

    mode: SyncMode
    zxid: Zxid
    txns: list[Txn]


def what_both_may_commit(proposed: Iterable[Txn]) -> tuple[Txn, ...]:
    """Return the transactions that a follower can commit without a COMMIT, because it and its leader have logged them.

    The result ends before a membership change, which the leader must commit itself, before any transaction after it.
    """
    return tuple(takewhile(lambda txn: txn.type != OpCode.RECONFIG, proposed))


def plan_sync(learner_zxid: Zxid, last_processed: Zxid, committed_log: Sequence[Txn]) -> SyncPlan:
    """Decide how to synchronise a learner whose log ends at `learner_zxid`; the order of the cases is ZooKeeper's.

    `committed_log` contains the leader's latest transactions without gaps, oldest first, ending at `last_processed`; if
    it is empty, the leader has only its tree.
    """
    lowest = committed_log[0].zxid if committed_log else last_processed
    highest = committed_log[-1].zxid if committed_log else last_processed
    # "New-epoch zxid": epoch << 32, which ZooKeeper's leaders and learners report before the epoch's first transaction.
    new_epoch_zxid = counter_of(learner_zxid) == 0
    if learner_zxid == last_processed:
        return SyncPlan(SyncMode.DIFF, learner_zxid, [])
    if learner_zxid > highest and not new_epoch_zxid:
        return SyncPlan(SyncMode.TRUNC, highest, [])
    if committed_log and lowest <= learner_zxid <= highest:
        return _walk(learner_zxid, last_processed, committed_log, new_epoch_zxid)
    return SyncPlan(SyncMode.SNAP, last_processed, [])


def _walk(learner_zxid: Zxid, last_processed: Zxid, committed_log: Sequence[Txn], new_epoch_zxid: bool) -> SyncPlan:
    """Plan the synchronisation of a learner whose last zxid is in the range of the committed log.

    Find where the two histories diverge (LearnerHandler.queueCommittedProposals).
    """
    highest = committed_log[-1].zxid
    previous = committed_log[0].zxid
    for index, txn in enumerate(committed_log):
        if txn.zxid == learner_zxid:
            return SyncPlan(SyncMode.DIFF, highest, list(committed_log)[index + 1 :])
        if txn.zxid > learner_zxid:
            rest = list(committed_log)[index:]
            if new_epoch_zxid:
                return SyncPlan(SyncMode.DIFF, highest, rest)
            # Across an epoch boundary, send a snapshot instead of TRUNC, because ZooKeeper's learners cannot truncate
            # across it.
            if epoch_of(txn.zxid) != epoch_of(learner_zxid):
                return SyncPlan(SyncMode.SNAP, last_processed, [])
            return SyncPlan(SyncMode.TRUNC, previous, rest)
        previous = txn.zxid
    raise AssertionError("the caller checked that the learner's zxid is within the committed log")


def follows(previous: int, zxid: int) -> bool:
    """Return whether `zxid` can directly follow `previous`: the next number, or the first of a higher epoch."""
    return zxid == previous + 1 or (counter_of(zxid) == 1 and epoch_of(zxid) > epoch_of(previous))

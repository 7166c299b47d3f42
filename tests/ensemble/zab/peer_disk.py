"""The disk of a simulated peer: its queue of writes, and what remains after a crash."""

from __future__ import annotations

from random import Random

from zabka.ensemble.ids import Epoch
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    Effect,
    ReadLog,
    Recovered,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveDoubt,
    SaveMembership,
    SaveNextMembership,
    SaveSnapshot,
    TruncateLog,
)
from zabka.ensemble.zab.membership import Membership


class Disk:
    """Queue of disk operations, the data written so far, and how much of the log is fsynced."""

    def __init__(self) -> None:
        self.accepted = Epoch(0)
        self.current = Epoch(0)
        self.log: list[Txn] = []
        self.synced = 0
        self.incomplete = self.in_doubt = False
        self.snapshots: list[TreeSnapshot] = []
        self.membership: Membership | None = None
        self.next_membership: Membership | None = None

    def execute(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self.log += effect.txns
        elif isinstance(effect, TruncateLog):
            self.log = [txn for txn in self.log if txn.zxid <= effect.zxid]
            self.snapshots = [s for s in self.snapshots if s.zxid <= effect.zxid]
            self.synced = len(self.log)
        elif isinstance(effect, SaveSnapshot):
            if effect.replaces_history:
                self.log, self.synced, self.snapshots, self.in_doubt = [], 0, [], False
            self.snapshots.append(effect.snapshot)
        elif isinstance(effect, SaveAcceptedEpoch):
            self.accepted = effect.epoch
        elif isinstance(effect, SaveCurrentEpoch):
            assert self.synced == len(self.log), "currentEpoch before the history it stands for is durable"
            self.current = effect.epoch
            self.incomplete = False
        elif isinstance(effect, SaveDoubt):
            self.in_doubt = True
        elif isinstance(effect, SaveMembership):
            self.membership, self.next_membership = effect.membership, None
        elif isinstance(effect, SaveNextMembership):
            self.next_membership = effect.membership
        elif isinstance(effect, Barrier):
            self.synced = len(self.log)

    def read_log(self, effect: ReadLog) -> list[Txn] | None:
        zxids = [txn.zxid for txn in self.log]
        if effect.after != effect.base and effect.after not in zxids:
            return None
        return [txn for txn in self.log if txn.zxid > effect.after][:5] or None

    def rot(self, random: Random) -> None:
        """Make part of the log unreadable at the peer's next start. Even fsynced transactions can be affected."""
        del self.log[random.randrange(0, len(self.log) + 1) :]
        self.synced = len(self.log)
        self.incomplete = True

    def lose_power(self, random: Random) -> None:
        kept = random.randrange(self.synced, len(self.log) + 1)
        del self.log[kept:]

    def last_durable(self) -> int:
        snapshot = max((s.zxid for s in self.snapshots), default=0)
        return max(snapshot, self.log[self.synced - 1].zxid if self.synced else 0)

    def recovered(self) -> Recovered:
        snapshot = max(self.snapshots, key=lambda s: s.zxid, default=None)
        base = snapshot.zxid if snapshot else 0
        txns = [t for t in self.log if t.zxid > base]
        return Recovered(self.accepted, self.current, snapshot, txns, not self.incomplete, self.in_doubt)

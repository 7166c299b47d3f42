"""A disk on which every operation is a separate step: performed operations are durable, waiting operations are not."""

from __future__ import annotations

from typing import Protocol

import msgspec

from zabka.ensemble.ids import Epoch, Zxid
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab import effects

DISK_EFFECTS: tuple[type[effects.Effect], ...] = (
    effects.Append, effects.Barrier, effects.SaveAcceptedEpoch, effects.SaveCurrentEpoch, effects.SaveDoubt,
    effects.SaveMembership, effects.SaveNextMembership, effects.SaveSnapshot, effects.TruncateLog,
)  # fmt: skip
"""Types of the effects by which the protocol code requests disk operations."""


class NodeDisk(Protocol):
    """Interface of a disk, for nodes of the bare protocol and for checkers."""

    @property
    def accepted(self) -> Epoch: ...
    @property
    def current(self) -> Epoch: ...
    def after(self, effect: effects.Effect) -> NodeDisk: ...
    def recovered(self) -> effects.Recovered: ...
    def read_log(self, wanted: effects.ReadLog) -> list[Txn] | None: ...
    def last_durable(self) -> Zxid: ...
    def holds(self, zxid: Zxid) -> bool: ...
    def history(self) -> list[int]: ...
    def outline(self) -> tuple[int, ...]: ...


class CoreDisk(msgspec.Struct, frozen=True):
    """One peer's disk as an immutable value.  `after` returns the disk after an operation."""

    accepted: Epoch = Epoch(0)
    current: Epoch = Epoch(0)
    log: tuple[Txn, ...] = ()
    snapshots: tuple[TreeSnapshot, ...] = ()

    def after(self, effect: effects.Effect) -> CoreDisk:
        """Return this disk after one more durable operation."""
        change = msgspec.structs.replace
        if isinstance(effect, effects.Append):
            return change(self, log=(*self.log, *effect.txns))
        if isinstance(effect, effects.TruncateLog):
            return change(
                self,
                log=tuple(txn for txn in self.log if txn.zxid <= effect.zxid),
                snapshots=tuple(s for s in self.snapshots if s.zxid <= effect.zxid),
            )
        if isinstance(effect, effects.SaveSnapshot):
            if effect.replaces_history:
                return change(self, log=(), snapshots=(effect.snapshot,))
            return change(self, snapshots=(*self.snapshots[-2:], effect.snapshot))
        if isinstance(effect, effects.SaveAcceptedEpoch):
            return change(self, accepted=effect.epoch)
        if isinstance(effect, effects.SaveCurrentEpoch):
            return change(self, current=effect.epoch)
        assert isinstance(effect, effects.Barrier | effects.SaveMembership | effects.SaveNextMembership), (
            f"no disk operation: {effect}"
        )
        return self

    def recovered(self) -> effects.Recovered:
        """Return what a starting process reads: the epochs, the newest snapshot, and the log after the snapshot."""
        snapshot = max(self.snapshots, key=lambda s: s.zxid, default=None)
        base = snapshot.zxid if snapshot else 0
        return effects.Recovered(self.accepted, self.current, snapshot, [t for t in self.log if t.zxid > base])

    def read_log(self, wanted: effects.ReadLog) -> list[Txn] | None:
        """Return the transactions in the log after the requested zxid, or None if not all of them are there."""
        after = wanted.after
        if after != wanted.base and all(txn.zxid != after for txn in self.log):
            return None
        return [txn for txn in self.log if txn.zxid > after] or None

    def last_durable(self) -> Zxid:
        """Return the zxid of the last transaction on the disk."""
        snapshot = max((s.zxid for s in self.snapshots), default=0)
        return Zxid(max(snapshot, self.log[-1].zxid if self.log else 0))

    def holds(self, zxid: Zxid) -> bool:
        """Return whether that transaction is in the log or in a snapshot."""
        return any(txn.zxid == zxid for txn in self.log) or any(
            image.czxid == zxid for snapshot in self.snapshots for image in snapshot.nodes
        )

    def history(self) -> list[int]:
        """Return the zxids of all transactions on the disk, in order."""
        newest = max(self.snapshots, key=lambda s: s.zxid, default=None)
        held = [image.czxid for image in newest.nodes] if newest else []
        return held + [txn.zxid for txn in self.log if not newest or txn.zxid > newest.zxid]

    def outline(self) -> tuple[int, ...]:
        """Return an empty tuple, because a search distinguishes these disks only by their history."""
        return ()

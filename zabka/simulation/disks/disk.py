"""The simulated disk under a peer: an ordered queue, an fsync boundary, and two ways to lose the power.

Operations are done in order, a batch at a time.  What a batch appended is written when the batch is done, and durable
when it held a barrier.  A process crash in the midst of a batch keeps a random part of it; a power loss drops what was
not durable (or keeps a random part of that: a disk may have written more than it was asked to).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from random import Random

from zabka.ensemble.ids import Epoch, Zxid
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
from zabka.journal.events import LogDamageFound
from zabka.simulation.kernel.draws import draw_below
from zabka.simulation.kernel.scheduler import Scheduler

FSYNC_US_MIN = 80
FSYNC_US_MAX = 900
SNAPSHOTS_KEPT = 3
LOG_PIECE_TXNS = 20

DISK_EFFECTS: tuple[type[Effect], ...] = (
    Append, Barrier, SaveAcceptedEpoch, SaveCurrentEpoch, SaveDoubt, SaveMembership, SaveNextMembership, SaveSnapshot,
    TruncateLog,
)  # fmt: skip


_zxid_of = attrgetter("zxid")


def _nobody_hears(reason: str) -> None:
    return


class SimDisk:
    """One peer's disk; outlives its processes."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler = scheduler
        self._random = random
        self.slow_factor = 1
        self.complete = True
        self.in_doubt = False
        self._log: list[Txn] = []
        self._durable = 0
        self._snapshots: list[TreeSnapshot] = []
        self.membership = ""
        """The membership in force, as text; empty while it is the one that the peer was configured with."""
        self.next_membership = ""
        self._accepted = Epoch(0)
        self._current = Epoch(0)
        self._queue: list[Effect] = []
        self._in_progress: list[Effect] = []
        self._generation = 0
        self._on_durable: Callable[[int], None] = lambda token: None
        self._on_recovered: Callable[[Recovered], None] = lambda recovered: None
        self._on_failed: Callable[[str], None] = _nobody_hears
        self.found: list[LogDamageFound] = []
        """The damage that was met when it was last read."""

    def attach(
        self,
        on_durable: Callable[[int], None],
        on_recovered: Callable[[Recovered], None],
        on_failed: Callable[[str], None] = _nobody_hears,
    ) -> Recovered:
        """A process opens the disk: what it finds, and where to call back."""
        self._on_durable = on_durable
        self._on_recovered = on_recovered
        self._on_failed = on_failed
        return self.recover()

    def recover(self) -> Recovered:
        """The newest snapshot and the log after it."""
        snapshot = self._snapshots[-1] if self._snapshots else None
        base = snapshot.zxid if snapshot else -1
        txns = [t for t in self._log if t.zxid > base]
        return Recovered(self._accepted, self._current, snapshot, txns, self.complete, self.in_doubt)

    # -- what a power loss would leave -----------------------------------------------------------------------------

    @property
    def accepted(self) -> Epoch:
        """acceptedEpoch, as written."""
        return self._accepted

    @property
    def current(self) -> Epoch:
        """currentEpoch, as written."""
        return self._current

    def last_durable(self) -> Zxid:
        """The history's end, as far as it is fsynced."""
        snapshot = self._snapshots[-1].zxid if self._snapshots else Zxid(0)
        return max(snapshot, self._log[self._durable - 1].zxid) if self._durable else snapshot

    def holds(self, zxid: Zxid) -> bool:
        """Is that transaction fsynced here, in the log or below a snapshot?"""
        place = bisect_left(self._log, zxid, hi=self._durable, key=_zxid_of)
        if place < self._durable and self._log[place].zxid == zxid:
            return True
        return bool(self._snapshots) and zxid <= self._snapshots[-1].zxid

    def history(self) -> list[int]:
        """Every zxid in the log or on its way there."""
        waiting = [effect for effect in (*self._in_progress, *self._queue) if isinstance(effect, Append)]
        return [*(txn.zxid for txn in self._log), *(txn.zxid for effect in waiting for txn in effect.txns)]

    def read_log(self, wanted: ReadLog) -> list[Txn] | None:
        """Some of the transactions that are wanted; None where the log does not hold them without a gap."""
        after = wanted.after
        place = bisect_left(self._log, after + 1, key=_zxid_of)
        known = after == wanted.base or (place > 0 and self._log[place - 1].zxid == after)
        return self._log[place : place + LOG_PIECE_TXNS] or None if known else None

    def submit(self, effect: Effect) -> None:
        """Queue an operation; each transaction of an append is one of its own, for a crash may come between them."""
        if isinstance(effect, Append):
            self._queue += [Append([txn]) for txn in effect.txns]
        else:
            self._queue.append(effect)
        if not self._in_progress:
            self._begin()

    def _begin(self) -> None:
        self._in_progress, self._queue = self._queue, []
        self._scheduler.post(self._scheduler.now_us + self._takes_us(), partial(self._end, self._generation))

    def _takes_us(self) -> int:
        """How long the batch that begins will take."""
        return (FSYNC_US_MIN + draw_below(self._random, FSYNC_US_MAX - FSYNC_US_MIN)) * self.slow_factor

    def _end(self, generation: int) -> None:
        if generation != self._generation:
            return
        batch, self._in_progress = self._in_progress, []
        tokens: list[int] = []
        reloaded = False
        for effect in batch:
            reloaded = self._do(effect) or reloaded
            if isinstance(effect, Barrier):
                tokens.append(effect.token)
        for token in tokens:
            self._on_durable(token)
        if reloaded:
            self._on_recovered(self.recover())
        if self._queue and not self._in_progress:
            self._begin()

    def _do(self, effect: Effect) -> bool:
        if isinstance(effect, Append):
            self._log += effect.txns
        elif isinstance(effect, Barrier):
            self._durable = len(self._log)
        elif isinstance(effect, SaveAcceptedEpoch):
            self._accepted = effect.epoch
        elif isinstance(effect, SaveCurrentEpoch):
            assert self._durable == len(self._log), "currentEpoch before the history it stands for is durable"
            self._current = effect.epoch
            self.complete = True
        elif isinstance(effect, SaveDoubt):
            self.in_doubt = True
        elif isinstance(effect, SaveMembership):
            self.membership, self.next_membership = effect.membership.text, ""
        elif isinstance(effect, SaveNextMembership):
            self.next_membership = effect.membership.text
        elif isinstance(effect, SaveSnapshot):
            self._save(effect)
        elif isinstance(effect, TruncateLog):
            self._log = [txn for txn in self._log if txn.zxid <= effect.zxid]
            self._durable = len(self._log)
            self._snapshots = [s for s in self._snapshots if s.zxid <= effect.zxid]
            return True
        return False

    def _save(self, effect: SaveSnapshot) -> None:
        if effect.replaces_history:
            self._log.clear()
            self._durable = 0
            self._snapshots.clear()
            self.in_doubt = False
        # A snapshot of its own counts once the log is durable that far (`zabka.ensemble.txnlog.snapshot_writer`).
        self._durable = len(self._log)
        self._snapshots.append(effect.snapshot)
        del self._snapshots[:-SNAPSHOTS_KEPT]

    def crash(self) -> None:
        """The process is killed: a random part of the batch under way was written; what was queued was not."""
        done = self._random.randrange(0, len(self._in_progress) + 1)
        for effect in self._in_progress[:done]:
            # An fsync that had not returned promises nothing; the rest of the batch is written as far as it got.
            if not isinstance(effect, Barrier):
                self._do(effect)
        self._forget()

    def rot(self) -> None:
        """While nothing runs on it, a random part of the log becomes unreadable, fsynced or not: the next process is
        told that its history is not complete."""
        del self._log[self._random.randrange(0, len(self._log) + 1) :]
        self._durable = len(self._log)
        self.complete = False

    def power_loss(self) -> None:
        """The machine loses power: what was not fsynced is gone, but for a random part that had reached the platter."""
        self.crash()
        kept = self._random.randrange(self._durable, len(self._log) + 1)
        del self._log[kept:]
        self._durable = len(self._log)

    def _forget(self) -> None:
        self._generation += 1
        self._queue.clear()
        self._in_progress.clear()
        self._on_durable = lambda token: None
        self._on_recovered = lambda recovered: None
        self._on_failed = _nobody_hears

"""Disk access of a running peer: executes disk effects in order, in groups, in a thread or in the event loop.

The thread is a job of `zabka.ensemble.runtime.workers`, and a group is one of its steps. All effects submitted while
the thread was busy form one group: consecutive appends become one write, and all barriers of the group share one
fdatasync. While the disk is fast (`sync_pace`) and the thread is idle, the event loop executes small groups of appends
and barriers itself, one group per round. The thread executes everything else. Log and pace have no lock: from `submit`
until the thread has finished only the thread uses them, otherwise only the loop.

Ordinary snapshots are written by a separate thread, because nothing waits for them and a large snapshot must not delay
the log. A truncation or a replacement of the history cancels a snapshot that is being written.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.runtime.workers import THREADS, WAIT, Job, Work, Workers
from zabka.ensemble.summary import Summary
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog import losses, newest_log
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT, write_epoch
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.log import PREALLOCATE_BYTES, LogWriter
from zabka.ensemble.txnlog.log_reading import LogReader
from zabka.ensemble.txnlog.recovery import LONE, Recovery, RecoveryPolicy, purge, replace_history, truncate
from zabka.ensemble.txnlog.snapshot_writer import SnapshotWriter
from zabka.ensemble.txnlog.snapshots import WrittenSnapshot
from zabka.ensemble.txnlog.stage_times import NANOS_PER_MS, StageTimes
from zabka.ensemble.txnlog.sync_pace import SyncPace
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    Effect,
    ReadLog,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveDoubt,
    SaveMembership,
    SaveNextMembership,
    SaveSnapshot,
    TruncateLog,
)
from zabka.ensemble.zab.membership import Membership

GROUP_MAX = 1000
"""Maximum number of disk effects in a group, which ends with an fsync and the report of its barriers."""

FSYNC_WARNING_MS = 1000
"""A sync that takes longer than this many milliseconds causes a warning (fsync.warningthresholdms)."""

QUICK_SYNC_US = 500
"""If the median duration of a sync is below this, the event loop itself waits for syncs.

The zoo.cfg key is zabka.fsync.inlinethresholdus.
"""

AT_ONCE = (0,)
"""Queueing times of a group that the event loop executes itself, without waiting in a queue."""

WAIT_TXNS_MAX = 128
"""Maximum number of transactions in a group that the event loop writes itself; the thread writes larger groups.

Up to this size, two thread switches cost more than a fast sync. With 64 writers that have one request in flight each,
throughput was a tenth higher with a limit of 32 than with a limit of 4, and higher still with a limit of 200.
"""


def is_full(failed: Exception) -> bool:
    """Return whether the error means that the disk, or its user's quota, is full."""
    return isinstance(failed, OSError) and failed.errno in (errno.ENOSPC, errno.EDQUOT)


def complaint(failed: Exception) -> str:
    """Return a one-line error message that reports a failed disk and states what to do."""
    if isinstance(failed, OSError) and is_full(failed):
        where = f" for {failed.filename}" if failed.filename else ""
        return (
            f"the disk is full{where}: this server stops before it acknowledges what it cannot keep; "
            "make room and start it again, nothing that was acknowledged is lost"
        )
    return f"the disk failed: {failed}"


class _RollLog(Effect):
    """Begin a new log file with the next append, and give the pending snapshot its final name.

    When this effect is executed, the log before it is durable.
    """

    snapshot: int


def _wall_ms() -> int:
    return time.time_ns() // NANOS_PER_MS


class _Submission(NamedTuple):
    effects: list[Effect]
    since_ns: int


class StorageListener(Protocol):
    """Interface through which the storage notifies its owner, always on the owner's event loop."""

    def on_durable(self, tokens: list[int]) -> None:
        """Report that all effects queued before these barriers are durable."""
        ...

    def on_truncated(self, recovery: Recovery) -> None:
        """Report a completed TruncateLog."""
        ...

    def on_snapshot_spoiled(self) -> None:
        """Request a new snapshot now, because the newest snapshot's file does not contain what was written."""
        ...

    def on_snapshot(self, written: WrittenSnapshot) -> None:
        """Report a durable snapshot."""
        ...

    def on_log_read(self, link: LinkId, after: Zxid, txns: list[Txn] | None) -> None:
        """Report the result of a ReadLog."""
        ...

    def on_storage_warning(self, line: str) -> None:
        """Report a warning for the operator."""
        ...

    def on_storage_failed(self, reason: str) -> None:
        """Report a disk failure: no further effect will be executed, so this peer must stop."""
        ...


class MembershipFiles(Protocol):
    """Storage of memberships, durable when a call returns. Both calls raise OSError or DataDirectoryError."""

    def save(self, membership: Membership) -> None:
        """Store the active membership."""
        ...

    def save_next(self, membership: Membership) -> None:
        """Store a proposed membership."""
        ...


class Storage:
    """Executes the disk effects of a peer: Append, Barrier, TruncateLog, SaveSnapshot, and the epoch effects.

    With `memberships` (for a zoo.cfg that can be changed), it also executes the membership effects. `post` passes a
    callback to the owner's event loop from another thread (`loop.call_soon_threadsafe`).
    """

    def __init__(
        self,
        directories: Directories,
        listener: StorageListener,
        post: Callable[..., object],
        *,
        preallocate_bytes: int = PREALLOCATE_BYTES,
        retain_snapshots: int = 0,
        snapshot_suffix: str = "",
        policy: RecoveryPolicy = LONE,
        fsync_warning_ms: int = FSYNC_WARNING_MS,
        quick_sync_us: int = QUICK_SYNC_US,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_ms: Callable[[], int] = _wall_ms,
        memberships: MembershipFiles | None = None,
        workers: Workers = THREADS,
    ) -> None:
        self.txns_logged = 0
        self.batch_sizes = Summary()
        self.fsync_time_ms = Summary()
        self.stages = StageTimes()
        self.directories = directories
        self._memberships = memberships
        self._listener = listener
        self._post = post
        self._retain_snapshots = retain_snapshots
        self._policy = policy
        self._fsync_warning_ms = fsync_warning_ms
        self._clock_ns = clock_ns
        self._wall_ms = wall_ms
        self.workers = workers
        self._pace = SyncPace(quick_sync_us)
        begun = partial(newest_log.note_begun, directories.data, files=directories.files)
        self._log = LogWriter(directories.log, preallocate_bytes, begun, directories.files)
        self._reader = LogReader(directories)
        self._to_read: deque[ReadLog] = deque()
        self._reading: Work | None = None
        self._queue: deque[_Submission] = deque()
        self._closing = False
        self._submitted = 0
        self._finished = 0
        """Number of submissions that the thread has executed. After a disk failure it stops increasing."""
        self._unreported = 0
        """Number of submitted barriers that were not reported to the owner yet."""
        self._failed = False
        self._snapshots = SnapshotWriter(
            directories, snapshot_suffix, post, self._snapshot_done, self._snapshot_failed, self._snapshot_spoiled,
            workers=workers,
        )  # fmt: skip
        self._work = workers.start(self._run(), "txnlog")

    def submit(self, effects: Sequence[Effect]) -> None:
        """Queue disk effects. They are executed after all effects that were queued before them."""
        if not self._failed:
            self._unreported += sum(isinstance(effect, Barrier) for effect in effects)
            self._put(list(effects))

    def _put(self, effects: list[Effect]) -> None:
        self._submitted += 1
        self._queue.append(_Submission(effects, self._clock_ns()))
        self._work.wake()

    def is_quick(self, effects: Sequence[Effect]) -> bool:
        """Return whether the caller should execute these effects in the event loop, with `carry_out`.

        This is the case if no effect is queued before them, they are only a few appends and barriers, and the disk is
        fast.
        """
        if self._submitted != self._finished or self._unreported or self._failed:
            return False
        count = 0
        for effect in effects:
            if isinstance(effect, Append):
                count += len(effect.txns)
            elif not isinstance(effect, Barrier):
                return False
        return count <= WAIT_TXNS_MAX and self._pace.is_quick(self._clock_ns())

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Execute effects for which `is_quick` returned True; report barriers or a failure before returning.

        The caller should first send everything that need not wait for the disk, because the duration of a sync is
        unknown.
        """
        assert self._submitted == self._finished and not self._unreported, "the disk's work is done in order"
        try:
            self._carry_out(effects, self._listener.on_durable, AT_ONCE)
        except (OSError, DataDirectoryError) as failed:
            self._failed = True
            self._listener.on_storage_failed(complaint(failed))

    def close(self) -> None:
        """Execute the queued effects and stop the threads; block until this is done."""
        self._closing = True
        self._work.wake()
        self._work.join()
        self._snapshots.cancel()
        self._to_read.clear()
        if self._reading is not None:
            self._reading.wake()
            self._reading.join()

    def read_log(self, effect: ReadLog) -> None:
        """Start to read a part of the log in another thread, without waiting for the queue."""
        self._to_read.append(effect)
        if self._reading is None or not self._reading.is_under_way():
            self._reading = self.workers.start(self._read_logs(), "log-reader")
        self._reading.wake()

    def take_snapshot(self, snapshot: TreeSnapshot) -> None:
        """Begin to write a periodic snapshot. The tree must not have changed since `snapshot` was captured.

        The tree can change during the write. If the previous snapshot is still being written, no new one is begun. The
        log continues in a new file. The snapshot is valid only when the log is durable up to its zxid.
        """
        self._snapshots.start_snapshot(snapshot)
        self._put([_RollLog(self._snapshots.taken)])

    def _read_logs(self) -> Job:
        """Job of the reading thread: process ReadLog effects."""
        while not self._closing:
            while self._to_read:
                self._read_log(self._to_read.popleft())
            yield WAIT

    def _read_log(self, effect: ReadLog) -> None:
        try:
            txns = self._reader.read(effect)
        except OSError as failed:
            self._post_back(self._listener.on_storage_warning, f"the log cannot be read for a learner: {failed}")
            txns = None
        self._post_back(self._listener.on_log_read, effect.link, effect.after, txns)

    # -- the storage thread ----------------------------------------------------------------------------------------

    def _run(self) -> Job:
        """Job of the storage thread: execute the queued effects in groups, then wait for more."""
        try:
            while self._queue or not self._closing:
                while self._queue:
                    group, since_ns = self._next_group()
                    taken_ns = self._clock_ns()
                    self._carry_out(group, self._notify_later, [taken_ns - each for each in since_ns])
                    self._finished += len(since_ns)
                if not self._closing:
                    yield WAIT
            if not self._failed:
                self._log.roll()
        except (OSError, DataDirectoryError) as failed:
            self._post_back(self._listener.on_storage_failed, complaint(failed))

    def _next_group(self) -> tuple[list[Effect], list[int]]:
        """Remove and return all queued effects, with the submission time of each submission."""
        group: list[Effect] = []
        since_ns: list[int] = []
        while self._queue and len(group) < GROUP_MAX:
            submitted = self._queue.popleft()
            group += submitted.effects
            since_ns.append(submitted.since_ns)
        return group, since_ns

    def _notify_later(self, tokens: list[int]) -> None:
        self._post_back(self._notified, tokens)

    def _notified(self, tokens: list[int]) -> None:
        self._unreported -= len(tokens)
        self._listener.on_durable(tokens)

    # -- disk access, in the thread or in the event loop -----------------------------------------------------------

    def _carry_out(self, group: Sequence[Effect], notify: Callable[[list[int]], None], waits_ns: Sequence[int]) -> None:
        txns: list[Txn] = []
        tokens: list[int] = []
        for effect in group:
            if isinstance(effect, Append):
                txns += effect.txns
            elif isinstance(effect, Barrier):
                tokens.append(effect.token)
            else:
                self._settle(txns, tokens, notify, waits_ns)
                self._carry_out_other(effect)
        self._settle(txns, tokens, notify, waits_ns)

    def _settle(
        self, txns: list[Txn], tokens: list[int], notify: Callable[[list[int]], None], waits_ns: Sequence[int]
    ) -> None:
        """Write the collected transactions; if there are barriers, sync and report the barriers."""
        taken_ns = self._clock_ns()
        if txns:
            self._log.append(txns)
        if tokens:
            began_ns = self._clock_ns()
            self._log.sync()
            ended_ns = self._clock_ns()
            # Report the barriers first, because the statistics can wait.
            notify(tokens.copy())
            tokens.clear()
            self._note_sync(ended_ns, ended_ns - began_ns)
            if txns:
                self.stages.note(
                    len(txns), waits_ns, process_ns=began_ns - taken_ns, sync_ns=ended_ns - began_ns,
                    queued=len(self._queue), made_ms=txns[-1].time_ms, wall_ms=self._wall_ms(),
                )  # fmt: skip
        if txns:
            self.txns_logged += len(txns)
            self.batch_sizes.add(len(txns))
            txns.clear()

    def _note_sync(self, ended_ns: int, took_ns: int) -> None:
        self._pace.note(ended_ns, took_ns)
        took_ms = took_ns // NANOS_PER_MS
        self.fsync_time_ms.add(took_ms)
        if took_ms > self._fsync_warning_ms:
            line = f"syncing the transaction log took {took_ms} ms; every write waits for it: is the disk overloaded?"
            self._post_back(self._listener.on_storage_warning, line)

    def _carry_out_other(self, effect: Effect) -> None:
        directories, data, files = self.directories, self.directories.data, self.directories.files
        if isinstance(effect, SaveAcceptedEpoch):
            write_epoch(data, ACCEPTED, effect.epoch, files)
        elif isinstance(effect, SaveCurrentEpoch):
            # The history of an epoch must be durable before the epoch is stored.
            self._log.sync()
            write_epoch(data, CURRENT, effect.epoch, files)
            losses.clear(data, files)
        elif isinstance(effect, SaveDoubt):
            losses.note_doubt(data, files)
        elif isinstance(effect, SaveMembership):
            if self._memberships is not None:
                self._memberships.save(effect.membership)
        elif isinstance(effect, SaveNextMembership):
            if self._memberships is not None:
                self._memberships.save_next(effect.membership)
        elif isinstance(effect, TruncateLog):
            self._snapshots.cancel()
            self._log.roll()
            recovery = truncate(directories, effect.zxid, self._policy)
            self._reader.forget_positions()
            self._post_back(self._listener.on_truncated, recovery)
        elif isinstance(effect, SaveSnapshot):
            assert effect.replaces_history, "ordinary snapshots go to take_snapshot"
            self._snapshots.cancel()
            self._log.roll()
            self._replace_history(effect.snapshot)
        elif isinstance(effect, _RollLog):
            self._log.roll()
            self._snapshots.publish(effect.snapshot)
        else:
            raise AssertionError(f"{effect!r} is no disk effect")

    def _replace_history(self, snapshot: TreeSnapshot) -> None:
        began = self.workers.now_s()
        size = replace_history(self.directories, snapshot, self.workers.breathe)
        self._reader.forget_positions()
        written = WrittenSnapshot(snapshot.zxid, size, int((self.workers.now_s() - began) * 1000))
        self._post_back(self._listener.on_snapshot, written)

    def _snapshot_done(self, written: WrittenSnapshot) -> None:
        try:
            if self._retain_snapshots:
                purge(self.directories, self._retain_snapshots)
        except OSError as failed:
            self._post_back(self._listener.on_storage_failed, complaint(failed))
        else:
            self._post_back(self._listener.on_snapshot, written)

    def _snapshot_failed(self, number: int) -> None:
        failed = OSError(number, os.strerror(number), "the snapshot")
        self._post_back(self._listener.on_storage_failed, complaint(failed))

    def _snapshot_spoiled(self) -> None:
        self._post_back(self._listener.on_snapshot_spoiled)

    def _post_back(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._post(callback, *args)
        except RuntimeError:
            # The event loop is closed, so there is no listener.
            return

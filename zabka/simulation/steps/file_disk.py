"""The disk of a bare-protocol node in real files, with the production `Storage`.

The module passes every operation to the storage's jobs and waits for its result, so that an operation is one step with
the same result in every run. Checkers use the content of the files, which is read again after every change.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

import msgspec

from zabka.ensemble.ids import Epoch, LinkId, Zxid, counter_of, epoch_of
from zabka.ensemble.records import OPEN_ACL
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT, read_epoch
from zabka.ensemble.txnlog.log import list_logs, read_log
from zabka.ensemble.txnlog.records import Damage
from zabka.ensemble.txnlog.recovery import Recovery, RecoveryPolicy, purge, recover
from zabka.ensemble.txnlog.snapshots import (
    SnapshotDamaged,
    WrittenSnapshot,
    list_snapshots,
    read_snapshot,
    write_snapshot,
)
from zabka.ensemble.txnlog.storage import Storage
from zabka.ensemble.zab.effects import Barrier, Effect, ReadLog, Recovered, SaveSnapshot, TruncateLog
from zabka.simulation.steps.inline_workers import InlineWorkers

PREALLOCATE_BYTES = 4096
MANY = 4
"""Highest number of log or snapshot files that a search distinguishes; more files count as this many.

It is one more than the minimum number that autopurge keeps.
"""
_ROOT = NodeImage(
    path="", data=None, acl=OPEN_ACL, czxid=0, mzxid=0, ctime=0, mtime=0, version=0, cversion=0, aversion=0,
    ephemeral_owner=0, pzxid=0,
)  # fmt: skip
"""The root znode, with which every snapshot file begins.  A list application has no root."""


class DiskFailed(Exception):
    """The storage failed; the message is the reason that it reported."""


class _Bytes:
    """Cache of the contents of files."""

    def __init__(self, directories: Directories, whole_log: Callable[[], list[Txn]]) -> None:
        self._directories = directories
        self._whole_log = whole_log

    @cached_property
    def accepted(self) -> Epoch:
        return read_epoch(self._directories.data, ACCEPTED) or Epoch(0)

    @cached_property
    def current(self) -> Epoch:
        return read_epoch(self._directories.data, CURRENT) or Epoch(0)

    @cached_property
    def snapshot(self) -> list[int]:
        for _, path in reversed(list_snapshots(self._directories.data)):
            try:
                return [image.czxid for image in read_snapshot(path).nodes if image.path]
            except SnapshotDamaged:
                continue
        return []

    @cached_property
    def log(self) -> list[int]:
        return [txn.zxid for txn in self._whole_log()]

    @cached_property
    def history(self) -> list[int]:
        last = self.snapshot[-1] if self.snapshot else 0
        return self.snapshot + [zxid for zxid in self.log if zxid > last]

    @cached_property
    def outline(self) -> tuple[int, ...]:
        logs, snapshots = list_logs(self._directories.log), list_snapshots(self._directories.data)
        oldest, first = logs[0][0] if logs else 0, next(iter(self.history), 0)
        later = min(epoch_of(oldest) - epoch_of(first), 2)
        return min(len(logs), MANY), min(len(snapshots), MANY), counter_of(oldest) == 1, later


class FileDisk:
    """The dataDir of one peer.

    The `Storage`, which caches the state of the files, exists only while the process runs.
    """

    def __init__(self, directory: Path, other_voters: int) -> None:
        self.directories = Directories(directory, directory)
        self._policy = RecoveryPolicy(other_voters)
        self._hands = InlineWorkers()
        self._posted: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._storage: Storage | None = None
        self._truncated: Recovery | None = None
        self._read: list[Txn] | None = None
        self._heard = {"durable": 0, "snapshot": 0, "read": 0}
        """Number of notifications of each kind that the storage has sent."""
        self._bytes = _Bytes(self.directories, self._whole_log)
        self._flipped: list[tuple[Path, int]] = []
        """Flipped bits that no recovery has found yet.

        The record of a flipped bit counts as intact until a recovery finds the bit.
        """
        self._taken: dict[int, None] = {}
        """Zxids of transactions that were lost because of damage."""
        directory.mkdir(parents=True, exist_ok=True)

    # -- interface for a node of the bare protocol -------------------------------------------------------------------

    def recovered(self) -> Recovered:
        """Open the disk as a starting process does, and return the data on it.

        If the process is already running, return the data after the last truncation. Raises DataDirectoryError or
        OSError.
        """
        if self._storage is not None:
            assert self._truncated is not None, "nothing was loaded again"
            return _without_root(self._truncated.recovered)
        before = self.history()
        found = recover(self.directories, self._policy).recovered
        self._damage_was_met(before)
        if found.snapshot is None:
            # As in `peer_process`: with this snapshot, later starts can distinguish an empty tree from a lost tree.
            write_snapshot(self.directories.data, _with_root(TreeSnapshot(Zxid(0), {}, [], 0)))
        self._storage = Storage(
            self.directories,
            self,
            self._post,
            preallocate_bytes=PREALLOCATE_BYTES,
            policy=self._policy,
            workers=self._hands,
        )
        self._look_again()
        return _without_root(found)

    def after(self, effect: Effect) -> FileDisk:
        """Perform one more operation durably, and return this disk."""
        storage = self._running
        if isinstance(effect, Barrier):
            return self
        if isinstance(effect, TruncateLog):
            kept = [zxid for zxid in self.history() if zxid <= effect.zxid]
            storage.submit([effect])
            self._wait_for("durable", partial(storage.submit, [Barrier(0)]))
            self._damage_was_met(kept)
            return self
        if isinstance(effect, SaveSnapshot):
            whole = msgspec.structs.replace(effect, snapshot=_with_root(effect.snapshot))
            if effect.replaces_history:
                self._flipped = []
            replaced, taken = partial(storage.submit, [whole]), partial(storage.take_snapshot, whole.snapshot)
            self._wait_for("snapshot", replaced if effect.replaces_history else taken)
        else:
            storage.submit([effect])
        self._wait_for("durable", partial(storage.submit, [Barrier(0)]))
        self._look_again()
        return self

    def read_log(self, wanted: ReadLog) -> list[Txn] | None:
        """Return the transactions that the storage's log reader returns for a leader's request."""
        self._wait_for("read", partial(self._running.read_log, wanted))
        return self._read

    def close(self) -> None:
        """Close the storage after the process has ended."""
        if self._storage is not None:
            self._storage.close()
            self._posted.clear()
            self._storage = self._truncated = None
            self._look_again()

    @property
    def met_damage(self) -> bool:
        """Whether the last truncation found that transactions were missing because of damage."""
        return self._truncated is not None and bool(self._truncated.damages) and not self._truncated.recovered.complete

    @property
    def _running(self) -> Storage:
        assert self._storage is not None, "no process has opened this disk"
        return self._storage

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        self._posted.append((callback, args))

    def _wait_for(self, what: str, ask: Callable[[], object]) -> None:
        before = self._heard[what]
        ask()
        while self._heard[what] == before:
            self._hands.work()
            assert self._posted, f"the storage never said {what!r}"
            callback, args = self._posted.popleft()
            callback(*args)

    # -- notifications from the storage ------------------------------------------------------------------------------

    def on_durable(self, tokens: list[int]) -> None:
        """Note that all submitted operations are durable."""
        self._heard["durable"] += 1

    def on_truncated(self, recovery: Recovery) -> None:
        """Keep the state that the storage loaded after it truncated the log."""
        self._truncated = recovery

    def on_snapshot(self, written: WrittenSnapshot) -> None:
        """Note that the snapshot file has its final name."""
        self._heard["snapshot"] += 1

    def on_snapshot_spoiled(self) -> None:
        """Raise AssertionError: snapshots of a list do not depend on an earlier snapshot, so this cannot happen."""
        raise AssertionError("nothing was taken over")

    def on_log_read(self, link: LinkId, after: Zxid, txns: list[Txn] | None) -> None:
        """Store the log reader's result."""
        self._read = txns
        self._heard["read"] += 1

    def on_storage_warning(self, line: str) -> None:
        """Ignore a warning about a slow sync, because the duration of a sync does not matter here."""

    def on_storage_failed(self, reason: str) -> None:
        """Raise DiskFailed, because the storage accepts no more operations."""
        raise DiskFailed(reason)

    # -- contents of files -------------------------------------------------------------------------------------------

    @property
    def accepted(self) -> Epoch:
        """Return the accepted epoch (file acceptedEpoch)."""
        return self._bytes.accepted

    @property
    def current(self) -> Epoch:
        """Return the current epoch (file currentEpoch)."""
        return self._bytes.current

    def last_durable(self) -> Zxid:
        """Return the zxid of the last transaction on the disk."""
        return Zxid(max(self.history(), default=0))

    @property
    def was_damaged(self) -> bool:
        """Whether damage has ever removed transactions, or there is a flipped bit that no recovery has found yet."""
        return bool(self._taken or self._flipped)

    def holds(self, zxid: Zxid) -> bool:
        """Return whether that transaction is in the log or in the newest snapshot, or was lost because of damage."""
        return zxid in self._taken or zxid in self._bytes.snapshot or zxid in self._bytes.log

    def history(self) -> list[int]:
        """Return all zxids in the newest intact snapshot and in the log after it, in order, up to the first damage.

        A flipped bit counts as damage only after a start or a truncation has found it.
        """
        return list(self._bytes.history)

    def outline(self) -> tuple[int, ...]:
        """Return properties by which a search distinguishes disks that have equal histories.

        The properties are the number of log files, the number of snapshot files, whether the oldest log file begins
        with the first transaction of an epoch, the number of epochs (at most 2) between the start of the history and
        the start of this file, and the existing damage.
        """
        return (*self._bytes.outline, bool(self._flipped), bool(self._taken))

    def _look_again(self) -> None:
        """Clear the cache of the files' contents, because the files may have changed."""
        self._bytes = _Bytes(self.directories, self._whole_log)

    def _whole_log(self) -> list[Txn]:
        """Return all transactions in the log files up to the first damage."""
        txns: list[Txn] = []
        self._turn_bits()
        for _, path in list_logs(self.directories.log):
            scanned = read_log(path)[1]
            txns += scanned.txns
            if scanned.damage is not Damage.NONE:
                break
        self._turn_bits()
        return txns

    def _turn_bits(self) -> None:
        """Flip all damaged bits: the first call restores the original files, and the second call the damaged ones."""
        self._flipped = [where for where in self._flipped if where[0].exists()]
        for path, position in self._flipped:
            _flip(path, position)

    def _damage_was_met(self, before: list[int]) -> None:
        """Note which transactions are lost because a recovery moved their files away or truncated them."""
        self._flipped = [(path, at) for path, at in self._flipped if path.exists() and path.stat().st_size > at]
        self._look_again()
        self._note_taken(before)

    def _note_taken(self, before: list[int]) -> None:
        left = dict.fromkeys(self.history())
        self._taken |= {zxid: None for zxid in before if zxid not in left}

    # -- faults ------------------------------------------------------------------------------------------------------

    def purge(self, retain: int) -> None:
        """Run autopurge: delete all but the `retain` newest snapshots and the logs that these need."""
        purge(self.directories, retain)
        self._look_again()

    def flip_bit(self, zxid: int) -> None:
        """Flip one bit of that transaction's record. Raises LookupError if no log contains the record."""
        for _, path in list_logs(self.directories.log):
            scanned = read_log(path)[1]
            for txn, end in zip(scanned.txns, scanned.ends, strict=True):
                if txn.zxid == zxid:
                    _flip(path, end - 2)
                    self._flipped.append((path, end - 2))
                    return
        raise LookupError(f"no log holds 0x{zxid:x}")

    def cut_out(self, zxid: int) -> None:
        """Remove that transaction's record. Raises LookupError if it is not the last record of a log file."""
        for _, path in list_logs(self.directories.log):
            scanned = read_log(path)[1]
            if scanned.txns and scanned.txns[-1].zxid == zxid:
                with path.open("r+b") as file:
                    file.truncate(scanned.ends[-2] if len(scanned.ends) > 1 else 0)
                self._look_again()
                return
        raise LookupError(f"no log ends with 0x{zxid:x}")

    def lose_newest_log(self) -> None:
        """Delete the newest log file."""
        before = self.history()
        list_logs(self.directories.log)[-1][1].unlink()
        self._look_again()
        self._note_taken(before)

    def erase(self) -> None:
        """Delete all files, as if the machine had been replaced by an empty one."""
        shutil.rmtree(self.directories.data)
        self.directories.data.mkdir()
        self._flipped = []
        self._look_again()


def _flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def _with_root(snapshot: TreeSnapshot) -> TreeSnapshot:
    return msgspec.structs.replace(snapshot, nodes=[_ROOT, *snapshot.nodes])


def _without_root(found: Recovered) -> Recovered:
    if found.snapshot is None:
        return found
    nodes = [image for image in found.snapshot.nodes if image.path]
    return msgspec.structs.replace(found, snapshot=msgspec.structs.replace(found.snapshot, nodes=nodes))

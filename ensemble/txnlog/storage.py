"""The disk of a running peer: one thread that carries out disk effects in order, in groups.

Whatever was submitted while the thread was busy is one group: neighbouring appends become one write, and every
barrier of the group shares one fdatasync.  Ordinary snapshots are written by a second thread, since nothing waits for
them and a large one must not hold up the log; a truncation or a replacement of the history waits until it is done.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ensemble.effects import (
    Append,
    Barrier,
    Effect,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    TruncateLog,
)
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txn import Txn
from ensemble.txnlog.epochs import ACCEPTED, CURRENT, write_epoch
from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.log import PREALLOCATE_BYTES, LogWriter
from ensemble.txnlog.recovery import Directories, Recovery, purge, replace_history, truncate
from ensemble.txnlog.snapshots import WrittenSnapshot, write_snapshot

GROUP_MAX = 1000
"""Effects carried out before the barriers among them are answered."""


class StorageListener(Protocol):
    """What the storage tells its owner, always on the owner's event loop."""

    def on_durable(self, tokens: list[int]) -> None:
        """Everything queued before these barriers is durable."""
        ...

    def on_truncated(self, recovery: Recovery) -> None:
        """A TruncateLog is done."""
        ...

    def on_snapshot(self, written: WrittenSnapshot) -> None:
        """A snapshot is durable."""
        ...

    def on_storage_failed(self, reason: str) -> None:
        """The disk failed: nothing further will be carried out, so this peer must stop."""
        ...


class Storage:
    """Carries out Append, Barrier, TruncateLog, SaveSnapshot and the epoch effects.

    `post` hands a callback to the owner's event loop from another thread (`loop.call_soon_threadsafe`).
    """

    def __init__(
        self,
        directories: Directories,
        listener: StorageListener,
        post: Callable[..., object],
        *,
        preallocate_bytes: int = PREALLOCATE_BYTES,
        retain_snapshots: int = 0,
    ) -> None:
        self._directories = directories
        self._listener = listener
        self._post = post
        self._retain_snapshots = retain_snapshots
        self._log = LogWriter(directories.log, preallocate_bytes)
        self._queue: queue.SimpleQueue[list[Effect] | None] = queue.SimpleQueue()
        self._snapshots = _SnapshotThread(self._save_in_background)
        self._thread = threading.Thread(target=self._run, name="txnlog", daemon=True)
        self._thread.start()

    def submit(self, effects: Sequence[Effect]) -> None:
        """Queue disk effects, to be done in order after everything queued before."""
        self._queue.put(list(effects))

    def close(self) -> None:
        """Finish what is queued and stop the threads; blocks until then."""
        self._queue.put(None)
        self._thread.join()
        self._snapshots.close()

    # -- the storage thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            closing = False
            while not closing:
                group, closing = self._next_group()
                self._carry_out(group)
            self._log.roll()
        except (OSError, DataDirectoryError) as failed:
            self._post_back(self._listener.on_storage_failed, f"the disk failed: {failed}")

    def _next_group(self) -> tuple[list[Effect], bool]:
        """Wait for work; all that has come by then, and whether it is the last."""
        group: list[Effect] = []
        submitted = self._queue.get()
        while submitted is not None:
            group += submitted
            if len(group) >= GROUP_MAX or self._queue.empty():
                return group, False
            submitted = self._queue.get()
        return group, True

    def _carry_out(self, group: list[Effect]) -> None:
        txns: list[Txn] = []
        tokens: list[int] = []
        for effect in group:
            if isinstance(effect, Append):
                txns.append(effect.txn)
            elif isinstance(effect, Barrier):
                tokens.append(effect.token)
            else:
                self._settle(txns, tokens)
                self._carry_out_other(effect)
        self._settle(txns, tokens)

    def _settle(self, txns: list[Txn], tokens: list[int]) -> None:
        """Write what is collected; where somebody waits for it, sync it and say so."""
        if txns:
            self._log.append(txns)
            txns.clear()
        if tokens:
            self._log.sync()
            self._post_back(self._listener.on_durable, tokens.copy())
            tokens.clear()

    def _carry_out_other(self, effect: Effect) -> None:
        directories = self._directories
        if isinstance(effect, SaveAcceptedEpoch):
            write_epoch(directories.data, ACCEPTED, effect.epoch)
        elif isinstance(effect, SaveCurrentEpoch):
            # The history of an epoch is durable before the epoch is (see 3.7 of the protocol notes: rule 2).
            self._log.sync()
            write_epoch(directories.data, CURRENT, effect.epoch)
        elif isinstance(effect, TruncateLog):
            self._snapshots.wait_idle()
            self._log.roll()
            self._post_back(self._listener.on_truncated, truncate(directories, effect.zxid))
        elif isinstance(effect, SaveSnapshot):
            self._log.roll()
            if effect.replaces_history:
                self._replace_history(effect.snapshot)
            else:
                self._snapshots.save(effect.snapshot)
        else:
            raise AssertionError(f"{effect!r} is no disk effect")

    def _replace_history(self, snapshot: TreeSnapshot) -> None:
        self._snapshots.wait_idle()
        began = time.monotonic()
        size = replace_history(self._directories, snapshot)
        written = WrittenSnapshot(snapshot.zxid, size, int((time.monotonic() - began) * 1000))
        self._post_back(self._listener.on_snapshot, written)

    def _save_in_background(self, snapshot: TreeSnapshot) -> None:
        try:
            written = write_snapshot(self._directories.data, snapshot)
            if self._retain_snapshots:
                purge(self._directories, self._retain_snapshots)
        except OSError as failed:
            self._post_back(self._listener.on_storage_failed, f"the disk failed: {failed}")
        else:
            self._post_back(self._listener.on_snapshot, written)

    def _post_back(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._post(callback, *args)
        except RuntimeError:
            # The event loop is closed: nobody is left to tell.
            return


class _SnapshotThread:
    """Writes ordinary snapshots, one at a time; of those that wait only the newest is worth writing."""

    def __init__(self, save: Callable[[TreeSnapshot], None]) -> None:
        self._save = save
        self._changed = threading.Condition()
        self._waiting: TreeSnapshot | None = None
        self._busy = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def save(self, snapshot: TreeSnapshot) -> None:
        """Write this one next."""
        with self._changed:
            self._waiting = snapshot
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)
                self._thread.start()

    def wait_idle(self) -> None:
        """Block until nothing is waiting or being written."""
        with self._changed:
            while self._waiting is not None or self._busy:
                self._changed.wait()

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while self._waiting is None and not self._closing:
                    self._changed.wait()
                snapshot, self._waiting = self._waiting, None
                if snapshot is None:
                    return
                self._busy = True
            self._save(snapshot)

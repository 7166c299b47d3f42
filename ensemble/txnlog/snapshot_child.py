"""Snapshots that nobody waits for are written by a forked child.

The child has the tree as it was at the fork, in memory that the kernel copies page by page only where the peer changes
it; it needs neither the peer's interpreter lock nor its core.  It shares nothing else: it closes every descriptor first
(a connection must end when the peer ends), and gives up when its peer is gone.

A finished snapshot gets its name only when the peer says that its log is durable as far as the snapshot goes.  What is
committed need not be on a slow leader's own disk yet: a log that lacked it, and went on behind it later, would have a
hole, and be wrong the day an older snapshot had to be used.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ensemble.tree.shared_nodes import SharedNodes
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txnlog.files import COMPRESSED_SUFFIXES, SNAPPY_SUFFIX, sync_directory
from ensemble.txnlog.snappy_stream import codec
from ensemble.txnlog.snapshots import STAGING_NAME, WrittenSnapshot, snapshot_path, stage_snapshot

NICENESS = 10
"""Serving clients comes first."""
DESCRIPTORS_MAX = 1 << 20
NOT_ERRNO = 255
"""The child's exit code for a failure that is not the disk's."""
_GATE = 3
"""The child's one descriptor: where it hears that it may publish."""


class SnapshotChildren:
    """Forks a child for a snapshot, at most one at a time, and tells what became of it, on a thread of its own.

    `done` gets what was written, `failed` the error number of a disk that did not take it.
    """

    def __init__(
        self, directory: Path, suffix: str, done: Callable[[WrittenSnapshot], None], failed: Callable[[int], None]
    ) -> None:
        self._directory = directory
        self._suffix = suffix
        if suffix == SNAPPY_SUFFIX:
            # The import takes seconds, which a child would spend each time.
            codec()
        self._done = done
        self._failed = failed
        self._child = 0
        self._waiter: threading.Thread | None = None
        self._gate = -1
        self._gate_lock = threading.Lock()
        self.taken = 0
        """How many snapshots were begun; the number of the last one."""

    def take(self, snapshot: TreeSnapshot) -> bool:
        """Write this; False where the one before is still being written, or no child can be had.

        It is published once `publish` is called too, which may be before it is written.  The caller drops `snapshot`
        before its tree changes, so that this process need not copy anything for it.
        """
        if self._waiter is not None and self._waiter.is_alive():
            return False
        began = time.monotonic()
        # What is frozen no collection touches, so that the child's and the peer's pages stay the same ones.
        gc.freeze()
        peer = os.getpid()
        hear, say = os.pipe()
        try:
            with warnings.catch_warnings():
                # Since 3.12 Python warns of forking beside threads: the child takes no lock that one could hold.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
        except OSError:
            os.close(hear)
            os.close(say)
            return False
        if child == 0:
            _write_and_exit(snapshot, snapshot_path(self._directory, snapshot.zxid, self._suffix), peer, hear)
        os.close(hear)
        with self._gate_lock:
            self._child, self._gate = child, say
            self.taken += 1
        path = snapshot_path(self._directory, snapshot.zxid, self._suffix)
        self._waiter = threading.Thread(
            target=self._wait, args=(child, snapshot.zxid, path, began), name="snapshot", daemon=True
        )
        self._waiter.start()
        return True

    def publish(self, number: int) -> None:
        """The log is durable as far as that snapshot goes; one that was begun later has to wait for its own turn."""
        with self._gate_lock:
            if self._gate >= 0 and number == self.taken:
                with suppress(BrokenPipeError):
                    os.write(self._gate, b"1")

    def _close_gate(self) -> None:
        with self._gate_lock:
            if self._gate >= 0:
                os.close(self._gate)
                self._gate = -1

    def wait(self) -> None:
        """Block until no child is writing."""
        if self._waiter is not None:
            self._waiter.join()

    def cancel(self) -> None:
        """Stop a child that is writing, and wait for its end."""
        if self._waiter is not None and self._waiter.is_alive() and self._child:
            os.kill(self._child, signal.SIGKILL)
        self.wait()

    def _wait(self, child: int, zxid: int, path: Path, began: float) -> None:
        _, status = os.waitpid(child, 0)
        self._child = 0
        self._close_gate()
        _staging(path, child).unlink(missing_ok=True)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            size = path.stat().st_size
            self._done(WrittenSnapshot(zxid, size, int((time.monotonic() - began) * 1000)))
        elif 0 < code < NOT_ERRNO:
            self._failed(code)


class _Orphaned(Exception):
    """The peer is gone, and with it the right to change its directory."""


def _staging(path: Path, child: int) -> Path:
    return path.with_name(f"{STAGING_NAME}.{child}")


def _write_and_exit(snapshot: TreeSnapshot, path: Path, peer: int, hear: int) -> NoReturn:
    """The child's whole life."""
    code = NOT_ERRNO

    def check_peer() -> None:
        if os.getppid() != peer:
            raise _Orphaned

    try:
        limit = os.sysconf("SC_OPEN_MAX")
        os.dup2(hear, _GATE)
        os.closerange(_GATE + 1, limit if limit > 0 else DESCRIPTORS_MAX)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        gc.disable()
        os.nice(NICENESS)
        if isinstance(snapshot.nodes, SharedNodes):
            snapshot.nodes.claim()
        staged = _staging(path, os.getpid())
        stage_snapshot(staged, snapshot, path.suffix if path.suffix in COMPRESSED_SUFFIXES else "", check_peer)
        if not os.read(_GATE, 1):
            raise _Orphaned
        check_peer()
        staged.rename(path)
        sync_directory(path.parent)
        code = 0
    except OSError as failed:
        code = failed.errno or NOT_ERRNO
    except Exception as failure:
        if not isinstance(failure, _Orphaned):
            traceback.print_exception(failure)
    finally:
        os._exit(code)

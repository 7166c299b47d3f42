"""Syncs small files to disk in the background, so that no request has to wait for a sync. Does real I/O."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.workers import GO_ON, THREADS, Job, Pause, Work, Workers
from zabka.ensemble.txnlog.files import sync_directory, sync_file

LATE_S = 1.0
"""Delay before the first file is synced."""
RESTS = 19
"""Ratio of pause to sync time: with 19, the job uses 5 % of the disk's time.

The ensemble's logs may be on the same disk, and background work must not make a slow disk slower.
"""


class BackgroundSync:
    """Syncs the files of one log directory, each with its parent directory.

    If a file is replaced again while it is queued, it is synced only once. A job runs while the queue has files. The
    job starts with a delay, so that a new leader of a thousand partitions can replace its files before the disk is
    busy.
    """

    def __init__(self, root: Path, files: Files = HOST, workers: Workers = THREADS) -> None:
        self._root = root
        self._files = files
        self._workers = workers
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], None] = {}
        self._work: Work | None = None
        self._failure: OSError | None = None
        self._busy: tuple[str, str] | None = None
        self._hurries = False

    def add(self, name: str, file: str) -> None:
        """Queue a replaced file for syncing.

        Raises OSError if syncing an earlier file failed, because the disk has then failed.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._waiting[name, file] = None
            self._start()

    def leave_out(self, files: Sequence[tuple[str, str]]) -> None:
        """Remove files from the queue, because the caller syncs their current content."""
        with self._lock:
            for key in files:
                self._waiting.pop(key, None)

    def _start(self) -> None:
        if self._work is None:
            self._work = self._workers.start(self._sync_all(), "log directory sync")

    def renamed(self, name: str, to: str) -> None:
        """Update the queue after a directory with queued files was renamed."""
        with self._lock:
            for key in [key for key in self._waiting if key[0] == name]:
                del self._waiting[key]
                self._waiting[to, key[1]] = None
            if self._busy is not None and self._busy[0] == name:
                self._waiting[to, self._busy[1]] = None
                self._start()

    def finish(self, within_s: float) -> None:
        """Wait until every queued file is synced to disk, for at most `within_s`."""
        self._hurries = True
        work = self._work
        if work is not None:
            work.wake()
            work.join(within_s)
        self._hurries = False

    def _sync_all(self) -> Job:
        yield self._rest(LATE_S)
        while True:
            with self._lock:
                self._busy = None
                if not self._waiting or self._failure is not None:
                    self._work = None
                    return
                self._busy = name, file = next(iter(self._waiting))
                del self._waiting[name, file]
            directory = self._root / name
            began_s = self._workers.now_s()
            try:
                sync_file(directory / file, self._files)
                sync_directory(directory, self._files)
            except FileNotFoundError:
                # The replica was deleted or renamed in the meantime. After a rename, the file is also queued under its
                # new name.
                continue
            except OSError as failure:
                with self._lock:
                    self._failure = failure
            yield self._rest(RESTS * (self._workers.now_s() - began_s))

    def _rest(self, seconds: float) -> Pause:
        return GO_ON if self._hurries else Pause(seconds, heeds=True)

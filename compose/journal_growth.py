"""Waits until a host's journals may have grown, by kernel notifications (inotify, on Linux) or by polling.

A notification only means that something was written; `zabka.compose.journal_files` then reads it. If no notification
arrives, as on some file systems, the reader checks the journals when its wait ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from zabka.journal.reader import node_files

# The collector holds entries back to order them: for 120 ms, or for 55 ms if only one agent sends entries.  All waits
# in this module are below 120 ms, and below 55 ms shortly after a write.
GATHER_S = 0.025
"""After a notification, wait this long for further lines, to send them together. Lines seldom come alone."""
POLL_S = 0.025
IDLE_POLL_S = 0.1
IDLE_AFTER_S = 3.0
RETRY_S = 0.5
"""Interval between attempts to watch journals that could not be watched before."""

# Constants from <sys/inotify.h>
_MODIFY = 0x002
_MOVED_TO, _CREATE, _DELETE_SELF = 0x080, 0x100, 0x400
_NOTICE = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class JournalGrowth:
    """Waits until one of these journals grows. The journals are given as a map from node to directory.

    The newest file of each journal is watched, and also the directory, because a newer file may be created in it.
    Message logs in the directory do not wake the waiter. If one of the journals cannot be watched, because it does not
    exist yet or the kernel's limit is reached, all are polled.
    """

    def __init__(self, journals: Mapping[str, Path]) -> None:
        self._journals = journals
        self._inotify: _Inotify | None = None
        self._asked = False
        self._watched = False
        self._tried_s = -RETRY_S
        self._waiting = 0
        self._written_s = 0.0
        self._notice = asyncio.Event()

    def next_growth(self) -> asyncio.Event:
        """Return an event to pass to `grown`. Call this before reading the journals, so that no growth is missed."""
        if not self._asked:
            self._asked, self._inotify = True, _Inotify.open()
        self._take()
        if not self._watched and time.monotonic() - self._tried_s > RETRY_S:
            self._watch()
        return self._notice

    async def grown(self, notice: asyncio.Event, timeout_s: float) -> None:
        """Wait until the journals may have grown, or until the timeout.

        `notice` is the event that `next_growth` returned. Growth counts from that call on.
        """
        if self._inotify is None or not self._watched:
            idle = time.monotonic() - self._written_s > IDLE_AFTER_S
            await asyncio.sleep(min(timeout_s, IDLE_POLL_S if idle else POLL_S))
            return
        if await self._noticed(self._inotify, notice, timeout_s):
            await asyncio.sleep(GATHER_S)

    async def _noticed(self, inotify: _Inotify, notice: asyncio.Event, timeout_s: float) -> bool:
        self._waiting += 1
        if self._waiting == 1:
            # Register the reader only while a caller waits: otherwise each write would wake this process.
            asyncio.get_running_loop().add_reader(inotify.descriptor, self._take)
        try:
            async with asyncio.timeout(timeout_s):
                return await notice.wait()
        except TimeoutError:
            # Watch again, because inotify does not report that a directory was moved away and replaced.
            self._watch()
            return False
        finally:
            self._waiting -= 1
            if not self._waiting and self._inotify is not None:
                asyncio.get_running_loop().remove_reader(inotify.descriptor)

    def wrote(self) -> None:
        """Record that new lines were read. The next wait is shorter, because more lines are likely to follow soon."""
        self._written_s = time.monotonic()

    def close(self) -> None:
        """Stop watching, and wake the waiters."""
        if self._inotify is not None:
            if self._waiting:
                asyncio.get_running_loop().remove_reader(self._inotify.descriptor)
            self._inotify.close()
        self._inotify, self._watched = None, False
        self._notice.set()

    def _take(self) -> None:
        """Read the inotify notifications, and wake the waiters."""
        noticed = self._inotify.read() if self._inotify is not None else 0
        if not noticed:
            return
        if noticed != _MODIFY:
            self._watch()
        notice, self._notice = self._notice, asyncio.Event()
        notice.set()

    def _watch(self) -> None:
        """Watch the newest files and the directories. Can be called again at any time."""
        inotify, self._tried_s = self._inotify, time.monotonic()
        self._watched = inotify is not None and all(inotify.watch(*journal) for journal in self._journals.items())


class _Inotify:
    """Access to the kernel's inotify interface through the C library."""

    def __init__(self, library: ctypes.CDLL, descriptor: int) -> None:
        self._library = library
        self.descriptor = descriptor

    @staticmethod
    def open() -> _Inotify | None:
        """Open inotify. Return None if this system has none, or if this user's limit is reached."""
        library = ctypes.CDLL(None)
        if not hasattr(library, "inotify_init1"):
            return None
        descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        return None if descriptor < 0 else _Inotify(library, descriptor)

    def watch(self, node: str, directory: Path) -> bool:
        """Watch the newest file and the directory of a journal. Return whether that was possible."""
        # Watch the directory before listing its files, so that a file created in between is not missed.
        if not self._add(directory, _CREATE | _MOVED_TO | _DELETE_SELF):
            return False
        return all(self._add(newest, _MODIFY) for newest in node_files(directory, node)[-1:])

    def _add(self, path: Path, mask: int) -> bool:
        return bool(self._library.inotify_add_watch(self.descriptor, os.fsencode(path), mask) >= 0)

    def read(self) -> int:
        """Read all notifications since the last call. Return the combined mask of their events; 0 for none."""
        found, place = 0, 0
        with contextlib.suppress(BlockingIOError):
            notices = os.read(self.descriptor, _READ_BYTES)
            while place < len(notices):
                _, mask, _, name_bytes = _NOTICE.unpack_from(notices, place)
                found |= mask
                place += _NOTICE.size + name_bytes
        return found

    def close(self) -> None:
        os.close(self.descriptor)

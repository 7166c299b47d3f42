"""When a host's journals may have grown: told by the kernel where it can (inotify, on Linux), looked for elsewhere.

What is told is only that something was written; what that is, its reader finds (`zabka.compose.journal_files`).  A
notice that never comes, as on a file system that gives none, is made up for at the end of its reader's wait.
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

# The collector holds lines back so that their order is kept: for 120 ms, and for 55 where one agent alone brings
# something.  The waits stay below, those of somebody who has just written below the latter.
GATHER_S = 0.025
"""A line seldom comes alone: so long those that follow it have, to go with it."""
POLL_S = 0.025
IDLE_POLL_S = 0.1
IDLE_AFTER_S = 3.0
RETRY_S = 0.5
"""So often it is tried to watch what could not be watched."""

# <sys/inotify.h>
_MODIFY = 0x002
_MOVED_TO, _CREATE, _DELETE_SELF = 0x080, 0x100, 0x400
_NOTICE = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class JournalGrowth:
    """Waits for any of these journals (by node, the directory that has it) to grow.

    The newest file of each is watched, and its directory for a newer one; a message log beside it wakes nobody.
    While one of them cannot be watched, for it is not there yet or the kernel watches no more, all are looked for.
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
        """What to wait for with `grown`; asked for before the journals are read, nothing falls between."""
        if not self._asked:
            self._asked, self._inotify = True, _Inotify.open()
        self._take()
        if not self._watched and time.monotonic() - self._tried_s > RETRY_S:
            self._watch()
        return self._notice

    async def grown(self, notice: asyncio.Event, timeout_s: float) -> None:
        """Wait until they may have grown since `begin` returned this, or for so long."""
        if self._inotify is None or not self._watched:
            idle = time.monotonic() - self._written_s > IDLE_AFTER_S
            await asyncio.sleep(min(timeout_s, IDLE_POLL_S if idle else POLL_S))
            return
        if await self._noticed(self._inotify, notice, timeout_s):
            await asyncio.sleep(GATHER_S)

    async def _noticed(self, inotify: _Inotify, notice: asyncio.Event, timeout_s: float) -> bool:
        self._waiting += 1
        if self._waiting == 1:
            # While nobody waits nobody is woken: what is written meanwhile is read at one go.
            asyncio.get_running_loop().add_reader(inotify.descriptor, self._take)
        try:
            async with asyncio.timeout(timeout_s):
                return await notice.wait()
        except TimeoutError:
            # Of a directory that was moved away, and of what took its place, there is no notice.
            self._watch()
            return False
        finally:
            self._waiting -= 1
            if not self._waiting and self._inotify is not None:
                asyncio.get_running_loop().remove_reader(inotify.descriptor)

    def wrote(self) -> None:
        """Something new was read: more is likely to come soon."""
        self._written_s = time.monotonic()

    def close(self) -> None:
        """Watch no longer."""
        if self._inotify is not None:
            if self._waiting:
                asyncio.get_running_loop().remove_reader(self._inotify.descriptor)
            self._inotify.close()
        self._inotify, self._watched = None, False

    def _take(self) -> None:
        """Read what was noticed, and wake those who wait for it."""
        noticed = self._inotify.read() if self._inotify is not None else 0
        if not noticed:
            return
        if noticed != _MODIFY:
            self._watch()
        notice, self._notice = self._notice, asyncio.Event()
        notice.set()

    def _watch(self) -> None:
        """Watch the newest files and the directories; a second time changes nothing."""
        inotify, self._tried_s = self._inotify, time.monotonic()
        self._watched = inotify is not None and all(inotify.watch(*journal) for journal in self._journals.items())


class _Inotify:
    """The kernel's notices, through its C library."""

    def __init__(self, library: ctypes.CDLL, descriptor: int) -> None:
        self._library = library
        self.descriptor = descriptor

    @staticmethod
    def open() -> _Inotify | None:
        """None where this system has no such notices, or no more of them for this user."""
        library = ctypes.CDLL(None)
        if not hasattr(library, "inotify_init1"):
            return None
        descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        return None if descriptor < 0 else _Inotify(library, descriptor)

    def watch(self, node: str, directory: Path) -> bool:
        """Watch a journal; whether that can be."""
        # The directory first: a file that comes between is noticed there.
        if not self._add(directory, _CREATE | _MOVED_TO | _DELETE_SELF):
            return False
        return all(self._add(newest, _MODIFY) for newest in node_files(directory, node)[-1:])

    def _add(self, path: Path, wanted: int) -> bool:
        return bool(self._library.inotify_add_watch(self.descriptor, os.fsencode(path), wanted) >= 0)

    def read(self) -> int:
        """All that was noticed since the last time, as one mask; 0 for nothing."""
        found, place = 0, 0
        with contextlib.suppress(BlockingIOError):
            told = os.read(self.descriptor, _READ_BYTES)
            while place < len(told):
                _, mask, _, name_bytes = _NOTICE.unpack_from(told, place)
                found |= mask
                place += _NOTICE.size + name_bytes
        return found

    def close(self) -> None:
        os.close(self.descriptor)

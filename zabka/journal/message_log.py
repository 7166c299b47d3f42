"""The log of the messages that a process sends and receives, in files next to the process's journal.

The log is bounded, writes in batches, and never blocks the process. The code of a connection records its messages in a
`MessageNotes`; on a real host, that is a `MessageLog`.

The lines (`zabka.journal.sightings`) are in `<node>.messages.<number of the first line, 10 digits>.jsonl`. A new file
begins after FILE_LINES lines, and the oldest file is removed if there are more than FILES_MAX: a ring of 50,000 lines.
A thread encodes and writes the lines. If the disk is too slow, messages are dropped and counted, and the next line
contains their number.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import NamedTuple, Protocol

from zabka.journal.messages import Content
from zabka.journal.sightings import Sighting, sighting_line

OFF, CONTROL, ALL = LEVELS = ("off", "control", "all")
"""Values of the config key `zabka.messages`."""
FILE_LINES = 10_000
FILES_MAX = 5
WAITING_MAX = 20_000
BATCH_S = 0.1
END_S = 1.0
_IPV4_IN_IPV6 = "::ffff:"


class Transport(Protocol):
    """A connection's transport, with the interface of asyncio's transports."""

    def get_extra_info(self, name: str) -> object:
        """Return the address `sockname` or `peername`."""
        ...


class _Noted(NamedTuple):
    us: int
    sent: bool
    line: str
    opened_us: int
    key: str
    content: Content
    size: int | None
    other: str | None
    missed: int


class MessageNotes(ABC):
    """Interface that records the messages of one process.

    `hears_everything` is true for `zabka.messages=all`. Otherwise callers record only control messages.
    """

    def __init__(self, *, hears_everything: bool) -> None:
        self.hears_everything = hears_everything

    @abstractmethod
    def now_us(self) -> int:
        """Return the current time of the clock that messages use."""

    @abstractmethod
    def note(self, us: int, sent: bool, line: MessageLine, key: str, content: Content, size: int | None) -> None:
        """Record one message that was sent or received at the time `us`."""

    def line(self, transport: Transport, other: str | None = None) -> MessageLine:
        """Return the recorder for one connection. `other` is the node at the other end, if known."""
        return MessageLine(self, connection_name(transport), other)


class MessageLog(MessageNotes):
    """Writes the messages of one node to files. Raises OSError if the directory is not writable."""

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        hears_everything: bool = False,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(hears_everything=hears_everything)
        self.dropped = 0
        """Number of messages that were not written because the queue was full or the disk failed."""
        self._directory = directory
        self._node = node
        self._clock_us = clock_us
        self._waiting: deque[_Noted] = deque()
        self._missed = 0
        self._unwritten = 0
        """Number of messages that were not written because the disk failed. The next line that is written contains this
        number.
        """
        self._complaint = ""
        self._number = _last_number(directory, node)
        self._file: FileIO | None = None
        self._lines_left = 0
        self._something = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._keep_writing, name="messages", daemon=True)
        self._thread.start()

    def now_us(self) -> int:
        """Return the time of the wall clock, in microseconds."""
        return self._clock_us()

    def note(self, us: int, sent: bool, line: MessageLine, key: str, content: Content, size: int | None) -> None:
        """Queue a message for writing."""
        waiting = self._waiting
        if len(waiting) >= WAITING_MAX:
            self._missed += 1
            self.dropped += 1
            return
        missed = self._missed
        waiting.append(
            _Noted(us, sent, line.name, line.opened_us, key, content, size=size, other=line.other, missed=missed)
        )
        self._missed = 0
        if not self._something.is_set():
            self._something.set()

    def close(self) -> None:
        """Write the queued messages, unless the disk is too slow."""
        self._ended = True
        self._something.set()
        self._thread.join(END_S)

    # -- on the writer thread ----------------------------------------------------------------------------------------

    def _keep_writing(self) -> None:
        while not self._ended:
            self._something.wait()
            if not self._ended:
                time.sleep(BATCH_S)
            self._something.clear()
            self._write()
        self._write()
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        left = len(self._waiting)
        try:
            while left:
                left -= self._write_some(left)
        except OSError as reason:
            self._complain(f"messages of {self._node} are left out: {reason.strerror or reason}")
        else:
            self._complaint = ""

    def _write_some(self, count: int) -> int:
        """Write up to `count` queued messages, as far as they fit in the current file. Return how many were written.

        Raises OSError. In that case, none of the messages is in the file: either they stay in the queue, or they are
        lost, and the next line contains their number.
        """
        if self._lines_left == 0:
            self._begin_file()
        number, unwritten = self._number, self._unwritten
        taken = [self._waiting.popleft() for _ in range(min(count, self._lines_left))]
        try:
            self._hand_over(b"".join(map(self._encoded, taken)))
        except OSError:
            self._number, self._unwritten = number, unwritten + sum(1 + noted.missed for noted in taken)
            self.dropped += len(taken)
            raise
        self._lines_left -= len(taken)
        return len(taken)

    def _complain(self, complaint: str) -> None:
        # Suppress errors: if the journal's disk is full, the disk of the error log may be full as well. The thread must
        # continue until there is space again.
        if complaint != self._complaint:
            self._complaint = complaint
            with contextlib.suppress(OSError):
                sys.stderr.write(complaint + "\n")

    def _encoded(self, noted: _Noted) -> bytes:
        content = noted.content
        self._number += 1
        missed, self._unwritten = noted.missed + self._unwritten, 0
        return sighting_line(
            Sighting(
                n=self._number,
                node=self._node,
                us=noted.us,
                way="sent" if noted.sent else "received",
                line=noted.line,
                key=noted.key,
                group=content.group,
                kind=content.kind,
                subject=content.subject,
                bytes=noted.size,
                other=noted.other,
                missed=missed,
                opened=noted.opened_us,
            )
        )

    def _hand_over(self, lines: bytes) -> None:
        """Write all lines to the file, or none of them. Raises OSError."""
        assert self._file is not None
        size, rest = os.fstat(self._file.fileno()).st_size, memoryview(lines)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            # Remove an incomplete line, because it would make the next line unreadable as well.
            self._file.truncate(size)
            raise

    def _begin_file(self) -> None:
        if self._file is not None:
            self._file.close()
        path = self._directory / f"{self._node}.messages.{self._number + 1:010d}.jsonl"
        self._file = path.open("ab", buffering=0)
        self._lines_left = FILE_LINES
        for old in message_files(self._directory, self._node)[:-FILES_MAX]:
            old.unlink(missing_ok=True)


class MessageLine:
    """Records the messages of one connection. Both ends use the same keys for the same messages."""

    __slots__ = ("_counts", "_notes", "expected", "name", "opened_us", "other")

    def __init__(self, notes: MessageNotes, name: str, other: str | None) -> None:
        self._notes = notes
        self.name = name
        self.other = other
        self.opened_us = notes.now_us()
        self.expected: list[deque[int]] = []
        """Zxids of messages that are expected on this connection, in one queue per message kind and direction.

        Only the code that records the connection uses these queues.
        """
        self._counts: dict[tuple[str, bool], int] = {}

    def sent(self, content: Content, key: str | None = None, size: int | None = None, us: int | None = None) -> None:
        """Record a sent message. If the protocol gives it no `key`, its kind and its position in the connection
        identify it.
        """
        self._note(True, content, key, size, us)

    def received(
        self, content: Content, key: str | None = None, size: int | None = None, us: int | None = None
    ) -> None:
        """Record a received message."""
        self._note(False, content, key, size, us)

    def _note(self, sent: bool, content: Content, key: str | None, size: int | None, us: int | None) -> None:
        if key is None:
            count = self._counts[content.kind, sent] = self._counts.get((content.kind, sent), 0) + 1
            key = f"{content.kind}#{count}"
        self._notes.note(self._notes.now_us() if us is None else us, sent, self, key, content, size)


def message_files(directory: Path, node: str) -> list[Path]:
    """Return a node's message files, oldest first."""
    return sorted(directory.glob(f"{node}.messages.{'[0-9]' * 10}.jsonl"))


def open_message_log(directory: Path, node: str, level: str) -> MessageLog | None:
    """Open the log for a value of `zabka.messages`; return None for `off`. Raises OSError."""
    return None if level == OFF else MessageLog(directory, node, hears_everything=level == ALL)


def _last_number(directory: Path, node: str) -> int:
    """Return the number of the last line in the node's message files, 0 if there is none."""
    files = message_files(directory, node)
    return int(files[-1].name.rsplit(".", 2)[1]) - 1 + files[-1].read_bytes().count(b"\n") if files else 0


def connection_name(transport: Transport) -> str:
    """Return the name of a connection: its two addresses, sorted, so that both ends use the same name."""
    ends = [_address(transport.get_extra_info(name)) for name in ("sockname", "peername")]
    return "|".join(sorted(ends))


def _address(name: object) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        return f"{str(name[0]).removeprefix(_IPV4_IN_IPV6)}:{name[1]}"
    return "unknown"

"""Writes the journal of a node: JSON Lines files, rotated and bounded.

A node writes to `<directory>/<node>.<first node_seq, 12 digits>.jsonl`. When that file reaches `file_bytes_max` a new
file begins, and the oldest is removed if there are more than `files_max`. Lines are buffered and written to the
operating system at `flush()`, or automatically when BUFFER_BYTES_MAX are buffered, so a killed process loses at most
the lines since its last flush. After a restart `node_seq` continues after the last number in the newest file.

While the disk is full, lines wait in memory. Beyond WAITING_BYTES_MAX the oldest lines are dropped: their numbers are
missing in the journal, and the number of lost lines is printed on standard error.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Protocol

import msgspec

from zabka.journal.cause import UNKNOWN, Cause, event_cause
from zabka.journal.events import KNOWN, SCHEMA_VERSION, Event, Level, TopicPartition
from zabka.journal.high_watermark_files import read_high_watermarks
from zabka.journal.reader import last_node_seq, node_files

FILE_BYTES_MAX = 16 * 1024 * 1024
FILES_MAX = 8
BUFFER_BYTES_MAX = 64 * 1024
WAITING_BYTES_MAX = 8 * 1024 * 1024

_encoder = msgspec.json.Encoder()


def encode_line(node: str, node_seq: int, wall_us: int, mono_us: int, event: Event) -> bytes:
    """Encode one journal line with its newline: first the fields of the envelope, then those of the event.

    Raises TypeError for an event whose type is not listed in `zabka.journal.events.EVENT_TYPES`, because no reader
    could decode it.
    """
    if type(event) not in KNOWN:
        raise TypeError(f"{type(event).__name__} is missing in journal.events.EVENT_TYPES")
    body = _encoder.encode(event)
    head = f'{{"schema":{SCHEMA_VERSION},"node":"{node}","node_seq":{node_seq},"wall_us":{wall_us},"mono_us":{mono_us},'
    return head.encode() + body[1:] + b"\n"


def clocks_us() -> tuple[int, int]:
    """Return the times of the wall clock and of the monotonic clock, in microseconds."""
    return time.time_ns() // 1000, time.monotonic_ns() // 1000


class Journal(Protocol):
    """Interface for writing the events of a node."""

    def write(self, event: Event) -> Cause:
        """Add an event to the journal. Return a reference to it, which can be the cause of other events."""
        ...

    def flush(self) -> None:
        """Write the buffered events, so that other processes can read them."""
        ...

    def high_watermarks_reached(self) -> dict[TopicPartition, int]:
        """Return the high watermark of each replica of the node, according to this journal."""
        ...


class JournalWriter:
    """Writes the events of one node to its journal files.

    If `full` is true, events of Level.FULL are written too. The directory is created if it is missing. Raises OSError
    if the directory is not writable.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        full: bool = False,
        file_bytes_max: int = FILE_BYTES_MAX,
        files_max: int = FILES_MAX,
        clocks: Callable[[], tuple[int, int]] = clocks_us,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.node = node
        self._directory = directory
        self._full = full
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._clocks = clocks
        self._buffer = bytearray()
        self._stalled = False
        self._lost = 0
        self._node_seq = last_node_seq(directory, node)
        self._file, self._size = self._open_newest()

    def _open_newest(self) -> tuple[FileIO, int]:
        files = node_files(self._directory, self.node)
        if not files:
            return self._open_next()
        file = files[-1].open("r+b", buffering=0)
        size = file.seek(0, 2)
        if size and (file.seek(size - 1), file.read(1))[1] != b"\n":
            # A crash left an incomplete line. End this line, so that readers skip only it.
            file.write(b"\n")
            size += 1
        return file, size

    def _open_next(self) -> tuple[FileIO, int]:
        path = self._directory / f"{self.node}.{self._node_seq + 1:012d}.jsonl"
        return path.open("ab", buffering=0), 0

    def write(self, event: Event) -> Cause:
        """Add an event with the current time. The next flush writes it to the file.

        Returns a reference to the event, which can be the cause of other events; the reference is unknown if the
        journal's level omits the event. Raises TypeError for an event whose type is not listed, as `encode_line` does.
        """
        if event.level is Level.FULL and not self._full:
            return UNKNOWN
        self._node_seq += 1
        wall_us, mono_us = self._clocks()
        self._buffer += encode_line(self.node, self._node_seq, wall_us, mono_us, event)
        if len(self._buffer) >= BUFFER_BYTES_MAX:
            self.flush()
        return event_cause(self.node, self._node_seq)

    def flush(self) -> None:
        """Write all buffered lines to the operating system.

        If they cannot be written, they stay in memory, and the reason is printed on standard error.
        """
        if not self._buffer:
            return
        try:
            while self._buffer:
                taken = self._file.write(self._buffer)
                self._size += taken
                del self._buffer[:taken]
            if self._size >= self._file_bytes_max:
                self._rotate()
        except OSError as reason:
            self._wait(reason)
            return
        if self._stalled:
            self._stalled = False
            self._report("it goes on" + self._without())
            self._lost = 0

    def high_watermarks_reached(self) -> dict[TopicPartition, int]:
        """Return the high watermark of each replica of the node, according to this journal.

        The result is empty if the journal files cannot be read.
        """
        self.flush()
        try:
            return read_high_watermarks(self._directory, self.node)
        except OSError:
            return {}

    def _wait(self, reason: OSError) -> None:
        if not self._stalled:
            self._stalled = True
            self._report(f"{reason.strerror or reason}; events wait until it can go on")
        surplus = len(self._buffer) - WAITING_BYTES_MAX
        if surplus > 0:
            # Part of the first line may already be in the file, so keep that line.
            first = self._buffer.find(b"\n") + 1
            self._lose(first, self._buffer.find(b"\n", first + surplus) + 1)

    def _lose(self, begin: int, end: int) -> None:
        self._lost += self._buffer.count(b"\n", begin, end)
        del self._buffer[begin:end]

    def _without(self) -> str:
        return f", without {self._lost:,} events that were lost" if self._lost else ""

    def _report(self, text: str) -> None:
        # Suppress the error: standard error may be a file on the same full disk.
        with contextlib.suppress(OSError):
            sys.stderr.write(f"journal of {self.node}: {text}\n")

    def _rotate(self) -> None:
        before = self._file
        self._file, self._size = self._open_next()
        before.close()
        for old in node_files(self._directory, self.node)[: -self._files_max]:
            old.unlink(missing_ok=True)

    def close(self) -> None:
        """Flush and close the journal. Lines that still cannot be written are lost."""
        self.flush()
        if self._buffer:
            self._lose(0, len(self._buffer))
            self._report("it ends" + self._without())
        self._file.close()

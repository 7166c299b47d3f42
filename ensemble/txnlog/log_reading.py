"""Reads the log while it is being written, for a learner whose missing transactions are no longer in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from zlib import adler32

from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.records import END_OF_RECORD, HEADER, RECORD_HEAD, TXN_BYTES_MAX
from zabka.ensemble.zab.effects import ReadLog

PIECE_TXNS = 500
PIECE_BYTES = 1 << 20
_READ_BYTES = 1 << 18
_ZXID_AT = slice(12, 20)
_POSITIONS_MAX = 64
_BLOCK_BYTES = 512
_NO_RECORD = bytes(RECORD_HEAD.size)
"""Content of a record header that is read from the preallocated zeros after the last record."""


class LogReader:
    """Reads the log piece by piece; remembers where each piece ends, because the next one begins there."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
        self._positions: dict[int, tuple[Path, int]] = {}

    def read(self, requested: ReadLog) -> list[Txn] | None:
        """Return the next transactions that a `zabka.ensemble.zab.effects.ReadLog` requests. Raises OSError.

        Return None if the log does not contain the position at which to continue, or if a snapshot is cheaper to send.
        """
        after, size_factor, borders = requested.after, requested.size_factor, requested.borders
        positions = self._positions
        found = positions.pop(after, None) or self._find(after, requested.base)
        if found is None or (size_factor and self._size_after(*found) > size_factor * self._snapshot_bytes()):
            return None
        txns: list[Txn] = []
        size, last = 0, after
        position = found
        for path, end, body in _records_from(self._files_from(found[0]), found[1], self._directories.files):
            try:
                txn = Txn.decode(body)
            except MalformedRecord:
                break
            if txn.zxid <= last:
                continue
            if txn.zxid != borders.get(last, last + 1):
                break  # transactions in between were purged or are unreadable
            txns.append(txn)
            position, last = (path, end), txn.zxid
            size += len(body)
            if len(txns) >= PIECE_TXNS or size >= PIECE_BYTES:
                break
        if txns:
            positions[last] = position
            while len(positions) > _POSITIONS_MAX:
                del positions[next(iter(positions))]
        return txns or None

    def forget_positions(self) -> None:
        """Forget the remembered positions, because the log was truncated or replaced.

        If another thread is reading at the same time, the positions that it adds are forgotten too.
        """
        self._positions = {}

    def _find(self, after: int, base: int) -> tuple[Path, int] | None:
        """Return the file and offset after the transaction with zxid `after`, or None if the log does not contain it.

        If `after` is `base`, the history begins directly after it, and the beginning of the log is returned.
        """
        files = self._directories.logs()
        if not files:
            return None
        first = max((i for i, (zxid, _) in enumerate(files) if zxid <= after), default=0)
        for path, end, body in _records_from([files[first][1]], HEADER.size, self._directories.files):
            zxid = int.from_bytes(body[_ZXID_AT], "big")
            if zxid == after:
                return path, end
            if zxid > after:
                break
        return (files[first][1], HEADER.size) if after == base else None

    def _files_from(self, path: Path) -> list[Path]:
        files = [file for _, file in self._directories.logs()]
        return files[files.index(path) :] if path in files else []

    def _size_after(self, path: Path, offset: int) -> int:
        """Return the approximate size of the log after a position; the preallocated part, which is a hole, does not
        count.
        """
        stat = self._directories.files.stat
        return sum(stat(file).st_blocks * _BLOCK_BYTES for file in self._files_from(path)) - offset

    def _snapshot_bytes(self) -> int:
        snapshots = self._directories.snapshots()
        return self._directories.files.stat(snapshots[-1][1]).st_size if snapshots else 0


def _records_from(paths: list[Path], offset: int, files: Files) -> Iterator[tuple[Path, int, bytes]]:
    """Yield (file, end offset, transaction bytes) of the records after `offset` in the first file, and in later files.

    Stop at the first damaged or incomplete record.
    """
    for path in paths:
        descriptor = files.open(path, os.O_RDONLY)
        try:
            for end, body in _records_in(descriptor, offset, files):
                yield path, end, body
        except _NotWhole:
            return
        finally:
            files.close(descriptor)
        offset = HEADER.size


class _NotWhole(Exception):
    """A record is damaged or incomplete, so that there is a gap before the records in later files."""


def _records_in(descriptor: int, offset: int, files: Files) -> Iterator[tuple[int, bytes]]:
    """Yield (end offset, transaction bytes) of each record, up to the end of the file or to the zeros before it.

    Raises _NotWhole.
    """
    buffer, start, pos = b"", offset, 0
    while True:
        head = buffer[pos : pos + RECORD_HEAD.size]
        length = RECORD_HEAD.unpack(head)[1] if len(head) == RECORD_HEAD.size else 0
        if head == _NO_RECORD:
            return
        if len(head) == RECORD_HEAD.size and not 0 < length <= TXN_BYTES_MAX:
            raise _NotWhole
        end = pos + RECORD_HEAD.size + length
        if len(head) < RECORD_HEAD.size or end >= len(buffer):
            more = files.pread(descriptor, max(_READ_BYTES, length), start + len(buffer))
            if not more and buffer[pos:].strip(b"\0"):
                raise _NotWhole
            if not more:
                return
            buffer, start, pos = buffer[pos:] + more, start + pos, 0
            continue
        body = buffer[pos + RECORD_HEAD.size : end]
        if buffer[end] != END_OF_RECORD[0] or adler32(body) != RECORD_HEAD.unpack(head)[0]:
            raise _NotWhole
        pos = end + 1
        yield start + pos, body

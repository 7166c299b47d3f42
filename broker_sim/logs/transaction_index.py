"""The aborted transactions whose markers are in one segment (Kafka's TransactionIndex, AbortedTxn).

BASE.txnindex is stored next to BASE.log, and has one entry per aborted transaction, in the order of their markers. When
a log is opened, the entries are computed again from the log's batches, so a lost or damaged file is replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from zabka.broker_sim.ports import AbortedTransaction, LogDirectory, LogFile

SUFFIX = ".txnindex"
_VERSION = 0
_ENTRY = Struct(">hqqqq")


class CompletedTransaction(NamedTuple):
    """A completed transaction in one partition, from its first record to its marker (Kafka's CompletedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


def file_name(base_offset: int) -> str:
    """Return the name of the index of the segment that begins at this offset."""
    return f"{base_offset:020d}{SUFFIX}"


def encode(entries: Sequence[AbortedTransaction]) -> bytes:
    """Encode entries in the format of the index file."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


class TransactionIndex:
    """The transaction index of one segment, in memory and in its file."""

    __slots__ = ("_file", "entries")

    def __init__(self, file: LogFile, entries: Sequence[AbortedTransaction] = ()) -> None:
        """Write these entries unless the file already has them."""
        self.entries = list(entries)
        self._file = file
        data = encode(self.entries)
        if file.size() != len(data) or file.read(0, len(data)) != data:
            file.truncate(0)
            if data:
                file.append(data)

    def append(self, entry: AbortedTransaction) -> None:
        """Add an aborted transaction. Its marker must be after the markers of all other entries."""
        self.entries.append(entry)
        self._file.append(encode([entry]))

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose markers are at `offset` or later."""
        count = bisect_left(self.entries, offset, key=_last_offset)
        if count < len(self.entries):
            del self.entries[count:]
            self._file.truncate(count * _ENTRY.size)

    def flush(self) -> None:
        """Sync the index to disk, so that it survives a power loss."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset


class TransactionIndexes:
    """The transaction indexes of one log, keyed by the base offset of the segment.

    A segment without an aborted transaction has no index. `name` is the log's directory; the log updates it when the
    directory is renamed.
    """

    __slots__ = ("_by_base", "_directory", "name")

    def __init__(self, directory: LogDirectory, name: str) -> None:
        self._directory = directory
        self.name = name
        self._by_base: dict[int, TransactionIndex] = {}

    def __bool__(self) -> bool:
        return bool(self._by_base)

    def _open(self, base_offset: int) -> LogFile:
        return self._directory.open(self.name, file_name(base_offset))

    def restore(self, files: Sequence[str], entries: dict[int, list[AbortedTransaction]]) -> None:
        """Create the indexes with these entries, keyed by base offset. Remove index files of segments without
        entries.
        """
        for file in files:
            base = file.removesuffix(SUFFIX)
            if file.endswith(SUFFIX) and not (base.isdigit() and int(base) in entries):
                self._directory.remove(self.name, file)
        for base_offset, found in entries.items():
            self.replace(base_offset, found)

    def append(self, base_offset: int, entry: AbortedTransaction) -> None:
        """Add an entry to the index of a segment."""
        index = self._by_base.get(base_offset)
        if index is None:
            self._by_base[base_offset] = TransactionIndex(self._open(base_offset), [entry])
        else:
            index.append(entry)

    def replace(self, base_offset: int, entries: Sequence[AbortedTransaction]) -> None:
        """Replace the entries of a segment."""
        if not entries:
            self.remove(base_offset)
            return
        old = self._by_base.pop(base_offset, None)
        if old is not None:
            old.close()
        self._by_base[base_offset] = TransactionIndex(self._open(base_offset), entries)

    def remove(self, base_offset: int) -> None:
        """Remove the index of a segment, if it has one."""
        index = self._by_base.pop(base_offset, None)
        if index is not None:
            index.close()
            self._directory.remove(self.name, file_name(base_offset))

    def truncate_to(self, base_offset: int, offset: int) -> None:
        """Truncate the index of the segment at `base_offset`, which is now the last segment of the log."""
        index = self._by_base.get(base_offset)
        if index is not None:
            index.truncate_to(offset)

    def flush(self, base_offset: int) -> None:
        """Sync the index of a segment to disk, so that it survives a power loss."""
        index = self._by_base.get(base_offset)
        if index is not None:
            index.flush()

    def close(self) -> None:
        """Close all files."""
        for index in self._by_base.values():
            index.close()

    def collect(self, bases: Sequence[int], start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records from `start` to before `end` (collectAbortedTxns).

        `bases` are the base offsets of the segment that contains `start` and of all later segments.
        """
        found: list[AbortedTransaction] = []
        for base in bases:
            index = self._by_base.get(base)
            if index is None:
                continue
            for entry in index.entries[bisect_left(index.entries, start, key=_last_offset) :]:
                if entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found
        return found

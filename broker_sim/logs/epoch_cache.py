"""Leader epochs of one replica's log, each with its start offset (Kafka's LeaderEpochFileCache, KIP-101)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1

Entries = list[tuple[int, int]]


class EpochCache:
    """The (epoch, start offset) entries of one log, in ascending order.

    `save` is called with all entries after every change.
    """

    __slots__ = ("_entries", "_save")

    def __init__(self, entries: Entries, save: Callable[[Entries], None]) -> None:
        self._entries = list(entries)
        self._save = save

    @property
    def entries(self) -> Entries:
        """All (epoch, start offset) entries, in ascending order."""
        return list(self._entries)

    @property
    def latest(self) -> int:
        """The latest epoch; -1 if there is none."""
        return self._entries[-1][0] if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`, and drop contradicting entries. Return False if nothing
        changed.
        """
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        if self._entries and self._entries[-1][0] == epoch and start_offset >= self._entries[-1][1]:
            return False
        self._begin(epoch, start_offset)
        self._save(self._entries)
        return True

    def _begin(self, epoch: int, start_offset: int) -> None:
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start_offset):
            self._entries.pop()
        self._entries.append((epoch, start_offset))

    def assign_later(self, starts: Iterable[tuple[int, int]]) -> None:
        """Record those (epoch, start offset) pairs whose epoch is later than the latest entry.

        A follower may append thousands of epochs at once, so the entries are saved once instead of once per epoch.
        """
        latest_before = self.latest
        for epoch, start_offset in starts:
            if epoch > self.latest:
                self._begin(epoch, start_offset)
        if self.latest != latest_before:
            self._save(self._entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch not above `epoch`, and the offset after the last record of that epoch.

        Returns (-1, -1) if they are unknown, for example for an epoch that this replica has not seen yet.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._entries[-1][0]:
            return epoch, log_end_offset
        above = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        if above == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if above == 0:
            return epoch, self._entries[0][1]
        return self._entries[above - 1][0], self._entries[above][1]

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; -1 if unknown."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[at - 1][0] if at else UNDEFINED_EPOCH

    def epoch_at(self, offset: int, up_to: int) -> tuple[int, int]:
        """Return the epoch of the record at `offset`, or -1, and the offset at which that epoch ends, limited to
        `up_to`.
        """
        later = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        ends = self._entries[later][1] if later < len(self._entries) else up_to
        return self._entries[later - 1][0] if later else UNDEFINED_EPOCH, min(ends, up_to)

    def starts_within(self, offset: int, up_to: int) -> Iterator[int]:
        """Yield the offsets from `offset` to before `up_to` at which an epoch begins."""
        for at in range(bisect_left(self._entries, offset, key=lambda entry: entry[1]), len(self._entries)):
            start_offset = self._entries[at][1]
            if start_offset >= up_to:
                break
            yield start_offset

    def truncate_from_end(self, offset: int) -> None:
        """Drop the epochs that begin at `offset` or later, because the log now ends there."""
        if self._entries and self._entries[-1][1] >= offset:
            self._entries = [entry for entry in self._entries if entry[1] < offset]
            self._save(self._entries)

    def truncate_from_start(self, offset: int) -> None:
        """Drop or shorten the epochs before `offset`, because the log now starts there."""
        dropped = [entry for entry in self._entries if entry[1] <= offset]
        if len(dropped) > 1 or (dropped and dropped[-1][1] < offset):
            self._entries = [(dropped[-1][0], offset), *self._entries[len(dropped) :]]
            self._save(self._entries)

    def believe(self, written: Entries, last_of: Mapping[int, int]) -> None:
        """Correct the entries according to the records in the log.

        `written` has the offset at which each epoch in the records begins; `last_of` has the offset of each epoch's
        last batch.

        - A power loss may have restored an older file. If an entry is followed by a record of a lower epoch, the
        entry's epoch was truncated after that file was written, and the entry is removed. An entry without any record
        is kept, because compaction may have emptied its epoch.
        - If a process was killed after it moved the log start but before it stored the new log start, the deleted
          records are read again, but their epochs are missing. These epochs are added, because otherwise a follower
          with other records at those offsets would not be truncated there.
        """
        stale = [entry for entry in self._entries if any(e < entry[0] and at >= entry[1] for e, at in last_of.items())]
        if stale:
            self._entries = [entry for entry in self._entries if entry not in stale]
            known = {epoch for epoch, _ in self._entries}
            missing = [entry for entry in written if entry[0] not in known]
            self._entries = sorted([*self._entries, *missing])
            self._save(self._entries)
        back = [entry for entry in written if self._entries and entry[1] < self._entries[0][1]]
        if back:
            self._entries = [*back, *(entry for entry in self._entries if entry[0] > back[-1][0])]
            self._save(self._entries)
        self.assign_later(written)

    def replace(self, entries: Entries) -> None:
        """Replace all entries."""
        if self._entries != entries:
            self._entries = list(entries)
            self._save(self._entries)

    def clear(self) -> None:
        """Drop all entries, because the log was emptied."""
        if self._entries:
            self._entries = []
            self._save(self._entries)

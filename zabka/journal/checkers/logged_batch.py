"""A batch of a replica's log, as the journal records it."""

from __future__ import annotations

from typing import NamedTuple

from zabka.journal import events as e


class LoggedBatch(NamedTuple):
    """A batch's offsets and checksum, which identify it until it is compacted."""

    first: int
    last: int
    checksum: int
    compacted: bool = False

    def is_kept_as(self, found: LoggedBatch | None, compacted_to: int) -> bool:
        """Return whether `found`, at the same first offset, is this batch or a more or less compacted form of it.

        Compaction has reached the offset `compacted_to` on some replica, which other replicas may have copied.
        """
        if found is not None and found[:3] == self[:3]:
            return True
        return self.first <= compacted_to and (found is None or found.compacted or self.compacted)


def logged(event: e.RecordsAppended | e.RecordsReplicated) -> LoggedBatch:
    """Return the batch that was appended."""
    compacted = isinstance(event, e.RecordsReplicated) and event.compacted
    return LoggedBatch(event.first_offset, event.last_offset, event.checksum, compacted)

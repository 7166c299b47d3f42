"""A batch of a replica's log, as the journal's events describe it."""

from __future__ import annotations

from typing import NamedTuple

from zabka.journal import events as e


class LoggedBatch(NamedTuple):
    """Offsets and checksum of a batch. They identify the batch until it is compacted."""

    first: int
    last: int
    checksum: int
    compacted: bool = False

    def is_kept_as(self, found: LoggedBatch | None, compacted_to: int) -> bool:
        """Return whether the batch `found`, at the same first offset, is this batch, possibly changed by compaction.

        Either of the two may be the compacted one, if the batch begins at or below `compacted_to`. Up to that offset,
        compaction has processed the log of some replica, and other replicas may have copied that log. `found` is None
        if compaction may have removed the whole batch.
        """
        if found is not None and found[:3] == self[:3]:
            return True
        return self.first <= compacted_to and (found is None or found.compacted or self.compacted)


def logged(event: e.RecordsAppended | e.RecordsReplicated) -> LoggedBatch:
    """Return the batch that was appended according to an event."""
    compacted = isinstance(event, e.RecordsReplicated) and event.compacted
    return LoggedBatch(event.first_offset, event.last_offset, event.checksum, compacted)

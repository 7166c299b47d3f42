"""A batch of a replica's log, as the journal tells of it."""

from __future__ import annotations

from typing import NamedTuple

from zabka.journal import events as e


class LoggedBatch(NamedTuple):
    """Offsets and checksum, by which a batch is known until compaction has been through it."""

    first: int
    last: int
    checksum: int
    compacted: bool = False

    def is_kept_as(self, found: LoggedBatch | None, compacted_to: int) -> bool:
        """Is it what was found at its first offset, or may compaction have made that of it, or it of that?  Compaction
        is known to have come as far as the offset `compacted_to` on some replica, of which others are made anew."""
        if found is not None and found[:3] == self[:3]:
            return True
        return self.first <= compacted_to and (found is None or found.compacted or self.compacted)


def logged(event: e.RecordsAppended | e.RecordsReplicated) -> LoggedBatch:
    """The batch that was appended."""
    compacted = isinstance(event, e.RecordsReplicated) and event.compacted
    return LoggedBatch(event.first_offset, event.last_offset, event.checksum, compacted)

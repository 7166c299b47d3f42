"""What is read where compaction has left nothing up to where one may read.

Kafka answers with nothing there, and whoever follows stands still until somebody writes.
"""

from __future__ import annotations

from zabka.broker_sim.logs.epoch_cache import EpochCache
from zabka.broker_sim.logs.segment import Segment
from zabka.kafka.record_batch import NO_PRODUCER, BatchHeader, empty_batch

_BATCH_OFFSETS_MAX = 1 << 31
"""A batch spans so many offsets at most."""
_EPOCHS_AT_ONCE = 100
"""In one read: to look each up takes some 50 µs."""


def empty_batches(
    epochs: EpochCache, offset: int, up_to: int, time_ms: int, max_bytes: int, at_least_one: bool
) -> bytes:
    """Batches of no records in the place of those that were there from `offset` to before `up_to`, one of each epoch:
    whoever follows is to know where that ended.  As many as fit into `max_bytes`, or one if `at_least_one`."""
    gap = b""
    while offset < up_to:
        epoch, end_offset = epochs.epoch_at(offset, up_to)
        end_offset = min(end_offset, offset + _BATCH_OFFSETS_MAX)
        batch = empty_batch(offset, end_offset - 1, epoch, time_ms)
        if len(gap) + len(batch) > max_bytes and (gap or not at_least_one):
            break
        gap += batch
        offset = end_offset
    return gap


def is_gap(header: BatchHeader) -> bool:
    """Is it such a batch, as a follower stores it?  It ends where one that compaction has emptied did, but may begin
    anywhere.  One that is kept for the sake of its producer is whole."""
    return not header.record_count and header.producer_id == NO_PRODUCER


def before_epoch_in_gap(epochs: EpochCache, segment: Segment, offset: int, end: int) -> int:
    """Where to read a segment up to, behind `offset` and at most to the position `end`, so that no epoch begins in a
    gap in between."""
    for number, start_offset in enumerate(epochs.starts_within(offset, segment.end_offset), 1):
        found = segment.locate(start_offset)
        if found is None or found[0] >= end:
            break
        if found[1].base_offset > start_offset or number == _EPOCHS_AT_ONCE:
            return found[0]
    return end

"""Compaction, which retains only the latest record of each key (Kafka's LogCleaner).

A map of bounded size stores the keys of new records; keys that do not fit are left for the next compaction. Each
segment is cleaned into a new file that then replaces it. Batches keep their offsets, so a compacted log has gaps. Only
closed segments that end before the last stable offset are compacted, because their transactions are decided. Records of
aborted transactions are removed immediately. The marker of a transaction is removed after all its batches, and no
earlier than a tombstone would be.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from zabka.broker_sim.configs.replica_config import CompactionSettings
from zabka.broker_sim.logs.cleaned_transactions import CleanedTransactions
from zabka.broker_sim.logs.key_offsets import KeyOffsets
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.producer_snapshots import NO_OFFSET
from zabka.broker_sim.logs.producer_state import LastRecord
from zabka.broker_sim.logs.segment import Segment
from zabka.broker_sim.ports import AbortedTransaction, LogFile
from zabka.broker_sim.slices import SLICE_RECORDS, Slices, in_slices
from zabka.ensemble.ports import Runtime
from zabka.kafka.record_batch import (
    BatchHeader,
    BatchUnreadable,
    Record,
    delete_horizon_ms,
    filter_batch,
    is_control,
    iter_batch,
)

_SLICE_BATCHES = 1_000
"""Number of batch headers to read before other tasks can run."""

_LAST_MS = 2**63 - 1
"""The latest possible timestamp of a batch. A timestamp plus delete.retention.ms is limited to this value."""

IsGone = Callable[[Segment], bool]
BeforeReplacing = Callable[[Segment, int], None]
"""Called before a segment is replaced, with the segment and the size of its replacement in bytes."""


class _Section(NamedTuple):
    """The segments that compaction can rewrite, and how many of them were compacted before."""

    segments: Sequence[Segment]
    clean_count: int

    @property
    def dirty(self) -> Sequence[Segment]:
        """The segments that no compaction has processed yet."""
        return self.segments[self.clean_count :]

    @property
    def dirty_ratio(self) -> float:
        """The share of bytes in segments that no compaction has processed yet."""
        total = sum(segment.size for segment in self.segments)
        return sum(segment.size for segment in self.dirty) / total if total else 0.0


def _section(log: PartitionLog, settings: CompactionSettings, wall_ms: int) -> _Section:
    cleanable: list[Segment] = []
    stable = log.last_stable_offset
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > stable:
            break
        if settings.lag_min_ms > 0 and wall_ms - segment.max_timestamp < settings.lag_min_ms:
            break
        cleanable.append(segment)
    clean = sum(1 for segment in cleanable if segment.end_offset <= log.first_dirty_offset)
    return _Section(cleanable, clean)


def is_filthy(log: PartitionLog, settings: CompactionSettings, wall_ms: int) -> bool:
    """Return whether the log must be compacted now."""
    section = _section(log, settings, wall_ms)
    if not section.dirty:
        return False
    dated = [segment.first_timestamp for segment in section.dirty if segment.first_timestamp >= 0]
    is_due = bool(dated) and wall_ms - min(dated) > settings.lag_max_ms
    return is_due or section.dirty_ratio > settings.dirty_ratio_min


async def compact(
    log: PartitionLog, settings: CompactionSettings, runtime: Runtime, before_replacing: BeforeReplacing
) -> None:
    """Compact the log once, up to the first key that does not fit into the map of the latest offsets.

    Other tasks can run during the compaction.
    """
    wall_ms = runtime.now().wall_ms
    section = _section(log, settings, wall_ms)
    dirty_from = log.first_dirty_offset
    compactions_ended = log.compactions_ended
    is_gone = partial(_is_gone, log, compactions_ended)
    expected = await in_slices(_count_records(section.dirty, is_gone), runtime)
    keys = KeyOffsets(settings.key_bytes, settings.key_load, expected)
    stable = section.segments[-1].end_offset if section.segments else 0
    passed = CleanedTransactions(log.aborted_transactions(dirty_from, stable))
    reached_end = True
    for segment in section.dirty:
        if is_gone(segment):
            return
        reached_end = await in_slices(_note_keys(segment, keys, dirty_from, passed, is_gone), runtime)
        if not reached_end:
            break
        await runtime.sleep(0)
    end = keys.latest_offset + 1
    if reached_end and section.segments:
        end = section.segments[-1].end_offset
    what = _Pass(keys, end, wall_ms, settings.tombstone_ms, log.producers.last_records())
    transactions = CleanedTransactions()
    for segment in section.segments:
        if segment.base_offset >= end:
            break
        if is_gone(segment):
            return
        transactions.expect(log.aborted_transactions(segment.base_offset, segment.end_offset))
        transactions.kept = []
        cleaned = await in_slices(_clean(log, segment, what, transactions, is_gone), runtime)
        if cleaned is not None:
            await _put_in_place(log, segment, cleaned, transactions.kept, is_gone, before_replacing)
        await runtime.sleep(0)
    if log.is_closed or log.compactions_ended != compactions_ended:
        return
    log.drop_empty_segments()
    if section.segments:
        log.first_dirty_offset = end


class _Pass(NamedTuple):
    """Decides which records a compaction pass retains (Cleaner.shouldRetainRecord)."""

    keys: KeyOffsets
    end: int
    """First offset whose key did not fit into the map. All records from this offset on are retained."""
    wall_ms: int
    tombstone_ms: int
    last_records: Mapping[int, LastRecord]

    def rule_for(self, header: BatchHeader, is_removable: bool) -> Callable[[Record], bool]:
        """Return a function that decides whether a record of this batch is retained.

        `is_removable` is whether the batch belongs to an aborted transaction, or is a marker whose transaction has no
        batches left.

        A tombstone is retained for delete.retention.ms after the first compaction that found no older record of its key
        (KIP-534). During that time, a consumer or an absent replica that has such an older record can learn that the
        key was deleted.
        """
        horizon_ms = delete_horizon_ms(header)
        if is_control(header):
            stays = not is_removable or horizon_ms is None or self.wall_ms < horizon_ms
            return lambda record: stays
        if is_removable:
            return lambda record: False
        return partial(self._stays, horizon_ms is None or self.wall_ms < horizon_ms)

    def _stays(self, tombstones_stay: bool, record: Record) -> bool:
        if record.offset >= self.end:
            return True
        if record.key is None or (record.value is None and not tombstones_stay):
            return False
        return record.offset >= self.keys.get(record.key)

    def left_of(self, data: bytes, header: BatchHeader) -> bytes:
        """Return the bytes to store for a filtered batch; empty if the batch has no record left.

        A producer's last batch is stored even if it is empty, so that its sequence numbers remain known. If there is no
        such batch, the producer's last marker is stored, because the marker's epoch fences older epochs.
        """
        return data if header.record_count or self._is_last(header) else b""

    def _is_last(self, header: BatchHeader) -> bool:
        last = self.last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset != NO_OFFSET:
            return header.last_offset == last.last_offset
        return is_control(header) and header.producer_epoch == last.epoch

    def horizon_for(self, header: BatchHeader) -> int | None:
        """Return the time until which to retain tombstones that are compacted for the first time."""
        return min(self.wall_ms + self.tombstone_ms, _LAST_MS) if header.last_offset < self.end else None


def _count_records(segments: Sequence[Segment], is_gone: IsGone) -> Generator[None, None, int]:
    count = 0
    for segment in segments:
        if is_gone(segment):
            return count
        for number, (_, header) in enumerate(segment.headers(), 1):
            count += header.record_count
            if not number % _SLICE_BATCHES:
                yield
                if is_gone(segment):
                    return count
    return count


def _is_gone(log: PartitionLog, compactions_ended: int, segment: Segment) -> bool:
    """Return whether retention, a truncation or the topic's deletion has removed the segment.

    Called after every pause, because the file of such a segment is closed and reading it would look like a disk
    failure. A truncation of any segment ends the compaction (LogCleanerManager.abortAndPauseCleaning), for two reasons:
    it may have removed the records that made older ones obsolete, and the copied part of a segment may no longer exist.
    Moving the log to another directory also ends the compaction. Otherwise the moved copy may contain a record whose
    tombstone the compaction removes before the tombstone is copied.
    """
    return log.is_closed or log.compactions_ended != compactions_ended or not log.has(segment)


def _note_keys(
    segment: Segment, keys: KeyOffsets, dirty_from: int, transactions: CleanedTransactions, is_gone: IsGone
) -> Generator[None, None, bool]:
    """Add the keys of a segment's records, from offset `dirty_from` on, to the map. Return False if not all fit.

    The keys of aborted records are omitted, because those records replace no other record.
    """
    slices = Slices()
    for position, header in segment.headers():
        if slices.is_full(header.record_count % SLICE_RECORDS):
            yield
            if is_gone(segment):
                return True
        if header.last_offset < dirty_from:
            continue
        if is_control(header):
            transactions.pass_marker(header, segment.file.read(position, header.size))
            continue
        if transactions.pass_batch(header):
            continue
        try:
            for number, record in enumerate(iter_batch(segment.file.read(position, header.size), 0, header), 1):
                if record.key is not None and record.offset >= dirty_from and not keys.put(record.key, record.offset):
                    return False
                if not number % SLICE_RECORDS:
                    yield
                    if is_gone(segment):
                        return True
        except BatchUnreadable:
            continue
    return True


def _clean(
    log: PartitionLog, segment: Segment, what: _Pass, transactions: CleanedTransactions, is_gone: IsGone
) -> Generator[None, None, LogFile | None]:
    """Return the file that replaces a segment, or None if the segment stays unchanged or was removed."""
    cleaned = log.begin_cleaned(segment)
    changed = False
    slices = Slices()
    for position, header in segment.headers():
        if slices.is_full(header.record_count % SLICE_RECORDS):
            yield
            if is_gone(segment):
                cleaned.close()
                return None
        data = segment.file.read(position, header.size)
        is_removable = transactions.pass_marker(header, data) if is_control(header) else transactions.pass_batch(header)
        filtered = yield from _filtered(data, header, what, is_removable)
        if is_gone(segment):
            cleaned.close()
            return None
        rest = what.left_of(*(filtered or (data, header)))
        changed = changed or rest != data
        if rest:
            cleaned.append(rest)
    if changed:
        return cleaned
    cleaned.close()
    log.drop_cleaned(segment)
    return None


async def _put_in_place(
    log: PartitionLog,
    segment: Segment,
    cleaned: LogFile,
    aborted: Sequence[AbortedTransaction],
    is_gone: IsGone,
    before_replacing: BeforeReplacing,
) -> None:
    """Replace a segment by its compacted file, and wait until a power loss cannot undo the replacement.

    Only the compaction waits for the disk; requests do not. The compaction must wait, because it may next remove the
    record that made another record of this segment obsolete.
    """
    await log.sync_cleaned(segment)
    if is_gone(segment):
        cleaned.close()
        return
    before_replacing(segment, cleaned.size())
    log.replace_segment(segment, cleaned, aborted)
    await log.sync_replaced(segment)


def _filtered(
    data: bytes, header: BatchHeader, what: _Pass, is_removable: bool
) -> Generator[None, None, tuple[bytes, BatchHeader] | None]:
    """Return the batch without removed records, or None if it is unchanged or cannot be decoded."""
    rule, horizon_ms = what.rule_for(header, is_removable), what.horizon_for(header)
    is_marker = is_removable and is_control(header)
    try:
        return (yield from filter_batch(data, header, rule, SLICE_RECORDS, horizon_ms, is_marker))
    except BatchUnreadable:
        return None

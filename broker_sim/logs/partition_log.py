"""A replica's log: segment files, leader epochs, producers and the high watermark (Kafka's UnifiedLog).

Theory of operation
===================

A `PartitionLog` consists of one directory of segment files and the data that a replica derives from them. Offsets
divide it:

    base of the first segment  <=  start_offset  <=  high_watermark  <=  end_offset
                      |   deleted   |   committed   |   not committed   |  offset of the next record

The bytes before `start_offset` remain in the file until their segment is dropped.  The last segment is the active one.
The others are closed: only truncation, compaction and retention change them.

    call                         caller                        effect
    ---------------------------  ----------------------------  ------------------------------------------------------
    append_as_leader             Partition                     give batches offsets and the leader epoch; write
    append_as_follower           following, log_dir_moves      write batches as the leader stored them, or reject all
    roll                         a full or old segment         flush; snapshot the producers; begin a segment
    read                         fetches, log_dir_moves        whole batches of one segment, below `up_to`
    last_stable_offset           fetches, compaction           the end of the part without open transactions
    aborted_transactions         fetches, compaction           aborted transactions with records in a range
    truncate_to                  a follower whose log differs  drop the batch that contains an offset, and the rest
    truncate_fully_and_start_at  the leader starts later       drop everything; begin at an offset
    advance_start                DeleteRecords, retention      raise start_offset; the bytes stay
    drop_first_segments          retention                     remove leading segments
    replace_segment              compaction                    replace a segment with its cleaned file
    take_over, rename            a move between directories    the copy becomes the replica's log
    flush, close, delete         LogManager                    end of life

Opening (`_open`) reads every segment, because no recovery point is kept.  It rebuilds the sparse indexes, the producers
and the end of the log, and corrects the leader epochs.  Without a clean stop it also checks each batch's CRC.  It
truncates at the first damaged batch and removes all later segments, as it does where the next segment overlaps;
`damage` lists what it found.  LogManager then sets start_offset, high_watermark and first_dirty_offset from the
checkpoint files.

Invariants
----------

1. `_segments` is never empty, except within a method. The bases in `_starts` are those of `_segments`, in ascending
   order (`_add_segment`, `_drop_segment`, `drop_first_segments`, `drop_empty_segments`).
2. end_offset is the end of the last segment (`_append`, `truncate_to`, `truncate_fully_and_start_at`).
3. The order of the offsets above holds after LogManager has opened the log. `advance_start` raises the high watermark
   with the start; `truncate_to` lowers start, high watermark and `first_dirty_offset` with the end.
4. Offsets rise from batch to batch. Gaps come only from compaction. `append_as_follower` rejects batches that overlap,
   and `Segment.recover` treats an overlap as damage.
5. Leader epochs never decrease in a log. `append_as_follower` records each epoch's first offset, a leader records its
   own in `Partition.make_leader`, and truncation drops the entries that begin at the new end or later. After an unclean
   stop a batch of an earlier epoch is damage: a power loss brought back what had been truncated.
6. `producers` is derived from the batch headers, the transaction markers and the producer snapshots. Every append
   updates it, and a truncation that removes batches rebuilds it (`_rebuild_producers`) if dropping them is not enough.
   The transaction index of each segment is derived from the markers alone: opening rebuilds it.
7. partition.metadata is on disk before the first record (`PartitionMetadataFile.maybe_flush`; KAFKA-13092).
8. Writes reach the operating system immediately, and the disk when a segment rolls and at a clean stop. A killed
   process loses nothing; a power loss can remove the end of the log, which replication restores.
9. Dropped segments do not return after a truncation (`sync_names`), and a lower start is checkpointed immediately
   (`_start_at`): otherwise the old checkpoint would hide records that are written later.
10. A compaction does not replace segments of a log that has changed: `compactions_ended` rises when a truncation drops
    a segment and when a copy of the log begins, and the cleaner compares it.

A record's life
---------------

The leader of epoch 4 appends a batch of 3 records at end_offset 10. `append_as_leader` patches base offset 10 and epoch
4 into the header; the batch's CRC covers neither. `_append` rolls first if the active segment would become larger than
`segment_bytes`, or if its first batch is older than `segment_ms`. Then it writes, and end_offset is 13. A follower's
fetch calls `read(10, ...)`: `_starts` gives the segment, its sparse index the position, and the result contains whole
batches. The follower appends the same bytes. When the leader's high watermark is 13, consumers can read the records.
Retention later drops the segment, when all its records are committed and too old.

A replica that led epoch 3 can have other records at 10, which were never committed.  When it follows the leader of
epoch 4, its fetch contains epoch 3 as its last. The leader replies that its own epoch 3 ends at 10, and the replica
calls `truncate_to(10)` (KIP-595; `zabka.broker_sim.replication.following`).

Sources
-------

Kafka's UnifiedLog (appendAsLeader, appendAsFollower, read, roll, truncateTo, truncateFullyAndStartAt,
maybeIncrementLogStartOffset, deleteOldSegments, replaceSegments, legacyFetchOffsetsBefore), LogLoader.recoverLog,
LogSegment, LeaderEpochFileCache (KIP-101, KIP-279), ProducerStateManager (KIP-98), PartitionMetadataFile.  Kafka
validates records in UnifiedLog.append; here `Partition.append` does, before the log is called.  Compaction is in
`zabka.broker_sim.logs.cleaner`, and reads across its gaps are in `empty_batches`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from zabka.broker_sim.logs import checkpoints, producer_snapshots
from zabka.broker_sim.logs.epoch_cache import UNDEFINED_EPOCH, EpochCache
from zabka.broker_sim.logs.producer_state import ProducerStates
from zabka.broker_sim.logs.segment import Damage, Segment, base_offset_of, file_name
from zabka.broker_sim.logs.transaction_index import TransactionIndexes
from zabka.broker_sim.ports import AbortedTransaction, LogDirectory, LogFile
from zabka.journal.events import TopicPartition
from zabka.kafka.compression import Data
from zabka.kafka.end_transaction_marker import read_marker
from zabka.kafka.record_batch import (
    CONTROL,
    NO_PRODUCER,
    BatchHeader,
    empty_batch,
    is_control,
    offset_after,
    patch_batches,
)

CLEANED_SUFFIX = ".cleaned"
"""Suffix of the file into which compaction writes the replacement of a segment."""
NEVER_MS = 1 << 62
LATEST_TIMESTAMP, EARLIEST_TIMESTAMP = -1, -2
"""Timestamps that represent the ends of the log (ListOffsetsRequest)."""
_BATCH_OFFSETS_MAX = 1 << 31
"""Maximum number of offsets that one batch spans."""
_EPOCHS_AT_ONCE = 100
"""Maximum number of epochs to examine in one read. Each lookup takes about 50 µs."""


class PartitionMetadataFile:
    """Writes and syncs a replica's partition.metadata, and tracks whether a power loss could lose the file.

    As in Kafka (KAFKA-13092), the log syncs the file before records are appended and before the log is renamed or
    closed. Usually the background sync has already written it.
    """

    __slots__ = ("_directory", "_dirty")

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._dirty: str | None = None
        """The topic id if the file may not be synced yet, else None."""

    @property
    def is_dirty(self) -> bool:
        """Whether a power loss may lose partition.metadata."""
        return self._dirty is not None

    def record(self, name: str, topic_id: str) -> None:
        """Write the topic id, in Kafka's string form, into the replica directory. It survives the end of the
        process.
        """
        checkpoints.exchange_topic_id(self._directory, name, topic_id)
        self._dirty = topic_id

    def synced(self) -> None:
        """Record that partition.metadata is synced to disk."""
        self._dirty = None

    def maybe_flush(self, name: str) -> None:
        """Sync partition.metadata to disk unless it is known to be synced."""
        if self._dirty is not None:
            checkpoints.write_topic_id(self._directory, name, self._dirty)
            self._dirty = None


class LogDamage(NamedTuple):
    """Damage that was found when a log was opened. The log was truncated at the damaged position."""

    file: str
    position: int
    reason: str


def _write_nothing() -> None:
    """Do nothing: the default `checkpoint` of a log without checkpoint files."""


class PartitionLog:
    """The records of one replica, from `start_offset` to before `end_offset`.

    Writes reach the operating system immediately, and the disk when a segment is full and at a clean stop, as with
    Kafka's defaults. A power loss may remove the end of the log, which replication restores.
    """

    __slots__ = (
        "_checkpoint",
        "_directory",
        "_index_interval_bytes",
        "_segments",
        "_starts",
        "_transactions",
        "compactions_ended",
        "damage",
        "end_offset",
        "epochs",
        "first_dirty_offset",
        "high_watermark",
        "is_closed",
        "metadata_file",
        "name",
        "producers",
        "reached",
        "reported",
        "segment_bytes",
        "segment_ms",
        "start_offset",
        "topic_partition",
    )

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        *,
        segment_bytes: int,
        segment_ms: int = NEVER_MS,
        index_interval_bytes: int = 4_096,
        stopped_cleanly: bool = False,
        name: str | None = None,
        checkpoint: Callable[[], None] = _write_nothing,
    ) -> None:
        """Open or create the log.

        With `stopped_cleanly`, the CRCs of the batches are not checked. `name` is the directory name if it is not the
        partition's name. `checkpoint` is called to write the log start and the progress of compaction immediately.
        """
        self.topic_partition = topic_partition
        self.name = str(topic_partition) if name is None else name
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.high_watermark = 0
        self.reached = 0
        """The highest known high watermark from before the last crash.

        It can come from the journal, which has a newer value than the checkpoint file.
        """
        self.reported = 0
        """The high watermark in the last ReplicaProgressed event."""
        self.end_offset = 0
        """The offset of the next record (LEO)."""
        self.start_offset = 0
        """The first readable offset: a segment's base offset, or higher if records were deleted within the segment."""
        self.first_dirty_offset = 0
        """The offset before which compaction has processed all records."""
        self.producers = ProducerStates()
        self.metadata_file = PartitionMetadataFile(directory)
        self.damage: list[LogDamage] = []
        self.is_closed = False
        self.compactions_ended = 0
        """Counter whose change makes a compaction in progress stop.

        It is incremented if a truncation removes closed segments, and if a copy of the log begins.
        """
        self._checkpoint = checkpoint
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        self._transactions = TransactionIndexes(directory, self.name)
        directory.create_partition(self.name)
        saved = checkpoints.read_leader_epochs(directory, self.name)
        self.epochs = EpochCache(saved or [], self._save_epochs)
        self._open(check=not stopped_cleanly)

    def _save_epochs(self, entries: list[tuple[int, int]]) -> None:
        checkpoints.write_leader_epochs(self._directory, self.name, entries)

    def _open(self, check: bool) -> None:
        written: list[tuple[int, int]] = []
        last_of: dict[int, int] = {}

        aborted: dict[int, list[AbortedTransaction]] = {}

        def see(header: BatchHeader, position: int) -> None:
            if is_control(header):
                segment = self._segments[-1]
                entry = self._end_transaction(header, segment.file.read(position, header.size), 0)
                if entry is not None:
                    aborted.setdefault(segment.base_offset, []).append(entry)
            else:
                self.producers.update(header)
            if header.leader_epoch >= 0:
                last_of[header.leader_epoch] = header.base_offset
                if not written or header.leader_epoch > written[-1][0]:
                    written.append((header.leader_epoch, header.base_offset))

        files = self._directory.list_files(self.name)
        for file in files:
            if file.endswith(CLEANED_SUFFIX):
                self._directory.remove(self.name, file)
        bases = [base_offset_of(file) for file in files]
        rest = sorted(base for base in bases if base is not None)
        producer_snapshots.keep(self._directory, self.name, rest)
        snapshot_at, entries = producer_snapshots.latest(self._directory, self.name, rest[-1] if rest else 0)
        while rest:
            base = rest.pop(0)
            if base == snapshot_at:
                self.producers.replace(entries)
            segment = self._add_segment(base)
            # No recovery point is stored, so scan every segment (LogLoader.recoverLog).
            damage: Damage | None = segment.recover(check, see, written[-1][0] if written else UNDEFINED_EPOCH)
            if damage is not None:
                self.damage.append(LogDamage(segment.name, damage.position, damage.reason))
            if rest and (damage is not None or rest[0] < segment.end_offset):
                self.damage.append(LogDamage(file_name(rest[0]), 0, "records before this segment are missing"))
                for later in rest:
                    self._directory.remove(self.name, file_name(later))
                self._directory.sync_names(self.name)
                break
        if not self._segments:
            self._add_segment(0)
        self.start_offset = self._starts[0]
        self.end_offset = self._segments[-1].end_offset
        self._transactions.restore(files, aborted)
        producer_snapshots.keep(self._directory, self.name, self._starts)
        if self._starts[-1] < snapshot_at:
            self._rebuild_producers()
        self.epochs.truncate_from_end(self.end_offset)
        self.epochs.believe(written, last_of)

    def _add_segment(self, base_offset: int) -> Segment:
        file = self._directory.open(self.name, file_name(base_offset))
        segment = Segment(base_offset, file, self._index_interval_bytes)
        self._segments.append(segment)
        self._starts.append(base_offset)
        return segment

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset (LSO): all transactions before it are decided. It is at most the high watermark."""
        if self.producers.has_undecided:
            unstable = self.producers.first_unstable_offset(self.high_watermark)
            if unstable is not None and unstable < self.high_watermark:
                return max(unstable, self.start_offset)
        return self.high_watermark

    @property
    def has_aborted_transactions(self) -> bool:
        """Whether any segment contains the marker of an aborted transaction."""
        return bool(self._transactions)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records from `start` to before `end` (collectAbortedTransactions)."""
        at = max(0, bisect_right(self._starts, start) - 1)
        return self._transactions.collect(self._starts[at:], start, end)

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments in order. The last one is active."""
        return self._segments

    @property
    def starts_within_a_segment(self) -> bool:
        """Whether the log start is within a segment, because records before it were deleted."""
        return self.start_offset > self._starts[0]

    @property
    def size_bytes(self) -> int:
        """The total size of all segments, in bytes."""
        return sum(segment.size for segment in self._segments)

    # ---- append ------------------------------------------------------------------------------------------------

    def append_as_leader(self, data: Data, headers: Sequence[BatchHeader], leader_epoch: int) -> list[BatchHeader]:
        """Assign offsets to validated batches and write them. Return their headers as stored."""
        stored, patched = patch_batches(data, headers, self.end_offset, leader_epoch)
        self._append(stored, patched)
        return patched

    def append_as_follower(self, data: bytes, headers: Sequence[BatchHeader]) -> bool:
        """Append batches as the leader stores them, with gaps from compaction.

        Return False if a batch overlaps the log; nothing is then written. There is one exception: an empty log can
        start in the middle of the first batch, because a deletion on the leader has moved its start. In that case, the
        log restarts with that whole batch (UnexpectedAppendOffsetException).
        """
        start = end = self.end_offset
        is_within = bool(headers) and start == self.start_offset and headers[0].base_offset < start
        if is_within and start < headers[0].next_offset:
            end = headers[0].base_offset
        size = 0
        for header in headers:
            if header.base_offset < end:
                return False
            end = header.next_offset
            size += header.size
        if is_within:
            self.truncate_fully_and_start_at(headers[0].base_offset)
        self._append(data if len(data) == size else data[:size], headers)
        self.epochs.assign_later((header.leader_epoch, header.base_offset) for header in headers)
        if is_within:
            self.advance_start(start)
        return True

    def _append(self, data: bytes, headers: Sequence[BatchHeader]) -> None:
        self.metadata_file.maybe_flush(self.name)
        active = self._segments[-1]
        if active.size and (
            active.size + len(data) > self.segment_bytes
            or (0 <= active.first_timestamp < headers[-1].max_timestamp - self.segment_ms)
        ):
            active = self.roll()
        active.append(data, headers)
        self.end_offset = active.end_offset
        for header in headers:
            if header.attributes & CONTROL:
                position = sum(earlier.size for earlier in headers[: headers.index(header)])
                entry = self._end_transaction(header, data, position)
                if entry is not None:
                    self._transactions.append(active.base_offset, entry)
                self.producers.forget_replicated(self.high_watermark)
            else:
                self.producers.update(header)

    def _end_transaction(self, header: BatchHeader, data: Data, position: int) -> AbortedTransaction | None:
        """Process the transaction marker in a control batch.

        Return the entry for the transaction index, or None if the transaction was committed or is unknown.
        """
        marker = read_marker(data, position, header)
        # There is no marker if compaction has removed the whole transaction: the control batch is then empty.
        completed = None if marker is None else self.producers.end_transaction(header, marker)
        if completed is None:
            return None
        stable = self.producers.last_stable_offset(completed)
        self.producers.complete(completed)
        if not completed.is_aborted:
            return None
        return AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)

    def roll(self) -> Segment:
        """Begin a new segment. Sync the previous one and its producer snapshot to disk."""
        active = self._segments[-1]
        active.file.flush()
        self._transactions.flush(active.base_offset)
        self._snapshot_producers(active.end_offset)
        return self._add_segment(active.end_offset)

    def _snapshot_producers(self, offset: int) -> None:
        entries = self.producers.entries()
        if entries:
            producer_snapshots.write(self._directory, self.name, offset, entries)

    # ---- read --------------------------------------------------------------------------------------------------

    def _segment_of(self, offset: int) -> Segment:
        return self._segments[max(0, bisect_right(self._starts, offset) - 1)]

    def read(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> bytes:
        """Return whole batches of one segment, from the batch that contains `offset` up to the offset `up_to`.

        If the first batch alone exceeds `max_bytes`, return it if `at_least_one` (KIP-74), else nothing. `offset` must
        be within the log.

        Compaction can leave gaps in the offsets. If `offset` is in a gap, the data begins with batches without records
        (`empty_batches`) in three cases: no batch follows before `up_to`, a leader epoch begins in the gap, or a stored
        gap batch covers `offset`. If a leader epoch begins in a later gap, the data ends before that gap.
        """
        if offset >= up_to or offset >= self.end_offset:
            return b""
        at = max(0, bisect_right(self._starts, offset) - 1)
        segment = self._segments[at]
        found = segment.locate(offset)
        while found is None and at + 1 < len(self._segments):
            # Compaction removed the end of this segment, so continue in the next one.
            at += 1
            segment = self._segments[at]
            found = segment.locate(offset)
        if found is None or found[1].base_offset >= up_to:
            time_ms = self._segment_of(offset).max_timestamp
            return empty_batches(self.epochs, offset, up_to, time_ms, max_bytes, at_least_one)
        start, header = found
        if header.base_offset < offset and is_gap(header):
            # Return only the rest of the gap, because a follower whose log ends at `offset` could not append the whole
            # batch.
            gap_end = min(header.next_offset, up_to)
            return empty_batches(self.epochs, offset, gap_end, header.max_timestamp, max_bytes, at_least_one)
        base_offset = header.base_offset
        if next(self.epochs.starts_within(offset, base_offset), None) is not None:
            gap = empty_batches(self.epochs, offset, base_offset, header.max_timestamp, max_bytes, at_least_one)
            if offset_after(gap, offset) < base_offset:
                return gap
            return gap + self.read(base_offset, max_bytes - len(gap), up_to, False)
        end = segment.size if up_to >= segment.end_offset else segment.position_of(up_to)
        if end - start > max_bytes:
            end = segment.whole_batches(start, max_bytes)
            if end == start and at_least_one:
                end = start + header.size
        end = before_epoch_in_gap(self.epochs, segment, header.next_offset, end)
        return segment.file.read(start, end - start) if end > start else b""

    def lies_in_older_segment(self, offset: int, than: int) -> bool:
        """Return whether `offset` is in an older segment than the offset `than` (LogOffsetMetadata.onOlderSegment)."""
        return self._segment_of(offset).base_offset < self._segment_of(than).base_offset

    def bytes_between(self, offset: int, up_to: int) -> int:
        """Return the maximum number of bytes that a read from `offset` up to `up_to` can return."""
        if offset >= up_to:
            return 0
        first, last = self._segment_of(offset), self._segment_of(up_to)
        if first is last:
            return first.position_of(up_to) - first.position_of(offset)
        between = [s.size for s in self._segments if first.base_offset < s.base_offset < last.base_offset]
        return first.size - first.position_of(offset) + sum(between) + last.position_of(up_to)

    def has(self, segment: Segment) -> bool:
        """Return whether the segment still belongs to the log. Uses binary search, because there may be many
        segments.
        """
        return self._segment_of(segment.base_offset) is segment

    def offsets_before(self, timestamp_ms: int, count_max: int, wall_ms: int) -> list[int]:
        """Return at most `count_max` offsets from which to read, the latest first (for ListOffsets 0).

        The offsets are the starts of segments that were not written to after `timestamp_ms` (-1: all starts, and the
        end; -2: the first start). Source: UnifiedLog.legacyFetchOffsetsBefore, except that the time of a segment is
        taken from its records, not from its file.
        """
        places = [(max(segment.base_offset, self.start_offset), segment.max_timestamp) for segment in self._segments]
        if self._segments[-1].size:
            places.append((self.end_offset, wall_ms))
        count = len(places)
        if timestamp_ms == EARLIEST_TIMESTAMP:
            count = 1
        elif timestamp_ms != LATEST_TIMESTAMP:
            count = max((at for at, (_, written_ms) in enumerate(places, 1) if written_ms <= timestamp_ms), default=0)
        return [offset for offset, _ in places[:count]][::-1][: max(0, count_max)]

    # ---- truncate ----------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Drop all records from `offset` on, and the whole batch that contains `offset`. Return the new end offset.

        Segments are removed durably. Otherwise a power loss could restore a removed segment after newer records.
        """
        self._lower_first_dirty(offset)
        if offset < self._starts[0]:
            self.truncate_fully_and_start_at(offset)
            return offset
        if offset < self.end_offset:
            if self._starts[-1] > offset:
                self.end_compaction()
                while self._starts[-1] > offset:
                    self._drop_segment()
                self._directory.sync_names(self.name)
            last = self._segments[-1]
            last.truncate_to(offset)
            self._transactions.truncate_to(last.base_offset, last.end_offset)
            self.end_offset = last.end_offset
            self.high_watermark = min(self.high_watermark, self.end_offset)
            producer_snapshots.keep(self._directory, self.name, self._starts)
            if not self.producers.truncate(self.end_offset):
                self._rebuild_producers()
            if last.end_offset > last.records_end:
                # Begin a new segment, because its file name records the end of the log for the next start.
                self.roll()
                self._directory.sync_names(self.name)
        self._start_at(min(self.start_offset, offset, self.end_offset))
        self.epochs.truncate_from_end(min(offset, self.end_offset))
        return self.end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records, and make `offset` the start and end of the empty log."""
        had_records = self.size_bytes > 0
        self._lower_first_dirty(offset)
        self.end_compaction()
        while self._segments:
            self._drop_segment()
        producer_snapshots.keep(self._directory, self.name, ())
        self._add_segment(offset)
        if had_records:
            self._directory.sync_names(self.name)
        self.first_dirty_offset = self.end_offset = offset
        self._start_at(offset)
        self.epochs.clear()
        self.producers.clear()
        self.high_watermark = offset

    def _lower_first_dirty(self, offset: int) -> None:
        if offset < self.first_dirty_offset:
            self.first_dirty_offset = offset
            self._checkpoint()

    def _start_at(self, offset: int) -> None:
        """Set the log start. If it is lower than before, checkpoint it immediately.

        Otherwise the old checkpoint would hide records that are appended later.
        """
        is_lower = offset < self.start_offset
        self.start_offset = offset
        if is_lower:
            self._checkpoint()

    def _drop_segment(self) -> None:
        segment = self._segments.pop()
        self._starts.pop()
        self._remove(segment)

    def _remove(self, segment: Segment) -> None:
        segment.file.close()
        self._directory.remove(self.name, segment.name)
        self._directory.remove(self.name, producer_snapshots.file_name(segment.base_offset))
        self._transactions.remove(segment.base_offset)

    def _rebuild_producers(self) -> None:
        """Rebuild the producer state from the latest snapshot and the batches after it (reloadFromSnapshot).

        The snapshot also contains producers whose batches compaction has removed.
        """
        start, entries = producer_snapshots.latest(self._directory, self.name, self.end_offset)
        self.producers.clear()
        self.producers.replace(entries)
        for segment in self._segments:
            if segment.end_offset > start:
                for position, header in segment.headers(segment.position_of(start)):
                    if is_control(header):
                        # Ignore the returned entry, because the transaction index already contains it.
                        self._end_transaction(header, segment.file.read(position, header.size), 0)
                    else:
                        self.producers.update(header)

    # ---- delete from the start ---------------------------------------------------------------------------------

    def advance_start(self, offset: int) -> bool:
        """Make all records before `offset` unreadable. Return False if they already are.

        The bytes stay in the file until their segments are dropped.
        """
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        if self.first_dirty_offset > self._starts[0]:
            # Checkpoint the new start. Otherwise the deleted records that compaction has left would reappear if the
            # process is killed, and they are too few to derive their epochs.
            self._checkpoint()
        self.epochs.truncate_from_start(offset)
        return True

    def drop_first_segments(self, count: int) -> None:
        """Remove the first `count` segments. If these are all segments, begin a new empty one."""
        if count >= len(self._segments):
            self.roll()
        for segment in self._segments[:count]:
            self._remove(segment)
        del self._segments[:count], self._starts[:count]
        self.advance_start(self._starts[0])

    def drop_empty_segments(self) -> None:
        """Remove segments that compaction has emptied, except the first one, whose base offset the log needs."""
        for at in range(len(self._segments) - 2, 0, -1):
            segment = self._segments[at]
            if not segment.size:
                self._remove(segment)
                del self._segments[at], self._starts[at]

    def begin_cleaned(self, segment: Segment) -> LogFile:
        """Create an empty file into which compaction writes the replacement of a segment."""
        self._directory.remove(self.name, segment.name + CLEANED_SUFFIX)
        return self._directory.open(self.name, segment.name + CLEANED_SUFFIX)

    def drop_cleaned(self, segment: Segment) -> None:
        """Remove the replacement of a segment, because compaction has nothing to remove from the segment."""
        self._directory.remove(self.name, segment.name + CLEANED_SUFFIX)

    async def sync_cleaned(self, segment: Segment) -> None:
        """Sync the file that is to replace a segment after compaction."""
        await self._directory.sync_in_background([(self.name, segment.name + CLEANED_SUFFIX)])

    async def sync_replaced(self, segment: Segment) -> None:
        """Sync a segment after its replacement, so that the replacement survives a power loss."""
        await self._directory.sync_in_background([(self.name, segment.name)])

    def replace_segment(self, segment: Segment, cleaned: LogFile, aborted: Sequence[AbortedTransaction] = ()) -> None:
        """Replace a segment with its cleaned and synced file in one rename, so that a crash leaves one of the two.

        `aborted` are the aborted transactions with a marker in the segment and a batch that compaction has retained.
        """
        at = self._segments.index(segment)
        cleaned.close()
        segment.file.close()
        self._directory.replace(self.name, segment.name, segment.name + CLEANED_SUFFIX)
        fresh = Segment(segment.base_offset, self._directory.open(self.name, segment.name), self._index_interval_bytes)
        fresh.recover(False, lambda header, position: None)
        self._segments[at] = fresh
        self._transactions.replace(segment.base_offset, aborted)

    def end_compaction(self) -> None:
        """Stop a compaction that is in progress."""
        self.compactions_ended += 1

    # ---- move to another directory ------------------------------------------------------------------------------

    def take_over(self, current: PartitionLog) -> None:
        """Copy the state of `current` that cannot be derived from the records. Both logs have the same records."""
        assert self.end_offset == current.end_offset, (self.end_offset, current.end_offset)
        self.advance_start(current.start_offset)
        self.high_watermark = current.high_watermark
        # Copy the leader epochs, because the batches of the copy do not show epochs without records.
        self.epochs.replace(current.epochs.entries)
        # Copy the producer state, because some batches of these producers were deleted before the batches could be
        # copied.
        self.producers = current.producers
        self.flush()

    def rename(self, name: str) -> None:
        """Rename the log's directory."""
        self.metadata_file.maybe_flush(self.name)
        self._directory.rename_partition(self.name, name)
        self.name = self._transactions.name = name

    # ---- end of life -------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything that was appended survive a power loss."""
        self.metadata_file.maybe_flush(self.name)
        self._segments[-1].file.flush()
        self._transactions.flush(self._starts[-1])

    def close(self) -> None:
        """Close the files. Call `flush` first if the end of the log must survive a power loss."""
        self.is_closed = True
        for segment in self._segments:
            segment.file.close()
        self._transactions.close()

    def delete(self) -> None:
        """Close the log and delete its files."""
        self.close()
        self._directory.delete_partition(self.name)


def empty_batches(
    epochs: EpochCache, offset: int, up_to: int, time_ms: int, max_bytes: int, at_least_one: bool
) -> bytes:
    """Return batches without records, one per leader epoch, that cover a gap in the offsets.

    The gap starts at `offset` and ends before `up_to`. A follower needs these batches to learn where each epoch ends.
    Returns as many batches as fit into `max_bytes`; with `at_least_one`, the first batch is returned even if it does
    not fit. Kafka returns nothing for a gap, and the follower makes no progress until the next produce.
    """
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
    """Return whether a batch only fills a gap from compaction on a follower (see `empty_batches`).

    The last offset of such a batch is the last offset of a batch that compaction has emptied; its first offset can have
    any value. An empty batch that compaction has retained for its producer is not a filler.
    """
    return not header.record_count and header.producer_id == NO_PRODUCER


def before_epoch_in_gap(epochs: EpochCache, segment: Segment, offset: int, end: int) -> int:
    """Return the file position, at most `end`, at which a read of a segment must end.

    If a leader epoch after `offset` starts in a gap between two batches, the read ends before the second batch.
    """
    for number, start_offset in enumerate(epochs.starts_within(offset, segment.end_offset), 1):
        found = segment.locate(start_offset)
        if found is None or found[0] >= end:
            break
        if found[1].base_offset > start_offset or number == _EPOCHS_AT_ONCE:
            return found[0]
    return end

"""Random actions on a broker's real partition log and log directory, on a simulated file system.

The checker records the appended batches by offset, the flushed end offset, and the content of the small files. A start
after a kill must find all written data. A start after a power loss must find all flushed data unchanged. Any other data
that it finds must have been appended at that offset at some time.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.simulation.filesystem.disk_troubles import COMMON, DiskTroubles, Measure
from tests.simulation.filesystem.workers import SimWorkers
from zabka.broker_sim.logs.checkpoints import (
    PARTITION_METADATA,
    read_offsets,
    read_topic_id,
    write_offsets,
    write_topic_id,
)
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.meta_properties import InconsistentMetaProperties, claim_log_directory, stored_broker_id
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.ensemble.ports import Future
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch, patch_batches, read_header, split_batches
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import PowerLost, Volume

ROOT = Path("/var/kafka")
TP = TopicPartition("orders", 0)
CHECKPOINT = "replication-offset-checkpoint"
KINDS = COMMON
NO_LIMIT = 1 << 62
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class Violation(AssertionError):
    """The log has lost or changed data, or contains data that was never appended."""


class LogRun:
    """A run of random actions on a real partition log. The seed determines the actions."""

    def __init__(self, seed: int, actions: int = 150) -> None:
        self.random = derive_random(seed, "log run")
        self.reached: Counter[str] = Counter()
        self._scheduler = Scheduler()
        self._volume = Volume(derive_random(seed, "volume"), lambda: self._scheduler.now_us)
        self._kinds = tuple(kind for kind in KINDS if self.random.random() < 0.5)
        self._actions = actions
        self._troubles = DiskTroubles(
            self.random,
            self._volume,
            self._kinds,
            Measure(operations=30, room_bytes=30_000, within=[str(ROOT)]),
            lose_power=self._lose_power,
            kill=self._end,
        )
        self._log: PartitionLog | None = None
        self._directory: FileLogDirectory | None = None
        self._workers: SimWorkers | None = None
        self._batches: dict[int, bytes] = {}
        """Batches that the log should contain, keyed by base offset."""
        self._ghosts: dict[int, set[bytes]] = {}
        """All batches that were ever written at an offset, even if the append failed, keyed by that offset."""
        self._flushed = 0
        """Offset before which all records are durable."""
        self._start = 0
        self._epoch = 1
        self._failed_syncs = 0
        self._sure = NO_LIMIT
        """Lowest offset whose durability no flush can guarantee.

        After a failed flush, the kernel treats the file's blocks as clean, so that the next flush skips them.
        """
        self._lost_power = False
        self._checkpoint: list[int | None] = [None]
        """Values that the checkpoint file can contain.

        They are the last value that was certainly written, and all values whose write was started later.
        """
        self._is_claimed = self._has_topic_id = False
        self._is_named = False
        """Whether a flush has succeeded. Before the first one, a power loss can remove the replica's whole
        directory.
        """

    def run(self) -> Counter[str]:
        """Run the actions, and return how often each fault and event occurred. Raises Violation."""
        for _ in range(self._actions):
            try:
                if self._log is None:
                    self._open()
                else:
                    self._act(self._log)
                self._scheduler.run_until(self._scheduler.now_us + self.random.randrange(0, 300_000))
            except PowerLost:
                self._lose_power()
            except OSError:
                self.reached["failed"] += 1
                if self._volume.failed_syncs > self._failed_syncs:
                    self._failed_syncs = self._volume.failed_syncs
                    self._sure = min(self._sure, self._flushed)
                self._end()
        return self.reached

    # -- actions of the broker ---------------------------------------------------------------------------------------

    def _act(self, log: PartitionLog) -> None:
        draw = self.random.random()
        if draw < 0.15:
            self._troubles.befall(self.reached)
        elif draw < 0.65:
            self._append(log)
        elif draw < 0.78:
            log.flush()
            self._flushed, self._is_named = log.end_offset, True
            self.reached["flush"] += 1
        elif draw < 0.86:
            self._truncate(log)
        elif draw < 0.90 and len(log.segments) > 1:
            self._start = log.segments[1].base_offset
            log.drop_first_segments(1)
            self.reached["segment dropped"] += 1
        else:
            self._write_checkpoint()

    def _append(self, log: PartitionLog) -> None:
        size = self.random.choice([1, 10, 300, 6000])
        data = build_batch([Record(None, self.random.randbytes(size), 1000)])
        offset, segments = log.end_offset, len(log.segments)
        headers = split_batches(data) or []
        stored, _ = patch_batches(data, headers, offset, self._epoch)
        # Record the batch before the append, because after a failed append the file may contain it.
        self._ghosts.setdefault(offset, set()).add(bytes(stored))
        log.append_as_leader(data, headers, self._epoch)
        self._batches[offset] = bytes(stored)
        if len(log.segments) > segments:
            # A full segment is flushed before the next one starts, so all records before `offset` are durable.
            self._flushed, self._is_named = max(self._flushed, offset), True
            self.reached["segment full"] += 1
        self.reached["append"] += 1

    def _truncate(self, log: PartitionLog) -> None:
        offsets = [offset for offset in self._batches if offset >= self._start]
        if not offsets:
            return
        offset = self.random.choice(offsets[-6:])
        self._flushed, self._sure = (
            min(self._flushed, offset),
            self._sure if self._sure == NO_LIMIT else min(self._sure, offset),
        )
        self._batches = {at: data for at, data in self._batches.items() if at < offset}
        self._flushed = min(self._flushed, log.truncate_to(offset))
        self._epoch += 1
        self.reached["truncate"] += 1

    def _write_checkpoint(self) -> None:
        assert self._directory is not None
        offset = self.random.randrange(0, 1 << 30)
        self._checkpoint.append(offset)
        write_offsets(self._directory, CHECKPOINT, {TP: offset})
        del self._checkpoint[:-1]
        self.reached["checkpoint"] += 1

    # -- faults ------------------------------------------------------------------------------------------------------

    def _lose_power(self) -> None:
        self.reached["power lost"] += 1
        self._volume.lose_power()
        self._lost_power = True
        self._end()

    def _end(self) -> None:
        if self._workers is not None:
            self._workers.kill()
        self._log = self._directory = self._workers = None
        self._volume.repair()

    # -- starting the process, and checking what it finds ------------------------------------------------------------

    def _open(self) -> None:
        files = ProcessFiles(self._volume)
        self._workers = SimWorkers(self._scheduler, self.random, files, _nobody_waits, self._lose_power)
        if "power" in self._kinds and self.random.random() < 0.2:
            self._volume.lose_power_after(self.random.randrange(0, 30))
        directory = FileLogDirectory(ROOT, files, self._workers)
        if self._is_claimed and stored_broker_id(directory) != 7:
            raise Violation("meta.properties is gone")
        try:
            claim_log_directory(directory, "cluster", 7)
        except InconsistentMetaProperties as strange:
            raise Violation(f"meta.properties says something else: {strange}") from None
        self._is_claimed = True
        log = PartitionLog(directory, TP, segment_bytes=8_000)
        # The topic id survives a power loss only if the file's directory entry was durable. An entry that a start has
        # found counts as durable, even if a sync of the directory failed.
        self._has_topic_id &= not self._lost_power or (self._is_named and not self._failed_syncs)
        if self._has_topic_id and read_topic_id(directory, str(TP)) != TOPIC_ID:
            raise Violation(f"{PARTITION_METADATA} is gone")
        self._check(log, directory)
        if read_topic_id(directory, str(TP)) is None:
            write_topic_id(directory, str(TP), TOPIC_ID)
        self._has_topic_id = True
        self._directory, self._log = directory, log
        self._lost_power = False
        self.reached["start"] += 1

    def _check(self, log: PartitionLog, directory: FileLogDirectory) -> None:
        found = _batches_of(log)
        sure = min(self._flushed, self._sure)
        if self._lost_power:
            missing = [at for at in self._batches if self._start <= at < sure and at not in found]
            if missing:
                raise Violation(f"offset {missing[0]} was flushed, and is gone")
            for offset, data in found.items():
                kept = self._batches.get(offset)
                if offset < sure and kept is not None and data != kept:
                    raise Violation(f"offset {offset} was flushed, and is another now")
        else:
            wrong = [at for at, data in self._batches.items() if at >= self._start and found.get(at) != data]
            if wrong:
                raise Violation(f"offset {wrong[0]} was written, and is not there after a kill")
        epochs = [read_header(found[offset], 0).leader_epoch for offset in sorted(found)]
        if epochs != sorted(epochs):
            raise Violation(f"a leader epoch falls: {epochs}")
        for offset, data in found.items():
            if not self._failed_syncs and data not in self._ghosts.get(offset, set()):
                raise Violation(f"offset {offset} holds what nobody wrote there")
        checkpoint = read_offsets(directory, CHECKPOINT).get(TP)
        if checkpoint not in self._checkpoint:
            raise Violation(f"{CHECKPOINT} holds {checkpoint}, not {self._checkpoint[0]}")
        self._checkpoint = [checkpoint]
        if self._lost_power:
            self._sure = NO_LIMIT
        self._batches = found
        self._start = log.segments[0].base_offset
        self._flushed = min(self._flushed, log.end_offset)


def _batches_of(log: PartitionLog) -> dict[int, bytes]:
    return {
        header.base_offset: segment.file.read(position, header.size)
        for segment in log.segments
        for position, header in segment.headers()
    }


def _nobody_waits() -> Future[object]:
    raise AssertionError("a log directory calls nothing of its own")

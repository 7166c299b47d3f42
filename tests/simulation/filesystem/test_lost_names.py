"""Names of log segments after a power loss.

The tests are the shortest sequences that lost or changed a record before the fixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from zabka.broker_sim.logs.epoch_cache import UNDEFINED_EPOCH
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch, decode_records, patch_batches, split_batches
from zabka.simulation.filesystem.inode import SECTOR_BYTES
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import Volume

TP = TopicPartition("orders", 0)
SEEDS = range(60)
SEGMENT_BYTES = 1_000
SMALL, LARGE = 100, 600
"""Sizes of a record in bytes. A segment has space for only one large record."""
A_SECTOR = SECTOR_BYTES - 70
"""Size in bytes of a record whose batch has the size of a disk sector."""


class Host:
    """A disk, and a process that has opened a log on it."""

    def __init__(self, seed: int) -> None:
        self.volume = Volume(Random(seed))
        self.volume.has_journal = False
        self.log = self._open()

    def _open(self) -> PartitionLog:
        self.files = ProcessFiles(self.volume)
        return PartitionLog(FileLogDirectory(Path("/logs"), self.files), TP, segment_bytes=SEGMENT_BYTES)

    def append(self, epoch: int, *sizes: int) -> None:
        for size in sizes:
            data = build_batch([Record(None, bytes([epoch]) * size, 1000)])
            self.log.append_as_leader(data, split_batches(data) or [], epoch)

    def append_behind_a_gap(self, epoch: int, offset: int) -> None:
        """Append a record at `offset`.

        A follower does this if its leader has removed the records before it by compaction.
        """
        data = build_batch([Record(None, bytes([epoch]), 1000)])
        self.log.append_as_follower(*patch_batches(data, split_batches(data) or [], offset, epoch))

    def kill(self) -> None:
        self.files.kill()
        self.log = self._open()

    def lose_power(self) -> None:
        self.volume.lose_power()
        self.log = self._open()

    def epochs(self) -> list[int]:
        """Return the epoch of each record in the log. The record's value contains it."""
        found = [segment.file.read(0, segment.size) for segment in self.log.segments]
        return [(record.value or b"\xff")[0] for data in found for record in decode_records(data)]


@pytest.fixture(params=SEEDS)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    return Host(request.param)


def test_flush_of_a_file_left_by_a_killed_process_is_durable(host: Host) -> None:
    host.kill()
    host.append(1, SMALL)
    host.log.flush()
    host.lose_power()
    assert host.epochs() == [1]


def test_flush_covers_segments_written_before_a_process_kill(host: Host) -> None:
    host.append(1, LARGE, LARGE)
    host.kill()
    host.append(2, SMALL)
    host.log.flush()
    host.lose_power()
    assert host.epochs() == [1, 1, 2]


def test_truncated_segments_do_not_reappear_after_new_records(host: Host) -> None:
    host.append(1, LARGE, LARGE, LARGE)
    host.log.flush()
    assert host.log.truncate_to(0) == 0
    host.append(2, SMALL)
    host.lose_power()
    assert host.epochs() in ([], [1], [2])


def test_log_truncated_in_a_compaction_gap_keeps_the_end_offset(host: Host) -> None:
    """A log that is truncated within a compaction gap has the same end offset after a power loss.

    Otherwise the broker would report lost records, and assign their offsets again as a leader.
    """
    host.append(1, SMALL)
    host.append_behind_a_gap(1, 9)
    host.log.flush()
    assert host.log.truncate_to(5) == 5
    host.lose_power()
    assert (host.epochs(), host.log.end_offset) == ([1], 5)


def test_log_restarted_at_another_offset_has_no_old_records(host: Host) -> None:
    host.append(1, LARGE, LARGE)
    host.log.flush()
    host.log.truncate_fully_and_start_at(100)
    host.lose_power()
    assert (host.epochs(), host.log.start_offset) == ([], 100)


def test_records_truncated_after_damage_do_not_reappear(host: Host) -> None:
    host.append(1, LARGE, LARGE, LARGE)
    host.log.flush()
    host.log.segments[0].file.truncate(LARGE // 2)
    host.kill()
    assert host.log.end_offset == 0 and host.log.damage
    host.append(2, SMALL)
    host.lose_power()
    assert host.epochs() in ([], [1], [2])


def test_replaced_batches_left_on_disk_are_not_read_again() -> None:
    """Old batches that remain on disk are not read after the new batches that replaced them.

    All batches have the same length, so an old batch can directly follow the new one.
    """
    reasons = set()
    for seed in range(200):
        host = Host(seed)
        host.log.segment_bytes = 1 << 20
        host.append(1, A_SECTOR, A_SECTOR, A_SECTOR)
        assert host.log.size_bytes == 3 * SECTOR_BYTES
        host.log.flush()
        host.log.truncate_to(1)
        host.append(2, A_SECTOR)
        host.lose_power()
        epochs = host.epochs()
        assert epochs == sorted(epochs), seed
        reasons |= {damage.reason for damage in host.log.damage}
    assert "a batch is of an earlier leader epoch than the one before" in reasons


def test_batch_without_leader_epoch_is_read_after_any_epoch(host: Host) -> None:
    host.append(3, SMALL)
    host.append(0, SMALL)
    stored = bytearray(host.log.read(1, 1 << 20, 2, True))
    stored[12:16] = UNDEFINED_EPOCH.to_bytes(4, signed=True)
    host.log.truncate_to(1)
    host.log.append_as_follower(bytes(stored), split_batches(bytes(stored)) or [])
    host.kill()
    assert (host.log.end_offset, host.log.damage) == (2, [])

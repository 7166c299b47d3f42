"""A log's producer state after it is truncated or opened (ProducerStateManager.truncateAndReload)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.logs.small_log import a_log, append, run_compaction
from zabka.broker_sim.logs import producer_snapshots
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.producer_snapshots import ProducerEntry
from zabka.broker_sim.logs.producer_state import ProducerBatch
from zabka.broker_sim.logs.segment import Segment
from zabka.kafka.record_batch import BatchHeader, Record, build_batch, split_batches

A, B, C = 1, 2, 3


def write(log: PartitionLog, producer_id: int, *sequences: int) -> None:
    for sequence in sequences:
        append(log, ("k", "v"), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def last_of(log: PartitionLog) -> dict[int, tuple[int, int]]:
    """Return the last sequence number and offset of each producer."""
    return {entry.producer_id: (entry.last_sequence, entry.last_offset) for entry in log.producers.entries()}


def header_of(producer_id: int, sequence: int) -> BatchHeader:
    data = build_batch([Record(b"k", b"v", 0)], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    headers = split_batches(data)
    assert headers is not None
    return headers[0]


def test_truncation_restores_producer_from_an_older_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = a_log(1 << 20)
    write(log, A, 0)
    write(log, B, 0, 1)
    log.roll()
    write(log, B, 2)
    log.roll()
    write(log, B, 3)
    write(log, A, 1, 2, 3, 4, 5)
    visited: list[int] = []
    headers = Segment.headers

    def spied(segment: Segment, *place: Any) -> Iterator[Any]:
        visited.append(segment.base_offset)
        return headers(segment, *place)

    monkeypatch.setattr(Segment, "headers", spied)
    assert log.truncate_to(5) == 5
    assert last_of(log) == {A: (0, 0), B: (3, 4)}
    assert set(visited) == {4}, "records before the last snapshot are not read again"


def test_producer_state_survives_compaction_of_its_last_batch() -> None:
    log = a_log(1 << 20)
    write(log, A, 0)
    log.roll()
    write(log, A, 1)
    log.roll()
    write(log, B, 0)
    log.roll()
    write(log, A, 2)
    run_compaction(log)
    assert [segment.size > 0 for segment in log.segments] == [False, True, True]
    log.truncate_to(3)
    assert last_of(log) == {A: (1, 1), B: (0, 2)}, "A continues with sequence 2, which is in order"


def test_damaged_producer_snapshot_falls_back_to_an_older_one() -> None:
    directory = MemoryLogDirectory()
    log = a_log(1 << 20, directory)
    for sequence in range(3):
        write(log, A, sequence)
        write(log, B, sequence)
        log.roll()
    torn = producer_snapshots.file_name(6)
    directory.remove(log.name, torn)
    directory.open(log.name, torn).append(b"torn")
    write(log, B, 3)
    log.truncate_to(6)
    write(log, B, 3, 4, 5, 6, 7)
    log.truncate_to(6)
    assert last_of(log) == {A: (2, 4), B: (2, 5)}
    assert torn not in directory.list_files(log.name)


def test_log_without_producer_snapshots_is_read_completely() -> None:
    log = a_log(1 << 20)
    write(log, A, 0)
    write(log, B, 0, 1, 2, 3, 4, 5)
    log.truncate_to(1)
    assert last_of(log) == {A: (0, 0)}
    assert producer_snapshots.latest(MemoryLogDirectory(), log.name, 9) == (0, list[ProducerEntry]())


def test_truncation_at_a_segment_start_keeps_producer_snapshot() -> None:
    directory = MemoryLogDirectory()
    log = a_log(1 << 20, directory)
    write(log, A, 0)
    write(log, B, 0)
    log.roll()
    write(log, A, 1, 2, 3, 4, 5)
    assert log.truncate_to(2) == 2
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert producer_snapshots.latest(directory, log.name, 2)[0] == 2
    assert last_of(log) == {A: (0, 0), B: (0, 1)}


def test_compacted_producer_state_survives_a_restart() -> None:
    directory = MemoryLogDirectory()
    log = a_log(1 << 20, directory)
    write(log, A, 0)
    log.roll()
    append(log, ("another", "v"), producer_id=C, producer_epoch=0, base_sequence=0)
    write(log, A, 1)
    log.roll()
    write(log, B, 0)
    log.roll()
    write(log, A, 2)
    run_compaction(log)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 3, 4]
    log.truncate_to(4)
    before = last_of(log)
    assert before == {C: (0, 1), A: (1, 2), B: (0, 3)}
    again = a_log(1 << 20, directory)
    assert last_of(again) == before, "A continues with sequence 2, which is in order"


def test_reopened_log_recognises_its_last_five_batches() -> None:
    directory = MemoryLogDirectory()
    log = a_log(1 << 20, directory)
    write(log, A, 0, 1, 2, 3)
    log.roll()
    write(log, A, 4)
    again = a_log(1 << 20, directory)
    for sequence in range(5):
        found = again.producers.check(header_of(A, sequence))
        assert isinstance(found, ProducerBatch) and found.base_offset == sequence


def test_truncation_removes_producer_snapshots_without_a_segment() -> None:
    directory = MemoryLogDirectory()
    log = a_log(1 << 20, directory)
    write(log, A, 0, 1)
    # Write a snapshot without its segment, as if the process had stopped in the middle of a roll.
    producer_snapshots.write(directory, log.name, 2, log.producers.entries())
    write(log, A, 2)
    log.truncate_to(1)
    assert producer_snapshots.offsets(directory.list_files(log.name)) == []
    write(log, B, 0, 1, 2, 3, 4, 5)
    log.truncate_to(2)
    assert last_of(log) == {A: (0, 0), B: (0, 1)}


def test_log_damage_before_a_snapshot_selects_an_older_snapshot() -> None:
    directory = MemoryLogDirectory()
    log = a_log(1 << 20, directory)
    write(log, A, 0)
    log.roll()
    write(log, A, 1)
    write(log, B, 0)
    log.roll()
    write(log, A, 2)
    log.close()
    file = directory.open(log.name, log.segments[1].name)
    file.truncate(file.size() - 1)
    again = a_log(1 << 20, directory)
    assert last_of(again) == {A: (1, 1)}
    assert producer_snapshots.offsets(directory.list_files(log.name)) == [1]


def test_producer_expiry_after_truncation_uses_remaining_batches() -> None:
    log = a_log(1 << 20)
    for sequence, at_ms in enumerate((10, 20, 1_000)):
        append(log, ("k", "v"), producer_id=A, producer_epoch=0, base_sequence=sequence, at_ms=at_ms)
    log.truncate_to(2)
    assert [entry.timestamp_ms for entry in log.producers.entries()] == [20]
    log.producers.expire(20)
    assert last_of(log) == {}

"""Compaction keeps the latest record of each key at its offset, whatever else happens to the log meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.logs.at_once import AT_ONCE
from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.logs.small_log import (
    NO_LAG,
    a_log,
    append,
    ignore_progress,
    paused_compaction,
    read_all,
    run_compaction,
)
from tests.broker_sim.replication.replication_cluster import Cluster, batch
from tests.kafka.produced import headers_of, validated
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.configs.replica_config import ReplicaConfig, partition_config
from zabka.broker_sim.logs.cleaner import compact, is_filthy
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.guarded_directory import GuardedDirectory
from zabka.broker_sim.logs.key_offsets import ENTRY_BYTES
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.slices import SLICE_RECORDS
from zabka.kafka.compression import Codec
from zabka.kafka.record_batch import (
    HEADER_SIZE,
    Record,
    build_batch,
    decode_records,
    offset_after,
    split_batches,
    with_checksum,
)
from zabka.simulation.engine.scheduler import Scheduler


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("on_disk", [False, True])
def test_compaction_keeps_the_latest_record_of_each_key_in_place(tmp_path: Path, codec: Codec, on_disk: bool) -> None:
    directory = FileLogDirectory(tmp_path, workers=AT_ONCE) if on_disk else MemoryLogDirectory()
    log = a_log(170, directory)
    append(log, ("a", "1"), ("b", "1"), codec=codec)
    append(log, ("a", "2"), ("c", "1"), (None, "no key"), codec=codec)
    append(log, ("b", "2"), codec=codec)
    append(log, ("c", "2"), codec=codec)
    append(log, ("z", "in the segment that is written to"), codec=codec)
    before = log.size_bytes
    run_compaction(log)
    kept = read_all(log)
    active = log.segments[-1].base_offset
    assert [row for row in kept if row[0] < active] == [
        row for row in [(2, "a", "2"), (5, "b", "2"), (6, "c", "2")] if row[0] < active
    ]
    assert log.size_bytes < before and log.end_offset == 8
    headers = split_batches(log.read(0, 1 << 20, 8, True))
    assert headers is not None and all(header.attributes == codec for header in headers if header.record_count)
    log.close()
    again = a_log(170, directory)
    assert (read_all(again), again.end_offset, again.damage) == (kept, 8, [])
    again.close()


def test_reader_inside_a_compaction_gap_continues_after_it() -> None:
    log = a_log(100)
    for value in "1234":
        append(log, ("a", value))
    append(log, ("b", "1"))
    run_compaction(log)
    assert read_all(log) == [(3, "a", "4"), (4, "b", "1")]
    assert decode_records(log.read(1, 1 << 20, 5, True), 1)[0].offset == 3


def test_compaction_stops_at_a_full_key_map_and_resumes_there() -> None:
    log = a_log(170)
    for number in range(12):
        append(log, (f"k{number % 6}", str(number)), ("same", str(number)))
    log.high_watermark = log.end_offset
    last = log.segments[-1].base_offset
    small = NO_LAG._replace(key_bytes=4 * ENTRY_BYTES, key_load=0.75)
    reached = []
    while is_filthy(log, small, 10):
        run_compaction(log, small)
        reached.append(log.first_dirty_offset)
    # The key map has room for three keys: `k0`, `same` and `k1` in the first pass, `same`, `k2` and `k3` in the second.
    # As in Kafka, a full map rejects even a key that it already contains.
    assert reached[:3] == [3, 7, 11] and reached[-1] == last
    once = a_log(170)
    for number in range(12):
        append(once, (f"k{number % 6}", str(number)), ("same", str(number)))
    once.high_watermark = once.end_offset
    run_compaction(once)
    assert latest(read_all(log)) == latest(read_all(once))
    assert len(read_all(log)) < 24


def latest(records: list[tuple[int, str | None, str | None]]) -> dict[str | None, tuple[int, str | None]]:
    return {key: (offset, value) for offset, key, value in records}


def test_full_key_map_leaves_the_later_records_unchanged() -> None:
    log = a_log(170)
    append(log, ("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("b", "2"))
    append(log, ("a", "3"), ("d", "1"))
    append(log, ("e", "1"))
    append(log, ("f", "1"))
    log.high_watermark = log.end_offset
    run_compaction(log, NO_LAG._replace(key_bytes=2 * ENTRY_BYTES, key_load=1.0))
    assert log.first_dirty_offset == 2
    assert [offset for offset, *_ in read_all(log)] == list(range(log.end_offset)), "the key map ends at offset 1"
    run_compaction(log, NO_LAG._replace(key_bytes=3 * ENTRY_BYTES, key_load=1.0))
    assert log.first_dirty_offset == 5
    assert [offset for offset, *_ in read_all(log)][:4] == [2, 3, 4, 5], "later records replace the first two"


def test_reader_skips_a_batch_whose_last_records_were_compacted() -> None:
    log = a_log(170)
    append(log, ("a", "1"), ("b", "1"), ("a", "2"))
    append(log, ("a", "3"))
    append(log, ("c", "1"))
    run_compaction(log)
    data = log.read(0, 1 << 20, log.end_offset, True)
    assert decode_records(data)[0].offset == 1
    whole = log.read(2, 1 << 20, 3, True)
    assert decode_records(whole, 2) == [] and offset_after(whole, 2) == 3
    assert offset_after(b"", 7) == 7


def test_follower_copies_a_compacted_log_with_its_gaps() -> None:
    cluster = Cluster(2, log_segment_bytes=100, log_cleaner_backoff_ms=100)
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    cluster[2].runtime.stop()
    cluster.alive.discard(2)
    cluster.create([1, 2])
    cluster.elect(1, [1])
    for value in "12345":
        answer = cluster.produce_later(1, build_batch([Record(b"k", value.encode(), 1_000)]))
        cluster.until(answer.done)
    cluster.run(1_000)
    assert cluster[1].values == ["4", "5"], "the last segment is not compacted"
    cluster.restart(2)
    cluster.settle(1, 2)
    assert cluster[2].values == ["4", "5"]
    assert cluster[2].partition.log.end_offset == 5


@pytest.mark.parametrize("codec", Codec)
def test_tombstone_is_kept_for_delete_retention_after_compaction(codec: Codec) -> None:
    log = a_log(100)
    append(log, ("a", "1"), at_ms=1_000, codec=codec)
    append(log, ("a", None), at_ms=1_000, codec=codec)
    append(log, ("b", "1"), at_ms=1_000, codec=codec)
    run_compaction(log, NO_LAG)
    assert read_all(log)[0] == (1, "a", None), "the first compaction keeps it"
    append(log, ("c", "1"), at_ms=1_000, codec=codec)
    run_compaction(log, NO_LAG, after_ms=NO_LAG.tombstone_ms - 1)
    assert read_all(log)[0] == (1, "a", None), "its age does not count"
    (record,) = decode_records(log.read(1, 1 << 20, 2, True))
    assert record.timestamp_ms == 1_000, "it keeps its own timestamp"
    append(log, ("d", "1"), at_ms=1_000, codec=codec)
    run_compaction(log, NO_LAG, after_ms=NO_LAG.tombstone_ms)
    assert [key for _, key, _ in read_all(log)] == ["b", "c", "d"]


def test_tombstone_deletion_time_is_stored_in_kafkas_format() -> None:
    log = a_log(100)
    append(log, ("x", "1"), ("a", None), ("b", "1"), at_ms=1_000)
    append(log, ("x", "2"), at_ms=1_000)
    append(log, ("c", "1"), at_ms=1_000)
    run_compaction(log, NO_LAG)
    now_ms = SimRuntime(Scheduler(), Random(1)).now().wall_ms
    first, *others = split_batches(log.read(0, 1 << 20, log.end_offset, True)) or []
    # DefaultRecordBatch: bit 6 of the attributes is set, and the base timestamp is the delete horizon.
    assert first.attributes == 0x40 and first.base_timestamp == now_ms + NO_LAG.tombstone_ms
    assert (first.max_timestamp, first.record_count) == (1_000, 2)
    assert [header.attributes for header in others] == [0] * len(others), (
        "batches without tombstones have no delete horizon"
    )
    before = log.read(0, 1 << 20, log.end_offset, True)
    append(log, ("e", "1"), at_ms=1_000)
    run_compaction(log, NO_LAG, after_ms=500)
    assert log.read(0, len(before), log.end_offset, True)[: first.size] == before[: first.size], (
        "the delete horizon is not changed"
    )


@pytest.mark.parametrize("at_ms", [-1, 1_000, 2**62])
def test_tombstones_can_be_kept_up_to_the_largest_timestamp(at_ms: int) -> None:
    log = a_log(100)
    append(log, ("a", None), at_ms=at_ms)
    append(log, ("b", "1"))
    append(log, ("c", "1"))
    run_compaction(log, NO_LAG._replace(tombstone_ms=2**63 - 1))
    (header, *_) = split_batches(log.read(0, 1 << 20, log.end_offset, True)) or []
    assert header.base_timestamp == 2**63 - 1
    (record,) = decode_records(log.read(0, 1 << 20, 1, True))
    assert (record.key, record.value, record.timestamp_ms) == (b"a", None, at_ms)


def test_log_is_compacted_only_above_its_dirty_ratio() -> None:
    log = a_log(100)
    for value in "1234":
        append(log, ("a", value))
    half = NO_LAG._replace(dirty_ratio_min=0.5)
    assert is_filthy(log, half, 10)
    run_compaction(log)
    assert not is_filthy(log, half, 10)
    append(log, ("b", "1"))
    assert is_filthy(log, NO_LAG, 10) and not is_filthy(log, half._replace(dirty_ratio_min=0.9), 10)
    assert is_filthy(log, half._replace(dirty_ratio_min=0.9, lag_max_ms=5), 10), "overdue"
    assert not is_filthy(log, NO_LAG._replace(lag_min_ms=50), 10), "too young"


def test_compacted_topic_rolls_within_max_compaction_lag_ms() -> None:
    # LogConfig.maxSegmentMs: the active segment is not compacted.
    overrides = {"segment.ms": "1000", "max.compaction.lag.ms": "100"}

    def starts(policy: str) -> list[int]:
        settings = partition_config(ReplicaConfig(), {**overrides, "cleanup.policy": policy})
        log = a_log(1 << 20, segment_ms=settings.segment_ms)
        for at_ms in (1_000, 1_100, 1_101):
            append(log, ("k", "v"), at_ms=at_ms)
        return [segment.base_offset for segment in log.segments]

    assert starts("compact") == starts("compact,delete") == [0, 2]
    assert starts("delete") == [0]


def test_records_without_timestamp_do_not_delay_due_compaction() -> None:
    log = a_log(100)
    for at_ms in (-1, 10, 11):
        append(log, ("a", "1"), at_ms=at_ms)
    late = NO_LAG._replace(dirty_ratio_min=1.0, lag_max_ms=5)
    assert is_filthy(log, late, 16) and not is_filthy(log, late, 15)


def test_uncommitted_records_are_not_compacted() -> None:
    log = a_log(100)
    for value in "1234":
        append(log, ("a", value))
    log.high_watermark = 2
    run_compaction(log)
    assert read_all(log) == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]


def test_last_batch_of_a_producer_is_kept_even_if_empty() -> None:
    directory = MemoryLogDirectory()
    log = a_log(100, directory)
    append(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, ("a", "2"))
    append(log, ("b", "1"))
    run_compaction(log)
    log.close()
    again = a_log(100, directory)
    assert [value for _, _, value in read_all(again)] == ["2", "1"]
    resend = batch("x", producer_id=7, producer_epoch=0, base_sequence=5)
    assert again.producers.check(headers_of(resend)[0]) == ErrorCode.out_of_order_sequence_number


def test_already_empty_producer_batch_is_not_compacted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = a_log(100)
    append(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, ("a", "2"))
    append(log, ("b", "1"))
    run_compaction(log)
    assert [header.record_count for header in headers_of(log.read(0, 1 << 20, 1, True))] == [0]
    log.first_dirty_offset = 0
    monkeypatch.setattr(PartitionLog, "replace_segment", pytest.fail)
    run_compaction(log)


def test_crash_during_compaction_leaves_the_log_unchanged() -> None:
    directory = MemoryLogDirectory()
    log = a_log(100, directory)
    append(log, ("a", "1"))
    append(log, ("a", "2"))
    log.begin_cleaned(log.segments[0]).append(b"half a batch")
    log.close()
    again = a_log(100, directory)
    assert [value for _, _, value in read_all(again)] == ["1", "2"]
    assert [name for name in directory.list_files("orders-0") if "cleaned" in name] == []


def test_topic_can_be_deleted_during_compaction(tmp_path: Path) -> None:
    log = a_log(100, FileLogDirectory(tmp_path, workers=AT_ONCE))
    for value in "1234":
        append(log, ("a", value))
    with paused_compaction(log, 1):
        log.delete()
    assert list(tmp_path.iterdir()) == []


def test_compaction_yields_between_single_record_batches() -> None:
    log = a_log(1 << 20)
    for number in range(10 * SLICE_RECORDS):
        append(log, (f"k{number % 7}", "v"))
    log.roll()
    scheduler = Scheduler()
    runtime = SimRuntime(scheduler, Random(1))
    task = runtime.spawn(compact(log, NO_LAG, runtime, ignore_progress), "compact")
    steps = 0
    while not task.done():
        scheduler.step()
        steps += 1
    assert steps >= 2 * 10, "each record is read twice"
    assert len(read_all(log)) == 7
    runtime.stop()


def delete_topic(log: PartitionLog) -> None:
    log.delete()


def drop_older_half(log: PartitionLog) -> None:
    log.drop_first_segments(2)


def truncate_all(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(0)


@pytest.mark.parametrize("pause", [1, 2, 3, 4, 6, 12, 40])
@pytest.mark.parametrize("disturb", [PartitionLog.close, delete_topic, drop_older_half, truncate_all])
def test_segment_removed_during_compaction_is_not_a_disk_error(
    tmp_path: Path, disturb: Callable[[PartitionLog], None], pause: int
) -> None:
    failures: list[OSError] = []
    disk = GuardedDirectory(FileLogDirectory(tmp_path, workers=AT_ONCE), lambda _, failure: failures.append(failure))
    log = a_log(110_000, disk)
    for number in range(2_600):
        append(log, (f"k{number % 1_500}", "v" * 40))
    with paused_compaction(log, pause):
        disturb(log)
    assert failures == []


@pytest.mark.parametrize("tombstone", [None, "v"], ids=["tombstones", "values"])
def test_overflowing_timestamps_survive_compaction(tombstone: str | None) -> None:
    # Java adds a record's timestamp delta to the batch's base timestamp in 64 bits, so that the sum can overflow.
    # Clients can send such batches, and brokers store them.
    rows = [Record(key.encode(), tombstone and tombstone.encode(), at_ms) for at_ms, key in enumerate("aab")]
    data = build_batch(rows)
    (header,) = headers_of(data)
    latest = 2**63 - 1
    wrapped, _ = with_checksum(header._replace(base_timestamp=latest, max_timestamp=latest), data[HEADER_SIZE:])
    log = a_log()
    stored = validated(wrapped)
    log.append_as_leader(stored.data, stored.headers, 0)
    log.high_watermark = log.end_offset
    append(log, ("z", "in the segment that is written to"))
    for _ in range(2):
        run_compaction(log)
        found = decode_records(log.read(0, 1 << 20, 3, True))
        assert [(record.offset, record.timestamp_ms) for record in found] == [(1, -(2**63)), (2, -(2**63) + 1)]

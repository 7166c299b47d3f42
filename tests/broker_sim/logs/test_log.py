"""Logs, batches and checkpoint files: data reads back as it was written, also after a restart."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.replication.replication_cluster import TP, batch
from tests.kafka.produced import error_of, headers_of, validated
from zabka.broker_sim.logs import checkpoints
from zabka.broker_sim.logs.epoch_cache import EpochCache
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.log_manager import partition_of
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.ports import LogDirectory
from zabka.journal.events import TopicPartition
from zabka.kafka.compression import Codec
from zabka.kafka.record_batch import (
    BatchUnreadable,
    Record,
    build_batch,
    decode_records,
    patch_batches,
    split_batches,
)


@pytest.fixture(params=["memory", "disk"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> LogDirectory:
    return MemoryLogDirectory() if request.param == "memory" else FileLogDirectory(tmp_path / "log")


def open_log(directory: LogDirectory, segment_bytes: int = 1 << 20, clean: bool = False) -> PartitionLog:
    return PartitionLog(directory, TP, segment_bytes=segment_bytes, index_interval_bytes=200, stopped_cleanly=clean)


def append(log: PartitionLog, *values: str, epoch: int = 0, **options: int) -> None:
    data = batch(*values, **options)
    if epoch > log.epochs.latest:
        log.epochs.assign(epoch, log.end_offset)
    log.append_as_leader(data, headers_of(data), epoch)


def read_all(log: PartitionLog) -> list[str]:
    values: list[str] = []
    offset = log.start_offset
    while offset < log.end_offset:
        records = decode_records(log.read(offset, 1 << 20, log.end_offset, True), offset)
        values += [(record.value or b"").decode() for record in records]
        offset = records[-1].offset + 1
    return values


# ---- record batches -----------------------------------------------------------------------------------------------

optional_bytes = st.none() | st.binary(max_size=200)
records = st.lists(
    st.builds(
        Record,
        key=optional_bytes,
        value=optional_bytes,
        timestamp_ms=st.integers(0, 1 << 42),
        headers=st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(records, st.sampled_from(Codec), st.integers(0, 1 << 40))
def test_encoded_batch_decodes_to_its_records(rows: list[Record], codec: Codec, base: int) -> None:
    valid = validated(build_batch(rows, codec=codec))
    stored, headers = patch_batches(valid.data, valid.headers, base, 7)
    assert split_batches(stored) == headers
    assert decode_records(stored) == [row._replace(offset=base + i) for i, row in enumerate(rows)]


@given(records, st.data())
def test_flipped_bit_is_detected_without_an_exception(rows: list[Record], data: st.DataObject) -> None:
    good = build_batch(rows)
    at = data.draw(st.integers(8, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= 1 << data.draw(st.integers(0, 7))
    if 12 <= at < 16:
        return
    # A batch whose length field is too large counts as truncated and is not appended.
    assert error_of(bytes(bad)) != 0 or not validated(bytes(bad)).headers


@given(st.binary(max_size=200))
def test_invalid_bytes_are_rejected_without_an_exception(data: bytes) -> None:
    assert error_of(data) != 0 or not validated(data).headers
    with suppress(BatchUnreadable):
        decode_records(data)


def test_incomplete_batch_at_the_end_is_ignored() -> None:
    one = batch("a")
    data = one + batch("b", base_offset=1)
    assert [r.value for r in decode_records(data[:-1])] == [b"a"]
    assert [r.value for r in decode_records(data, 1)] == [b"b"]


def test_kafka_python_reads_our_batch_bytes() -> None:
    memory = pytest.importorskip("kafka.record.memory_records")
    data = build_batch(
        [Record(b"k", b"v", 1_700_000_000_000, 0, (("h", b"1"),)), Record(None, b"w", 1_700_000_000_001)]
    )
    parsed = memory.MemoryRecords(data).next_batch()
    assert parsed.validate_crc()
    assert [(r.key, r.value, r.timestamp, list(r.headers)) for r in parsed] == [
        (b"k", b"v", 1_700_000_000_000, [("h", b"1")]),
        (None, b"w", 1_700_000_000_001, []),
    ]


# ---- the log --------------------------------------------------------------------------------------------------------


def test_rolled_segments_are_named_after_their_base_offset(directory: LogDirectory) -> None:
    log = open_log(directory, segment_bytes=300)
    for i in range(10):
        append(log, f"value {i}")
    files = [name for name in directory.list_files("orders-0") if name.endswith(".log")]
    assert files[0] == "00000000000000000000.log" and len(files) > 2
    assert all(len(name) == 24 for name in files)
    assert read_all(log) == [f"value {i}" for i in range(10)]


def test_reopened_log_is_unchanged(directory: LogDirectory) -> None:
    log = open_log(directory, segment_bytes=300)
    for i in range(10):
        append(log, f"value {i}", epoch=i // 4, producer_id=3, producer_epoch=0, base_sequence=i)
    log.close()
    for clean in (False, True):
        again = open_log(directory, segment_bytes=300, clean=clean)
        assert again.damage == [] and again.end_offset == 10
        assert again.epochs.entries == [(0, 0), (1, 4), (2, 8)]
        assert read_all(again) == [f"value {i}" for i in range(10)]
        resend = batch("value 9", producer_id=3, producer_epoch=0, base_sequence=9)
        known = again.producers.check(headers_of(resend)[0])
        assert not isinstance(known, int) and known.base_offset == 9
        again.close()


@pytest.mark.parametrize("keep", [0, 1, 30, 60, 61, 68])
def test_incomplete_last_batch_is_truncated_when_the_log_opens(directory: LogDirectory, keep: int) -> None:
    log = open_log(directory)
    append(log, "a")
    append(log, "b")
    size = log.size_bytes // 2
    log.close()
    directory.open("orders-0", "00000000000000000000.log").truncate(size + keep)
    again = open_log(directory)
    assert again.end_offset == 1 and read_all(again) == ["a"]
    assert len(again.damage) == (1 if keep else 0)
    append(again, "c")
    assert read_all(again) == ["a", "c"]


def test_flipped_bit_on_disk_truncates_the_log_when_it_opens(tmp_path: Path) -> None:
    log = open_log(FileLogDirectory(tmp_path))
    for value in "abc":
        append(log, value)
    size = log.size_bytes // 3
    log.close()
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[2 * size - 1] ^= 4
    path.write_bytes(content)
    again = open_log(FileLogDirectory(tmp_path))
    assert read_all(again) == ["a"]
    assert [(d.position, d.reason) for d in again.damage] == [(size, "a batch's checksum is wrong")]
    again.close()


def test_segments_after_a_damaged_one_are_deleted(directory: LogDirectory) -> None:
    log = open_log(directory, segment_bytes=100)
    for value in "abcd":
        append(log, value)
    log.close()
    directory.open("orders-0", "00000000000000000001.log").truncate(40)
    again = open_log(directory, segment_bytes=100)
    assert read_all(again) == ["a"] and len(again.damage) == 2
    names = [n for n in directory.list_files("orders-0") if n.endswith(".log")]
    assert names == ["00000000000000000000.log", "00000000000000000001.log"]


@pytest.mark.parametrize("is_torn_too", [False, True])
def test_bit_flip_in_an_earlier_segment_is_detected_on_opening(tmp_path: Path, is_torn_too: bool) -> None:
    log = open_log(FileLogDirectory(tmp_path), segment_bytes=250)
    for value in "abcdefgh":
        append(log, value)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    size = log.segments[1].size // 3
    log.close()
    path = tmp_path / "orders-0" / "00000000000000000003.log"
    content = bytearray(path.read_bytes())
    content[2 * size - 1] ^= 4
    path.write_bytes(content[: 3 * size - 1 if is_torn_too else 3 * size])
    again = open_log(FileLogDirectory(tmp_path), segment_bytes=250)
    assert read_all(again) == ["a", "b", "c", "d"]
    assert [(d.position, d.reason) for d in again.damage] == [
        (size, "a batch's checksum is wrong"),
        (0, "records before this segment are missing"),
    ]
    again.close()


def test_missing_segment_is_read_as_a_compaction_gap(directory: LogDirectory) -> None:
    log = open_log(directory, segment_bytes=100)
    for value in "abcd":
        append(log, value)
    log.close()
    directory.remove("orders-0", "00000000000000000001.log")
    again = open_log(directory, segment_bytes=100)
    assert read_all(again) == ["a", "c", "d"] and again.damage == []
    [gap] = headers_of(again.read(1, 1 << 20, 2, True))
    assert (gap.base_offset, gap.next_offset, gap.record_count) == (1, 2, 0), "no record at or above the limit"


def test_truncation_adjusts_epochs_producers_and_high_watermark(directory: LogDirectory) -> None:
    log = open_log(directory, segment_bytes=300)
    for i in range(12):
        append(log, str(i), epoch=i // 4, producer_id=i % 2, producer_epoch=0, base_sequence=i // 2)
    log.high_watermark = 11
    assert log.truncate_to(5) == 5
    assert (log.high_watermark, log.epochs.entries) == (5, [(0, 0), (1, 4)])
    resend = batch("x", producer_id=0, producer_epoch=0, base_sequence=3)
    assert log.producers.check(headers_of(resend)[0]) == 0
    append(log, "new", epoch=3)
    assert read_all(log) == ["0", "1", "2", "3", "4", "new"]
    log.truncate_fully_and_start_at(100)
    assert (log.start_offset, log.end_offset, log.high_watermark, log.epochs.entries) == (100, 100, 100, [])
    append(log, "far", epoch=4)
    log.close()
    assert read_all(open_log(directory)) == ["far"]


def test_truncation_within_a_batch_removes_the_whole_batch(directory: LogDirectory) -> None:
    log = open_log(directory)
    append(log, "a")
    append(log, "b", "c", "d")
    assert log.truncate_to(2) == 1
    assert read_all(log) == ["a"]


def test_follower_append_rejects_overlapping_offsets() -> None:
    log = open_log(MemoryLogDirectory())
    ahead = batch("a", base_offset=3, leader_epoch=2)
    headers = split_batches(ahead)
    assert headers and log.append_as_follower(ahead, headers), "compaction can have removed the earlier records"
    assert log.end_offset == 4
    overlapping = batch("b", base_offset=2, leader_epoch=2)
    headers = split_batches(overlapping)
    assert headers and not log.append_as_follower(overlapping, headers)
    assert log.end_offset == 4


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "truncate", "reopen", "crash", "flush"]), st.integers(0, 9)
    ),
    max_size=40,
)


@given(steps, st.sampled_from([120, 400, 5_000]))
@settings(max_examples=150, deadline=None)
def test_log_matches_a_list_model_under_random_steps(plan: list[tuple[str, int]], segment_bytes: int) -> None:
    directory = MemoryLogDirectory()
    log = open_log(directory, segment_bytes)
    model: list[str] = []
    ends = [0]
    for number, (what, size) in enumerate(plan):
        if what == "append":
            values = [f"{number}.{i}" * (size + 1) for i in range(size % 4 + 1)]
            append(log, *values, epoch=number)
            model += values
            ends.append(len(model))
        elif what == "truncate":
            target = len(model) * size // 9
            end = max(e for e in ends if e <= target)
            assert log.truncate_to(target) == end
            del model[end:]
            ends = [e for e in ends if e <= end]
        elif what == "flush":
            log.flush()
        else:
            if what == "crash":
                directory.crash()
            else:
                log.close()
            log = open_log(directory, segment_bytes, clean=what == "reopen")
        assert log.end_offset == len(model)
    assert read_all(log) == model
    assert all(offset <= log.end_offset for _, offset in log.epochs.entries)
    for offset in range(0, len(model), 3):
        read = decode_records(log.read(offset, 1, len(model), True), offset)
        assert read[0].value == model[offset].encode()
        assert log.bytes_between(offset, len(model)) >= len(log.read(offset, 1, len(model), True))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(0, 30))
@settings(deadline=None)
def test_power_loss_leaves_a_log_prefix_with_all_flushed_records(sizes: list[int], flush_after: int) -> None:
    directory = MemoryLogDirectory()
    log = open_log(directory, 300)
    model: list[str] = []
    flushed = 0
    for number, size in enumerate(sizes):
        values = [f"{number}.{i}" for i in range(size)]
        append(log, *values)
        model += values
        if number == flush_after:
            log.flush()
            flushed = len(model)
    directory.power_loss()
    again = open_log(directory, 300)
    assert flushed <= again.end_offset <= len(model)
    assert read_all(again) == model[: again.end_offset]


# ---- epochs and small files -----------------------------------------------------------------------------------------


def test_epoch_cache_returns_end_offsets_and_can_be_truncated() -> None:
    saved: list[list[tuple[int, int]]] = []
    cache = EpochCache([(2, 10), (4, 20), (7, 30)], lambda entries: saved.append(list(entries)))
    end = 40
    assert cache.end_offset_for(-1, end) == (-1, -1)
    assert cache.end_offset_for(7, end) == (7, 40)
    assert cache.end_offset_for(8, end) == (-1, -1)
    assert cache.end_offset_for(1, end) == (1, 10)
    assert cache.end_offset_for(2, end) == (2, 20)
    assert cache.end_offset_for(5, end) == (4, 30)
    assert EpochCache([], saved.append).end_offset_for(0, 0) == (-1, -1)
    assert not cache.assign(7, 35) and saved == []
    assert cache.assign(8, 25) and cache.entries == [(2, 10), (4, 20), (8, 25)]
    cache.truncate_from_end(20)
    assert cache.entries == [(2, 10)]
    cache.truncate_from_start(15)
    assert cache.entries == [(2, 15)] == saved[-1]
    assert [cache.epoch_for_offset(offset) for offset in (14, 15, 99)] == [-1, 2, 2]
    cache = EpochCache([(2, 10), (4, 20), (7, 30)], lambda entries: saved.append(list(entries)))
    cache.truncate_from_start(20)
    assert cache.entries == [(4, 20), (7, 30)] == saved[-1]


def test_checkpoint_files_have_kafkas_formats(directory: LogDirectory) -> None:
    marks = {TopicPartition("b-c", 1): 7, TopicPartition("a", 0): 0}
    checkpoints.write_offsets(directory, checkpoints.REPLICATION_OFFSETS, marks)
    assert directory.read_text("", "replication-offset-checkpoint") == "0\n2\na 0 0\nb-c 1 7\n"
    assert checkpoints.read_offsets(directory, checkpoints.REPLICATION_OFFSETS) == marks
    directory.create_partition("t-0")
    checkpoints.write_leader_epochs(directory, "t-0", [(0, 0), (3, 17)])
    assert directory.read_text("t-0", "leader-epoch-checkpoint") == "0\n2\n0 0\n3 17\n"
    assert checkpoints.read_leader_epochs(directory, "t-0") == [(0, 0), (3, 17)]
    topic_id = "a6e4EJ2tEdGAtADAT9QwyA"
    checkpoints.write_topic_id(directory, "t-0", topic_id)
    assert directory.read_text("t-0", "partition.metadata") == "version: 0\ntopic_id: a6e4EJ2tEdGAtADAT9QwyA"
    assert checkpoints.read_topic_id(directory, "t-0") == topic_id
    directory.write_text("t-0", "partition.metadata", "version: 0\ntopic_id: nonsense")
    assert checkpoints.read_topic_id(directory, "t-0") is None


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "0\nx\n"])
def test_damaged_checkpoint_is_ignored(directory: LogDirectory, text: str) -> None:
    directory.write_text("", checkpoints.REPLICATION_OFFSETS, text)
    assert checkpoints.read_offsets(directory, checkpoints.REPLICATION_OFFSETS) == {}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-0", ("a", 0)),
        ("a-b-12", ("a-b", 12)),
        ("a", None),
        ("-1", None),
        ("a-01", None),
        ("a-x", None),
        ("a-²", None),
    ],
)
def test_replica_directory_name_is_parsed_to_topic_and_partition(name: str, expected: tuple[str, int] | None) -> None:
    assert partition_of(name) == expected


def test_log_directory_rejects_names_of_paths_outside_it(tmp_path: Path) -> None:
    directory = FileLogDirectory(tmp_path)
    for name, file in (("../x", "f"), ("a", "../f"), ("..", "f")):
        with pytest.raises(ValueError, match="not a name within"):
            directory.write_text(name, file, "x")

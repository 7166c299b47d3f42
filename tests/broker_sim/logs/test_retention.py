"""Removal of old data: retention, DeleteRecords, and expired producers."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.logs.small_log import a_log, append, read_all
from tests.broker_sim.replication.replication_cluster import TP, Cluster, at_once, batch
from tests.kafka.produced import error_of, headers_of
from zabka.broker_sim.logs import producer_snapshots, retention
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.producer_snapshots import ProducerEntry
from zabka.broker_sim.logs.producer_state import ProducerBatch
from zabka.journal import events as e
from zabka.kafka.record_batch import decode_records

# ---- retention -------------------------------------------------------------------------------------------------


def test_segments_whose_newest_record_has_expired_are_deleted() -> None:
    log = a_log()
    for at_ms in (10, 20, 30, 40):
        append(log, ("k", "v"), at_ms=at_ms)
    assert retention.drop_older(log, 10, 40) == 2, "20 ms exceed the limit of 10, and 10 do not"
    assert (log.start_offset, log.end_offset, len(log.segments)) == (2, 4, 2)


def test_all_expired_segments_are_replaced_by_an_empty_one() -> None:
    log = a_log()
    for at_ms in (10, 20):
        append(log, ("k", "v"), at_ms=at_ms)
    assert retention.drop_older(log, 10, 1_000) == 2
    assert (log.start_offset, log.end_offset, log.size_bytes) == (2, 2, 0)
    assert retention.drop_older(log, 10, 1_000) == 0
    append(log, ("k", "again"))
    assert read_all(log) == [(2, "k", "again")]


def test_segment_without_timestamps_expires_by_last_append_time() -> None:
    log = a_log()
    for at_ms in (-1, -1, 40):
        append(log, ("k", "v"), at_ms=at_ms)
    assert retention.drop_older(log, 10, 1_000) == 0
    assert retention.drop_older(log, 10, 1_010) == 0
    assert retention.drop_older(log, 10, 1_011) == 3
    log = a_log(1 << 20)
    for wall_ms in (1_000, 1_009, 1_018):
        append(log, ("k", "v"), at_ms=-1)
        assert retention.drop_older(log, 10, wall_ms) == 0, "it is the active segment"
    assert retention.drop_older(log, 10, 1_028) == 0
    assert retention.drop_older(log, 10, 1_029) == 1


def test_record_without_timestamp_is_kept_after_a_truncation() -> None:
    log = a_log()
    append(log, ("k", "v"), at_ms=-1)
    assert retention.drop_older(log, 10, 1_000) == 0
    log.truncate_to(0)
    append(log, ("k", "w"), at_ms=-1)
    assert retention.drop_older(log, 10, 2_000) == 0
    assert read_all(log) == [(0, "k", "w")]


def test_oldest_segments_are_deleted_down_to_retention_bytes() -> None:
    log = a_log()
    for _ in range(5):
        append(log, ("k", "v"))
    size = log.segments[0].size
    assert retention.drop_beyond(log, 3 * size + 1) == 1
    assert retention.drop_beyond(log, 3 * size) == 1
    assert log.start_offset == 2


def test_uncommitted_records_are_not_deleted_by_retention() -> None:
    log = a_log()
    for at_ms in (10, 20, 30):
        append(log, ("k", "v"), at_ms=at_ms)
    log.high_watermark = 2
    assert retention.drop_older(log, 1, 10_000) == 2 and log.start_offset == 2


def test_log_without_a_retention_limit_keeps_every_segment() -> None:
    log = a_log()
    append(log, ("k", "v"))
    append(log, ("k", "v"))
    assert retention.drop_older(log, -1, 1 << 60) == retention.drop_beyond(log, -1) == 0


def test_segment_rolls_when_its_records_span_segment_ms() -> None:
    log = a_log(1 << 20, segment_ms=100)
    for at_ms in (1_000, 1_100, 1_101):
        append(log, ("k", "v"), at_ms=at_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_retention_of_a_topic_applies_on_every_replica() -> None:
    cluster = Cluster(2, log_segment_bytes=100, log_retention_check_interval_ms=1_000, log_retention_ms=-1)
    cluster.topic_configs["orders"] = {"retention.bytes": "250"}
    cluster.create([1, 2])
    for value in "abcdef":
        cluster.produce(1, value)
    cluster.run(2_500)
    starts = [cluster[b].partition.log.start_offset for b in (1, 2)]
    assert starts[0] == starts[1] > 0
    assert cluster.fetch(1, 0).error == ErrorCode.offset_out_of_range
    assert at_once(cluster[1].manager.list_offset(TP, -2, -1, False))[2] == starts[0]
    cluster.kill(1)
    cluster.elect(2, [2])
    assert cluster.violations() == [], "deleted records are not lost"


# ---- DeleteRecords ---------------------------------------------------------------------------------------------


def delete(cluster: Cluster, offset: int, broker_id: int = 1, timeout_ms: int = 2_000) -> tuple[int, int]:
    answer = cluster[broker_id].manager.delete_records({TP: offset}, timeout_ms)
    cluster.until(answer.done)
    error, low_watermark = answer.result()[TP]
    return int(error), int(low_watermark)


def with_records(**overrides: Any) -> Cluster:
    cluster = Cluster(3, **overrides)
    cluster.create([1, 2, 3])
    for value in "abcdef":
        cluster.produce(1, value)
    cluster.settle()
    return cluster


def test_delete_records_applies_on_all_live_replicas() -> None:
    cluster = with_records()
    assert delete(cluster, 4) == (0, 4)
    assert [cluster[b].partition.log.start_offset for b in (1, 2, 3)] == [4, 4, 4]
    assert cluster.fetch(1, 3).error == ErrorCode.offset_out_of_range
    assert [r.value for r in decode_records(cluster.fetch(1, 4).records)] == [b"e", b"f"]
    assert cluster[1].partition.log.epochs.entries == [(0, 4)]
    assert delete(cluster, -1) == (0, 6), "minus one means the high watermark"


def test_delete_records_rejects_an_offset_out_of_range() -> None:
    cluster = with_records()
    assert delete(cluster, 3) == (0, 3)
    assert delete(cluster, 1) == (0, 3)
    assert delete(cluster, 7)[0] == ErrorCode.offset_out_of_range
    assert delete(cluster, -2)[0] == ErrorCode.offset_out_of_range
    assert delete(cluster, 5, broker_id=2)[0] == ErrorCode.not_leader_or_follower


def test_delete_records_waits_only_for_live_replicas() -> None:
    cluster = with_records()
    cluster.cut_link(1, 3)
    assert delete(cluster, 2)[0] == ErrorCode.request_timed_out
    cluster.alive.discard(3)
    assert delete(cluster, 2) == (0, 2)


def test_delete_records_rejects_a_compacted_topic() -> None:
    cluster = Cluster(1)
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact"}
    cluster.create([1])
    cluster.produce(1, "a")
    assert delete(cluster, 1)[0] == ErrorCode.policy_violation


def test_log_start_offset_survives_a_clean_stop_and_a_kill() -> None:
    cluster = with_records()
    delete(cluster, 4)
    cluster.restart(2)
    assert cluster[2].partition.log.start_offset == 4
    cluster.run(61_000)
    cluster.kill(3)
    cluster.restart(3)
    assert cluster[3].partition.log.start_offset == 4


def test_follower_below_leaders_log_start_restarts_at_log_start() -> None:
    cluster = with_records()
    cluster.kill(3)
    cluster.elect(1, [1, 2])
    for value in "gh":
        cluster.produce(1, value)
    delete(cluster, 8)
    cluster.produce(1, "i")
    cluster.restart(3)
    cluster.until(lambda: 3 in cluster[1].partition.isr_state.isr)
    assert (cluster[3].partition.log.start_offset, cluster[3].values) == (8, ["i"])
    assert cluster.events(e.RecordsLost) == []
    cluster.elect(3, [3])
    assert cluster.violations() == []


# ---- producers -------------------------------------------------------------------------------------------------


def test_inactive_producer_expires() -> None:
    cluster = Cluster(1, producer_id_expiration_ms=1_000, producer_id_expiration_check_interval_ms=500)
    cluster.create([1])

    def produce(sequence: int) -> int:
        data = batch("x", producer_id=7, producer_epoch=0, base_sequence=sequence)
        answer = cluster.produce_later(1, data)
        cluster.until(answer.done)
        return int(answer.result()[0].error)

    assert produce(0) == 0
    assert produce(5) == ErrorCode.out_of_order_sequence_number
    cluster.run(2_000)
    assert produce(5) == 0, "an unknown producer can start with any sequence"


def test_idempotent_batch_without_sequence_number_is_invalid() -> None:
    data = batch("x", producer_id=7, producer_epoch=0, base_sequence=-1)
    assert error_of(data) == ErrorCode.invalid_record


def known(log: PartitionLog, producer_id: int, sequence: int) -> object:
    """Return the result of the leader's sequence check for a batch of one record from that producer."""
    data = batch("x", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return log.producers.check(headers_of(data)[0])


def test_producer_of_deleted_records_is_known_after_a_restart() -> None:
    directory, log = a_log_of_two_producers()
    log.drop_first_segments(len(log.segments) - 1)
    again = PartitionLog(directory, TP, segment_bytes=200)
    repeated = known(again, 7, 4)
    assert isinstance(repeated, ProducerBatch) and repeated.base_offset == 4
    assert known(again, 7, 9) == ErrorCode.out_of_order_sequence_number and known(again, 7, 5) == 0
    # Batch 18 is not the producer's last one, but it is known, because the log still contains it.
    assert isinstance(known(again, 8, 18), ProducerBatch)
    files = [file for file in directory.list_files(str(TP)) if file.endswith(".snapshot")]
    assert files == [f"{segment.base_offset:020d}.snapshot" for segment in again.segments]


def a_log_of_two_producers() -> tuple[MemoryLogDirectory, PartitionLog]:
    """Return a log with five records of producer 7, then twenty of producer 8, a few per segment."""
    directory = MemoryLogDirectory()
    log = PartitionLog(directory, TP, segment_bytes=200)
    for producer_id, count in ((7, 5), (8, 20)):
        for sequence in range(count):
            append(log, ("k", "x"), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return directory, log


def test_resent_batch_is_recognised_after_deletion_and_restart() -> None:
    cluster = Cluster(1, log_segment_bytes=100)
    cluster.create([1])

    def produce(sequence: int) -> tuple[int, int]:
        answer = cluster.produce_later(1, batch("x", producer_id=7, producer_epoch=0, base_sequence=sequence))
        cluster.until(answer.done)
        return int(answer.result()[0].error), int(answer.result()[0].base_offset)

    assert [produce(sequence) for sequence in range(4)] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    log = cluster[1].partition.log
    log.drop_first_segments(len(log.segments))
    cluster.kill(1)
    cluster.restart(1)
    cluster.elect(1, [1])
    assert cluster[1].partition.log.start_offset == 4
    assert produce(3) == (0, 3), "the same response as before"
    assert produce(9)[0] == ErrorCode.out_of_order_sequence_number
    assert produce(4) == (0, 4)


def test_truncation_keeps_producers_whose_records_were_deleted() -> None:
    _, log = a_log_of_two_producers()
    log.drop_first_segments(len(log.segments) - 3)
    log.truncate_to(log.start_offset + 1)
    assert isinstance(known(log, 7, 4), ProducerBatch)
    assert isinstance(known(log, 8, log.end_offset - 5 - 1), ProducerBatch)
    assert known(log, 8, 19) == ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone"])
def test_damaged_producer_snapshot_is_replaced_by_another_one(damage: str) -> None:
    directory, log = a_log_of_two_producers()
    log.drop_first_segments(len(log.segments) - 3)
    name = producer_snapshots.file_name(log.segments[0].base_offset)
    file = directory.open(str(TP), name)
    data = file.read(0, file.size())
    directory.remove(str(TP), name)
    if damage != "gone":
        broken = {"cut": data[:-1], "flipped": data[:-1] + bytes([data[-1] ^ 1]), "empty": b""}[damage]
        directory.open(str(TP), name).append(broken)
    again = PartitionLog(directory, TP, segment_bytes=200)
    assert isinstance(known(again, 7, 4), ProducerBatch)


def test_producer_snapshots_of_deleted_segments_are_deleted() -> None:
    directory, log = a_log_of_two_producers()
    for offset in (1, 1_000):
        producer_snapshots.write(directory, str(TP), offset, [])
    log.drop_first_segments(2)
    PartitionLog(directory, TP, segment_bytes=200)
    left = producer_snapshots.offsets(directory.list_files(str(TP)))
    assert left == [segment.base_offset for segment in log.segments]
    log.truncate_fully_and_start_at(50)
    assert producer_snapshots.offsets(directory.list_files(str(TP))) == []
    assert known(log, 7, 3) == 0


def test_log_without_idempotent_producers_writes_no_snapshots() -> None:
    directory = MemoryLogDirectory()
    log = PartitionLog(directory, TP, segment_bytes=100)
    for _ in range(9):
        append(log, ("k", "x"))
    assert len(log.segments) > 2 and producer_snapshots.offsets(directory.list_files(str(TP))) == []


def test_producer_snapshot_has_kafkas_format() -> None:
    # The bytes that ProducerStateManager.writeSnapshot of Kafka 3.9.1 writes for this producer.
    entry = ProducerEntry(producer_id=7, epoch=1, last_sequence=41, last_offset=100, offset_delta=2, timestamp_ms=1234)
    theirs = bytes.fromhex(
        "0001c286895300000001000000000000000700010000002900000000000000640000000200000000000004d2ffffffffffffffffffffffff"
    )
    assert producer_snapshots.encode([entry]) == theirs
    assert producer_snapshots.decode(theirs) == [entry]

"""Transactions in a log: the last stable offset, aborted transactions and their index files (UnifiedLog,
TransactionIndex).
"""

from __future__ import annotations

import struct

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.logs.small_log import a_log, append, read_all, run_compaction
from tests.broker_sim.logs.transactional_log import A, B, end, write
from tests.kafka.produced import headers_of
from zabka.broker_sim.logs import producer_snapshots
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.producer_snapshots import ProducerEntry
from zabka.broker_sim.logs.producer_state import AppendOrigin
from zabka.broker_sim.ports import AbortedTransaction
from zabka.kafka.end_transaction_marker import EndTransactionMarker, marker_batch, read_marker
from zabka.kafka.record_batch import CONTROL, TRANSACTIONAL, BatchHeader, Record, build_batch, split_batches

LARGE = 1 << 20


def aborted(log: PartitionLog) -> list[AbortedTransaction]:
    return log.aborted_transactions(0, 1 << 62)


def opened_again(log: PartitionLog, directory: MemoryLogDirectory, segment_bytes: int = LARGE) -> PartitionLog:
    mark = log.high_watermark
    log.close()
    again = a_log(segment_bytes, directory)
    again.high_watermark = mark
    return again


def header_of(sequence: int, *, epoch: int = 0, attributes: int = TRANSACTIONAL, producer_id: int = A) -> BatchHeader:
    data = build_batch(
        [Record(b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=attributes,
    )
    return headers_of(data)[0]


def marker_header(epoch: int) -> BatchHeader:
    return headers_of(marker_batch(A, epoch, EndTransactionMarker(True, 0), 0))[0]


# ---- record and file formats ---------------------------------------------------------------------------------------


def test_marker_is_a_control_record_with_the_coordinator_epoch() -> None:
    data = marker_batch(7, 3, EndTransactionMarker(True, 5), 1_000)
    (header,) = headers_of(data)
    assert header.attributes == TRANSACTIONAL | CONTROL
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    # Key: version 0 and type COMMIT (1). Value: version 0 and the coordinator epoch.
    assert bytes.fromhex("00000001") in data and bytes.fromhex("000000000005") in data
    assert read_marker(data, 0, header) == (True, 5)
    abort = marker_batch(7, 3, EndTransactionMarker(False, 6), 1_000)
    assert bytes.fromhex("00000000") in abort and read_marker(abort, 0, headers_of(abort)[0]) == (False, 6)


def test_transaction_index_has_kafkas_format() -> None:
    directory = MemoryLogDirectory()
    log = a_log(LARGE, directory)
    write(log, A, 0)
    write(log, B, 0)
    end(log, A, False)
    end(log, B, False)
    file = directory.open(log.name, "00000000000000000000.txnindex")
    # Fields of an entry: version, producer id, first offset, last offset, last stable offset.
    assert file.read(0, file.size()) == struct.pack(">hqqqq", 0, A, 0, 2, 1) + struct.pack(">hqqqq", 0, B, 1, 3, 4)


def test_producer_snapshot_has_open_txn_and_coordinator_epoch() -> None:
    directory = MemoryLogDirectory()
    log = a_log(LARGE, directory)
    write(log, A, 0)
    end(log, A, True, coordinator_epoch=4)
    write(log, A, 1)
    end(log, B, False, epoch=2, coordinator_epoch=9)
    log.roll()
    assert producer_snapshots.read(directory, log.name, 4) == [
        ProducerEntry(A, 0, 1, 2, 0, 0, 4, 2),
        ProducerEntry(B, 2, -1, -1, 0, 0, 9, -1),
    ]


# ---- the last stable offset -----------------------------------------------------------------------------------------


def test_open_transaction_limits_the_last_stable_offset() -> None:
    log = a_log(LARGE)
    append(log, ("k", "plain"))
    write(log, A, 0)
    write(log, B, 0)
    append(log, ("k", "plain"))
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    end(log, A, True)
    assert log.last_stable_offset == 2
    end(log, B, False)
    assert log.last_stable_offset == log.high_watermark == 6


def test_lso_advances_only_after_the_marker_is_committed() -> None:
    log = a_log(LARGE)
    write(log, A, 0)
    end(log, A, True)
    log.high_watermark = 1
    assert log.last_stable_offset == 0, "the marker at offset 1 is not committed"
    log.high_watermark = 2
    assert log.last_stable_offset == 2
    assert not log.producers.has_undecided


def test_last_stable_offset_is_at_most_the_high_watermark() -> None:
    log = a_log(LARGE)
    append(log, ("k", "plain"))
    write(log, A, 0)
    log.high_watermark = 1
    assert log.last_stable_offset == 1


def test_deleting_records_of_an_open_transaction_raises_the_lso() -> None:
    log = a_log(LARGE)
    write(log, A, 0)
    append(log, ("k", "plain"), ("k", "plain"))
    log.advance_start(2)
    assert log.last_stable_offset == 2
    end(log, A, False)
    assert log.last_stable_offset == log.high_watermark == 4


def test_aborted_transactions_that_overlap_a_range_are_returned() -> None:
    log = a_log(LARGE)
    write(log, A, 0)  # 0
    end(log, A, False)  # 1
    write(log, A, 1)  # 2
    end(log, A, True)  # 3
    write(log, B, 0)  # 4
    end(log, B, False)  # 5
    assert aborted(log) == [(A, 0, 1, 2), (B, 4, 5, 6)]
    assert log.aborted_transactions(2, 4) == []
    assert log.aborted_transactions(1, 5) == [(A, 0, 1, 2), (B, 4, 5, 6)]


def test_aborted_transaction_is_found_from_an_earlier_segment() -> None:
    log = a_log(LARGE)
    write(log, A, 0)
    log.roll()
    end(log, A, False)
    assert log.aborted_transactions(0, 1) == [(A, 0, 1, 2)]


# ---- opening and truncating a log -----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["none", "lost", "cut"])
def test_reopened_log_restores_its_transactions(damage: str) -> None:
    directory = MemoryLogDirectory()
    log = a_log(LARGE, directory)
    write(log, A, 0)
    end(log, A, False)
    log.roll()
    write(log, B, 0)
    file = "00000000000000000000.txnindex"
    if damage == "lost":
        directory.remove(log.name, file)
    elif damage == "cut":
        directory.open(log.name, file).truncate(10)
    again = opened_again(log, directory)
    assert aborted(again) == [(A, 0, 1, 2)] and again.last_stable_offset == 2
    assert directory.open(log.name, file).size() == 34
    assert again.producers.active() == log.producers.active()


def test_reopened_log_restores_a_transaction_of_deleted_segments() -> None:
    directory = MemoryLogDirectory()
    log = a_log(LARGE, directory)
    write(log, A, 0)
    log.roll()
    append(log, ("k", "plain"))
    log.drop_first_segments(1)
    again = opened_again(log, directory)
    assert again.producers.is_in_transaction(A) and again.last_stable_offset == 1
    end(again, A, False)
    assert again.last_stable_offset == 3 and aborted(again) == [(A, 0, 2, 3)]


def test_truncation_of_the_marker_reopens_its_transaction() -> None:
    directory = MemoryLogDirectory()
    log = a_log(LARGE, directory)
    write(log, A, 0)
    end(log, A, False, coordinator_epoch=3)
    append(log, ("k", "plain"))
    log.truncate_to(1)
    assert aborted(log) == [] and log.producers.is_in_transaction(A)
    append(log, ("k", "plain"))
    assert log.last_stable_offset == 0
    (producer,) = log.producers.active()
    assert producer.coordinator_epoch == -1, "it was known by the marker alone"
    again = opened_again(log, directory)
    assert aborted(again) == [] and again.last_stable_offset == 0


def test_truncation_of_a_transaction_removes_it() -> None:
    log = a_log(LARGE)
    append(log, ("k", "plain"))
    write(log, A, 0)
    end(log, A, False)
    log.truncate_to(1)
    assert (aborted(log), log.producers.active(), log.last_stable_offset) == ([], [], 1)


def test_fully_truncated_log_has_no_transactions() -> None:
    directory = MemoryLogDirectory()
    log = a_log(LARGE, directory)
    write(log, A, 0)
    end(log, A, False)
    write(log, A, 1)
    log.truncate_fully_and_start_at(9)
    assert (aborted(log), log.last_stable_offset) == ([], 9)
    assert not [file for file in directory.list_files(log.name) if file.endswith(".txnindex")]


def test_log_copy_takes_over_producers_of_deleted_records() -> None:
    log = a_log(LARGE)
    write(log, A, 0)
    append(log, ("k", "plain"))
    log.advance_start(1)
    copy = a_log(LARGE)
    copy.truncate_fully_and_start_at(1)
    data = log.read(1, LARGE, 2, True)
    headers = split_batches(data)
    assert headers is not None and copy.append_as_follower(data, headers)
    copy.take_over(log)
    assert copy.producers.is_in_transaction(A) and copy.last_stable_offset == 1


# ---- the leader's checks of markers and records ---------------------------------------------------------------------


def test_markers_of_older_epochs_are_rejected() -> None:
    log = a_log(LARGE)
    write(log, A, 0, epoch=3)
    marker = EndTransactionMarker(True, 5)
    assert log.producers.check_marker(marker_header(2), marker) == ErrorCode.invalid_producer_epoch
    assert log.producers.check_marker(marker_header(3), marker) == 0
    end(log, A, True, epoch=3, coordinator_epoch=5)
    zombie = EndTransactionMarker(True, 4)
    assert log.producers.check_marker(marker_header(3), zombie) == ErrorCode.transaction_coordinator_fenced
    assert log.producers.check_marker(marker_header(3), marker) == 0


def test_marker_with_a_later_epoch_fences_the_producer() -> None:
    log = a_log(LARGE)
    write(log, A, 0, epoch=0)
    end(log, A, False, epoch=1)
    assert log.producers.check(header_of(1, epoch=0)) == ErrorCode.invalid_producer_epoch
    assert log.producers.check(header_of(1, epoch=1)) == ErrorCode.out_of_order_sequence_number
    assert log.producers.check(header_of(0, epoch=1)) == 0


def test_plain_batch_during_a_producers_transaction_is_rejected() -> None:
    log = a_log(LARGE)
    write(log, A, 0)
    assert log.producers.check(header_of(1, attributes=0)) == ErrorCode.invalid_txn_state
    assert log.producers.check(header_of(1)) == 0


def test_coordinator_appends_without_sequence_numbers() -> None:
    log = a_log(LARGE)
    write(log, A, 0)
    assert log.producers.check(header_of(0), AppendOrigin.COORDINATOR) == 0
    assert log.producers.check(header_of(5)) == ErrorCode.out_of_order_sequence_number
    old = header_of(0, epoch=-1)
    assert log.producers.check(old, AppendOrigin.COORDINATOR) == ErrorCode.invalid_producer_epoch


def test_producer_with_an_open_transaction_does_not_expire() -> None:
    log = a_log(LARGE)
    write(log, A, 0)
    write(log, B, 0)
    end(log, B, True)
    log.producers.expire(1_000)
    assert [each.producer_id for each in log.producers.active()] == [A]


# ---- compaction -----------------------------------------------------------------------------------------------------


def markers(log: PartitionLog) -> list[int]:
    found = []
    for segment in log.segments:
        found += [header.base_offset for _, header in segment.headers() if header.attributes & CONTROL]
    return found


def test_compaction_stops_at_the_last_stable_offset() -> None:
    log = a_log(LARGE)
    append(log, ("a", "1"))
    log.roll()
    append(log, ("a", "2"))
    write(log, A, 0, "b")
    log.roll()
    append(log, ("a", "3"))
    log.roll()
    append(log, ("z", "active"))
    run_compaction(log)
    assert [row[0] for row in read_all(log)] == [0, 1, 2, 3, 4]
    end(log, A, True)
    run_compaction(log)
    assert [row[0] for row in read_all(log)] == [2, 3, 4]


def test_compaction_removes_records_of_aborted_transactions() -> None:
    log = a_log(LARGE)
    append(log, ("a", "1"))
    write(log, A, 0, "a")
    write(log, A, 1, "b")
    end(log, A, False)
    log.roll()
    append(log, ("z", "active"))
    run_compaction(log)
    assert read_all(log) == [(0, "a", "1"), (4, "z", "active")]
    # Compaction keeps the producer's last batch for its sequence number, and therefore also keeps the transaction's
    # marker and index entry.
    assert markers(log) == [3] and aborted(log) == [(A, 1, 3, 4)]
    assert log.producers.check(header_of(2)) == 0


def test_transaction_marker_is_removed_after_delete_retention_ms() -> None:
    directory = MemoryLogDirectory()
    log = a_log(LARGE, directory)
    write(log, A, 0, "a")
    end(log, A, False)
    log.roll()
    write(log, A, 1, "b")
    end(log, A, True)
    log.roll()
    append(log, ("z", "active"))
    run_compaction(log)
    assert markers(log) == [1, 3] and aborted(log) == [(A, 0, 1, 2)], "compaction passes the batch once more"
    run_compaction(log)
    assert markers(log) == [1, 3] and aborted(log) == []
    run_compaction(log, after_ms=5_000)
    assert markers(log) == [3], "the horizon is one second after the compaction that dated it"
    again = opened_again(log, directory)
    assert (markers(again), aborted(again), again.last_stable_offset) == ([3], [], 5)

"""Future replicas of moves between log directories: where they are truncated, and when they are copied again.

See KIP-113.
"""

from __future__ import annotations

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.replication.log_dir_moves import _append, _make_agree
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch, split_batches

TP = TopicPartition("orders", 0)


def log_of(*epochs: int, start: int = 0) -> PartitionLog:
    """Return a log with one record per given leader epoch."""
    log = PartitionLog(MemoryLogDirectory(), TP, segment_bytes=1 << 20)
    if start:
        log.truncate_fully_and_start_at(start)
    for epoch in epochs:
        if epoch > log.epochs.latest:
            log.epochs.assign(epoch, log.end_offset)
        data = build_batch([Record(b"k", b"v")])
        log.append_as_leader(data, split_batches(data), epoch)
    return log


@pytest.mark.parametrize(
    ("current", "copied", "end", "cut"),
    [
        pytest.param((0, 0, 1), (0, 0, 1), 3, False, id="level"),
        pytest.param((0, 0, 1), (0, 0), 2, False, id="behind"),
        pytest.param((0, 0, 1), (), 0, False, id="empty"),
        pytest.param((0, 0, 1), (0, 0, 0), 2, True, id="the replica was cut and filled in a later epoch"),
        pytest.param((0, 0), (0, 0, 0), 2, True, id="the replica was cut"),
        pytest.param((0, 2, 2), (0, 1, 1), 1, True, id="an epoch that the replica does not have"),
        pytest.param((0, 0, 0, 2), (0, 1, 1), 1, True, id="the same, and the replica has more of the one before"),
        pytest.param((), (3,), 0, True, id="the replica is empty"),
        pytest.param((0, 0), (3,), 0, True, id="an epoch later than all of the replica's"),
    ],
)
def test_copy_is_truncated_where_it_diverges_from_its_replica(
    current: tuple[int, ...], copied: tuple[int, ...], end: int, cut: bool
) -> None:
    """A future replica is truncated where it diverges from the current replica.

    It finds that offset with the leader epochs of the current replica, as a follower uses those of its leader
    (KIP-279).
    """
    replica, copy = log_of(*current), log_of(*copied)
    assert _make_agree(replica, copy) == cut
    assert copy.end_offset == end and copy.start_offset <= end
    assert _make_agree(replica, copy) is False, "a second call changes nothing"


@pytest.mark.parametrize(("records", "start", "end"), [(4, 5, 5), (5, 0, 5), (6, 0, 5)])
def test_copy_restarts_if_it_ends_before_the_replicas_log_start(records: int, start: int, end: int) -> None:
    """A future replica that ends before the current replica's log start offset is copied again from the start.

    The current replica's records before offset 5 were deleted; the future replica may still have them.
    """
    replica, copy = log_of(2, 2, start=5), log_of(*[0] * records)
    assert _make_agree(replica, copy) == (records != 5)
    assert (copy.start_offset, copy.end_offset) == (start, end)


def test_batches_read_from_the_replica_are_appended_to_the_copy() -> None:
    current, copy = log_of(0, 0, 1), log_of(0)
    assert _append(current, copy, current.read(1, 1 << 20, 3, True))
    assert copy.end_offset == 3 and copy.epochs.latest == 1
    assert not _append(current, copy, b"")


def test_copy_that_ends_within_a_batch_is_restarted() -> None:
    """A future replica that ends within a batch is copied again from the start.

    It has only the first of two records that the current replica stores as one batch.
    """
    current = PartitionLog(MemoryLogDirectory(), TP, segment_bytes=1 << 20)
    data = build_batch([Record(b"k", b"v"), Record(b"k", b"w")])
    current.append_as_leader(data, split_batches(data), 0)
    copy = log_of(0)
    assert _append(current, copy, current.read(0, 1 << 20, 2, True))
    assert (copy.start_offset, copy.end_offset) == (0, 0)
    assert _append(current, copy, current.read(0, 1 << 20, 2, True)) and copy.end_offset == 2

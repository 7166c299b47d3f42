"""Transactions in a replicated partition: what read_committed consumers read, and what a new leader knows of them."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import TP, Cluster, batch
from zabka.broker_sim.ports import ProducedPartition
from zabka.journal.events import (
    LastStableOffsetHeld,
    LastStableOffsetMoved,
    LastStableOffsetReleased,
    MarkerWritten,
    TransactionBegun,
)
from zabka.kafka.end_transaction_marker import EndTransactionMarker
from zabka.kafka.record_batch import TRANSACTIONAL, decode_records

PRODUCER = 7


def a_cluster(count: int = 3) -> Cluster:
    cluster = Cluster(count)
    cluster.create(list(range(1, count + 1)))
    return cluster


def write(cluster: Cluster, broker_id: int, sequence: int, *values: str, epoch: int = 0) -> ProducedPartition:
    data = batch(*values, producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, attributes=TRANSACTIONAL)
    answer = cluster.produce_later(broker_id, data)
    cluster.until(answer.done)
    (row,) = answer.result()
    assert isinstance(row, ProducedPartition)
    return row


def end_later(cluster: Cluster, broker_id: int, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> Any:
    marker = EndTransactionMarker(commit, coordinator_epoch)
    return cluster[broker_id].manager.append_markers(PRODUCER, epoch, marker, [TP], 5_000)


def end(cluster: Cluster, broker_id: int, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    answer = end_later(cluster, broker_id, commit, epoch, coordinator_epoch)
    cluster.until(answer.done)
    (row,) = answer.result()
    return int(row.error)


def values(data: bytes) -> list[str]:
    return [(record.value or b"").decode() for record in decode_records(data)]


def test_read_committed_consumer_stops_at_the_last_stable_offset() -> None:
    cluster = a_cluster()
    cluster.produce(1, "before")
    write(cluster, 1, 0, "open")
    cluster.produce(1, "after")
    row = cluster.fetch(1, 0, read_committed=True)
    assert (values(row.records), row.high_watermark, row.last_stable_offset) == (["before"], 3, 1)
    assert row.aborted == ()
    other = cluster.fetch(1, 0)
    assert (values(other.records), other.last_stable_offset, other.aborted) == (["before", "open", "after"], 1, None)


def test_read_committed_consumer_gets_the_aborted_transactions() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "aborted")
    assert end(cluster, 1, False) == 0
    write(cluster, 1, 1, "committed")
    assert end(cluster, 1, True) == 0
    row = cluster.fetch(1, 0, read_committed=True)
    assert row.last_stable_offset == row.high_watermark == 4
    assert row.aborted == [(PRODUCER, 0, 1, 2)]
    assert cluster.fetch(1, 2, read_committed=True).aborted == []


def test_marker_completes_a_waiting_read_committed_fetch() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    answer = cluster.fetch_later(1, 0, read_committed=True, max_wait_ms=30_000)
    began_ms = cluster.now_ms
    cluster.produce(1, "plain")
    cluster.run(1_000)
    assert not answer.done()
    end(cluster, 1, True)
    cluster.until(answer.done)
    (row,) = answer.result()
    assert values(row.records) == ["open", "plain"] and cluster.now_ms - began_ms < 2_000


def test_marker_is_acknowledged_after_the_isr_has_replicated_it() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    for follower in (2, 3):
        cluster.cut_link(1, follower)
    answer = end_later(cluster, 1, True)
    cluster.run(50)
    assert not answer.done() and cluster[1].partition.log.last_stable_offset == 0
    cluster.heal()
    cluster.until(answer.done)
    assert cluster[1].partition.log.last_stable_offset == 2


def test_followers_and_leaders_below_min_isr_reject_markers() -> None:
    cluster = a_cluster()
    assert end(cluster, 2, True) == ErrorCode.not_leader_or_follower
    cluster.topic_configs[TP.topic] = {"min.insync.replicas": "2"}
    cluster[1].manager.topic_configs_changed([TP.topic])
    cluster.elect(1, [1])
    assert end(cluster, 1, True) == ErrorCode.not_enough_replicas


def test_zombie_coordinator_and_zombie_producer_are_fenced() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    assert end(cluster, 1, False, epoch=1, coordinator_epoch=2) == 0
    assert end(cluster, 1, True, epoch=1, coordinator_epoch=1) == ErrorCode.transaction_coordinator_fenced
    assert end(cluster, 1, True, epoch=0, coordinator_epoch=2) == ErrorCode.invalid_producer_epoch
    assert write(cluster, 1, 1, "zombie").error == ErrorCode.invalid_producer_epoch


def test_next_leader_restores_the_open_transaction() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "aborted")
    end(cluster, 1, False, coordinator_epoch=3)
    write(cluster, 1, 1, "open")
    cluster.settle()
    cluster.kill(1)
    cluster.elect(2, [2, 3])
    row = cluster.fetch(2, 0, read_committed=True)
    assert (row.last_stable_offset, row.aborted) == (2, [(PRODUCER, 0, 1, 2)])
    assert end(cluster, 2, True, coordinator_epoch=2) == ErrorCode.transaction_coordinator_fenced
    assert end(cluster, 2, True, coordinator_epoch=3) == 0
    assert cluster.fetch(2, 0, read_committed=True).last_stable_offset == 4


def test_divergent_marker_of_an_old_leader_is_truncated() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    cluster.settle()
    for follower in (2, 3):
        cluster.cut_link(1, follower)
    end_later(cluster, 1, False)
    assert not cluster[1].partition.log.producers.is_in_transaction(PRODUCER)
    cluster.elect(2, [2, 3])
    assert end(cluster, 2, True) == 0
    cluster.heal()
    cluster.settle()
    log = cluster[1].partition.log
    assert log.aborted_transactions(0, 9) == [] and log.last_stable_offset == log.end_offset == 2


def test_restarted_broker_restores_the_last_stable_offset() -> None:
    cluster = a_cluster(1)
    write(cluster, 1, 0, "open")
    cluster.produce(1, "plain")
    cluster.restart(1)
    row = cluster.fetch(1, 0, read_committed=True, max_wait_ms=0)
    assert (row.records, row.last_stable_offset) == (b"", 0)
    assert end(cluster, 1, True) == 0
    assert values(cluster.fetch(1, 0, read_committed=True).records) == ["open", "plain"]


def test_follower_fetches_beyond_the_last_stable_offset() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    cluster.settle()
    assert cluster[2].partition.log.end_offset == 1
    assert cluster[2].partition.log.last_stable_offset == 0


def test_latest_offset_with_read_committed_is_the_lso() -> None:
    cluster = a_cluster()
    cluster.produce(1, "plain")
    write(cluster, 1, 0, "open")
    manager = cluster[1].manager

    def latest(timestamp: int = -1, *, committed: bool) -> int:
        found = cluster.wait_for(manager.list_offset(TP, timestamp, -1, False, True, committed))
        return int(found[2])

    assert (latest(committed=True), latest(committed=False)) == (1, 2)
    # The open transaction's record has the newest timestamp, but a read_committed consumer must not find it.
    assert (latest(1_000, committed=True), latest(1_001, committed=True)) == (0, -1)


def test_deleting_records_of_an_open_transaction_moves_the_lso() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    cluster.produce(1, "plain")
    deleted = cluster.wait_for(cluster[1].manager.delete_records({TP: 1}, 5_000))
    assert deleted[TP].error == 0
    row = cluster.fetch(1, 1, read_committed=True, max_wait_ms=0)
    assert (row.last_stable_offset, row.log_start_offset) == (1, 1)
    assert end(cluster, 1, False) == 0
    assert values(cluster.fetch(1, 1, read_committed=True).records) == ["plain"]


def test_marker_and_the_moved_lso_are_journaled() -> None:
    cluster = a_cluster(1)
    cluster.produce(1, "before")
    write(cluster, 1, 0, "open", epoch=2)
    cluster.produce(1, "after")
    end(cluster, 1, False, epoch=2, coordinator_epoch=5)
    (written,) = cluster.events(MarkerWritten)
    assert written == MarkerWritten(
        1, TP.topic, 0, 0, 3, PRODUCER, 2, False, 5, first_offset=1, caused_by="decision 7@2"
    )
    (moved,) = cluster.events(LastStableOffsetMoved)
    assert (moved.last_stable_offset, moved.high_watermark, moved.held_by) == (4, 4, -1)
    order = [type(event) for _, event in cluster.journal]
    assert order.index(MarkerWritten) < order.index(LastStableOffsetMoved)


def test_lso_event_contains_the_producer_that_blocks_the_lso() -> None:
    cluster = a_cluster(1)
    write(cluster, 1, 0, "open")
    other = batch("open too", producer_id=8, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    cluster.until(cluster.produce_later(1, other).done)
    end(cluster, 1, True)
    (moved,) = cluster.events(LastStableOffsetMoved)
    assert (moved.last_stable_offset, moved.high_watermark, moved.held_by) == (1, 3, 8)


def test_record_deletion_that_moves_the_lso_is_journaled() -> None:
    cluster = a_cluster(1)
    write(cluster, 1, 0, "open")
    cluster.produce(1, "plain")
    cluster.wait_for(cluster[1].manager.delete_records({TP: 1}, 5_000))
    (moved,) = cluster.events(LastStableOffsetMoved)
    assert (moved.last_stable_offset, moved.held_by, moved.caused_by) == (1, PRODUCER, "request DeleteRecords")


def test_first_batch_of_a_transaction_is_journaled() -> None:
    cluster = a_cluster(1)
    cluster.produce(1, "before")
    write(cluster, 1, 0, "open", epoch=2)
    write(cluster, 1, 1, "open too", epoch=2)
    assert cluster.events(TransactionBegun) == [
        TransactionBegun(1, TP.topic, 0, 0, 1, PRODUCER, 2, is_verified=False, caused_by="producer 7")
    ]


def test_lso_blocked_for_a_long_time_is_journaled_once() -> None:
    cluster = a_cluster()
    cluster.produce(1, "before")
    write(cluster, 1, 0, "open", epoch=2)
    cluster.produce(1, "after")
    cluster.run(9_000)
    assert cluster.events(LastStableOffsetHeld) == []
    cluster.run(60_000)
    (held,) = cluster.events(LastStableOffsetHeld)
    assert held.held_ms >= 10_000
    assert held == LastStableOffsetHeld(
        1, TP.topic, 0, 0, last_stable_offset=1, high_watermark=3, producer_id=PRODUCER, producer_epoch=2,
        held_ms=held.held_ms, caused_by="open 7 orders-0@1",
    )  # fmt: skip


def test_blocked_lso_advances_when_the_marker_is_written() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    cluster.run(60_000)
    end(cluster, 1, False)
    (released,) = cluster.events(LastStableOffsetReleased)
    assert (released.last_stable_offset, released.high_watermark) == (2, 2)
    assert released.held_ms > 59_000
    (moved,) = [event for event in cluster.events(LastStableOffsetMoved) if event.is_leader]
    assert released.caused_by == moved.caused_by


def test_next_leader_journals_a_blocked_lso_again() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    cluster.run(60_000)
    cluster.kill(1)
    cluster.elect(2, [2, 3])
    cluster.run(60_000)
    assert [event.broker_id for event in cluster.events(LastStableOffsetHeld)] == [1, 2]


def test_lso_blocked_by_short_transactions_is_not_reported() -> None:
    cluster = a_cluster(1)
    for number in range(8):
        write(cluster, 1, number, "open")
        cluster.run(4_000)
        end(cluster, 1, True)
    assert cluster.events(LastStableOffsetHeld) == []


def test_follower_updates_its_last_stable_offset_by_fetching() -> None:
    cluster = a_cluster()
    write(cluster, 1, 0, "open")
    end(cluster, 1, True)
    cluster.settle()
    moved = {event.broker_id: event.caused_by for event in cluster.events(LastStableOffsetMoved)}
    assert moved[2] == moved[3] == "request Fetch" != moved[1]

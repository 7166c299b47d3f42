"""Replicas rebuilt from a compacted log.

Brokers journal each compaction, so that the checkers accept a leader whose rebuilt log lacks the compacted records.
"""

from __future__ import annotations

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.replication.compacted_outages import SlowDisk, read
from tests.broker_sim.replication.replication_cluster import TP, Cluster
from zabka.broker_sim.logs.partition_log import CLEANED_SUFFIX
from zabka.journal import events as e
from zabka.journal.checkers.invariants import check
from zabka.kafka.record_batch import Record, build_batch


def keyed(keys: str) -> bytes:
    return build_batch([Record(key.encode(), b"v", 1_000) for key in keys])


def compacting() -> Cluster:
    """Return two brokers with a replicated, compacted partition of nine records with three keys."""
    cluster = Cluster(2, log_segment_bytes=300, log_cleaner_backoff_ms=100)
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    cluster.create([1, 2])
    for keys in ("ab", "ac", "ba", "bc", "a"):
        cluster.until(
            cluster.produce_later(1, build_batch([Record(key.encode(), b"v", 1_000) for key in keys]), acks=-1).done
        )
    cluster.settle()
    return cluster


def lead_with_a_rebuilt_replica(cluster: Cluster) -> None:
    cluster.run(1_000)
    cluster.kill(2, power=True)
    cluster[2].directory.wipe()
    cluster.elect(1, [1])
    cluster.restart(2)
    cluster.until(lambda: 2 in cluster[1].partition.isr_state.isr)
    cluster.kill(1)
    cluster.elect(2, [2])


def test_broker_reports_every_compacted_segment() -> None:
    cluster = compacting()
    cluster.run(1_000)
    compacted = cluster.events(e.LogCompacted, 1)
    assert [(each.first_offset, each.last_offset) for each in compacted] == [(0, 5)], "6 to 8 are in the active segment"
    assert all(each.bytes_after < each.bytes_before for each in compacted)


def test_rebuilt_replica_of_a_compacted_log_becomes_leader() -> None:
    cluster = compacting()
    lead_with_a_rebuilt_replica(cluster)
    fetched = cluster.events(e.RecordsReplicated, 2)
    assert any(batch.compacted for batch in fetched), "no compacted batch was fetched"
    assert check(cluster.entries()) == []


def test_checker_reports_loss_if_the_compaction_event_is_missing() -> None:
    cluster = compacting()
    lead_with_a_rebuilt_replica(cluster)
    without_the_event = [entry for entry in cluster.entries() if not isinstance(entry.event, e.LogCompacted)]
    assert {violation.invariant for violation in check(without_the_event)} == {"committed and acks=all records survive"}


def with_a_slow_disk_and_another_beginning() -> Cluster:
    """Return a cluster whose replicas on brokers 1 and 3 start with different records.

    Broker 1, with a slow disk, is the leader and the only ISR member. Broker 3 is down, and its log starts with an
    uncommitted record that broker 1 does not have.
    """
    cluster = Cluster(3, log_segment_bytes=300, log_cleaner_backoff_ms=100)
    cluster.topic_configs["orders"] = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.01"}
    cluster.kill(1)
    cluster[1].directory = SlowDisk(cluster[1], 300)
    cluster.restart(1)
    cluster.create([3, 1, 2])
    cluster.cut_link(3, 1)
    cluster.cut_link(3, 2)
    cluster.until(cluster.produce_later(3, keyed("x"), acks=1).done)
    cluster.kill(3)
    cluster.kill(2)
    cluster.heal()
    cluster.elect(1, [1])
    cluster.until(cluster.produce_later(1, keyed("ab")).done)
    return cluster


def kill_and_let_the_other_follow(cluster: Cluster) -> None:
    """Kill broker 1, restart brokers 1 and 3, and check that both then have the same log, starting at offset 1."""
    cluster.kill(1)
    cluster.restart(1)
    cluster.restart(3)
    cluster.until(lambda: 3 in cluster[1].partition.isr_state.isr)
    logs = cluster[1].partition.log, cluster[3].partition.log
    assert [log.start_offset for log in logs] == [1, 1]
    assert [each.record.key for each in read(logs[0], 1)] == [each.record.key for each in read(logs[1], 1)]


def delete_the_first(cluster: Cluster) -> None:
    deleted = cluster[1].manager.delete_records({TP: 1}, 1_000)
    assert deleted.done() and cluster[1].partition.log.start_offset == 1


def has_begun_to_compact(cluster: Cluster, broker: int = 1) -> bool:
    return any(file.endswith(CLEANED_SUFFIX) for file in cluster[broker].directory.list_files(str(TP)))


@pytest.mark.parametrize("is_deleted_meanwhile", [False, True])
def test_deleted_and_compacted_records_stay_deleted_after_a_kill(
    is_deleted_meanwhile: bool,
) -> None:
    """Records that were deleted and compacted do not reappear after the leader is killed.

    Otherwise the leader's log would not show that the uncommitted records of other replicas at these offsets must be
    removed.
    """
    cluster = with_a_slow_disk_and_another_beginning()
    for _ in range(5 if is_deleted_meanwhile else 0):
        cluster.until(cluster.produce_later(1, keyed("ab")).done)
    cluster.until(lambda: has_begun_to_compact(cluster) or not is_deleted_meanwhile)
    delete_the_first(cluster)
    assert cluster.events(e.LogCompacted) == []
    for _ in range(0 if is_deleted_meanwhile else 5):
        cluster.until(cluster.produce_later(1, keyed("ab")).done)
    cluster.until(lambda: bool(cluster.events(e.LogCompacted, 1)))
    cluster.run(1)
    kill_and_let_the_other_follow(cluster)


def test_deletion_in_a_compacted_log_survives_an_immediate_kill() -> None:
    """DeleteRecords in a compacted log survives a kill directly after it.

    The compacted log alone does not show at which offsets the epochs of the deleted records start.
    """
    cluster = with_a_slow_disk_and_another_beginning()
    for _ in range(5):
        cluster.until(cluster.produce_later(1, keyed("ab")).done)
    cluster.until(lambda: cluster[1].partition.log.first_dirty_offset > 0)
    delete_the_first(cluster)
    kill_and_let_the_other_follow(cluster)


def put(cluster: Cluster, *keys: str, value: bytes | None = b"v") -> None:
    for key in keys:
        cluster.until(cluster.produce_later(1, build_batch([Record(key.encode(), value, 1_000)])).done)


def test_deleted_key_stays_deleted_if_a_move_stops_compaction() -> None:
    """A move to another log directory aborts a running compaction, and a deleted key does not reappear.

    Kafka also aborts the compaction (ReplicaManager.alterReplicaLogDirs).
    """
    cluster = Cluster(2, log_segment_bytes=1_500, log_cleaner_backoff_ms=100, replica_fetch_max_bytes=1)
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "20000"}
    cluster.topic_configs["orders"] = settings
    cluster.kill(2)
    cluster[2].more_directories = [MemoryLogDirectory()]
    cluster.restart(2)
    cluster.create([1, 2])
    put(cluster, "gone")
    cluster.settle()
    cluster.kill(2)
    cluster.elect(1, [1])
    put(cluster, *(f"k{number}" for number in range(30)))
    put(cluster, "gone", value=None)
    put(cluster, *(f"l{number}" for number in range(30)))
    cluster.run(1_000)
    settings["min.cleanable.dirty.ratio"] = "1.0"
    cluster.restart(2)
    cluster.settle()
    assert [each.offset for each in read(cluster[2].partition.log, 0) if each.record.key == "gone"] == [0, 31]
    cluster.run(20_000)
    settings["min.cleanable.dirty.ratio"] = "0.01"
    cluster.until(lambda: has_begun_to_compact(cluster, 2))
    cluster[2].manager.throttles.moves.limit(50)
    cluster[2].manager.move_log(TP, 1)
    cluster.run(10_000)
    cluster[2].manager.throttles.moves.limit(1 << 20)
    cluster.until(lambda: cluster[2].partition.future is None)
    put(cluster, *(f"m{number}" for number in range(5)))
    cluster.run(5_000)
    left = read(cluster[2].partition.log, 0)
    assert [each.offset for each in left if each.record.key == "gone" and each.record.value is not None] == []

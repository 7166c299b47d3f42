"""A broker's replicas are inactive after its shutdown."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.replication.replication_cluster import TP, Cluster, batch
from tests.broker_sim.replication.test_isr import catch_up, still
from zabka.broker_sim.logs.log_manager import LogManager
from zabka.broker_sim.replication.isr import PendingExpand
from zabka.journal import events as e


def test_periodic_tasks_of_replicas_stop_at_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints: list[int] = []
    checkpoint = LogManager.checkpoint_high_watermarks

    def note(logs: LogManager) -> None:
        checkpoints.append(1)
        checkpoint(logs)

    monkeypatch.setattr(LogManager, "checkpoint_high_watermarks", note)
    cluster = Cluster(1)
    cluster.create([1])
    cluster.run(11_000)
    assert checkpoints, "every five seconds (replica.high.watermark.checkpoint.interval.ms)"
    cluster[1].manager.shutdown()
    done = len(checkpoints)
    cluster.run(60_000)
    assert len(checkpoints) == done


def test_pending_isr_change_is_not_sent_after_shutdown() -> None:
    cluster = still(2)
    cluster.create([1, 2])
    cluster.elect(1, [1])
    catch_up(cluster, 2, 0, epoch=1)
    while not isinstance(cluster[1].partition.isr_state, PendingExpand):
        assert cluster.scheduler.step()
    assert cluster.alterations == []
    cluster[1].manager.shutdown()
    cluster.run(5_000)
    assert cluster.alterations == []


def test_follower_stops_fetching_at_shutdown() -> None:
    cluster = Cluster(2)
    cluster.create([1, 2])
    cluster.produce(1, "a")
    cluster.settle()
    replica = cluster[2].partition
    cluster[2].manager.shutdown()
    cluster.produce(1, "b", acks=1)
    cluster.run(2_000)
    assert replica.log.end_offset == 1


def test_requests_after_shutdown_are_rejected() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    log = cluster[1].partition.log
    cluster[1].manager.shutdown()
    late = cluster.produce_later(1, batch("late"))
    assert [row.error for row in late.result()] == [ErrorCode.not_leader_or_follower]
    assert log.end_offset == 0 and TP not in cluster[1].manager.partitions


def test_replica_progress_is_reported_once_at_shutdown() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    cluster.run(1_000)
    cluster.produce(1, "a")
    reported = len(cluster.events(e.ReplicaProgressed))
    cluster[1].manager.shutdown()
    (last,) = cluster.events(e.ReplicaProgressed)[reported:]
    assert last.replicas == [("orders", 0, 1, 1)]
    cluster.run(1_000)
    assert len(cluster.events(e.ReplicaProgressed)) == reported + 1

"""What a broker's replicas do once they were shut down: nothing."""

from __future__ import annotations

import pytest

from broker_sim.logs.log_manager import LogManager
from broker_sim.replication.isr import PendingExpand
from tests.broker_sim.replication.replication_cluster import Cluster
from tests.broker_sim.replication.test_isr import catch_up, still


def test_nothing_periodic_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_change_of_an_isr_that_was_about_to_be_proposed_is_not() -> None:
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

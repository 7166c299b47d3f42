"""ReplicaProgressed: how often a broker reports its log end offsets and high watermarks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from tests.broker_sim.replication.replication_cluster import LATENCY_MS, Cluster
from zabka.broker_sim.replication.progress import BURST, PROGRESS_PERIOD_MS, HostedLog, ProgressReports
from zabka.journal import events as e


def reported(cluster: Cluster) -> list[Any]:
    return [event.replicas for event in cluster.events(e.ReplicaProgressed, 1)]


def test_steady_writes_are_reported_four_times_a_second() -> None:
    cluster = Cluster(1)
    cluster.create([1])
    for _ in range(1_000):
        cluster.produce(1, "x")
        cluster.run(10)
    in_ten_seconds = cluster.now_ms // PROGRESS_PERIOD_MS
    assert in_ten_seconds <= len(reported(cluster)) <= in_ten_seconds + BURST


def test_first_record_of_recreated_topic_is_reported_immediately() -> None:
    """The high watermark of the deleted topic (20) is ignored."""
    cluster = Cluster(1)
    cluster.create([1])
    for _ in range(20):
        cluster.produce(1, "x")
    cluster.run(5_000)
    cluster.delete(1)
    cluster.create([1])
    cluster.produce(1, "a")
    cluster.run(LATENCY_MS)
    assert reported(cluster)[-1] == [("orders", 0, 1, 1)]


def test_concurrent_progress_of_many_logs_sets_one_timer() -> None:
    delays: list[int] = []

    def call_later(delay_ms: int, _: Callable[[], object]) -> Any:
        delays.append(delay_ms)
        return SimpleNamespace(cancel=lambda: None)

    runtime = cast(Any, SimpleNamespace(now=lambda: SimpleNamespace(mono_ms=0), call_later=call_later))
    reports = ProgressReports(1, runtime, lambda _: "", lambda _: True)
    for number in range(1_000):
        log = SimpleNamespace(high_watermark=1, end_offset=1, reported=0)
        reports.note(cast(HostedLog, SimpleNamespace(topic_partition=e.TopicPartition("t", number), log=log)))
    assert delays == [0]

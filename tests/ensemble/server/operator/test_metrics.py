"""A peer's metrics of its elections and roles, and the text format of metrics."""

from __future__ import annotations

from zabka.ensemble.server.config.limits import LimitCounts
from zabka.ensemble.server.operator.exposition import monitor_rows, prometheus_text
from zabka.ensemble.server.operator.metrics import PeerHistory, Readings, RoleCounts
from zabka.ensemble.summary import Summary
from zabka.journal.events import PeerStateChanged, SessionExpired, SnapshotTaken


def state(name: str, phase: str) -> PeerStateChanged:
    return PeerStateChanged(name, phase, 1, 1, 1, 1, 0)


def test_election_ends_at_leading_but_outage_ends_at_broadcast() -> None:
    history = PeerHistory()
    for at_ms, event in (
        (1000, state("LOOKING", "ELECTION")),
        (1200, state("LOOKING", "ELECTION")),
        (1250, state("LEADING", "DISCOVERY")),
        (1300, state("LEADING", "SYNCHRONIZATION")),
        (1400, state("LEADING", "BROADCAST")),
    ):
        history.on_event(event, at_ms)
    assert (history.looking_count, history.election_time_ms.total, history.election_time_ms.count) == (1, 250, 1)
    assert (history.unavailable_time_ms.total, history.leader_unavailable_time_ms.total) == (400, 400)
    assert history.leading_since_ms == 1400
    history.on_event(state("LOOKING", "ELECTION"), 5000)
    history.on_event(state("FOLLOWING", "DISCOVERY"), 5010)
    history.on_event(state("FOLLOWING", "BROADCAST"), 5100)
    assert (history.looking_count, history.leading_since_ms) == (2, None)
    assert (history.unavailable_time_ms.maximum, history.unavailable_time_ms.minimum) == (400, 100)
    assert history.leader_unavailable_time_ms.count == 1


def test_learner_measures_its_sync_time() -> None:
    history = PeerHistory()
    for at_ms, event in (
        (1000, state("FOLLOWING", "DISCOVERY")),
        (1100, state("FOLLOWING", "SYNCHRONIZATION")),
        (1130, state("FOLLOWING", "BROADCAST")),
        (2000, state("OBSERVING", "SYNCHRONIZATION")),
        (2007, state("OBSERVING", "BROADCAST")),
        (3000, state("FOLLOWING", "SYNCHRONIZATION")),
        (3001, state("LOOKING", "ELECTION")),
    ):
        history.on_event(event, at_ms)
    assert (history.follower_sync_time_ms.total, history.follower_sync_time_ms.count) == (30, 1)
    assert (history.observer_sync_time_ms.total, history.observer_sync_time_ms.count) == (7, 1)


def test_snapshots_and_expired_sessions_are_counted() -> None:
    history = PeerHistory()
    history.on_event(SnapshotTaken(7, 1000, 30), 1)
    history.on_event(SessionExpired(1, 4000), 2)
    assert (history.snapshot_time_ms.total, history.sessions_expired) == (30, 1)


def test_proposals_and_commits_are_counted_for_each_role() -> None:
    roles = RoleCounts()
    roles.settle(10, 8, leading=True)
    roles.settle(110, 100, leading=False)
    roles.settle(115, 110, leading=False)
    assert roles.proposals == {True: 100, False: 15}
    assert roles.commits == {True: 92, False: 18}


def test_metrics_reset_sets_every_count_to_zero() -> None:
    counts = LimitCounts(connection_rejected=3, throttled_ops=2)
    counts.reset()
    assert counts == LimitCounts()


def readings() -> Readings:
    latency = Summary()
    latency.add(2, times=3)
    return Readings(
        {"version": "v"}, {"znode_count": 5}, {"quota": {'a"b': 1}}, {"throttled_ops": 4},
        {"refused": {"ns": 3}}, {"fsynctime": Summary()}, {"readlatency": latency},
    )  # fmt: skip


def test_mntr_output_has_one_row_per_value() -> None:
    rows = dict(monitor_rows(readings()))
    assert (rows["version"], rows["znode_count"], rows["throttled_ops"], rows['a"b_quota']) == ("v", 5, 4, 1)
    assert rows["ns_refused"] == 3
    assert (rows["avg_readlatency"], rows["cnt_readlatency"], rows["p999_readlatency"]) == (2.0, 3, 2)
    assert rows["avg_fsynctime"] == 0.0 and "p50_fsynctime" not in rows


def test_prometheus_output_escapes_labels_and_omits_strings() -> None:
    lines = prometheus_text(readings(), process=False).splitlines()
    assert "znode_count 5.0" in lines and "# TYPE throttled_ops counter" in lines
    assert 'quota{key="a\\"b"} 1.0' in lines
    assert lines[lines.index("# TYPE refused counter") + 1] == 'refused{key="ns"} 3.0'
    assert 'readlatency{quantile="0.99"} 2.0' in lines and "readlatency_sum 6.0" in lines
    assert 'fsynctime{quantile="0.5"} NaN' in lines
    assert not any("version" in line for line in lines)

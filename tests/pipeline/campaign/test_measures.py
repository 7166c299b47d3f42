"""The measures of a run, compared with a brute-force computation at every instant, and with values computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from zabka.journal import events as e
from zabka.journal.checkers.kafka_analysis import Anomaly, KafkaHistory, Read, Sent
from zabka.journal.events import Entry, Event
from zabka.pipeline.campaign.clients import client_views, nearest_rank, stale_reads
from zabka.pipeline.campaign.failovers import CONTROLLER, ELECTED, PARTITION, RETURNED
from zabka.pipeline.campaign.measures import Asked, Measures, measure
from zabka.pipeline.campaign.partition_times import Window
from zabka.pipeline.campaign.play import asked
from zabka.simulation.run import SCENARIOS
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import world_settings

MS = 1_000
FAULTED = (
    ("faults.kinds=crash_broker:2,pause:1,cut_brokers:1", "acks=all"),
    ("faults.kinds=crash_broker:3", "unclean.leader.election.enable=true", "default.replication.factor=2"),
    ("faults.kinds=power_loss_broker:2,crash_broker:1", "acks=1", "min.insync.replicas=2"),
)


@pytest.fixture(scope="module", params=range(len(FAULTED)))
def run(request: pytest.FixtureRequest) -> SeedRun:
    settings = ["faults.ms=15000", "faults.gap.ms=2500", "faults.lasts.ms=1000-7000", "drawn.topics=false",
                "zookeeper.session.timeout.ms=2000", *FAULTED[request.param]]  # fmt: skip
    made = SeedRun(31 + request.param, SCENARIOS["chaos"], world_settings(settings))
    assert made.execute().problems == []
    return made


def measured(run: SeedRun) -> Measures:
    assert run.producing is not None
    entries = run.world.record.entries
    return measure(entries, asked(run.world.settings, run.harmed_us, entries), run.producing.history)


# -- brute force at every instant -------------------------------------------------------------------------------------


def works(entries: Sequence[Entry], node: str, last: Entry) -> bool:
    """Return whether the node works after the entry `last`.

    The last event about the node decides, so search backwards from `last`.
    """
    for entry in reversed(entries):
        event = entry.event
        if entry.node == node and isinstance(event, e.NodeStarted):
            return True
        if entry.node == node and isinstance(event, e.NodeStopped):
            return False
        if isinstance(event, e.FaultInjected) and event.target == node and event.kind in ("crash", "power_loss"):
            return False
        if isinstance(event, e.FaultInjected) and event.target == node and event.kind == "pause":
            return any(later.node == node for later in entries[entries.index(entry) + 1 :]) or last.node == node
    return False


def replicates(past: list[Entry], written: e.LeaderElected | e.IsrChanged) -> bool:
    """Return whether all ISR members work and none of their links to the leader is partitioned."""
    removed = {x.event.fault_id for x in past if isinstance(x.event, e.FaultRemoved)}
    cuts = [
        {x.event.source, x.event.target}
        for x in past
        if isinstance(x.event, e.FaultInjected) and x.event.kind == "cut" and x.event.fault_id not in removed
    ]
    return not any(
        not works(past, f"broker-{member}", past[-1]) or {f"broker-{written.leader}", f"broker-{member}"} in cuts
        for member in written.isr
    )


def by_brute_force(run: SeedRun) -> dict[str, tuple[int, int, int]]:
    """Return for each partition how long it was writable, under-replicated, and below its minimum ISR.

    Each instant is computed from its whole past, without keeping state between instants.
    """
    settings, (begin_us, end_us) = run.world.settings, run.harmed_us
    entries = run.world.record.entries
    needed = int(settings.broker_keys.get("min.insync.replicas", "1"))
    # Only these events, and the first entry after a pause of a node, can change the result. So read only these.
    kinds = (e.LeaderElected, e.IsrChanged, e.NodeStarted, e.NodeStopped, e.FaultInjected, e.FaultRemoved)
    paused = {x.event.target for x in entries if isinstance(x.event, e.FaultInjected) and x.event.kind == "pause"}
    relevant = [x for x in entries if isinstance(x.event, kinds) or x.node in paused]
    times: dict[str, tuple[int, int, int]] = {}
    moments = sorted({begin_us, end_us, *(x.mono_us for x in relevant if begin_us < x.mono_us < end_us)})
    for at_us, until_us in pairwise(moments):
        past = [x for x in relevant if x.mono_us <= at_us]
        written: dict[str, list[e.LeaderElected | e.IsrChanged]] = {}
        for entry in past:
            if isinstance(entry.event, e.LeaderElected | e.IsrChanged) and not entry.event.topic.startswith("__"):
                written.setdefault(f"{entry.event.topic}-{entry.event.partition}", []).append(entry.event)
        for name, events in written.items():
            newest = max(events, key=lambda event: event.zxid)
            replicas = next(x.replicas for x in reversed(events) if isinstance(x, e.LeaderElected))
            leads = newest.leader >= 0 and works(past, f"broker-{newest.leader}", past[-1])
            enough = settings.workload.acks == 1 or (len(newest.isr) >= needed and replicates(past, newest))
            now = (leads and enough, len(newest.isr) < len(replicas), len(newest.isr) < needed)
            before = times.get(name, (0, 0, 0))
            times[name] = tuple(sum_ + holds * (until_us - at_us) for sum_, holds in zip(before, now, strict=True))  # type: ignore[assignment]
    return times


def test_partition_times_equal_a_brute_force_computation(run: SeedRun) -> None:
    found = {
        times.partition: (times.writable_us, times.under_replicated_us, times.under_min_isr_us)
        for times in measured(run).partitions
    }
    assert found == by_brute_force(run)
    assert any(under for _, under, _ in found.values()), "no partition was under-replicated, so the test proves nothing"


def test_records_that_no_client_can_read_count_as_lost(run: SeedRun) -> None:
    assert run.producing is not None
    history = run.producing.history
    unread = [found for found in history.violations(acks=(-1, 1)) if found.anomaly is Anomaly.LOST_WRITE]
    assert sum(measured(run).lost_records.values()) == len(unread)


def test_failover_lasts_from_the_fault_until_the_next_leader(run: SeedRun) -> None:
    entries = run.world.record.entries
    for failover in measured(run).failovers:
        fault = next(
            entry
            for entry in entries
            if entry.mono_us == failover.began_us
            and (entry.node == failover.lost or getattr(entry.event, "target", "") == failover.lost)
        )
        if failover.kind != PARTITION or failover.total_ms is None:
            continue
        taken = [
            entry
            for entry in entries
            if isinstance(entry.event, e.LeadershipTaken)
            and f"{entry.event.topic}-{entry.event.partition}" == failover.subject
            and entry.mono_us >= fault.mono_us
        ]
        assert failover.total_ms == (taken[0].mono_us - fault.mono_us) / 1000


# -- values computed by hand ------------------------------------------------------------------------------------------


def history(*events: tuple[int, str, Event]) -> list[Entry]:
    return [Entry(node, place, 0, at_ms * MS, event) for place, (at_ms, node, event) in enumerate(events, start=1)]


def elected(leader: int, isr: list[int], zxid: int, epoch: int = 0) -> e.LeaderElected:
    return e.LeaderElected("t", 0, leader, epoch, isr, [1, 2], 0, 1, False, "offline", zxid)


KILLED = (
    (0, "broker-1", e.BrokerRegistered(1, 3, 91)),
    (0, "broker-2", e.BrokerRegistered(2, 4, 92)),
    (0, "broker-1", e.ControllerElected(1, 1, 1, 5)),
    (0, "broker-1", elected(1, [1, 2], 6)),
    (1_000, "world", e.FaultInjected("f1", "crash", "broker-1", "broker-1", False)),
    (3_000, "peer-1", e.SessionExpired(91, 2_000)),
    (3_001, "peer-1", e.SessionClosed(91, 7, ["/controller", "/brokers/ids/1"])),
    (3_005, "broker-2", e.ControllerElected(2, 2, 2, 8)),
    (3_010, "broker-2", elected(2, [2], 9, 1)),
    (3_012, "broker-2", e.LeadershipTaken(2, "t", 0, 1, 0, 0)),
    (3_020, "broker-2", e.ControllerReady(2, 2, 4, 11)),
)  # fmt: skip


def test_failover_is_measured_by_stage() -> None:
    found = measure(history(*KILLED), Asked(Window(0, 4_000 * MS)))
    by_kind = {failover.kind: failover for failover in found.failovers}
    controller, partition = by_kind[CONTROLLER], by_kind[PARTITION]
    assert (controller.detect_ms, controller.elect_ms, controller.total_ms) == (2_001, 2_005, 2_020)
    assert (partition.detect_ms, partition.elect_ms, partition.total_ms) == (2_001, 2_010, 2_012)
    assert partition.ended_by == ELECTED
    # The partition has no leader from 1,000 to 3,010 ms. After that, one replica is missing from the ISR.
    assert [(times.writable_us, times.under_replicated_us) for times in found.partitions] == [(1_990_000, 990_000)]


def test_topic_override_of_min_isr_counts_while_it_is_set() -> None:
    events = (
        (0, "broker-1", elected(1, [1], 6)),
        (1_000, "broker-1", e.ConfigChanged("topics/other", {"min.insync.replicas": "3"})),
        (2_000, "broker-1", e.ConfigChanged("topics/t", {"min.insync.replicas": "1"})),
        (5_000, "broker-1", e.ConfigChanged("topics/t", {"retention.ms": "1000"})),
    )
    found = measure(history(*events), Asked(Window(0, 6_000 * MS), min_insync_replicas=2))
    assert [(times.writable_us, times.under_min_isr_us) for times in found.partitions] == [(3_000_000, 3_000_000)]


def test_min_isr_set_for_all_brokers_counts_until_it_is_removed() -> None:
    events = (
        (0, "broker-1", elected(1, [1], 6)),
        (2_000, "broker-1", e.ConfigChanged("brokers/<default>", {"min.insync.replicas": "2"})),
        (3_000, "broker-1", e.ConfigChanged("brokers/1", {"min.insync.replicas": "1"})),
        (5_000, "broker-1", e.ConfigChanged("brokers/<default>", {})),
    )
    found = measure(history(*events), Asked(Window(0, 6_000 * MS), min_insync_replicas=1))
    assert [(times.writable_us, times.under_min_isr_us) for times in found.partitions] == [(3_000_000, 3_000_000)]


def test_min_isr_above_the_replica_count_requires_all_replicas() -> None:
    one = e.LeaderElected("one", 0, 1, 0, [1], [1], 0, 1, False, "new_topic", 5)
    events = ((0, "broker-1", one), (0, "broker-1", elected(1, [1, 2], 6)), (4_000, "broker-1", elected(1, [1], 7)))
    found = measure(history(*events), Asked(Window(0, 6_000 * MS), min_insync_replicas=3))
    assert {times.partition: (times.writable_us, times.under_min_isr_us) for times in found.partitions} == {
        "one-0": (6_000_000, 0),
        "t-0": (4_000_000, 2_000_000),
    }


def test_recreated_topic_does_not_end_a_failover() -> None:
    events = (
        (0, "broker-1", elected(1, [1], 6)),
        (1_000, "world", e.FaultInjected("f1", "crash", "broker-1", "broker-1", False)),
        (2_000, "broker-2", e.TopicDeleted("t")),
        (9_000, "broker-2", elected(2, [2], 9)),
        (9_002, "broker-2", e.LeadershipTaken(2, "t", 0, 0, 0, 0)),
    )
    (failover,) = measure(history(*events), Asked(Window(0, 10_000 * MS))).failovers
    assert (failover.subject, failover.elect_ms, failover.total_ms, failover.ended_by) == ("t-0", None, None, None)


def test_session_expiry_of_a_live_process_is_a_false_expiry() -> None:
    killed = measure(history(*KILLED), Asked(Window(0, 4_000 * MS)))
    paused = measure(
        history(*(
            (at, node, e.FaultInjected("f1", "pause", "broker-1", "broker-1", False))
            if isinstance(event, e.FaultInjected)
            else (at, node, event)
            for at, node, event in KILLED
        )),
        Asked(Window(0, 4_000 * MS)),
    )  # fmt: skip
    assert (killed.sessions_expired, killed.false_expiries) == (1, 0)
    assert (paused.sessions_expired, paused.false_expiries) == (1, 1)


def test_leader_resumed_before_an_election_is_not_a_failover() -> None:
    found = measure(
        history(
            (0, "broker-1", elected(1, [1, 2], 6)),
            (1_000, "world", e.FaultInjected("f1", "pause", "broker-1", "broker-1", False)),
            (1_500, "broker-1", e.ReplicaProgressed(1, [])),
        ),
        Asked(Window(0, 2_000 * MS)),
    )
    assert [(f.total_ms, f.ended_by) for f in found.failovers] == [(None, RETURNED)]
    assert [times.writable_us for times in found.partitions] == [1_500_000]


def test_resumed_former_controller_does_not_end_a_failover() -> None:
    paused: tuple[tuple[int, str, Event], ...] = (
        (0, "broker-1", e.BrokerRegistered(1, 3, 91)),
        (0, "broker-1", e.ControllerElected(1, 1, 1, 5)),
        (0, "broker-1", elected(1, [1], 6)),
        (1_000, "world", e.FaultInjected("f1", "pause", "broker-1", "broker-1", False)),
        (3_001, "peer-1", e.SessionClosed(91, 7, ["/controller", "/brokers/ids/1"])),
        (3_010, "broker-2", elected(-1, [1], 8, 1)),
        (3_500, "broker-1", e.ReplicaProgressed(1, [])),
    )
    again: tuple[tuple[int, str, Event], ...] = (
        (4_000, "broker-2", e.ControllerElected(2, 2, 2, 9)),
        (4_010, "broker-2", e.ControllerReady(2, 2, 4, 11)),
        (4_020, "broker-2", elected(1, [1], 12, 2)),
        (4_030, "broker-1", e.LeadershipTaken(1, "t", 0, 2, 0, 0)),
    )
    open_still = measure(history(*paused), Asked(Window(0, 5_000 * MS)))
    assert [(f.kind, f.total_ms, f.ended_by) for f in open_still.failovers] == [
        (CONTROLLER, None, None), (PARTITION, None, None),
    ]  # fmt: skip
    ended = measure(history(*paused, *again), Asked(Window(0, 5_000 * MS)))
    assert [(f.kind, f.total_ms, f.ended_by) for f in ended.failovers] == [
        (CONTROLLER, 3_010, ELECTED), (PARTITION, 3_030, RETURNED),
    ]  # fmt: skip


def test_client_measures_are_none_without_clients() -> None:
    found = measure(history(*KILLED), Asked(Window(0, 4_000 * MS)))
    assert (found.clients, found.stale_reads, found.polls) == (None, None, None)


def test_read_below_an_acknowledged_offset_is_stale() -> None:
    kafka = KafkaHistory()
    kafka.sent = [
        Sent("p", "t-0", "a", 0, 100, 0),
        Sent("p", "t-0", "b", 100, 200, 1),
        Sent("p", "t-0", "c", 0, 9, None),
    ]
    kafka.reads = [
        Read("t-0", 50, 0),  # no record has been acknowledged yet
        Read("t-0", 150, 1),  # shows offset 0
        Read("t-0", 150, 0),  # does not show offset 0
        Read("t-0", 250, 1),  # does not show offset 1
        Read("t-1", 250, 0),  # no record was ever written there
    ]
    assert stale_reads(kafka) == (2, 5)


def test_time_in_which_a_producer_waits_counts_as_unavailable() -> None:
    kafka = KafkaHistory()
    kafka.sent = [
        Sent("p", "t-0", "a", 0, 10 * MS, 0),
        Sent("p", "t-0", "b", 1_000 * MS, 5_000 * MS, None),
        Sent("p", "t-0", "c", 6_000 * MS, 8_000 * MS, 1),
        Sent("p", "t-0", "late", 99_000 * MS, 99_001 * MS, 2),
    ]
    (view,) = client_views(kafka, Window(0, 10_000 * MS))
    assert (view.sent, view.acknowledged, view.refused) == (3, 2, 1)
    assert (view.waited_ms, view.silence_ms) == (6_000, 7_990)
    assert (view.latency_p50_ms, view.latency_p99_ms) == (10, 2_000)


def test_nearest_rank_quantile_is_the_smallest_sufficient_value() -> None:
    assert [nearest_rank([1.0, 2.0, 3.0, 4.0], share) for share in (0.25, 0.5, 0.51, 0.99, 1.0)] == [1, 2, 3, 4, 4]
    assert nearest_rank([], 0.5) is None

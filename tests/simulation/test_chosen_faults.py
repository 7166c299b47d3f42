"""Settings determine the faults of a simulated cluster and the writes of its clients, in place of random choices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from zabka.journal import events as e
from zabka.journal.events import Entry
from zabka.simulation.seeds.chaos import CHAOS, check_played
from zabka.simulation.seeds.seed_run import TOPIC, SeedRun
from zabka.simulation.settings import BadSetting, world_settings

SHORT = ("faults.ms=12000", "faults.gap.ms=2000", "drawn.topics=false")


def played(seed: int, *settings: str) -> list[Entry]:
    run = SeedRun(seed, CHAOS, world_settings([*SHORT, *settings]))
    assert run.execute().problems == []
    return run.world.record.entries


def faults(entries: list[Entry]) -> list[tuple[int, e.FaultInjected]]:
    return [(entry.mono_us // 1000, entry.event) for entry in entries if isinstance(entry.event, e.FaultInjected)]


def lengths_ms(entries: list[Entry]) -> Iterator[int]:
    began = {fault.fault_id: at_ms for at_ms, fault in faults(entries)}
    for entry in entries:
        if isinstance(entry.event, e.FaultRemoved):
            yield entry.mono_us // 1000 - began[entry.event.fault_id]


def test_seed_injects_the_same_faults_with_different_settings() -> None:
    chosen = ("faults.kinds=crash_broker,cut_brokers", "faults.lasts.ms=500-1500")
    usual = faults(played(4, *chosen))
    patient = faults(played(4, *chosen, "zookeeper.session.timeout.ms=12000", "default.replication.factor=2"))
    assert len(usual) >= 3
    assert [(fault.kind, fault.source, fault.target) for _, fault in usual] == [
        (fault.kind, fault.source, fault.target) for _, fault in patient
    ]
    first_usual, first_patient = usual[0][0], patient[0][0]
    for (one, _), (other, _) in zip(usual, patient, strict=True):
        # Compare times relative to the first fault: faults begin when the cluster has started, and the time that the
        # start takes differs slightly. The times between the faults must not depend on the number of client calls.
        assert abs((one - first_usual) - (other - first_patient)) <= 1


def test_faults_have_the_configured_types_and_durations() -> None:
    entries = played(5, "faults.kinds=slow_disk:1,cut_brokers:3", "faults.lasts.ms=700-900")
    kinds = {fault.kind for _, fault in faults(entries)}
    assert kinds <= {"slow_disk", "cut"} and "cut" in kinds
    # Faults that are active at the end are healed early, so not every fault has the minimum duration.
    assert all(length_ms <= 900 for length_ms in lengths_ms(entries))
    assert any(700 <= length_ms <= 900 for length_ms in lengths_ms(entries))


def test_fault_count_follows_from_fault_period_and_mean_gap() -> None:
    entries = played(6, "faults.kinds=slow_disk", "faults.ms=40000", "faults.gap.ms=1000")
    times_ms = [at_ms for at_ms, _ in faults(entries)]
    assert times_ms[-1] - times_ms[0] <= 40_000
    # Gaps are uniform in 1..1999 ms, with a mean of 1 s, so forty faults are expected in 40 s. The standard deviation
    # of the sum of forty gaps is 3.7 s.
    assert 26 <= len(times_ms) <= 54


def test_topic_has_the_configured_partitions_replicas_and_acks() -> None:
    entries = played(
        7, "num.partitions=4", "default.replication.factor=2", "acks=1", "faults.kinds=slow_disk", "faults.ms=1000"
    )
    made = [entry.event for entry in entries if isinstance(entry.event, e.TopicCreated) and entry.event.topic == TOPIC]
    assert [sorted(map(len, topic.assignment.values())) for topic in made] == [[2, 2, 2, 2]]
    acks = {
        entry.event.acks
        for entry in entries
        if isinstance(entry.event, e.RecordsAcknowledged) and entry.event.topic == TOPIC
    }
    assert acks == {1}
    topics = {entry.event.topic for entry in entries if isinstance(entry.event, e.TopicCreated)}
    assert not any(topic.startswith("drawn") for topic in topics)


def test_rack_power_loss_stops_one_rack_and_replicas_span_racks() -> None:
    entries = played(
        2, "brokers=4", "racks=2", "default.replication.factor=2", "faults.kinds=power_loss_rack",
        "faults.lasts.ms=2000-3000", "num.partitions=4",
    )  # fmt: skip
    together: dict[int, set[str]] = {}
    for at_ms, fault in faults(entries):
        together.setdefault(at_ms, set()).add(fault.target)
    assert together and all(
        names in ({"broker-1", "broker-3"}, {"broker-2", "broker-4"}) for names in together.values()
    )
    made = next(
        entry.event for entry in entries if isinstance(entry.event, e.TopicCreated) and entry.event.topic == TOPIC
    )
    assert all({replica % 2 for replica in replicas} == {0, 1} for replicas in made.assignment.values())


@pytest.mark.parametrize(
    ("scenario", "settings", "reason"),
    [
        ("chaos", ["faults.kinds=sunspots"], "there is no 'sunspots' here"),
        ("chaos", ["faults.kinds=power_loss_rack"], "it needs racks="),
        ("chaos", ["faults.kinds="], "names of faults are wanted"),
        ("chaos", ["faults.kinds=pause:often"], "a positive whole number is wanted"),
        ("chaos", ["faults.lasts.ms=9-3"], "the longest is shorter"),
        ("chaos", ["faults.ms=-1"], "a positive whole number is wanted"),
        ("chaos", ["peers=256"], "a world has at most 255 of them"),
        ("chaos", ["brokers=100000"], "a world has at most 255 of them"),
        ("chaos", ["acks=0"], "nothing is acknowledged then"),
        ("chaos", ["acks=2"], "all or 1 is wanted"),
        ("chaos", ["drawn.topics=maybe"], "true or false is wanted"),
        ("chaos", ["default.replication.factor=4"], "there are only 3 brokers"),
        ("chaos", ["min.insync.replicas=3", "default.replication.factor=2"], "no write with acks=all could succeed"),
        ("calm", ["faults.kinds=pause"], "calm decides by itself"),
        ("ensemble", ["acks=1"], "ensemble decides by itself"),
        ("ensemble", ["faults.kinds=crash_broker,reassign"], "there is no 'reassign' here"),
        ("swarm", ["faults.ms=1000"], "swarm decides by itself"),
    ],
)
def test_bad_setting_is_rejected_with_its_reason(scenario: str, settings: list[str], reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        check_played(scenario, world_settings(settings), (setting.partition("=")[0] for setting in settings))

"""`read_groups` in the simulated world: groups of running consumers, silent coordinators and moved groups."""

from __future__ import annotations

from zabka.journal.events import TopicPartition
from zabka.kafka.client.group_reading import READING_MS, GroupReading, read_groups
from zabka.testing.worlds.cluster import SimulatedCluster

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def read(cluster: SimulatedCluster, *known: str) -> GroupReading:
    return cluster.call(lambda client, runtime: read_groups(client, runtime, known))


def read_fifty_records(cluster: SimulatedCluster) -> None:
    """Create a group with two members that has read all 50 records of a topic."""
    cluster.topics.create("orders", partitions=2)
    for number in (0, 1):
        cluster.produce("orders", [str(value) for value in range(25)], partition=number)
    for _ in range(2):
        cluster.consumer("orders", "readers")
    cluster.until_stable("readers", 2)
    cluster.until_caught_up("readers")


def test_group_has_members_offsets_and_end_offsets(zabka_world: SimulatedCluster) -> None:
    read_fifty_records(zabka_world)
    reading = read(zabka_world)
    assert (set(reading.groups), reading.unknown, reading.silent, reading.problem) == ({"readers"}, {}, {}, "")
    found = reading.groups["readers"]
    assert (found.info.state, found.info.protocol_type) == ("Stable", "consumer")
    assert found.info.coordinator.broker_id == zabka_world.coordinator("readers").id
    assert sorted(each for member in found.info.members for each in member.partitions) == [FIRST, SECOND]
    assert (found.committed, found.ends) == ({FIRST: 25, SECOND: 25}, {FIRST: 25, SECOND: 25})


def test_group_of_a_frozen_coordinator_is_unknown_within_limit(zabka_world: SimulatedCluster) -> None:
    read_fifty_records(zabka_world)
    coordinator = zabka_world.coordinator("readers")
    coordinator.pause()
    before_us = zabka_world.now_us
    reading = read(zabka_world, "readers")
    assert zabka_world.now_us - before_us <= READING_MS * 1000
    assert "readers" not in reading.groups
    assert reading.unknown["readers"].coordinator == coordinator.id
    assert set(reading.silent) == {coordinator.id}
    assert reading.unknown["readers"].reason == reading.silent[coordinator.id]


def test_group_is_read_from_its_next_coordinator(zabka_world: SimulatedCluster) -> None:
    read_fifty_records(zabka_world)
    before = zabka_world.coordinator("readers")
    before.kill()

    def moved() -> bool:
        found = read(zabka_world, "readers").groups.get("readers")
        return found is not None and found.info.coordinator.broker_id != before.id

    zabka_world.until(moved, 60, "another coordinator")
    assert read(zabka_world).groups["readers"].committed == {FIRST: 25, SECOND: 25}


def test_frozen_leader_makes_only_its_end_offset_unknown(zabka_world: SimulatedCluster) -> None:
    read_fifty_records(zabka_world)
    coordinator = zabka_world.coordinator("readers").id
    other = next(number for number in zabka_world.brokers if number != coordinator)
    zabka_world.move_leader("orders", 0, to=other)
    zabka_world.move_leader("orders", 1, to=coordinator)
    zabka_world.brokers[other].pause()
    found = read(zabka_world).groups["readers"]
    assert found.ends[SECOND] == 25
    assert isinstance(found.ends[FIRST], str)


def test_missing_group_is_neither_described_nor_unknown(zabka_world: SimulatedCluster) -> None:
    read_fifty_records(zabka_world)
    reading = read(zabka_world, "payments")
    assert (set(reading.groups), reading.unknown) == ({"readers"}, {})


def test_known_groups_are_unknown_if_no_broker_answers(zabka_world: SimulatedCluster) -> None:
    for broker in zabka_world.brokers.values():
        broker.kill()
    reading = read(zabka_world, "readers")
    assert reading.groups == {}
    assert reading.problem == reading.unknown["readers"].reason != ""

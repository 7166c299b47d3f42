"""`read_topics` in the simulated world: sizes, offsets, silent brokers and an ongoing reassignment."""

from __future__ import annotations

from zabka.journal.events import TopicPartition
from zabka.kafka.client.reassignment_client import Ongoing, alter_reassignments
from zabka.kafka.client.topic_reading import READING_MS, TopicReading, read_topics
from zabka.testing.worlds.cluster import SimulatedCluster

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def read(cluster: SimulatedCluster) -> TopicReading:
    return cluster.call(read_topics)


def test_reading_has_offsets_and_the_size_of_each_replica(zabka_world: SimulatedCluster) -> None:
    zabka_world.topics.create("orders", partitions=2)
    empty = read(zabka_world).partitions[FIRST]
    assert (empty.first_offset, empty.end_offset, empty.sizes_bytes) == (0, 0, {1: 0, 2: 0, 3: 0})
    zabka_world.produce("orders", ["x" * 100] * 7)
    reading = read(zabka_world)
    assert (reading.silent, reading.problem, reading.ongoing) == ({}, "", {})
    found = reading.partitions[FIRST]
    assert (found.first_offset, found.end_offset) == (0, 7)
    assert found.leader in (1, 2, 3)
    assert 700 < found.sizes_bytes[found.leader] < 1_400
    assert reading.partitions[SECOND].end_offset == 0


def test_silent_leader_leaves_its_offsets_unknown_in_time(zabka_world: SimulatedCluster) -> None:
    zabka_world.topics.create("orders", partitions=1)
    leader = read(zabka_world).partitions[FIRST].leader
    zabka_world.brokers[leader].pause()
    before_us = zabka_world.now_us
    reading = read(zabka_world)
    assert zabka_world.now_us - before_us <= READING_MS * 1000
    assert set(reading.silent) == {leader}
    found = reading.partitions[FIRST]
    assert (found.first_offset, found.end_offset) == (None, None)
    assert set(found.sizes_bytes) == {1, 2, 3} - {leader}


def test_ongoing_reassignment_has_added_and_removed_replicas(zabka_world: SimulatedCluster) -> None:
    zabka_world.topics.create("orders", assignment={0: [1, 2]})
    # The new replica cannot catch up, so the reassignment goes on.
    zabka_world.brokers[3].pause()
    zabka_world.call(lambda client, _: alter_reassignments(client, {FIRST: [1, 3]}))
    assert read(zabka_world).ongoing == {FIRST: Ongoing((1, 3, 2), (3,), (2,))}


def test_reading_without_brokers_returns_the_reason(zabka_world: SimulatedCluster) -> None:
    for broker in zabka_world.brokers.values():
        broker.kill()
    reading = read(zabka_world)
    assert (reading.partitions, reading.ongoing) == ({}, None)
    assert reading.problem

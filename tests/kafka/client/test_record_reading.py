"""`read_records` in the simulated world: ranges of offsets, bounds, and records of transactions."""

from __future__ import annotations

import pytest

from zabka.journal.events import TopicPartition
from zabka.kafka.client.record_reading import OffsetOutOfRange, RecordsSeen, read_records
from zabka.testing.worlds.cluster import SimulatedCluster

FIRST = TopicPartition("orders", 0)


def read(cluster: SimulatedCluster, offset: int | None, limit: int = 100) -> RecordsSeen:
    return cluster.call(lambda client, _: read_records(client, FIRST, offset, limit))


def values(seen: RecordsSeen) -> list[bytes | None]:
    return [each.record.value for each in seen.records]


@pytest.fixture
def cluster(zabka_world: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with ten records in one partition."""
    zabka_world.topics.create("orders", partitions=1)
    for number in range(10):
        zabka_world.produce("orders", [f"value-{number}"])
    return zabka_world


def test_records_begin_at_the_offset_and_end_at_the_limit(cluster: SimulatedCluster) -> None:
    seen = read(cluster, 3, 2)
    assert values(seen) == [b"value-3", b"value-4"]
    assert (seen.next_offset, seen.first_offset, seen.high_watermark) == (5, 0, 10)
    assert [(each.transaction, each.marker, each.record.offset) for each in seen.records] == [
        (None, None, 3),
        (None, None, 4),
    ]


def test_records_without_an_offset_are_the_last_ones(cluster: SimulatedCluster) -> None:
    seen = read(cluster, None, 3)
    assert values(seen) == [b"value-7", b"value-8", b"value-9"]
    assert seen.next_offset == 10


def test_end_offset_returns_no_records(cluster: SimulatedCluster) -> None:
    seen = read(cluster, 10)
    assert (list(seen.records), seen.next_offset) == ([], 10)


@pytest.mark.parametrize("offset", [-1, 11])
def test_offset_out_of_range_is_rejected_with_the_range(cluster: SimulatedCluster, offset: int) -> None:
    caught: list[OffsetOutOfRange] = []

    async def attempt(client: object, _: object) -> None:
        with pytest.raises(OffsetOutOfRange) as failed:
            await read_records(client, FIRST, offset, 5)  # type: ignore[arg-type]
        caught.append(failed.value)

    cluster.call(attempt)
    assert (caught[0].first_offset, caught[0].end_offset) == (0, 10)


def test_transactions_are_marked_with_their_outcome(zabka_world: SimulatedCluster) -> None:
    zabka_world.topics.create("orders", partitions=1)
    producer = zabka_world.transactional_producer("orders", abort_every=2)
    zabka_world.until(lambda: producer.counts.aborted >= 2, 60, "two aborted transactions")
    seen = read(zabka_world, 0)
    decided = [each for each in seen.records if each.marker is not None]
    assert {each.marker for each in decided} == {"commit", "abort"}
    outcomes = {"commit": "committed", "abort": "aborted"}
    for marker in decided:
        before = [each for each in seen.records if each.marker is None and each.record.offset < marker.record.offset]
        assert before[-1].transaction == outcomes[marker.marker or ""]
        assert before[-1].producer_id == marker.producer_id is not None
    behind = [each for each in seen.records if each.record.offset >= seen.last_stable_offset]
    assert {each.transaction for each in behind} <= {"undecided"}

"""`read_records` in the simulated world: ranges of offsets, bounds, and records of transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.client.record_reading import FETCH_BYTES_MAX, OffsetOutOfRange, RecordsSeen, fetch_records
from zabka.kafka.compression import Codec
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.data_messages import PartitionData
from zabka.testing.worlds.cluster import SimulatedCluster

FIRST = TopicPartition("orders", 0)


def read(cluster: SimulatedCluster, offset: int | None, limit: int = 100) -> RecordsSeen:
    return cluster.call(lambda client, _: fetch_records(client, FIRST, offset, limit)).decode()


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
            await fetch_records(client, FIRST, offset, 5)  # type: ignore[arg-type]
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


class Leader:
    """Client whose leader returns the same batches to each fetch, with a last stable offset for each isolation."""

    def __init__(self, data: bytes, end: int, stable: Sequence[int]) -> None:
        self._data = data
        self._end = end
        self._stable = stable
        self.isolations: list[int] = []

    async def list_offset(self, _: TopicPartition, at: int, *, timeout_ms: int) -> int:
        return 0 if at == -2 else self._end

    async def at_leader(self, _: TopicPartition, ask: Callable[[int], KafkaMessage], *__: Any) -> PartitionData:
        isolation = ask(0).isolation_level
        self.isolations.append(isolation)
        return PartitionData(0, ErrorCode.none, self._end, self._stable[isolation], 0, self._data)


def decoded(leader: Leader, offset: int) -> RecordsSeen:
    return asyncio.run(fetch_records(leader, FIRST, offset, 100)).decode()  # type: ignore[arg-type]


def test_open_transaction_before_the_offset_holds_back_lso() -> None:
    leader = Leader(build_batch([Record(None, b"plain")], base_offset=7), 8, (3, 3))
    seen = decoded(leader, 7)
    assert (values(seen), seen.last_stable_offset, seen.high_watermark) == ([b"plain"], 3, 8)
    assert leader.isolations == [0]


def test_unknown_last_stable_offset_is_read_with_read_committed() -> None:
    leader = Leader(build_batch([Record(None, b"plain")], base_offset=7), 8, (-1, 3))
    assert decoded(leader, 7).last_stable_offset == 3
    assert leader.isolations == [0, 1]


@pytest.mark.parametrize(("size", "offset", "last"), [(200 << 10, 0, 5), (200 << 10, 9, 14), (3 << 20, 4, 4)])
def test_records_of_a_compressed_batch_end_at_one_mebibyte(size: int, offset: int, last: int) -> None:
    """1 MiB of data is reached with the sixth record of 200 KiB, or with a larger single record."""
    data = build_batch([Record(None, bytes(size)) for _ in range(20)], codec=Codec.GZIP)
    assert len(data) < FETCH_BYTES_MAX
    seen = decoded(Leader(data, 20, (20, 20)), offset)
    assert [each.record.offset for each in seen.records] == list(range(offset, last + 1))
    assert seen.next_offset == last + 1


def test_many_record_headers_count_as_data() -> None:
    headers = (("", None),) * 10_000
    data = build_batch([Record(None, None, headers=headers) for _ in range(4)], codec=Codec.GZIP)
    assert decoded(Leader(data, 4, (4, 4)), 0).next_offset == 2

"""Which requests a transactional producer sends, and what it does if it gets no response."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.client.transactional_producer import GroupMetadata, TransactionalProducer
from zabka.kafka.ports import ChannelBroken
from zabka.kafka.record_batch import Record

T0 = TopicPartition("t", 0)
BROKEN = "BROKEN"


class Brokers:
    """Fake coordinator that replies with success, unless the test has set a response for that type of request."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Any]] = {}
        self.asked: list[str] = []
        self.searches = 0
        self.epoch = -1
        self.produced: list[tuple[int, int, int]] = []

    async def any_broker(self, message: Any, timeout_ms: int) -> Any:
        self.searches += 1
        (key,) = message.coordinator_keys
        row = SimpleNamespace(key=key, error_code=ErrorCode.none, node_id=1, host="h", port=1)
        return SimpleNamespace(coordinators=[row])

    async def call(self, endpoint: Any, message: Any, timeout_ms: int) -> Any:
        kind = type(message).__name__.removesuffix("Request")
        self.asked.append(kind)
        scripted = self.replies.get(kind, [])
        error = scripted.pop(0) if scripted else ErrorCode.none
        if error == BROKEN:
            raise ChannelBroken("no reply")
        self.epoch += kind == "InitProducerId"
        partition = SimpleNamespace(partition_error_code=error, error_code=error)
        rows = [SimpleNamespace(results_by_partition=[partition], partitions=[partition])]
        return SimpleNamespace(
            error_code=error, producer_id=7, producer_epoch=self.epoch, results_by_topic_v3_and_below=rows, topics=rows
        )

    async def produce(self, partition: Any, records: Any, *, producer: Any, transactional_id: str) -> int:
        self.produced.append(producer)
        return 0


async def _no_sleep(duration_ms: int) -> None:
    return


def a_producer(brokers: Brokers) -> TransactionalProducer:
    client: Any = brokers
    runtime: Any = SimpleNamespace(now=lambda: SimpleNamespace(mono_ms=0), sleep=_no_sleep)
    return TransactionalProducer(client, runtime, "id")


async def one(producer: TransactionalProducer, commit: bool = True) -> None:
    await producer.send(T0, [Record(None, b"v", 0)])
    await producer.end(commit=commit)


def test_producer_sends_offsets_with_the_generation_of_its_group() -> None:
    brokers = Brokers()

    async def work() -> None:
        producer = a_producer(brokers)
        await producer.begin()
        await producer.send_offsets(GroupMetadata("g", 3, "m"), {T0: 5})
        await producer.end(commit=True)

    asyncio.run(work())
    assert brokers.asked == ["InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
    assert brokers.searches == 2


def test_sequence_numbers_restart_only_with_a_new_producer_epoch() -> None:
    brokers = Brokers()

    async def work() -> None:
        producer = a_producer(brokers)
        await producer.begin()
        await one(producer)
        await one(producer)
        await producer.begin()
        await one(producer)

    asyncio.run(work())
    assert brokers.produced == [(7, 0, 0), (7, 0, 1), (7, 1, 0)]


@pytest.mark.parametrize("kind", ["AddPartitionsToTxn", "EndTxn"])
def test_transaction_after_a_lost_response_has_a_new_epoch(kind: str) -> None:
    """After a response was lost, the producer starts the next transaction with a new epoch.

    The request may still arrive, and must not affect the next transaction.
    """
    brokers = Brokers()
    brokers.replies[kind] = [BROKEN]

    async def work() -> None:
        producer = a_producer(brokers)
        await producer.begin()
        await one(producer)
        await one(producer)
        await one(producer)

    asyncio.run(work())
    assert brokers.asked.count(kind) == 4
    assert [epoch for _, epoch, _ in brokers.produced] == [0, 1, 1]


def test_producer_finds_its_coordinator_after_a_move() -> None:
    brokers = Brokers()
    brokers.replies["EndTxn"] = [ErrorCode.not_coordinator, ErrorCode.concurrent_transactions]

    async def work() -> None:
        producer = a_producer(brokers)
        await producer.begin()
        await one(producer)

    asyncio.run(work())
    assert brokers.asked.count("EndTxn") == 3
    assert brokers.searches == 2


def test_fenced_producer_raises_kafka_request_failed() -> None:
    brokers = Brokers()
    brokers.replies["AddPartitionsToTxn"] = [ErrorCode.producer_fenced]

    async def work() -> None:
        producer = a_producer(brokers)
        await producer.begin()
        await one(producer)

    with pytest.raises(KafkaRequestFailed):
        asyncio.run(work())

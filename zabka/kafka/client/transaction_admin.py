"""Requests of kafka-transactions: transactional ids, producers of partitions, and open transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, REQUEST_TIMEOUT_MS, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.coordinators import KeyType, find_coordinator
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, request

NONE = -1
"""Value of a missing offset, time or epoch."""


class Listed(NamedTuple):
    """A transactional id in its coordinator's ListTransactions response."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Described(NamedTuple):
    """A transactional id and its open transaction. `started_ms` is NONE if no transaction is open."""

    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class ProducerInfo(NamedTuple):
    """A producer of one partition. `transaction_start` is NONE if it has no open transaction in the partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start: int


class TransactionAdmin:
    """Sends requests about transactions.  Methods raise KafkaRequestFailed and KafkaUnavailable."""

    def __init__(self, client: KafkaClient, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime

    async def _call(self, broker: Endpoint, message: KafkaMessage) -> KafkaMessage:
        try:
            return await self._client.call(broker, message, ATTEMPT_MS_MAX)
        except ChannelBroken as broken:
            raise KafkaUnavailable(str(broken)) from None

    async def listed(self, duration_ms: int = NONE) -> list[Listed]:
        """Return the transactional ids of all live brokers.

        With `duration_ms`, return only those with a transaction that has been open for longer.
        """
        asked = request(ApiKey.LIST_TRANSACTIONS, 1, duration_filter=duration_ms)
        found = []
        for broker in (await self._client.metadata([])).brokers.values():
            answer = await self._call(broker, asked)
            _check(answer.error_code)
            for row in answer.transaction_states:
                state = str(row.transaction_state)
                found.append(Listed(str(row.transactional_id), broker.broker_id, int(row.producer_id), state))
        return found

    async def described(self, transactional_id: str) -> Described:
        """Return the state of one transactional id."""
        coordinator = await find_coordinator(self._client, self._runtime, KeyType.TRANSACTION, transactional_id)
        asked = request(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id])
        (row,) = (await self._call(coordinator, asked)).transaction_states
        _check(row.error_code)
        return Described(
            coordinator=coordinator.broker_id,
            producer_id=int(row.producer_id),
            producer_epoch=int(row.producer_epoch),
            state=str(row.transaction_state),
            timeout_ms=milliseconds(row.transaction_timeout),
            started_ms=_wall_ms(row.transaction_start_time),
            partitions=tuple(TopicPartition(str(t.topic), int(number)) for t in row.topics for number in t.partitions),
        )

    async def producers(self, partition: TopicPartition, broker: Endpoint | None = None) -> list[ProducerInfo]:
        """Return the active producers of a partition, from its leader or from the replica on `broker`."""
        topic = {"name": partition.topic, "partition_indexes": [partition.partition]}
        asked = request(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[topic])

        def read(answer: KafkaMessage) -> tuple[ErrorCode, list[ProducerInfo]]:
            row = answer.topics[0].partitions[0]
            found = [
                ProducerInfo(
                    producer_id=int(each.producer_id),
                    producer_epoch=int(each.producer_epoch),
                    coordinator_epoch=int(each.coordinator_epoch),
                    last_sequence=int(each.last_sequence),
                    last_timestamp_ms=int(each.last_timestamp),
                    transaction_start=int(each.current_txn_start_offset),
                )
                for each in row.active_producers
            ]
            return ErrorCode(row.error_code), found

        if broker is None:
            return await self._client.at_leader(partition, lambda _: asked, read, REQUEST_TIMEOUT_MS)
        error, producers = read(await self._call(broker, asked))
        _check(error)
        return producers

    async def abort(self, partition: TopicPartition, producer: ProducerInfo) -> None:
        """Abort a producer's open transaction in one partition. The partition's leader writes the marker itself."""
        marker = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "transaction_result": False,
            "coordinator_epoch": max(0, producer.coordinator_epoch),
            "topics": [{"name": partition.topic, "partition_indexes": [partition.partition]}],
        }
        asked = request(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])

        def read(answer: KafkaMessage) -> tuple[ErrorCode, None]:
            return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code), None

        await self._client.at_leader(partition, lambda _: asked, read, REQUEST_TIMEOUT_MS)

    async def open_transactions(
        self, partitions: Sequence[TopicPartition], broker: Endpoint | None
    ) -> list[tuple[TopicPartition, ProducerInfo]]:
        """Return the producers that have an open transaction in one of these partitions, each with the partition."""
        return [
            (partition, producer)
            for partition in partitions
            for producer in await self.producers(partition, broker)
            if producer.transaction_start != NONE
        ]


def _check(error: int) -> None:
    if error != ErrorCode.none:
        raise KafkaRequestFailed(ErrorCode(error))


def _wall_ms(time: Any) -> int:
    """Return a time from a response in milliseconds."""
    seconds: float = time.timestamp()
    return round(seconds * 1000)

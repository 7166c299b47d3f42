"""A producer whose records become visible to readers of committed records together, or not at all (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.coordinators import LATER, KeyType, find_coordinator
from zabka.kafka.ports import ChannelBroken, KafkaMessage
from zabka.kafka.record_batch import Record
from zabka.kafka.wire.kafka_schema import ApiKey, request

TRANSACTION_TIMEOUT_MS = 60_000
_RETRIED = (*LATER, ErrorCode.concurrent_transactions)


class TransactionalProducer:
    """One transaction after the other under one transactional id.

    `begin` fences earlier producers with this id.  Methods raise KafkaRequestFailed and KafkaUnavailable; after an
    error only `end(commit=False)` is possible.
    """

    def __init__(self, client: KafkaClient, runtime: Runtime, transactional_id: str) -> None:
        self._client = client
        self._runtime = runtime
        self._id = transactional_id
        self._producer = -1, -1
        self._sequences: dict[TopicPartition, int] = {}
        self._added: dict[TopicPartition, None] = {}

    async def begin(self) -> None:
        """Get the producer id and epoch; the coordinator aborts an open transaction of an earlier producer."""
        asked = request(
            ApiKey.INIT_PRODUCER_ID, 4,
            transactional_id=self._id, transaction_timeout=TRANSACTION_TIMEOUT_MS, producer_id=-1,
        )  # fmt: skip
        answer = await self._ask(asked, lambda answer: ErrorCode(answer.error_code))
        self._producer = int(answer.producer_id), int(answer.producer_epoch)

    async def send(self, partition: TopicPartition, records: Sequence[Record]) -> int:
        """Append records to the open transaction, with acks=all; return the offset of the first."""
        if partition not in self._added:
            await self._add(partition)
        sequence = self._sequences.get(partition, 0)
        offset = await self._client.produce(
            partition, records, producer=(*self._producer, sequence), transactional_id=self._id
        )
        self._sequences[partition] = sequence + len(records)
        return offset

    async def _add(self, partition: TopicPartition) -> None:
        asked = request(
            ApiKey.ADD_PARTITIONS_TO_TXN, 3,
            v3_and_below_transactional_id=self._id, v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[{"name": partition.topic, "partitions": [partition.partition]}],
        )  # fmt: skip

        def error(answer: KafkaMessage) -> ErrorCode:
            (topic,) = answer.results_by_topic_v3_and_below
            (row,) = topic.results_by_partition
            return ErrorCode(row.partition_error_code)

        await self._ask(asked, error)
        self._added[partition] = None

    async def end(self, *, commit: bool) -> None:
        """Commit or abort the open transaction."""
        if not self._added:
            return
        asked = request(
            ApiKey.END_TXN, 3,
            transactional_id=self._id, producer_id=self._producer[0], producer_epoch=self._producer[1],
            committed=commit,
        )  # fmt: skip
        await self._ask(asked, lambda answer: ErrorCode(answer.error_code))
        self._added.clear()

    async def _ask(self, message: KafkaMessage, error_of: Callable[[KafkaMessage], ErrorCode]) -> KafkaMessage:
        deadline_ms = self._runtime.now().mono_ms + REQUEST_TIMEOUT_MS
        while True:
            coordinator = await find_coordinator(self._client, self._runtime, KeyType.TRANSACTION, self._id)
            try:
                answer = await self._client.call(coordinator, message, ATTEMPT_MS_MAX)
            except ChannelBroken as broken:
                raise KafkaUnavailable(str(broken)) from None
            error = error_of(answer)
            if error is ErrorCode.none:
                return answer
            if error not in _RETRIED or self._runtime.now().mono_ms >= deadline_ms:
                raise KafkaRequestFailed(error)
            await self._runtime.sleep(RETRY_BACKOFF_MS)

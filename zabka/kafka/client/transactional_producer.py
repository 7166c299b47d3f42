"""A transactional producer: its records become visible to read_committed consumers together, or never (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.coordinators import LATER, KeyType, find_coordinator
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.record_batch import Record
from zabka.kafka.wire.kafka_schema import ApiKey, request

TRANSACTION_TIMEOUT_MS = 60_000
_RETRIED = (*LATER, ErrorCode.concurrent_transactions, ErrorCode.unknown_topic_or_partition)
"""Transient errors, including those of a broker that does not know a new topic yet."""


class GroupMetadata(NamedTuple):
    """A consumer's member id and generation. With them the coordinator rejects offsets of an old generation
    (KIP-447).
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TransactionalProducer:
    """Runs one transaction after another with one transactional id.

    `begin` fences earlier producers with this id. Methods raise KafkaRequestFailed and KafkaUnavailable. After an error
    the transaction can be aborted. Before the next transaction, call `begin` again: a batch without a reply may have
    been appended, and its sequence number must not be used for another batch.

    A request without a reply is sent again. The first copy of the request may arrive late: it would then end the next
    transaction, or commit old offsets in it (KIP-890, part 2). Therefore the next transaction has a new producer epoch.
    """

    def __init__(
        self, client: KafkaClient, runtime: Runtime, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None:
        self.transactional_id = transactional_id
        self.producer = -1, -1
        """Producer id and producer epoch; both are -1 until `begin` has returned."""
        self._client = client
        self._runtime = runtime
        self._timeout_ms = timeout_ms
        self._sequences: dict[TopicPartition, int] = {}
        self._added: dict[TopicPartition, None] = {}
        self._is_open = False
        self._needs_epoch = False
        self._coordinators: dict[str, Endpoint] = {}
        """Coordinator of the transactional id, and coordinators of groups."""

    async def begin(self) -> None:
        """Get a producer id and producer epoch. The coordinator aborts an open transaction of an earlier producer."""
        asked = request(
            ApiKey.INIT_PRODUCER_ID, 4,
            transactional_id=self.transactional_id, transaction_timeout=self._timeout_ms, producer_id=-1,
        )  # fmt: skip
        answer = await self._ask(asked, lambda answer: ErrorCode(answer.error_code))
        self.producer = int(answer.producer_id), int(answer.producer_epoch)
        self._needs_epoch = False
        self._sequences.clear()
        self._ended()

    async def send(self, partition: TopicPartition, records: Sequence[Record]) -> int:
        """Append records to the open transaction with acks=all. Return the offset of the first record."""
        await self._open()
        if partition not in self._added:
            await self._add(partition)
        sequence = self._sequences.get(partition, 0)
        offset = await self._client.produce(
            partition, records, producer=(*self.producer, sequence), transactional_id=self.transactional_id
        )
        self._sequences[partition] = sequence + len(records)
        return offset

    async def _open(self) -> None:
        if not self._is_open and self._needs_epoch:
            await self.begin()

    async def _add(self, partition: TopicPartition) -> None:
        asked = request(
            ApiKey.ADD_PARTITIONS_TO_TXN, 3,
            v3_and_below_transactional_id=self.transactional_id, v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[{"name": partition.topic, "partitions": [partition.partition]}],
        )  # fmt: skip

        def error(answer: KafkaMessage) -> ErrorCode:
            (topic,) = answer.results_by_topic_v3_and_below
            (row,) = topic.results_by_partition
            return ErrorCode(row.partition_error_code)

        await self._ask(asked, error)
        self._added[partition] = None
        self._is_open = True

    async def send_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Add a group's offsets to the open transaction. They are committed together with its records."""
        await self._open()
        producer = {"producer_id": self.producer[0], "producer_epoch": self.producer[1]}
        adding = request(
            ApiKey.ADD_OFFSETS_TO_TXN, 3,
            transactional_id=self.transactional_id, group_id=group.group_id, **producer,
        )  # fmt: skip
        await self._ask(adding, lambda answer: ErrorCode(answer.error_code))
        self._is_open = True
        topics: dict[str, list[dict[str, object]]] = {}
        for (topic, number), offset in offsets.items():
            row = {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata}
            topics.setdefault(topic, []).append(row)
        committing = request(
            ApiKey.TXN_OFFSET_COMMIT, 3,
            transactional_id=self.transactional_id, **producer, **group._asdict(),
            topics=[{"name": topic, "partitions": rows} for topic, rows in topics.items()],
        )  # fmt: skip

        def error(answer: KafkaMessage) -> ErrorCode:
            errors = [ErrorCode(row.error_code) for topic in answer.topics for row in topic.partitions]
            return next((each for each in errors if each is not ErrorCode.none), ErrorCode.none)

        await self._ask(committing, error, group.group_id)

    async def end(self, *, commit: bool) -> None:
        """Commit or abort the open transaction."""
        if not self._is_open:
            return
        asked = request(
            ApiKey.END_TXN, 3,
            transactional_id=self.transactional_id, producer_id=self.producer[0], producer_epoch=self.producer[1],
            committed=commit,
        )  # fmt: skip
        await self._ask(asked, lambda answer: ErrorCode(answer.error_code))
        self._ended()

    def _ended(self) -> None:
        self._added.clear()
        self._is_open = False

    async def _ask(
        self,
        message: KafkaMessage,
        error_of: Callable[[KafkaMessage], ErrorCode],
        group_id: str | None = None,
    ) -> KafkaMessage:
        """Send a request to the coordinator of this transactional id or of a group. Retry after transient errors."""
        deadline_ms = self._runtime.now().mono_ms + REQUEST_TIMEOUT_MS
        while True:
            coordinator = await self._coordinator(group_id)
            is_late = self._runtime.now().mono_ms >= deadline_ms
            try:
                answer = await self._client.call(coordinator, message, ATTEMPT_MS_MAX)
            except ChannelBroken as broken:
                self._coordinators.clear()
                self._needs_epoch = True
                if is_late:
                    raise KafkaUnavailable(str(broken)) from None
            else:
                error = error_of(answer)
                if error is ErrorCode.none:
                    return answer
                if error in LATER:
                    self._coordinators.clear()
                if error not in _RETRIED or is_late:
                    raise KafkaRequestFailed(error)
            await self._runtime.sleep(RETRY_BACKOFF_MS)

    async def _coordinator(self, group_id: str | None) -> Endpoint:
        key_type, key = (KeyType.TRANSACTION, self.transactional_id) if group_id is None else (KeyType.GROUP, group_id)
        name = f"{key_type}/{key}"
        if name not in self._coordinators:
            self._coordinators[name] = await find_coordinator(self._client, self._runtime, key_type, key)
        return self._coordinators[name]

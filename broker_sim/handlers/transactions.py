"""Handlers of InitProducerId, of requests in transactions, and of administrators' requests about transactions.

They convert the requests to calls of the transaction coordinator, and its results to responses. Clients of older
versions do not know PRODUCER_FENCED and receive INVALID_PRODUCER_EPOCH instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.coordinator import GroupCoordinator
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.broker_sim.transactions.coordinator import ProducerIdAndEpoch, TransactionCoordinator
from zabka.broker_sim.transactions.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from zabka.broker_sim.transactions.reasons import ADDED_OFFSETS
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, respond, version_of, wall_time

_ADD_PARTITIONS_IN_BATCHES_FROM = 4
_FENCED_FROM, _INIT_FENCED_FROM = 2, 4
"""First request versions whose clients know the error PRODUCER_FENCED.

The first value is for transactional requests, the second one for InitProducerId.
"""

PartitionErrors = Mapping[TopicPartition, ErrorCode]


class TransactionHandlers:
    """Handles requests about transactions from producers, administrators, and brokers that verify transactions."""

    def __init__(self, transactions: TransactionCoordinator, groups: GroupCoordinator, metadata: MetadataCache) -> None:
        self._transactions = transactions
        self._groups = groups
        self._metadata = metadata

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.INIT_PRODUCER_ID: self.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets,
            ApiKey.END_TXN: self.end,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe_transactions,
            ApiKey.LIST_TRANSACTIONS: self.list_transactions,
        }

    # ---- producers --------------------------------------------------------------------------------------------

    async def init_producer_id(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process InitProducerId, for producers with or without a transactional id."""
        had = ProducerIdAndEpoch(
            int(getattr(request, "producer_id", NO_PRODUCER_ID)),
            int(getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)),
        )
        if (had.producer_id == NO_PRODUCER_ID) != (had.producer_epoch == NO_PRODUCER_EPOCH):
            return respond(request, error_code=ErrorCode.invalid_request, producer_id=-1, producer_epoch=-1)
        expected = None if had.producer_id == NO_PRODUCER_ID else had
        timeout_ms = milliseconds(request.transaction_timeout)
        result = await self._transactions.init_producer_id(
            request.transactional_id, timeout_ms, expected, context.client_id
        )
        return respond(
            request,
            error_code=_known_to(request, result.error, _INIT_FENCED_FROM),
            producer_id=result.producer_id,
            producer_epoch=result.producer_epoch,
        )

    async def add_partitions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process AddPartitionsToTxn.

        From version 4 on, brokers send this request, and it can contain several transactions.
        """
        if version_of(request) < _ADD_PARTITIONS_IN_BATCHES_FROM:
            producer = ProducerIdAndEpoch(
                int(request.v3_and_below_producer_id), int(request.v3_and_below_producer_epoch)
            )
            partitions = _partitions(request.v3_and_below_topics)
            errors = await self._added(request, context, request.v3_and_below_transactional_id, producer, partitions)
            return respond(request, results_by_topic_v3_and_below=_rows(errors))
        rows = []
        for each in request.transactions:
            producer = ProducerIdAndEpoch(int(each.producer_id), int(each.producer_epoch))
            errors = await self._added(
                request,
                context,
                each.transactional_id,
                producer,
                _partitions(each.topics),
                verify_only=each.verify_only,
            )
            rows.append({"transactional_id": each.transactional_id, "topic_results": _rows(errors)})
        return respond(request, results_by_transaction=rows)

    async def _added(
        self,
        request: KafkaMessage,
        context: RequestContext,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: list[TopicPartition],
        *,
        verify_only: bool = False,
    ) -> PartitionErrors:
        missing = [each for each in partitions if self._metadata.partition(each) is None]
        if missing:
            errors = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
            return errors | dict.fromkeys(missing, ErrorCode.unknown_topic_or_partition)
        if verify_only:
            return self._transactions.verify_partitions(transactional_id, producer, partitions)
        error = await self._transactions.add_partitions(transactional_id, producer, partitions, context.client_id)
        return dict.fromkeys(partitions, _known_to(request, error, _FENCED_FROM))

    async def add_offsets(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process AddOffsetsToTxn: add the group's partition of `__consumer_offsets` to the transaction."""
        number = self._groups.store.partition_for(request.group_id)
        producer = ProducerIdAndEpoch(int(request.producer_id), int(request.producer_epoch))
        offsets = [TopicPartition(CONSUMER_OFFSETS, number)]
        error = await self._transactions.add_partitions(
            request.transactional_id, producer, offsets, context.client_id, ADDED_OFFSETS
        )
        return respond(request, error_code=_known_to(request, error, _FENCED_FROM))

    async def end(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an EndTxn request."""
        producer = ProducerIdAndEpoch(int(request.producer_id), int(request.producer_epoch))
        error = await self._transactions.end(request.transactional_id, producer, bool(request.committed))
        return respond(request, error_code=_known_to(request, error, _FENCED_FROM))

    async def describe_transactions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a DescribeTransactions request."""
        rows = []
        for transactional_id in request.transactional_ids:
            error, found = self._transactions.describe(transactional_id)
            row = {"transactional_id": transactional_id, "error_code": error}
            rows.append(row if found is None else row | _description(found))
        return respond(request, transaction_states=rows)

    async def list_transactions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process ListTransactions. Since version 1, the request can filter by duration."""
        listed = self._transactions.list(
            frozenset(map(int, request.producer_id_filters)),
            list(request.state_filters),
            int(getattr(request, "duration_filter", -1)),
        )
        rows = [
            {
                "transactional_id": each.transactional_id,
                "producer_id": each.producer_id,
                "transaction_state": str(each.state),
            }
            for each in listed.transactions
        ]
        return respond(
            request,
            error_code=listed.error,
            unknown_state_filters=listed.unknown_states,
            transaction_states=rows,
        )


def _known_to(request: KafkaMessage, error: ErrorCode, fenced_from: int) -> ErrorCode:
    """Return the error, or a replacement if the request's version does not know it.

    For versions below `fenced_from`, PRODUCER_FENCED is replaced.
    """
    is_old = version_of(request) < fenced_from
    return ErrorCode.invalid_producer_epoch if is_old and error is ErrorCode.producer_fenced else error


def _partitions(topics: Iterable[KafkaMessage]) -> list[TopicPartition]:
    rows = (TopicPartition(str(topic.name), int(number)) for topic in topics for number in topic.partitions)
    return list(dict.fromkeys(rows))


def _rows(errors: PartitionErrors) -> list[dict[str, Any]]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for (topic, number), error in errors.items():
        by_topic.setdefault(topic, []).append({"partition_index": number, "partition_error_code": error})
    return [{"name": topic, "results_by_partition": rows} for topic, rows in by_topic.items()]


def _description(found: TransactionMetadata) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, number in found.partitions:
        topics.setdefault(topic, []).append(number)
    return {
        "transaction_state": str(found.state),
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": wall_time(found.start_ms),
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
    }

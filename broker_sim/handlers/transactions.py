"""Requests of transactional producers: brokers here do not support transactions, and report that at once.

A producer with a transactional id first requests its coordinator (FindCoordinator), then a producer id
(InitProducerId). Each client displays one of the two errors, and retries some errors:

| client | FindCoordinator | displays |
|---|---|---|
| Java since 2.4, kafka-python 3 | 3 and later | UNSUPPORTED_VERSION with our message |
| librdkafka | 2, after ApiVersions 3 | an authorization error with our message; it retries all other errors |
| kafkajs, old clients | 1 or 2, after ApiVersions 0 to 2 | the error of InitProducerId, not of FindCoordinator |

So a client of the last kind gets this broker as its coordinator, and UNSUPPORTED_VERSION from InitProducerId. All other
requests of a transaction can come only from a client that ignored these errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, respond, version_of

NOT_SUPPORTED = ErrorCode.unsupported_version
NOT_SUPPORTED_MESSAGE = "Transactions are not supported by this broker."
_FLEXIBLE_FIND_COORDINATOR = 3
_ADD_PARTITIONS_IN_BATCHES_FROM = 4
_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)
"""org.apache.kafka.clients.admin.TransactionState, as ListTransactions names them."""


def coordinator_error(find_coordinator_version: int, context: RequestContext) -> ErrorCode:
    """Return the error of FindCoordinator for a transactional id; none for a client that hides it."""
    if find_coordinator_version >= _FLEXIBLE_FIND_COORDINATOR:
        return NOT_SUPPORTED
    return ErrorCode.transactional_id_authorization_failed if context.client_software else ErrorCode.none


class TransactionHandlers:
    """Answers the requests of transactions with UNSUPPORTED_VERSION, and lists none."""

    def table(self) -> Mapping[ApiKey, Handler]:
        """The requests served here."""
        return {
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.refuse_end,
            ApiKey.END_TXN: self.refuse_end,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe_transactions,
            ApiKey.LIST_TRANSACTIONS: self.list_transactions,
        }

    async def add_partitions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer AddPartitionsToTxn; from version 4 on brokers send it for several transactions at once."""
        if version_of(request) < _ADD_PARTITIONS_IN_BATCHES_FROM:
            return respond(request, results_by_topic_v3_and_below=_added(request.v3_and_below_topics))
        rows = [
            {"transactional_id": each.transactional_id, "topic_results": _added(each.topics)}
            for each in request.transactions
        ]
        return respond(request, results_by_transaction=rows)

    async def refuse_end(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer EndTxn and AddOffsetsToTxn."""
        return respond(request, error_code=NOT_SUPPORTED)

    async def describe_transactions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer DescribeTransactions: no transactional id is known."""
        rows = [
            {
                "transactional_id": each,
                "error_code": ErrorCode.transactional_id_not_found if each else ErrorCode.invalid_request,
            }
            for each in request.transactional_ids
        ]
        return respond(request, transaction_states=rows)

    async def list_transactions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer ListTransactions: there are none."""
        unknown = [state for state in request.state_filters if state not in _STATES]
        return respond(request, unknown_state_filters=unknown)


def _added(topics: Iterable[KafkaMessage]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": NOT_SUPPORTED} for number in topic.partitions
            ],
        }
        for topic in topics
    ]

"""Asks coordinators whether a partition is part of a transaction (Kafka's AddPartitionsToTxnManager).

Without this check, a produce that arrives late, after its transaction was aborted, would begin a transaction that never
ends (KIP-890). At most one request to each coordinator is in flight. Questions that arise in the meantime are sent
together in the next request to that coordinator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Future, Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import BrokerChannel, ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request

_VERSION = 5
"""The newest version of AddPartitionsToTxn. Brokers can use the request for verification since version 4."""

CoordinatorOf = Callable[[str], Endpoint | None]
"""Returns the coordinator of a transactional id, or None if it is unknown or not alive."""
Errors = Mapping[TopicPartition, ErrorCode]


class Question:
    """One transaction to verify, and the partitions that must be part of it."""

    __slots__ = ("answer", "knows_abortable", "partitions", "producer_epoch", "producer_id", "transactional_id")

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        knows_abortable: bool,
        answer: Future[Errors],
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partitions = partitions
        self.knows_abortable = knows_abortable
        """Whether the client knows the error TRANSACTION_ABORTABLE."""
        self.answer = answer

    def fail(self, error: ErrorCode) -> None:
        """Answer the question with the same error for each of its partitions."""
        if not self.answer.done():
            self.answer.set_result(dict.fromkeys(self.partitions, error))

    def resolve(self, row: KafkaMessage) -> None:
        """Resolve the question with the errors from the coordinator's response."""
        found: dict[TopicPartition, ErrorCode] = {}
        for topic in row.topic_results:
            for each in topic.results_by_partition:
                error = ErrorCode(each.partition_error_code)
                if error is not ErrorCode.none:
                    found[TopicPartition(str(topic.name), int(each.partition_index))] = self._for_client(error)
        if not self.answer.done():
            self.answer.set_result(found)

    def _for_client(self, error: ErrorCode) -> ErrorCode:
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if error is ErrorCode.transaction_abortable and not self.knows_abortable:
            return ErrorCode.invalid_txn_state
        return error

    def as_row(self) -> dict[str, object]:
        """Return the question as an entry of the AddPartitionsToTxn request."""
        topics: dict[str, list[int]] = {}
        for topic, number in self.partitions:
            topics.setdefault(topic, []).append(number)
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "verify_only": True,
            "topics": [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()],
        }


class TransactionVerifier:
    """Asks transaction coordinators to verify transactions, several in one request."""

    def __init__(
        self, runtime: Runtime, channel: BrokerChannel, coordinator_of: CoordinatorOf, request_timeout_ms: int
    ) -> None:
        self._runtime = runtime
        self._channel = channel
        self._coordinator_of = coordinator_of
        self._timeout_ms = request_timeout_ms
        self._waiting: dict[Endpoint, dict[str, Question]] = {}
        """Questions that have not been sent yet, keyed by coordinator and transactional id."""
        self._asking: dict[Endpoint, None] = {}

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        knows_abortable: bool,
    ) -> Awaitable[Errors]:
        """Return the errors of the partitions that are not part of the producer's transaction."""
        answer: Future[Errors] = self._runtime.future()
        question = Question(transactional_id, producer_id, producer_epoch, partitions, knows_abortable, answer)
        coordinator = self._coordinator_of(transactional_id)
        if coordinator is None:
            question.fail(ErrorCode.coordinator_not_available)
        elif self._supersedes(coordinator, question):
            self._waiting.setdefault(coordinator, {})[transactional_id] = question
            if coordinator not in self._asking:
                self._asking[coordinator] = None
                self._runtime.spawn(self._ask(coordinator), f"verify-transactions-{coordinator.broker_id}")
        return answer

    def _supersedes(self, coordinator: Endpoint, question: Question) -> bool:
        """If a question about the same transaction is waiting, resolve one of the two with an error.

        The question with the lower producer epoch gets the error; if both have the same epoch, the waiting question
        gets it. Return whether the new question has to be sent.
        """
        earlier = self._waiting.get(coordinator, {}).get(question.transactional_id)
        if earlier is None:
            return True
        if earlier.producer_epoch > question.producer_epoch:
            question.fail(ErrorCode.invalid_producer_epoch)
            return False
        # The epochs are equal if the client has sent its request again. Fail the earlier question with a retriable
        # error.
        is_older = earlier.producer_epoch < question.producer_epoch
        earlier.fail(ErrorCode.invalid_producer_epoch if is_older else ErrorCode.network_exception)
        return True

    async def _ask(self, coordinator: Endpoint) -> None:
        try:
            while questions := self._waiting.pop(coordinator, None):
                await self._send(coordinator, questions)
        finally:
            del self._asking[coordinator]

    async def _send(self, coordinator: Endpoint, questions: Mapping[str, Question]) -> None:
        rows = [question.as_row() for question in questions.values()]
        message = request(ApiKey.ADD_PARTITIONS_TO_TXN, _VERSION, transactions=rows)
        error = ErrorCode.network_exception
        try:
            response = await self._channel.call(coordinator, message, self._timeout_ms)
        except ChannelBroken:
            pass
        else:
            error = ErrorCode(response.error_code)
            if error is ErrorCode.cluster_authorization_failed:
                # The error means that this broker lacks the permission, not the client. So do not return it to the
                # client.
                error = ErrorCode.invalid_txn_state
            for row in response.results_by_transaction if error is ErrorCode.none else ():
                question = questions.get(str(row.transactional_id))
                if question is not None:
                    question.resolve(row)
        for question in questions.values():
            # Transactions that the response does not contain were not verified.
            question.fail(ErrorCode.network_exception if error is ErrorCode.none else error)

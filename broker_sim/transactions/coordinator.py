"""Processes requests to the transaction coordinator (kafka.coordinator.transaction.TransactionCoordinator).

Like Kafka, the coordinator responds to some requests of producers only when a record is in the log. Such a request
waits for a future that is resolved at the end of the append. No other code runs between two awaits, so no lock is
needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.producer_ids import ProducerIds
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.broker_sim.transactions.config import TransactionConfig
from zabka.broker_sim.transactions.markers import MarkerSender, PendingCompletion
from zabka.broker_sim.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    ProducerFenced,
    TransactionMetadata,
    TransactionState,
    Transition,
    is_epoch_exhausted,
)
from zabka.broker_sim.transactions.reasons import ADDED, ENDED, FENCED, STARTED, TIMED_OUT, Reason, loaded
from zabka.broker_sim.transactions.store import Coordinated, TransactionRefused, TransactionStore
from zabka.controller.producer_id_blocks import ProducerIdsUnavailable
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.ports import Future, Runtime, Timer
from zabka.journal.events import TopicPartition, TransactionChanged
from zabka.kafka.ports import BrokerChannel, Emit
from zabka.kafka.topic_names import TRANSACTION_STATE

_NONE = ErrorCode.none


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


class InitializedProducer(NamedTuple):
    """The result of InitProducerId."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class ListedTransactions(NamedTuple):
    """The result of ListTransactions."""

    error: ErrorCode
    unknown_states: Sequence[str] = ()
    transactions: Sequence[TransactionMetadata] = ()


class TransactionCoordinator:
    """Coordinates the transactional ids whose partition of `__transaction_state` this broker leads.

    Call `start()` before the broker registers, `roles_changed()` after every change of its leaderships, and `close()`
    at the end.
    """

    def __init__(
        self,
        config: TransactionConfig,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        channel: BrokerChannel,
        producer_ids: ProducerIds,
        runtime: Runtime,
        emit: Emit,
    ) -> None:
        self.config = config
        self._broker_id = replicas.broker_id
        self._emit = emit
        self._runtime = runtime
        self._producer_ids = producer_ids
        self.store = TransactionStore(
            config,
            replicas,
            runtime,
            emit,
            loaded=self._loaded,
            unloaded=self._unloaded,
            changed=self._journal,
        )
        self._markers = MarkerSender(self.store, metadata, channel, runtime, config.request_timeout_ms)
        self._is_active = False
        self._timers: list[Timer | None] = [None, None]

    # ---- lifecycle --------------------------------------------------------------------------------------------

    def start(self, partition_count: int | None) -> None:
        """Start the coordinator.

        `partition_count` is the partition count of `__transaction_state`, or None if the topic does not exist.
        """
        if partition_count is not None:
            self.store.partition_count = partition_count
        if not self._is_active:
            self._is_active = True
            self._abort_timed_out_later()
            self._expire_later()

    def close(self) -> None:
        """Stop coordinating transactional ids."""
        self._is_active = False
        for timer in self._timers:
            if timer is not None:
                timer.cancel()
        self._markers.close()
        self.store.close()

    def roles_changed(self) -> None:
        """Update which partitions of `__transaction_state` this broker leads."""
        if self._is_active:
            self.store.roles_changed()

    def _loaded(self, coordinated: Coordinated) -> None:
        """Journal an unfinished transaction of an earlier coordinator. If its outcome is decided, complete it."""
        epoch, metadata = coordinated
        if metadata.state is TransactionState.ONGOING or metadata.state in PREPARED:
            number = self.store.partition_for(metadata.transactional_id)
            self._journal(metadata, loaded(TopicPartition(TRANSACTION_STATE, number), epoch))
        if metadata.state in PREPARED:
            self._send_markers(coordinated)

    def _unloaded(self, number: int) -> None:
        self._markers.drop(number)

    def _journal(self, metadata: TransactionMetadata, why: Reason) -> None:
        metadata.journalled = self._emit(
            TransactionChanged(
                broker_id=self._broker_id,
                transactional_id=metadata.transactional_id,
                state=str(metadata.state),
                producer_id=metadata.producer_id,
                producer_epoch=metadata.producer_epoch,
                partitions=[str(each) for each in metadata.partitions],
                after=why.after,
                client_id=metadata.client_id,
                started_ms=metadata.start_ms,
                timeout_ms=metadata.timeout_ms,
                caused_by=why.caused_by,
            )
        )

    # ---- InitProducerId ---------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, expected: ProducerIdAndEpoch | None, client_id: str
    ) -> InitializedProducer:
        """Process InitProducerId.

        `expected` is the id and epoch that a producer sends when it continues after an error (KIP-360).
        """
        try:
            if transactional_id is None:
                return InitializedProducer(_NONE, await self._new_producer_id(), 0)
            if not transactional_id:
                return InitializedProducer(ErrorCode.invalid_request)
            if not 0 < timeout_ms <= self.config.transaction_max_timeout_ms:
                return InitializedProducer(ErrorCode.invalid_transaction_timeout)
            return await self._init_transactional(transactional_id, timeout_ms, expected, client_id)
        except TransactionRefused as refused:
            return InitializedProducer(refused.error)

    async def _init_transactional(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, client_id: str
    ) -> InitializedProducer:
        spare: int | None = None
        # Other requests may have changed the state during the wait for a new producer id, so repeat all checks.
        while True:
            coordinated = self.store.find(transactional_id)
            if coordinated is None and spare is not None:
                now_ms = self._runtime.now().wall_ms
                coordinated = self.store.add(TransactionMetadata(transactional_id, spare, timeout_ms, now_ms))
                spare = None
            if coordinated is not None:
                to = self._prepare_init(coordinated.metadata, timeout_ms, expected, spare)
                if to is not None:
                    break
            spare = await self._new_producer_id()
        coordinated.metadata.client_id = client_id
        if to.state is TransactionState.PREPARE_EPOCH_FENCE:
            error = await self._abort_under(coordinated, to, FENCED)
            return InitializedProducer(ErrorCode.concurrent_transactions if error is _NONE else error)
        error = await self._append(coordinated, to, STARTED)
        if error is not _NONE:
            return InitializedProducer(error)
        return InitializedProducer(_NONE, to.producer_id, to.producer_epoch)

    def _prepare_init(
        self, metadata: TransactionMetadata, timeout_ms: int, expected: ProducerIdAndEpoch | None, spare: int | None
    ) -> Transition | None:
        """Return the transition for InitProducerId, or None if it needs a new producer id.

        Raises TransactionRefused.
        """
        if metadata.pending_state is not None:
            raise TransactionRefused(ErrorCode.concurrent_transactions)
        if expected is not None and not _may_continue(metadata, expected):
            raise TransactionRefused(ErrorCode.producer_fenced)
        if metadata.state in PREPARED:
            raise TransactionRefused(ErrorCode.concurrent_transactions)
        if metadata.state is TransactionState.ONGOING:
            return metadata.prepare_fence()
        now_ms = self._runtime.now().wall_ms
        if metadata.is_epoch_exhausted and (expected is None or expected.producer_epoch == metadata.producer_epoch):
            if spare is None:
                return None
            return metadata.prepare_new_producer_id(spare, timeout_ms, now_ms, expected is not None)
        try:
            epoch = None if expected is None else expected.producer_epoch
            return metadata.prepare_next_epoch(timeout_ms, epoch, now_ms)
        except ProducerFenced:
            raise TransactionRefused(ErrorCode.producer_fenced) from None

    async def _new_producer_id(self) -> int:
        try:
            return await self._producer_ids.next()
        except ZooKeeperError:
            raise TransactionRefused(ErrorCode.coordinator_load_in_progress) from None
        except ProducerIdsUnavailable:
            raise TransactionRefused(ErrorCode.unknown_server_error) from None

    # ---- AddPartitionsToTxn -----------------------------------------------------------------------------------

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_id: str,
        why: Reason = ADDED,
    ) -> ErrorCode:
        """Process AddPartitionsToTxn and AddOffsetsToTxn. Return once the ISR has replicated the added partitions."""
        try:
            coordinated = self._of_producer(transactional_id, producer)
            metadata = coordinated.metadata
            metadata.client_id = client_id
            if metadata.pending_state is not None or metadata.state in PREPARED:
                return ErrorCode.concurrent_transactions
            if metadata.state is TransactionState.ONGOING and metadata.partitions.keys() >= set(partitions):
                return _NONE
            to = metadata.prepare_add(partitions, self._runtime.now().wall_ms)
        except TransactionRefused as refused:
            return refused.error
        return await self._append(coordinated, to, why)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return an error for each partition that is not part of the producer's transaction (KIP-890)."""
        try:
            metadata = self._of_producer(transactional_id, producer).metadata
            if metadata.state in PREPARED:
                raise TransactionRefused(ErrorCode.concurrent_transactions)
        except TransactionRefused as refused:
            return dict.fromkeys(partitions, refused.error)
        return {each: _NONE if each in metadata.partitions else ErrorCode.transaction_abortable for each in partitions}

    def _of_producer(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Coordinated:
        if not transactional_id:
            raise TransactionRefused(ErrorCode.invalid_request)
        coordinated = self.store.find(transactional_id)
        if coordinated is None or coordinated.metadata.producer_id != producer.producer_id:
            raise TransactionRefused(ErrorCode.invalid_producer_id_mapping)
        if coordinated.metadata.producer_epoch != producer.producer_epoch:
            raise TransactionRefused(ErrorCode.producer_fenced)
        return coordinated

    # ---- EndTxn -----------------------------------------------------------------------------------------------

    async def end(self, transactional_id: str, producer: ProducerIdAndEpoch, commits: bool) -> ErrorCode:
        """Process EndTxn. Return once the ISR has replicated the decision."""
        try:
            coordinated = self._of_producer(transactional_id, producer)
            metadata = coordinated.metadata
            if metadata.pending_state is not None:
                return ErrorCode.concurrent_transactions
            if metadata.state is not TransactionState.ONGOING:
                return _end_again(metadata.state, commits)
            to = metadata.prepare_end(commits, self._runtime.now().wall_ms)
        except TransactionRefused as refused:
            return refused.error
        error: ErrorCode = await self._decide(coordinated, to, ENDED)
        return error

    def _abort_under(self, coordinated: Coordinated, fence: Transition, why: Reason) -> Future[ErrorCode]:
        """Abort an ongoing transaction with the increased producer epoch of the prepared transition `fence`."""
        coordinated.metadata.fence_now(fence.producer_epoch)
        to = coordinated.metadata.prepare_end(False, self._runtime.now().wall_ms)
        return self._decide(coordinated, to, why, fences=True)

    def _decide(
        self, coordinated: Coordinated, to: Transition, why: Reason, *, fences: bool = False
    ) -> Future[ErrorCode]:
        """Append the outcome of a transaction, then send the markers.

        The returned future completes when the outcome is appended, before the markers are written.
        """
        answer: Future[ErrorCode] = self._runtime.future()

        def done(error: ErrorCode) -> None:
            if error is _NONE:
                self._send_markers(coordinated)
            elif fences and self.store.is_current(coordinated):
                coordinated.metadata.has_failed_epoch_fence = True
            _answer(answer, error)

        self.store.append(coordinated, to, why, done)
        return answer

    def _send_markers(self, coordinated: Coordinated) -> None:
        metadata = coordinated.metadata
        commits = metadata.state is TransactionState.PREPARE_COMMIT
        to = metadata.prepare_complete(self._runtime.now().wall_ms)
        self._markers.send(PendingCompletion(coordinated, to, commits))

    async def _append(self, coordinated: Coordinated, to: Transition, why: Reason) -> ErrorCode:
        answer: Future[ErrorCode] = self._runtime.future()
        self.store.append(coordinated, to, why, lambda error: _answer(answer, error))
        error: ErrorCode = await answer
        return error

    # ---- time -------------------------------------------------------------------------------------------------

    def _abort_timed_out_later(self) -> None:
        interval_ms = self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._timers[0] = self._runtime.call_later(interval_ms, self._abort_timed_out)

    def _abort_timed_out(self) -> None:
        self._abort_timed_out_later()
        now_ms = self._runtime.now().wall_ms
        for coordinated in self.store.all():
            metadata = coordinated.metadata
            if metadata.has_timed_out(now_ms):
                self._abort_under(coordinated, metadata.prepare_fence(), TIMED_OUT)

    def _expire_later(self) -> None:
        interval_ms = self.config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers[1] = self._runtime.call_later(interval_ms, self._expire)

    def _expire(self) -> None:
        self._expire_later()
        self.store.expire()

    # ---- administration ---------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> tuple[ErrorCode, TransactionMetadata | None]:
        """Process DescribeTransactions for one id."""
        if not self._is_active:
            return ErrorCode.coordinator_not_available, None
        if not transactional_id:
            return ErrorCode.invalid_request, None
        try:
            coordinated = self.store.find(transactional_id)
        except TransactionRefused as refused:
            return refused.error, None
        if coordinated is None:
            return ErrorCode.transactional_id_not_found, None
        return _NONE, coordinated.metadata

    def list(self, producer_ids: Collection[int], states: Collection[str], duration_ms: int) -> ListedTransactions:
        """Process ListTransactions. An empty filter, or a duration below 0, matches everything."""
        if not self._is_active:
            return ListedTransactions(ErrorCode.coordinator_not_available)
        if self.store.is_loading_any:
            return ListedTransactions(ErrorCode.coordinator_load_in_progress)
        unknown = [state for state in dict.fromkeys(states) if state not in list(TransactionState)]
        now_ms = self._runtime.now().wall_ms
        found = [
            metadata
            for _, metadata in self.store.all()
            if (not producer_ids or metadata.producer_id in producer_ids)
            and (not states or metadata.state in states)
            and (duration_ms < 0 or now_ms - metadata.start_ms > duration_ms)
        ]
        return ListedTransactions(_NONE, unknown, found)


def _may_continue(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Return whether a producer that sends this id and epoch may continue with a new epoch (KIP-360).

    The caller checks the epoch of the current producer id.
    """
    if metadata.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == metadata.producer_id:
        return True
    # If the response with the new producer id was lost, the producer still uses its previous id.
    return expected.producer_id == metadata.last_producer_id and is_epoch_exhausted(expected.producer_epoch)


def _end_again(state: TransactionState, commits: bool) -> ErrorCode:
    """Return the result of an EndTxn request that arrives when no transaction is ongoing."""
    complete = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    prepared = TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT
    if state is complete:
        return _NONE
    return ErrorCode.concurrent_transactions if state is prepared else ErrorCode.invalid_txn_state


def _answer(answer: Future[ErrorCode], error: ErrorCode) -> None:
    # The client may have stopped waiting.
    if not answer.done():
        answer.set_result(error)

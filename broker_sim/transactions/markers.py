"""Sends the markers of decided transactions (TransactionMarkerChannelManager and its completion handler).

Theory of operation
===================

When Prepare… is in the log, every partition of the transaction gets a marker from its leader: WriteTxnMarkers, one
request at a time per broker, with all waiting markers for that broker. A partition whose marker is written leaves the
transaction's partitions; when none is left, Complete… is appended.

The partition's result determines what happens to a marker:

- written, or the log cannot have transactions (UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION): it needs no
  marker;
- the leader has moved, or the ISR is too small: the marker is sent again to the leader known then;
- INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED: a newer producer or coordinator has taken over; this one stops
  without completing the transaction;
- anything else is a bug: the transaction stays in Prepare until it is loaded again.

A partition that is missing from the metadata has been deleted, and needs no marker. But if this coordinator's own
partition is also missing, the metadata has not arrived yet. The marker waits until it arrives, and as long as the
leader is not alive. When this broker no longer leads a partition of `__transaction_state`, it drops the partition's
markers: the next coordinator finds Prepare… in the log and sends them again, with its higher epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.transactions.metadata import Transition
from zabka.broker_sim.transactions.reasons import markers_written
from zabka.broker_sim.transactions.store import Coordinated, TransactionStore
from zabka.ensemble.ports import Runtime, Timer
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import BrokerChannel, ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.topic_names import TRANSACTION_STATE
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.kafka.wire.kafka_schema import request as build_request

WRITE_TXN_MARKERS_VERSION = 1
RETRY_BACKOFF_MS = 50
"""Delay before a failed marker request or append is retried."""
_NEEDS_NONE = (ErrorCode.none, ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version)
_RETRIED = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.kafka_storage_error,
)


@dataclass(frozen=True, slots=True, eq=False)
class PendingCompletion:
    """A decided transaction whose markers are being written, and the transition that completes it."""

    coordinated: Coordinated
    to: Transition
    commits: bool

    @property
    def transactional_id(self) -> str:
        """The transactional id of the decided transaction."""
        return self.coordinated.metadata.transactional_id


@dataclass(frozen=True, slots=True, eq=False)
class _Marker:
    pending: PendingCompletion
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class _Queue:
    """The markers to send to one broker. `is_sending` is set while a request is in flight or about to be sent."""

    markers: list[_Marker] = field(default_factory=list)
    is_sending: bool = False


class MarkerSender:
    """Sends the markers of decided transactions until every such transaction is complete."""

    def __init__(
        self,
        store: TransactionStore,
        metadata: MetadataCache,
        channel: BrokerChannel,
        runtime: Runtime,
        request_timeout_ms: int,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._channel = channel
        self._runtime = runtime
        self._request_timeout_ms = request_timeout_ms
        self._pending: dict[str, PendingCompletion] = {}
        self._queues: dict[int, _Queue] = {}
        self._delayed: list[_Marker] = []
        """Markers whose leader is not known, and markers that must be sent again."""
        self._appends: list[PendingCompletion] = []
        """Decided transactions whose completion could not be appended. The appends will be retried."""
        self._timer: Timer | None = None

    def send(self, pending: PendingCompletion) -> None:
        """Send the markers of a decided transaction, then append its transition to CompleteCommit or CompleteAbort."""
        self._pending[pending.transactional_id] = pending
        self._enqueue(_Marker(pending, tuple(pending.coordinated.metadata.partitions)))
        self._complete_if_written(pending)

    def drop(self, number: int) -> None:
        """Drop the markers of transactions in a partition of `__transaction_state` that this broker no longer leads."""
        partition_for = self._store.partition_for
        for transactional_id in [each for each in self._pending if partition_for(each) == number]:
            del self._pending[transactional_id]

    def close(self) -> None:
        """Stop sending markers."""
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_due(self, pending: PendingCompletion) -> bool:
        return self._pending.get(pending.transactional_id) is pending and self._store.is_current(pending.coordinated)

    # ---- queues -----------------------------------------------------------------------------------------------

    def _enqueue(self, marker: _Marker) -> None:
        transaction = marker.pending.coordinated.metadata
        by_leader: dict[int, list[TopicPartition]] = {}
        leaderless: list[TopicPartition] = []
        for topic_partition in marker.partitions:
            known = self._metadata.partition(topic_partition)
            if known is None and self._has_metadata(transaction.transactional_id):
                transaction.marker_written(topic_partition)
            elif known is None or self._metadata.endpoint(known.leader) is None:
                leaderless.append(topic_partition)
            else:
                by_leader.setdefault(known.leader, []).append(topic_partition)
        if leaderless:
            self._delay(_Marker(marker.pending, tuple(leaderless)))
        for leader, partitions in by_leader.items():
            queue = self._queues.setdefault(leader, _Queue())
            queue.markers.append(_Marker(marker.pending, tuple(partitions)))
            if not queue.is_sending:
                queue.is_sending = True
                self._runtime.spawn(self._drain(leader, queue), f"markers to broker {leader}")

    def _has_metadata(self, transactional_id: str) -> bool:
        """Return whether this broker has received metadata.

        A broker that has just started can become coordinator before it receives metadata.
        """
        own = TopicPartition(TRANSACTION_STATE, self._store.partition_for(transactional_id))
        return self._metadata.partition(own) is not None

    def _delay(self, marker: _Marker) -> None:
        self._delayed.append(marker)
        self._retry_later()

    def _retry_later(self) -> None:
        if self._timer is None:
            self._timer = self._runtime.call_later(RETRY_BACKOFF_MS, self._retry)

    def _retry(self) -> None:
        self._timer = None
        markers, self._delayed = self._delayed, []
        appends, self._appends = self._appends, []
        for pending in appends:
            self._append(pending)
        for marker in markers:
            if self._is_due(marker.pending):
                self._enqueue(marker)
                self._complete_if_written(marker.pending)

    # ---- requests ---------------------------------------------------------------------------------------------

    async def _drain(self, broker_id: int, queue: _Queue) -> None:
        while markers := [marker for marker in queue.markers if self._is_due(marker.pending)]:
            queue.markers = []
            endpoint = self._metadata.endpoint(broker_id)
            answer = None if endpoint is None else await self._ask(endpoint, markers)
            for marker in markers:
                if not self._is_due(marker.pending):
                    continue
                if answer is None:
                    self._delay(marker)
                else:
                    self._answered(marker, answer.get(marker.pending.to.producer_id, {}))
        queue.markers = []
        queue.is_sending = False

    async def _ask(
        self, endpoint: Endpoint, markers: Iterable[_Marker]
    ) -> Mapping[int, Mapping[TopicPartition, ErrorCode]] | None:
        """Send WriteTxnMarkers to a broker.

        Return each partition's error by producer id, or None if there was no response.
        """
        rows = [_row(marker) for marker in markers]
        request = build_request(ApiKey.WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION, markers=rows)
        try:
            return _errors(await self._channel.call(endpoint, request, self._request_timeout_ms))
        except ChannelBroken:
            return None

    def _answered(self, marker: _Marker, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        transaction = marker.pending.coordinated.metadata
        again: list[TopicPartition] = []
        for topic_partition in marker.partitions:
            error = errors.get(topic_partition, ErrorCode.unknown_server_error)
            if error in _NEEDS_NONE:
                transaction.marker_written(topic_partition)
            elif error in _RETRIED:
                again.append(topic_partition)
            else:
                del self._pending[marker.pending.transactional_id]
                return
        if again:
            self._delay(_Marker(marker.pending, tuple(again)))
        self._complete_if_written(marker.pending)

    # ---- completion -------------------------------------------------------------------------------------------

    def _complete_if_written(self, pending: PendingCompletion) -> None:
        if not pending.coordinated.metadata.partitions and self._is_due(pending):
            del self._pending[pending.transactional_id]
            self._append(pending)

    def _append(self, pending: PendingCompletion) -> None:
        def done(error: ErrorCode) -> None:
            if error is ErrorCode.coordinator_not_available:
                self._appends.append(pending)
                self._retry_later()

        why = markers_written(pending.coordinated.metadata.journalled)
        self._store.append(pending.coordinated, pending.to, why, done, keeps_pending=True)


def _row(marker: _Marker) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, number in marker.partitions:
        topics.setdefault(topic, []).append(number)
    return {
        "producer_id": marker.pending.to.producer_id,
        "producer_epoch": marker.pending.to.producer_epoch,
        "transaction_result": marker.pending.commits,
        "topics": [{"name": topic, "partition_indexes": numbers} for topic, numbers in topics.items()],
        "coordinator_epoch": marker.pending.coordinated.coordinator_epoch,
    }


def _errors(response: KafkaMessage) -> dict[int, dict[TopicPartition, ErrorCode]]:
    errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for row in response.markers:
        of_producer = errors.setdefault(int(row.producer_id), {})
        for topic in row.topics:
            for each in topic.partitions:
                of_producer[TopicPartition(str(topic.name), int(each.partition_index))] = ErrorCode(each.error_code)
    return errors

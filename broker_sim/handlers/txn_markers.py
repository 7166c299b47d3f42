"""WriteTxnMarkers: a transaction coordinator ends transactions in the partitions that this broker leads (KIP-98)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.coordinator import GroupCoordinator
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.journal.events import TopicPartition
from zabka.kafka.end_transaction_marker import EndTransactionMarker
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, respond

_Errors = dict[TopicPartition, int]


class TxnMarkerHandlers:
    """Appends the markers that transaction coordinators send. The group coordinator then completes offset commits."""

    def __init__(self, replicas: ReplicaManager, groups: GroupCoordinator, request_timeout_ms: int) -> None:
        self._replicas = replicas
        self._groups = groups
        self._timeout_ms = request_timeout_ms

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {ApiKey.WRITE_TXN_MARKERS: self.write_markers}

    async def write_markers(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process WriteTxnMarkers. Return once the ISRs have replicated all markers.

        As in Kafka, the markers of one producer have one entry in the response
        (KafkaApis.handleWriteTxnMarkersRequest).
        """
        errors: dict[int, _Errors] = {}
        begun = [(marker, *self._begin(marker)) for marker in request.markers]
        for marker, refused, appended in begun:
            of_producer = errors.setdefault(int(marker.producer_id), {})
            of_producer.update(refused)
            if appended is None:
                continue
            written = {row.topic_partition: int(row.error) for row in await appended}
            of_producer.update(written)
            offsets = [
                each.partition for each, error in written.items() if each.topic == CONSUMER_OFFSETS and not error
            ]
            if offsets:
                self._groups.transaction_completed(
                    int(marker.producer_id), offsets, is_commit=bool(marker.transaction_result)
                )
        rows = [{"producer_id": producer, "topics": _by_topic(found)} for producer, found in errors.items()]
        return respond(request, markers=rows)

    def _begin(self, marker: KafkaMessage) -> tuple[_Errors, Any]:
        """Begin to append a marker. Return the errors of partitions that this broker does not host, and an awaitable
        for the results of the others.
        """
        partitions = [
            TopicPartition(str(topic.name), int(number))
            for topic in marker.topics
            for number in topic.partition_indexes
        ]
        hosted = [each for each in dict.fromkeys(partitions) if each in self._replicas.partitions]
        refused: _Errors = {
            each: ErrorCode.unknown_topic_or_partition for each in partitions if each not in self._replicas.partitions
        }
        if not hosted:
            return refused, None
        end = EndTransactionMarker(bool(marker.transaction_result), int(marker.coordinator_epoch))
        return refused, self._replicas.append_markers(
            int(marker.producer_id), int(marker.producer_epoch), end, hosted, self._timeout_ms
        )


def _by_topic(errors: _Errors) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, number), error in errors.items():
        topics.setdefault(topic, []).append({"partition_index": number, "error_code": error})
    return [{"name": topic, "partitions": rows} for topic, rows in topics.items()]

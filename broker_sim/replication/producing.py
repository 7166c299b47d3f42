"""Appends produced records and sends the responses: Kafka's ReplicaManager.appendRecords and DelayedProduce."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.logs.producer_state import AppendOrigin
from zabka.broker_sim.logs.verification_state import IN_TRANSACTION, NOT_REQUIRED, Guard
from zabka.broker_sim.ports import ProducedPartition
from zabka.broker_sim.replication.hosted_partitions import HostedPartitions
from zabka.broker_sim.replication.partition import ALL, Partition
from zabka.broker_sim.replication.partition_host import CLIENT, Appended, Sender
from zabka.broker_sim.replication.purgatory import DelayedProduce, ProduceRow, Purgatory
from zabka.broker_sim.replication.validation_scheduler import AtOnce, ValidationScheduler, cost_of
from zabka.ensemble.ports import Future, Runtime
from zabka.journal.events import RecordsAcknowledged, TopicPartition
from zabka.kafka.end_transaction_marker import EndTransactionMarker
from zabka.kafka.ports import Emit
from zabka.kafka.record_refusals import RecordsRefused
from zabka.kafka.record_validation import Validated, Validation

_ACKS = (0, 1, ALL)


def _not_produced(row: ProduceRow, error: int) -> ProducedPartition:
    refusal = row.appended.refusal
    if refusal is None:
        return ProducedPartition(row.topic_partition, error, -1, -1, -1)
    start = -1 if row.partition is None or not refusal.says_log_start else row.partition.log.start_offset
    return ProducedPartition(
        row.topic_partition, error, -1, -1, start, error_message=refusal.message, record_errors=refusal.record_errors
    )


def _sender(key: TopicPartition, origin: AppendOrigin, guards: Mapping[TopicPartition, Guard] | None) -> Sender:
    return Sender(origin, NOT_REQUIRED if guards is None else guards.get(key, IN_TRANSACTION))


class _LongAppend(NamedTuple):
    """An append that waits for the validation of its records."""

    topic_partition: TopicPartition
    partition: Partition
    outcome: Future[Validated | RecordsRefused]
    sender: Sender


class Producing:
    """A broker's appends of produced records. Long validations run in slices, so they do not block other requests."""

    def __init__(
        self, broker_id: int, runtime: Runtime, purgatory: Purgatory, hosted: HostedPartitions, emit: Emit
    ) -> None:
        self._broker_id = broker_id
        self._runtime = runtime
        self._purgatory = purgatory
        self._hosted = hosted
        self._emit = emit
        self._validations = ValidationScheduler(runtime)

    def close(self) -> None:
        """Abort the validations in progress, and reject further ones."""
        self._validations.close()

    def produce(
        self,
        batches: Sequence[tuple[TopicPartition, bytes]],
        acks: int,
        timeout_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guards: Mapping[TopicPartition, Guard] | None = None,
    ) -> Awaitable[list[ProducedPartition]]:
        """Append batches immediately, except batches whose validation takes long.

        With acks=all, the result is complete when the ISR of every partition has replicated the records. If the timeout
        expires first, the partitions that still wait for replicas get REQUEST_TIMED_OUT. The result is in the order of
        `batches`. `guards` maps each partition whose transaction was verified to the result of that verification.
        """
        answer: Future[list[ProducedPartition]] = self._runtime.future()
        with self._purgatory:
            at_once = AtOnce()
            if guards is None and origin is AppendOrigin.CLIENT:
                # Usually all partitions have the same sender, so use one shared object for it.
                begun = [self._begin_append(key, data, acks, at_once, CLIENT) for key, data in batches]
            else:
                begun = [
                    self._begin_append(key, data, acks, at_once, _sender(key, origin, guards)) for key, data in batches
                ]
        rows = [each for each in begun if isinstance(each, ProduceRow)]
        if len(rows) == len(begun):
            self._await_replicas(rows, acks, timeout_ms, answer)
        else:
            self._runtime.spawn(self._finish_appends(begun, acks, timeout_ms, answer), "long-validation")
        return answer

    def append_markers(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        partitions: Sequence[TopicPartition],
        timeout_ms: int,
    ) -> Awaitable[list[ProducedPartition]]:
        """End a producer's transaction in these partitions.

        The result is complete when the ISRs have replicated the markers.
        """
        answer: Future[list[ProducedPartition]] = self._runtime.future()
        rows = []
        with self._purgatory:
            for topic_partition in partitions:
                partition = self._hosted.partitions.get(topic_partition)
                if partition is None:
                    appended = Appended(self._hosted.absence(topic_partition))
                else:
                    try:
                        appended = partition.append_marker(producer_id, producer_epoch, marker)
                    except LogDirFailed:
                        appended = Appended(ErrorCode.kafka_storage_error)
                rows.append(ProduceRow(topic_partition, partition, appended))
        self._await_replicas(rows, ALL, timeout_ms, answer)
        return answer

    async def _finish_appends(
        self, begun: list[ProduceRow | _LongAppend], acks: int, timeout_ms: int, answer: Future[list[ProducedPartition]]
    ) -> None:
        rows = []
        for each in begun:
            if isinstance(each, ProduceRow):
                rows.append(each)
                continue
            outcome = await each.outcome
            # The partition may have been removed, or created again, in the meantime.
            if self._hosted.partitions.get(each.topic_partition) is not each.partition:
                absence = Appended(self._hosted.absence(each.topic_partition) or ErrorCode.not_leader_or_follower)
                rows.append(ProduceRow(each.topic_partition, None, absence))
                continue
            with self._purgatory:
                try:
                    appended = each.partition.append_validated(outcome, acks, each.sender)
                except LogDirFailed:
                    appended = Appended(ErrorCode.kafka_storage_error)
            rows.append(ProduceRow(each.topic_partition, each.partition, appended))
        self._await_replicas(rows, acks, timeout_ms, answer)

    def _await_replicas(
        self, rows: list[ProduceRow], acks: int, timeout_ms: int, answer: Future[list[ProducedPartition]]
    ) -> None:
        def finish(done: list[ProduceRow]) -> None:
            # The caller may no longer wait for the result.
            if not answer.done():
                answer.set_result([self._produced(row, acks) for row in done])

        if acks == ALL:
            operation = DelayedProduce(rows, finish)
            waiting = operation.waits_for()
            if waiting:
                self._purgatory.park(operation, waiting, timeout_ms)
            else:
                operation.finish(())
        else:
            for row in rows:
                row.error = row.appended.error
            finish(rows)

    def _begin_append(
        self, topic_partition: TopicPartition, data: bytes, acks: int, at_once: AtOnce, sender: Sender
    ) -> ProduceRow | _LongAppend:
        partition = self._hosted.partitions.get(topic_partition)
        if acks not in _ACKS:
            appended: Appended | Validation = Appended(ErrorCode.invalid_required_acks)
        elif partition is None:
            appended = Appended(self._hosted.absence(topic_partition))
        else:
            try:
                appended = partition.append(data, acks, at_once, sender)
            except LogDirFailed:
                appended = Appended(ErrorCode.kafka_storage_error)
        if isinstance(appended, Appended):
            return ProduceRow(topic_partition, partition, appended)
        assert partition is not None
        outcome: Future[Validated | RecordsRefused] = self._runtime.future()
        self._validations.add(appended, outcome.set_result, cost_of(data))
        return _LongAppend(topic_partition, partition, outcome, sender)

    def _produced(self, row: ProduceRow, acks: int) -> ProducedPartition:
        error = row.error or 0
        appended = row.appended
        if error or row.partition is None:
            return _not_produced(row, int(error))
        if acks:
            for header in appended.headers:
                self._emit(
                    RecordsAcknowledged(
                        broker_id=self._broker_id,
                        topic=row.topic_partition.topic,
                        partition=row.topic_partition.partition,
                        leader_epoch=row.leader_epoch,
                        first_offset=header.base_offset,
                        last_offset=header.last_offset,
                        acks=acks,
                        checksum=header.crc,
                    )
                )
        start = row.partition.log.start_offset
        return ProducedPartition(row.topic_partition, 0, appended.base_offset, appended.log_append_time_ms, start)

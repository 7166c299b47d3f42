"""Appends in transactions: before the first batch, the leader verifies the transaction (KIP-890, part 1).

Sources: ReplicaManager.handleProduceAppend, transaction.partition.verification.enable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.verification_state import NOT_REQUIRED, Guard, VerificationState
from zabka.broker_sim.ports import ProducedPartition
from zabka.broker_sim.replication.hosted_partitions import HostedPartitions
from zabka.broker_sim.replication.producing import Producing
from zabka.broker_sim.replication.transaction_verifier import TransactionVerifier
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import MAGIC, NO_PRODUCER, BatchHeader, is_transactional, read_header

_NOT_ADDED_MESSAGE = "Partition was not added to the transaction"
_RETRIABLE = (
    ErrorCode.concurrent_transactions,
    ErrorCode.network_exception,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
"""Verification errors that old producers might not retry. They are replaced by NOT_ENOUGH_REPLICAS."""


class TransactionalProducing:
    """Appends of transactional producers, and appends of offset commits in transactions."""

    def __init__(
        self, producing: Producing, hosted: HostedPartitions, verifier: TransactionVerifier, is_enabled: bool
    ) -> None:
        self.is_enabled = is_enabled
        """Whether transaction.partition.verification.enable is set on this broker."""
        self._producing = producing
        self._hosted = hosted
        self._verifier = verifier

    async def produce(
        self,
        batches: Sequence[tuple[TopicPartition, bytes]],
        acks: int,
        timeout_ms: int,
        transactional_id: str,
        knows_abortable: bool,
    ) -> list[ProducedPartition]:
        """Verify the transaction, then append as `Producing.produce` does.

        In the result, partitions with verification errors come first.
        """
        headers = {key: header for key, data in batches if (header := _transactional_header(data)) is not None}
        producers = list(dict.fromkeys((each.producer_id, each.producer_epoch) for each in headers.values()))
        if len(producers) > 1:
            return [_refused(key, ErrorCode.invalid_producer_id_mapping) for key, _ in batches]
        if not producers or not self.is_enabled:
            return await self._producing.produce(batches, acks, timeout_ms)
        sequences = {key: header.base_sequence for key, header in headers.items()}
        errors, guards = await self.verify(transactional_id, *producers[0], sequences, knows_abortable)
        refused = [_refused(key, error) for key, error in errors.items()]
        verified = [(key, data) for key, data in batches if key not in errors]
        if not verified:
            return refused
        return refused + await self._producing.produce(verified, acks, timeout_ms, guards=guards)

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequences: Mapping[TopicPartition, int],
        knows_abortable: bool,
    ) -> tuple[Mapping[TopicPartition, ErrorCode], Mapping[TopicPartition, Guard]]:
        """Return each partition's verification error or guard.

        `sequences` are the sequence numbers of the first batches.
        """
        if not self.is_enabled:
            return {}, dict.fromkeys(sequences, NOT_REQUIRED)
        errors: dict[TopicPartition, ErrorCode] = {}
        guards: dict[TopicPartition, Guard] = {}
        for key, sequence in sequences.items():
            partition = self._hosted.partitions.get(key)
            if partition is None:
                errors[key] = self._hosted.absence(key)
            elif not partition.is_leader:
                errors[key] = ErrorCode.not_leader_or_follower
            else:
                guards[key] = partition.begin_verification(producer_id, sequence, producer_epoch)
        asked = [key for key, guard in guards.items() if isinstance(guard, VerificationState)]
        if asked:
            errors |= await self._verifier.verify(transactional_id, producer_id, producer_epoch, asked, knows_abortable)
        return errors, guards


def _transactional_header(data: bytes) -> BatchHeader | None:
    header = read_header(data)
    if header is None or header.magic != MAGIC or header.producer_id == NO_PRODUCER or not is_transactional(header):
        return None
    return header


def _refused(key: TopicPartition, error: ErrorCode) -> ProducedPartition:
    if error is ErrorCode.invalid_txn_state:
        return ProducedPartition(key, error, -1, -1, -1, _NOT_ADDED_MESSAGE)
    if error in _RETRIABLE:
        message = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name.upper()}"
        )
        return ProducedPartition(key, ErrorCode.not_enough_replicas, -1, -1, -1, message)
    return ProducedPartition(key, error, -1, -1, -1)

"""Append transactional batches and markers to a log, as a partition leader does."""

from __future__ import annotations

from typing import Any

from tests.broker_sim.logs.small_log import append
from tests.kafka.produced import headers_of
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.kafka.end_transaction_marker import EndTransactionMarker, marker_batch
from zabka.kafka.record_batch import TRANSACTIONAL

A, B = 1, 2


def write(log: PartitionLog, producer_id: int, sequence: int, *keys: str, epoch: int = 0, **options: Any) -> None:
    append(
        log,
        *[(key, "v") for key in keys or ("k",)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL,
        **options,
    )


def end(
    log: PartitionLog, producer_id: int, commit: bool, *, epoch: int = 0, coordinator_epoch: int = 0, at_ms: int = 0
) -> None:
    data = marker_batch(producer_id, epoch, EndTransactionMarker(commit, coordinator_epoch), at_ms)
    log.append_as_leader(data, headers_of(data), 0)
    log.high_watermark = log.end_offset

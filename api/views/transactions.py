"""Open transactions, as the coordinators and partition leaders last reported them in the journal.

A report is valid until the next report. If the process that wrote it no longer runs, or the host of that process is
silent, the response marks the report as stale and includes its age.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from zabka.api.views.models import HeldOffset, NodeProcess, OpenTransaction, Transactions
from zabka.journal.cluster_state import ClusterState, HeldOffsetView, PartitionView, TransactionView

ProcessOf = Callable[[int], NodeProcess]
"""Function that returns the process state of the broker with the given id."""


def open_transactions(state: ClusterState, process_of: ProcessOf) -> Transactions:
    """Return the open transactions, and the partitions where read_committed consumers wait for a transaction."""
    now_us = time.time_ns() // 1000
    held = [(p, p.held) for p in state.partitions.values() if p.held is not None]
    return Transactions(
        open=[_open(each, process_of(each.broker_id), now_us) for each in state.transactions.values()],
        held=[_held(state, partition, found, process_of(found.broker_id), now_us) for partition, found in held],
    )


def _open(found: TransactionView, process: NodeProcess, now_us: int) -> OpenTransaction:
    started_ms = found.started_ms if found.started_ms >= 0 else None
    return OpenTransaction(
        transactional_id=found.transactional_id,
        state=found.state,
        coordinator=found.broker_id,
        coordinator_process=process,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        client_id=found.client_id or None,
        partitions=found.partitions,
        started_ms=started_ms,
        age_ms=None if started_ms is None else max(0, now_us // 1000 - started_ms),
        timeout_ms=found.timeout_ms or None,
        stale=process != "running",
        reported_ms_ago=max(0, (now_us - found.reported_us) // 1000),
    )


def _held(
    state: ClusterState, partition: PartitionView, found: HeldOffsetView, process: NodeProcess, now_us: int
) -> HeldOffset:
    return HeldOffset(
        topic=partition.topic,
        partition=partition.partition,
        leader=found.broker_id,
        last_stable_offset=found.offset,
        high_watermark=partition.high_watermarks.get(found.broker_id, found.high_watermark),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        transactional_id=state.holder_of(partition),
        held_ms=max(0, (now_us - found.since_us) // 1000),
        stale=process != "running",
    )

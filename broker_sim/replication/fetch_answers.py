"""Builds Fetch responses for one partition, on a leader or on a follower that consumers read from.

Source: Kafka's Partition.fetchRecords, with the epochs of KIP-320, diverging logs of KIP-595, and the preferred read
replicas of KIP-392.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.ports import AbortedTransaction, FetchedPartition, FetchParams, FetchPartition
from zabka.broker_sim.replication.isr_rules import note_still_level
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.partition_host import NO_EPOCH
from zabka.broker_sim.replication.replica_selector import ReplicaView
from zabka.kafka.record_batch import offset_after


def read(
    partition: Partition,
    requested: FetchPartition,
    params: FetchParams,
    max_bytes: int,
    at_least_one: bool,
    note_fetch: bool,
) -> FetchedPartition:
    """Read one partition for a Fetch request.

    With `note_fetch`, record the fetch offset as the follower's log end offset.
    """
    is_follower = params.replica_id >= 0
    if requested.topic_id is not None and partition.topic_id not in (None, requested.topic_id):
        return _refused(partition, ErrorCode.inconsistent_topic_id)
    preferred = _preferred_replica(partition, requested, params)
    error = partition.check_epoch(requested.current_leader_epoch, params.leader_only and preferred is None)
    if not error and is_follower:
        error = _follower_error(partition, requested, params)
    if error:
        return _refused(partition, error)
    if preferred is not None:
        log = partition.log
        return FetchedPartition(
            partition.topic_partition,
            0,
            log.high_watermark,
            log.start_offset,
            b"",
            preferred_read_replica=preferred,
            last_stable_offset=log.last_stable_offset,
        )
    error, diverging = _diverging(partition, requested)
    if not error and diverging is None:
        in_range = partition.log.start_offset <= requested.fetch_offset <= partition.log.end_offset
        error = 0 if in_range else ErrorCode.offset_out_of_range
    if error:
        return _refused(partition, error)
    records = b""
    if diverging is None:
        end = partition.readable_end(params)
        if is_follower and partition.settings.leader_throttled and partition.is_held_back(params.replica_id):
            end = requested.fetch_offset
        records = partition.log.read(requested.fetch_offset, min(requested.max_bytes, max_bytes), end, at_least_one)
        if is_follower and note_fetch:
            partition.follower_fetched(partition.followers[params.replica_id], requested, params.replica_epoch)
    log = partition.log
    row = FetchedPartition(
        partition.topic_partition,
        0,
        log.high_watermark,
        log.start_offset,
        records,
        diverging,
        last_stable_offset=log.last_stable_offset,
        aborted=_aborted(log, requested.fetch_offset, records) if params.read_committed and not is_follower else None,
    )
    if is_follower and not records and diverging is None:
        follower = partition.followers[params.replica_id]
        follower.last_request, follower.response, follower.response_epoch = requested, row, partition.leader_epoch
    return row


def _aborted(log: PartitionLog, fetch_offset: int, records: bytes) -> Sequence[AbortedTransaction]:
    """Return the aborted transactions with records in this response (LocalLog.addAbortedTransactions)."""
    if not records or not log.has_aborted_transactions:
        return ()
    return log.aborted_transactions(fetch_offset, offset_after(records, fetch_offset))


def unchanged_response(
    partition: Partition, requested: FetchPartition, params: FetchParams, now_ms: int | None
) -> FetchedPartition | None:
    """Return the previous response if a follower repeats its last fetch and nothing has changed, which is common.

    `now_ms` is the time of the fetch, or None if the fetch offset must not be recorded as the follower's log end
    offset.
    """
    follower = partition.followers.get(params.replica_id)
    if follower is None or follower.response_epoch != partition.leader_epoch:
        return None
    # Compare identities first: in a fetch session, an unchanged partition is represented by the same object.
    if follower.last_request is not requested and follower.last_request != requested:
        return None
    log, response = partition.log, follower.response
    if (
        response is None
        or response.high_watermark != log.high_watermark
        or not log.end_offset == follower.end_offset == requested.fetch_offset
        or response.log_start_offset != log.start_offset
        or params.replica_epoch != follower.broker_epoch
        or partition.leader != partition.host.broker_id
    ):
        return None
    if now_ms is not None:
        note_still_level(follower, now_ms)
        if follower.broker_id not in partition.isr_state.isr:
            partition.maybe_expand_isr(follower)
    return response


def must_answer(partition: Partition, requested: FetchPartition, leader_only: bool) -> bool:
    """Return whether a waiting fetch must be answered now, because its epoch is fenced or its log has diverged."""
    if partition.check_epoch(requested.current_leader_epoch, leader_only):
        return True
    error, diverging = _diverging(partition, requested)
    return bool(error) or diverging is not None


def _diverging(partition: Partition, requested: FetchPartition) -> tuple[int, tuple[int, int] | None]:
    """Return (error, divergence) for a fetch request that contains the epoch of the fetcher's last record."""
    if requested.last_fetched_epoch < 0:
        return 0, None
    epoch, end_offset = partition.log.epochs.end_offset_for(requested.last_fetched_epoch, partition.log.end_offset)
    if epoch == NO_EPOCH or requested.fetch_offset < partition.log.start_offset:
        return ErrorCode.offset_out_of_range, None
    if epoch < requested.last_fetched_epoch or end_offset < requested.fetch_offset:
        return 0, (epoch, end_offset)
    return 0, None


def _follower_error(partition: Partition, requested: FetchPartition, params: FetchParams) -> int:
    follower = partition.followers.get(params.replica_id)
    if follower is None:
        unknown = requested.current_leader_epoch != NO_EPOCH
        return ErrorCode.unknown_leader_epoch if unknown else ErrorCode.not_leader_or_follower
    if 0 <= params.replica_epoch < follower.broker_epoch:
        # Reject this fetch, because the follower's previous process sent it, and it was delayed.
        return ErrorCode.not_leader_or_follower
    return 0


def _preferred_replica(partition: Partition, requested: FetchPartition, params: FetchParams) -> int | None:
    """Return the replica from which the consumer should read instead of this leader, or None.

    A follower always returns None.
    """
    selector = partition.host.selector
    if selector is None or params.reader is None or params.replica_id >= 0 or not partition.is_leader:
        return None
    metadata, now_ms = partition.host.metadata, partition.now_ms()
    views = [
        ReplicaView(
            follower.broker_id,
            metadata.rack(follower.broker_id),
            follower.end_offset,
            now_ms - follower.last_caught_up_ms,
        )
        for follower in partition.followers.values()
        if follower.broker_id in partition.isr_state.isr
        and follower.start_offset <= requested.fetch_offset <= follower.end_offset
        and metadata.is_alive(follower.broker_id)
    ]
    own = partition.host.broker_id
    leader = ReplicaView(own, metadata.rack(own), partition.log.end_offset, 0)
    chosen = selector(params.reader.rack, [*views, leader], leader)
    return None if chosen == own else chosen


def _refused(partition: Partition, error: int) -> FetchedPartition:
    return FetchedPartition(partition.topic_partition, error, -1, -1, b"")

"""One partition's row in the answer to a Fetch, as its version has it."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from zabka.broker_sim.ports import FetchedPartition
from zabka.kafka.wire.data_messages import (
    NOT_DIVERGING,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
    error_code,
)

_KNOWS_STORAGE_ERROR = 6


def fetched_row(row: FetchedPartition, version: int, leader: LeaderIdAndEpoch) -> PartitionData:
    """What was read of a partition; `leader` is whom to ask instead, where that is another broker."""
    error = row.error
    if error == ErrorCode.kafka_storage_error and version < _KNOWS_STORAGE_ERROR:
        # A client that old takes it for fatal; this error makes it look for the leader again.
        error = ErrorCode.not_leader_or_follower
    return PartitionData(
        row.topic_partition.partition,
        error_code(error),
        row.high_watermark,
        # Without transactions every record below the high watermark is stable.
        row.high_watermark,
        row.log_start_offset,
        row.records,
        diverging_epoch=NOT_DIVERGING if row.diverging is None else EpochEndOffset(*row.diverging),
        current_leader=leader,
        preferred_read_replica=row.preferred_read_replica,
    )

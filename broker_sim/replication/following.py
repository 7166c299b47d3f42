"""Changes that a follower makes to its log: append, truncate, restart at another offset."""

from __future__ import annotations

from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.partition_host import NO_EPOCH
from zabka.journal.cause import Cause
from zabka.journal.events import LogTruncated, RecordsLost, RecordsReplicated
from zabka.kafka.record_batch import is_compacted, split_batches

TO_HIGH_WATERMARK = "high_watermark"
"""Cause of a truncation to the replica's own high watermark, which Kafka did before KIP-101."""


def append_fetched(partition: Partition, data: bytes, leader_high_watermark: int, leader_start_offset: int) -> bool:
    """Append the leader's records, then apply the leader's high watermark and log start.

    The high watermark is limited to this log's end. Returns False, without writing anything, if the records are damaged
    or do not continue this log.
    """
    assert not partition.is_leader
    mark_before = partition.log.high_watermark
    if data:
        headers = split_batches(data)
        if leader_start_offset >= partition.log.end_offset:
            # The leader has deleted every record that this log contains, so the next record may have any offset.
            # Kafka's replica fails here.
            partition.log.advance_start(partition.log.end_offset)
        if headers is None or (headers and not partition.log.append_as_follower(data, headers)):
            return False
        topic, number = partition.topic_partition
        for header in headers:
            partition.host.emit(
                RecordsReplicated(
                    broker_id=partition.host.broker_id,
                    topic=topic,
                    partition=number,
                    leader_epoch=header.leader_epoch,
                    first_offset=header.base_offset,
                    last_offset=header.last_offset,
                    checksum=header.crc,
                    compacted=is_compacted(header),
                )
            )
        partition.host.moved(partition)
    mark = max(partition.log.start_offset, min(leader_high_watermark, partition.log.end_offset))
    if mark != mark_before:
        partition.set_high_watermark(mark)
        # Wake waiting fetches, because consumers may be reading from this replica (KIP-392).
        partition.host.wake(partition.topic_partition)
    if leader_start_offset > partition.log.start_offset:
        partition.log.advance_start(min(leader_start_offset, partition.log.high_watermark))
    return True


def truncate_to_divergence(partition: Partition, leader_epoch: int, leader_end_offset: int) -> None:
    """Truncate this replica's log where it diverges from the leader's log.

    The two logs diverge at or before the leader's end offset of that epoch. If this log lacks the epoch, it is
    truncated after the largest lower epoch, and the next fetch checks again (KIP-279).
    """
    epoch, end_offset = partition.log.epochs.end_offset_for(leader_epoch, partition.log.end_offset)
    if epoch == NO_EPOCH:
        target = leader_end_offset
    elif epoch != leader_epoch:
        target = end_offset
    else:
        target = min(end_offset, leader_end_offset)
    truncate(partition, min(target, partition.log.end_offset), "diverging_epoch")


def truncate(partition: Partition, offset: int, cause: str) -> None:
    """Drop all records from `offset` on, and journal the truncation."""
    before, mark = partition.log.end_offset, partition.log.high_watermark
    # A replica that truncates to its own high watermark will fetch the committed records again. Do not count them as
    # lost.
    reached = mark if cause == TO_HIGH_WATERMARK else max(mark, partition.log.reached)
    epoch = partition.log.epochs.epoch_for_offset(before - 1)
    first = partition.log.truncate_to(offset)
    partition.log.reached = min(partition.log.reached, first)
    if first < before:
        cut = _journal_truncation(partition, first, before, cause)
        _journal_loss(partition, first, before, reached=reached, leader_epoch=epoch, cause=cause, cut=cut)
    _truncated(partition, mark)


def restart_at(partition: Partition, offset: int) -> None:
    """Restart the log at the leader's log start, because the leader has deleted every record of this log."""
    first, before, mark = partition.log.start_offset, partition.log.end_offset, partition.log.high_watermark
    partition.log.truncate_fully_and_start_at(offset)
    partition.log.reached = 0
    _journal_truncation(partition, first, before, "leader_start", offset)
    _truncated(partition, mark)


def _truncated(partition: Partition, mark_before: int) -> None:
    if partition.log.high_watermark != mark_before:
        partition.set_high_watermark(partition.log.high_watermark)
    partition.host.moved(partition)


def _journal_truncation(partition: Partition, first: int, before: int, cause: str, begins_at: int = -1) -> Cause:
    topic, number = partition.topic_partition
    return partition.host.emit(
        LogTruncated(
            broker_id=partition.host.broker_id,
            topic=topic,
            partition=number,
            from_offset=before,
            to_offset=first,
            leader_epoch=partition.leader_epoch,
            caused_by=partition.followed_because,
            cause=cause,
            begins_at=begins_at,
        )
    )


def _journal_loss(
    partition: Partition, first: int, before: int, *, reached: int, leader_epoch: int, cause: str, cut: Cause
) -> None:
    broker_id = partition.host.broker_id
    committed = max(0, min(reached, before) - first)
    topic, number = partition.topic_partition
    partition.host.emit(
        RecordsLost(
            broker_id=broker_id,
            topic=topic,
            partition=number,
            first_offset=first,
            last_offset=before - 1,
            count=before - first,
            below_high_watermark=committed,
            committed_at_least=committed,
            cause=cause,
            caused_by=cut,
            topic_id=partition.topic_id or "",
            leader_epoch=leader_epoch,
        )
    )

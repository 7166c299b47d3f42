"""Moves replicas from one log directory of a broker to another (KIP-113).

Source: Kafka's ReplicaAlterLogDirsThread. A future replica is copied from the current one and replaces it when both
have the same records. Partitions are moved one at a time, in sorted order, so that each move completes soon.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.replica_config import ReplicaConfig
from zabka.broker_sim.logs.directory_names import LENGTH_MAX, future_name
from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.logs.log_manager import LogManager
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.retention import drop_below_start
from zabka.broker_sim.quotas.replication_throttles import ReplicationQuota
from zabka.broker_sim.replication.partition import Partition
from zabka.ensemble.ports import Runtime, Task
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import split_batches

_UNIQUE_LENGTH = 32


class LogDirMoves:
    """The moves of a broker's replicas between log directories."""

    def __init__(self, logs: LogManager, config: ReplicaConfig, runtime: Runtime, throttle: ReplicationQuota) -> None:
        self._logs = logs
        self._config = config
        self._runtime = runtime
        self._throttle = throttle
        self._moving: dict[TopicPartition, Partition] = {}
        self._now: TopicPartition | None = None
        """The partition that is being copied. After its move is complete, the next partition is copied."""
        self._task: Task | None = None

    def start_move(self, topic_partition: TopicPartition, partition: Partition | None, place: int) -> ErrorCode:
        """Move a replica into the directory at index `place` of log.dirs. Cancel a move to another directory.

        If this broker does not host the replica yet, it will be created in that directory. In that case, return
        REPLICA_NOT_AVAILABLE, as Kafka does.
        """
        if len(future_name(topic_partition, "0" * _UNIQUE_LENGTH)) > LENGTH_MAX:
            return ErrorCode.invalid_topic_exception
        try:
            is_elsewhere = self._logs.prefer(topic_partition, place)
            if partition is None:
                return ErrorCode.replica_not_available
            if is_elsewhere or not self._logs.lies_in(topic_partition, place):
                self._begin(partition, is_elsewhere)
            else:
                self.give_up(topic_partition, partition)
        except LogDirFailed:
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    def _begin(self, partition: Partition, is_elsewhere: bool) -> None:
        if is_elsewhere:
            self.give_up(partition.topic_partition, partition)
            partition.future = self._logs.begin_future(partition.topic_partition)
        self.resume(partition)

    def give_up(self, topic_partition: TopicPartition, partition: Partition | None) -> None:
        """Cancel the move of a replica, and delete the copy. Raises LogDirFailed."""
        self.lost(topic_partition, partition)
        self._logs.drop_future(topic_partition)

    def pause(self, topic_partition: TopicPartition) -> None:
        """Stop copying a replica, but do not delete the copy."""
        self._moving.pop(topic_partition, None)

    def lost(self, topic_partition: TopicPartition, partition: Partition | None) -> None:
        """Cancel the move of a replica because the copy's directory has failed."""
        self.pause(topic_partition)
        if partition is not None:
            partition.future = None
            # DeleteRecords requests also wait for the copy, so check them again.
            partition.host.wake(topic_partition)

    def resume(self, partition: Partition) -> None:
        """Continue the move of a replica if a copy of it exists."""
        partition.future = self._logs.future(partition.topic_partition)
        if partition.future is not None:
            self._moving[partition.topic_partition] = partition
            if self._task is None:
                self._task = self._runtime.spawn(self._run(), "moves between log directories")

    def close(self) -> None:
        """Stop copying. The copies stay on disk and are continued after the next start."""
        self._moving.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while self._moving:
            if self._now not in self._moving:
                self._now = min(self._moving)
            partition = self._moving[self._now]
            try:
                advanced = not self._throttle.is_exceeded and self._copy_some(partition)
            except LogDirFailed:
                # One of the two log directories failed. Pause the copy until the broker is notified which directory it
                # was.
                self.pause(partition.topic_partition)
                continue
            await self._runtime.sleep(0 if advanced else self._config.replica_fetch_backoff_ms)
        self._task = None

    def _copy_some(self, partition: Partition) -> bool:
        """Copy up to one fetch's worth of data. Return False if nothing was copied."""
        current, future = partition.log, partition.future
        assert future is not None
        start = future.start_offset
        cut = _make_agree(current, future)
        data = current.read(future.end_offset, self._config.replica_fetch_max_bytes, current.end_offset, True)
        appended = _append(current, future, data)
        self._throttle.note(len(data))
        future.high_watermark = max(future.start_offset, min(current.high_watermark, future.end_offset))
        if future.advance_start(min(current.start_offset, future.high_watermark)):
            drop_below_start(future)
        if future.start_offset != start:
            # Wake DeleteRecords requests that wait for this copy. In Kafka they would continue to wait.
            partition.host.wake(partition.topic_partition)
        if future.end_offset != current.end_offset:
            return appended or cut
        partition.log = self._logs.replace_with_future(partition.topic_partition)
        partition.future = None
        self.pause(partition.topic_partition)
        partition.host.wake(partition.topic_partition)
        return True


def _make_agree(current: PartitionLog, future: PartitionLog) -> bool:
    """Truncate or restart the copy where it differs from the replica. Return whether the copy was changed.

    The replica may have been truncated and may have got other records while the copy was in an offline directory.
    """
    if not current.start_offset <= future.end_offset:
        future.truncate_fully_and_start_at(current.start_offset)
        return True
    if future.end_offset == future.start_offset or future.epochs.latest < 0:
        return False
    epoch, end = current.epochs.end_offset_for(future.epochs.latest, current.end_offset)
    if epoch < 0:
        future.truncate_fully_and_start_at(current.start_offset)
    elif epoch < future.epochs.latest:
        future.truncate_to(min(end, future.epochs.end_offset_for(epoch, future.end_offset)[1]))
    elif end < future.end_offset:
        future.truncate_to(end)
    else:
        return False
    return True


def _append(current: PartitionLog, future: PartitionLog, data: bytes) -> bool:
    """Append the copied data. Return False if nothing can be appended."""
    headers = split_batches(data)
    if not headers:
        return False
    if headers[0].base_offset < future.end_offset and future.end_offset > future.start_offset:
        future.truncate_fully_and_start_at(current.start_offset)
        return True
    return future.append_as_follower(data, headers)

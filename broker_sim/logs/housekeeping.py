"""Periodic work on logs: retention, compaction, expiry of idle producers (Kafka's LogManager, LogCleaner)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from zabka.broker_sim.configs.replica_config import PartitionConfig, ReplicaConfig
from zabka.broker_sim.logs import retention
from zabka.broker_sim.logs.cleaner import compact, is_filthy
from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.logs.log_manager import LogManager
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.segment import Segment
from zabka.ensemble.ports import Runtime, Task
from zabka.journal.events import LogCompacted, TopicPartition
from zabka.kafka.ports import Emit


class LogHousekeeping:
    """The periodic work on all logs of a broker.

    `start_moved` is called for each log whose start offset has advanced.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        config: ReplicaConfig,
        runtime: Runtime,
        emit: Emit,
        start_moved: Callable[[TopicPartition], None],
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._config = config
        self._runtime = runtime
        self._emit = emit
        self._start_moved = start_moved
        self._compaction: Task | None = None
        self._every: Callable[[str, int, Callable[[], None]], None] | None = None
        """Schedules an action with a period; set by `start`."""

    def start(self, every: Callable[[str, int, Callable[[], None]], None]) -> None:
        """Start the periodic work. `every` schedules an action with a period in milliseconds."""
        self._every = every
        config = self._config
        every("retention", config.log_retention_check_interval_ms, self.drop_old_records)
        every("log-starts", config.log_flush_start_offset_checkpoint_interval_ms, self._logs.checkpoint_starts)
        every("producers", config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._look_for_compaction()

    def configure(self, config: ReplicaConfig) -> None:
        """Replace the configuration, effective at the next run of each task."""
        backoff_ms, self._config = self._config.log_cleaner_backoff_ms, config
        if config.log_cleaner_backoff_ms != backoff_ms:
            self._look_for_compaction()

    def _look_for_compaction(self) -> None:
        if self._every is not None and self._config.log_cleaner_enable:
            self._every("compaction", max(1, self._config.log_cleaner_backoff_ms), self._compact_later)

    def close(self) -> None:
        """Abort a compaction in progress.

        The aborted compaction leaves at most a temporary file, which the next start of the broker removes.
        """
        if self._compaction is not None:
            self._compaction.cancel()

    def drop_old_records(self) -> None:
        """Drop the segments that exceed their topics' retention."""
        for topic_partition, log, settings in self._each():
            before = log.start_offset
            with suppress(LogDirFailed):
                self._drop_segments(log, settings)
            if log.start_offset != before:
                self._start_moved(topic_partition)

    def _each(self) -> Iterator[tuple[TopicPartition, PartitionLog, PartitionConfig]]:
        """Yield every log with its topic's settings. The settings are computed once per topic."""
        known: dict[str, PartitionConfig] = {}
        for topic_partition, log in self._logs.all():
            settings = known.get(topic_partition.topic)
            if settings is None:
                settings = known[topic_partition.topic] = self._logs.settings(topic_partition.topic)
            yield topic_partition, log, settings

    def _drop_segments(self, log: PartitionLog, settings: PartitionConfig) -> None:
        retention.drop_below_start(log)
        if settings.deletes:
            retention.drop_older(log, settings.retention_ms, self._runtime.now().wall_ms)
            retention.drop_beyond(log, settings.retention_bytes)

    def _expire_producers(self) -> None:
        wall_ms = self._runtime.now().wall_ms
        for _, log in self._logs.all():
            log.producers.expire(wall_ms - self._config.producer_id_expiration_ms)

    def _compact_later(self) -> None:
        if self._compaction is None:
            wall_ms = self._runtime.now().wall_ms
            for _, log, settings in self._each():
                if settings.compacts and is_filthy(log, settings.compaction, wall_ms):
                    self._compaction = self._runtime.spawn(self._compact_all(), "compaction")
                    return

    async def _compact_all(self) -> None:
        try:
            for topic_partition, log, settings in self._each():
                wall_ms = self._runtime.now().wall_ms
                is_moving = self._logs.future(topic_partition) is not None
                if settings.compacts and not is_moving and is_filthy(log, settings.compaction, wall_ms):
                    before_replacing = partial(self._before_replacing, topic_partition)
                    with suppress(LogDirFailed):
                        await compact(log, settings.compaction, self._runtime, before_replacing)
                        self._logs.checkpoint_starts()
        finally:
            self._compaction = None

    def _before_replacing(self, topic_partition: TopicPartition, segment: Segment, bytes_after: int) -> None:
        """Checkpoint the log starts, and journal that compaction is about to replace a segment.

        A replica that is rebuilt from the compacted log lacks the removed records, and its batches differ from those of
        other replicas.
        """
        topic, number = topic_partition
        # Checkpoint the log starts first. Otherwise, if the process is killed, deleted records reappear, and this
        # compaction may have removed the batches by which the deleted records would be recognised.
        self._logs.checkpoint_starts()
        self._emit(
            LogCompacted(
                broker_id=self._broker_id,
                topic=topic,
                partition=number,
                first_offset=segment.base_offset,
                last_offset=segment.end_offset - 1,
                bytes_before=segment.size,
                bytes_after=bytes_after,
            )
        )

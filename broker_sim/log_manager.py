"""All logs of one broker, over all of its log directories: opening at start, checkpoints, a clean stop (LogManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from broker_sim import checkpoints
from broker_sim.guarded_directory import GuardedDirectory, LogDirFailed
from broker_sim.partition_log import PartitionLog
from broker_sim.ports import LogDirectory
from broker_sim.replica_config import PartitionConfig, ReplicaConfig, TopicConfigs, partition_config
from controller.ports import Emit
from journal.events import LogDamageFound, RecordsLost, ReplicaLoaded, TopicPartition

_CLEAN_SHUTDOWN_TEXT = '{"version":0}'


def partition_of(directory_name: str) -> TopicPartition | None:
    """The partition a replica directory belongs to (topic-number); None where the name is not of that form."""
    topic, dash, number = directory_name.rpartition("-")
    if not (dash and topic and number.isdigit() and number.isascii()) or str(int(number)) != number:
        return None
    return TopicPartition(topic, int(number))


class _LogDir:
    """One log directory and the logs in it."""

    __slots__ = ("checkpointed", "directory", "logs")

    def __init__(self, directory: GuardedDirectory) -> None:
        self.directory = directory
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.checkpointed: dict[str, dict[TopicPartition, int]] = {}
        """What each checkpoint file says."""

    def checkpoint(self, file: str, offsets: dict[TopicPartition, int]) -> None:
        """Write a checkpoint of offsets, unless it says that already."""
        if self.checkpointed.get(file, {}) != offsets:
            self.checkpointed[file] = offsets
            checkpoints.write_offsets(self.directory, file, offsets)

    def read_checkpoint(self, file: str) -> dict[TopicPartition, int]:
        """What a checkpoint says."""
        self.checkpointed[file] = checkpoints.read_offsets(self.directory, file)
        return dict(self.checkpointed[file])


class LogManager:
    """The logs by partition.  Raises LogDirFailed wherever the directory of a log has failed."""

    def __init__(
        self,
        broker_id: int,
        directories: Sequence[LogDirectory],
        config: ReplicaConfig,
        topic_configs: TopicConfigs,
        emit: Emit,
        failed: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        """`failed` is told which partitions a failing directory takes with it, in the midst of what met the failure."""
        self._broker_id = broker_id
        self._config = config
        self._topic_configs = topic_configs
        self._emit = emit
        self._failed = failed
        self._dirs = [_LogDir(GuardedDirectory(directory, self._dir_failed)) for directory in directories]
        self._topic_ids: dict[TopicPartition, str] = {}

    def settings(self, topic: str) -> PartitionConfig:
        """What holds for a topic now."""
        return partition_config(self._config, self._topic_configs(topic))

    # ---- directories -------------------------------------------------------------------------------------------

    def _online(self) -> Iterator[_LogDir]:
        return (log_dir for log_dir in self._dirs if log_dir.directory.is_online)

    @property
    def has_offline_directory(self) -> bool:
        """Has any directory failed?"""
        return any(not log_dir.directory.is_online for log_dir in self._dirs)

    @property
    def is_offline(self) -> bool:
        """Have all?"""
        return not any(True for _ in self._online())

    def _dir_failed(self, directory: GuardedDirectory, failure: OSError) -> None:
        (log_dir,) = (each for each in self._dirs if each.directory is directory)
        lost = sorted(log_dir.logs)
        for log in log_dir.logs.values():
            with suppress(OSError):
                log.close()
        log_dir.logs.clear()
        self._emit(LogDamageFound(f"log.dirs[{self._dirs.index(log_dir)}]", 0, str(failure), "taken offline"))
        self._failed(lost)

    def _dir_of(self, topic_partition: TopicPartition) -> _LogDir | None:
        return next((log_dir for log_dir in self._dirs if topic_partition in log_dir.logs), None)

    # ---- opening -----------------------------------------------------------------------------------------------

    def open_all(self) -> None:
        """Open what is on disk; high watermarks and starts come from their checkpoints, within what a log holds."""
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                self._open_dir(log_dir)

    def _open_dir(self, log_dir: _LogDir) -> None:
        directory = log_dir.directory
        stopped_cleanly = directory.read_text("", checkpoints.CLEAN_SHUTDOWN) is not None
        directory.remove("", checkpoints.CLEAN_SHUTDOWN)
        marks = log_dir.read_checkpoint(checkpoints.REPLICATION_OFFSETS)
        starts = log_dir.read_checkpoint(checkpoints.LOG_START_OFFSETS)
        cleaned = log_dir.read_checkpoint(checkpoints.CLEANER_OFFSETS)
        for name in directory.partitions():
            topic_partition = partition_of(name)
            if topic_partition is None:
                continue
            log = self._open(log_dir, topic_partition, stopped_cleanly)
            log.advance_start(min(starts.get(topic_partition, 0), log.end_offset))
            log.first_dirty_offset = min(cleaned.get(topic_partition, 0), log.end_offset)
            mark = marks.get(topic_partition, 0)
            log.high_watermark = min(max(mark, log.start_offset), log.end_offset)
            self._emit(
                ReplicaLoaded(
                    broker_id=self._broker_id,
                    topic=topic_partition.topic,
                    partition=topic_partition.partition,
                    log_end_offset=log.end_offset,
                    high_watermark=log.high_watermark,
                )
            )
            if mark > log.end_offset:
                self._journal_loss(topic_partition, log.end_offset, mark)

    def _journal_loss(self, topic_partition: TopicPartition, end_offset: int, mark: int) -> None:
        """The log ends below what was committed when the mark was written: a power loss, or damage, took the rest."""
        self._emit(
            RecordsLost(
                broker_id=self._broker_id,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                first_offset=end_offset,
                last_offset=mark - 1,
                count=mark - end_offset,
                below_high_watermark=mark - end_offset,
                cause="missing_at_start",
            )
        )

    def _open(self, log_dir: _LogDir, topic_partition: TopicPartition, stopped_cleanly: bool) -> PartitionLog:
        settings = self.settings(topic_partition.topic)
        log = PartitionLog(
            log_dir.directory,
            topic_partition,
            segment_bytes=settings.segment_bytes,
            segment_ms=settings.segment_ms,
            index_interval_bytes=self._config.log_index_interval_bytes,
            stopped_cleanly=stopped_cleanly,
        )
        log_dir.logs[topic_partition] = log
        topic_id = checkpoints.read_topic_id(log_dir.directory, log.name)
        if topic_id is not None:
            self._topic_ids[topic_partition] = topic_id
        for damage in log.damage:
            self._emit(LogDamageFound(f"{log.name}/{damage.file}", damage.position, damage.reason, "truncated"))
        return log

    # ---- logs --------------------------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition, if there is one here."""
        log_dir = self._dir_of(topic_partition)
        return None if log_dir is None else log_dir.logs[topic_partition]

    def all(self) -> list[tuple[TopicPartition, PartitionLog]]:
        """Every log, in the order of partitions."""
        return sorted((item for log_dir in self._dirs for item in log_dir.logs.items()), key=lambda item: item[0])

    def by_directory(self) -> list[dict[TopicPartition, PartitionLog] | None]:
        """For each of log.dirs the logs in it, in the order of partitions; None where it is offline."""
        return [dict(sorted(each.logs.items())) if each.directory.is_online else None for each in self._dirs]

    def get_or_create(self, topic_partition: TopicPartition, is_new: bool = True) -> PartitionLog:
        """The log of a partition, created where it is missing, in the directory with the fewest.

        While a directory is offline the log of a partition that is not new may lie there: LogDirFailed then, rather
        than an empty log in the place of a full one.
        """
        known = self.get(topic_partition)
        if known is not None:
            return known
        if self.is_offline or (self.has_offline_directory and not is_new):
            raise LogDirFailed
        log_dir = min(self._online(), key=lambda each: len(each.logs))
        return self._open(log_dir, topic_partition, stopped_cleanly=False)

    def topic_id(self, topic_partition: TopicPartition) -> str | None:
        """The topic id that the log was created under."""
        return self._topic_ids.get(topic_partition)

    def set_topic_id(self, topic_partition: TopicPartition, topic_id: str) -> None:
        """Write the topic id beside the log, once."""
        log_dir = self._dir_of(topic_partition)
        if topic_partition not in self._topic_ids and log_dir is not None:
            self._topic_ids[topic_partition] = topic_id
            checkpoints.write_topic_id(log_dir.directory, str(topic_partition), topic_id)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Remove a partition's log, if there is one, and what the checkpoints say of it."""
        log_dir = self._dir_of(topic_partition)
        self._topic_ids.pop(topic_partition, None)
        if log_dir is not None:
            log_dir.logs.pop(topic_partition).delete()
            self._checkpoint_marks(log_dir)
            self._checkpoint_starts(log_dir)

    # ---- checkpoints and the end -------------------------------------------------------------------------------

    def checkpoint_high_watermarks(self) -> None:
        """Write all high watermarks, unless none has moved since the last time."""
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                self._checkpoint_marks(log_dir)

    def checkpoint_starts(self) -> None:
        """Write where logs start that do not start with a segment, and how far compaction has come."""
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                self._checkpoint_starts(log_dir)

    def _checkpoint_marks(self, log_dir: _LogDir) -> None:
        log_dir.checkpoint(
            checkpoints.REPLICATION_OFFSETS, {tp: log.high_watermark for tp, log in log_dir.logs.items()}
        )

    def _checkpoint_starts(self, log_dir: _LogDir) -> None:
        starts = {tp: log.start_offset for tp, log in log_dir.logs.items() if log.starts_within_a_segment}
        log_dir.checkpoint(checkpoints.LOG_START_OFFSETS, starts)
        cleaned = {tp: log.first_dirty_offset for tp, log in log_dir.logs.items() if log.first_dirty_offset}
        log_dir.checkpoint(checkpoints.CLEANER_OFFSETS, cleaned)

    def close(self) -> None:
        """Stop cleanly: everything flushed, checkpoints written, and a mark that says so."""
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                for log in log_dir.logs.values():
                    log.flush()
                    log.close()
                self._checkpoint_marks(log_dir)
                self._checkpoint_starts(log_dir)
                log_dir.directory.write_text("", checkpoints.CLEAN_SHUTDOWN, _CLEAN_SHUTDOWN_TEXT)
                log_dir.logs.clear()

"""All logs of one broker, in all log directories: opening them at start, checkpoints, a clean shutdown (LogManager)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from zabka.broker_sim.configs.replica_config import PartitionConfig, ReplicaConfig, TopicConfigs, partition_config
from zabka.broker_sim.logs import checkpoints
from zabka.broker_sim.logs.directory_names import delete_name, future_name, future_of, is_deleted, partition_of
from zabka.broker_sim.logs.guarded_directory import GuardedDirectory, LogDirFailed
from zabka.broker_sim.logs.meta_properties import claim_log_directory
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.ports import DiskSpace, LogDirectory, ReachedMarks
from zabka.journal.cause import START
from zabka.journal.events import LogDamageFound, RecordsLost, ReplicaLoaded, TopicPartition
from zabka.kafka.ports import UNKNOWN_BROKER_EPOCH, Emit


class LogDir:
    """A log directory with its logs, and with the checkpoint files that contain their offsets (OffsetCheckpointFile).

    Every write raises LogDirFailed if the directory has failed.
    """

    __slots__ = ("_checkpointed", "directory", "futures", "logs")

    def __init__(self, directory: GuardedDirectory) -> None:
        self.directory = directory
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        """Copies of logs in other directories. Each copy will replace its log."""
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}
        """The offsets last written to each checkpoint file, keyed by file name."""

    @property
    def all(self) -> dict[TopicPartition, PartitionLog]:
        """Return the current and future logs. Per partition, a directory contains at most one of the two."""
        return self.logs | self.futures if self.futures else self.logs

    def read_checkpoint(self, file: str) -> dict[TopicPartition, int]:
        """Return the offsets in a checkpoint file."""
        self._checkpointed[file] = checkpoints.read_offsets(self.directory, file)
        return dict(self._checkpointed[file])

    def write_high_watermarks(self) -> None:
        """Write the checkpoint file of high watermarks, even if none has advanced. Without logs, write nothing."""
        if self.all:
            self._write(checkpoints.REPLICATION_OFFSETS, self._high_watermarks)

    def checkpoint_high_watermarks(self) -> None:
        """Write the checkpoint file of high watermarks if any of them has changed."""
        self._checkpoint(checkpoints.REPLICATION_OFFSETS, self._high_watermarks)

    def checkpoint_starts(self) -> None:
        """Write two checkpoint files: the logs' start offsets, and the offsets up to which the logs are compacted.

        A log start offset is written only if it is within a segment.
        """
        starts = {tp: log.start_offset for tp, log in self.all.items() if log.starts_within_a_segment}
        self._checkpoint(checkpoints.LOG_START_OFFSETS, starts)
        cleaned = {tp: log.first_dirty_offset for tp, log in self.all.items() if log.first_dirty_offset}
        self._checkpoint(checkpoints.CLEANER_OFFSETS, cleaned)

    @property
    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {topic_partition: log.high_watermark for topic_partition, log in self.all.items()}

    def _checkpoint(self, file: str, offsets: dict[TopicPartition, int]) -> None:
        if self._checkpointed.get(file, {}) != offsets:
            self._write(file, offsets)

    def _write(self, file: str, offsets: dict[TopicPartition, int]) -> None:
        self._checkpointed[file] = offsets
        checkpoints.write_offsets(self.directory, file, offsets)


class DuplicateReplicas(Exception):
    """Two log directories contain different replicas of one partition. The message is for the user."""


class DirectoryLogs(NamedTuple):
    """The logs in one log directory: current replicas, and future replicas that are being copied into this
    directory.
    """

    current: Mapping[TopicPartition, PartitionLog]
    future: Mapping[TopicPartition, PartitionLog]
    space: DiskSpace | None
    """Total and usable space of the file system; None if the file system did not report it."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


class LogManager:
    """The logs of a broker, keyed by partition.

    Every method that uses a log raises LogDirFailed if the log's directory has failed.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        directories: Sequence[LogDirectory],
        config: ReplicaConfig,
        topic_configs: TopicConfigs,
        emit: Emit,
        failed: Callable[[Sequence[TopicPartition], Sequence[TopicPartition]], None],
        unique: Callable[[], str],
        high_watermarks_reached: ReachedMarks = dict,
    ) -> None:
        """Create the manager; `open_all` opens the logs.

        `failed` receives the current and the future replicas in a failing directory, during the failed operation.
        `unique` returns a string that is different for each call and is used in names. `high_watermarks_reached` is
        called when logs are opened; it is used only to count lost records.
        """
        self._broker_id = broker_id
        self._config = config
        self._topic_configs = topic_configs
        self._emit = emit
        self._failed = failed
        self._dirs = [LogDir(GuardedDirectory(directory, self._dir_failed)) for directory in directories]
        self._topic_ids: dict[TopicPartition, str] = {}
        self._epochs_left: list[int] = []
        """The broker epochs in the shutdown markers of the log directories, as found when the directories were
        opened.
        """
        self._alive_as: int = UNKNOWN_BROKER_EPOCH
        """The broker epoch in the markers that this process has written to every disk."""
        self._last_failure: OSError | None = None
        self._was_whole = True
        """Whether all logs were undamaged when they were opened."""
        self._unique = unique
        self._high_watermarks_reached = high_watermarks_reached
        self._preferred: dict[TopicPartition, LogDir] = {}
        """The log directories that requests have chosen for logs that do not exist yet."""

    def configure(self, config: ReplicaConfig) -> None:
        """Replace the configuration that contains the defaults of topics."""
        self._config = config

    def settings(self, topic: str) -> PartitionConfig:
        """Return the current settings of a topic."""
        return partition_config(self._config, self._topic_configs(topic))

    def reconfigure(self, topics: Iterable[str]) -> dict[str, PartitionConfig]:
        """Apply the current settings of these topics to their logs, and return the settings.

        The settings also apply to logs of replicas that are neither leader nor follower yet, and to copies that will
        replace a log in another directory.
        """
        settings = {topic: self.settings(topic) for topic in topics}
        for log in (log for log_dir in self._dirs for log in log_dir.all.values()):
            found = settings.get(log.topic_partition.topic)
            if found is not None:
                log.segment_bytes, log.segment_ms = found.segment_bytes, found.segment_ms
        return settings

    # ---- directories -------------------------------------------------------------------------------------------

    def _online(self) -> Iterator[LogDir]:
        return (log_dir for log_dir in self._dirs if log_dir.directory.is_online)

    @property
    def broker_epoch_left(self) -> int:
        """The broker epoch of the process that last used all these logs, or -1 if records may have been lost since.

        No records are lost if that process shut down each log cleanly, or was killed on a system that has not rebooted.
        """
        complete = self._was_whole and not self.has_offline_directory and len(self._epochs_left) == len(self._dirs)
        return min(self._epochs_left) if complete else UNKNOWN_BROKER_EPOCH

    @property
    def has_offline_directory(self) -> bool:
        """Whether any directory has failed."""
        return any(not log_dir.directory.is_online for log_dir in self._dirs)

    @property
    def is_offline(self) -> bool:
        """Whether all directories have failed."""
        return not any(True for _ in self._online())

    @property
    def complaint(self) -> str:
        """The reason why no directory is online, with the remedy if one is known."""
        text = "every log directory has failed"
        if self._last_failure is not None and self._last_failure.errno in _FULL:
            text += ", the last one because its disk is full: make room and start this broker again"
        return text

    def _dir_failed(self, directory: GuardedDirectory, failure: OSError) -> None:
        (log_dir,) = (each for each in self._dirs if each.directory is directory)
        self._last_failure = failure
        lost, futures = sorted(log_dir.logs), sorted(log_dir.futures)
        for log in log_dir.all.values():
            with suppress(OSError):
                log.close()
        log_dir.logs.clear()
        log_dir.futures.clear()
        # This process has written data that are now unreachable or lost, so its logs no longer count as intact.
        self._alive_as = UNKNOWN_BROKER_EPOCH
        for each in self._dirs:
            each.directory.forget("", checkpoints.ALIVE)
        self._emit(LogDamageFound(f"log.dirs[{self._dirs.index(log_dir)}]", 0, str(failure), "taken offline"))
        self._failed(lost, futures)

    def _dir_of(self, topic_partition: TopicPartition) -> LogDir | None:
        return next((log_dir for log_dir in self._dirs if topic_partition in log_dir.logs), None)

    def claim(self, cluster_id: str) -> None:
        """Check that the directories belong to this cluster and broker, and mark new ones.

        If a directory fails, it goes offline, as in Kafka. Raises InconsistentMetaProperties if a directory belongs to
        another cluster or broker.
        """
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                claim_log_directory(log_dir.directory, cluster_id, self._broker_id)

    # ---- opening -----------------------------------------------------------------------------------------------

    def open_all(self) -> None:
        """Open the logs on disk.

        High watermarks and log start offsets come from the checkpoint files, limited to the offsets that the log
        contains.
        """
        reached = self._high_watermarks_reached()
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                self._open_dir(log_dir, reached)
        for topic_partition in sorted(tp for log_dir in self._online() for tp in log_dir.futures):
            with suppress(LogDirFailed):
                self._drop_other_topics_future(topic_partition)
        self.mark_alive(self.broker_epoch_left)

    def mark_alive(self, broker_epoch: int) -> None:
        """Write to every disk a marker which states that the process with this broker epoch has all its records.

        Do nothing if the broker epoch is -1.
        """
        if broker_epoch in (self._alive_as, UNKNOWN_BROKER_EPOCH) or self.has_offline_directory:
            return
        self._alive_as = broker_epoch
        for log_dir in list(self._online()):
            directory = log_dir.directory
            with suppress(LogDirFailed):
                directory.exchange_text("", checkpoints.ALIVE, checkpoints.alive(broker_epoch, directory.boot_id))

    def _open_dir(self, log_dir: LogDir, reached: Mapping[TopicPartition, int]) -> None:
        directory = log_dir.directory
        clean_shutdown = directory.read_text("", checkpoints.CLEAN_SHUTDOWN)
        epoch_left = checkpoints.broker_epoch_of(clean_shutdown)
        if clean_shutdown is None:
            epoch_left = checkpoints.broker_epoch_alive(directory.read_text("", checkpoints.ALIVE), directory.boot_id)
        self._epochs_left.append(epoch_left)
        directory.remove("", checkpoints.CLEAN_SHUTDOWN)
        marks = log_dir.read_checkpoint(checkpoints.REPLICATION_OFFSETS)
        starts = log_dir.read_checkpoint(checkpoints.LOG_START_OFFSETS)
        cleaned = log_dir.read_checkpoint(checkpoints.CLEANER_OFFSETS)
        for name in directory.partitions():
            if is_deleted(name):
                directory.delete_partition(name)
                continue
            future = future_of(name)
            topic_partition = future or partition_of(name)
            if topic_partition is None:
                continue
            log = self._open(log_dir, topic_partition, clean_shutdown is not None, name)
            log.advance_start(min(starts.get(topic_partition, 0), log.end_offset))
            log.first_dirty_offset = min(cleaned.get(topic_partition, 0), log.end_offset)
            mark = marks.get(topic_partition, 0)
            log.high_watermark = min(max(mark, log.start_offset), log.end_offset)
            log.reached = min(reached.get(topic_partition, 0), log.end_offset)
            if future is not None:
                self._keep_longest_future(topic_partition)
                continue
            if not self._is_only_replica(log_dir, topic_partition):
                continue
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
        log_dir.checkpoint_starts()  # After a log has lost its end, records appended there are not compacted yet.

    def _journal_loss(self, topic_partition: TopicPartition, end_offset: int, mark: int) -> None:
        """Journal that committed records were lost, because a power loss or damage removed the end of a log.

        `mark` is the high watermark that the log had reached.
        """
        self._was_whole = False
        self._emit(
            RecordsLost(
                broker_id=self._broker_id,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                first_offset=end_offset,
                last_offset=mark - 1,
                count=mark - end_offset,
                below_high_watermark=mark - end_offset,
                committed_at_least=mark - end_offset,
                cause="missing_at_start",
                caused_by=START,
                topic_id=self._topic_ids.get(topic_partition, ""),
            )
        )

    def _keep_longest_future(self, topic_partition: TopicPartition) -> None:
        """Drop all copies of a log except the longest.

        There can be several if a move was cancelled while the copy's directory was offline.
        """
        copies = [log_dir for log_dir in self._dirs if topic_partition in log_dir.futures]
        for log_dir in sorted(copies, key=lambda each: each.futures[topic_partition].end_offset)[:-1]:
            log_dir.futures.pop(topic_partition).delete()

    def _is_only_replica(self, log_dir: LogDir, topic_partition: TopicPartition) -> bool:
        """Return whether the replica that was just opened is the one to use.

        If a broker was killed or lost a disk between the two renames of a move, there are two replicas. One is removed
        if the other has all its records; Kafka leaves that to the operator. Raises DuplicateReplicas if each replica
        has records that the other lacks.
        """
        others = [each for each in self._dirs if each is not log_dir and topic_partition in each.logs]
        if not others:
            return True
        shorter, longer = sorted((others[0], log_dir), key=lambda each: _extent(each.logs[topic_partition]))
        ids = {checkpoints.read_topic_id(each.directory, str(topic_partition)) for each in (shorter, longer)}
        if len(ids) > 1 or not _holds(longer.logs[topic_partition], shorter.logs[topic_partition]):
            places = " and ".join(f"log.dirs[{self._dirs.index(each)}]" for each in (others[0], log_dir))
            raise DuplicateReplicas(
                f"{places} hold different replicas of {topic_partition}: remove the one whose directory failed last"
            )
        with suppress(LogDirFailed):
            self._remove(shorter.logs.pop(topic_partition))
        reason = "another log directory holds the same records"
        self._emit(LogDamageFound(f"log.dirs[{self._dirs.index(shorter)}]/{topic_partition}", 0, reason, "removed"))
        return longer is log_dir

    def _open(
        self, log_dir: LogDir, topic_partition: TopicPartition, stopped_cleanly: bool, name: str | None = None
    ) -> PartitionLog:
        settings = self.settings(topic_partition.topic)
        log = PartitionLog(
            log_dir.directory,
            topic_partition,
            segment_bytes=settings.segment_bytes,
            segment_ms=settings.segment_ms,
            index_interval_bytes=self._config.log_index_interval_bytes,
            stopped_cleanly=stopped_cleanly,
            name=name,
            checkpoint=log_dir.checkpoint_starts,
        )
        logs = log_dir.logs if name in (None, str(topic_partition)) else log_dir.futures
        logs[topic_partition] = log
        topic_id = checkpoints.read_topic_id(log_dir.directory, log.name)
        if topic_id is not None and logs is log_dir.logs:
            self._topic_ids[topic_partition] = topic_id
        for damage in log.damage:
            self._was_whole = False
            self._emit(LogDamageFound(f"{log.name}/{damage.file}", damage.position, damage.reason, "truncated"))
        return log

    # ---- logs --------------------------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition, or None if there is none."""
        log_dir = self._dir_of(topic_partition)
        return None if log_dir is None else log_dir.logs[topic_partition]

    def all(self) -> list[tuple[TopicPartition, PartitionLog]]:
        """Return all logs, ordered by partition."""
        return sorted((item for log_dir in self._dirs for item in log_dir.logs.items()), key=lambda item: item[0])

    def by_directory(self) -> list[DirectoryLogs | None]:
        """Return the logs in each of log.dirs, ordered by partition; None for an offline directory."""
        return [
            DirectoryLogs(dict(sorted(each.logs.items())), dict(sorted(each.futures.items())), _space(each))
            if each.directory.is_online
            else None
            for each in self._dirs
        ]

    def get_or_create(self, topic_partition: TopicPartition, is_new: bool = True) -> PartitionLog:
        """Return the log of a partition. Create a missing log in the directory with the fewest logs.

        If a directory is offline, it may contain the log of a partition that is not new. In that case, raise
        LogDirFailed instead of creating an empty log in place of a full one.
        """
        known = self.get(topic_partition)
        if known is not None:
            return known
        if self.is_offline or (self.has_offline_directory and not is_new):
            raise LogDirFailed
        log_dir = self._preferred.get(topic_partition)
        if log_dir is None:
            log_dir = min(self._online(), key=lambda each: len(each.logs) + len(each.futures))
        log = self._open(log_dir, topic_partition, stopped_cleanly=False)
        self._preferred.pop(topic_partition, None)
        return log

    # ---- moves between directories ------------------------------------------------------------------------------

    def future(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the copy that will replace a partition's log, or None if there is none."""
        log_dir = self._future_dir_of(topic_partition)
        return None if log_dir is None else log_dir.futures[topic_partition]

    def _future_dir_of(self, topic_partition: TopicPartition) -> LogDir | None:
        return next((log_dir for log_dir in self._dirs if topic_partition in log_dir.futures), None)

    def prefer(self, topic_partition: TopicPartition, place: int) -> bool:
        """Choose the log directory for a partition's log that does not exist yet.

        Returns False if the log, or the copy that will replace it, is already in that directory. Raises LogDirFailed if
        the directory is offline.
        """
        log_dir = self._dirs[place]
        if not log_dir.directory.is_online:
            raise LogDirFailed
        if log_dir in (self._dir_of(topic_partition), self._future_dir_of(topic_partition)):
            return False
        self._preferred[topic_partition] = log_dir
        return True

    def lies_in(self, topic_partition: TopicPartition, place: int) -> bool:
        """Return whether a partition's log is in the directory at that position of log.dirs."""
        return topic_partition in self._dirs[place].logs

    def begin_future(self, topic_partition: TopicPartition) -> PartitionLog:
        """Create an empty log, in the preferred directory, that will replace the partition's log.

        Raises LogDirFailed, also if another directory is offline, because that directory may already contain such a
        copy.
        """
        current = self.get(topic_partition)
        assert current is not None and self.future(topic_partition) is None, topic_partition
        if self.has_offline_directory:
            raise LogDirFailed
        current.end_compaction()
        log_dir = self._preferred.pop(topic_partition)
        log = self._open(log_dir, topic_partition, False, future_name(topic_partition, self._unique()))
        log.truncate_fully_and_start_at(current.start_offset)
        log.first_dirty_offset = current.first_dirty_offset
        topic_id = self._topic_ids.get(topic_partition)
        if topic_id is not None:
            checkpoints.write_topic_id(log_dir.directory, log.name, topic_id)
        return log

    def _drop_other_topics_future(self, topic_partition: TopicPartition) -> None:
        """Drop the copy of a log if it belongs to an earlier topic with the same name."""
        log_dir, known = self._future_dir_of(topic_partition), self._topic_ids.get(topic_partition)
        if log_dir is not None and known is not None:
            written = checkpoints.read_topic_id(log_dir.directory, log_dir.futures[topic_partition].name)
            if written not in (None, known):
                self.drop_future(topic_partition)

    def drop_future(self, topic_partition: TopicPartition) -> None:
        """Remove the copy that would have replaced a partition's log, if there is one."""
        log_dir = self._future_dir_of(topic_partition)
        if log_dir is not None:
            self._remove(log_dir.futures.pop(topic_partition))
            log_dir.checkpoint_high_watermarks()
            log_dir.checkpoint_starts()

    def replace_with_future(self, topic_partition: TopicPartition) -> PartitionLog:
        """Replace the current log with the future log, which has the same records, and remove the current one.

        The steps have Kafka's order, so that a complete replica with the partition's name exists at any time. Raises
        LogDirFailed if the directory of the future log fails. If the current log's directory fails, nothing is lost,
        because the future log has already replaced the current one.
        """
        target, source = self._future_dir_of(topic_partition), self._dir_of(topic_partition)
        assert target is not None and source is not None, topic_partition
        future, current = target.futures[topic_partition], source.logs[topic_partition]
        future.take_over(current)
        target.checkpoint_high_watermarks()
        target.checkpoint_starts()
        future.rename(str(topic_partition))
        target.logs[topic_partition] = target.futures.pop(topic_partition)
        del source.logs[topic_partition]
        with suppress(LogDirFailed):
            self._remove(current)
            source.checkpoint_high_watermarks()
            source.checkpoint_starts()
        return future

    def _remove(self, log: PartitionLog) -> None:
        """Rename a log's directory, then delete it, so that after a crash its remains are recognised and removed."""
        log.rename(delete_name(log.topic_partition, self._unique()))
        log.delete()

    def topic_id(self, topic_partition: TopicPartition) -> str | None:
        """Return the topic id of the log."""
        return self._topic_ids.get(topic_partition)

    def set_topic_id(self, topic_partition: TopicPartition, topic_id: str) -> None:
        """Write the topic id next to the log, once. The caller must then call `sync_topic_ids`."""
        log_dir = self._dir_of(topic_partition)
        if topic_partition not in self._topic_ids and log_dir is not None:
            self._topic_ids[topic_partition] = topic_id
            log_dir.logs[topic_partition].metadata_file.record(str(topic_partition), topic_id)
            self._drop_other_topics_future(topic_partition)

    async def sync_topic_ids(self) -> Collection[TopicPartition]:
        """Sync to disk every topic id that is not durable yet.

        Return the replicas whose log directory has failed.
        """
        failed: list[TopicPartition] = []
        for log_dir in list(self._online()):
            logs = [log for log in log_dir.logs.values() if log.metadata_file.is_dirty]
            with suppress(LogDirFailed):
                await log_dir.directory.sync_in_background([(log.name, checkpoints.PARTITION_METADATA) for log in logs])
                for log in logs:
                    log.metadata_file.synced()
            failed += [log.topic_partition for log in logs if log.metadata_file.is_dirty]
        return failed

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a partition's log, if there is one, and its checkpoint entries."""
        self.drop_future(topic_partition)
        self._preferred.pop(topic_partition, None)
        log_dir = self._dir_of(topic_partition)
        self._topic_ids.pop(topic_partition, None)
        if log_dir is not None:
            self._remove(log_dir.logs.pop(topic_partition))
            log_dir.checkpoint_high_watermarks()
            log_dir.checkpoint_starts()

    # ---- checkpoints and shutdown --------------------------------------------------------------------------------

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks of all log directories, even if none has advanced.

        If all replicas are idle, these writes detect a failed disk (ReplicaManager.checkpointHighWatermarks).
        """
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                log_dir.write_high_watermarks()

    def checkpoint_starts(self) -> None:
        """Write the checkpoint files of log start offsets and of compacted offsets, for all log directories."""
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                log_dir.checkpoint_starts()

    def close(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Shut down cleanly: flush all logs, write the checkpoints, and write a shutdown marker with the broker
        epoch.
        """
        mark = checkpoints.clean_shutdown(UNKNOWN_BROKER_EPOCH if self.has_offline_directory else broker_epoch)
        for log_dir in list(self._online()):
            with suppress(LogDirFailed):
                for log in log_dir.all.values():
                    log.flush()
                    log.close()
                log_dir.checkpoint_high_watermarks()
                log_dir.checkpoint_starts()
                log_dir.directory.write_text("", checkpoints.CLEAN_SHUTDOWN, mark)
                log_dir.logs.clear()
                log_dir.futures.clear()


def _space(log_dir: LogDir) -> DiskSpace | None:
    try:
        return log_dir.directory.space()
    except OSError:
        return None


def _extent(log: PartitionLog) -> tuple[int, int]:
    """Return a replica's last leader epoch and log end offset, to determine which of two replicas is longer."""
    return log.epochs.latest, log.end_offset


def _holds(longer: PartitionLog, shorter: PartitionLog) -> bool:
    """Return whether the longer replica has every record of the shorter one, according to their leader epochs."""
    if shorter.end_offset == shorter.start_offset:
        return True
    epoch, end = longer.epochs.end_offset_for(shorter.epochs.latest, longer.end_offset)
    return epoch == shorter.epochs.latest and shorter.end_offset <= end

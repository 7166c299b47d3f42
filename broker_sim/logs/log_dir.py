"""One log directory, the logs in it, and the files that say how far these are (OffsetCheckpointFile)."""

from __future__ import annotations

from zabka.broker_sim.logs import checkpoints
from zabka.broker_sim.logs.guarded_directory import GuardedDirectory
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.journal.events import TopicPartition


class LogDir:
    """A directory and its logs.  Whatever writes raises LogDirFailed where the directory has failed."""

    __slots__ = ("_checkpointed", "directory", "futures", "logs")

    def __init__(self, directory: GuardedDirectory) -> None:
        self.directory = directory
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        """On their way from another directory."""
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}
        """What each checkpoint file says."""

    @property
    def all(self) -> dict[TopicPartition, PartitionLog]:
        """Both; a partition has one of them at most in a directory."""
        return self.logs | self.futures if self.futures else self.logs

    def read_checkpoint(self, file: str) -> dict[TopicPartition, int]:
        """What a checkpoint says."""
        self._checkpointed[file] = checkpoints.read_offsets(self.directory, file)
        return dict(self._checkpointed[file])

    def write_high_watermarks(self) -> None:
        """Write the high watermarks, though none may have moved; nothing where there are no logs."""
        if self.all:
            self._write(checkpoints.REPLICATION_OFFSETS, self._high_watermarks)

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks, unless their file says them already."""
        self._checkpoint(checkpoints.REPLICATION_OFFSETS, self._high_watermarks)

    def checkpoint_starts(self) -> None:
        """Write where logs start that do not start with a segment, and how far compaction has come."""
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

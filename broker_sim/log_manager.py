"""All logs of one broker: opening at start, high-watermark checkpoints, a clean stop (Kafka's LogManager)."""

from __future__ import annotations

from broker_sim import checkpoints
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


class LogManager:
    """The logs of one log directory, by partition."""

    def __init__(
        self, broker_id: int, directory: LogDirectory, config: ReplicaConfig, topic_configs: TopicConfigs, emit: Emit
    ) -> None:
        self._broker_id = broker_id
        self._directory = directory
        self._config = config
        self._topic_configs = topic_configs
        self._emit = emit
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._topic_ids: dict[TopicPartition, str] = {}
        self._checkpointed: dict[TopicPartition, int] = {}

    def settings(self, topic: str) -> PartitionConfig:
        """What holds for a topic now."""
        return partition_config(self._config, self._topic_configs(topic))

    def open_all(self) -> None:
        """Open what is on disk; high watermarks come from their checkpoint, within what each log still holds."""
        stopped_cleanly = self._directory.read_text("", checkpoints.CLEAN_SHUTDOWN) is not None
        self._directory.remove("", checkpoints.CLEAN_SHUTDOWN)
        self._checkpointed = checkpoints.read_high_watermarks(self._directory)
        for name in self._directory.partitions():
            topic_partition = partition_of(name)
            if topic_partition is None:
                continue
            log = self._open(topic_partition, stopped_cleanly)
            mark = self._checkpointed.get(topic_partition, 0)
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

    def _open(self, topic_partition: TopicPartition, stopped_cleanly: bool) -> PartitionLog:
        log = PartitionLog(
            self._directory,
            topic_partition,
            segment_bytes=self.settings(topic_partition.topic).segment_bytes,
            index_interval_bytes=self._config.log_index_interval_bytes,
            stopped_cleanly=stopped_cleanly,
        )
        self._logs[topic_partition] = log
        topic_id = checkpoints.read_topic_id(self._directory, log.name)
        if topic_id is not None:
            self._topic_ids[topic_partition] = topic_id
        for damage in log.damage:
            self._emit(LogDamageFound(f"{log.name}/{damage.file}", damage.position, damage.reason, "truncated"))
        return log

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition, if there is one here."""
        return self._logs.get(topic_partition)

    def get_or_create(self, topic_partition: TopicPartition) -> PartitionLog:
        """The log of a partition, created where it is missing."""
        return self._logs.get(topic_partition) or self._open(topic_partition, stopped_cleanly=False)

    def topic_id(self, topic_partition: TopicPartition) -> str | None:
        """The topic id that the log was created under."""
        return self._topic_ids.get(topic_partition)

    def set_topic_id(self, topic_partition: TopicPartition, topic_id: str) -> None:
        """Write the topic id beside the log, once."""
        if topic_partition not in self._topic_ids:
            self._topic_ids[topic_partition] = topic_id
            checkpoints.write_topic_id(self._directory, str(topic_partition), topic_id)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Remove a partition's log, if there is one, and what the checkpoint says of it."""
        self._topic_ids.pop(topic_partition, None)
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.delete()
            self.checkpoint_high_watermarks()

    def checkpoint_high_watermarks(self) -> None:
        """Write all high watermarks, unless none has moved since the last time."""
        marks = {topic_partition: log.high_watermark for topic_partition, log in self._logs.items()}
        if marks != self._checkpointed:
            self._checkpointed = marks
            checkpoints.write_high_watermarks(self._directory, marks)

    def close(self) -> None:
        """Stop cleanly: everything flushed, high watermarks written, and a mark that says so."""
        for log in self._logs.values():
            log.flush()
            log.close()
        self.checkpoint_high_watermarks()
        self._directory.write_text("", checkpoints.CLEAN_SHUTDOWN, _CLEAN_SHUTDOWN_TEXT)
        self._logs.clear()

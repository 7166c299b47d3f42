"""Settings of logs and replication, under Kafka's own key names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.controller.historical import NO_HISTORY, Historical
from zabka.kafka.compression import CODECS, Codec
from zabka.kafka.record_rules import FOREVER_MS, TopicRules

DEDUPE_BUFFER_BYTES = 128 << 20
DEDUPE_LOAD = 0.9
TopicConfigs = Callable[[str], Mapping[str, str]]
"""Function that returns a topic's overrides as stored in /config/topics/T: strings keyed by name.

It is called again after each call of `topic_configs_changed`.
"""


def no_overrides(topic: str) -> Mapping[str, str]:
    """Return no overrides. Used as `TopicConfigs` if all topics have the broker's defaults."""
    return {}


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """A broker's settings of logs and replication.

    Each field has the name of a Kafka key, with underscores for dots; the defaults are those of Kafka 3.9.
    """

    replica_lag_time_max_ms: int = 30_000
    min_insync_replicas: int = 1
    message_max_bytes: int = 1_048_588
    log_segment_bytes: int = 1_073_741_824
    log_index_interval_bytes: int = 4_096
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_backoff_ms: int = 1_000
    replica_socket_timeout_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    replica_selector_class: str = ""
    log_roll_ms: int = 604_800_000
    log_retention_ms: int = 604_800_000
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_cleanup_policy: str = "delete"
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = FOREVER_MS
    log_message_timestamp_after_max_ms: int = FOREVER_MS
    log_message_timestamp_difference_max_ms: int = FOREVER_MS
    log_message_downconversion_enable: bool = True
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = DEDUPE_BUFFER_BYTES
    log_cleaner_io_buffer_load_factor: float = DEDUPE_LOAD
    log_cleaner_threads: int = 1
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleaner_max_compaction_lag_ms: int = 2**63 - 1
    log_cleaner_delete_retention_ms: int = 86_400_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    transaction_partition_verification_enable: bool = True
    request_timeout_ms: int = 30_000
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    alter_log_dirs_replication_quota_window_num: int = 11
    alter_log_dirs_replication_quota_window_size_seconds: int = 1
    historical: frozenset[Historical] = NO_HISTORY
    """zabka.historical: old behaviours that are enabled."""


def replica_config(config: KafkaConfig) -> ReplicaConfig:
    """Return the replica manager's settings from a broker's configuration."""
    return ReplicaConfig(
        replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        min_insync_replicas=config.min_insync_replicas,
        message_max_bytes=config.number("message.max.bytes"),
        log_segment_bytes=config.number("log.segment.bytes"),
        log_index_interval_bytes=config.number("log.index.interval.bytes"),
        replica_fetch_wait_max_ms=config.number("replica.fetch.wait.max.ms"),
        replica_fetch_min_bytes=config.number("replica.fetch.min.bytes"),
        replica_fetch_max_bytes=config.number("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=config.number("replica.fetch.response.max.bytes"),
        replica_fetch_backoff_ms=config.number("replica.fetch.backoff.ms"),
        replica_socket_timeout_ms=config.number("replica.socket.timeout.ms"),
        replica_high_watermark_checkpoint_interval_ms=config.number("replica.high.watermark.checkpoint.interval.ms"),
        replica_selector_class=config.text("replica.selector.class"),
        log_roll_ms=config.number("log.roll.ms"),
        log_retention_ms=config.number("log.retention.ms"),
        log_retention_bytes=config.number("log.retention.bytes"),
        log_retention_check_interval_ms=config.number("log.retention.check.interval.ms"),
        log_flush_start_offset_checkpoint_interval_ms=config.number("log.flush.start.offset.checkpoint.interval.ms"),
        log_message_timestamp_type=config.text("log.message.timestamp.type"),
        log_message_timestamp_before_max_ms=config.number("log.message.timestamp.before.max.ms"),
        log_message_timestamp_after_max_ms=config.number("log.message.timestamp.after.max.ms"),
        log_message_timestamp_difference_max_ms=config.number("log.message.timestamp.difference.max.ms"),
        log_message_downconversion_enable=config.flag("log.message.downconversion.enable"),
        compression_type=config.text("compression.type"),
        compression_gzip_level=config.number("compression.gzip.level"),
        compression_lz4_level=config.number("compression.lz4.level"),
        compression_zstd_level=config.number("compression.zstd.level"),
        log_cleanup_policy=config.text("log.cleanup.policy"),
        log_cleaner_enable=config.flag("log.cleaner.enable"),
        log_cleaner_backoff_ms=config.number("log.cleaner.backoff.ms"),
        log_cleaner_dedupe_buffer_size=config.number("log.cleaner.dedupe.buffer.size"),
        log_cleaner_io_buffer_load_factor=config.fraction("log.cleaner.io.buffer.load.factor"),
        log_cleaner_threads=config.number("log.cleaner.threads"),
        log_cleaner_min_cleanable_ratio=config.fraction("log.cleaner.min.cleanable.ratio"),
        log_cleaner_min_compaction_lag_ms=config.number("log.cleaner.min.compaction.lag.ms"),
        log_cleaner_max_compaction_lag_ms=config.number("log.cleaner.max.compaction.lag.ms"),
        log_cleaner_delete_retention_ms=config.number("log.cleaner.delete.retention.ms"),
        producer_id_expiration_ms=config.number("producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms=config.number("producer.id.expiration.check.interval.ms"),
        transaction_partition_verification_enable=config.flag("transaction.partition.verification.enable"),
        request_timeout_ms=config.number("request.timeout.ms"),
        replication_quota_window_num=config.number("replication.quota.window.num"),
        replication_quota_window_size_seconds=config.number("replication.quota.window.size.seconds"),
        alter_log_dirs_replication_quota_window_num=config.number("alter.log.dirs.replication.quota.window.num"),
        alter_log_dirs_replication_quota_window_size_seconds=config.number(
            "alter.log.dirs.replication.quota.window.size.seconds"
        ),
        historical=config.historical,
    )


Listed = tuple[tuple[int, int], ...]
"""Replicas in a topic's list of throttled replicas, as (partition, broker) pairs."""
ALL_LISTED: Listed = ((-1, -1),)


def listed(text: str) -> Listed:
    """Parse a list of throttled replicas, `0:1,0:2` or `*`. Return an empty list for any other string."""
    if text.strip() == "*":
        return ALL_LISTED
    parts = [[word.strip() for word in part.split(":")] for part in text.split(",")]
    if not all(len(part) == 2 and all(word.isascii() and word.isdigit() for word in part) for part in parts):
        return ()
    return tuple((int(partition), int(broker)) for partition, broker in parts)


def lists(replicas: Listed, partition: int, broker_id: int) -> bool:
    """Return whether the list of throttled replicas contains this replica."""
    return replicas == ALL_LISTED or (partition, broker_id) in replicas


class CompactionSettings(NamedTuple):
    """A topic's compaction settings; times in milliseconds."""

    dirty_ratio_min: float
    """min.cleanable.dirty.ratio: a log is compacted if its dirty ratio is higher than this."""
    lag_min_ms: int
    """min.compaction.lag.ms: records younger than this are not compacted."""
    lag_max_ms: int
    """max.compaction.lag.ms: records older than this are compacted regardless of the dirty ratio."""
    tombstone_ms: int
    """delete.retention.ms: how long the last record of a deleted key remains readable."""
    key_bytes: int = DEDUPE_BUFFER_BYTES
    """One thread's share of log.cleaner.dedupe.buffer.size, which limits the number of keys in the offset map."""
    key_load: float = DEDUPE_LOAD
    """log.cleaner.io.buffer.load.factor: the maximum load factor of the offset map."""


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """The effective settings of one topic: its overrides on top of the broker's defaults."""

    min_insync_replicas: int
    segment_bytes: int
    segment_ms: int
    """segment.ms or, for a compacted topic, max.compaction.lag.ms if that is less (LogConfig.maxSegmentMs).

    Only closed segments are compacted, so the active segment must be closed before max.compaction.lag.ms has passed.
    """
    deletes: bool
    """Whether cleanup.policy contains delete. If so, old segments are removed by age and total size."""
    compacts: bool
    """Whether cleanup.policy contains compact."""
    records: TopicRules
    """Rules for the records that producers send."""
    asks_nothing_of_records: bool
    converts_down: bool
    """message.downconversion.enable: convert records to message formats that clients older than Kafka 0.11 can read."""
    retention_ms: int
    retention_bytes: int
    compaction: CompactionSettings
    leader_throttled: Listed = ()
    """Replicas in leader.replication.throttled.replicas."""
    follower_throttled: Listed = ()
    """Replicas in follower.replication.throttled.replicas."""


def _flag(overrides: Mapping[str, str], key: str, default: bool) -> bool:
    text = overrides.get(key, "").strip().lower()
    return text == "true" if text in ("true", "false") else default


def _record_rules(
    config: ReplicaConfig, overrides: Mapping[str, str], compacts: bool, whole: Callable[[str, int], int]
) -> TopicRules:
    """Return a topic's rules for records. `whole` is a function that returns the value of an integer key.

    The deprecated message.timestamp.difference.max.ms is used if its replacement is not set
    (LogConfig.getMessageTimestampBeforeMaxMs).
    """
    difference = whole("message.timestamp.difference.max.ms", config.log_message_timestamp_difference_max_ms)
    before = whole("message.timestamp.before.max.ms", config.log_message_timestamp_before_max_ms)
    after = whole("message.timestamp.after.max.ms", config.log_message_timestamp_after_max_ms)
    codec = CODECS.get(overrides.get("compression.type", config.compression_type))
    levels = {
        Codec.GZIP: whole("compression.gzip.level", config.compression_gzip_level),
        Codec.LZ4: whole("compression.lz4.level", config.compression_lz4_level),
        Codec.ZSTD: whole("compression.zstd.level", config.compression_zstd_level),
    }
    return TopicRules(
        compacts=compacts,
        stamps=overrides.get("message.timestamp.type", config.log_message_timestamp_type) == "LogAppendTime",
        before_max_ms=difference if before == FOREVER_MS else before,
        after_max_ms=difference if after == FOREVER_MS else after,
        codec=codec,
        level=None if codec is None else levels.get(codec),
        max_message_bytes=whole("max.message.bytes", config.message_max_bytes),
    )


def partition_config(config: ReplicaConfig, overrides: Mapping[str, str]) -> PartitionConfig:
    """Combine a topic's overrides with the broker's defaults. The overrides were validated when they were set.

    A value that is not a number is ignored, as Kafka ignores invalid values in ZooKeeper.
    """

    def whole(key: str, default: int) -> int:
        text = overrides.get(key, "").strip()
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() else default

    def part(key: str, default: float) -> float:
        try:
            return float(overrides[key])
        except (KeyError, ValueError):
            return default

    policies = [policy.strip() for policy in overrides.get("cleanup.policy", config.log_cleanup_policy).split(",")]
    records = _record_rules(config, overrides, "compact" in policies, whole)
    segment_ms = whole("segment.ms", config.log_roll_ms)
    lag_max_ms = whole("max.compaction.lag.ms", config.log_cleaner_max_compaction_lag_ms)
    return PartitionConfig(
        min_insync_replicas=max(1, whole("min.insync.replicas", config.min_insync_replicas)),
        segment_bytes=max(1, whole("segment.bytes", config.log_segment_bytes)),
        segment_ms=min(segment_ms, lag_max_ms) if "compact" in policies and lag_max_ms > 0 else segment_ms,
        deletes="delete" in policies,
        compacts="compact" in policies,
        records=records,
        asks_nothing_of_records=records.asks_nothing,
        converts_down=_flag(overrides, "message.downconversion.enable", config.log_message_downconversion_enable),
        retention_ms=whole("retention.ms", config.log_retention_ms),
        retention_bytes=whole("retention.bytes", config.log_retention_bytes),
        compaction=CompactionSettings(
            dirty_ratio_min=part("min.cleanable.dirty.ratio", config.log_cleaner_min_cleanable_ratio),
            lag_min_ms=whole("min.compaction.lag.ms", config.log_cleaner_min_compaction_lag_ms),
            lag_max_ms=lag_max_ms,
            tombstone_ms=whole("delete.retention.ms", config.log_cleaner_delete_retention_ms),
            key_bytes=config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads,
            key_load=config.log_cleaner_io_buffer_load_factor,
        ),
        leader_throttled=listed(overrides.get("leader.replication.throttled.replicas", "")),
        follower_throttled=listed(overrides.get("follower.replication.throttled.replicas", "")),
    )

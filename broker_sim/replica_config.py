"""What an operator may set about logs and replication, under Kafka's own key names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.historical import NO_HISTORY, Historical

TopicConfigs = Callable[[str], Mapping[str, str]]
"""A topic's overrides as they stand in /config/topics/T: key to text.  Asked again after `topic_config_changed`."""


def no_overrides(topic: str) -> Mapping[str, str]:
    """The `TopicConfigs` of a broker whose topics all follow the broker's defaults."""
    return {}


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """A broker's settings.  Each field is Kafka's key with dots for underscores; defaults are Kafka 3.9's."""

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
    historical: frozenset[Historical] = NO_HISTORY
    """zabka.historical: old behaviours that are switched on."""


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """What holds for one topic: its overrides over the broker's defaults."""

    min_insync_replicas: int
    max_message_bytes: int
    segment_bytes: int


def partition_config(config: ReplicaConfig, overrides: Mapping[str, str]) -> PartitionConfig:
    """Lay a topic's overrides (checked where they were set) over the broker's defaults; a value that is no number
    is passed over, as Kafka does with what it finds in ZooKeeper."""

    def whole(key: str, default: int) -> int:
        text = overrides.get(key, "")
        return int(text) if text.isascii() and text.isdigit() else default

    return PartitionConfig(
        min_insync_replicas=max(1, whole("min.insync.replicas", config.min_insync_replicas)),
        max_message_bytes=whole("max.message.bytes", config.message_max_bytes),
        segment_bytes=max(1, whole("segment.bytes", config.log_segment_bytes)),
    )

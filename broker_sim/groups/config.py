"""Settings of consumer groups and of `__consumer_offsets`, under Kafka's own key names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zabka.broker_sim.configs.broker_config import KafkaConfig

CONSUMER_OFFSETS = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of a group coordinator.

    Each field is named like a Kafka key, with underscores for dots; the defaults are those of Kafka 3.9.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_load_buffer_size: int = 5 * 1024 * 1024
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 100 * 1024 * 1024
    offsets_commit_timeout_ms: int = 5_000
    offsets_commit_required_acks: int = -1

    @property
    def offsets_topic_configs(self) -> Mapping[str, str]:
        """The configuration overrides with which `__consumer_offsets` is created."""
        return {
            "cleanup.policy": "compact",
            "segment.bytes": str(self.offsets_topic_segment_bytes),
            "compression.type": "producer",
        }


def group_config(config: KafkaConfig) -> GroupConfig:
    """Return the settings of the group coordinator from a broker's configuration."""
    return GroupConfig(
        group_min_session_timeout_ms=config.number("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.number("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=config.number("group.initial.rebalance.delay.ms"),
        group_max_size=config.number("group.max.size"),
        offset_metadata_max_bytes=config.number("offset.metadata.max.bytes"),
        offsets_load_buffer_size=config.number("offsets.load.buffer.size"),
        offsets_retention_ms=config.number("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.number("offsets.retention.check.interval.ms"),
        offsets_topic_num_partitions=config.number("offsets.topic.num.partitions"),
        offsets_topic_replication_factor=config.number("offsets.topic.replication.factor"),
        offsets_topic_segment_bytes=config.number("offsets.topic.segment.bytes"),
        offsets_commit_timeout_ms=config.number("offsets.commit.timeout.ms"),
        offsets_commit_required_acks=config.number("offsets.commit.required.acks"),
    )

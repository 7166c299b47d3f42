"""Topic configuration: the keys of Kafka's LogConfig, and a topic's values after the broker's defaults are applied."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from zabka.broker_sim.configs.config_def import (
    ConfigError,
    ConfigKey,
    ConfigType,
    Value,
    at_least,
    between,
    by_name,
    list_of,
    one_of,
    split_list,
)
from zabka.broker_sim.configs.unsupported_values import check_topic_value

_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1
_COMPRESSION = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _is_replica(text: str) -> bool:
    partition, _, broker = text.partition(":")
    return partition.isdigit() and broker.isdigit()


def _throttled(name: str) -> ConfigKey:
    """Return the definition of a key whose value is a list of throttled replicas.

    The error message for an invalid value shows the whole list.
    """

    def check(value: Value) -> str | None:
        parts = split_list(str(value))
        if parts != ["*"] and not all(map(_is_replica, parts)):
            raise ConfigError(
                f"Invalid value [{', '.join(parts)}] for configuration {name}: {name} must be the literal '*' or "
                "a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
        return None

    return ConfigKey(name, ConfigType.LIST, "", check)


_B, _S, _I, _L, _D, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)

TOPIC_KEYS: dict[str, ConfigKey] = by_name(
    (
        ConfigKey("cleanup.policy", _LIST, "delete", list_of("compact", "delete"), "log.cleanup.policy"),
        ConfigKey("compression.gzip.level", _I, -1, between(-1, 9), "compression.gzip.level"),
        ConfigKey("compression.lz4.level", _I, 9, between(1, 17), "compression.lz4.level"),
        ConfigKey("compression.type", _S, "producer", one_of(*_COMPRESSION), "compression.type"),
        ConfigKey("compression.zstd.level", _I, 3, between(-131072, 22), "compression.zstd.level"),
        ConfigKey("delete.retention.ms", _L, 86_400_000, at_least(0), "log.cleaner.delete.retention.ms"),
        ConfigKey("file.delete.delay.ms", _L, 60_000, at_least(0), "log.segment.delete.delay.ms"),
        ConfigKey("flush.messages", _L, _LONG_MAX, at_least(1), "log.flush.interval.messages"),
        ConfigKey("flush.ms", _L, _LONG_MAX, at_least(0), "log.flush.interval.ms"),
        _throttled("follower.replication.throttled.replicas"),
        ConfigKey("index.interval.bytes", _I, 4096, at_least(0), "log.index.interval.bytes"),
        _throttled("leader.replication.throttled.replicas"),
        ConfigKey("local.retention.bytes", _L, -2, at_least(-2), "log.local.retention.bytes"),
        ConfigKey("local.retention.ms", _L, -2, at_least(-2), "log.local.retention.ms"),
        ConfigKey("max.compaction.lag.ms", _L, _LONG_MAX, at_least(1), "log.cleaner.max.compaction.lag.ms"),
        ConfigKey("max.message.bytes", _I, 1_048_588, at_least(0), "message.max.bytes"),
        ConfigKey("message.downconversion.enable", _B, True, None, "log.message.downconversion.enable"),
        ConfigKey("message.format.version", _S, "3.0-IV1", None, "log.message.format.version"),
        ConfigKey("message.timestamp.after.max.ms", _L, _LONG_MAX, at_least(0), "log.message.timestamp.after.max.ms"),
        ConfigKey("message.timestamp.before.max.ms", _L, _LONG_MAX, at_least(0), "log.message.timestamp.before.max.ms"),
        ConfigKey(
            "message.timestamp.difference.max.ms",
            _L,
            _LONG_MAX,
            at_least(0),
            "log.message.timestamp.difference.max.ms",
        ),
        ConfigKey(
            "message.timestamp.type",
            _S,
            "CreateTime",
            one_of("CreateTime", "LogAppendTime"),
            "log.message.timestamp.type",
        ),
        ConfigKey("min.cleanable.dirty.ratio", _D, 0.5, between(0, 1), "log.cleaner.min.cleanable.ratio"),
        ConfigKey("min.compaction.lag.ms", _L, 0, at_least(0), "log.cleaner.min.compaction.lag.ms"),
        ConfigKey("min.insync.replicas", _I, 1, at_least(1), "min.insync.replicas"),
        ConfigKey("preallocate", _B, False, None, "log.preallocate"),
        ConfigKey("remote.log.copy.disable", _B, False),
        ConfigKey("remote.log.delete.on.disable", _B, False),
        ConfigKey("remote.storage.enable", _B, False),
        ConfigKey("retention.bytes", _L, -1, at_least(-1), "log.retention.bytes"),
        ConfigKey("retention.ms", _L, 604_800_000, at_least(-1), "log.retention.ms"),
        ConfigKey("segment.bytes", _I, 1_073_741_824, between(14, _INT_MAX), "log.segment.bytes"),
        ConfigKey("segment.index.bytes", _I, 10_485_760, at_least(4), "log.index.size.max.bytes"),
        ConfigKey("segment.jitter.ms", _L, 0, at_least(0), "log.roll.jitter.ms"),
        ConfigKey("segment.ms", _L, 604_800_000, at_least(1), "log.roll.ms"),
        ConfigKey("unclean.leader.election.enable", _B, False, None, "unclean.leader.election.enable"),
    )
)
"""Every topic key of Kafka 3.9, in alphabetical order."""


def validate_topic_config(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Parse a topic's overrides. Raises ConfigError for an unknown key, a bad value, or contradicting values."""
    parsed: dict[str, Value] = {}
    for name, text in sorted(overrides.items()):
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        parsed[name] = key.parse(text)
        check_topic_value(name, text)
    lag_min = parsed.get("min.compaction.lag.ms", 0)
    lag_max = parsed.get("max.compaction.lag.ms", _LONG_MAX)
    assert not isinstance(lag_min, str) and not isinstance(lag_max, str)
    if lag_min > lag_max:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lag_min}) > max.compaction.lag.ms ({lag_max})"
        )
    return parsed


def effective_topic_config(overrides: Mapping[str, str], broker: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of every topic key: the topic's override, else the broker's synonym, else Kafka's default.

    An override that cannot be parsed (because a client wrote it directly into the znode) is ignored; Kafka also logs
    it.
    """
    values: dict[str, Value] = {}
    for name, key in TOPIC_KEYS.items():
        value = broker.get(key.synonym, key.default) if key.synonym is not None else key.default
        if name in overrides:
            with suppress(ConfigError):
                value = key.parse(overrides[name])
        values[name] = value
    return values

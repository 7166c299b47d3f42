"""`--set KEY=VALUE` for the simulated world: ZooKeeper's and Kafka's own keys."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from broker_sim.configs.broker_config import config_from
from broker_sim.configs.config_def import ConfigError
from simulation.world import WorldSettings


class BadSetting(Exception):
    """A key nobody knows, or a value that makes no sense."""


_OWN_KEYS: dict[str, str] = {
    "tickTime": "tick_time_ms",
    "initLimit": "init_limit",
    "syncLimit": "sync_limit",
    "snapCount": "snap_count",
    "peers": "peers",
    "brokers": "brokers",
    "zookeeper.session.timeout.ms": "session_timeout_ms",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
}


def _positive(key: str, value: str) -> int:
    if not value.isdigit() or (int(value) == 0 and key != "brokers"):
        raise BadSetting(f"{key}={value}: a positive whole number is wanted")
    return int(value)


def world_settings(settings: Iterable[str]) -> WorldSettings:
    """The world that `KEY=VALUE` settings describe.  Raises BadSetting."""
    own: dict[str, int] = {}
    broker_keys: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise BadSetting(f"--set takes KEY=VALUE; got {setting!r}")
        if key in _OWN_KEYS:
            own[_OWN_KEYS[key]] = _positive(key, value)
        else:
            broker_keys[key] = value
    _check_broker_keys(broker_keys)
    return msgspec.structs.replace(WorldSettings(), **own, broker_keys=broker_keys)


def _check_broker_keys(keys: dict[str, str]) -> None:
    needed = {"broker.id": "1", "listeners": "PLAINTEXT://broker:9092", "zookeeper.connect": "peer:2181"}
    try:
        config = config_from({**needed, "log.dirs": "/simulated", **keys})
    except ConfigError as reason:
        raise BadSetting(str(reason)) from None
    if config.warnings:
        raise BadSetting(
            f"--set: {config.warnings[0]}; give a ZooKeeper or Kafka key, or one of {', '.join(sorted(_OWN_KEYS))}"
        )

"""The settings of a simulated world, and `--set KEY=VALUE` for them: ZooKeeper's and Kafka's own keys."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from broker_sim.configs.broker_config import config_from
from broker_sim.configs.config_def import ConfigError


class WorldSettings(msgspec.Struct, frozen=True):
    """The cluster's size and its ZooKeeper and Kafka keys, in their own units."""

    peers: int = 3
    brokers: int = 3
    members: int = 0
    """How many of the peers are its first members, where that may change; 0 for all of them, for good."""
    tick_time_ms: int = 500
    init_limit: int = 10
    sync_limit: int = 5
    snap_count: int = 400
    session_timeout_ms: int = 6_000
    replica_lag_time_max_ms: int = 1_500
    broker_keys: dict[str, str] = {}
    read_only_mode: bool = False
    local_sessions: bool = False
    local_sessions_upgrading: bool = False
    faulty_disks: bool = False
    """Disks that may fail (`simulation.disks`), and two log directories for some brokers."""


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
_OWN_FLAGS = {
    "readonlymode.enabled": "read_only_mode",
    "localSessionsEnabled": "local_sessions",
    "localSessionsUpgradingEnabled": "local_sessions_upgrading",
}


def _positive(key: str, value: str) -> int:
    if not value.isdigit() or (int(value) == 0 and key != "brokers"):
        raise BadSetting(f"{key}={value}: a positive whole number is wanted")
    return int(value)


def _flag(key: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BadSetting(f"{key}={value}: true or false is wanted")
    return value.lower() == "true"


def own_settings(keys: dict[str, str]) -> dict[str, int | bool]:
    """What some of these keys say of the world itself, by field of WorldSettings.  Raises BadSetting."""
    numbers = {_OWN_KEYS[key]: _positive(key, value) for key, value in keys.items() if key in _OWN_KEYS}
    return numbers | {_OWN_FLAGS[key]: _flag(key, value) for key, value in keys.items() if key in _OWN_FLAGS}


def split_settings(settings: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """`KEY=VALUE` settings as those of the world itself and those of brokers.  Raises BadSetting."""
    keys: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise BadSetting(f"--set takes KEY=VALUE; got {setting!r}")
        keys[key] = value
    own = {key: value for key, value in keys.items() if key in _OWN_KEYS or key in _OWN_FLAGS}
    broker_keys = {key: value for key, value in keys.items() if key not in own}
    own_settings(own)
    _check_broker_keys(broker_keys)
    return own, broker_keys


def _check_broker_keys(keys: dict[str, str]) -> None:
    needed = {"broker.id": "1", "listeners": "PLAINTEXT://broker:9092", "zookeeper.connect": "peer:2181"}
    try:
        config = config_from({**needed, "log.dirs": "/simulated", **keys})
    except ConfigError as reason:
        raise BadSetting(str(reason)) from None
    if config.warnings:
        own = ", ".join(sorted((*_OWN_KEYS, *_OWN_FLAGS)))
        raise BadSetting(f"--set: {config.warnings[0]}; give a ZooKeeper or Kafka key, or one of {own}")


def world_settings(settings: Iterable[str]) -> WorldSettings:
    """The world that `KEY=VALUE` settings describe.  Raises BadSetting."""
    own, broker_keys = split_settings(settings)
    return msgspec.structs.replace(WorldSettings(), **own_settings(own), broker_keys=broker_keys)

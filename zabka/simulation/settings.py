"""Settings of a simulated world, given as `--set KEY=VALUE` with ZooKeeper's and Kafka's own keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from zabka.broker_sim.configs.broker_config import config_from
from zabka.broker_sim.configs.config_def import ConfigError


class FaultSettings(msgspec.Struct, frozen=True):
    """Settings for the faults of a run.  By default, everything except their duration is chosen at random."""

    duration_ms: int = 30_000
    gap_ms: int = 0
    """Average time in ms between faults; 0 means a random time."""
    lasts_ms: tuple[int, int] = (100, 9_000)
    """Shortest and longest duration in ms of faults whose kind does not define a duration."""
    kinds: tuple[tuple[str, int], ...] = ()
    """Kinds of faults with their relative frequencies; empty means a random mix."""


class WorkloadSettings(msgspec.Struct, frozen=True):
    """Settings for the topics and acks of the Kafka clients.  By default, some topics have random shapes."""

    partitions: int = 2
    replication_factor: int = 0
    """Replication factor of the fixed topic.  0 means three, or the number of brokers if that is lower."""
    acks: int = -1
    draws_topics: bool = True
    """Whether a run can have randomly shaped topics in addition to the fixed topic."""


class WorldSettings(msgspec.Struct, frozen=True):
    """Size of a simulated cluster, and its ZooKeeper and Kafka settings, in ZooKeeper's and Kafka's units."""

    peers: int = 3
    brokers: int = 3
    changes_members: bool = False
    """Whether a simulated operator changes the membership during the run."""
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
    """Whether disk faults can be injected, and brokers can have two log directories."""
    racks: int = 0
    """Number of racks, to which brokers are assigned in turn; with 0, brokers have no rack."""
    faults: FaultSettings = FaultSettings()
    workload: WorkloadSettings = WorkloadSettings()

    @property
    def replication_factor(self) -> int:
        """Return the replication factor of the fixed topic."""
        return self.workload.replication_factor or min(3, self.brokers)


class BadSetting(Exception):
    """A `--set` setting has an unknown key or an invalid value."""


NODES_MAX = 255
"""Maximum number of nodes of each kind, the same as in a real cluster."""

_OWN_KEYS: dict[str, str] = {
    "tickTime": "tick_time_ms",
    "initLimit": "init_limit",
    "syncLimit": "sync_limit",
    "snapCount": "snap_count",
    "peers": "peers",
    "brokers": "brokers",
    "racks": "racks",
    "zookeeper.session.timeout.ms": "session_timeout_ms",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
}
BROKERS_OWN_KEYS = ("zookeeper.session.timeout.ms", "replica.lag.time.max.ms")
"""Keys in _OWN_KEYS that are broker settings. The other keys in _OWN_KEYS are ensemble settings or numbers of nodes."""
RACKS = "racks"
_OWN_FLAGS = {
    "readonlymode.enabled": "read_only_mode",
    "localSessionsEnabled": "local_sessions",
    "localSessionsUpgradingEnabled": "local_sessions_upgrading",
}


_HARM = {"faults.ms": "duration_ms", "faults.gap.ms": "gap_ms"}
_WORKLOAD = {"num.partitions": "partitions", "default.replication.factor": "replication_factor"}
_ACKS = {"all": -1, "-1": -1, "1": 1}
PLAYED_KEYS = (*_HARM, "faults.lasts.ms", "faults.kinds", *_WORKLOAD, "acks", "drawn.topics")
"""Keys of the settings for faults and clients. Scripts and searches choose these settings themselves."""


def is_setting_of_the_world(key: str) -> bool:
    """Return whether this key configures the simulated world, its faults or its clients."""
    return key in _OWN_KEYS or key in _OWN_FLAGS or key in PLAYED_KEYS


_WHOLE = re.compile(r"[0-9]{1,18}")


def _positive(key: str, value: str) -> int:
    if not _WHOLE.fullmatch(value) or (int(value) == 0 and key != "brokers"):
        raise BadSetting(f"{key}={value}: a positive whole number is wanted")
    return int(value)


def _number(key: str, value: str) -> int:
    number = _positive(key, value)
    if key in ("peers", "brokers") and number > NODES_MAX:
        raise BadSetting(f"{key}={value}: a world has at most {NODES_MAX} of them")
    return number


def _flag(key: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BadSetting(f"{key}={value}: true or false is wanted")
    return value.lower() == "true"


def own_settings(keys: dict[str, str]) -> dict[str, int | bool]:
    """Return those settings that are fields of WorldSettings, keyed by field name.  Raises BadSetting."""
    numbers = {_OWN_KEYS[key]: _number(key, value) for key, value in keys.items() if key in _OWN_KEYS}
    return numbers | {_OWN_FLAGS[key]: _flag(key, value) for key, value in keys.items() if key in _OWN_FLAGS}


def _faults(keys: dict[str, str]) -> FaultSettings:
    numbers: dict[str, Any] = {_HARM[key]: _positive(key, value) for key, value in keys.items() if key in _HARM}
    faults = FaultSettings(**numbers)
    if "faults.lasts.ms" in keys:
        value = keys["faults.lasts.ms"]
        first, _, last = value.partition("-")
        lasts_ms = _positive("faults.lasts.ms", first), _positive("faults.lasts.ms", last or first)
        if lasts_ms[1] < lasts_ms[0]:
            raise BadSetting(f"faults.lasts.ms={value}: the longest is shorter than the shortest")
        faults = msgspec.structs.replace(faults, lasts_ms=lasts_ms)
    kinds = [_kind(part) for part in keys.get("faults.kinds", "").split(",") if part.strip()]
    if "faults.kinds" in keys and not kinds:
        raise BadSetting("faults.kinds: names of faults are wanted, such as crash_broker:3,pause")
    return msgspec.structs.replace(faults, kinds=tuple(kinds))


def _kind(part: str) -> tuple[str, int]:
    name, _, weight = part.strip().partition(":")
    return name, _positive(f"faults.kinds: {name}", weight or "1")


def _workload(keys: dict[str, str]) -> WorkloadSettings:
    numbers = {_WORKLOAD[key]: _positive(key, value) for key, value in keys.items() if key in _WORKLOAD}
    acks = keys.get("acks", "all")
    if acks == "0":
        raise BadSetting("acks=0: nothing is acknowledged then, so that nothing could be checked or measured")
    if acks not in _ACKS:
        raise BadSetting(f"acks={acks}: all or 1 is wanted")
    draws_topics = _flag("drawn.topics", keys.get("drawn.topics", "true"))
    return WorkloadSettings(**numbers, acks=_ACKS[acks], draws_topics=draws_topics)


def _check_together(world: WorldSettings) -> None:
    """Reject combinations of settings with which no write can succeed.  Raises BadSetting."""
    factor, wanted = world.replication_factor, int(world.broker_keys.get("min.insync.replicas", "1"))
    if factor > world.brokers:
        raise BadSetting(f"default.replication.factor={factor}: there are only {world.brokers} brokers")
    if world.brokers and wanted > factor and world.workload.acks == -1:
        raise BadSetting(
            f"min.insync.replicas={wanted} with replication factor {factor}: no write with acks=all could succeed"
        )


def split_settings(settings: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split `KEY=VALUE` settings into those of the simulated world (WorldSettings) and other broker settings.

    Raises BadSetting.
    """
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
        own = ", ".join(sorted((*_OWN_KEYS, *_OWN_FLAGS, *PLAYED_KEYS)))
        raise BadSetting(f"--set: {config.warnings[0]}; give a ZooKeeper or Kafka key, or one of {own}")


def world_settings(settings: Iterable[str]) -> WorldSettings:
    """Return the settings of the world that these `KEY=VALUE` settings describe.  Raises BadSetting."""
    given = tuple(settings)
    played = {key: value for setting in given for key, equals, value in [setting.partition("=")] if equals}
    own, broker_keys = split_settings(s for s in given if s.partition("=")[0] not in PLAYED_KEYS)
    world = msgspec.structs.replace(
        WorldSettings(),
        **own_settings(own),
        broker_keys=broker_keys,
        faults=_faults(played),
        workload=_workload(played),
    )
    _check_together(world)
    return world

"""A broker's configuration: Kafka's `server.properties`, with Kafka's keys, defaults and error messages.

A Kafka key that has no effect on this broker is accepted with a warning that states the reason. An unknown key also
causes a warning. An invalid value is an error, and so is a value that enables a feature that this broker does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_KEYS, read_super_users
from zabka.broker_sim.configs.broker_keys import KAFKA_KEYS
from zabka.broker_sim.configs.config_def import (
    ConfigError,
    ConfigKey,
    ConfigType,
    Value,
    at_least,
    between,
    by_name,
    class_of,
    hosts_with_numbers,
    list_of,
    one_of,
    render,
    split_list,
)
from zabka.broker_sim.configs.encoder_keys import read_encoder
from zabka.broker_sim.configs.ensemble_tls import ENSEMBLE_TLS_KEYS, EnsembleTls, read_ensemble_tls
from zabka.broker_sim.configs.inter_broker import (
    INTER_BROKER_KEYS,
    check_inter_broker_listeners,
    control_plane_listener,
    inter_broker_listener,
    read_credentials,
)
from zabka.broker_sim.configs.keys_without_effect import BROKER_WITHOUT_EFFECT
from zabka.broker_sim.configs.listeners import (
    PROTOCOL_MAP,
    Listener,
    read_advertised,
    read_listeners,
)
from zabka.broker_sim.configs.login_keys import TokenLoginKeys
from zabka.broker_sim.configs.sasl_keys import OF_LISTENERS, SASL_KEYS, SaslKeys, read_sasl, sasl_warnings
from zabka.broker_sim.configs.tls_keys import RELOADED_KEYS, TLS_KEYS, TlsKeys, read_tls, unused_tls_keys
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS
from zabka.broker_sim.configs.unsupported_values import check_broker_value
from zabka.controller.historical import HISTORICAL_KEY, Historical
from zabka.ensemble.client.hosts import parse_hosts
from zabka.ensemble.close_names import did_you_mean
from zabka.ensemble.properties import BadProperties, read_properties, trimmed
from zabka.kafka.sasl_login import Credentials

_B, _S, _I, _L, _D, _LIST, _SHORT = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.SHORT,
)


_CLEANER_BYTES_MIN = 1 << 20
_SELECTORS = tuple(f"org.apache.kafka.common.replica.{name}Selector" for name in ("Leader", "RackAwareReplica"))
_OWN_KEYS = (
    ConfigKey("advertised.listeners", _S, ""),
    ConfigKey("alter.log.dirs.replication.quota.window.num", _I, 11, at_least(1)),
    ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", _I, 1, at_least(1)),
    ConfigKey("auto.create.topics.enable", _B, True),
    ConfigKey("auto.leader.rebalance.enable", _B, True),
    ConfigKey("broker.id", _I, -1, at_least(-1)),
    ConfigKey("broker.id.generation.enable", _B, True),
    ConfigKey("broker.rack", _S, ""),
    ConfigKey("connections.max.idle.ms", _L, 600_000),
    ConfigKey("controlled.shutdown.enable", _B, True),
    ConfigKey("controlled.shutdown.max.retries", _I, 3, at_least(0)),
    ConfigKey("controlled.shutdown.retry.backoff.ms", _L, 5_000, at_least(0)),
    ConfigKey("controller.quota.window.num", _I, 11, at_least(1)),
    ConfigKey("controller.quota.window.size.seconds", _I, 1, at_least(1)),
    ConfigKey("controller.socket.timeout.ms", _I, 30_000, at_least(1)),
    ConfigKey("default.replication.factor", _I, 1, at_least(1)),
    ConfigKey("delete.topic.enable", _B, True),
    ConfigKey("fetch.max.bytes", _I, 57_671_680, at_least(1024)),
    ConfigKey("group.initial.rebalance.delay.ms", _I, 3_000, at_least(0)),
    ConfigKey("group.max.session.timeout.ms", _I, 1_800_000, at_least(1)),
    ConfigKey("group.max.size", _I, 2**31 - 1, at_least(1)),
    ConfigKey("group.min.session.timeout.ms", _I, 6_000, at_least(1)),
    ConfigKey("inter.broker.protocol.version", _S, "3.9-IV0"),
    ConfigKey("leader.imbalance.check.interval.seconds", _L, 300, at_least(1)),
    ConfigKey("leader.imbalance.per.broker.percentage", _I, 10, at_least(0)),
    ConfigKey("listener.security.protocol.map", _S, PROTOCOL_MAP),
    ConfigKey("listeners", _S, "PLAINTEXT://:9092"),
    ConfigKey("log.dir", _S, "/tmp/kafka-logs"),
    ConfigKey("log.dirs", _S, ""),
    ConfigKey("log.cleaner.backoff.ms", _L, 15_000, at_least(0)),
    ConfigKey("log.cleaner.dedupe.buffer.size", _L, 134_217_728),
    ConfigKey("log.cleaner.enable", _B, True),
    ConfigKey("log.cleaner.io.buffer.load.factor", _D, 0.9),
    ConfigKey("log.cleaner.threads", _I, 1, at_least(1)),
    ConfigKey("log.flush.start.offset.checkpoint.interval.ms", _I, 60_000, at_least(0)),
    ConfigKey("log.retention.check.interval.ms", _L, 300_000, at_least(1)),
    ConfigKey("log.retention.hours", _I, 168),
    ConfigKey("log.retention.minutes", _I, -1),
    ConfigKey("log.roll.hours", _I, 168, at_least(1)),
    ConfigKey("max.connection.creation.rate", _I, 2**31 - 1, at_least(0)),
    ConfigKey("max.connections", _I, 2**31 - 1, at_least(0)),
    ConfigKey("max.connections.per.ip", _I, 2**31 - 1, at_least(0)),
    ConfigKey("max.connections.per.ip.overrides", _S, "", hosts_with_numbers),
    ConfigKey("max.incremental.fetch.session.cache.slots", _I, 1_000, at_least(0)),
    ConfigKey("password.encoder.cipher.algorithm", _S, "AES/CBC/PKCS5Padding"),
    ConfigKey("password.encoder.iterations", _I, 4_096, at_least(1_024)),
    ConfigKey("password.encoder.key.length", _I, 128, at_least(8)),
    ConfigKey("password.encoder.keyfactory.algorithm", _S, ""),
    ConfigKey("password.encoder.secret", ConfigType.PASSWORD, ""),
    ConfigKey("producer.id.expiration.check.interval.ms", _I, 600_000, at_least(1)),
    ConfigKey("producer.id.expiration.ms", _I, 86_400_000, at_least(1)),
    ConfigKey("transaction.partition.verification.enable", _B, True),
    ConfigKey("node.id", _I, -1),
    ConfigKey("num.partitions", _I, 1, at_least(1)),
    ConfigKey("num.replica.fetchers", _I, 1, at_least(1)),
    ConfigKey("offset.metadata.max.bytes", _I, 4_096, at_least(0)),
    ConfigKey("offsets.commit.required.acks", _SHORT, -1, between(-1, 1)),
    ConfigKey("offsets.commit.timeout.ms", _I, 5_000, at_least(1)),
    ConfigKey("offsets.load.buffer.size", _I, 5_242_880, at_least(1)),
    ConfigKey("offsets.retention.check.interval.ms", _L, 600_000, at_least(1)),
    ConfigKey("offsets.retention.minutes", _I, 10_080, at_least(1)),
    ConfigKey("offsets.topic.num.partitions", _I, 50, at_least(1)),
    ConfigKey("offsets.topic.replication.factor", _SHORT, 3, at_least(1)),
    ConfigKey("offsets.topic.segment.bytes", _I, 104_857_600, at_least(1)),
    ConfigKey("quota.window.num", _I, 11, at_least(1)),
    ConfigKey("quota.window.size.seconds", _I, 1, at_least(1)),
    ConfigKey("replica.fetch.backoff.ms", _I, 1_000, at_least(0)),
    ConfigKey("replica.fetch.max.bytes", _I, 1_048_576, at_least(0)),
    ConfigKey("replica.fetch.min.bytes", _I, 1, at_least(0)),
    ConfigKey("replica.fetch.response.max.bytes", _I, 10_485_760, at_least(0)),
    ConfigKey("replica.fetch.wait.max.ms", _I, 500, at_least(0)),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", _L, 5_000, at_least(1)),
    ConfigKey("replica.lag.time.max.ms", _L, 30_000, at_least(1)),
    ConfigKey("replica.selector.class", _S, "", class_of(*_SELECTORS)),
    ConfigKey("replica.socket.timeout.ms", _I, 30_000, at_least(1)),
    ConfigKey("replication.quota.window.num", _I, 11, at_least(1)),
    ConfigKey("replication.quota.window.size.seconds", _I, 1, at_least(1)),
    ConfigKey("request.timeout.ms", _I, 30_000, at_least(1)),
    ConfigKey("reserved.broker.max.id", _I, 1_000, at_least(0)),
    ConfigKey("socket.request.max.bytes", _I, 104_857_600, at_least(1)),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", _I, 10_000, at_least(1)),
    ConfigKey("transaction.max.timeout.ms", _I, 900_000, at_least(1)),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", _I, 3_600_000, at_least(1)),
    ConfigKey("transaction.state.log.load.buffer.size", _I, 5_242_880, at_least(1)),
    ConfigKey("transaction.state.log.min.isr", _I, 2, at_least(1)),
    ConfigKey("transaction.state.log.num.partitions", _I, 50, at_least(1)),
    ConfigKey("transaction.state.log.replication.factor", _SHORT, 3, at_least(1)),
    ConfigKey("transaction.state.log.segment.bytes", _I, 104_857_600, at_least(1)),
    ConfigKey("transactional.id.expiration.ms", _I, 604_800_000, at_least(1)),
    ConfigKey("unclean.leader.election.enable", _B, False),
    ConfigKey("zookeeper.connect", _S, ""),
    ConfigKey("zookeeper.connection.timeout.ms", _I, -1),
    ConfigKey("zookeeper.max.in.flight.requests", _I, 10, at_least(1)),
    ConfigKey("zookeeper.session.timeout.ms", _I, 18_000, at_least(1)),
    ConfigKey("zabka.control.socket", _S, ""),
    ConfigKey(HISTORICAL_KEY, _LIST, "", list_of(*Historical)),
    ConfigKey("zabka.journal.dir", _S, ""),
    ConfigKey("zabka.journal.level", _S, "normal", one_of("normal", "full")),
    ConfigKey("zabka.messages", _S, "control", one_of("off", "control", "all")),
    ConfigKey("zabka.node.name", _S, ""),
)


def _compile_broker_keys() -> dict[str, ConfigKey]:
    keys = by_name((*_OWN_KEYS, *AUTHORIZER_KEYS, *INTER_BROKER_KEYS, *TLS_KEYS, *SASL_KEYS, *ENSEMBLE_TLS_KEYS))
    for topic_key in TOPIC_KEYS.values():
        name = topic_key.synonym
        if name is not None and name not in keys:
            keys[name] = topic_key._replace(name=name, synonym=None)
    return keys


HIDDEN = "(hidden)"
BROKER_KEYS: dict[str, ConfigKey] = _compile_broker_keys()
"""Definitions of the broker keys that this broker uses or describes."""

_CONNECTION_KEYS = (
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
)
_LISTENER_KEYS = ("max.connection.creation.rate", "max.connections")
"""Keys that can be overridden for a listener, also while the broker runs: listener.name.NAME.KEY."""
_STATIC_LISTENER_KEYS = (*_LISTENER_KEYS, *(key.name for key in TLS_KEYS), *OF_LISTENERS)
"""Keys that can be overridden for a listener in the file."""

HOUSEKEEPING_KEYS = (
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.threads",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
)
"""Keys of compaction, producer expiry and transaction verification (LogCleaner, DynamicProducerStateManagerConfig)."""

DYNAMIC_KEYS: tuple[str, ...] = tuple(
    sorted(
        {key.synonym for key in TOPIC_KEYS.values() if key.synonym is not None and key.synonym in BROKER_KEYS}
        | {*_CONNECTION_KEYS, *HOUSEKEEPING_KEYS}
    )
)
"""Broker keys that can change while the broker runs, cluster-wide or for one broker (DynamicBrokerConfig)."""

_COARSER_TIMES: Mapping[str, Mapping[str, int]] = {
    "log.retention.ms": {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000},
    "log.roll.ms": {"log.roll.hours": 3_600_000},
}
"""Maps keys in milliseconds to the keys in coarser units that can be set instead. The first key that is set is used."""


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """One broker's configuration. Times are in milliseconds and sizes in bytes, as the keys' names say."""

    broker_id: int
    """The broker id; -1 if the broker must generate one."""
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    log_dirs: tuple[str, ...]
    zookeeper_connect: str
    """Connection string of the ensemble, for example "h1:2181,h2:2181/chroot"."""
    rack: str | None
    values: Mapping[str, Value]
    """Every key of `BROKER_KEYS`, parsed."""
    originals: Mapping[str, str]
    """The keys and value strings as they are in the file."""
    tls: Mapping[str, TlsKeys]
    """The TLS configuration of each listener with the security protocol SSL or SASL_SSL, keyed by name."""
    sasl: Mapping[str, SaslKeys]
    """The SASL configuration of each listener with SASL_PLAINTEXT or SASL_SSL, keyed by name."""
    credentials: Mapping[str, Credentials | TokenLoginKeys]
    """The logins with which this broker connects to listeners with SASL of other brokers, keyed by listener name."""
    ensemble_tls: EnsembleTls | None = None
    """The TLS configuration of the sessions with the ensemble, or None for plain text."""
    warnings: tuple[str, ...] = ()

    def identified(self, broker_id: int) -> KafkaConfig:
        """Return the configuration with this generated broker id."""
        return replace(self, broker_id=broker_id, values={**self.values, "broker.id": broker_id})

    @property
    def log_dir(self) -> str:
        """The first directory of log.dirs. It contains those files of the broker that belong to no partition."""
        return self.log_dirs[0]

    def number(self, key: str) -> int:
        """Return the value of an integer key."""
        value = self.values[key]
        assert isinstance(value, int), key
        return int(value)

    def fraction(self, key: str) -> float:
        """Return the value of a key with a floating-point value."""
        value = self.values[key]
        assert isinstance(value, float | int), key
        return float(value)

    def flag(self, key: str) -> bool:
        """Return the value of a boolean key."""
        value = self.values[key]
        assert isinstance(value, bool), key
        return value

    def text(self, key: str) -> str:
        """Return the value of a string key."""
        return str(self.values[key])

    @property
    def session_timeout_ms(self) -> int:
        """zookeeper.session.timeout.ms of this broker."""
        return self.number("zookeeper.session.timeout.ms")

    @property
    def connection_timeout_ms(self) -> int:
        """zookeeper.connection.timeout.ms, or the session timeout if it is not set."""
        key = "zookeeper.connection.timeout.ms"
        return self.number(key) if key in self.originals else self.session_timeout_ms

    @property
    def replica_lag_time_max_ms(self) -> int:
        """replica.lag.time.max.ms of this broker."""
        return self.number("replica.lag.time.max.ms")

    @property
    def unclean_leader_election_enable(self) -> bool:
        """unclean.leader.election.enable of this broker."""
        return self.flag("unclean.leader.election.enable")

    @property
    def min_insync_replicas(self) -> int:
        """min.insync.replicas of this broker."""
        return self.number("min.insync.replicas")

    @property
    def historical(self) -> frozenset[Historical]:
        """zabka.historical: old behaviours of Kafka that are enabled."""
        return frozenset(Historical(name) for name in split_list(self.text(HISTORICAL_KEY)))

    @property
    def inter_broker_listener(self) -> str:
        """Name of the listener for connections between brokers."""
        return inter_broker_listener(self.values)

    @property
    def control_plane_listener(self) -> str:
        """Name of the listener for connections from and to the controller, or "" if it is the inter-broker listener."""
        return control_plane_listener(self.values)

    @property
    def node_name(self) -> str:
        """This broker's name in the journal."""
        return self.text("zabka.node.name") or f"broker-{self.broker_id}"

    def effective(self) -> dict[str, str]:
        """Return every value that the configuration file sets, as a string, for the journal. Passwords are hidden."""
        return {
            name: HIDDEN if is_password(name) else render(self.values[name])
            for name in sorted(self.originals)
            if name in self.values
        }


def _check_zookeeper_connect(text: str) -> None:
    if not text:
        raise ConfigError('Missing required configuration "zookeeper.connect" which has no default value.')
    try:
        parse_hosts(text)
    except ValueError as bad:
        raise ConfigError(f"Invalid value {text} for configuration zookeeper.connect: {bad}") from None


def _parse_values(properties: Mapping[str, str]) -> tuple[dict[str, Value], list[str]]:
    values = {name: key.default for name, key in BROKER_KEYS.items()}
    warnings = []
    for name, text in properties.items():
        key = BROKER_KEYS.get(name) or _listeners_own(name, _STATIC_LISTENER_KEYS)
        if key is not None:
            values[name] = key.parse(text)
        elif name in KAFKA_KEYS:
            KAFKA_KEYS[name].definition.parse(text)
            check_broker_value(name, text)
        else:
            known = (*BROKER_KEYS, *KAFKA_KEYS)
            warnings.append(f"unknown configuration {name} is ignored{did_you_mean(name, known)}")
        if name in BROKER_WITHOUT_EFFECT:
            _, why = BROKER_WITHOUT_EFFECT[name]
            warnings.append(f"{name} has no effect here: {why}")
    for name, coarser in _COARSER_TIMES.items():
        found = next((key for key in coarser if key in properties), None)
        if found is not None and name not in properties:
            count = values[found]
            assert isinstance(count, int)
            values[name] = count * coarser[found] if count >= 0 else -1
    return values, warnings


def _broker_id(values: Mapping[str, Value], properties: Mapping[str, str]) -> Value:
    """Return broker.id, or node.id if only node.id is set (KafkaConfig.populateSynonyms). Raises ConfigError."""
    if "node.id" not in properties:
        return values["broker.id"]
    if "broker.id" in properties and values["broker.id"] != values["node.id"]:
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    return BROKER_KEYS["broker.id"].parse(properties["node.id"])


def _listeners_own(name: str, keys: tuple[str, ...] = _LISTENER_KEYS) -> ConfigKey | None:
    """Return the definition of listener.name.NAME.KEY for one of these keys, or None for any other key."""
    if not name.startswith("listener.name."):
        return None
    own = next((key for key in keys if name.endswith(f".{key}")), None)
    return None if own is None else BROKER_KEYS[own]._replace(name=name)


def listener_tls_key(name: str) -> ConfigKey | None:
    """Return the definition of listener.name.NAME.KEY for a key of a store, which is dynamic, or None otherwise."""
    return _listeners_own(name, RELOADED_KEYS)


def is_password(name: str) -> bool:
    """Return whether the value of a key is a password, which is never shown."""
    key = BROKER_KEYS.get(name) or _listeners_own(name, _STATIC_LISTENER_KEYS)
    return key is not None and key.type is ConfigType.PASSWORD


def check_cleaner(values: Mapping[str, Value]) -> None:
    """Raise ConfigError if there is too little deduplication memory per compaction thread."""
    buffer_bytes, threads = values["log.cleaner.dedupe.buffer.size"], values["log.cleaner.threads"]
    assert isinstance(buffer_bytes, int) and isinstance(threads, int)
    if buffer_bytes // threads <= _CLEANER_BYTES_MIN:
        raise ConfigError("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")


def dynamic_key(name: str) -> ConfigKey | None:
    """Return the definition of a dynamic key of the broker or of a listener, or None for other keys."""
    return BROKER_KEYS[name] if name in DYNAMIC_KEYS else _listeners_own(name)


def parse_config(text: str) -> KafkaConfig:
    """Parse `server.properties`. Raises ConfigError with a message for the user."""
    try:
        return config_from(trimmed(read_properties(text)))
    except BadProperties as bad:
        raise ConfigError(f"server.properties is not a Java properties file: {bad}") from None


def config_from(properties: Mapping[str, str]) -> KafkaConfig:
    """Return a configuration from keys and value strings. Raises ConfigError."""
    values, warnings = _parse_values(properties)
    values["broker.id"] = _broker_id(values, properties)
    listeners = read_listeners(values)
    _check_zookeeper_connect(str(values["zookeeper.connect"]))
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        raise ConfigError(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
        )
    check_cleaner(values)
    read_super_users(str(values["super.users"]))
    read_encoder(values)
    log_dirs = split_list(str(values["log.dirs"]) or str(values["log.dir"]))
    if not log_dirs:
        raise ConfigError("Invalid value for configuration log.dirs: at least one directory is needed")
    broker_id, reserved = values["broker.id"], values["reserved.broker.max.id"]
    assert isinstance(broker_id, int) and isinstance(reserved, int)
    if values["broker.id.generation.enable"] and broker_id > reserved:
        raise ConfigError(
            f"Invalid value {broker_id} for configuration broker.id: "
            f"broker.id must be equal or less than reserved.broker.max.id ({reserved})"
        )
    if broker_id < 0 and not values["broker.id.generation.enable"]:
        raise ConfigError('Missing required configuration "broker.id" which has no default value.')
    advertised = read_advertised(values, listeners)
    check_inter_broker_listeners(values, properties, advertised)
    tls, sasl = read_tls(values, listeners), read_sasl(values, properties, listeners)
    credentials = read_credentials(values, properties, listeners, tls, sasl)
    return KafkaConfig(
        broker_id=broker_id,
        listeners=listeners,
        advertised_listeners=advertised,
        log_dirs=tuple(log_dirs),
        zookeeper_connect=str(values["zookeeper.connect"]),
        rack=str(values["broker.rack"]) or None,
        values=values,
        originals=dict(properties),
        tls=tls,
        sasl=sasl,
        credentials=credentials,
        ensemble_tls=read_ensemble_tls(values),
        warnings=(
            *warnings,
            *unused_tls_keys(properties, listeners),
            *sasl_warnings(properties, listeners, sasl, credentials),
        ),
    )

"""AlterConfigs and IncrementalAlterConfigs (kafka.server.ConfigAdminManager, ZkAdminManager, DynamicBrokerConfig)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.broker_config import (
    HOUSEKEEPING_KEYS,
    KafkaConfig,
    check_cleaner,
    dynamic_key,
    listener_tls_key,
)
from zabka.broker_sim.configs.broker_keys import KAFKA_KEYS, REPLICATION_QUOTAS
from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, render
from zabka.broker_sim.configs.config_resources import (
    BROKER,
    BROKER_LOGGER,
    TOPIC,
    Alteration,
    ConfigResult,
    Operation,
    Resource,
    whole_number,
)
from zabka.broker_sim.configs.dynamic_tls import DynamicTls, without_prefix
from zabka.broker_sim.configs.entity_configs import EntityConfigs
from zabka.broker_sim.configs.entity_znodes import EntityZnodes
from zabka.broker_sim.configs.sasl_keys import is_sasl_key
from zabka.broker_sim.configs.tls_keys import is_tls_key
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS, validate_topic_config
from zabka.broker_sim.loggers import LoggerLevels
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import DEFAULT_ENTITY

_POOLS = ("background.threads", "num.io.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers")
_BROKER_KEYS = {**{name: key.definition for name, key in KAFKA_KEYS.items()}, **REPLICATION_QUOTAS}


class ConfigAdmin:
    """Alters the configuration of topics and brokers."""

    def __init__(
        self,
        zk: Zk,
        config: KafkaConfig,
        configs: EntityConfigs,
        metadata: MetadataCache,
        loggers: LoggerLevels,
        tls: DynamicTls,
        *,
        log_line: Callable[[str], None],
    ) -> None:
        """`log_line` receives a message about each change of a logger's level."""
        self._znodes = EntityZnodes(zk)
        self._config = config
        self._configs = configs
        self._metadata = metadata
        self._loggers = loggers
        self._tls = tls
        self._log_line = log_line

    async def alter(self, resource: Resource, configs: Sequence[Alteration], validate_only: bool) -> ConfigResult:
        """Process AlterConfigs: replace all overrides of a resource. Every given key must have a value."""
        if resource.type == BROKER_LOGGER:
            return _refusal(resource, Refused(KafkaError.invalid_request, "Unknown resource type 8"))
        return await self._guarded(resource, configs, validate_only, replace=True)

    async def alter_incrementally(
        self, resource: Resource, alterations: Sequence[Alteration], validate_only: bool
    ) -> ConfigResult:
        """Process IncrementalAlterConfigs: change the given keys and leave all others unchanged."""
        return await self._guarded(resource, alterations, validate_only, replace=False)

    async def _guarded(
        self, resource: Resource, alterations: Sequence[Alteration], validate_only: bool, replace: bool
    ) -> ConfigResult:
        try:
            _check_alterations(alterations)
            await self._alter(resource, alterations, validate_only, replace)
        except Refused as refused:
            return _refusal(resource, refused)
        except ConfigError as wrong:
            named = f"ConfigResource(type={resource.kind}, name='{resource.name}')"
            return ConfigResult(
                resource, KafkaError.invalid_config, f"Invalid config value for resource {named}: {wrong}"
            )
        except SessionExpired:
            return ConfigResult(resource, KafkaError.unknown_server_error, "This broker's session has expired.")
        except ZooKeeperError as failure:
            return ConfigResult(resource, KafkaError.unknown_server_error, str(failure))
        return ConfigResult(resource)

    async def _alter(
        self, resource: Resource, alterations: Sequence[Alteration], validate_only: bool, replace: bool
    ) -> None:
        if resource.type == BROKER_LOGGER:
            self._alter_loggers(resource.name, alterations, validate_only)
            return
        entity, keys = self._entity(resource)
        while True:
            before, version = await self._znodes.read(entity)
            overrides = {} if replace else dict(before)
            for alteration in alterations:
                _apply(overrides, alteration, keys)
            if resource.type == TOPIC:
                _validate_topic(overrides)
            else:
                overrides = self._check_broker_change(entity, before, overrides, validate_only)
            if validate_only or await self._znodes.write(entity, overrides, version):
                return

    def _check_broker_change(
        self, entity: str, before: Mapping[str, str], overrides: dict[str, str], validate_only: bool
    ) -> dict[str, str]:
        """Validate the overrides of brokers, and return them with encrypted passwords. Raises Refused, ConfigError.

        As in Kafka, also load the stores of listeners whose files were modified.
        """
        one_broker = entity != f"brokers/{DEFAULT_ENTITY}"
        changed = {name: text for name, text in overrides.items() if before.get(name) != text}
        kept = {name: text for name, text in overrides.items() if name not in changed}
        plain = {**self._tls.decoded(kept), **changed}
        self._validate_broker(entity, plain, one_broker)
        if validate_only:
            return overrides
        if one_broker:
            self._tls.reload(plain)
        return self._tls.encoded(overrides, changed, one_broker=one_broker)

    def _alter_loggers(self, name: str, alterations: Sequence[Alteration], validate_only: bool) -> None:
        number = self._node_number(name)
        if number != self._config.broker_id:
            raise Refused(
                KafkaError.invalid_request,
                f"Unexpected node id. Expected {self._config.broker_id}, but received {number}",
            )
        for line in self._loggers.alter(alterations, validate_only):
            self._log_line(line)

    # ---- validation ---------------------------------------------------------------------------------------------

    def _entity(self, resource: Resource) -> tuple[str, Mapping[str, ConfigKey]]:
        """Return a resource's path below /config, and the keys that can be set there."""
        if resource.type == TOPIC:
            if not resource.name:
                raise Refused(KafkaError.invalid_request, "Default topic resources are not allowed.")
            if resource.name not in self._metadata:
                raise Refused(KafkaError.unknown_topic_or_partition, f"The topic '{resource.name}' does not exist.")
            return f"topics/{resource.name}", TOPIC_KEYS
        if resource.type == BROKER:
            if not resource.name:
                return f"brokers/{DEFAULT_ENTITY}", _BROKER_KEYS
            self._check_broker(resource.name)
            return f"brokers/{self._config.broker_id}", _BROKER_KEYS
        if resource.kind == "CLIENT_METRICS":
            raise Refused(
                KafkaError.invalid_request,
                f"AlterConfigs is only supported for topics and brokers, but resource type is {resource.kind}",
            )
        raise Refused(KafkaError.invalid_request, f"Unknown resource type {resource.type}")

    def _node_number(self, name: str) -> int:
        number = whole_number(name)
        if number is None:
            raise Refused(KafkaError.invalid_request, f"Node id must be an integer, but it is: {name}")
        return number

    def _check_broker(self, name: str) -> None:
        if self._node_number(name) != self._config.broker_id:
            raise Refused(
                KafkaError.invalid_request,
                f"Unexpected broker id, expected {self._config.broker_id}, but received {name}",
            )

    def _validate_broker(self, entity: str, overrides: Mapping[str, str], one_broker: bool) -> None:
        """Raise Refused for invalid values and for keys that are not dynamic. Unknown keys can have any value."""
        fixed = sorted(name for name in overrides if name in KAFKA_KEYS and not KAFKA_KEYS[name].is_dynamic)
        if fixed:
            raise Refused(
                KafkaError.invalid_request, f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
            )
        shared = without_prefix(overrides)
        if shared:
            raise Refused(
                KafkaError.invalid_request,
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                f"Set({', '.join(shared)})",
            )
        fixed = sorted(name for name in overrides if _is_read_at_the_start(name))
        if fixed:
            raise Refused(
                KafkaError.invalid_request,
                f"Cannot update these configs dynamically: Set({', '.join(fixed)}). Kafka would use them only after "
                "its next start, and brokers here read them from their file: change it, and restart the broker",
            )
        try:
            for name, text in sorted(overrides.items()):
                key = dynamic_key(name) or _BROKER_KEYS.get(name)
                if key is not None:
                    value = key.parse(text)
                    if name in _POOLS and isinstance(value, int):
                        self._check_pool(name, value)
            self._check_housekeeping(entity, overrides)
        except ConfigError as wrong:
            raise Refused(KafkaError.invalid_request, str(wrong)) from None
        own = sorted(name for name in overrides if _is_per_broker(name))
        if own and not one_broker:
            raise Refused(
                KafkaError.invalid_request,
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"Set({', '.join(own)})",
            )
        if one_broker:
            try:
                self._tls.check(overrides)
            except ConfigError as wrong:
                raise Refused(KafkaError.invalid_request, str(wrong)) from None

    def _check_pool(self, name: str, size: int) -> None:
        """Raise ConfigError if a thread pool would shrink below half or grow above twice its size
        (DynamicThreadPool).
        """
        present = self._pool_now(name)
        if present // 2 <= size <= 2 * present:
            return
        bound = "not be greater than double" if size > present else "be at least half"
        # In Kafka's message, the invalid value is replaced by the text of the exception.
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation "
            f"failed for {name}={size}, value should {bound} the current value {present} "
            "for configuration Invalid dynamic configuration"
        )

    def _pool_now(self, name: str) -> int:
        """Return a thread pool's current size.

        Sources in order of precedence: this broker's override, the cluster-wide override, the configuration file,
        Kafka's default.
        """
        for entity in (f"brokers/{self._config.broker_id}", f"brokers/{DEFAULT_ENTITY}"):
            with suppress(ConfigError):
                size = _BROKER_KEYS[name].parse(self._configs.overrides(entity).get(name, ""))
                if isinstance(size, int):
                    return size
        return int(self._config.originals.get(name) or KAFKA_KEYS[name].default or "1")

    def _check_housekeeping(self, entity: str, overrides: Mapping[str, str]) -> None:
        """Validate the keys of compaction and producer expiry together, even if the request only removes overrides.

        Sources: LogCleaner.validateReconfiguration, KafkaConfig. A request for other keys must not fail because of
        values that were written directly into the znode.
        """
        now = {name: self._configs.broker_value(name) for name in HOUSEKEEPING_KEYS}
        after = {name: self._configs.broker_value(name, {entity: overrides}) for name in HOUSEKEEPING_KEYS}
        if after == now:
            return
        check_cleaner(after)
        threads, present = after["log.cleaner.threads"], now["log.cleaner.threads"]
        assert isinstance(threads, int) and isinstance(present, int)
        if present // 2 <= threads <= 2 * present:
            return
        bound = "increased to more than double" if threads > present else "reduced to less than half"
        raise ConfigError(f"Log cleaner threads cannot be {bound} the current value {present}")


def _is_read_at_the_start(name: str) -> bool:
    """Return whether a key of TLS or SASL has an effect only at the start of a broker."""
    return (is_tls_key(name) and listener_tls_key(name) is None) or is_sasl_key(name)


def _is_per_broker(name: str) -> bool:
    """Return whether a key can change only for one broker (DynamicBrokerConfig.perBrokerConfigs)."""
    if name in KAFKA_KEYS:
        return KAFKA_KEYS[name].is_per_broker
    return listener_tls_key(name) is not None


def _refusal(resource: Resource, refused: Refused) -> ConfigResult:
    return ConfigResult(resource, refused.error, refused.message)


def _check_alterations(alterations: Sequence[Alteration]) -> None:
    names = [alteration.name for alteration in alterations]
    if len(set(names)) != len(names):
        raise Refused(KafkaError.invalid_request, "Error due to duplicate config keys")
    empty = [each.name for each in alterations if each.operation != Operation.DELETE and each.value is None]
    if empty:
        raise Refused(KafkaError.invalid_request, f"Null value not supported for : {', '.join(empty)}")


def _validate_topic(overrides: Mapping[str, str]) -> None:
    unknown = next((name for name in sorted(overrides) if name not in TOPIC_KEYS), None)
    if unknown is not None:
        raise Refused(KafkaError.invalid_config, f"Unknown topic config name: {unknown}")
    validate_topic_config(overrides)


def _apply(overrides: dict[str, str], alteration: Alteration, keys: Mapping[str, ConfigKey]) -> None:
    name, value = alteration.name, alteration.value
    if alteration.operation == Operation.DELETE:
        overrides.pop(name, None)
        return
    assert value is not None, "checked before"
    if alteration.operation == Operation.SET:
        overrides[name] = value
        return
    if alteration.operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise Refused(KafkaError.invalid_request, f"Unknown operations type {alteration.operation}")
    key = keys.get(name)
    if key is None or key.type is not ConfigType.LIST:
        what = Operation(alteration.operation).name.lower()
        raise Refused(KafkaError.invalid_config, f"Config value {what} is not allowed for config key: {name}")
    change = _appended if alteration.operation == Operation.APPEND else _subtracted
    overrides[name] = change(overrides.get(name, render(key.default)), value)


def _appended(present: str, more: str) -> str:
    members = _comma_parts(present) if present else []
    return ",".join(members + [part for part in _comma_parts(more) if part not in members])


def _subtracted(present: str, less: str) -> str:
    """Remove one occurrence of each member of `less` from a comma-separated list. As in Kafka, the list may become
    empty.
    """
    members = _comma_parts(present)
    for part in _comma_parts(less):
        if part in members:
            members.remove(part)
    return ",".join(members)


def _comma_parts(text: str) -> list[str]:
    """Split a string at commas like Java's String.split, without empty parts at the end."""
    if not text:
        return [""]
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts

"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs (kafka.server.ConfigAdminManager and ZkAdminManager)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from broker_sim.admin import ZNODE_BYTES_MAX, Refused
from broker_sim.config import BROKER_KEYS, DYNAMIC_KEYS, KafkaConfig
from broker_sim.config_def import ConfigError, ConfigKey, ConfigType, render, split_list
from broker_sim.entity_configs import CHANGE_PREFIX, DEFAULT_ENTITY, EntityConfigs
from broker_sim.metadata_cache import MetadataCache
from broker_sim.topic_config import TOPIC_KEYS, validate_topic_config
from broker_sim.topic_names import invalid_name
from controller import znodes
from controller.coordination import Zk
from ensemble.client.service import Check, Create, SetData
from ensemble.errors import ErrorCode, NoNode, SessionExpired, ZooKeeperError, error_for

TOPIC = 2
BROKER = 4
_KINDS = {TOPIC: "TOPIC", BROKER: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}


class Source(IntEnum):
    """Where a value comes from (DescribeConfigsResponse.ConfigSource)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """What a configuration belongs to."""

    type: int
    name: str


class Alteration(NamedTuple):
    """One key's change."""

    name: str
    operation: int
    value: str | None


class Synonym(NamedTuple):
    """One place a value may come from."""

    name: str
    value: str
    source: Source


class Described(NamedTuple):
    """One key of a resource; `synonyms` from the place that counts down to the default."""

    name: str
    value: str
    type: ConfigType
    read_only: bool
    source: Source
    synonyms: tuple[Synonym, ...]


class ConfigResult(NamedTuple):
    """What became of one resource of a request."""

    resource: Resource
    error: KafkaError = KafkaError.none
    message: str | None = None
    configs: tuple[Described, ...] = ()


class ConfigAdmin:
    """Describes and alters the configuration of topics and brokers."""

    def __init__(self, zk: Zk, config: KafkaConfig, metadata: MetadataCache, entities: EntityConfigs) -> None:
        self._zk = zk
        self._config = config
        self._metadata = metadata
        self._entities = entities

    # ---- describe ---------------------------------------------------------------------------------------------

    async def describe(self, resource: Resource, names: Sequence[str] | None) -> ConfigResult:
        """A resource's keys, all or those named.  Reads the znode, so that it shows what was just written."""
        try:
            if resource.type == TOPIC:
                described = await self._describe_topic(resource.name)
            elif resource.type == BROKER:
                described = await self._describe_broker(resource.name)
            else:
                raise _unsupported(resource)
        except Refused as refused:
            return ConfigResult(resource, refused.error, refused.message)
        except ZooKeeperError as failure:
            return ConfigResult(resource, KafkaError.unknown_server_error, str(failure))
        if names:
            described = [each for each in described if each.name in names]
        return ConfigResult(resource, configs=tuple(described))

    async def _describe_topic(self, topic: str) -> list[Described]:
        self._check_topic(topic)
        overrides = await self._overrides(f"topics/{topic}")
        return [self._describe_topic_key(key, overrides) for key in TOPIC_KEYS.values()]

    def _describe_topic_key(self, key: ConfigKey, overrides: Mapping[str, str]) -> Described:
        synonyms = []
        if key.name in overrides:
            synonyms.append(Synonym(key.name, overrides[key.name], Source.DYNAMIC_TOPIC_CONFIG))
        synonyms += self._synonyms(key.synonym, key) if key.synonym else [_default(key)]
        return Described(key.name, synonyms[0].value, key.type, False, synonyms[0].source, tuple(synonyms))

    def _synonyms(self, name: str, key: ConfigKey) -> list[Synonym]:
        found = []
        places = (
            (f"brokers/{self._config.broker_id}", Source.DYNAMIC_BROKER_CONFIG),
            (f"brokers/{DEFAULT_ENTITY}", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        )
        for entity, source in places:
            value = self._entities.overrides(entity).get(name)
            if value is not None:
                found.append(Synonym(name, value, source))
        if name in self._config.originals:
            found.append(Synonym(name, render(self._config.values[name]), Source.STATIC_BROKER_CONFIG))
        found.append(_default(BROKER_KEYS.get(name, key)))
        return found

    async def _describe_broker(self, name: str) -> list[Described]:
        entity = self._broker_entity(name)
        if entity == f"brokers/{DEFAULT_ENTITY}":
            overrides = await self._overrides(entity)
            return [
                Described(
                    key,
                    value,
                    BROKER_KEYS[key].type if key in BROKER_KEYS else ConfigType.STRING,
                    False,
                    Source.DYNAMIC_DEFAULT_BROKER_CONFIG,
                    (Synonym(key, value, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),),
                )
                for key, value in sorted(overrides.items())
            ]
        described = []
        for key in sorted(BROKER_KEYS):
            synonyms = self._synonyms(key, BROKER_KEYS[key])
            described.append(
                Described(
                    key,
                    synonyms[0].value,
                    BROKER_KEYS[key].type,
                    key not in DYNAMIC_KEYS,
                    synonyms[0].source,
                    tuple(synonyms),
                )
            )
        return described

    # ---- alter ------------------------------------------------------------------------------------------------

    async def alter(self, resource: Resource, configs: Mapping[str, str | None], validate_only: bool) -> ConfigResult:
        """AlterConfigs: these overrides replace all others."""
        empty = sorted(name for name, value in configs.items() if value is None)
        if empty:
            return ConfigResult(
                resource, KafkaError.invalid_request, f"Null value not supported for : {','.join(empty)}"
            )
        alterations = [Alteration(name, Operation.SET, value) for name, value in configs.items()]
        return await self._guarded(resource, alterations, validate_only, replace=True)

    async def alter_incrementally(
        self, resource: Resource, alterations: Sequence[Alteration], validate_only: bool
    ) -> ConfigResult:
        """IncrementalAlterConfigs: these keys change, the others stay."""
        return await self._guarded(resource, alterations, validate_only, replace=False)

    async def _guarded(
        self, resource: Resource, alterations: Sequence[Alteration], validate_only: bool, replace: bool
    ) -> ConfigResult:
        try:
            names = [alteration.name for alteration in alterations]
            if len(set(names)) != len(names):
                raise Refused(KafkaError.invalid_request, "Error due to duplicate config keys")
            await self._alter(resource, alterations, validate_only, replace)
        except Refused as refused:
            return ConfigResult(resource, refused.error, refused.message)
        except ConfigError as wrong:
            kind = _KINDS.get(resource.type, str(resource.type))
            message = f"Invalid config value for resource ConfigResource(type={kind}, name='{resource.name}'): {wrong}"
            return ConfigResult(resource, KafkaError.invalid_config, message)
        except SessionExpired:
            return ConfigResult(resource, KafkaError.unknown_server_error, "This broker's session has expired.")
        except ZooKeeperError as failure:
            return ConfigResult(resource, KafkaError.unknown_server_error, str(failure))
        return ConfigResult(resource)

    async def _alter(
        self, resource: Resource, alterations: Sequence[Alteration], validate_only: bool, replace: bool
    ) -> None:
        if resource.type == TOPIC:
            self._check_topic(resource.name)
            entity = f"topics/{resource.name}"
        elif resource.type == BROKER:
            entity = self._broker_entity(resource.name)
        else:
            raise _unsupported(resource)
        while True:
            before, version = await self._overrides_and_version(entity)
            overrides = {} if replace else dict(before)
            for alteration in alterations:
                _apply(overrides, alteration, TOPIC_KEYS if resource.type == TOPIC else BROKER_KEYS)
            _validate(resource.type, overrides)
            if validate_only or await self._write(entity, overrides, version):
                return

    def _check_topic(self, topic: str) -> None:
        wrong = invalid_name(topic)
        if wrong is not None:
            raise Refused(KafkaError.invalid_topic_exception, wrong)
        if topic not in self._metadata:
            raise Refused(KafkaError.unknown_topic_or_partition, f"The topic '{topic}' does not exist.")

    def _broker_entity(self, name: str) -> str:
        if name == "":
            return f"brokers/{DEFAULT_ENTITY}"
        if name != str(self._config.broker_id):
            raise Refused(
                KafkaError.invalid_request,
                f"Unexpected broker id, expected {self._config.broker_id} or empty string, but received {name}",
            )
        return f"brokers/{name}"

    # ---- the znodes -------------------------------------------------------------------------------------------

    async def _overrides(self, entity: str) -> dict[str, str]:
        return (await self._overrides_and_version(entity))[0]

    async def _overrides_and_version(self, entity: str) -> tuple[dict[str, str], int]:
        """The overrides and their znode's version, -1 where there is none."""
        try:
            data, stat = await self._zk.call(lambda: self._zk.service.get(f"/config/{entity}"))
        except NoNode:
            return {}, -1
        return znodes.decode_config(data) or {}, stat.version

    async def _write(self, entity: str, overrides: Mapping[str, str], version: int) -> bool:
        """Write, where there is a controller (KAFKA-16539), and notify; False where another was faster."""
        zk, service, path = self._zk, self._zk.service, f"/config/{entity}"
        data = znodes.encode_config(overrides)
        if len(data) > ZNODE_BYTES_MAX:
            raise Refused(KafkaError.invalid_config, f"The configuration exceeds {ZNODE_BYTES_MAX} bytes.")
        controller = await zk.call(lambda: service.exists(znodes.CONTROLLER))
        if controller is None:
            raise Refused(KafkaError.stale_controller_epoch, "There is no controller to take the change up.")
        write = Create(path, data) if version < 0 else SetData(path, data, version)
        results = await zk.call(lambda: service.multi([Check(znodes.CONTROLLER, controller.version), write]))
        if results[1].error in (ErrorCode.BAD_VERSION, ErrorCode.NODE_EXISTS, ErrorCode.NO_NODE):
            return (await self._overrides_and_version(entity))[0] == overrides and await self._notify(entity)
        if results[0].error in (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION):
            raise Refused(KafkaError.stale_controller_epoch, "The controller changed meanwhile.")
        if results[1].error is not ErrorCode.OK:
            raise error_for(results[1].error, path)
        return await self._notify(entity)

    async def _notify(self, entity: str) -> bool:
        path = f"{znodes.CONFIG_CHANGES}/{CHANGE_PREFIX}"
        data = znodes.encode_config_change(entity)
        await self._zk.call(lambda: self._zk.service.create(path, data, sequential=True))
        return True


def _default(key: ConfigKey) -> Synonym:
    return Synonym(key.name, render(key.default), Source.DEFAULT_CONFIG)


def _unsupported(resource: Resource) -> Refused:
    kind = _KINDS.get(resource.type, str(resource.type))
    return Refused(KafkaError.invalid_request, f"Unsupported resource type: {kind}")


def _apply(overrides: dict[str, str], alteration: Alteration, keys: Mapping[str, ConfigKey]) -> None:
    name, value = alteration.name, alteration.value
    if alteration.operation == Operation.DELETE:
        overrides.pop(name, None)
        return
    if value is None:
        raise Refused(KafkaError.invalid_request, f"Null value not supported for : {name}")
    if alteration.operation == Operation.SET:
        overrides[name] = value
        return
    key = keys.get(name)
    if key is None or key.type is not ConfigType.LIST:
        raise Refused(KafkaError.invalid_config, f"Config value append is not allowed for config key: {name}")
    words = split_list(overrides.get(name, render(key.default)))
    if alteration.operation == Operation.APPEND:
        words += [word for word in split_list(value) if word not in words]
    elif alteration.operation == Operation.SUBTRACT:
        words = [word for word in words if word not in split_list(value)]
    else:
        raise Refused(KafkaError.invalid_request, f"Unknown config operation {alteration.operation} for {name}")
    overrides[name] = ",".join(words)


def _validate(resource_type: int, overrides: Mapping[str, str]) -> None:
    """Raises ConfigError, or Refused for a broker key that cannot change while the broker runs."""
    if resource_type == TOPIC:
        validate_topic_config(overrides)
        return
    fixed = sorted(name for name in overrides if name not in DYNAMIC_KEYS)
    if fixed:
        raise Refused(KafkaError.invalid_request, f"Cannot update these configs dynamically: {', '.join(fixed)}")
    for name, text in sorted(overrides.items()):
        BROKER_KEYS[name].parse(text)

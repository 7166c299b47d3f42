"""DescribeConfigs: returns every key of a topic or a broker, with all possible sources of its value (ConfigHelper)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.authorizer_keys import UNDEFINED_IN_KAFKA
from zabka.broker_sim.configs.broker_config import BROKER_KEYS, KafkaConfig
from zabka.broker_sim.configs.broker_keys import KAFKA_KEYS, REPLICATION_QUOTAS, SYNONYMS
from zabka.broker_sim.configs.config_def import ConfigKey, ConfigType, render
from zabka.broker_sim.configs.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    TOPIC,
    ConfigResult,
    Described,
    Resource,
    Source,
    Synonym,
    whole_number,
)
from zabka.broker_sim.configs.entity_configs import EntityConfigs
from zabka.broker_sim.configs.key_sentences import BROKER as BROKER_SENTENCES
from zabka.broker_sim.configs.key_sentences import TOPIC as TOPIC_SENTENCES
from zabka.broker_sim.configs.keys_without_effect import BROKER_WITHOUT_EFFECT, TOPIC_WITHOUT_EFFECT
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS
from zabka.broker_sim.configs.unsupported_values import SUPPORTED_OF_BROKERS, SUPPORTED_OF_TOPICS, Supported
from zabka.broker_sim.loggers import LoggerLevels
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.errors import ErrorCode, ZooKeeperError, error_for
from zabka.kafka.topic_names import invalid_name
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import DEFAULT_ENTITY

_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_A_MECHANISM = re.compile(
    r"[^.]*\.(connections\.max\.reauth\.ms|sasl\.jaas\.config|sasl\.(?:login|server)\.(?:callback\.handler\.)?class)"
)
_Found = Mapping[str, Mapping[str, str]]
"""Overrides keyed by entity: "topics/T", "brokers/N", "brokers/<default>"."""


def _documentation(
    honoured: Mapping[str, str],
    without_effect: Mapping[str, tuple[str, str]],
    supported: Mapping[str, Supported],
) -> dict[str, str]:
    return {
        **honoured,
        **{key: f"{sentence} Without effect here: {why}." for key, (sentence, why) in without_effect.items()},
        **{key: f"{sentence} {_only(values)}" for key, (values, sentence, _) in supported.items()},
    }


def _only(values: tuple[str, ...]) -> str:
    return f"Here it may only be {values[0]}." if values[0] else "Here it may not be set."


BROKER_DOCUMENTATION: Mapping[str, str] = _documentation(BROKER_SENTENCES, BROKER_WITHOUT_EFFECT, SUPPORTED_OF_BROKERS)
"""Documentation of every broker key for DescribeConfigs (KIP-569), in zabka's own words."""
TOPIC_DOCUMENTATION: Mapping[str, str] = _documentation(TOPIC_SENTENCES, TOPIC_WITHOUT_EFFECT, SUPPORTED_OF_TOPICS)
"""Documentation of every topic key for DescribeConfigs (KIP-569), in zabka's own words."""


class _Places(NamedTuple):
    """The configured strings of a broker's keys, one mapping per source, in descending order of precedence."""

    own: Mapping[str, str]
    shared: Mapping[str, str]
    file: Mapping[str, str]

    def synonyms(self, name: str, is_sensitive: bool) -> list[Synonym]:
        """Return the possible sources of a key's value, starting with the effective one."""
        names = _synonyms(name)
        found = []
        for texts, source in (
            (self.own, Source.DYNAMIC_BROKER_CONFIG),
            (self.shared, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.file, Source.STATIC_BROKER_CONFIG),
            (_DEFAULTS, Source.DEFAULT_CONFIG),
        ):
            for each in names:
                if each in texts:
                    found.append(Synonym(each, None if is_sensitive else texts[each], source))
        # Kafka lists synonyms only from the first source that sets this key, not one of its synonyms.
        while found and found[0].name != name:
            found.pop(0)
        return found

    def value(self, name: str) -> str | None:
        """Return the value string of a key from the source with the highest precedence."""
        for texts in (self.own, self.shared, self.file, _DEFAULTS):
            if name in texts:
                return texts[name]
        return None


def _defaults() -> dict[str, str]:
    defaults = {name: key.default for name, key in KAFKA_KEYS.items() if key.default is not None}
    ours = {name: render(key.default) for name, key in BROKER_KEYS.items() if name not in KAFKA_KEYS}
    return {**defaults, **ours}


_DEFAULTS: Mapping[str, str] = _defaults()


class ConfigDescriber:
    """Describes the configuration of topics and of this broker.

    The znodes are read for each request, so that the response contains the last write.
    """

    def __init__(
        self, zk: Zk, config: KafkaConfig, metadata: MetadataCache, configs: EntityConfigs, loggers: LoggerLevels
    ) -> None:
        self._zk = zk
        self._config = config
        self._metadata = metadata
        self._configs = configs
        self._loggers = loggers
        self._own = f"brokers/{config.broker_id}"
        self._shared = f"brokers/{DEFAULT_ENTITY}"

    async def describe(self, asked: Sequence[tuple[Resource, Sequence[str] | None]]) -> Iterator[ConfigResult]:
        """Return all keys, or only the requested keys, of each resource.

        All znodes are read before the first result is yielded.
        """
        topics = [resource.name for resource, _ in asked if resource.type == TOPIC and resource.name in self._metadata]
        try:
            found = await self._read([self._own, self._shared, *(f"topics/{topic}" for topic in dict.fromkeys(topics))])
        except ZooKeeperError as failure:
            sentence = str(failure)
            return (ConfigResult(resource, KafkaError.unknown_server_error, sentence) for resource, _ in asked)
        return (self._result(resource, names, found) for resource, names in asked)

    def _result(self, resource: Resource, names: Sequence[str] | None, found: _Found) -> ConfigResult:
        try:
            described = self._describe(resource, found)
        except Refused as refused:
            return ConfigResult(resource, refused.error, refused.message)
        if names:
            described = [each for each in described if each.name in names]
        return ConfigResult(resource, configs=tuple(described))

    def _describe(self, resource: Resource, found: _Found) -> list[Described]:
        if resource.type == TOPIC:
            return self._topic(resource.name, found)
        if resource.type == BROKER:
            if resource.name:
                self._check_broker(resource.name, " or empty string,")
                return self._broker(found)
            return self._all_brokers(found)
        if resource.type == BROKER_LOGGER:
            if not resource.name:
                raise Refused(KafkaError.invalid_request, "Broker id must not be empty")
            self._check_broker(resource.name, "")
            return self._broker_loggers()
        if resource.type == CLIENT_METRICS:
            raise Refused(KafkaError.invalid_request, "Config type client-metrics is only supported on KRaft clusters")
        raise Refused(
            KafkaError.invalid_request, f"Unexpected resource type {resource.kind} for resource {resource.name}"
        )

    def _check_broker(self, name: str, otherwise: str) -> None:
        number = whole_number(name)
        if number is None:
            raise Refused(KafkaError.invalid_request, f"Broker id must be an integer, but it is: {name}")
        if number != self._config.broker_id:
            raise Refused(
                KafkaError.invalid_request,
                f"Unexpected broker id, expected {self._config.broker_id}{otherwise} but received {name}",
            )

    def _broker_loggers(self) -> list[Described]:
        return [
            Described(
                name=name,
                value=self._loggers.level(name),
                type=None,
                read_only=False,
                is_sensitive=False,
                source=Source.DYNAMIC_BROKER_LOGGER_CONFIG,
                synonyms=(),
                documentation="",
            )
            for name in self._loggers.names()
        ]

    # ---- topics -----------------------------------------------------------------------------------------------

    def _topic(self, topic: str, found: _Found) -> list[Described]:
        wrong = invalid_name(topic)
        if wrong is not None:
            raise Refused(KafkaError.invalid_topic_exception, wrong)
        if topic not in self._metadata:
            raise Refused(KafkaError.unknown_topic_or_partition, "")
        overrides, places = found[f"topics/{topic}"], self._places(found)
        return [self._topic_key(key, overrides, places) for key in TOPIC_KEYS.values()]

    def _topic_key(self, key: ConfigKey, overrides: Mapping[str, str], places: _Places) -> Described:
        synonyms = []
        if key.name in overrides:
            synonyms.append(Synonym(key.name, overrides[key.name], Source.DYNAMIC_TOPIC_CONFIG))
        if key.synonym is not None:
            synonyms += places.synonyms(key.synonym, False)
        if synonyms:
            return Described(
                name=key.name,
                value=synonyms[0].value,
                type=key.type,
                read_only=False,
                is_sensitive=False,
                source=synonyms[0].source,
                synonyms=tuple(synonyms),
                documentation=TOPIC_DOCUMENTATION[key.name],
            )
        # The broker's key is not set, but its value may derive from a key in another unit, such as log.retention.hours.
        value = self._config.values.get(key.synonym or "", key.default)
        return Described(
            name=key.name,
            value=render(value),
            type=key.type,
            read_only=False,
            is_sensitive=False,
            source=Source.DEFAULT_CONFIG,
            synonyms=(),
            documentation=TOPIC_DOCUMENTATION[key.name],
        )

    def new_topic(self, overrides: Mapping[str, str]) -> list[Described]:
        """Return every key of a topic that is to be created with these overrides.

        The defaults are the values that this broker last read.
        """
        places = self._places({entity: self._configs.overrides(entity) for entity in (self._own, self._shared)})
        return [self._topic_key(key, overrides, places) for key in TOPIC_KEYS.values()]

    # ---- brokers ----------------------------------------------------------------------------------------------

    def _broker(self, found: _Found) -> list[Described]:
        places = self._places(found)
        # Include internal and unknown keys if they are set.
        names = {name: None for name, key in KAFKA_KEYS.items() if not key.is_internal}
        names.update(dict.fromkeys((*places.file, *places.shared, *places.own)))
        return [_describe_broker_key(name, places) for name in sorted(names)]

    def _all_brokers(self, found: _Found) -> list[Described]:
        shared = found[self._shared]
        places = _Places({}, shared, {})
        described = [_describe_broker_key(name, places) for name in sorted(shared)]
        return [each._replace(synonyms=each.synonyms[:1]) for each in described]

    def _places(self, found: _Found) -> _Places:
        file = dict(self._config.originals)
        # node.id is the default of broker.id, and broker.id the default of node.id (KafkaConfig.populateSynonyms).
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            file.setdefault(name, self._config.originals.get(other, str(self._config.broker_id)))
        return _Places(found[self._own], found[self._shared], file)

    # ---- reading ----------------------------------------------------------------------------------------------

    async def _read(self, entities: Sequence[str]) -> _Found:
        """Return the overrides of these entities, read in one batch. Raises ZooKeeperError."""
        service = self._zk.service
        outcomes = await self._zk.batch(
            [lambda entity=entity: service.get(f"/config/{entity}") for entity in entities]  # type: ignore[misc]
        )
        found = {}
        for entity, outcome in zip(entities, outcomes, strict=True):
            if outcome.error not in (ErrorCode.OK, ErrorCode.NO_NODE):
                raise error_for(outcome.error, f"/config/{entity}")
            found[entity] = {} if outcome.value is None else znodes.decode_config(outcome.value[0]) or {}
        return found


def _base_name(name: str) -> str | None:
    """Return the key that listener.name.NAME.KEY overrides for a listener, or for a mechanism of it; None otherwise."""
    match = _OF_A_LISTENER.fullmatch(name)
    if match is None:
        return None
    of_mechanism = _OF_A_MECHANISM.fullmatch(match.group(1))
    return match.group(1) if of_mechanism is None else of_mechanism.group(1)


def _synonyms(name: str) -> tuple[str, ...]:
    """Return a key and the keys that stand in for it (DynamicBrokerConfig.brokerConfigSynonyms)."""
    base = _base_name(name)
    return SYNONYMS.get(name, (name,)) if base is None else (name, base)


def _definition(name: str) -> ConfigKey | None:
    base = _base_name(name)
    if base in KAFKA_KEYS:
        return KAFKA_KEYS[base].definition
    if name in KAFKA_KEYS:
        return KAFKA_KEYS[name].definition
    if name in UNDEFINED_IN_KAFKA:
        return None
    return REPLICATION_QUOTAS.get(name) or BROKER_KEYS.get(name)


def _describe_broker_key(name: str, places: _Places) -> Described:
    definition = _definition(name)
    is_sensitive = definition is None or definition.type is ConfigType.PASSWORD
    synonyms = places.synonyms(name, is_sensitive)
    return Described(
        name=name,
        value=None if is_sensitive else places.value(name),
        type=None if definition is None else definition.type,
        read_only=not (name in KAFKA_KEYS and KAFKA_KEYS[name].is_dynamic),
        is_sensitive=is_sensitive,
        source=synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        synonyms=tuple(synonyms),
        documentation=BROKER_DOCUMENTATION.get(name),
    )

"""Data types of configuration requests: resources, sources of values, changes, and results."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.config_def import ConfigType

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
_KINDS = {
    TOPIC: "TOPIC",
    BROKER: "BROKER",
    BROKER_LOGGER: "BROKER_LOGGER",
    CLIENT_METRICS: "CLIENT_METRICS",
    32: "GROUP",
}


def whole_number(text: str) -> int | None:
    """Parse the name of a broker resource as a number. Return None if it is not a number."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None


class Source(IntEnum):
    """Source of a configuration value (DescribeConfigsResponse.ConfigSource)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class Operation(IntEnum):
    """Operation of an IncrementalAlterConfigs request on a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """The topic, broker or other entity whose configuration is described or altered."""

    type: int
    name: str

    @property
    def kind(self) -> str:
        """Kafka's name of the resource's type (ConfigResource.Type)."""
        return _KINDS.get(self.type, "UNKNOWN")


class Alteration(NamedTuple):
    """A change of one configuration key."""

    name: str
    operation: int
    value: str | None


class Synonym(NamedTuple):
    """One possible source of a configuration value. A secret value is None."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One key of a described resource. `synonyms` are ordered from the effective source down to the default.

    The value is None if it is missing or secret. The type and documentation are None if the key is unknown.
    """

    name: str
    value: str | None
    type: ConfigType | None
    read_only: bool
    is_sensitive: bool
    source: Source
    synonyms: tuple[Synonym, ...]
    documentation: str | None


class ConfigResult(NamedTuple):
    """Result for one resource of a request."""

    resource: Resource
    error: KafkaError = KafkaError.none
    message: str | None = None
    configs: tuple[Described, ...] = ()

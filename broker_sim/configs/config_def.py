"""Configuration keys: types, limits, and error messages with the wording of Kafka's ConfigDef."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from math import isinf, isnan
from typing import NamedTuple

Value = bool | int | float | str
"""A parsed value. Lists remain comma-separated strings, as in Kafka."""


class ConfigType(IntEnum):
    """Types of configuration values. The numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigError(ValueError):
    """A configuration that cannot be used. The message is for the user."""


class ConfigKey(NamedTuple):
    """The definition of one configuration key.

    `check` returns the error of a parsed value, or None. `synonym` is the broker key that provides the default of a
    topic key.
    """

    name: str
    type: ConfigType
    default: Value
    check: Callable[[Value], str | None] | None = None
    synonym: str | None = None

    def parse(self, text: str) -> Value:
        """Return the value of a configuration string. Raises ConfigError with Kafka's message."""
        value = _parse(self.name, self.type, text.strip())
        wrong = self.check(value) if self.check is not None else None
        if wrong is not None:
            raise ConfigError(f"Invalid value {self._rejected(value)} for configuration {self.name}: {wrong}")
        return value

    def _rejected(self, value: Value) -> Value:
        """Return the part of a rejected value to show in the error.

        For a list, this is the first invalid member, as in Kafka.
        """
        if self.type is not ConfigType.LIST or self.check is None:
            return value
        return next((member for member in list_members(str(value)) if self.check(member) is not None), "")


_RANGES = {ConfigType.SHORT: 2**15, ConfigType.INT: 2**31, ConfigType.LONG: 2**63}


def _parse(name: str, kind: ConfigType, text: str) -> Value:
    if kind is ConfigType.BOOLEAN:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ConfigError(f"Invalid value {text} for configuration {name}: Expected value to be either true or false")
    if kind in _RANGES:
        bound = _RANGES[kind]
        if _is_decimal(text) and -bound <= (number := int(text)) < bound:
            return number
        raise ConfigError(f"Invalid value {text} for configuration {name}: Not a number of type {kind.name}")
    if kind is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"Invalid value {text} for configuration {name}: Not a number of type DOUBLE") from None
    return text


def _is_decimal(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit() and len(digits) <= 19


def at_least(minimum: int | float) -> Callable[[Value], str | None]:
    """Accept a number not below `minimum`."""

    def check(value: Value) -> str | None:
        return None if not isinstance(value, str) and value >= minimum else f"Value must be at least {minimum}"

    return check


def between(minimum: int | float, maximum: int | float) -> Callable[[Value], str | None]:
    """Accept a number from `minimum` to `maximum`."""

    def check(value: Value) -> str | None:
        if isinstance(value, str) or value < minimum:
            return f"Value must be at least {minimum}"
        return None if value <= maximum else f"Value must be no more than {maximum}"

    return check


def hosts_with_numbers(value: Value) -> str | None:
    """Accept a list of hosts with numbers: `host:number,…`."""
    for entry in filter(None, (part.strip() for part in str(value).split(","))):
        host, _, count = entry.rpartition(":")
        if not host or not _is_decimal(count.strip()):
            return f"{entry} is not host:number"
    return None


def one_of(*allowed: str) -> Callable[[Value], str | None]:
    """Accept only these values."""

    def check(value: Value) -> str | None:
        return None if value in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def class_of(*known: str) -> Callable[[Value], str | None]:
    """Accept only these class names, or an empty value."""

    def check(value: Value) -> str | None:
        return None if value in ("", *known) else f"Class {value} could not be found."

    return check


def list_of(*allowed: str) -> Callable[[Value], str | None]:
    """Accept a comma-separated list of these values; the list may be empty (ConfigDef.ValidList)."""

    def check(value: Value) -> str | None:
        if all(word in allowed for word in list_members(str(value))):
            return None
        return f"String must be one of: {', '.join(allowed)}"

    return check


def list_members(text: str) -> list[str]:
    """Return the members of a list as Kafka parses it.

    An empty string has no members. A comma at the end adds an empty member.
    """
    return [part.strip() for part in text.split(",")] if text.strip() else []


def split_list(text: str) -> list[str]:
    """Return the members of a comma-separated list, without empty members."""
    return [word for word in (part.strip() for part in text.split(",")) if word]


def render(value: Value) -> str:
    """Return a parsed value as a configuration string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # These are the only forms in which Java writes and parses a double: NaN, Infinity, and numbers such as
        # 1.7976931348623157E308.
        if isnan(value) or isinf(value):
            return "NaN" if isnan(value) else f"{'-' * (value < 0)}Infinity"
        return repr(value).replace("e+", "E").replace("e-0", "E-").replace("e", "E")
    return str(value)


def by_name(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    """Return the keys in a mapping, keyed by name."""
    return {key.name: key for key in keys}

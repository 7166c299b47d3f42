"""Values out of a Java properties file, each checked where it is read: a bad one is a ConfigError, one clear line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


class ConfigError(Exception):
    """The configuration cannot be used; one clear line for the operator."""


class Values:
    """Takes values out of a properties map, checking each; `used` gathers the keys that somebody asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.used: set[str] = set()

    def get(self, key: str, default: T, convert: Callable[[str], T], expected: str) -> T:
        """The value of `key`, converted; `default` where it is absent."""
        self.used.add(key)
        text = self._values.get(key)
        if text is None:
            return default
        try:
            return convert(text)
        except ValueError:
            raise ConfigError(f"{key}={text} is not {expected}") from None

    def number(self, key: str, default: int, minimum: int, maximum: int = 2**31 - 1) -> int:
        """An integer within bounds."""
        return self.get(key, default, _bounded(minimum, maximum), f"a number from {minimum} to {maximum}")

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        return self.get(key, default, _boolean, "true or false")

    def text(self, key: str, default: str) -> str:
        """Any text."""
        return self.get(key, default, str, "text")


def _bounded(minimum: int, maximum: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise ValueError(text)
        return value

    return convert


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"

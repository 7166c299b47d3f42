"""Values of a zoo.cfg, each checked when it is read.

ZooKeeper reads its keys in two ways, and so does `Values`:

| keys | Java | methods | a bad value |
| --- | --- | --- | --- |
| parsed by QuorumPeerConfig | Integer.parseInt | `number`, `flag` | raises ConfigError |
| system properties | Integer.getInteger | `property_number`, `property_flag` | is replaced, with a warning |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_DIGITS_MAX = 100
_PARSED = re.compile(r"[+-]?\d+")
"""Format of the numbers that Integer.parseInt accepts."""
_DECODED = re.compile(r"([+-]?)(?:(0[xX]|#)([0-9a-fA-F]+)|(0)([0-7]+)|(\d+))")
"""Format of the numbers that Integer.decode accepts: hexadecimal, octal, decimal."""
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
"""Format of the numbers that Double.parseDouble accepts, except hexadecimal ones."""


class ConfigError(Exception):
    """The configuration cannot be used. The message is one line for the operator."""


def parsed(text: str, minimum: int = INT_MIN, maximum: int = INT_MAX) -> int | None:
    """Return the number that Java's parseInt (or parseLong) returns, or None if Java would raise an exception."""
    if _PARSED.fullmatch(text) is None or len(text) > _DIGITS_MAX:
        return None
    value = int(text)
    return value if minimum <= value <= maximum else None


def decoded(text: str, minimum: int = INT_MIN, maximum: int = INT_MAX) -> int | None:
    """Return the number that Java's Integer.decode (or Long.decode) returns, or None if Java would raise an error."""
    found = _DECODED.fullmatch(text)
    if found is None or len(text) > _DIGITS_MAX:
        return None
    sign, _, hexadecimal, _, octal, decimal = found.groups()
    value = int(hexadecimal or octal or decimal, 16 if hexadecimal else 8 if octal else 10)
    value = -value if sign == "-" else value
    return value if minimum <= value <= maximum else None


ReadNumber = Callable[[str, int, int], int | None]


class Values:
    """Reads and checks the values of a properties map.

    `used` collects the keys that were read. `warnings` collects one line for each bad value that was replaced.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._checks = True
        self.used: set[str] = set()
        self.warnings: list[str] = []

    def unchecked(self) -> Values:
        """Return a copy for the keys of a disabled feature: bad values raise no error, as in ZooKeeper."""
        values = Values(self._values)
        values.used = self.used
        values._checks = False
        return values

    def get(self, key: str, default: T, convert: Callable[[str], T], expected: str) -> T:
        """Return the converted value of `key`, or `default` if the key is missing.

        Raises ConfigError, with `expected`, if the value cannot be converted.
        """
        self.used.add(key)
        text = self._values.get(key)
        if text is None:
            return default
        try:
            return convert(text)
        except ValueError:
            if not self._checks:
                return default
            raise ConfigError(f"{key}={text} is not {expected}") from None

    def number(self, key: str, default: int, minimum: int = INT_MIN, maximum: int = INT_MAX) -> int:
        """Return an integer. Raises ConfigError if it is not between `minimum` and `maximum`."""
        bounds = f"from {minimum} to {maximum}" if minimum > INT_MIN else f"of at most {maximum}"
        return self.get(key, default, _bounded(minimum, maximum), f"a number {bounds}")

    def flag(self, key: str, default: bool) -> bool:
        """Return the boolean value of a key."""
        return self.get(key, default, _boolean, "true or false")

    def text(self, key: str, default: str) -> str:
        """Return a string, which is not checked."""
        return self.get(key, default, str, "text")

    def property_number(
        self,
        key: str,
        default: int,
        minimum: int = INT_MIN,
        maximum: int = INT_MAX,
        *,
        below: int | None = None,
        read: ReadNumber = decoded,
    ) -> int:
        """Return an integer; replace a bad value, with a warning.

        A value that is not a Java int (or a Java long, if the maximum is a long) is replaced by `default`, a value
        below the minimum by `below` or else the minimum, and a value above the maximum by the maximum.
        """
        text = self._given(key)
        if text is None:
            return default
        long = maximum > INT_MAX
        value = read(text, LONG_MIN if long else INT_MIN, LONG_MAX if long else INT_MAX)
        if value is None:
            self.warn(f"{key}={text} is not a number that ZooKeeper reads: the default is used")
            return default
        used = (minimum if below is None else below) if value < minimum else min(value, maximum)
        if used != value:
            self.warn(f"{key}={text} is {'below' if value < minimum else 'above'} the limit: {used} is used")
        return used

    def usable_number(self, key: str, default: int, minimum: int) -> int:
        """Return a number that ZooKeeper reads as a system property.

        Raises ConfigError for a value below the minimum: with such a value ZooKeeper does not start or cannot reply to
        clients.
        """
        value = self.property_number(key, default)
        if value >= minimum:
            return value
        if self._checks:
            raise ConfigError(f"{key}={value} is below {minimum}, and no client could be served")
        return default

    def property_flag(self, key: str, default: bool) -> bool:
        """Return True for "true" in any case, False for any other value."""
        return self._is(key, default, "true", "false", lower=True)

    def property_is(self, key: str, default: bool, chosen: str, other: str) -> bool:
        """Return whether the value is exactly `chosen`; any other value is treated as `other`."""
        return self._is(key, default, chosen, other, lower=False)

    def double(self, key: str, default: float) -> float:
        """Return a Java double. Raises ConfigError."""
        return self.get(key, default, parsed_double, "a number")

    def warn(self, warning: str) -> None:
        """Add a warning about a replaced value, once."""
        if self._checks and warning not in self.warnings:
            self.warnings.append(warning)

    def given(self, key: str) -> str | None:
        """Return the string value of a key that was read with another method, or None if the key is missing."""
        return self._values.get(key)

    def _given(self, key: str) -> str | None:
        self.used.add(key)
        return self._values.get(key)

    def _is(self, key: str, default: bool, chosen: str, other: str, *, lower: bool) -> bool:
        text = self._given(key)
        if text is None:
            return default
        compared = text.lower() if lower else text
        if compared not in (chosen, other):
            self.warn(f"{key}={text} is neither {chosen} nor {other}: it counts as {other}")
        return compared == chosen


def parsed_double(text: str) -> float:
    """Return the number that Java's Double.parseDouble returns. Raises ValueError."""
    if _DOUBLE.fullmatch(text) is None:
        raise ValueError(text)
    return float(text.rstrip("fFdD")) if text[-1] in "fFdD" else float(text)


def _bounded(minimum: int, maximum: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = parsed(text, minimum, maximum)
        if value is None:
            raise ValueError(text)
        return value

    return convert


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"

"""Rules that map the subject of a client certificate to a principal's name (Kafka's SslPrincipalMapper, KIP-371).

`ssl.principal.mapping.rules` contains rules separated by commas: `DEFAULT`, or `RULE:pattern/replacement/` with `L` or
`U` at the end for lower or upper case. The first rule whose pattern matches the whole subject applies. Patterns and
replacements are Java's; a pattern that Python cannot compile is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.principals import NoPrincipal

KEY = "ssl.principal.mapping.rules"
_RULE = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_JAVA_GROUP = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_TOKEN = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$([0-9]+)|([^\\$]+)|(.)", re.DOTALL)


class _Rule(NamedTuple):
    """One rule. `pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replace: Callable[[re.Match[str]], str]
    case: str

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        # As in Kafka, replace every match in the subject, not only the match of the whole subject.
        name = self.pattern.sub(self.replace, subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class PrincipalMapper:
    """The parsed rules of one listener."""

    def __init__(self, text: str) -> None:
        """Parse the value of ssl.principal.mapping.rules. Raises ConfigError."""
        self.text = text
        self._rules = [rule for part in _split(text.strip()) if (rule := _parse(part)) is not None]

    def name_of(self, subject: str) -> str:
        """Return the principal's name for a certificate's subject. Raises NoPrincipal if no rule applies."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        raise NoPrincipal(f"No rules apply to {subject}, {KEY}={self.text}")


def _split(text: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(text)]


def _parse(rule: str) -> _Rule | None:
    """Return one rule, or None if it is empty. Raises ConfigError."""
    match = _PARSER.match(rule)
    assert match is not None  # the last alternative matches everything
    if match.end() != len(rule):
        raise ConfigError(
            f"Invalid value for configuration {KEY}: Invalid rule: `{rule}`, "
            f"unmatched substring: `{rule[match.end() :]}`"
        )
    if match[1] is not None:
        return _Rule(None, lambda found: found[0], "")
    if match[2] is None:
        return None
    try:
        pattern = re.compile(_JAVA_GROUP.sub(r"(?P<\1>", match[2]))
        return _Rule(pattern, _replacement(match[4], pattern), match[6])
    except (re.error, IndexError) as wrong:
        raise ConfigError(f"Invalid value for configuration {KEY}: Invalid rule: `{rule}`: {wrong}") from None


def _replacement(text: str, pattern: re.Pattern[str]) -> Callable[[re.Match[str]], str]:
    r"""Return a function for a Java replacement: `$1` and `${name}` are groups, and `\x` is the character x.

    A number without a group is text if the pattern has groups (SslPrincipalMapper.escapeLiteralBackReferences).
    """
    parts: list[str | int] = []
    for token in _TOKEN.finditer(text):
        escaped, name, digits, plain, stray = token.groups()
        if name is not None:
            if name not in pattern.groupindex:
                raise IndexError(f"no group {{{name}}}")
            parts.append(pattern.groupindex[name])
        elif digits is not None:
            parts += _group_of(digits, pattern.groups)
        elif stray is not None:
            raise IndexError("Illegal group reference" if stray == "$" else "character to be escaped is missing")
        else:
            parts.append(plain if escaped is None else escaped)
    return lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts)


def _group_of(digits: str, groups: int) -> list[str | int]:
    """Return the group of `$digits`, and the digits after it. As in Java, as many digits count as there are groups."""
    number, used = int(digits[0]), 1
    if number > groups:
        if not groups:
            raise IndexError(f"No group {number}")
        return [f"${digits}"]
    while used < len(digits) and int(digits[: used + 1]) <= groups:
        used += 1
        number = int(digits[:used])
    return [number, digits[used:]]

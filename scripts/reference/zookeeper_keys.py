"""Reference page of the zoo.cfg keys. They are recorded while a peer parses a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from unittest.mock import patch

from scripts.reference.key_meanings import ZOOKEEPER
from scripts.reference.markdown import code, document, table
from zabka.ensemble.server.config.config_values import INT_MAX, INT_MIN, Values
from zabka.ensemble.server.config.zoo_cfg import ACCEPTED, parse

T = TypeVar("T")
_INTRODUCTION = (
    "A peer reads a `zoo.cfg`, ZooKeeper's own file. What ZooKeeper takes as a Java system property stands in "
    "the same file, without the `zookeeper.` prefix; keys that begin with `zabka.` are ours. An unknown key is "
    "a warning with a guess at what was meant. The file is a Java properties file: a space or `:` can stand for `=`, "
    "a backslash escapes, `\\u0041` is a character, and the bytes are ISO-8859-1. A bad value has the outcome that it "
    "has in ZooKeeper: where ZooKeeper uses a default or the nearest limit, the peer does so and logs a warning; "
    "where ZooKeeper refuses to start, the peer ends with one clear line. `zabka up --set KEY=VALUE` sets "
    "any of these for every peer of a cluster. Sources: ZooKeeper 3.9's administrator's guide, "
    "`QuorumPeerConfig`."
)
_MORE = (
    "Besides: `server.N`, `group.N` and `weight.N` (the membership, as ZooKeeper writes it), "
    "`dynamicConfigFile` (the file that holds the membership in force), `authProvider.NAME` (an authentication "
    "provider by its Java class), `superUser` and `superUser.NAME` (SASL users who are super)."
)


class _Asked:
    """Wraps the methods with which the parser reads keys, and records each key with its type and default."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, object]] = {}

    def noting(self, kind: Callable[..., str], ask: Callable[..., T]) -> Callable[..., T]:
        def note(values: Values, key: str, default: object, *rest: Any, **more: Any) -> T:
            bounds = {name: bound for name, bound in more.items() if name in ("minimum", "maximum")}
            shown = rest[0 if default else 1] if kind is _choice else default
            self.keys.setdefault(key, (kind(*rest, **bounds), shown))
            return ask(values, key, default, *rest, **more)

        return note


def asked_keys() -> dict[str, tuple[str, object]]:
    """Return each key that a peer reads from a configuration, with its type and its default."""
    asked = _Asked()
    kinds: dict[str, Callable[..., str]] = {
        "number": _range,
        "property_number": _range,
        "usable_number": _range,
        "flag": lambda: "true or false",
        "property_flag": lambda: "true or false",
        "property_is": _choice,
        "double": lambda: "a number",
        "text": lambda: "text",
        "get": lambda _, expected: expected,
    }
    patches = [patch.object(Values, name, asked.noting(kind, getattr(Values, name))) for name, kind in kinds.items()]
    for each in patches:
        each.start()
    try:
        parse("dataDir=data\nclientPort=2181\n")
    finally:
        for each in patches:
            each.stop()
    return asked.keys


def _range(minimum: int = INT_MIN, maximum: int = INT_MAX) -> str:
    if minimum <= INT_MIN:
        return "a number" if maximum >= INT_MAX else f"up to {maximum}"
    return f"{minimum} or more" if maximum >= INT_MAX else f"{minimum} to {maximum}"


def _choice(chosen: str, other: str) -> str:
    return f"{chosen} or {other}"


def page() -> str:
    """Return the page of zoo.cfg keys.  Raises KeyError for a key without a description."""
    rows = [
        [code(key), kind, code(_default(default)), ZOOKEEPER[key]]
        for key, (kind, default) in sorted(asked_keys().items())
        if key not in ACCEPTED
    ]
    accepted = ", ".join(code(key) for key in sorted(ACCEPTED))
    return document(
        "Keys of a peer (zoo.cfg)",
        _INTRODUCTION,
        table(["key", "takes", "default", "what it does"], rows),
        f"{_MORE}\n",
        f"Accepted without an effect, because what they choose is built in: {accepted}.\n",
    )


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return "" if value is None else str(value)

"""A broker's listeners: names, addresses and security protocols, as Kafka parses and checks them (KafkaConfig)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, Value, split_list

PLAINTEXT, SSL = "PLAINTEXT", "SSL"
SASL_PLAINTEXT, SASL_SSL = "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
"""Kafka's default of listener.security.protocol.map."""


class Listener(NamedTuple):
    """One listener: its name, its bind address or advertised address, and its security protocol."""

    name: str
    host: str
    port: int
    protocol: str = PLAINTEXT

    @property
    def is_encrypted(self) -> bool:
        """Whether clients of this listener use TLS."""
        return self.protocol in (SSL, SASL_SSL)

    @property
    def needs_sasl(self) -> bool:
        """Whether clients of this listener must authenticate with SASL."""
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def listener_key(listener: str, key: str) -> str:
    """Return the name of the key that overrides `key` for one listener."""
    return f"listener.name.{listener.lower()}.{key}"


def read_listeners(values: Mapping[str, Value]) -> tuple[Listener, ...]:
    """Return the listeners with their security protocols. Raises ConfigError."""
    bound = parse_listeners(str(values["listeners"]), "listeners")
    protocols = protocol_map(str(values["listener.security.protocol.map"]))
    return tuple(each._replace(protocol=_protocol(each, protocols)) for each in bound)


def read_advertised(values: Mapping[str, Value], listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Return the listeners with their advertised addresses. Raises ConfigError."""
    text = str(values["advertised.listeners"])
    if not text:
        return listeners
    protocols = {listener.name: listener.protocol for listener in listeners}
    advertised = parse_listeners(text, "advertised.listeners")
    for listener in advertised:
        if listener.host in ("0.0.0.0", "::", ""):
            raise ConfigError(
                f"Invalid value {text} for configuration advertised.listeners: "
                "a nonroutable meta-address cannot be advertised. Use listeners instead."
            )
        if listener.name not in protocols:
            raise ConfigError(
                f"Invalid value {text} for configuration advertised.listeners: no listener is named {listener.name}"
            )
    return tuple(each._replace(protocol=protocols[each.name]) for each in advertised)


def parse_listeners(text: str, key: str) -> tuple[Listener, ...]:
    """Parse `NAME://host:port,...`. Raises ConfigError."""
    listeners: list[Listener] = []
    for entry in split_list(text):
        name, separator, address = entry.partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not name or not port.isdigit() or int(port) > 65535:
            raise ConfigError(
                f"Invalid value {text} for configuration {key}: Unable to parse {entry} to a broker endpoint"
            )
        if name.upper() in (other.name for other in listeners):
            raise ConfigError(f"Invalid value {text} for configuration {key}: Each listener must have a different name")
        listeners.append(Listener(name.upper(), host.strip("[]"), int(port)))
    if not listeners:
        raise ConfigError(f"Invalid value {text} for configuration {key}: at least one listener is needed")
    return tuple(listeners)


def protocol_map(text: str) -> dict[str, str]:
    """Parse listener.security.protocol.map. Raises ConfigError."""
    protocols: dict[str, str] = {}
    for entry in split_list(text):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not colon or protocol not in PROTOCOLS:
            raise ConfigError(
                f"Invalid value {text} for configuration listener.security.protocol.map: "
                f"{entry} is not a listener's name and PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
            )
        protocols[name] = protocol
    return protocols


def _protocol(listener: Listener, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(listener.name)
    if protocol is None:
        raise ConfigError(
            f"Invalid value {listener} for configuration listeners: "
            f"No security protocol defined for listener {listener.name}. Add it to listener.security.protocol.map"
        )
    return protocol

"""The settings of a Kafka client in a Java properties file, as Kafka's tools read it (`--command-config`).

Only security settings, `bootstrap.servers` and `client.id` have an effect; other settings of Kafka's clients are
ignored. A security setting that would have no effect is an error, because the connection would be less secure than its
owner assumes. Source: org.apache.kafka.clients.CommonClientConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, one_of, split_list
from zabka.broker_sim.configs.listeners import PLAINTEXT, PROTOCOLS, SASL_SSL, SSL
from zabka.broker_sim.configs.login_keys import CLIENT_LOGIN_KEYS, TokenLoginKeys
from zabka.broker_sim.configs.sasl_keys import client_login
from zabka.broker_sim.configs.tls_keys import TLS_KEYS, StoreKeys, client_stores
from zabka.ensemble.properties import BadProperties, read_properties, trimmed
from zabka.kafka.sasl_login import Credentials

_S = ConfigType.STRING
_KEYS = {
    key.name: key
    for key in (
        ConfigKey("bootstrap.servers", _S, ""),
        ConfigKey("client.id", _S, ""),
        ConfigKey("sasl.jaas.config", ConfigType.PASSWORD, ""),
        ConfigKey("sasl.mechanism", _S, "GSSAPI"),
        *CLIENT_LOGIN_KEYS,
        ConfigKey("security.protocol", _S, PLAINTEXT, one_of(*PROTOCOLS)),
        *(key for key in TLS_KEYS if key.name not in ("ssl.client.auth", "ssl.principal.mapping.rules")),
    )
}
_SECURITY = ("sasl.", "security.", "ssl.")
_WITHOUT_EFFECT = (
    "sasl.kerberos.", "sasl.oauthbearer.", "ssl.keymanager.algorithm", "ssl.protocol",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
)  # fmt: skip
"""Security settings that only other mechanisms and Java's TLS use, or their prefixes."""
_STORES = tuple(
    name
    for name in _KEYS
    if name.startswith(("ssl.keystore.", "ssl.truststore.", "ssl.key.")) and not name.endswith(".type")
)
"""Keys whose values are stores, or belong to them."""


class ClientProperties(NamedTuple):
    """The settings of a Kafka client that have an effect.

    `bootstrap` and `client_id` are "" if they are not set. `credentials` is None without SASL. With `checks_names`, a
    broker's certificate must contain its host.
    """

    bootstrap: str
    client_id: str
    is_encrypted: bool
    credentials: Credentials | TokenLoginKeys | None
    own: StoreKeys | None
    trusted: StoreKeys | None
    checks_names: bool
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]


def parse_client_properties(text: str) -> ClientProperties:
    """Parse a properties file of a Kafka client. Raises ConfigError with a message for the user."""
    try:
        return _client_properties(trimmed(read_properties(text)))
    except BadProperties as bad:
        raise ConfigError(f"it is not a Java properties file: {bad}") from None


def _client_properties(properties: Mapping[str, str]) -> ClientProperties:
    values: dict[str, Value] = {name: key.default for name, key in _KEYS.items()}
    for name, text in properties.items():
        if name in _KEYS:
            values[name] = _KEYS[name].parse(text)
        elif name.startswith(_SECURITY) and not name.startswith(_WITHOUT_EFFECT) and text:
            raise ConfigError(f"{name} is not supported by zabka's clients")
    protocol = str(values["security.protocol"])
    is_encrypted = protocol in (SSL, SASL_SSL)
    _check_protocol(values, protocol, is_encrypted=is_encrypted)
    own, trusted = client_stores(values) if is_encrypted else (None, None)
    return ClientProperties(
        bootstrap=str(values["bootstrap.servers"]),
        client_id=str(values["client.id"]),
        is_encrypted=is_encrypted,
        credentials=client_login(values) if protocol.startswith("SASL_") else None,
        own=own,
        trusted=trusted,
        checks_names=bool(values["ssl.endpoint.identification.algorithm"]),
        versions=tuple(split_list(str(values["ssl.enabled.protocols"]))),
        cipher_suites=tuple(split_list(str(values["ssl.cipher.suites"]))),
    )


def _check_protocol(values: Mapping[str, Value], protocol: str, *, is_encrypted: bool) -> None:
    """Raise ConfigError for stores without TLS and for a login without SASL."""
    unused = [name for name in _STORES if values[name] and not is_encrypted]
    if values["sasl.jaas.config"] and not protocol.startswith("SASL_"):
        unused.append("sasl.jaas.config")
    if unused:
        raise ConfigError(
            f"{', '.join(unused)} has no effect with security.protocol={protocol}: set security.protocol to one of "
            f"{', '.join(PROTOCOLS)}, or remove the settings that it does not use"
        )

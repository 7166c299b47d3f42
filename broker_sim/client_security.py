"""Security of the connections of a Kafka client, from a properties file (`--command-config`)."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

from zabka.broker_sim.configs.client_properties import ClientProperties, parse_client_properties
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.tls_keys import StoreKeys
from zabka.ensemble.properties import decode_properties
from zabka.ensemble.server.config.client_context import client_context
from zabka.ensemble.server.config.tls_stores import BadStore, Store
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity, ServerSecurity

NONCE_BYTES = 24
"""Randomness of a SCRAM nonce, which must not be predictable (RFC 5802, section 5.1)."""


class ClientConfig(NamedTuple):
    """The settings of a Kafka client. `bootstrap` is "" if the file does not set it."""

    security: ChannelSecurity = PLAIN_TEXT
    bootstrap: str = ""
    client_id: str = ""


def read_client_config(path: Path) -> ClientConfig:
    """Read the settings of a Kafka client from a Java properties file.

    Raises ConfigError, with the path in the message, if the file or a store cannot be read or a setting is invalid.
    """
    try:
        properties = parse_client_properties(decode_properties(path.read_bytes()))
        return ClientConfig(client_security(properties), properties.bootstrap, properties.client_id)
    except OSError as bad:
        raise ConfigError(f"{path} cannot be read: {bad.strerror or bad}") from None
    except (BadStore, ConfigError) as bad:
        raise ConfigError(f"{path}: {bad}") from None


def client_security(properties: ClientProperties) -> ChannelSecurity:
    """Return the security of a client's connections. Raises BadStore if a store cannot be used."""
    if not properties.is_encrypted and properties.credentials is None:
        return PLAIN_TEXT
    context = None
    if properties.is_encrypted:
        made = client_context(
            store_of(properties.trusted),
            store_of(properties.own),
            # The channel compares the names, because an address of a broker may be an IP address.
            checks_names=False,
            versions=properties.versions,
            ciphers=properties.cipher_suites,
        )
        context = lambda: made  # noqa: E731
    security = ServerSecurity(context, properties.checks_names, properties.credentials)
    return ChannelSecurity(lambda to: security, lambda: secrets.token_urlsafe(NONCE_BYTES))


def store_of(keys: StoreKeys | None) -> Store | None:
    """Return the store that these keys describe, not read yet."""
    return None if keys is None else Store(Path(keys.location), keys.kind, keys.password, keys.content.encode())

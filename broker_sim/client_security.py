"""Security of the connections of a Kafka client, from a properties file (`--command-config`)."""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path
from typing import NamedTuple

from zabka.broker_sim.configs.client_properties import ClientProperties, parse_client_properties
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.login_keys import TokenLoginKeys
from zabka.broker_sim.configs.tls_keys import StoreKeys
from zabka.broker_sim.sasl.token_download import open_login
from zabka.broker_sim.sasl.token_login import TokenLogin
from zabka.ensemble.properties import decode_properties
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.server.config.client_context import client_context
from zabka.ensemble.server.config.tls_stores import BadStore, Store
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity, ServerSecurity
from zabka.kafka.sasl_login import BearerToken

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
    credentials = properties.credentials
    if isinstance(credentials, TokenLoginKeys):
        login = _ClientLogin(credentials)
        security_of = lambda to: ServerSecurity(  # noqa: E731
            context, properties.checks_names, login.current(), login.prepare
        )
    else:
        security = ServerSecurity(context, properties.checks_names, credentials)
        security_of = lambda to: security  # noqa: E731
    return ChannelSecurity(security_of, lambda: secrets.token_urlsafe(NONCE_BYTES))


class _ClientLogin:
    """The login of a client with OAUTHBEARER, on the event loop of its connections."""

    def __init__(self, keys: TokenLoginKeys) -> None:
        self._keys = keys
        self._login: TokenLogin | None = None
        self._started: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Obtain a token for the first connection. Raises AuthenticationFailed."""
        loop = asyncio.get_running_loop()
        if self._started is None or self._started.get_loop() is not loop or _has_failed(self._started):
            runtime = AsyncioRuntime(loop, owns_loop=False)
            self._login = open_login(self._keys, runtime, _print_problem)
            self._started = loop.create_task(self._login.start(), name="log in with a token")
            # Retrieve the exception, also if no connection waits for it any more.
            self._started.add_done_callback(_has_failed)
        await asyncio.shield(self._started)

    def current(self) -> BearerToken | None:
        """Return the token for new connections, or None before there is one."""
        return None if self._login is None else self._login.current()


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _print_problem(problem: str) -> None:
    sys.stderr.write(f"{problem}\n")


def store_of(keys: StoreKeys | None) -> Store | None:
    """Return the store that these keys describe, not read yet."""
    return None if keys is None else Store(Path(keys.location), keys.kind, keys.password, keys.content.encode())

"""How the fixtures' and scenarios' own clients connect to a running cluster: in plain text, or as its API does.

The API of a secured cluster (`zabka up --secure`) reports the directory of the cluster's secrets. A program of the same
user on the same machine can read it.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from zabka.broker_sim.client_security import read_client_config
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.compose.secured_nodes import API, AUTHORITY, certificate
from zabka.ensemble.server.config.client_context import client_context
from zabka.ensemble.server.config.tls_stores import BadStore, Store
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity
from zabka.testing.cluster import ClusterFailed


class Access(NamedTuple):
    """The TLS context of connections to peers, None for plain text, and the security of connections to brokers."""

    ensemble: ssl.SSLContext | None = None
    brokers: ChannelSecurity = PLAIN_TEXT


def access_with(directory: str) -> Access:
    """Return the access with the secrets in this directory, or without secrets if it is "".

    Raises ClusterFailed if the secrets cannot be read.
    """
    if not directory:
        return Access()
    secrets = Path(directory)
    trusted, own = (Store(path, "PEM", "") for path in (secrets / AUTHORITY, certificate(secrets, API)))
    try:
        return Access(client_context(trusted, own), read_client_config(secrets / f"{API}.properties").security)
    except (BadStore, ConfigError) as bad:
        raise ClusterFailed(f"the cluster is secured, and its secrets cannot be used: {bad}") from None

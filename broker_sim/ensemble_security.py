"""TLS of sessions with the ensemble: the context that the `zookeeper.ssl.…` keys describe."""

from __future__ import annotations

import ssl
from pathlib import Path

from zabka.broker_sim.client_security import store_of
from zabka.broker_sim.configs.config_def import ConfigError, Value
from zabka.broker_sim.configs.ensemble_tls import ENSEMBLE_TLS_KEYS, EnsembleTls, read_ensemble_tls
from zabka.broker_sim.configs.keys_without_effect import BROKER_WITHOUT_EFFECT
from zabka.ensemble.properties import BadProperties, decode_properties, read_properties, trimmed
from zabka.ensemble.server.config.client_context import client_context
from zabka.ensemble.server.config.tls_stores import BadStore


def ensemble_context(tls: EnsembleTls | None) -> ssl.SSLContext | None:
    """Return the TLS context of sessions with the ensemble, or None for plain text. Raises ConfigError."""
    if tls is None:
        return None
    try:
        return client_context(
            store_of(tls.trusted),
            store_of(tls.own),
            checks_names=tls.checks_names,
            versions=tls.versions,
            ciphers=tls.cipher_suites,
        )
    except BadStore as bad:
        raise ConfigError(f"the stores of zookeeper.ssl cannot be used: {bad}") from None


def read_ensemble_context(path: Path) -> ssl.SSLContext | None:
    """Return the context that a Java properties file describes (the --zk-tls-config-file of Kafka's tools).

    Raises ConfigError, with the path in the message, for a file that cannot be read and for an unknown key.
    """
    keys = {key.name: key for key in ENSEMBLE_TLS_KEYS}
    values: dict[str, Value] = {name: key.default for name, key in keys.items()}
    try:
        for name, text in trimmed(read_properties(decode_properties(path.read_bytes()))).items():
            if name in keys:
                values[name] = keys[name].parse(text)
            elif name not in BROKER_WITHOUT_EFFECT:
                raise ConfigError(f"{name} is not one of {', '.join(keys)}")
        return ensemble_context(read_ensemble_tls(values))
    except OSError as bad:
        raise ConfigError(f"{path} cannot be read: {bad.strerror or bad}") from None
    except (BadProperties, ConfigError) as bad:
        raise ConfigError(f"{path}: {bad}") from None

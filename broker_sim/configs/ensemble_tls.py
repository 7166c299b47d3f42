"""The TLS keys of a broker's sessions with the ensemble (`zookeeper.ssl.…`), without reading files.

Sources: kafka.server.KafkaConfig.zkClientConfigViaSystemProperties, org.apache.zookeeper.common.ClientX509Util.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, list_of, split_list
from zabka.broker_sim.configs.tls_keys import StoreKeys, store_kind

_S, _LIST, _PASSWORD, _B = ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD, ConfigType.BOOLEAN
_VERSIONS = ("TLSv1.2", "TLSv1.3")
_ENABLED = "zookeeper.ssl.client.enable"
ENSEMBLE_TLS_KEYS = (
    ConfigKey("zookeeper.ssl.cipher.suites", _LIST, ""),
    ConfigKey(_ENABLED, _B, False),
    ConfigKey("zookeeper.ssl.enabled.protocols", _LIST, "", list_of(*_VERSIONS)),
    ConfigKey("zookeeper.ssl.endpoint.identification.algorithm", _S, "HTTPS"),
    ConfigKey("zookeeper.ssl.keystore.location", _S, ""),
    ConfigKey("zookeeper.ssl.keystore.password", _PASSWORD, ""),
    ConfigKey("zookeeper.ssl.keystore.type", _S, ""),
    ConfigKey("zookeeper.ssl.protocol", _S, "TLSv1.2"),
    ConfigKey("zookeeper.ssl.truststore.location", _S, ""),
    ConfigKey("zookeeper.ssl.truststore.password", _PASSWORD, ""),
    ConfigKey("zookeeper.ssl.truststore.type", _S, ""),
)


class EnsembleTls(NamedTuple):
    """The TLS configuration of a broker's sessions with the ensemble."""

    trusted: StoreKeys | None
    own: StoreKeys | None
    checks_names: bool
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]


def read_ensemble_tls(values: Mapping[str, Value]) -> EnsembleTls | None:
    """Return the TLS configuration towards the ensemble, or None if the sessions use plain text. Raises ConfigError."""
    if not values[_ENABLED]:
        return None
    protocol = str(values["zookeeper.ssl.protocol"])
    if protocol not in _VERSIONS:
        raise ConfigError(
            f"Invalid value {protocol} for configuration zookeeper.ssl.protocol: choose {' or '.join(_VERSIONS)}"
        )
    return EnsembleTls(
        trusted=_store(
            values,
            "zookeeper.ssl.truststore.location",
            "zookeeper.ssl.truststore.type",
            "zookeeper.ssl.truststore.password",
        ),
        own=_store(
            values,
            "zookeeper.ssl.keystore.location",
            "zookeeper.ssl.keystore.type",
            "zookeeper.ssl.keystore.password",
        ),
        checks_names=str(values["zookeeper.ssl.endpoint.identification.algorithm"]).upper() == "HTTPS",
        # As in ZooKeeper, zookeeper.ssl.protocol applies only if no protocols are enabled explicitly.
        versions=tuple(split_list(str(values["zookeeper.ssl.enabled.protocols"])) or [protocol]),
        cipher_suites=tuple(split_list(str(values["zookeeper.ssl.cipher.suites"]))),
    )


def _store(values: Mapping[str, Value], location_key: str, type_key: str, password_key: str) -> StoreKeys | None:
    location = str(values[location_key])
    if not location:
        return None
    kind = store_kind(str(values[type_key]), location, location_key.removesuffix(".location"))
    return StoreKeys(kind, location, str(values[password_key]))

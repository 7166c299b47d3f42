"""zoo.cfg keys for operators: settings of the admin server and of the metrics provider."""

from __future__ import annotations

import msgspec

from zabka.ensemble.server.config.config_values import ConfigError, Values, parsed
from zabka.ensemble.server.config.security_cfg import read_admin_tls
from zabka.ensemble.server.config.tls import ClientAuth, TlsSettings

LOOPBACK = "127.0.0.1"
_PORT_MAX = 65535
_PROMETHEUS = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
_PROVIDERS = {
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider": False,
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider": False,
    _PROMETHEUS: True,
}


class AdminSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the admin server.

    `port` 0 selects a free port. `snapshots_interval_ms` is the minimum time between two snapshots requested over HTTP,
    `restores_interval_ms` between two uploaded restores; None disables the request. `tls`: the port supports TLS, and
    only TLS if `https_only` is set.
    """

    address: str
    port: int
    command_url: str
    snapshots_interval_ms: int | None
    restores_interval_ms: int | None = None
    tls: TlsSettings | None = None
    https_only: bool = False


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the Prometheus port. `port` 0 selects a free port; `process` adds the process's own metrics."""

    address: str
    port: int
    process: bool


def read_admin(values: Values) -> AdminSettings | None:
    """Return the admin server's settings, or None if it is disabled.

    ZooKeeper starts the admin server by default, on every address of the machine. This server starts it only if it is
    configured, by default on loopback. Raises ConfigError.
    """
    enabled = _starts_admin(values, "admin.enableServer")
    values = values if enabled else values.unchecked()
    interval_ms = values.property_number("admin.rateLimiterIntervalInMS", 300_000, 0, read=parsed)
    unified, forced = (values.property_flag(f"admin.{key}", False) for key in ("portUnification", "forceHttps"))
    client_auth: ClientAuth = "need" if values.property_flag("admin.needClientAuth", False) else "none"
    port = values.property_number("admin.serverPort", 8080)
    if enabled and not 0 <= port <= _PORT_MAX:
        raise ConfigError(f"admin.serverPort={port} is not a port: a number from 0 to {_PORT_MAX}")
    settings = AdminSettings(
        address=values.text("admin.serverAddress", LOOPBACK),
        port=port,
        command_url=values.get("admin.commandURL", "/commands", _path, "a path such as /commands"),
        snapshots_interval_ms=interval_ms if values.property_flag("admin.snapshot.enabled", False) else None,
        restores_interval_ms=interval_ms if values.property_flag("admin.restore.enabled", False) else None,
        tls=read_admin_tls(values, wanted=enabled and (unified or forced), client_auth=client_auth),
        https_only=forced,
    )
    return settings if enabled else None


def _starts_admin(values: Values, key: str) -> bool:
    """Return whether the key is present and its value is not `false`.

    ZooKeeper starts the admin server even without the key.
    """
    text = values.get(key, "false", str, "true or false")
    if text not in ("true", "false"):
        values.warn(f"{key}={text} is not false: the admin server starts")
    return text != "false"


def read_metrics(values: Values) -> MetricsSettings | None:
    """Return the Prometheus provider's settings, or None if it is not configured. Raises ConfigError."""
    name = values.text("metricsProvider.className", "")
    if name and name not in _PROVIDERS:
        raise ConfigError(f"metricsProvider.className={name} is not one of {', '.join(_PROVIDERS)}")
    chosen = _PROVIDERS.get(name, False)
    values = values if chosen else values.unchecked()
    settings = MetricsSettings(
        address=values.text("metricsProvider.httpHost", LOOPBACK),
        port=values.number("metricsProvider.httpPort", 7000, 0, _PORT_MAX),
        process=values.property_flag("metricsProvider.exportJvmInfo", True),
    )
    return settings if chosen else None


def _path(text: str) -> str:
    if not text.startswith("/") or not text.strip("/") or text != text.rstrip("/"):
        raise ValueError(text)
    return text

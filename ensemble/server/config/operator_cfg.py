"""The keys of a zoo.cfg about what operators see: the admin server's and the metrics provider's."""

from __future__ import annotations

import msgspec

from ensemble.server.config.config_values import ConfigError, Values
from ensemble.server.config.security_cfg import read_admin_tls
from ensemble.server.config.tls import ClientAuth, TlsSettings

LOOPBACK = "127.0.0.1"
_PROMETHEUS = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
_PROVIDERS = {
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider": False,
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider": False,
    _PROMETHEUS: True,
}


class AdminSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The admin server.  `port` 0 picks a free one.  `snapshots_interval_ms` is the least time between two snapshots
    that are asked for over HTTP, `restores_interval_ms` between two that are sent; None where none may be.  `tls`: the
    port speaks TLS, and nothing else where `https_only`."""

    address: str
    port: int
    command_url: str
    snapshots_interval_ms: int | None
    restores_interval_ms: int | None = None
    tls: TlsSettings | None = None
    https_only: bool = False


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where Prometheus may come for metrics.  `port` 0 picks a free one; `process` adds the process's own metrics."""

    address: str
    port: int
    process: bool


def read_admin(values: Values) -> AdminSettings | None:
    """The admin server's settings, None where there is to be none.

    ZooKeeper starts it unless told otherwise, on every address of the machine; this one has to be asked for, and then
    listens on loopback unless told otherwise.  Raises ConfigError.
    """
    enabled = values.flag("admin.enableServer", False)
    interval_ms = values.number("admin.rateLimiterIntervalInMS", 300_000, 0)
    unified, forced = values.flag("admin.portUnification", False), values.flag("admin.forceHttps", False)
    client_auth: ClientAuth = "need" if values.flag("admin.needClientAuth", False) else "none"
    settings = AdminSettings(
        address=values.text("admin.serverAddress", LOOPBACK),
        port=values.number("admin.serverPort", 8080, 0, 65535),
        command_url=values.get("admin.commandURL", "/commands", _path, "a path such as /commands"),
        snapshots_interval_ms=interval_ms if values.flag("admin.snapshot.enabled", False) else None,
        restores_interval_ms=interval_ms if values.flag("admin.restore.enabled", False) else None,
        tls=read_admin_tls(values, wanted=enabled and (unified or forced), client_auth=client_auth),
        https_only=forced,
    )
    return settings if enabled else None


def read_metrics(values: Values) -> MetricsSettings | None:
    """The Prometheus provider's settings, None where another one is named.  Raises ConfigError."""
    name = values.text("metricsProvider.className", "")
    settings = MetricsSettings(
        address=values.text("metricsProvider.httpHost", LOOPBACK),
        port=values.number("metricsProvider.httpPort", 7000, 0, 65535),
        process=values.flag("metricsProvider.exportJvmInfo", True),
    )
    if name and name not in _PROVIDERS:
        raise ConfigError(f"metricsProvider.className={name} is not one of {', '.join(_PROVIDERS)}")
    return settings if _PROVIDERS.get(name, False) else None


def _path(text: str) -> str:
    if not text.startswith("/") or not text.strip("/") or text != text.rstrip("/"):
        raise ValueError(text)
    return text

"""The admin server: a peer's admin commands over HTTP (JettyAdminServer); and the port that Prometheus scrapes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import structlog

from zabka.ensemble.server.config.operator_cfg import AdminSettings, MetricsSettings
from zabka.ensemble.server.config.tls import TlsStore
from zabka.ensemble.server.net.sockets import PortError
from zabka.ensemble.server.operator.admin_commands import AdminCommands
from zabka.ensemble.server.operator.exposition import CONTENT_TYPE, prometheus_text
from zabka.ensemble.server.operator.http_port import Failure, HttpPort, HttpRequest, HttpResponse
from zabka.ensemble.server.operator.https import Https
from zabka.ensemble.server.operator.metrics import Metrics
from zabka.ensemble.txnlog.storage import Storage


async def open_admin_port(
    settings: AdminSettings, commands: AdminCommands, log: structlog.BoundLogger, on_failure: Failure, storage: Storage
) -> HttpPort | None:
    """Open the admin server's port; if it is in use, log this and continue without it, as ZooKeeper does.

    Raises ConfigError if TLS is configured and a store cannot be used.
    """
    https: Https | None = None
    if settings.tls is not None:
        store = TlsStore(settings.tls, log.warning)
        https = Https(store, forced=settings.https_only, on_plain=commands.count_plain)
    port = HttpPort(
        _Pages(settings.command_url, commands).answer, on_failure, https, files=storage.directories.files,
        workers=storage.workers,
    )  # fmt: skip
    try:
        number = await port.listen(settings.address, settings.port, "the admin server")
    except PortError as taken:
        log.warning(f"{taken}; this peer goes on without it")
        return None
    scheme = "http" if https is None else "https"
    log.info("the admin server listens", url=f"{scheme}://{settings.address}:{number}{settings.command_url}")
    return port


async def open_metrics_port(
    settings: MetricsSettings, metrics: Metrics, log: structlog.BoundLogger, on_failure: Failure
) -> HttpPort:
    """Open the port with /metrics.  Raises PortError."""

    async def answer(request: HttpRequest) -> HttpResponse:
        if request.path != "/metrics":
            return _not_found("/metrics")
        text = prometheus_text(metrics.read(), process=settings.process)
        return HttpResponse(text.encode(), content_type=CONTENT_TYPE)

    port = HttpPort(answer, on_failure)
    number = await port.listen(settings.address, settings.port, "the metrics port")
    log.info("metrics are served", url=f"http://{settings.address}:{number}/metrics")
    return port


class _Pages:
    """HTTP handler for the paths below the admin server's URL."""

    def __init__(self, command_url: str, commands: AdminCommands) -> None:
        self._root = command_url
        self._commands = commands

    async def answer(self, request: HttpRequest) -> HttpResponse:
        root, path = self._root, request.path.rstrip("/")
        if path == root:
            links = "".join(f'<a href="{root}/{name}">{name}</a>\n<br/>\n' for name in self._commands.names)
            return HttpResponse(links.encode(), content_type="text/html; charset=utf-8")
        if not path.startswith(f"{root}/"):
            return _not_found(root)
        name = path.removeprefix(f"{root}/")
        answer = await self._commands.run(name, request)
        if answer.file is not None:
            return HttpResponse(b"", answer.status, "application/octet-stream", answer.headers, answer.file)
        return HttpResponse(_printed(answer.body), answer.status, headers=answer.headers, then=answer.then)


def _printed(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, indent=2, separators=(",", " : ")).encode() + b"\n"


def _not_found(root: str) -> HttpResponse:
    return HttpResponse(_printed({"error": f"there is nothing here; see {root}"}), 404)

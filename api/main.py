"""Entry point of the API's process."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, cast

import structlog
import uvicorn

from zabka.agent.bounded_http import BoundedConnection
from zabka.agent.loopback import loopback
from zabka.agent.protocol import API_NODE, NEWER_STATE
from zabka.agent.quiet_server import QuietServer
from zabka.agent.token_file import read_token
from zabka.api.analytics.jobs import Jobs
from zabka.api.app import create_app
from zabka.api.collector.agents import Agent, Agents
from zabka.api.collector.collector import Collector
from zabka.api.collector.joined_brokers import JoinedBrokers
from zabka.api.collector.numbered import NewerHistory
from zabka.api.kafka.cluster_admin import KafkaAdmin
from zabka.api.kafka.workloads import WorkloadManager
from zabka.api.runs.catalogue import Runs
from zabka.api.runs.kept import KeptRuns
from zabka.api.scenarios.forecasts import Forecasts
from zabka.api.scenarios.process import ScenarioProcess
from zabka.api.scenarios.runs import Here, ScenarioRuns
from zabka.api.services import Services
from zabka.api.settings import Settings, load_settings
from zabka.api.views.cluster import Views
from zabka.api.views.ensemble_view import EnsembleView
from zabka.broker_sim.client_security import ClientConfig, read_client_config
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.ensemble.runtime.node_process import LogStream
from zabka.ensemble.server.config.client_context import client_context
from zabka.ensemble.server.config.tls_stores import BadStore, Store
from zabka.journal.events import Event
from zabka.journal.writer import JournalWriter

LOOPBACK = "127.0.0.1"
ANYWHERE = ("", "0.0.0.0", "::")
STREAMS_END_S = 2
"""Maximum time for open event streams to end when the API ends."""


def build(settings: Settings, player: Sequence[str]) -> Services:
    """Create the services for these settings. `player` is the `zabka` command line that runs scenarios.

    Raises OSError if a token or directory is not available, and NewerHistory if a newer version of zabka wrote the
    collected history.
    """
    agent_token = read_token(settings.agent_token_file)
    agents = Agents([Agent(address, agent_token) for address in settings.agents])
    collector = Collector(settings.data / "collected", kept_bytes_max=settings.collected_bytes_max)
    runs = Runs(collector, KeptRuns(settings.data / "runs", settings.runs_max, settings.runs_bytes_max))
    ensemble_tls = _ensemble_tls(settings)
    ensemble = EnsembleView(settings.zookeeper_connect, settings.session_timeout_ms, ensemble_tls)
    views = Views(settings, agents, ensemble, collector)
    kafka = ClientConfig() if settings.security is None else read_client_config(settings.security.client_properties)
    admin = KafkaAdmin(settings.bootstrap, settings.session_timeout_ms, kafka.security)
    journal = JournalWriter(settings.data / "journal", API_NODE)
    workloads = WorkloadManager(settings.bootstrap, settings.zookeeper_connect, journal, ensemble_tls, kafka.security)

    def emit(event: Event) -> None:
        journal.write(event)
        journal.flush()

    joined = JoinedBrokers(settings.brokers, emit, collector.state)
    process = ScenarioProcess(player)
    scenarios = ScenarioRuns(process, runs.kept, _here(settings))
    return Services(
        settings=settings,
        agents=agents,
        ensemble=ensemble,
        collector=collector,
        views=views,
        admin=admin,
        workloads=workloads,
        joined=joined,
        scenarios=scenarios,
        runs=runs,
        forecasts=Forecasts(process),
        emit=emit,
        jobs=Jobs(player, settings.cluster_data, settings.data),
        ensemble_tls=ensemble_tls,
    )


def _here(settings: Settings) -> Here:
    """Return how a process on this machine can access the API: its URL, and the token file if a token is required."""
    host = LOOPBACK if settings.host in ANYWHERE else settings.host
    scheme = "http" if settings.security is None else "https"
    url = f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"
    return Here(url, settings.token_file if _needs_token(settings) else None)


def _needs_token(settings: Settings) -> bool:
    return settings.security is not None or not loopback(settings.host)


def _ensemble_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of connections to peers, or None for plain text. Raises ValueError for unusable stores."""
    security = settings.security
    if security is None:
        return None
    try:
        return client_context(Store(security.authority, "PEM", ""), Store(security.certificate, "PEM", ""))
    except BadStore as bad:
        raise ValueError(f"the certificates in {security.directory} cannot be used: {bad}") from None


def main(config: Path, player: Sequence[str]) -> int:
    """Run the API until SIGTERM or SIGINT, and return the exit code.

    `player` is the `zabka` command line that runs scenarios.
    """
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer(colors=False),
        ],
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, LogStream())),
    )
    try:
        settings = load_settings(config)
        token = read_token(settings.token_file) if _needs_token(settings) else None
        services = build(settings, player)
    except (ConfigError, OSError, ValueError) as reason:
        print(f"zabka: the API cannot start: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    except NewerHistory as reason:
        print(f"zabka: the API cannot start: {reason}", file=sys.stderr)  # noqa: T201
        return NEWER_STATE
    security = settings.security
    if security is not None:
        # Child processes call this server, and verify it with the cluster's own authority.
        os.environ["SSL_CERT_FILE"] = str(security.authority)
    server = QuietServer(
        uvicorn.Config(
            create_app(services, token),
            host=settings.host,
            port=settings.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=STREAMS_END_S,
            server_header=False,
            http=BoundedConnection,
            ws="none",
            ssl_certfile=None if security is None else security.certificate,
        )
    )
    server.run()
    return 0 if server.started else 1

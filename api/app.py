"""Creates the FastAPI application, with routes, error responses, access checks and the page, from the services."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from zabka.agent.bounded_http import BodyLimit
from zabka.agent.loopback import loopback, names_of
from zabka.api.http import dashboard, docs_page, page, problems, source_page
from zabka.api.http.request_journal import RequestJournal
from zabka.api.http.security import Gate
from zabka.api.routes import (
    campaigns,
    exports,
    faults,
    groups,
    health,
    jobs,
    journal,
    lessons,
    losses,
    messages,
    nodes,
    resets,
    runs,
    scenarios,
    security,
    topic_records,
    topics,
    transactions,
    what_if,
)
from zabka.api.services import Services

DESCRIPTION = """A Kafka control plane that you can break on purpose, watch and rewind.

Every error is an RFC 9457 problem document.  When the server is not on loopback, or the cluster is secured, calls that
change something, or read records or ACLs, need `Authorization: Bearer <token>`; `zabka up` prints where the token is
stored.
"""
TAGS = [
    {"name": "cluster", "description": "The whole cluster and its controller"},
    {"name": "ensemble", "description": "The ZAB ensemble: peers and znodes"},
    {"name": "brokers", "description": "Brokers, and actions on their processes"},
    {"name": "topics", "description": "Topics, their configuration, leader elections"},
    {"name": "groups", "description": "Consumer groups, with their members, committed offsets and lag"},
    {"name": "transactions", "description": "Open transactions, and the consumers that wait for them"},
    {"name": "security", "description": "Listeners of the brokers, their authorizer, and the ACLs"},
    {"name": "workloads", "description": "Producers and consumers that the API process runs"},
    {"name": "faults", "description": "Faults of links and requests"},
    {"name": "losses", "description": "Lost records, and their acknowledgement by a user"},
    {"name": "scenarios", "description": "The outage library, run in a simulated world"},
    {"name": "what-if", "description": "Forecasts: what would happen to the live cluster if a node died now"},
    {"name": "lessons", "description": "Outages to predict, and the answers from their runs"},
    {"name": "campaigns", "description": "Campaigns that compare settings, audits, and the state of the tables"},
    {"name": "runs", "description": "Recorded histories: of the live cluster, and stored runs"},
    {"name": "journal", "description": "Events and tables"},
    {"name": "health", "description": "Health checks and metrics"},
]


def create_app(services: Services, token: str | None) -> FastAPI:
    """Create the application. `token` is None if no token is required (on loopback, without --secure)."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with services.running():
            yield

    app = FastAPI(
        title="zabka",
        version="1",
        description=DESCRIPTION,
        openapi_tags=TAGS,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    problems.install(app)
    for module in (
        health, nodes, topics, faults, scenarios, runs, messages, exports,
        lessons, journal, campaigns, losses, transactions, groups, topic_records, jobs, security, what_if,
        resets,
    ):  # fmt: skip
        app.include_router(module.router)
    for router in dashboard.routers():
        app.include_router(router)
    problems.describe(app)
    docs_page.install(app)
    source_page.install(app)
    settings = services.settings
    web = settings.web or page.WEB
    dashboard.install(app, web, page.find_libraries(settings.node_modules))
    app.add_middleware(RequestJournal, emit=services.emit)
    app.add_middleware(BodyLimit, larger={runs.UPLOADS: settings.upload_bytes_max})
    # Compress every response except the event stream, which must not be buffered. Compression levels above 5 take three
    # times as long and save only 10 % more.
    app.add_middleware(GZipMiddleware, compresslevel=5)
    app.add_middleware(
        Gate,
        hosts=[*settings.allowed_hosts, *names_of(settings.host)],
        token=token,
        policy=page.policy(page.index(web)),
        addresses=not loopback(settings.host),
    )
    return app

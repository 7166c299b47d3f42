"""The dashboard, an optional part of the HTTP API: the page, its event stream, and the metrics.

The dashboard needs the packages of the extra `zabka[dashboard]`. If packages are missing, the dashboard's URLs respond
with the names of the packages and the command that installs them.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

from zabka.api.http import page
from zabka.api.http.problems import Problem
from zabka.ensemble.runtime.extras import install_command, is_installed, sentence

EXTRA = "dashboard"
STREAM_ROUTE, METRICS_ROUTE = "/api/v1/events", "/metrics"


def routers() -> list[APIRouter]:
    """Return the routes of the event stream and the metrics, or routes that report the missing extra."""
    if not is_installed(EXTRA):
        return [_absent()]
    from zabka.api.routes import metrics as routes_metrics
    from zabka.api.routes import stream as routes_stream

    return [routes_metrics.router, routes_stream.router]


def install(app: FastAPI, web: Path, libraries: Path | None) -> None:
    """Serve the page, or a page with the install command if the page is not installed."""
    if is_installed(EXTRA):
        page.install(app, web, libraries)
        return

    @app.get("/", include_in_schema=False)
    async def no_page() -> HTMLResponse:
        return HTMLResponse(_WITHOUT_PAGE, headers={"cache-control": "no-cache"})


_WITHOUT_PAGE = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>zabka</title>
<h1>zabka</h1>
<p>The cluster is running, but its page is not installed. Run <code>{install_command(EXTRA)}</code>, then start
the cluster again. The HTTP API is described in <a href="/docs">/docs</a>.</p></html>"""


def _absent() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(STREAM_ROUTE)
    async def no_stream() -> None:
        raise _problem("the stream of events is")

    @router.get(METRICS_ROUTE)
    async def no_metrics() -> None:
        raise _problem("the metrics are")

    return router


def _problem(what: str) -> Problem:
    return Problem(501, sentence(EXTRA, what), command=install_command(EXTRA))

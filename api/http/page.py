"""Serves the dashboard page: its files, its JavaScript library, and the sentence templates for journal events.

The library comes from the installed package or from node_modules. This module also defines the page's
Content-Security-Policy.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from zabka.journal.sentence_file import SENTENCES

WEB = Path(__file__).parents[1] / "web"
LIBRARIES = ("lit-html",)
_IMPORT_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)
_PLACEHOLDER = """<!doctype html><html lang="en"><meta charset="utf-8"><title>zabka</title>
<h1>zabka</h1>
<p>The page's files are not installed; the API is described in <a href="/docs">/docs</a>.</p></html>"""


class _Files(StaticFiles):
    """Static files that a browser revalidates each time, so that an upgraded page does not load old modules.

    Range requests are ignored, and the whole file is sent: the files are small, and Starlette's responses to invalid
    ranges are not problem documents.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [header for header in scope["headers"] if header[0] != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        response.headers["accept-ranges"] = "none"
        return response


def find_libraries(requested: Path | None) -> Path | None:
    """Return the folder of the page's libraries, or None.

    Searched in order: `requested`, the installed package, and `node_modules` in the source tree or the working
    directory.
    """
    here = Path(__file__).parents[1]
    for base in (requested, here / "page_libraries", here.parents[1] / "node_modules", Path("node_modules")):
        if base is not None and (base / "lit-html" / "lit-html.js").is_file():
            return base
    return None


def index(web: Path) -> str:
    """Return the page's HTML."""
    path = web / "index.html"
    return path.read_text() if path.is_file() else _PLACEHOLDER


def policy(html: str) -> str:
    """Return the Content-Security-Policy.

    The policy allows only content of the same origin. The only inline code that it allows is the import map, which is
    identified by its hash.
    """
    match = _IMPORT_MAP.search(html)
    script = "'self'"
    if match is not None:
        digest = base64.b64encode(hashlib.sha256(match.group(1).encode()).digest()).decode()
        script += f" 'sha256-{digest}'"
    return (
        f"default-src 'self'; script-src {script}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def install(app: FastAPI, web: Path, node_modules: Path | None) -> None:
    """Serve the page at /, its files and the sentence templates for events at /web, and its library at /lib."""

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(index(web), headers={"cache-control": "no-cache"})

    @app.get("/web/sentences.json", include_in_schema=False)
    async def sentences() -> Response:
        return Response(SENTENCES.read_bytes(), media_type="application/json", headers={"cache-control": "no-cache"})

    app.mount("/web", _Files(directory=web, check_dir=False), name="web")
    for name in LIBRARIES:
        if node_modules is not None:
            app.mount(f"/lib/{name}", _Files(directory=node_modules / name), name=f"lib-{name}")

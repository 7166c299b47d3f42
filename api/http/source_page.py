"""Shows the source code of the functions that rules refer to as their implementation.

There is one page for each module with such functions, with line numbers and anchors. Other modules are not available.
"""

from __future__ import annotations

from html import escape

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from zabka.api.http.problems import Problem
from zabka.journal.rules import RULES
from zabka.journal.rules.source_lines import definitions, file_of

NAMED = frozenset(rule.source.path for pairs in RULES.values() for _, rule in pairs)


def install(app: FastAPI) -> None:
    """Serve the modules at /source."""

    @app.get("/source/{path:path}", include_in_schema=False)
    def source(path: str) -> HTMLResponse:
        if path not in NAMED or not file_of(path).is_file():
            raise Problem(404, f"no rule names {path}")
        return HTMLResponse(page(path, file_of(path).read_text()), headers={"cache-control": "no-cache"})


def page(path: str, text: str) -> str:
    """Render a module. `#symbol` is the anchor of a definition, `#L12` the anchor of a line."""
    anchors = {line: symbol for symbol, line in definitions(text).items()}
    lines = "".join(_line(number, line, anchors.get(number)) for number, line in enumerate(text.splitlines(), 1))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/web/css/base.css"><link rel="stylesheet" href="/web/css/source.css">'
        f'<title>{escape(path)}</title></head><body class="source"><header><h1>{escape(path)}</h1>'
        f'<a href="/">The dashboard</a></header><main><pre><code>{lines}</code></pre></main></body></html>'
    )


def _line(number: int, text: str, symbol: str | None) -> str:
    begun = f'<span id="{escape(symbol)}" class="begins"></span>' if symbol else ""
    return f'{begun}<span class="line" id="L{number}"><a href="#L{number}">{number}</a>{escape(text)}\n</span>'
